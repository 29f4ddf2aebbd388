//! Six sources that take turns with the target, one that takes its time and one that
//! is measured window by window, on the mock executor.
#![allow(dead_code, reason = "no test needs all of it")]

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use jostle_measure::experiment::executor::Sequence;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use std::time::Duration;

pub const SLICED: [&str; 6] = ["int", "fp", "l1d", "l2-capacity", "l2-bandwidth", "tlb"];

pub fn sequence(number: usize, takes_time: bool) -> Sequence {
    Sequence {
        number,
        period: Duration::from_micros(500),
        skip: 2,
        least_skip: 2,
        read: 6,
        slices: true,
        takes_time,
    }
}

pub fn subject(resource: &'static str, sequence: Option<Sequence>) -> Subject {
    Subject {
        resource,
        settle: Duration::from_millis(3),
        window: Duration::from_millis(24),
        switch_cost: Duration::ZERO,
        stoppable: true,
        probe_endpoints: &[100.0],
        probes: false,
        sequence,
    }
}

/// Six sources in one sequence, one that takes time, one without a sequence.
pub fn subjects() -> Vec<Subject> {
    let mut all: Vec<Subject> = SLICED
        .iter()
        .map(|name| subject(name, Some(sequence(0, false))))
        .collect();
    all.push(subject("cpu-time", Some(sequence(1, true))));
    all.push(subject("storage-bandwidth", None));
    all
}

pub fn playing(responses: &[Response], seed: u64) -> (Vec<Subject>, MockExecutor) {
    let subjects = subjects();
    let mut all = responses.to_vec();
    all.resize(subjects.len(), Response::default());
    let mut mock = MockExecutor::new(&subjects, &all, seed);
    mock.plays = true;
    // So that no block holds few operations.
    mock.baseline = 1e5;
    (subjects, mock)
}

pub fn settings(seconds: u64, seed: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed,
        ..Settings::default()
    }
}

pub fn run(mock: &mut MockExecutor, subjects: &[Subject], settings: &Settings) -> Measured {
    measure(mock, subjects, settings, &mut ())
}

pub fn noisy(target: Curve) -> Response {
    Response {
        target,
        sd: 0.03,
        ..Response::default()
    }
}

/// What the target loses at 100, a fraction, with its interval.
pub fn loss(measured: &Measured, subject: usize) -> [f64; 3] {
    let curve = &measured.subjects[subject].entry.curve;
    let full = curve.last().expect("a curve");
    assert_eq!(full.intensity, 100.0);
    [
        1.0 - full.performance,
        1.0 - full.ci95[1],
        1.0 - full.ci95[0],
    ]
}
