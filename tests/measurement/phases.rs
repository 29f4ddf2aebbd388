//! A target that changes, counters beside the metric, a measurement that is
//! taken up again: against planted truth.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use crate::mock::Weather;
use crate::playing::sequence;
use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::executor::WindowError;
use jostle_measure::experiment::executor::WindowRequest;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Observer;
use jostle_measure::experiment::run::Progress;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::go_on;
use jostle_measure::experiment::run::measure;
use jostle_measure::warning::Warning;
use jostle_profile::Readings;
use jostle_profile::Status;
use std::time::Duration;

fn subject(resource: &'static str) -> Subject {
    Subject {
        resource,
        settle: Duration::from_millis(7),
        window: Duration::from_millis(30),
        switch_cost: Duration::ZERO,
        probe_endpoints: &[100.0],
        probes: false,
        sequence: None,
        stoppable: true,
    }
}

const NAMES: [&str; 6] = [
    "cpu-time",
    "l1d",
    "l2-capacity",
    "l2-bandwidth",
    "llc-capacity",
    "memory-bandwidth",
];

fn subjects() -> Vec<Subject> {
    NAMES.map(subject).to_vec()
}

/// Only the last of them is minded.
fn responses() -> Vec<Response> {
    let mut responses = vec![Response::default(); NAMES.len()];
    responses[5].target = Curve::line_through(40.0, 0.95);
    responses
}

fn tolerated(seconds: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        halves: Halves::Tolerated,
        ..Settings::default()
    }
}

#[test]
fn short_turns_make_windows_longer_and_are_said() {
    let subjects = subjects();
    let mut mock = MockExecutor::new(&subjects, &responses(), 1);
    // Four windows fast, four slow, settling included.
    mock.phases = Some(|now| match now.as_millis() / 148 % 2 {
        0 => 1.0,
        _ => 0.4,
    });
    let measured = measure(&mut mock, &subjects, &tolerated(90), &mut ());
    let said = measured
        .warnings
        .iter()
        .find(|warning| matches!(warning, Warning::TargetAlternates { .. }));
    assert!(said.is_some(), "{:?}", measured.warnings);
    let longest = mock.log.iter().map(|request| request.length).max().unwrap();
    assert!(longest >= Duration::from_millis(60), "{longest:?}");
    assert_eq!(
        measured.subjects[5].entry.sensitive,
        Some(true),
        "{:?}",
        measured.subjects[5]
    );
    for calm in &measured.subjects[..5] {
        assert_ne!(calm.entry.sensitive, Some(true), "{calm:?}");
    }
}

#[test]
fn windows_that_nobody_compares_are_not_read() {
    let mut subjects = subjects();
    for subject in &mut subjects {
        subject.sequence = Some(sequence(0, false));
    }
    let idle = |plays| {
        let mut mock = MockExecutor::new(&subjects, &responses(), 1);
        mock.plays = plays;
        mock.baseline = 1e5;
        mock.phases = Some(|now| match now.as_millis() / 148 % 2 {
            0 => 1.0,
            _ => 0.4,
        });
        measure(&mut mock, &subjects, &tolerated(30), &mut ());
        let idle = mock.log.iter().take_while(|it| it.arm == Arm::Idle);
        idle.count()
    };
    let (in_sequences, in_windows) = (idle(true), idle(false));
    assert!(in_sequences <= 16, "{in_sequences}");
    assert!(in_windows > 16, "{in_windows}");
}

/// What is counted 150 times a second has windows of 1.3 s, of which three took a seventh of 30 s.
#[test]
fn the_baseline_of_a_slow_count_takes_its_share_of_the_budget() {
    let idle = |played| {
        let mut subjects = subjects();
        for subject in &mut subjects {
            subject.window = Duration::from_millis(1300);
            subject.sequence = Some(sequence(0, false));
        }
        let mut mock = MockExecutor::new(&subjects, &responses(), 1);
        mock.plays = played;
        mock.baseline = 150.0;
        measure(&mut mock, &subjects, &tolerated(30), &mut ());
        let idle = mock.log.iter().take_while(|it| it.arm == Arm::Idle);
        idle.map(|it| it.length).collect::<Vec<Duration>>()
    };
    let (in_blocks, in_windows) = (idle(true), idle(false));
    let total: Duration = in_blocks.iter().sum();
    assert!(in_blocks.len() >= 3, "{in_blocks:?}");
    assert!(total <= Duration::from_millis(1200), "{in_blocks:?}");
    // Windows that are compared hold what they have to.
    assert!(in_windows.len() >= 3, "{in_windows:?}");
    assert!(
        in_windows
            .iter()
            .all(|length| *length >= Duration::from_millis(1300)),
        "{in_windows:?}"
    );
}

