//! How a measurement behaves: its budget, its determinism, its errors.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use crate::mock::Weather;
use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::executor::TargetState;
use jostle_measure::experiment::executor::WindowError;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Observer;
use jostle_measure::experiment::run::Progress;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use jostle_profile::Score;
use jostle_profile::Status;
use std::time::Duration;

fn subject(resource: &'static str, window_ms: u64, settle_ms: u64) -> Subject {
    Subject {
        resource,
        settle: Duration::from_millis(settle_ms),
        window: Duration::from_millis(window_ms),
        switch_cost: Duration::ZERO,
        probe_endpoints: &[100.0],
        probes: false,
        sequence: None,
        stoppable: true,
    }
}

/// The eight subjects with windows as on a real machine.
fn real() -> Vec<Subject> {
    let mut filling = subject("memory-capacity", 30, 10);
    filling.switch_cost = Duration::from_secs(4);
    vec![
        subject("cpu-time", 30, 7),
        subject("l1d", 30, 7),
        subject("l2-capacity", 30, 7),
        subject("l2-bandwidth", 30, 7),
        subject("llc-capacity", 100, 100),
        subject("memory-bandwidth", 30, 7),
        filling,
        subject("storage-bandwidth", 100, 10),
    ]
}

/// A target that minds the LLC and memory bandwidth, and slows both sources.
fn responses() -> Vec<Response> {
    let mut responses = vec![Response::default(); 8];
    responses[4].target = Curve::Cliff {
        at: 42.5,
        slope: 0.02,
    };
    responses[4].probe = Curve::Cliff {
        at: 27.5,
        slope: 0.02,
    };
    responses[5].target = Curve::line_through(60.0, 0.95);
    responses[5].probe = Curve::Flat(0.8);
    responses[6].target = Curve::Step {
        at: 80.0,
        then: 0.3,
    };
    responses
}

/// Time enough to settle all eight subjects.
fn long() -> Settings {
    Settings {
        budget: Duration::from_secs(90),
        ..Settings::default()
    }
}

/// Time enough for a first verdict on the cheap ones.
fn quick() -> Settings {
    Settings {
        budget: Duration::from_secs(20),
        ..Settings::quick()
    }
}

fn run(mock: &mut MockExecutor, subjects: &[Subject], settings: &Settings) -> Measured {
    let measured = measure(mock, subjects, settings, &mut ());
    assert_numbers(&measured);
    measured
}

fn assert_score(score: &Score) {
    let [low, high] = score.ci95;
    assert!(0.0 <= low && low <= score.score, "{score:?}");
    assert!(score.score <= high && high <= 100.0, "{score:?}");
}

/// No NaN and nothing off its scale, anywhere.
fn assert_numbers(measured: &Measured) {
    for outcome in &measured.subjects {
        outcome.entry.tolerated.iter().for_each(assert_score);
        outcome.entry.caused.iter().for_each(assert_score);
        for point in outcome.entry.curve.iter().chain(&outcome.entry.probe_curve) {
            assert!(point.performance.is_finite() && point.performance > 0.0);
            assert!(point.ci95.iter().all(|end| end.is_finite()), "{point:?}");
        }
        if outcome.entry.status != Status::Measured {
            assert!(outcome.entry.reason.is_some(), "{outcome:?}");
        }
        let entry = serde_json::to_string(&outcome.entry).unwrap();
        assert!(!entry.contains("null"), "{entry}");
    }
}

