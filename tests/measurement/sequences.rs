//! Sequences of blocks against planted truth, on the mock executor's virtual
//! clock. The statistics on recorded noise are tested in `jostle-statistics`.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use crate::playing::SLICED;
use crate::playing::loss;
use crate::playing::noisy;
use crate::playing::playing;
use crate::playing::run;
use crate::playing::sequence;
use crate::playing::settings;
use crate::playing::subject;
use crate::playing::subjects;
use jostle::experiment::executor::Arm;
use jostle::experiment::executor::BlockRequest;
use jostle::experiment::executor::Sequence;
use jostle::experiment::executor::TargetState;
use jostle::experiment::executor::WindowError;
use jostle::experiment::outcome::Measured;
use jostle::experiment::run::Halves;
use jostle::experiment::run::Settings;
use jostle::experiment::run::go_on;
use jostle_profile::Status;
use std::time::Duration;

#[test]
fn whole_curves_of_all_sources_come_from_one_sequence() {
    let planted = [0.0, 0.02, 0.08, 0.25, 0.5, 0.0];
    let responses: Vec<Response> = planted
        .iter()
        .map(|loss| noisy(Curve::Linear { loss: *loss }))
        .collect();
    let (mut inside, mut all, mut covered) = (0, 0, 0);
    for seed in 0..20 {
        let (subjects, mut mock) = playing(&responses, seed);
        let measured = run(&mut mock, &subjects, &settings(12, seed));
        for (subject, planted) in planted.iter().enumerate() {
            let outcome = &measured.subjects[subject];
            let levels: Vec<f64> = outcome.entry.curve.iter().map(|p| p.intensity).collect();
            for level in [20.0, 40.0, 60.0, 80.0, 100.0] {
                assert!(
                    levels.contains(&level),
                    "{} at {levels:?}",
                    outcome.resource
                );
            }
            for point in &outcome.entry.curve {
                let truth = 1.0 - planted * point.intensity / 100.0;
                all += 1;
                inside += usize::from(point.ci95[0] <= truth && truth <= point.ci95[1]);
            }
            assert_eq!(outcome.entry.sensitive, Some(*planted > 0.05));
            let score = outcome.entry.tolerated.expect("a score");
            let truth = match *planted > 0.05 {
                true => 5.0 / planted,
                false => 100.0,
            };
            covered += usize::from(score.ci95[0] <= truth && truth <= score.ci95[1]);
            // Where a shallow curve meets the line takes far more time.
            if *planted != 0.08 {
                let half_width = 0.5 * (score.ci95[1] - score.ci95[0]);
                assert!(half_width <= 12.5, "{outcome:?}");
                assert!((score.score - truth).abs() <= 10.0, "{score:?}, {truth}");
            }
            let [_, low, high] = loss(&measured, subject);
            assert!(0.5 * (high - low) < 0.015, "{low} to {high}");
        }
        assert!(measured.duration <= Duration::from_secs(12));
    }
    // Of some 1,000 points; 95 % of 3,000 others.
    assert!(inside as f64 >= 0.92 * all as f64, "{inside} of {all}");
    assert!(covered >= 114, "{covered} of 120");
}

#[test]
fn what_carries_over_does_not_hide_an_effect() {
    let responses = [noisy(Curve::Linear { loss: 0.24 }); 3];
    let (subjects, mut mock) = playing(&responses, 5);
    // After two turns half of it would still be missing.
    mock.carry_over = 0.7;
    let measured = run(&mut mock, &subjects, &settings(20, 5));
    for subject in 0..3 {
        let [loss, low, high] = loss(&measured, subject);
        assert!((loss - 0.24).abs() < 0.03, "{loss} ({low} to {high})");
    }
    let longest = mock.played.iter().map(|block| block.periods).max();
    assert!(longest > Some(8), "blocks grew: {longest:?}");
}

#[test]
fn a_target_that_needs_nothing_is_seldom_flagged() {
    let mut flagged = 0;
    for seed in 0..60 {
        let (subjects, mut mock) = playing(&[noisy(Curve::Flat(1.0)); 6], 100 + seed);
        let measured = run(&mut mock, &subjects, &settings(4, seed));
        let sensitive = |outcome: &jostle::experiment::outcome::SubjectOutcome| {
            outcome.entry.sensitive == Some(true)
        };
        flagged += usize::from(measured.subjects.iter().any(sensitive));
    }
    assert!(flagged <= 3, "{flagged} of 60");
}