#[test]
fn a_steady_target_keeps_its_windows() {
    let subjects = subjects();
    for seed in 0..20 {
        let mut mock = MockExecutor::new(&subjects, &responses(), seed);
        let measured = measure(&mut mock, &subjects, &tolerated(40), &mut ());
        assert!(
            mock.log
                .iter()
                .all(|request| request.length == Duration::from_millis(30))
        );
        assert!(measured.phases.is_empty(), "{seed}: {:?}", measured.phases);
        assert!(
            measured
                .subjects
                .iter()
                .all(|subject| subject.entry.phases.is_empty())
        );
    }
}

#[test]
fn long_phases_are_found_and_what_they_bear_is_told_apart() {
    let subjects = vec![subject("l2-capacity"), subject("memory-bandwidth")];
    let mut responses = vec![Response::default(); 2];
    responses[1].target = Curve::Flat(0.95);
    let mut mock = MockExecutor::new(&subjects, &responses, 3);
    // Two kinds of work, 5 s each; only the slow one minds the memory much.
    fn slow(now: Duration) -> bool {
        now.as_secs() / 5 % 2 == 1
    }
    mock.phases = Some(|now| if slow(now) { 0.5 } else { 1.0 });
    mock.phase_response = Some(|now| if slow(now) { 6.0 } else { 1.0 });
    let measured = measure(&mut mock, &subjects, &tolerated(90), &mut ());
    assert!(measured.phases.len() >= 2, "{:?}", measured.phases);
    for phase in &measured.phases {
        let near = |level: f64| (phase.level - level).abs() < 0.05;
        assert!(near(1.0) || near(0.5), "{:?}", measured.phases);
    }
    let phases = |warning: &Warning| matches!(warning, Warning::TargetPhases { .. });
    assert!(measured.warnings.iter().any(phases));
    let split = &measured.subjects[1];
    assert_eq!(split.entry.phases.len(), 2, "{split:?}");
    assert!(
        split.entry.phases[0].performance > 0.93,
        "{:?}",
        split.entry.phases
    );
    assert!(
        (split.entry.phases[1].performance - 0.735).abs() < 0.05,
        "{:?}",
        split.entry.phases
    );
    assert!(
        split
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::PhasesDiffer { .. }))
    );
    assert!(measured.subjects[0].entry.phases.is_empty());
    assert!(!split.entry.phases.is_empty());
}

/// Instructions per cycle follow performance, misses rise threefold with the
/// last source, faults are rare, the fourth counter cannot be read.
fn counted(request: &WindowRequest, disturbance: f64) -> Vec<Option<f64>> {
    let treated = request.subject == 5 && matches!(request.arm, Arm::Treat(x) if x == 100.0);
    let (ipc, misses) = if treated { (0.8, 3e6) } else { (1.0, 1e6) };
    vec![
        Some(ipc * disturbance),
        Some(misses * disturbance),
        Some(0.0),
        None,
    ]
}

#[test]
fn counters_that_moved_are_found_and_only_those() {
    let subjects = subjects();
    let mut mock = MockExecutor::new(&subjects, &responses(), 4);
    mock.counters = Some(counted);
    let measured = measure(&mut mock, &subjects, &tolerated(60), &mut ());
    let moved = &measured.subjects[5].mechanism;
    let ratio = |index: usize| moved[index].as_ref().unwrap().ratio.unwrap();
    assert!(
        moved[0].as_ref().unwrap().moved && moved[1].as_ref().unwrap().moved,
        "{moved:?}"
    );
    assert!((ratio(0).value - 0.8).abs() < 0.03, "{moved:?}");
    assert!((ratio(1).value - 3.0).abs() < 0.1, "{moved:?}");
    assert!(!moved[2].as_ref().unwrap().moved, "{moved:?}");
    assert_eq!(moved[3], None);
    for calm in &measured.subjects[..5] {
        assert!(
            calm.mechanism.iter().flatten().all(|change| !change.moved),
            "{calm:?}"
        );
    }
}

/// Keeps what a checkpoint would write.
#[derive(Default)]
struct Keeper {
    readings: Readings,
    warnings: Vec<String>,
}

impl Observer for Keeper {
    fn progress(&mut self, _progress: Progress) {}

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_string());
    }

    fn checkpoint(&mut self, readings: &dyn Fn() -> Readings) {
        self.readings = readings();
    }
}