#[test]
fn a_full_profile_finds_what_was_planted() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 1);
    let measured = run(&mut mock, &subjects, &long());
    for outcome in &measured.subjects {
        println!(
            "{:18} {:?} t {:?} c {:?} sensitive {:?} {:?}",
            outcome.resource,
            outcome.entry.status,
            outcome.entry.tolerated,
            outcome.entry.caused,
            outcome.entry.sensitive,
            outcome.entry.reason
        );
    }
    println!("{:?} kept {}", measured.duration, measured.windows_kept);
    let sensitive: Vec<&str> = measured
        .subjects
        .iter()
        .filter(|outcome| outcome.entry.sensitive == Some(true))
        .map(|outcome| outcome.resource)
        .collect();
    assert_eq!(
        sensitive,
        ["llc-capacity", "memory-bandwidth", "memory-capacity"]
    );
    let covers = |score: Option<Score>, truth: f64| {
        let [low, high] = score.map_or([0.0, 100.0], |score| score.ci95);
        assert!(low <= truth && truth <= high, "{score:?} {truth}");
    };
    covers(measured.subjects[4].entry.tolerated, 45.0);
    covers(measured.subjects[4].entry.caused, 70.0);
    covers(measured.subjects[5].entry.tolerated, 60.0);
    covers(measured.subjects[5].entry.caused, 100.0);
    covers(measured.subjects[6].entry.tolerated, 80.0);
    assert_eq!(measured.subjects[0].entry.tolerated.unwrap().score, 100.0);
    assert_eq!(measured.subjects[0].entry.caused.unwrap().score, 0.0);
    let baseline = measured.baseline.unwrap();
    assert!((baseline.value - 1000.0).abs() < 50.0, "{baseline:?}");
    assert!(measured.noise_percent.unwrap() > 0.5);
    assert!(measured.smallest_detectable_percent.unwrap() < 5.0);
    assert!(measured.subjects[0].entry.sharing_cost.is_some());
    assert_eq!(
        measured.subjects[4].entry.pressure_unit.as_deref(),
        Some("bytes")
    );
}

#[test]
fn same_seed_same_result_and_the_budget_holds() {
    let subjects = real();
    for settings in [long(), quick()] {
        for seed in 0..12 {
            let settings = Settings { seed, ..settings };
            let mut first = MockExecutor::new(&subjects, &responses(), seed);
            let mut second = MockExecutor::new(&subjects, &responses(), seed);
            let once = run(&mut first, &subjects, &settings);
            assert_eq!(once, run(&mut second, &subjects, &settings));
            assert_eq!(first.log, second.log);
            // No pair is begun that is not expected to fit; one that is
            // measured again because time was stolen from it may run over.
            let most = settings.budget + Duration::from_secs(1);
            assert!(once.duration <= most, "{:?}", once.duration);
        }
    }
}

#[test]
fn the_budget_holds_when_windows_are_whole_runs() {
    let subjects = real();
    for seconds in [10, 40, 90] {
        let mut mock = MockExecutor::new(&subjects, &responses(), 3);
        mock.natural_window = Some(Duration::from_millis(800));
        let settings = Settings {
            budget: Duration::from_secs(seconds),
            ..long()
        };
        let measured = run(&mut mock, &subjects, &settings);
        assert!(measured.duration <= settings.budget + Duration::from_secs(2));
        let known = measured
            .subjects
            .iter()
            .filter(|s| s.entry.tolerated.is_some());
        assert!(seconds == 10 || known.count() >= 3);
    }
}

#[test]
fn quick_says_what_filling_memory_lacks() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 4);
    let measured = run(&mut mock, &subjects, &quick());
    let filling = &measured.subjects[6];
    assert_eq!(filling.entry.status, Status::Unresolved);
    let reason = filling.entry.reason.as_deref().unwrap();
    println!("{reason}");
    assert!(
        reason.contains("a switch there and back takes 8.0 s"),
        "{reason}"
    );
    assert!(reason.contains("--budget"), "{reason}");
    assert_eq!(measured.subjects[4].entry.sensitive, Some(true));
}

#[test]
fn dear_switches_are_saved() {
    let subjects = vec![real()[6].clone()];
    let mut mock = MockExecutor::new(&subjects, &[responses()[6]], 5);
    let settings = Settings {
        halves: Halves::Tolerated,
        ..long()
    };
    run(&mut mock, &subjects, &settings);
    let arms: Vec<Arm> = mock
        .log
        .iter()
        .map(|request| request.arm)
        .filter(|arm| *arm != Arm::Idle)
        .collect();
    for four in arms.chunks_exact(4) {
        assert!(four[0] == four[3] && four[1] == four[2], "{four:?}");
        assert_ne!(four[0], four[1]);
    }
}

#[test]
fn arms_come_in_random_order() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 6);
    run(&mut mock, &subjects, &long());
    let pairs: Vec<bool> = mock
        .log
        .windows(2)
        .filter(|two| two[0].arm == Arm::Control || two[1].arm == Arm::Control)
        .map(|two| two[0].arm == Arm::Control)
        .collect();
    let first = pairs.iter().filter(|control| **control).count() as f64 / pairs.len() as f64;
    assert!((0.4..0.6).contains(&first), "{first}");
    assert!(
        mock.log
            .iter()
            .filter(|request| request.target == TargetState::Stopped)
            .all(|request| matches!(request.arm, Arm::Treat(_)))
    );
}

