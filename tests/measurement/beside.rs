//! Sources on CPUs of their own against planted truth: caches that are not always
//! shared, and targets that take long to have back what was evicted.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::BlockRequest;
use jostle_measure::experiment::executor::Sequence;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::executor::TargetState;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use std::time::Duration;

/// Subjects of the sequence on other CPUs.
const BESIDE: [usize; 2] = [4, 5];

/// Three sources that take turns with the target, one of a disk, and two that evict, in
/// blocks of 65 ms.
fn playing(target: Curve, seed: u64) -> (Vec<Subject>, MockExecutor) {
    let sliced = crate::playing::sequence(0, false);
    let beside = Sequence {
        number: 2,
        skip: 80,
        least_skip: 80,
        read: 50,
        slices: false,
        ..sliced
    };
    let subject = |resource, sequence| crate::playing::subject(resource, Some(sequence));
    let disk = Sequence {
        number: 1,
        skip: 8,
        least_skip: 8,
        read: 16,
        slices: false,
        ..sliced
    };
    let subjects = vec![
        subject("int", sliced),
        subject("fp", sliced),
        subject("l1d", sliced),
        subject("storage-bandwidth", disk),
        subject("llc-capacity", beside),
        subject("memory-bandwidth", beside),
    ];
    let response = |target| Response {
        target,
        sd: 0.03,
        ..Response::default()
    };
    let mut responses = vec![response(Curve::Flat(1.0)); 4];
    responses.extend([response(target), response(Curve::Flat(1.0))]);
    let mut mock = MockExecutor::new(&subjects, &responses, seed);
    mock.plays = true;
    mock.baseline = 1e5;
    (subjects, mock)
}

fn run(subjects: &[Subject], mock: &mut MockExecutor, seed: u64) -> Measured {
    let settings = Settings {
        budget: Duration::from_secs(30),
        seed,
        ..Settings::default()
    };
    measure(mock, subjects, &settings, &mut ())
}

/// What the target keeps at 100, with its interval.
fn kept(measured: &Measured, subject: usize) -> [f64; 3] {
    let full = measured.subjects[subject]
        .entry
        .curve
        .last()
        .expect("a curve");
    assert_eq!(full.intensity, 100.0);
    [full.performance, full.ci95[0], full.ci95[1]]
}

#[test]
fn what_a_target_takes_of_a_cache_is_seen_by_a_walk() {
    let (mut subjects, mut mock) = playing(Curve::Flat(0.6), 3);
    subjects[BESIDE[0]].probes = true;
    // As a source it would lose nothing.
    mock.walk = Some(0.5);
    let measured = run(&subjects, &mut mock, 3);
    let watched = |block: &&BlockRequest| matches!(block.arm, Arm::Probe(_));
    let walks = mock.played.iter().filter(watched);
    assert!(walks.clone().all(|block| block.subject == BESIDE[0]));
    for target in [TargetState::Running, TargetState::Stopped] {
        let of = walks.clone().filter(|block| block.target == target);
        assert!(of.clone().count() >= 4, "{target:?}");
        // It has to have back what it lost, also where the target needs no time for that.
        assert!(of.clone().all(|block| block.skip == 80), "{target:?}");
    }
    let sources = mock.played.iter().filter(|block| {
        block.subject == BESIDE[0] && block.target == TargetState::Stopped && !watched(block)
    });
    assert_eq!(sources.count(), 0, "as a source it is not watched");
    let entry = &measured.subjects[BESIDE[0]].entry;
    let full = entry.probe_curve.last().expect("what the walk kept");
    assert!((full.performance - 0.5).abs() < 0.05, "{full:?}");
    // What the target loses is the source's doing, not the walk's.
    let [value, ..] = kept(&measured, BESIDE[0]);
    assert!((value - 0.6).abs() < 0.03, "{value}");
}

/// Together for one second of three.
fn mostly_apart(at: Duration) -> bool {
    !at.as_secs().is_multiple_of(3)
}