#[test]
fn an_interrupted_measurement_goes_on_where_it_was() {
    let subjects = subjects();
    let settings = Settings {
        budget: Duration::from_secs(60),
        ..Settings::default()
    };
    let mut mock = MockExecutor::new(&subjects, &responses(), 5);
    mock.failures = vec![(Duration::from_secs(20), None, WindowError::Interrupted)];
    let mut keeper = Keeper::default();
    let first = measure(&mut mock, &subjects, &settings, &mut keeper);
    assert!(first.partial.is_some());
    let readings = first.readings.expect("kept for the next run");
    assert!(keeper.readings.pairs.len() <= readings.pairs.len());
    assert!(keeper.readings.pairs.len() + 40 > readings.pairs.len());
    assert!((readings.elapsed_seconds - 20.0).abs() < 1.0);
    // Through a file and back.
    let text = serde_json::to_string(&readings).unwrap();
    let readings: Readings = serde_json::from_str(&text).unwrap();

    let done: Vec<&str> = first
        .subjects
        .iter()
        .filter(|outcome| outcome.entry.tolerated.is_some_and(|t| t.score == 100.0))
        .map(|outcome| outcome.resource)
        .collect();
    assert!(!done.is_empty(), "nothing was finished in 20 s");

    let mut mock = MockExecutor::new(&subjects, &responses(), 6);
    let rest = Settings {
        budget: Duration::from_secs(40),
        ..settings
    };
    let second = go_on(&mut mock, &subjects, &rest, &readings, &mut ());
    assert_eq!(second.partial, None);
    assert_eq!(second.readings, None);
    for outcome in &second.subjects {
        assert_eq!(outcome.entry.status, Status::Measured, "{outcome:?}");
    }
    assert_eq!(second.subjects[5].entry.sensitive, Some(true));
    for (index, name) in NAMES
        .iter()
        .enumerate()
        .filter(|(_, name)| done.contains(name))
    {
        let again = mock.log.iter().filter(|request| {
            request.subject == index && request.read_target && request.arm != Arm::Idle
        });
        assert_eq!(again.count(), 0, "{name} was settled and measured again");
    }
}

#[test]
fn a_second_interruption_keeps_both_parts() {
    let subjects = subjects();
    let mut past = Readings::default();
    for round in 0..3 {
        let mut mock = MockExecutor::new(&subjects, &responses(), 7 + round);
        mock.failures = vec![(Duration::from_secs(5), None, WindowError::Interrupted)];
        let measured = go_on(&mut mock, &subjects, &tolerated(60), &past, &mut ());
        let readings = measured.readings.unwrap();
        assert!(readings.pairs.len() > past.pairs.len());
        assert!(readings.pairs.starts_with(&past.pairs));
        assert!(readings.elapsed_seconds > past.elapsed_seconds + 4.0);
        past = readings;
    }
    assert!(
        past.pairs
            .windows(2)
            .all(|two| two[0].at_seconds <= two[1].at_seconds)
    );
}

#[test]
fn what_the_budget_cannot_show_is_said_before_anything_presses() {
    let subjects = subjects();
    let mut keeper = Keeper::default();
    let loud = vec![
        Response {
            sd: 0.3,
            ..Response::default()
        };
        NAMES.len()
    ];
    let mut mock = MockExecutor::new(&subjects, &loud, 8);
    mock.weather = Weather {
        outlier_chance: 0.0,
        ..Weather::default()
    };
    let measured = measure(&mut mock, &subjects, &tolerated(20), &mut keeper);
    assert_eq!(keeper.warnings.len(), 1, "{:?}", keeper.warnings);
    let said = &keeper.warnings[0];
    assert!(
        said.contains("noisy") && said.contains("--budget"),
        "{said}"
    );
    assert!(
        measured
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::NoisyMetric { .. }))
    );

    let mut keeper = Keeper::default();
    let mut mock = MockExecutor::new(&subjects, &responses(), 9);
    mock.natural_window = Some(Duration::from_secs(1));
    measure(&mut mock, &subjects, &tolerated(20), &mut keeper);
    let said = &keeper.warnings[0];
    assert!(said.contains("slow") && said.contains("--budget"), "{said}");

    let mut keeper = Keeper::default();
    let mut mock = MockExecutor::new(&subjects, &responses(), 10);
    measure(&mut mock, &subjects, &tolerated(60), &mut keeper);
    assert!(keeper.warnings.is_empty(), "{:?}", keeper.warnings);
}
