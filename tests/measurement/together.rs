//! Two sources at once against planted truth, on the mock executor's virtual clock.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use jostle_measure::experiment::executor::BlockRequest;
use jostle_measure::experiment::executor::Sequence;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::executor::WindowError;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use jostle_profile::Interaction;
use jostle_profile::reading::Reading;
use std::time::Duration;

const PAIR: [&str; 2] = ["memory-bandwidth", "l2-capacity"];
/// What is kept beside each of [`PAIR`].
const KEPT: [f64; 2] = [0.8, 0.9];

fn subjects() -> Vec<Subject> {
    let subject = |(number, resource)| Subject {
        resource,
        settle: Duration::from_millis(3),
        window: Duration::from_millis(24),
        switch_cost: Duration::ZERO,
        stoppable: true,
        probe_endpoints: &[100.0],
        probes: false,
        sequence: (resource != "memory-capacity").then_some(Sequence {
            number,
            period: Duration::from_micros(500),
            skip: 2,
            least_skip: 2,
            read: 6,
            slices: resource == "l2-capacity",
            takes_time: false,
        }),
    };
    let resources = [PAIR[0], PAIR[1], "memory-capacity"];
    resources.into_iter().enumerate().map(subject).collect()
}

fn mock(interaction: f64, seed: u64) -> MockExecutor {
    let response = |kept: f64| Response {
        target: Curve::Linear { loss: 1.0 - kept },
        sd: 0.03,
        ..Response::default()
    };
    let responses = [response(KEPT[0]), response(KEPT[1]), response(1.0)];
    let mut mock = MockExecutor::new(&subjects(), &responses, seed);
    mock.plays = true;
    mock.baseline = 1e5;
    mock.interaction = interaction;
    mock
}

/// The first pair of `asked`, and the blocks that were played.
fn run(
    mut mock: MockExecutor,
    asked: [&'static str; 2],
    seed: u64,
) -> (Reading<Interaction>, Vec<BlockRequest>) {
    let settings = Settings {
        budget: Duration::from_secs(20),
        seed,
        together: [Some(asked), None, None, None],
        ..Settings::default()
    };
    let measured = measure(&mut mock, &subjects(), &settings, &mut ());
    let [pair] = &measured.together[..] else {
        panic!("{:?}", measured.together)
    };
    assert_eq!(pair.resources, asked);
    (pair.effect.clone(), mock.played)
}

fn holds(ci95: [f64; 2], value: f64) -> bool {
    (ci95[0]..=ci95[1]).contains(&value)
}

#[test]
#[ignore = "full tier: takes long"]
fn planted_interactions_are_found_and_planted_nulls_are_none() {
    let seeds = 20;
    for (planted, flagged) in [(0.85, 18..=20), (1.0, 0..=2), (1.1, 18..=20)] {
        let (mut covered, mut seen, mut each) = (0, 0, 0);
        for seed in 0..seeds {
            let (effect, _) = run(mock(planted, seed), PAIR, seed);
            let Reading::Value(effect) = effect else {
                panic!("{effect:?}")
            };
            covered += usize::from(holds(effect.factor.ci95, planted));
            seen += usize::from(!holds(effect.factor.ci95, 1.0));
            let kept = effect.each.iter().zip(KEPT);
            each += kept
                .filter(|(found, kept)| holds(found.ci95, *kept))
                .count();
        }
        assert!(covered >= 18, "{planted}: {covered} of {seeds} intervals");
        assert!(flagged.contains(&seen), "{planted}: {seen} of {seeds}");
        assert!(each >= 36, "{planted}: {each} of {} intervals", 2 * seeds);
    }
}

#[test]
fn the_one_that_takes_slices_reads_and_the_order_is_as_asked() {
    for asked in [PAIR, [PAIR[1], PAIR[0]]] {
        let (effect, played) = run(mock(1.0, 1), asked, 1);
        let company = played
            .iter()
            .filter_map(|block| Some((block.subject, block.beside?)));
        let company: Vec<(usize, usize)> = company.collect();
        assert!(!company.is_empty() && company.iter().all(|it| *it == (1, 0)));
        let effect = effect.value().unwrap();
        let first = if asked == PAIR { KEPT[0] } else { KEPT[1] };
        assert!((effect.each[0].value - first).abs() < 0.03, "{effect:?}");
        // The one that read kept its pressure, the other one lost a fifth.
        let [one, other] = effect.arrived_percent.map(Option::unwrap);
        let starved = if asked == PAIR { one } else { other };
        assert!((starved - 80.0).abs() < 1e-6, "{effect:?}");
    }
}

#[test]
fn what_cannot_be_measured_says_why() {
    let said = |mock: MockExecutor, asked| match run(mock, asked, 1).0 {
        Reading::Unavailable { unavailable } => unavailable,
        Reading::Value(effect) => panic!("{effect:?}"),
    };
    let with_memory = said(mock(1.0, 1), ["memory-capacity", "l2-capacity"]);
    assert!(with_memory.contains("too long to switch"), "{with_memory}");
    let missing = said(mock(1.0, 1), ["tlb", "l2-capacity"]);
    assert!(missing.contains("tlb could not be stressed"), "{missing}");
    let mut never = mock(1.0, 1);
    never.never_at_once = Some("both press from CPU 1".to_string());
    assert_eq!(said(never, PAIR), "both press from CPU 1");
    let mut broken = mock(1.0, 1);
    let gone = WindowError::Subject("its worker ended".to_string());
    broken.failures = vec![(Duration::ZERO, Some(1), gone)];
    let broken = said(broken, PAIR);
    assert!(broken.contains("its worker ended"), "{broken}");
}