#[test]
fn one_subject_failing_does_not_end_the_others() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 7);
    let dead = WindowError::Subject("worker was killed".into());
    mock.failures = vec![(Duration::ZERO, Some(2), dead.clone())];
    mock.failures.push((Duration::from_secs(20), Some(5), dead));
    let measured = run(&mut mock, &subjects, &long());
    assert_eq!(measured.partial, None);
    assert_eq!(measured.subjects[2].entry.status, Status::Unavailable);
    let reason = measured.subjects[2].entry.reason.as_deref().unwrap();
    assert!(reason.contains("worker was killed"));
    assert_eq!(measured.subjects[5].entry.status, Status::Unresolved);
    assert!(!measured.subjects[5].entry.curve.is_empty());
    assert_eq!(measured.subjects[0].entry.status, Status::Measured);
}

#[test]
fn target_death_and_interruption_keep_what_was_learned() {
    let subjects = real();
    let gone = WindowError::Target("the target ended with status 1".into());
    for error in [gone, WindowError::Interrupted] {
        for (after, known) in [(0, 0), (8, 3)] {
            let mut mock = MockExecutor::new(&subjects, &responses(), 8);
            mock.failures = vec![(Duration::from_secs(after), None, error.clone())];
            let measured = run(&mut mock, &subjects, &long());
            assert_eq!(measured.partial, Some(error.to_string()));
            let done = |s: &&_| -> bool {
                let outcome: &jostle_measure::experiment::outcome::SubjectOutcome = s;
                outcome.entry.status == Status::Measured
            };
            assert!(measured.subjects.iter().filter(done).count() >= known);
        }
    }
}

#[test]
fn broken_metrics_are_reasons() {
    let subjects = real();
    for planted in [
        None,
        Some(0.0),
        Some(f64::NAN),
        Some(-1.0),
        Some(f64::INFINITY),
    ] {
        let mut mock = MockExecutor::new(&subjects, &responses(), 9);
        mock.override_performance = vec![(1, planted)];
        let measured = run(&mut mock, &subjects, &long());
        let broken = &measured.subjects[1];
        assert_eq!(broken.entry.status, Status::Unavailable, "{planted:?}");
        let reason = broken.entry.reason.as_deref().unwrap();
        assert!(reason.contains("3 pairs in a row"), "{reason}");
        assert!(broken.entry.caused.is_some());
        assert_eq!(measured.subjects[0].entry.status, Status::Measured);
    }
    let mut mock = MockExecutor::new(&subjects, &responses(), 9);
    mock.override_performance = (0..8).map(|index| (index, None)).collect();
    let measured = run(&mut mock, &subjects, &long());
    assert_eq!(measured.baseline, None);
    assert!(!measured.warnings.is_empty());
}

#[test]
fn a_starved_target_is_an_effect() {
    let subjects = real();
    let mut planted = responses();
    planted[0].target = Curve::Step {
        at: 50.0,
        then: 0.0,
    };
    let mut mock = MockExecutor::new(&subjects, &planted, 10);
    let measured = run(&mut mock, &subjects, &long());
    let starved = &measured.subjects[0];
    assert_eq!(starved.entry.sensitive, Some(true));
    let [low, high] = starved.entry.tolerated.unwrap().ci95;
    assert!(low <= 50.0 && 50.0 <= high && high - low <= 10.0);
}

#[test]
fn stolen_windows_are_dropped_and_redone() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 11);
    mock.weather = Weather {
        steal_chance: 0.03,
        ..Weather::default()
    };
    let measured = run(&mut mock, &subjects, &long());
    assert!(measured.windows_dropped > 20);
    assert!(measured.steal_percent.unwrap() > 0.5);
    assert_eq!(measured.subjects[4].entry.sensitive, Some(true));
    assert_eq!(measured.subjects[0].entry.sensitive, Some(false));
    mock = MockExecutor::new(&subjects, &responses(), 11);
    mock.weather.steal_chance = 1.0;
    let settings = quick();
    let measured = run(&mut mock, &subjects, &settings);
    assert!(measured.duration <= settings.budget + Duration::from_secs(1));
    assert_eq!(measured.windows_kept, 0);
    assert!(
        measured
            .subjects
            .iter()
            .all(|s| s.entry.tolerated.is_none())
    );
}

