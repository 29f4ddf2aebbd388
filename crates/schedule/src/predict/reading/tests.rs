use super::*;
use jostle_profile as profile;
use jostle_profile::CurvePoint;
use jostle_profile::Direction;
use jostle_profile::Score;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

static TEMPLATE: LazyLock<Profile> = LazyLock::new(|| {
    let json = include_str!("../../../../../tests/fixtures/profiles/web.json");
    serde_json::from_str(json).unwrap()
});

fn lane_of(id: &str) -> usize {
    lane(id).unwrap()
}

fn point(intensity: f64, performance: f64, half: f64) -> CurvePoint {
    CurvePoint {
        intensity,
        requested: None,
        performance,
        ci95: [performance - half, performance + half],
        pressure: None,
        windows: 10,
    }
}

fn score(score: f64, ci95: [f64; 2]) -> Option<Score> {
    Some(Score { score, ci95 })
}

fn entry(status: Status) -> ResourceEntry {
    ResourceEntry::without_numbers(status, "for a test")
}

fn read(entry: ResourceEntry) -> Responses {
    read_of("llc-capacity", entry)
}

fn read_of(id: &str, entry: ResourceEntry) -> Responses {
    let mut profile = TEMPLATE.clone();
    profile.resources.clear();
    profile.resources.insert(id.into(), entry);
    Responses::from_profile(&profile)
}

fn curve(responses: &Responses) -> &Curve {
    &responses.curves[0]
}

/// Performance and standard deviation of its logarithm.
fn at(responses: &Responses, pressure: f32) -> (f64, f64) {
    let (ln, variance, _) = curve(responses).at(pressure);
    (f64::from(ln).exp(), f64::from(variance).sqrt())
}

#[test]
fn a_well_measured_curve_is_read_as_it_stands() {
    let mut entry = entry(Status::Measured);
    entry.curve = vec![
        point(100.0, 0.5, 0.005),
        point(40.0, 0.8, 0.008),
        point(80.0, 0.6, 0.006),
    ];
    let responses = read(entry);
    for (pressure, performance) in [(0.0, 1.0), (40.0, 0.8), (80.0, 0.6), (100.0, 0.5)] {
        let (found, sd) = at(&responses, pressure);
        assert!((found - performance).abs() < 1e-4, "{pressure}: {found}");
        if pressure > 0.0 {
            assert!((sd - 0.01 / 1.96).abs() < 1e-4, "1 % of each: {sd}");
        }
    }
    // Between, straight in the logarithm, and less sure: nobody looked there.
    let (found, sd) = at(&responses, 60.0);
    assert!((found - (0.8f64 * 0.6).sqrt()).abs() < 1e-3, "{found}");
    let fall = (0.8f64 / 0.6).ln();
    let expected = (0.5 * (0.01f64 / 1.96).powi(2) + fall * fall / 12.0).sqrt();
    assert!((sd - expected).abs() < 1e-3, "{sd} {expected}");
}

#[test]
fn points_that_rise_by_noise_meet_and_do_not_drag_the_curve_down() {
    // A running minimum would say 0.90 from 50 on.
    let mut entry = entry(Status::Measured);
    entry.curve = vec![
        point(50.0, 0.90, 0.04),
        point(75.0, 0.94, 0.04),
        point(100.0, 0.92, 0.04),
    ];
    let (found, _) = at(&read(entry), 100.0);
    assert!((0.915..0.93).contains(&found), "{found}");
}

#[test]
fn a_loss_within_noise_is_drawn_to_none_and_keeps_its_width() {
    let mut small = entry(Status::Measured);
    small.curve = vec![point(100.0, 0.99, 0.03)];
    let (found, sd) = at(&read(small), 100.0);
    assert_eq!(found, 1.0);
    assert!((sd - 0.03 / 0.99 / 1.96).abs() < 1e-3, "{sd}");
    let mut gain = entry(Status::Measured);
    gain.curve = vec![point(100.0, 1.04, 0.02)];
    let (found, sd) = at(&read(gain), 100.0);
    assert!(found == 1.0 && sd > 0.0);
    // z = 10: a hundredth of the logarithm is given away.
    let mut sure = entry(Status::Measured);
    sure.curve = vec![point(100.0, 0.8, 0.0)];
    let sd = -(0.8f64.ln()) / 10.0;
    sure.curve[0].ci95 = [0.8 * (-1.96 * sd).exp(), 0.8 * (1.96 * sd).exp()];
    let (found, _) = at(&read(sure), 100.0);
    assert!((found.ln() - 0.99 * 0.8f64.ln()).abs() < 1e-5, "{found}");
}

