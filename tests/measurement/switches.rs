//! The cost of a switch against planted truth, on the mock executor's virtual
//! clock.

use crate::mock::Curve;
use crate::mock::MockExecutor;
use crate::mock::Response;
use crate::playing::sequence;
use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::outcome::Measured;
use jostle_measure::experiment::run::Halves;
use jostle_measure::experiment::run::Settings;
use jostle_measure::experiment::run::measure;
use jostle_profile::Switch;
use jostle_profile::reading::Reading;
use std::time::Duration;

const SOURCES: [&str; 5] = ["int", "l1d", "l2-capacity", "tlb", "branch"];
/// Microseconds per switch, in turns of [`TURN`].
const PLANTED: [f64; 5] = [0.0, 0.0, 160.0, 30.0, 0.0];
const TURN: Duration = Duration::from_millis(4);

fn subjects() -> Vec<Subject> {
    let subject = |resource| Subject {
        resource,
        settle: Duration::from_millis(3),
        window: Duration::from_millis(24),
        switch_cost: Duration::ZERO,
        stoppable: true,
        probe_endpoints: &[100.0],
        probes: false,
        sequence: Some(sequence(0, false)),
    };
    SOURCES.map(subject).into()
}

fn settings(seconds: u64, seed: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed,
        turn: Some(TURN),
        ..Settings::default()
    }
}

fn mock(seed: u64) -> MockExecutor {
    let responses = PLANTED.map(|switch_microseconds| Response {
        // Short slices push out little: 60 µs of 400.
        target: Curve::Linear {
            loss: switch_microseconds.min(60.0) / 400.0,
        },
        sharing: 0.99,
        switch_microseconds,
        sd: 0.03,
        ..Response::default()
    });
    let mut mock = MockExecutor::new(&subjects(), &responses, seed);
    mock.plays = true;
    mock.baseline = 1e5;
    mock
}

fn run(mock: &mut MockExecutor, settings: &Settings) -> Measured {
    measure(mock, &subjects(), settings, &mut ())
}

fn switch(measured: &Measured, subject: usize) -> &Switch {
    let reading = measured.subjects[subject].entry.switch.as_ref();
    let Some(Reading::Value(switch)) = reading else {
        panic!("{reading:?}")
    };
    switch
}

#[test]
#[ignore = "full tier: takes long"]
fn costs_are_found_and_their_intervals_cover() {
    let (mut inside, mut all, mut plain, mut seen) = (0, 0, 0, 0);
    let (mut costs, mut false_costs) = (Vec::new(), 0);
    let seeds = 40;
    for seed in 0..seeds {
        let measured = run(&mut mock(seed), &settings(20, seed));
        for (subject, planted) in PLANTED.iter().enumerate() {
            let [low, high] = switch(&measured, subject).cost_microseconds.ci95;
            inside += usize::from(low <= *planted && *planted <= high);
            all += 1;
        }
        for null in [1, 4] {
            let [low, _] = switch(&measured, null).cost_microseconds.ci95;
            false_costs += usize::from(low > 0.0);
        }
        costs.push(switch(&measured, 2).cost_microseconds.value);
        let lost = switch(&measured, 2).expected_loss_percent;
        seen += usize::from(lost.ci95[0] > 0.0 && lost.ci95[1] < 15.0);
        // The placebo takes 1 % of 4 ms.
        let [low, high] = measured.plain_switch.unwrap().ci95;
        plain += usize::from(low <= 40.0 && 40.0 <= high);
    }
    // 925 of 1000 by seeds 0 to 199; the misses come in groups, as the sources of a run have
    // one control.
    assert!(inside * 100 >= all * 86, "{inside} of {all} intervals");
    assert!(plain * 100 >= seeds as usize * 85, "{plain} of {seeds}");
    // 120 of 200 by seeds 0 to 199.
    assert!(seen * 100 >= seeds as usize * 40, "{seen} of {seeds}");
    assert!(false_costs <= 8, "{false_costs} of {}", 2 * seeds);
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    // A single one errs by about 80.
    assert!((mean - PLANTED[2]).abs() < 40.0, "{mean}");
}

#[test]
fn they_take_no_more_than_their_part_of_the_budget() {
    let mut mock = mock(7);
    let measured = run(&mut mock, &settings(20, 7));
    let turns = mock.played.iter().filter(|block| block.turn.is_some());
    let spent: Duration = turns.clone().map(|block| 2 * TURN * block.periods).sum();
    assert!(spent <= Duration::from_secs(4), "{spent:?}");
    assert!(spent >= Duration::from_secs(1), "{spent:?}");
    let held = |block: &&jostle_measure::experiment::executor::BlockRequest| {
        block.subject == 0 && matches!(block.arm, Arm::Treat(_))
    };
    assert_eq!(turns.filter(held).count(), 0, "registers hold nothing");
    // It is known from short slices, and less surely so in long turns.
    let registers = switch(&measured, 0);
    assert_eq!(registers.turns.len(), 1);
    assert_eq!(switch(&measured, 2).turns.len(), 2);
}

#[test]
fn where_few_fit_they_are_those_that_lose_most() {
    let measured = run(&mut mock(3), &settings(10, 3));
    let switch_of = |subject: usize| measured.subjects[subject].entry.switch.as_ref().unwrap();
    assert!(switch_of(2).value().is_some(), "{:?}", switch_of(2));
    let all = [1, 2, 3, 4].map(|subject| switch_of(subject).reason());
    let left_out = all.iter().flatten().next();
    assert!(left_out.unwrap().contains("--budget"), "{all:?}");
}

#[test]
fn without_room_or_turns_there_is_a_reason_or_nothing() {
    let quick = run(&mut mock(1), &settings(3, 1));
    let entry = &quick.subjects[2].entry;
    let reason = entry.switch.as_ref().and_then(Reading::reason);
    assert!(reason.unwrap().contains("--budget"), "{reason:?}");
    for asked in [
        Settings {
            turn: None,
            ..settings(10, 1)
        },
        Settings {
            halves: Halves::Caused,
            ..settings(10, 1)
        },
    ] {
        let mut mock = mock(1);
        let measured = run(&mut mock, &asked);
        assert_eq!(measured.subjects[2].entry.switch, None);
        assert!(mock.played.iter().all(|block| block.turn.is_none()));
    }
    let endless = Settings {
        turn: Some(Duration::from_secs(1)),
        ..settings(10, 1)
    };
    let measured = run(&mut mock(1), &endless);
    let reason = measured.subjects[2].entry.switch.as_ref().unwrap();
    assert!(reason.reason().unwrap().contains("1000 ms"), "{reason:?}");
}