#[test]
fn losses_are_those_in_a_shared_cache_and_nulls_stay_null() {
    let (mut covered, mut null, mut mixtures) = (0, 0, 0);
    for seed in 0..10 {
        let (subjects, mut mock) = playing(Curve::Flat(0.6), seed);
        mock.apart = Some(mostly_apart);
        let measured = run(&subjects, &mut mock, seed);
        let [value, low, high] = kept(&measured, BESIDE[0]);
        assert!((value - 0.6).abs() < 0.03, "seed {seed}: {value}");
        covered += u32::from(low <= 0.6 && 0.6 <= high);
        let [_, low, high] = kept(&measured, BESIDE[1]);
        null += u32::from(low <= 1.0 && 1.0 <= high);
        let entry = &measured.subjects[BESIDE[0]].entry;
        // Where the answer is known early, few blocks were played apart.
        if let Some(mixture) = entry.mixture {
            let kept = mixture.value;
            assert!((kept - 0.87).abs() < 0.1, "seed {seed}: {kept}");
            mixtures += 1;
        }
        let sharing = &measured.cache_sharing[0];
        assert!(sharing.of_shared_time, "{sharing:?}");
        assert!(
            (10.0..60.0).contains(&sharing.shared_percent),
            "seed {seed}: {sharing:?}"
        );
        assert_eq!(sharing.resources, ["llc-capacity", "memory-bandwidth"]);
        assert_eq!(
            (sharing.shared_ns, sharing.apart_ns),
            (Some(80.0), Some(360.0))
        );
    }
    assert!(covered >= 8, "{covered} of 10 intervals cover");
    assert!(null >= 8, "{null} of 10 intervals of the null cover");
    assert!(
        mixtures >= 8,
        "{mixtures} of 10 say what is kept over all the time"
    );
}

#[test]
fn time_in_a_shared_cache_goes_to_what_needs_it() {
    let (subjects, mut mock) = playing(Curve::Flat(0.6), 1);
    mock.apart = Some(mostly_apart);
    run(&subjects, &mut mock, 1);
    let played = || mock.played.iter().zip(&mock.played_at);
    // Later, nobody else wants the time.
    let others = played().filter(|(block, _)| block.subject < BESIDE[0]);
    let end = others.map(|(_, at)| *at).max().expect("others are played");
    let (mut shared, mut all) = (0.0, 0.0);
    for (block, at) in played().filter(|(_, at)| **at <= end) {
        if block.subject >= BESIDE[0] {
            all += 1.0;
            shared += f64::from(u8::from(!mostly_apart(*at)));
        }
    }
    assert!(
        shared / all > 0.5,
        "{:.2} of a third of the time",
        shared / all
    );
}

#[test]
fn a_cache_that_is_never_shared_is_told() {
    let (subjects, mut mock) = playing(Curve::Flat(0.6), 1);
    mock.apart = Some(|_| true);
    let measured = run(&subjects, &mut mock, 1);
    let sharing = &measured.cache_sharing[0];
    assert_eq!(
        (sharing.shared_percent, sharing.of_shared_time),
        (0.0, false)
    );
    assert_eq!(sharing.shared_ns, None);
    // And one that always is, is no matter.
    let (subjects, mut mock) = playing(Curve::Flat(0.6), 1);
    mock.apart = Some(|_| false);
    let measured = run(&subjects, &mut mock, 1);
    let sharing = &measured.cache_sharing[0];
    assert_eq!(
        (sharing.shared_percent, sharing.of_shared_time),
        (100.0, true)
    );
    assert!(measured.warnings.is_empty(), "{:?}", measured.warnings);
}