#[test]
fn a_lopsided_interval_counts_with_both_halves() {
    let mut lopsided = entry(Status::Measured);
    lopsided.curve = vec![point(100.0, 0.5, 0.0)];
    lopsided.curve[0].ci95 = [0.5 * (-0.3f64).exp(), 0.5 * 0.1f64.exp()];
    let (_, sd) = at(&read(lopsided), 100.0);
    let expected = ((0.3f64.powi(2) + 0.1f64.powi(2)) / 2.0).sqrt() / 1.96;
    assert!((sd - expected).abs() < 1e-4, "{sd} {expected}");
}

#[test]
fn a_threshold_alone_is_a_line_as_wide_as_its_interval() {
    let mut narrow = entry(Status::Inferred);
    narrow.tolerated = score(40.0, [39.0, 41.0]);
    let mut wide = narrow.clone();
    wide.tolerated = score(40.0, [20.0, 80.0]);
    let (narrow, wide) = (read(narrow), read(wide));
    // The web fixture must keep 95 %.
    assert!((at(&narrow, 40.0).0 - 0.95).abs() < 1e-4);
    assert!((at(&narrow, 20.0).0 - 0.95f64.sqrt()).abs() < 1e-3);
    assert!(at(&wide, 40.0).1 > 2.0 * at(&narrow, 40.0).1);
    assert!(at(&narrow, 40.0).1 > 0.0, "inferred is never a point");
    // Beyond: the line goes on, −ln 0.95 · 2.5, give or take what it adds.
    let more = -(0.95f64.ln()) * 1.5;
    let (found, sd) = at(&narrow, 100.0);
    assert!((found.ln() - (0.95f64.ln() - more)).abs() < 1e-4, "{found}");
    assert!(sd >= more * 0.999, "{sd}");
    let mut never = entry(Status::Inferred);
    never.tolerated = score(100.0, [90.0, 100.0]);
    let (found, sd) = at(&read(never), 100.0);
    assert_eq!(found, 1.0);
    // At worst, with 97.5 %, the QoS is lost at 90.
    assert!((sd - -(0.95f64.ln()) / 0.9 / 1.96).abs() < 1e-3, "{sd}");
}

#[test]
fn without_numbers_nothing_is_known() {
    for status in [Status::Unresolved, Status::Unavailable, Status::NotShared] {
        let responses = read(entry(status));
        assert!(responses.known.is_empty() && responses.caused_known.is_empty());
    }
}

#[test]
fn what_lies_beyond_the_last_point_is_extrapolated_and_wide() {
    let mut part = entry(Status::Unresolved);
    part.curve = vec![point(50.0, 0.9, 0.001)];
    let responses = read(part);
    let (found, sd) = at(&responses, 100.0);
    assert!((found - 0.81).abs() < 1e-3, "{found}");
    assert!((sd - -(0.9f64.ln())).abs() < 2e-3, "{sd}");
}

#[test]
fn the_equivalent_intensity_is_what_presses() {
    let mut both = entry(Status::Measured);
    both.caused = score(90.0, [85.0, 95.0]);
    let caused = |entry: &ResourceEntry| {
        let responses = read_of("l2-capacity", entry.clone());
        let at = lane_of("l2-capacity");
        (responses.caused[at], responses.caused_sd[at])
    };
    let (points, sd) = caused(&both);
    assert_eq!(points, 90.0);
    assert!((sd - 5.0 / 1.96).abs() < 1e-3);
    both.equivalent_intensity = Some(30.0);
    assert_eq!(caused(&both).0, 30.0);
    // Its error is that of the loss it matches: 10 % of it.
    let mut probe = point(100.0, 0.8, 0.0);
    let ln = 0.8f64.ln();
    probe.ci95 = [(1.196 * ln).exp(), (0.804 * ln).exp()];
    both.probe_curve = vec![probe];
    assert!((caused(&both).1 - 3.0).abs() < 1e-3, "{:?}", caused(&both));
}