#[test]
fn what_the_target_does_to_a_source_is_seen_with_the_target_stopped() {
    let disturbed = Response {
        probe: Curve::Linear { loss: 0.3 },
        ..noisy(Curve::Flat(1.0))
    };
    let (subjects, mut mock) = playing(&[disturbed, Response::default()], 3);
    let measured = run(&mut mock, &subjects, &settings(10, 3));
    let caused = |subject: usize| {
        let entry = &measured.subjects[subject].entry;
        entry
            .caused
            .unwrap_or_else(|| panic!("no score: {entry:?}"))
    };
    let [low, high] = caused(0).ci95;
    assert!(low <= 83.3 && 83.3 <= high, "{:?}", caused(0));
    assert!((caused(0).score - 83.3).abs() <= 10.0, "{:?}", caused(0));
    assert_eq!(caused(1).score, 0.0);
    let stopped = mock
        .played
        .iter()
        .filter(|b| b.target == TargetState::Stopped);
    assert!(
        stopped
            .clone()
            .all(|block| matches!(block.arm, Arm::Treat(_)))
    );
    assert!(stopped.count() > 0);
}

#[test]
fn the_share_of_time_is_compared_with_idle_and_the_placebo_with_it() {
    let halved = Response {
        target: Curve::Linear { loss: 0.5 },
        ..Response::default()
    };
    let mut responses = vec![
        Response {
            sharing: 0.8,
            ..Response::default()
        };
        6
    ];
    responses.push(halved);
    let (subjects, mut mock) = playing(&responses, 8);
    let measured = run(&mut mock, &subjects, &settings(10, 8));
    let [lost, ..] = loss(&measured, 6);
    assert!((lost - 0.5).abs() < 0.02, "{lost}");
    let sharing = measured.subjects[0]
        .entry
        .sharing_cost
        .expect("an estimate");
    assert!((sharing.value - 0.8).abs() < 0.01, "{sharing:?}");
}

#[test]
fn a_source_that_ends_loses_its_blocks_and_no_others() {
    let (subjects, mut mock) = playing(&[noisy(Curve::Linear { loss: 0.2 }); 3], 4);
    let reason = "its worker on CPU 0 was killed".to_string();
    let error = WindowError::Subject(reason.clone());
    mock.failures.push((Duration::from_secs(2), Some(1), error));
    let measured = run(&mut mock, &subjects, &settings(8, 4));
    assert_eq!(measured.partial, None);
    let lost = &measured.subjects[1].entry;
    assert!(
        lost.reason
            .as_ref()
            .is_some_and(|text| text.contains(&reason)),
        "{lost:?}"
    );
    // What was read before stands.
    assert!(!lost.curve.is_empty());
    for other in [0, 2] {
        assert_eq!(measured.subjects[other].entry.sensitive, Some(true));
    }
}

#[test]
fn missed_blocks_are_counted_and_nothing_else() {
    let (subjects, mut mock) = playing(&[noisy(Curve::Linear { loss: 0.2 }); 3], 6);
    mock.missed_chance = 0.2;
    let measured = run(&mut mock, &subjects, &settings(10, 6));
    let share = measured.windows_dropped as f64 / measured.windows_kept as f64;
    assert!((0.15..0.35).contains(&share), "{share}");
    let [lost, ..] = loss(&measured, 0);
    assert!((lost - 0.2).abs() < 0.02, "{lost}");
}

#[test]
fn an_interrupted_sequence_goes_on_where_it_stopped() {
    let responses = [noisy(Curve::Linear { loss: 0.2 }); 6];
    let (subjects, mut mock) = playing(&responses, 7);
    let stop = (Duration::from_secs(3), None, WindowError::Interrupted);
    mock.failures.push(stop);
    let first = run(&mut mock, &subjects, &settings(12, 7));
    assert!(first.partial.is_some());
    let readings = first
        .readings
        .expect("an interrupted run keeps its readings");
    assert!(readings.pairs.len() > 50, "{}", readings.pairs.len());
    let (_, mut again) = playing(&responses, 70);
    let whole = go_on(&mut again, &subjects, &settings(6, 7), &readings, &mut ());
    let level = |measured: &Measured| {
        let curve = &measured.subjects[0].entry.curve;
        curve.iter().map(|point| point.windows).sum::<u64>()
    };
    let (_, mut alone) = playing(&responses, 70);
    let alone = run(&mut alone, &subjects, &settings(6, 7));
    assert!(
        level(&whole) > level(&alone),
        "{} {}",
        level(&whole),
        level(&alone)
    );
    let [lost, ..] = loss(&whole, 0);
    assert!((lost - 0.2).abs() < 0.02, "{lost}");
}