#[test]
fn on_the_line_nothing_is_claimed() {
    let subjects = vec![subject("l1d", 30, 7)];
    let mut claims = 0;
    for seed in 0..50 {
        let planted = Response {
            target: Curve::Flat(0.95),
            ..Response::default()
        };
        let mut mock = MockExecutor::new(&subjects, &[planted], seed);
        let settings = Settings {
            budget: Duration::from_secs(15),
            halves: Halves::Tolerated,
            seed,
            ..long()
        };
        let measured = run(&mut mock, &subjects, &settings);
        let outcome = &measured.subjects[0];
        if outcome.entry.sensitive.is_none() {
            // Where a curve ends at the line is known, or that it is close to it.
            let reason = outcome.entry.reason.as_deref();
            match outcome.entry.status {
                Status::Measured => assert_eq!(outcome.entry.tolerated.unwrap().ci95[1], 100.0),
                _ => assert!(reason.is_some_and(|reason| reason.contains("for a verdict"))),
            }
        } else {
            claims += 1;
        }
    }
    // Each side has 5 %.
    assert!(claims <= 8, "{claims} of 50");
}

#[test]
fn a_curve_that_turns_back_is_doubted() {
    let subjects = vec![subject("l1d", 30, 7)];
    let planted = Response {
        probe: Curve::Function(|x| if x > 70.0 { 0.92 } else { 1.0 - 0.004 * x }),
        ..Response::default()
    };
    let mut mock = MockExecutor::new(&subjects, &[planted], 12);
    let settings = Settings {
        halves: Halves::Caused,
        ..long()
    };
    let measured = run(&mut mock, &subjects, &settings);
    let outcome = &measured.subjects[0];
    assert_eq!(outcome.entry.tolerated, None);
    assert!(
        outcome
            .warnings
            .iter()
            .any(|warning| warning.to_string().contains("not monotone")),
        "{outcome:?}"
    );
}

#[test]
fn what_may_not_be_stopped_has_no_caused_half() {
    let mut subjects = real();
    subjects[0].stoppable = false;
    let mut mock = MockExecutor::new(&subjects, &responses(), 13);
    let measured = run(&mut mock, &subjects, &long());
    assert_eq!(measured.subjects[0].entry.caused, None);
    assert_eq!(measured.subjects[0].entry.status, Status::Measured);
    assert!(
        measured.subjects[0].warnings[0]
            .to_string()
            .contains("may not be stopped")
    );
    for halves in [Halves::Tolerated, Halves::Caused] {
        let settings = Settings { halves, ..long() };
        let measured = run(&mut mock, &subjects, &settings);
        let caused = measured.subjects.iter().any(|s| s.entry.caused.is_some());
        assert_eq!(caused, halves == Halves::Caused);
    }
}

#[test]
fn no_subjects_no_panic() {
    let mut mock = MockExecutor::new(&[], &[], 1);
    let measured = run(&mut mock, &[], &long());
    assert!(measured.subjects.is_empty());
    assert_eq!(measured.partial, None);
}

#[test]
fn observers_see_every_half() {
    struct Seen(Vec<Progress>);
    impl Observer for Seen {
        fn progress(&mut self, progress: Progress) {
            self.0.push(progress);
        }
    }
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 14);
    let mut seen = Seen(Vec::new());
    measure(&mut mock, &subjects, &long(), &mut seen);
    for subject in &subjects {
        assert!(seen.0.iter().any(|p| p.subject == Some(subject.resource)));
    }
    assert!(
        seen.0
            .windows(2)
            .all(|two| two[0].elapsed <= two[1].elapsed)
    );
}

#[test]
fn computing_takes_little_of_the_budget() {
    let subjects = real();
    let mut mock = MockExecutor::new(&subjects, &responses(), 15);
    let began = std::time::Instant::now();
    run(&mut mock, &subjects, &long());
    let share = began.elapsed().as_secs_f64() / 90.0;
    println!("computing: {:.3} % of the budget", 100.0 * share);
    assert!(share < 0.02, "{share}");
}
