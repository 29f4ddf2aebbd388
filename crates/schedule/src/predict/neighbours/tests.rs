use super::*;
use crate::predict::Curve;
use crate::predict::GRID_STEP;
use crate::predict::LANES;
use crate::predict::Lanes;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::Distribution;
use rand_distr::Normal;

/// A line in the logarithm: `slope` per point, with variance (`sd` at 100)² in
/// proportion to the square of the intensity.
fn line(lane: usize, slope: f32, sd: f32) -> Curve {
    let place = |step: usize| step as f32 * GRID_STEP;
    Curve::new(
        lane,
        std::array::from_fn(|step| slope * place(step)),
        std::array::from_fn(|step| (sd * place(step) / 100.0).powi(2)),
    )
}

fn caused(entries: &[(usize, f32, f32)]) -> Lanes<Option<(f32, f32)>> {
    let mut caused = [None; LANES];
    for (lane, points, sd) in entries {
        caused[*lane] = Some((*points, *sd));
    }
    caused
}

fn subject<'a>(name: &'a str, responses: &'a Responses) -> Subject<'a> {
    Subject {
        name,
        responses,
        counted: LaneSet::ALL,
        qos: 0.95,
    }
}

/// With nothing left unexplained.
fn together(subjects: &[Subject]) -> Vec<Prediction> {
    co_location(subjects, false)
}

#[test]
fn pressures_add_up_to_the_cap_and_losses_multiply() {
    // Lane 3 costs e^(−0.002 p), lane 5 e^(−0.001 p).
    let victim = Responses::new(
        vec![line(3, -0.002, 0.0), line(5, -0.001, 0.0)],
        LaneSet::EMPTY,
        &caused(&[(3, 0.0, 0.0), (5, 0.0, 0.0)]),
    );
    let one = Responses::new(
        vec![],
        LaneSet::ALL,
        &caused(&[(3, 30.0, 0.0), (5, 70.0, 0.0)]),
    );
    let two = Responses::new(
        vec![],
        LaneSet::ALL,
        &caused(&[(3, 20.0, 0.0), (5, 60.0, 0.0)]),
    );
    let found = together(&[
        subject("v", &victim),
        subject("a", &one),
        subject("b", &two),
    ]);
    // 50 points on lane 3: −0.1; 130, held at 100, on lane 5: −0.1.
    assert!(
        (found[0].performance.unwrap() - (-0.2f64).exp()).abs() < 1e-6,
        "{found:?}"
    );
    assert_eq!(found[0].resources.len(), 2);
    assert_eq!(
        found[0].resources[0].pressure + found[0].resources[1].pressure,
        150.0
    );
    assert_eq!(found[1].performance.unwrap(), 1.0);
    assert_eq!(found[1].most_costly, None);
    assert!(found[0].chance_of_qos.unwrap() < 0.01 && found[1].chance_of_qos.unwrap() > 0.99);
}

#[test]
fn uncertainty_of_pressures_adds_in_squares() {
    let victim = Responses::new(vec![line(3, -0.004, 0.0)], LaneSet::EMPTY, &caused(&[]));
    let (one, two) = (caused(&[(3, 20.0, 3.0)]), caused(&[(3, 20.0, 4.0)]));
    let one = Responses::new(vec![], LaneSet::ALL, &one);
    let two = Responses::new(vec![], LaneSet::ALL, &two);
    let found = together(&[
        subject("v", &victim),
        subject("a", &one),
        subject("b", &two),
    ]);
    let [low, high] = found[0].ci95.unwrap();
    let sd = found[0].resources[0].pressure_sd;
    assert!((sd - 5.0).abs() < 1e-6, "√(3² + 4²)");
    let sd = (high / low).ln() / 3.92;
    assert!((sd - 0.004 * 5.0).abs() < 1e-4, "{sd}");
}

#[test]
fn without_any_curve_there_is_no_basis_and_a_population_is_one() {
    let nothing = Responses::default();
    let other = Responses::new(vec![], LaneSet::ALL, &caused(&[(3, 50.0, 0.0)]));
    let found = together(&[subject("v", &nothing), subject("o", &other)]);
    assert_eq!((found[0].basis, found[0].performance), (Basis::None, None));
    assert_eq!((found[0].ci95, found[0].chance_of_qos), (None, None));
    assert_eq!(found[1].basis, Basis::Profile);
    let mut typical = Responses::new(vec![line(3, -0.004, 0.1)], LaneSet::EMPTY, &caused(&[]));
    typical.assumed.insert(3);
    let found = together(&[subject("v", &typical), subject("o", &other)]);
    assert_eq!(found[0].basis, Basis::Population);
    assert!(found[0].resources[0].assumed);
    let [low, high] = found[0].ci95.unwrap();
    assert!(high - low > 0.1, "{low} {high}");
}

#[test]
fn beyond_the_cap_uncertainty_of_pressure_costs_nothing() {
    let victim = Responses::new(vec![line(3, -0.004, 0.0)], LaneSet::EMPTY, &caused(&[]));
    let much = Responses::new(vec![], LaneSet::ALL, &caused(&[(3, 100.0, 2.0)]));
    let found = together(&[
        subject("v", &victim),
        subject("a", &much),
        subject("a", &much),
    ]);
    let [low, high] = found[0].ci95.unwrap();
    assert!((found[0].performance.unwrap() - (-0.4f64).exp()).abs() < 1e-6);
    assert!((high - low) < 1e-3, "200 ± 4 is 100 for certain: {found:?}");
}