#[test]
fn sources_without_a_sequence_get_their_time_and_come_last() {
    let (subjects, mut mock) = playing(&[], 9);
    let measured = run(&mut mock, &subjects, &settings(12, 9));
    let slow = &measured.subjects[7].entry;
    assert_eq!(slow.status, Status::Measured, "{slow:?}");
    let of_storage = |request: &&jostle::experiment::executor::WindowRequest| request.subject == 7;
    assert!(mock.log.iter().filter(of_storage).count() >= 20);
    assert!(mock.played.iter().all(|block| block.subject != 7));
}

#[test]
fn only_what_was_asked_is_played() {
    let (subjects, mut mock) = playing(&[], 2);
    let asked = Settings {
        halves: Halves::Tolerated,
        ..settings(4, 2)
    };
    run(&mut mock, &subjects, &asked);
    assert!(mock.played.iter().all(|b| b.target == TargetState::Running));
    let (_, mut mock) = playing(&[], 2);
    let asked = Settings {
        halves: Halves::Caused,
        ..settings(4, 2)
    };
    let measured = run(&mut mock, &subjects, &asked);
    assert!(measured.subjects[0].entry.caused.is_some());
    assert!(measured.subjects[0].entry.curve.is_empty());
}

#[test]
fn the_order_is_random_and_repeats_with_its_seed() {
    let order = |seed| {
        let (subjects, mut mock) = playing(&[], 1);
        run(&mut mock, &subjects, &settings(3, seed));
        mock.played
    };
    let (one, again, other) = (order(1), order(1), order(2));
    assert_eq!(one, again);
    assert_ne!(one, other);
    // A source does not follow itself more often than chance has it.
    let same = one
        .windows(2)
        .filter(|two| two[0].subject == two[1].subject)
        .count();
    assert!(
        (same as f64) < 0.5 * one.len() as f64,
        "{same} of {}",
        one.len()
    );
}

#[test]
fn a_sequence_that_would_eat_up_the_run_is_skipped_with_the_budget_that_would_do() {
    let (mut subjects, _) = playing(&[], 1);
    let long = Sequence {
        number: 2,
        skip: 160,
        least_skip: 160,
        read: 100,
        slices: false,
        ..sequence(2, false)
    };
    subjects.push(subject("llc-capacity", Some(long)));
    let mock = || {
        let mut mock = MockExecutor::new(&subjects, &vec![Response::default(); subjects.len()], 3);
        mock.plays = true;
        mock
    };
    let quick = Settings {
        budget: Duration::from_secs(4),
        ..Settings::quick()
    };
    let short = run(&mut mock(), &subjects, &quick);
    let entry = &short.subjects[8].entry;
    assert_eq!(entry.status, Status::Unresolved);
    let reason = entry.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("--budget"), "{reason}");
    assert_eq!(short.subjects[0].entry.status, Status::Measured);
    let long = run(&mut mock(), &subjects, &settings(30, 3));
    let entry = &long.subjects[8].entry;
    assert_eq!(entry.sensitive, Some(false), "{entry:?}");
}

#[test]
fn a_block_that_is_a_window_skips_nothing_however_slow_its_source() {
    let (mut subjects, _) = playing(&[], 1);
    for subject in &mut subjects {
        subject.sequence = subject
            .sequence
            .map(|sequence| sequence.in_windows(Duration::from_millis(30)));
    }
    let responses = vec![Response::default(); subjects.len()];
    let mut mock = MockExecutor::new(&subjects, &responses, 3);
    mock.plays = true;
    let measured = run(&mut mock, &subjects, &settings(30, 3));
    let whole = |block: &BlockRequest| (block.skip, block.periods) == (0, 1);
    assert!(mock.played.iter().all(whole));
    for outcome in &measured.subjects[..SLICED.len()] {
        assert_eq!(outcome.entry.sensitive, Some(false), "{outcome:?}");
    }
}