#[test]
fn without_a_score_the_source_itself_tells_what_is_caused() {
    let caused = |points: Vec<CurvePoint>| {
        let mut entry = entry(Status::Unresolved);
        entry.probe_curve = points;
        let responses = read_of("llc-bandwidth", entry);
        let at = lane_of("llc-bandwidth");
        responses
            .caused_known
            .contains(at)
            .then(|| (responses.caused[at], responses.caused_sd[at]))
    };
    assert_eq!(caused(vec![]), None);
    // Half is lost at 100: ln 0.95 / ln 0.5 of the way, if the line is straight.
    let (points, sd) = caused(vec![point(100.0, 0.5, 0.005)]).unwrap();
    assert!((f64::from(points) - (100.0 - 7.4)).abs() < 0.1, "{points}");
    // 100 · √(0.074 · 0.926 / 3).
    assert!((sd - 15.1).abs() < 0.1, "nobody looked between: {sd}");
    // Bracketed between 50 and 60.
    let (points, sd) = caused(vec![
        point(50.0, 0.99, 0.001),
        point(60.0, 0.90, 0.001),
        point(100.0, 0.5, 0.001),
    ])
    .unwrap();
    assert!((40.0..50.0).contains(&points) && sd <= 5.1, "{points} {sd}");
    // Hardly touched.
    let (points, sd) = caused(vec![point(100.0, 0.99, 0.002)]).unwrap();
    assert_eq!((points, sd), (0.0, 5.0));
}

#[test]
fn gains_beside_a_placebo_elsewhere_are_drawn_to_none() {
    let gained = |mode: PlacementMode, ln: f64, half: f64| {
        let mut one = entry(Status::Measured);
        let ends = [ln - half, ln + half].map(f64::exp);
        one.placement = Some(profile::Placement {
            mode,
            cpus: vec![1],
        });
        one.sharing_cost = Some(profile::Estimate {
            value: ln.exp(),
            ci95: ends,
        });
        let mut profile = TEMPLATE.clone();
        profile.resources.clear();
        profile.resources.insert("memory-bandwidth".into(), one);
        gains(&profile, 0.3)
    };
    let (well, _) = gained(PlacementMode::SameNuma, 0.07, 0.01);
    assert!((well - 0.07).abs() < 0.001, "{well}");
    // As uncertain as gains differ: half of it.
    let (hardly, variance) = gained(PlacementMode::SameNuma, 0.07, Z95 * 0.7 * GAINS);
    assert!((hardly - 0.035).abs() < 0.001 && variance > 0.0, "{hardly}");
    // A loss is no gain, and slices on the target's CPU are another thing.
    assert_eq!(gained(PlacementMode::SameNuma, -0.1, 0.01).0, 0.0);
    assert_eq!(gained(PlacementMode::SameCpu, 0.07, 0.01), (0.0, 0.0));
}

#[test]
fn which_way_the_metric_is_better_does_not_matter() {
    let mut profile = TEMPLATE.clone();
    let as_is = Responses::from_profile(&profile);
    profile.metric.direction = Direction::Higher;
    assert_eq!(Responses::from_profile(&profile), as_is);
}

