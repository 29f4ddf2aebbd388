//! The measurement against planted truth, on the mock executor's virtual clock.
//!
//! Print the measured rates with
//! `cargo test --test measurement truth -- --nocapture`, those at every noise
//! with `--include-ignored` added.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use jostle_profile::Status;
use std::time::Duration;

const NAMES: [&str; 8] = [
    "cpu-time",
    "l1d",
    "l2-capacity",
    "l2-bandwidth",
    "llc-capacity",
    "memory-bandwidth",
    "memory-capacity",
    "storage-bandwidth",
];

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

fn plain(count: usize) -> Vec<Subject> {
    (0..count).map(|i| subject(NAMES[i % 8], 30, 7)).collect()
}

fn run(mock: &mut MockExecutor, subjects: &[Subject], settings: &Settings) -> Measured {
    measure(mock, subjects, settings, &mut ())
}

fn settings(seconds: u64, seed: u64, halves: Halves) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed,
        halves,
        ..Settings::default()
    }
}

fn response(target: Curve, sd: f64) -> Response {
    Response {
        target,
        sd,
        ..Response::default()
    }
}

/// Shares of runs in which `t`'s interval covered the truth, in which it was
/// resolved, and the mean half-width.
fn recover(curve: Curve, truth: f64, sd: f64, runs: u64, quick: bool) -> (f64, f64, f64) {
    let subjects = plain(1);
    let (mut covered, mut resolved, mut width) = (0, 0, 0.0);
    for seed in 0..runs {
        let mut mock = MockExecutor::new(&subjects, &[response(curve, sd)], 1000 + seed);
        let base = if quick {
            Settings::quick()
        } else {
            Settings::default()
        };
        let settings = Settings {
            budget: Duration::from_secs(if quick { 4 } else { 9 }),
            seed,
            halves: Halves::Tolerated,
            ..base
        };
        let measured = run(&mut mock, &subjects, &settings);
        let outcome = &measured.subjects[0];
        // No score where nothing could be excluded.
        let [low, high] = outcome
            .entry
            .tolerated
            .map_or([0.0, 100.0], |score| score.ci95);
        let inside = low - 1e-9 <= truth && truth <= high + 1e-9;
        covered += usize::from(inside);
        resolved += usize::from(outcome.entry.status == Status::Measured);
        width += 0.5 * (high - low);
    }
    let n = runs as f64;
    (covered as f64 / n, resolved as f64 / n, width / n)
}

fn check_thresholds(sds: &[f64], quick: bool, runs: u64) {
    for sd in sds.iter().copied() {
        for at in [20.0, 45.0, 80.0] {
            let cliff = Curve::Cliff {
                at: at - 2.5,
                slope: 0.02,
            };
            let shapes = [
                ("linear", Curve::line_through(at, 0.95)),
                ("step", Curve::Step { at, then: 0.7 }),
                ("cliff", cliff),
            ];
            for (name, curve) in shapes {
                let (covered, resolved, width) = recover(curve, at, sd, runs, quick);
                println!(
                    "{name} t {at} sd {sd} quick {quick}: covered {covered:.3}, \
                     resolved {resolved:.3}, half-width {width:.1}"
                );
                assert!(covered >= 0.9, "{name} t {at} sd {sd}: {covered}");
            }
        }
    }
}

#[test]
fn planted_thresholds_are_covered() {
    check_thresholds(&[0.01], false, 200);
}

#[test]
fn planted_thresholds_are_covered_by_quick_profiles() {
    check_thresholds(&[0.01], true, 200);
}

#[test]
#[ignore = "full tier: a statistics grid"]
fn planted_thresholds_are_covered_at_every_noise() {
    for quick in [false, true] {
        check_thresholds(&[0.003, 0.01, 0.03], quick, 400);
    }
}

#[test]
fn nothing_planted_is_t_100() {
    let (covered, resolved, width) = recover(Curve::Flat(1.0), 100.0, 0.01, 200, false);
    assert!(covered == 1.0 && resolved == 1.0 && width == 0.0);
}

/// Share of profiles with any subject called sensitive.
fn false_alarms(count: usize, curve: Curve, sd: f64, runs: u64, seconds: u64) -> f64 {
    let subjects = plain(count);
    let responses = vec![response(curve, sd); count];
    let mut alarms = 0;
    for seed in 0..runs {
        let mut mock = MockExecutor::new(&subjects, &responses, 7_000 + seed);
        let settings = settings(seconds, seed, Halves::Tolerated);
        let measured = run(&mut mock, &subjects, &settings);
        let any = measured
            .subjects
            .iter()
            .any(|s| s.entry.sensitive == Some(true));
        alarms += usize::from(any);
    }
    alarms as f64 / runs as f64
}

#[test]
fn quiet_targets_raise_no_false_alarm() {
    for (count, sd, runs) in [(8, 0.01, 400), (18, 0.03, 50)] {
        let rate = false_alarms(count, Curve::Flat(1.0), sd, runs, 45);
        println!("{count} subjects, performance 1, sd {sd}: {rate:.4} of profiles");
        assert!(rate < 0.05, "{count} subjects, sd {sd}: {rate}");
    }
}

/// The hardest null: exactly on the line, where every look is a fair bet.
#[test]
fn targets_on_the_line_raise_few_false_alarms() {
    let rate = false_alarms(8, Curve::Flat(0.95), 0.01, 250, 10);
    println!("8 subjects, performance 0.95, sd 0.01: {rate:.4} of profiles");
    assert!(rate < 0.05, "{rate}");
}

#[test]
#[ignore = "full tier: a statistics grid"]
fn false_alarms_are_rare_at_every_noise() {
    for sd in [0.003, 0.01, 0.03] {
        for (count, curve, seconds) in [
            (8, Curve::Flat(1.0), 90),
            (18, Curve::Flat(1.0), 90),
            (8, Curve::Flat(0.95), 20),
            (18, Curve::Flat(0.95), 20),
        ] {
            let rate = false_alarms(count, curve, sd, 400, seconds);
            println!("{count} subjects, {curve:?}, sd {sd}: {rate:.4} of profiles");
            assert!(rate < 0.05, "{count} subjects, {curve:?}, sd {sd}: {rate}");
        }
    }
}

#[test]
fn a_gain_that_no_pressure_brings_is_no_verdict() {
    let subjects = plain(1);
    for (factor, believed) in [(1.1, true), (3.0, false)] {
        let mut mock = MockExecutor::new(&subjects, &[response(Curve::Flat(factor), 0.05)], 7);
        let measured = run(&mut mock, &subjects, &settings(9, 1, Halves::Tolerated));
        let entry = &measured.subjects[0].entry;
        let score = entry.tolerated.as_ref().map(|score| score.score);
        let reason = entry.reason.clone().unwrap_or_default();
        match believed {
            true => assert_eq!((entry.status, score), (Status::Measured, Some(100.0))),
            false => {
                assert_eq!((entry.status, score), (Status::Unresolved, None));
                assert_eq!(entry.sensitive, None);
                assert!(reason.contains("no pressure does"), "{reason}");
                assert!(reason.contains("--metric"), "{reason}");
            }
        }
    }
}