#[test]
fn where_no_sequence_comes_to_a_verdict_pairs_are_measured() {
    let (mut subjects, _) = playing(&[], 1);
    for subject in &mut subjects {
        if let Some(sequence) = &mut subject.sequence {
            sequence.period = Duration::from_millis(200);
        }
    }
    let responses = vec![Response::default(); subjects.len()];
    let mut mock = MockExecutor::new(&subjects, &responses, 3);
    mock.plays = true;
    let measured = run(&mut mock, &subjects, &settings(8, 3));
    assert!(mock.played.is_empty());
    assert!(measured.windows_kept > 50, "{}", measured.windows_kept);
}

#[test]
fn the_time_a_placebo_takes_is_a_cost_of_sharing_without_cpu_time_too() {
    let (mut subjects, _) = playing(&[], 1);
    subjects.truncate(2);
    let shared = Response {
        sharing: 0.98,
        ..Response::default()
    };
    let mut mock = MockExecutor::new(&subjects, &[shared, shared], 5);
    mock.plays = true;
    mock.slice_share = 0.2;
    let measured = run(&mut mock, &subjects, &settings(5, 5));
    let sharing = measured.subjects[0]
        .entry
        .sharing_cost
        .expect("an estimate");
    assert!((sharing.value - 0.98 * 0.8).abs() < 0.01, "{sharing:?}");
}

#[test]
fn a_machine_that_changes_after_an_early_verdict_withdraws_it() {
    // Half at first, nothing later: what the profile reports must agree with itself.
    let responses = [Response {
        sd: 0.08,
        ..noisy(Curve::Linear { loss: 0.1 })
    }];
    let mut withdrawn = 0;
    for seed in 0..6 {
        let (subjects, mut mock) = playing(&responses, seed);
        mock.phase_response = Some(|at| match at < Duration::from_secs(3) {
            true => 6.0,
            false => 0.1,
        });
        let measured = run(&mut mock, &subjects, &settings(15, seed));
        let entry = &measured.subjects[0].entry;
        let [_, low, high] = loss(&measured, 0);
        match entry.sensitive {
            Some(true) => assert!(low > 0.05, "{low} to {high}"),
            Some(false) => assert!(high < 0.05, "{low} to {high}"),
            None => withdrawn += 1,
        }
    }
    assert!(withdrawn > 0, "no interval met the line");
}

#[test]
fn idle_is_a_control_where_slices_take_as_long_as_blocks() {
    let slow = Sequence {
        period: Duration::from_millis(5),
        skip: 1,
        least_skip: 1,
        read: 4,
        ..sequence(0, true)
    };
    let subjects = vec![subject("cpu-time", Some(slow))];
    let halved = Response {
        target: Curve::Linear { loss: 0.5 },
        ..Response::default()
    };
    let mut mock = MockExecutor::new(&subjects, &[halved], 3);
    mock.plays = true;
    let measured = run(&mut mock, &subjects, &settings(10, 3));
    assert_eq!(measured.subjects[0].entry.sensitive, Some(true));
    let [lost, low, high] = loss(&measured, 0);
    assert!((lost - 0.5).abs() < 0.02, "{lost} ({low} to {high})");
}

#[test]
fn a_curve_that_ends_at_the_line_is_measured_without_a_verdict() {
    let at_the_line = noisy(Curve::Function(|intensity| match intensity >= 95.0 {
        true => 0.95,
        false => 1.0,
    }));
    let (mut measured_without, mut wrong) = (0, 0);
    for seed in 0..8 {
        let (subjects, mut mock) = playing(&[at_the_line], seed);
        let measured = run(&mut mock, &subjects, &settings(15, seed));
        let entry = &measured.subjects[0].entry;
        let score = entry.tolerated.expect("a score");
        wrong += usize::from(score.ci95[0] > 95.0 && entry.sensitive.is_none());
        let narrow = score.ci95[1] - score.ci95[0] <= 10.0;
        if entry.sensitive.is_none() && narrow {
            measured_without += 1;
            assert_eq!(entry.status, Status::Measured, "{entry:?}");
        }
    }
    assert!(measured_without >= 4, "{measured_without} of 8");
    assert!(wrong <= 1, "{wrong} of 8");
}