#[test]
fn the_recorded_profiles_read_sensibly() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let profiles = profile::load_dir(&root).unwrap();
    assert!(profiles.len() >= 20);
    let mut seen = 0;
    for (path, profile) in &profiles {
        let responses = Responses::from_profile(profile);
        let known = profile.resources.values();
        let known = known.filter(|entry| !entry.curve.is_empty()).count();
        let said = path.display();
        assert_eq!(responses.curves.is_empty(), known == 0, "{said}");
        for curve in &responses.curves {
            let id = crate::predict::resource_id(curve.lane());
            // These are read at the length of the scheduler's turns.
            if crate::predict::core_private(curve.lane()) && id != "cpu-time" {
                continue;
            }
            let entry = &profile.resources[id];
            for point in entry.curve.iter().filter(|point| point.intensity == 100.0) {
                let (ln, variance, _) = curve.at(100.0);
                let sd = f64::from(variance).sqrt();
                // A curve does not rise again where less pressure seemed to cost more.
                let ends = entry.curve.iter().map(|point| point.ci95[0]);
                let lowest = ends.fold(point.ci95[0], f64::min);
                let [low, high] = [lowest, point.ci95[1]].map(|end| end.max(FLOOR).ln());
                assert!(
                    // Nobody is believed to be faster beside a neighbour.
                    f64::from(ln) >= low.min(0.0) - 2.0 * sd
                        && f64::from(ln) <= high.min(0.0) + 2.0 * sd,
                    "{} {id}: {ln} ± {sd} against {:?}",
                    path.display(),
                    point.ci95
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn where_a_loss_begins_is_open_between_nothing_and_its_end() {
    let mut entry = entry(Status::Unresolved);
    // 42 % kept at 100, and nothing looked at below.
    entry.curve = vec![point(100.0, 0.42, 0.06)];
    entry.sensitive = Some(true);
    let responses = read(entry);
    assert!((at(&responses, 100.0).0 - 0.42).abs() < 0.02);
    assert!(at(&responses, 50.0).1 > 0.2, "not looked at midway");
}

proptest! {
    #[test]
    fn any_curve_falls_from_one_and_is_finite(
        points in vec((0.0f64..=100.0, -0.5f64..3.0, 0.0f64..1.0, 0.0f64..1.0), 0..12),
        tolerated in proptest::option::of((0.0f64..=100.0, 0.0f64..100.0, 0.0f64..100.0)),
        caused in proptest::option::of((0.0f64..=100.0, 0.0f64..100.0, 0.0f64..100.0)),
        equivalent in proptest::option::of(0.0f64..=100.0),
        inferred in any::<bool>(),
        qos in 0.01f64..=1.0,
    ) {
        let mut entry = entry(if inferred { Status::Inferred } else { Status::Measured });
        let to_score = |(at, below, above): (f64, f64, f64)| Score { score: at, ci95: [at - below, at + above] };
        entry.tolerated = tolerated.map(to_score);
        entry.caused = caused.map(to_score);
        entry.equivalent_intensity = equivalent;
        entry.curve = points
            .iter()
            .map(|(intensity, performance, below, above)| CurvePoint {
                ci95: [performance - below, performance + above],
                ..point(*intensity, *performance, 0.0)
            })
            .collect();
        entry.probe_curve = entry.curve.clone();
        let mut profile = TEMPLATE.clone();
        profile.qos.threshold = qos;
        profile.resources.clear();
        profile.resources.insert("llc-capacity".into(), entry);
        let responses = Responses::from_profile(&profile);
        let lane = lane_of("llc-capacity");
        for curve in &responses.curves {
            let mut last = 0.0;
            for step in 0..=200 {
                let (ln, variance, slope) = curve.at(step as f32 / 2.0);
                prop_assert!(ln.is_finite() && variance.is_finite() && slope.is_finite());
                prop_assert!(ln <= last + 1e-6 && variance >= 0.0 && slope <= 0.0, "{step}: {ln} {last}");
                last = ln;
            }
            prop_assert_eq!(curve.at(0.0).0, 0.0);
        }
        if responses.caused_known.contains(lane) {
            let (points, sd) = (responses.caused[lane], responses.caused_sd[lane]);
            prop_assert!((0.0..=100.0).contains(&points));
            prop_assert!(sd.is_finite() && sd >= 1.0);
        }
    }
}

/// It reads nothing twice; the source reads back what the stream evicts.
#[test]
fn who_streams_loses_nothing_to_who_holds_the_last_level_cache() {
    let json = include_str!("../../../../../profiles/numpy-stream.json");
    let mut stream: Profile = serde_json::from_str(json).unwrap();
    let costs = |profile: &Profile, resource: Resource| {
        let responses = Responses::completed(profile, Population::bundled());
        let mut curves = responses.curves.iter();
        let curve = curves.find(|curve| curve.lane() == resource as usize);
        curve.map_or(0.0, |curve| 1.0 - f64::from(curve.at(100.0).0).exp())
    };
    assert_eq!(costs(&stream, Resource::LlcCapacity), 0.0);
    assert!(costs(&stream, Resource::MemoryBandwidth) > 0.2);
    // Another of its processes has the CPU of the sources: they say nothing.
    let near = Resource::LlcBandwidth.id();
    let near = stream.resources.get_mut(near).unwrap();
    near.probe_curve = vec![point(100.0, 0.5, 0.02)];
    assert!(costs(&stream, Resource::LlcCapacity) > 0.2);
}