#[test]
fn what_is_not_known_and_could_matter_is_said() {
    // Lane 3 bends, lane 4 is known to be flat, lane 6 is not known.
    let victim = Responses::new(
        vec![line(3, -0.004, 0.0)],
        [4].into_iter().collect(),
        &caused(&[]),
    );
    let other = Responses::new(
        vec![],
        LaneSet::ALL,
        &caused(&[(6, 10.0, 0.0), (7, 0.0, 0.0)]),
    );
    let mut found = together(&[subject("v", &victim), subject("o", &other)]);
    let mine = found.remove(0);
    assert_eq!(mine.performance.unwrap(), 1.0);
    let said: Vec<(&str, Gap, &str)> = mine
        .not_known
        .iter()
        .map(|gap| (gap.resource, gap.half, gap.whose.as_str()))
        .collect();
    // Lane 7 is not known to the victim, but nobody presses there.
    assert!(
        said.contains(&(resource_id(3), Gap::Caused, "o")),
        "{said:?}"
    );
    assert!(said.contains(&(resource_id(6), Gap::Tolerated, "v")));
    assert!(
        !said
            .iter()
            .any(|(id, ..)| [resource_id(4), resource_id(7)].contains(id))
    );
    // The other is flat everywhere: what v causes does not matter to it.
    assert!(found[0].not_known.is_empty(), "{found:?}");
}

#[test]
fn what_does_not_count_for_one_of_them_does_not_press() {
    let victim = Responses::new(vec![line(3, -0.004, 0.0)], LaneSet::ALL, &caused(&[]));
    let other = Responses::new(vec![], LaneSet::ALL, &caused(&[(3, 50.0, 0.0)]));
    let mut quiet = subject("o", &other);
    quiet.counted.remove(3);
    let found = together(&[subject("v", &victim), quiet]);
    assert_eq!(found[0].performance.unwrap(), 1.0);
    assert!(found[0].resources.is_empty() && found[0].not_known.is_empty());
    assert_eq!(
        together(&[subject("v", &victim)])[0].performance.unwrap(),
        1.0
    );
    assert!(together(&[]).is_empty());
}

/// Truths are drawn from just what is believed; the interval must hold 95 %.
#[test]
fn intervals_hold_what_they_say() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let slopes = [
        (2, -0.003f32, 0.05f32),
        (8, -0.002, 0.03),
        (10, -0.0045, 0.04),
    ];
    let pressures = [
        [(2, 35.0f32, 6.0f32), (8, 45.0, 5.0), (10, 20.0, 5.0)],
        [(2, 20.0, 4.0), (8, 30.0, 8.0), (10, 25.0, 4.0)],
    ];
    let victim = Responses::new(
        slopes
            .iter()
            .map(|(l, slope, sd)| line(*l, *slope, *sd))
            .collect(),
        LaneSet::EMPTY,
        &caused(&[]),
    );
    let others = pressures.map(|entries| Responses::new(vec![], LaneSet::ALL, &caused(&entries)));
    let found = together(&[
        subject("v", &victim),
        subject("a", &others[0]),
        subject("b", &others[1]),
    ]);
    let mut draw = |mean: f32, sd: f32| {
        Normal::new(f64::from(mean), f64::from(sd))
            .unwrap()
            .sample(&mut random)
    };
    const DRAWS: usize = 20_000;
    let (mut inside, mut kept) = (0, 0);
    let threshold = found[0].performance.unwrap();
    for _ in 0..DRAWS {
        let mut ln = 0.0;
        for (index, (_, slope, sd)) in slopes.iter().enumerate() {
            let slope = draw(*slope, sd / 100.0);
            let sum: f64 = pressures.iter().map(|p| draw(p[index].1, p[index].2)).sum();
            ln += slope * sum.clamp(0.0, 100.0);
        }
        let truth = ln.exp();
        inside +=
            usize::from((found[0].ci95.unwrap()[0]..=found[0].ci95.unwrap()[1]).contains(&truth));
        kept += usize::from(truth >= threshold);
    }
    let coverage = inside as f64 / DRAWS as f64;
    assert!((0.93..=0.97).contains(&coverage), "{coverage}");
    let kept = kept as f64 / DRAWS as f64;
    assert!(
        (kept - 0.5).abs() < 0.05,
        "the middle is the middle: {kept}"
    );
}

proptest! {
    #[test]
    fn predictions_are_finite_fractions_and_more_company_never_helps(
        slopes in proptest::collection::vec((0usize..LANES, -0.02f32..0.0, 0.0f32..0.2), 1..8),
        pressures in proptest::collection::vec((0usize..LANES, 0.0f32..100.0, 0.0f32..30.0), 0..8),
        company in 1usize..6,
    ) {
        let victim = Responses::new(
            slopes.iter().map(|(l, slope, sd)| line(*l, *slope, *sd)).collect(),
            LaneSet::EMPTY,
            &caused(&[]),
        );
        let other = Responses::new(vec![], LaneSet::ALL, &caused(&pressures));
        let mut last = 1.0f64;
        for size in 0..=company {
            let mut subjects = vec![subject("v", &victim)];
            subjects.extend(std::iter::repeat_n(subject("o", &other), size));
            let found = &together(&subjects)[0];
            let [low, high] = found.ci95.unwrap();
            prop_assert!(found.performance.unwrap().is_finite() && found.performance.unwrap() <= 1.0);
            prop_assert!(low <= found.performance.unwrap() && found.performance.unwrap() <= high && high <= 1.0);
            prop_assert!((0.0..=1.0).contains(&found.chance_of_qos.unwrap()));
            if pressures.iter().all(|(_, _, sd)| *sd == 0.0) {
                prop_assert!(found.performance.unwrap() <= last + 1e-6);
            }
            last = found.performance.unwrap();
        }
    }
}