#[test]
fn little_free_time_bounds_what_is_lost_in_it() {
    let (mut resolved, mut wrong) = (0, 0);
    for seed in 0..20 {
        let quiet = Response {
            sd: 0.004,
            ..noisy(Curve::Linear { loss: 0.0 })
        };
        let (subjects, mut mock) = playing(&[quiet; 6], seed);
        mock.baseline = 1e6;
        // Free for 40 ms of each 120, and few blocks of each source.
        mock.unseen = Some(|at| at.as_millis() % 120 < 80);
        let settings = Settings {
            budget: Duration::from_millis(1_400),
            ..settings(2, seed)
        };
        let measured = run(&mut mock, &subjects, &settings);
        for harmless in &measured.subjects[..5] {
            resolved += u32::from(harmless.entry.sensitive == Some(false));
            wrong += u32::from(harmless.entry.sensitive == Some(true));
        }
    }
    // Where the few of the free time are judged alone, 32.
    assert!(resolved >= 45, "{resolved} of 100");
    assert_eq!(wrong, 0);
}

#[test]
fn at_full_strength_only_nothing_else_is_played_and_it_ends_early() {
    let responses = [
        noisy(Curve::line_through(40.0, 0.95)),
        noisy(Curve::Flat(1.0)),
    ];
    let (subjects, mut mock) = playing(&responses, 5);
    let settings = Settings {
        full_only: true,
        halves: Halves::Tolerated,
        ..settings(60, 5)
    };
    let measured = run(&mut mock, &subjects, &settings);
    for outcome in &measured.subjects {
        let levels: Vec<f64> = outcome.entry.curve.iter().map(|at| at.intensity).collect();
        assert_eq!(levels, [100.0], "{}", outcome.resource);
        let sequence = outcome.resource != "storage-bandwidth";
        let blocks = outcome.entry.curve[0].windows;
        assert!(
            !sequence || blocks >= 40,
            "{} from a moment",
            outcome.resource
        );
    }
    assert_eq!(measured.subjects[0].entry.sensitive, Some(true));
    assert_eq!(measured.subjects[1].entry.sensitive, Some(false));
    let [lost, low, high] = loss(&measured, 0);
    assert!(
        low < 0.125 && 0.125 < high && high - low < 0.04,
        "{lost} {low} {high}"
    );
    assert!(
        measured.duration < Duration::from_secs(40),
        "{:?}",
        measured.duration
    );
}

/// Away for 60 ms, there for 60 ms.
fn every_other_moment(at: Duration) -> bool {
    at.as_millis() % 120 < 60
}

#[test]
fn what_is_lost_is_that_without_an_unseen_neighbour() {
    let responses = [
        noisy(Curve::Linear { loss: 0.0 }),
        noisy(Curve::Linear { loss: 0.0 }),
        noisy(Curve::Linear { loss: 0.0 }),
        noisy(Curve::Linear { loss: 0.4 }),
    ];
    let (subjects, mut mock) = playing(&responses, 0);
    mock.unseen = Some(every_other_moment);
    let measured = run(&mut mock, &subjects, &settings(15, 0));
    let [lost, low, high] = loss(&measured, 3);
    assert!((lost - 0.4).abs() < 0.04, "{lost} ({low} to {high})");
    let mixture = measured.subjects[3].entry.mixture.expect("all the time");
    assert!(mixture.value > 0.65, "{mixture:?}");
    for harmless in 0..3 {
        assert_eq!(measured.subjects[harmless].entry.sensitive, Some(false));
    }
    let held = &measured.unseen_neighbours[0];
    assert!((held.held_percent - 50.0).abs() < 15.0, "{held:?}");
    assert!((held.slowed_percent - 30.0).abs() < 12.0, "{held:?}");
    assert!(held.resources.contains(&"l2-capacity".to_string()));
    let said = measured.warnings.iter().map(ToString::to_string);
    assert!(said.into_iter().any(|text| text.contains("does not show")));
    // Nobody there: all blocks count.
    let (subjects, mut mock) = playing(&responses, 0);
    let alone = run(&mut mock, &subjects, &settings(15, 0));
    assert!(alone.unseen_neighbours[0].held_percent < 5.0);
    assert_eq!(alone.subjects[3].entry.mixture, None);
}

