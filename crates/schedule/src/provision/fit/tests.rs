use super::*;
use crate::app::App;
use crate::predict::Curve;
use crate::predict::GRID;
use crate::predict::LaneSet;

const LLC: usize = Resource::LlcCapacity as usize;

/// Loses `loss` (ln) at full pressure, in proportion, and causes `caused` points.
fn candidate(name: &str, loss: f32, caused: f32) -> Candidate {
    let ln = std::array::from_fn(|step| -loss * step as f32 / (GRID - 1) as f32);
    let mut points = [None; LANES];
    points[LLC] = Some((caused, 0.0));
    let curves = vec![Curve::new(LLC, ln, [0.0; GRID])];
    let responses = Responses::new(curves, LaneSet::EMPTY, &points);
    let mut full_scale = [None; LANES];
    full_scale[LLC] = Some(32e6);
    let mut measured_to = [0.0; LANES];
    measured_to[LLC] = 100.0;
    Candidate {
        app: App::bare(name, responses),
        count: 1,
        cpus: 1,
        memory_bytes: Some(1 << 30),
        qos: 0.9,
        fingerprint: "here".into(),
        full_scale,
        measured_to,
    }
}

fn supply(cpus: u32, memory_gib: u64, fingerprint: &str, llc: Option<f64>) -> Supply {
    let mut peaks = [None; LANES];
    peaks[LLC] = llc;
    Supply {
        name: format!("{cpus}x{memory_gib}"),
        model: "M".into(),
        fingerprint: fingerprint.into(),
        cpus,
        memory_bytes: Some(memory_gib << 30),
        peaks,
    }
}

const OWN: Question = Question {
    shares_cpus: false,
    step_percent: Some(25.0),
};

#[test]
fn copies_fit_until_one_loses_too_much() {
    // Each neighbour costs 0.2 × 0.1: five of them, 0.1 of ln, leave 0.905.
    let fit = fit(
        &[candidate("a", 0.2, 10.0)],
        &supply(64, 512, "here", None),
        OWN,
    );
    assert_eq!(fit.copies.estimate, 6, "{fit:?}");
    assert_eq!(fit.basis, Basis::Recorded);
    let limit = Limit::Qos {
        application: "a".into(),
        resource: Some("llc-capacity".into()),
    };
    assert_eq!(fit.limit, limit);
    let expected = (-0.2f64 * 0.5).exp();
    assert!(
        (fit.performance[0].performance - expected).abs() < 1e-4,
        "{fit:?}"
    );
    // Ten copies press with 100 points.
    let first = &fit.saturation[0];
    assert_eq!(first.resource, "llc-capacity");
    assert!((first.saturates_at_copies - 10.0).abs() < 1e-3, "{first:?}");
    // A quarter more: a neighbour costs 0.016, so that six fit beside it.
    let step = fit
        .steps
        .iter()
        .find(|it| it.resource == "llc-capacity")
        .unwrap();
    assert_eq!((step.copies, step.extrapolated), (7, false), "{step:?}");
}

#[test]
fn cpus_and_memory_bound_first() {
    let calm = [candidate("a", 0.0, 0.0)];
    let of = |cpus, memory| fit(&calm, &supply(cpus, memory, "here", None), OWN);
    let cpus = of(4, 512);
    assert_eq!((cpus.copies.estimate, cpus.limit), (4, Limit::Cpus));
    assert_eq!(cpus.steps[0].copies, 5, "a quarter more CPUs is one more");
    let memory = of(64, 3);
    assert_eq!(
        (memory.copies.estimate, memory.limit.clone()),
        (3, Limit::Memory)
    );
    assert_eq!(memory.saturation[0].resource, "memory-capacity");
    let nothing = fit(&calm, &supply(0, 8, "here", None), OWN);
    assert_eq!((nothing.copies.estimate, nothing.limit), (0, Limit::Cpus));
}

#[test]
fn a_larger_cache_holds_more_and_says_that_it_was_scaled() {
    let app = [candidate("a", 0.2, 10.0)];
    let larger = fit(&app, &supply(64, 512, "other", Some(64e6)), OWN);
    // Half the pressure by the peaks; as recorded, six.
    assert_eq!(larger.copies.estimate, 11, "{larger:?}");
    assert_eq!((larger.copies.low, larger.copies.high), (6, 11));
    assert_eq!(larger.basis, Basis::Scaled);
    assert!(larger.notes.is_empty(), "{:?}", larger.notes);
    let unknown = fit(&app, &supply(64, 512, "other", None), OWN);
    assert_eq!(unknown.copies.estimate, 6);
    assert!(
        unknown.notes[0].contains("llc-capacity"),
        "{:?}",
        unknown.notes
    );
    let mut both = [unknown, larger];
    rank(&mut both);
    assert_eq!((both[0].copies.estimate, both[0].rank), (11, 1));
    assert_eq!(both[1].rank, 2, "6 at most is less than 11");
    both[1].copies.high = 11;
    rank(&mut both);
    assert_eq!(both[1].rank, 1, "it may hold as many");
}

#[test]
fn a_mix_is_as_large_as_its_counts() {
    let mut mix = [candidate("a", 0.2, 10.0), candidate("b", 0.0, 0.0)];
    mix[1].count = 3;
    let fit = fit(&mix, &supply(12, 512, "here", None), OWN);
    assert_eq!(
        (fit.copies.estimate, fit.limit),
        (3, Limit::Cpus),
        "4 CPUs a copy"
    );
    assert_eq!(fit.performance.len(), 2);
}

#[test]
fn on_shared_cpus_more_fit_than_there_are() {
    let mut calm = candidate("a", 0.0, 0.0);
    let quarter = Some((0.25, 0.0));
    let mut responses = Responses::clone(&calm.app.responses);
    responses.cpu = crate::predict::CpuNeed::of(quarter, Some((0.0, 0.0)), Some(0.25));
    calm.app = App::bare("a", responses);
    let question = Question {
        shares_cpus: true,
        step_percent: None,
    };
    let fit = fit(&[calm], &supply(2, 512, "here", None), question);
    // Four of a quarter fill a CPU.
    assert!((6..=10).contains(&fit.copies.estimate), "{fit:?}");
    assert!(matches!(fit.limit, Limit::Qos { .. }), "{fit:?}");
}