#[test]
fn sources_wait_for_a_cache_that_is_not_shared() {
    // From the sixth second on it is.
    let (subjects, mut mock) = playing(Curve::Flat(0.6), 1);
    mock.apart = Some(|at| at < Duration::from_secs(6));
    let measured = run(&subjects, &mut mock, 1);
    let early = mock.played.iter().zip(&mock.played_at);
    let early = early.filter(|(_, at)| **at < Duration::from_secs(5));
    let beside = early
        .clone()
        .filter(|(block, _)| block.subject >= BESIDE[0]);
    // The others have their answers before that, and leave the time to them.
    let share = beside.count() as f64 / early.count() as f64;
    assert!(share < 0.1, "{share}");
    let [value, low, high] = kept(&measured, BESIDE[0]);
    assert!(low <= 0.6 && 0.6 <= high, "{value} ({low} to {high})");
}

/// The first block of `subject` beside the target that `is` of an arm: periods that are left
/// out, and all.
fn first_block(mock: &MockExecutor, subject: usize, is: fn(&Arm) -> bool) -> (u32, u32) {
    let mut played = mock.played.iter();
    let first = played.find(|block| {
        block.subject == subject && is(&block.arm) && block.target == TargetState::Running
    });
    first.map(|block| (block.skip, block.periods)).expect("one")
}

#[test]
fn blocks_are_as_long_as_it_takes_to_read_what_the_target_holds() {
    let control = |mock: &MockExecutor| first_block(mock, BESIDE[0], |arm| *arm == Arm::Control);
    // 4 MiB and a quarter are 81,920 lines, which take 8.2 ms: 17 periods.
    let (subjects, mut mock) = playing(Curve::Flat(0.9), 1);
    mock.touched = Some(4.0 * 1024.0 * 1024.0);
    let measured = run(&subjects, &mut mock, 1);
    assert_eq!(control(&mock), (17, 29));
    let [value, low, high] = kept(&measured, BESIDE[0]);
    assert!(low <= 0.9 && 0.9 <= high, "{value} ({low} to {high})");
    // What no cache can hold has the longest.
    let (subjects, mut mock) = playing(Curve::Flat(0.9), 1);
    mock.touched = Some(1e9);
    run(&subjects, &mut mock, 1);
    assert_eq!(control(&mock).0, 80);
}

#[test]
fn a_slow_source_has_its_time_and_others_do_not_wait_for_it() {
    let (mut subjects, mut mock) = playing(Curve::Flat(0.9), 1);
    mock.touched = Some(4.0 * 1024.0 * 1024.0);
    let quick = subjects[BESIDE[1]].sequence.as_mut().expect("one");
    quick.least_skip = 6;
    run(&subjects, &mut mock, 1);
    let full = |arm: &Arm| matches!(arm, Arm::Treat(_));
    assert_eq!(first_block(&mock, BESIDE[0], full), (80, 92));
    assert_eq!(first_block(&mock, BESIDE[1], full), (17, 29));
}

/// Periods of the last block beside the target.
fn last_block(mock: &MockExecutor) -> u32 {
    let beside = |block: &&jostle_measure::experiment::executor::BlockRequest| {
        block.subject >= BESIDE[0] && matches!(block.arm, Arm::Control)
    };
    mock.played.iter().rfind(beside).expect("a control").periods
}

#[test]
fn blocks_become_short_where_nothing_is_left_behind() {
    let (subjects, mut mock) = playing(Curve::Flat(0.9), 1);
    let measured = run(&subjects, &mut mock, 1);
    assert_eq!(last_block(&mock), 16);
    let [value, low, high] = kept(&measured, BESIDE[0]);
    assert!(low <= 0.9 && 0.9 <= high, "{value} ({low} to {high})");
}

#[test]
fn blocks_stay_long_where_what_was_evicted_comes_back_slowly() {
    for seed in 0..5 {
        let (subjects, mut mock) = playing(Curve::Flat(0.4), seed);
        // Half of it after 10 ms.
        mock.carry_over = 0.5f64.powf(1.0 / 20.0);
        let measured = run(&subjects, &mut mock, seed);
        assert_eq!(last_block(&mock), 130, "seed {seed}");
        let [value, _, _] = kept(&measured, BESIDE[0]);
        assert!((value - 0.4).abs() < 0.05, "seed {seed}: {value}");
    }
}