/// In 1 of 20 the states are not told apart, and what is said is the mixture.
#[test]
fn an_unseen_neighbour_is_seldom_missed() {
    let mut losses: Vec<f64> = Vec::new();
    for seed in 1..=10 {
        let mut responses = [noisy(Curve::Linear { loss: 0.0 }); 4];
        responses[3] = noisy(Curve::Linear { loss: 0.4 });
        let (subjects, mut mock) = playing(&responses, seed);
        mock.unseen = Some(every_other_moment);
        let measured = run(&mut mock, &subjects, &settings(15, seed));
        losses.push(loss(&measured, 3)[0]);
    }
    let found = losses.iter().filter(|lost| (*lost - 0.4).abs() < 0.06);
    assert!(found.count() >= 9, "{losses:?}");
}

#[test]
fn at_full_strength_only_the_slow_get_their_pairs_before_long_blocks_eat_the_time() {
    let mut subjects = subjects();
    for subject in &mut subjects[..2] {
        // Blocks of 0.13 s.
        let long = Sequence {
            skip: 160,
            least_skip: 160,
            read: 100,
            ..sequence(2, false)
        };
        subject.sequence = Some(long);
    }
    let mut missed = 0;
    for seed in 0..10 {
        let responses = vec![noisy(Curve::Flat(0.97)); subjects.len()];
        let mut mock = MockExecutor::new(&subjects, &responses, seed);
        mock.plays = true;
        let settings = Settings {
            full_only: true,
            halves: Halves::Tolerated,
            ..settings(24, seed)
        };
        let measured = run(&mut mock, &subjects, &settings);
        let unmeasured = measured.subjects.iter();
        missed += unmeasured
            .filter(|outcome| outcome.entry.curve.is_empty())
            .count();
    }
    assert_eq!(missed, 0, "every source has a number");
}

/// A verdict on the last-level cache from a handful of pairs, each of which takes long.
#[test]
fn of_long_blocks_few_come_to_a_first_look() {
    let mut subjects = subjects();
    let long = Sequence {
        skip: 120,
        least_skip: 120,
        read: 60,
        slices: false,
        ..sequence(2, false)
    };
    subjects.push(subject("llc-capacity", Some(long)));
    let (mut found, mut pairs) = (0, Vec::new());
    for seed in 0..10 {
        let responses = vec![noisy(Curve::Linear { loss: 0.4 }); subjects.len()];
        let mut mock = MockExecutor::new(&subjects, &responses, seed);
        mock.plays = true;
        mock.baseline = 1e5;
        let measured = run(&mut mock, &subjects, &settings(5, seed));
        let entry = &measured.subjects.last().unwrap().entry;
        found += usize::from(entry.sensitive == Some(true));
        pairs.push(entry.curve.last().map_or(0, |point| point.windows));
    }
    assert!(found >= 9, "{found} of 10, with {pairs:?} pairs");
    assert!(pairs.iter().all(|pairs| *pairs < 8), "{pairs:?}");
}

/// The source of CPU time takes half of it. Two of three blocks are lost, as where runs of
/// the target end in most of them.
#[test]
fn cpu_time_has_its_first_pairs_where_most_blocks_are_lost() {
    let few = |seed| {
        let (subjects, mut mock) = playing(&[], seed);
        let at = subjects
            .iter()
            .position(|it| it.resource == "cpu-time")
            .unwrap();
        let mut all = vec![noisy(Curve::Flat(1.0)); subjects.len()];
        all[at] = noisy(Curve::Linear { loss: 0.5 });
        mock.responses = all;
        // Few operations: long blocks.
        (mock.baseline, mock.missed_chance) = (400.0, 0.65);
        let measured = run(&mut mock, &subjects, &settings(8, seed));
        let entry = &measured.subjects[at].entry;
        entry.curve.last().map_or(0, |point| point.windows) < 4
    };
    let few = (0..20).filter(|seed| few(*seed)).count();
    // 20 without more first rounds.
    assert!(few <= 8, "{few} of 20 have too few pairs");
}

/// Whether blocks of the sources were longer in the last quarter of what was played,
/// and the half-width of the loss to the first one.
fn grown(bursts: f64, seed: u64) -> (bool, [f64; 2]) {
    let (subjects, mut mock) = playing(&[noisy(Curve::Flat(1.0))], seed);
    (mock.baseline, mock.bursts) = (25e3, Some(bursts));
    let measured = run(&mut mock, &subjects, &settings(12, seed));
    let last = &mock.played[mock.played.len() * 3 / 4..];
    let longest = last.iter().filter(|block| block.subject < SLICED.len());
    let longest = longest.map(|block| block.periods).max().unwrap();
    let [_, low, high] = loss(&measured, 0);
    (longest > 8, [low, high])
}

