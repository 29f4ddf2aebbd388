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
use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::Sequence;
use jostle_measure::experiment::executor::TargetState;
use jostle_measure::experiment::executor::WindowError;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::go_on;
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
        let sensitive = |outcome: &jostle_measure::experiment::outcome::SubjectOutcome| {
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
    let all = |measured: &Measured| {
        let curves = measured.subjects.iter().map(|it| &it.entry.curve);
        curves.flatten().map(|point| point.windows).sum::<u64>()
    };
    let (_, mut alone) = playing(&responses, 70);
    let alone = run(&mut alone, &subjects, &settings(6, 7));
    let past = readings.pairs.len() as u64;
    assert!(
        all(&whole) > all(&alone) + past / 2,
        "{} after {past}, {} alone",
        all(&whole),
        all(&alone)
    );
    let [lost, ..] = loss(&whole, 0);
    assert!((lost - 0.2).abs() < 0.02, "{lost}");
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

/// Few rounds of runs fit into a budget; what a target does to the sources has its pairs by
/// the time of the first look at what it tolerates.
#[test]
fn whole_runs_tell_soon_what_a_target_does_to_sources() {
    let of_runs = Sequence {
        period: Duration::from_millis(100),
        skip: 0,
        least_skip: 0,
        read: 1,
        ..sequence(0, false)
    };
    let subjects = SLICED.map(|name| subject(name, Some(of_runs)));
    let responses = [Response::default(); SLICED.len()];
    let mut known = 0;
    for seed in 0..5 {
        let mut mock = MockExecutor::new(&subjects, &responses, seed);
        (mock.plays, mock.whole_runs, mock.baseline) = (true, true, 1e5);
        let measured = run(&mut mock, &subjects, &settings(7, seed));
        let caused = measured.subjects.iter().map(|it| it.entry.caused);
        known += caused.flatten().count();
    }
    println!("{known} of 30 known");
    assert!(known >= 25, "{known} of 30");
}