#[test]
fn blocks_grow_where_their_ends_are_most_of_their_noise() {
    let (mut missed, mut grew) = (0, 0);
    for seed in 0..12 {
        // A turn holds 10 operations, and a block of six turns about five bursts.
        let (longer, [low, high]) = grown(13.0, seed);
        grew += usize::from(longer);
        // Nothing is said to be known better than the bursts allow.
        missed += usize::from(low > 0.0 || high < 0.0);
        assert!((0.006..0.15).contains(&(high - low)), "{low} {high}");
    }
    assert!(grew >= 10, "{grew} of 12");
    assert!(missed <= 2, "{missed}");
}

#[test]
fn blocks_of_a_slow_target_hold_operations_enough() {
    let (subjects, mut mock) = playing(&[noisy(Curve::Flat(0.7))], 1);
    (mock.baseline, mock.bursts) = (1000.0, Some(1.0));
    let measured = run(&mut mock, &subjects, &settings(20, 1));
    // Its control blocks serve other sequences too, and those of `cpu-time` last longer.
    let sliced = mock.played.iter().filter(|block| block.subject == 0);
    let sliced = sliced.filter(|block| matches!(block.arm, Arm::Treat(_)));
    let periods: Vec<u32> = sliced.map(|block| block.periods).collect();
    // 12 operations take 12 ms, after two periods that are not read.
    assert!(periods.iter().all(|periods| *periods >= 26), "{periods:?}");
    assert!(periods.iter().all(|periods| *periods <= 40), "{periods:?}");
    let [value, low, high] = loss(&measured, 0);
    assert!(
        (value - 0.3).abs() < 0.01 && high - low < 0.05,
        "{value} {low} {high}"
    );
}

/// Some verdicts take more pairs than a fair share of the time gives them.
#[test]
#[ignore = "full tier: a statistics grid"]
fn the_last_of_the_time_goes_to_verdicts_that_can_be_had() {
    let kept = [0.945, 0.9, 0.965, 0.96, 0.94, 0.95, 1.0, 1.0];
    let (mut decided, mut wrong) = (0, 0);
    for seed in 100..180 {
        let mut subjects = subjects();
        for subject in &mut subjects[..2] {
            // Blocks of 0.13 s.
            let long = Sequence {
                skip: 160,
                least_skip: 160,
                read: 100,
                ..sequence(2, false)
            };
            subject.sequence = Some(long);
        }
        let responses = kept.map(|kept| Response {
            sd: 0.05,
            ..noisy(Curve::Flat(kept))
        });
        let mut mock = MockExecutor::new(&subjects, &responses, seed);
        mock.plays = true;
        mock.baseline = 1e6;
        let measured = run(&mut mock, &subjects, &settings(20, seed));
        let off_the_line = measured.subjects.iter().zip(kept);
        for (outcome, kept) in off_the_line.filter(|(_, kept)| *kept != 0.95) {
            decided += u32::from(outcome.entry.sensitive.is_some());
            wrong += u32::from(outcome.entry.sensitive == Some(kept > 0.95));
        }
    }
    // 236 where all of the time is shared in the same way, 273 as it is.
    assert!(decided >= 255, "{decided} of 560");
    assert!(wrong <= 4, "{wrong} of {decided}");
}

/// Most blocks hold nothing, with and without interference: both seem equally fast.
#[test]
fn beside_cpu_time_a_metric_in_rare_bursts_says_nothing() {
    let measured = |bursts| {
        let mut responses = [noisy(Curve::Flat(1.0)); 7];
        responses[6] = noisy(Curve::Linear { loss: 0.5 });
        let (subjects, mut mock) = playing(&responses, 4);
        mock.bursts = bursts;
        let measured = run(&mut mock, &subjects, &settings(8, 4));
        let entry = &measured.subjects[6].entry;
        (entry.sensitive, entry.reason.clone().unwrap_or_default())
    };
    assert_eq!(measured(None).0, Some(true));
    let (verdict, reason) = measured(Some(10_000.0));
    assert_eq!(verdict, None, "{reason}");
    assert!(reason.contains("it comes in bursts"), "{reason}");
}
