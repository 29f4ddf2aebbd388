//! `jostle pairs`: planted losses are found, members that fail are told, and real
//! programs on one CPU keep about half.

mod common;

use crate::common::alone;
use crate::common::program::Ended;
use crate::common::program::command;
use crate::common::program::jostle;
use jostle_measure::pairs::Arm;
use jostle_measure::pairs::Bench;
use jostle_measure::pairs::BenchError;
use jostle_measure::pairs::Block;
use jostle_measure::pairs::Did;
use jostle_measure::pairs::Measured;
use jostle_measure::pairs::PairWarning;
use jostle_measure::pairs::Settings;
use jostle_measure::pairs::measure;
use jostle_profile::pairs::Performance;
use jostle_profile::pairs::PerformanceStatus;
use jostle_profile::reading::Reading;
use jostle_statistics::Noise;
use serde_json::Value;
use std::time::Duration;

/// A member that is known.
#[derive(Clone, Copy)]
struct Fake {
    /// Operations per second apart.
    rate: f64,
    /// Of its speed beside the others.
    keeps: f64,
    /// Standard deviation of the log rate from block to block.
    noise: f64,
    /// Factor between the two halves of each run, and seconds of a run apart; 0: no
    /// runs.
    phases: (f64, f64),
}

const PLAIN: Fake = Fake {
    rate: 20_000.0,
    keeps: 1.0,
    noise: 0.03,
    phases: (1.0, 0.0),
};

/// Plays blocks of 50 ms on the members it is given.
struct FakeBench {
    members: Vec<Fake>,
    noise: Noise,
    now: f64,
    /// Slow change that all have in common.
    drift: f64,
    /// Where each is in its run, seconds of it apart.
    runs: Vec<(u32, f64)>,
    /// Block in which a member ends.
    ends: Option<(usize, usize)>,
    unstoppable: Option<usize>,
    interrupted_at: Option<usize>,
    played: usize,
    /// Share of the blocks together in which the members share a cache; in the others they
    /// lose nothing.
    shared: Option<f64>,
    /// Until when the members share no cache, at a time.
    apart_until: Option<fn(f64) -> Option<f64>>,
}

impl FakeBench {
    fn new(members: &[Fake], seed: u64) -> FakeBench {
        FakeBench {
            runs: members.iter().map(|_| (0, 0.0)).collect(),
            members: members.to_vec(),
            noise: Noise::seeded(seed),
            now: 0.0,
            drift: 0.0,
            ends: None,
            unstoppable: None,
            interrupted_at: None,
            played: 0,
            shared: None,
            apart_until: None,
        }
    }
}

const SECONDS: f64 = 0.05;

impl Bench for FakeBench {
    fn now(&self) -> f64 {
        self.now
    }

    fn wait_for_cache(&mut self, longest: f64) -> f64 {
        let until = self.apart_until.and_then(|apart| apart(self.now));
        let wait = until.map_or(0.0, |until| (until - self.now).min(longest));
        self.now += wait;
        wait
    }

    fn play(&mut self, arm: Arm) -> Result<Block, BenchError> {
        self.played += 1;
        self.now += SECONDS;
        self.drift += 0.01 * self.noise.normal();
        if self.interrupted_at == Some(self.played) {
            return Err(BenchError::Interrupted);
        }
        if let Some((member, _)) = self.ends.filter(|(_, at)| self.played >= *at) {
            let reason = "exited with status 3".to_string();
            return Err(BenchError::Ended { member, reason });
        }
        if let Some(member) = self.unstoppable.filter(|member| !arm.runs(*member)) {
            let reason = "it is in the root cgroup".to_string();
            return Err(BenchError::NotPaused { member, reason });
        }
        let together = arm == Arm::Together;
        let shares_cache = self.shared.filter(|_| together);
        let shares_cache = shares_cache.map(|share| self.noise.uniform() < share);
        let mut did = Vec::new();
        for (index, fake) in self.members.iter().enumerate() {
            if !arm.runs(index) {
                did.push(None);
                continue;
            }
            let keeps = if together && shares_cache != Some(false) {
                fake.keeps
            } else {
                1.0
            };
            let noise = fake.noise * self.noise.normal() + self.drift;
            let (factor, length) = fake.phases;
            let (run, at) = &mut self.runs[index];
            let mut place = None;
            let mut rate = fake.rate;
            if length > 0.0 {
                if *at >= length {
                    (*run, *at) = (*run + 1, 0.0);
                }
                let half = 0.5 * length;
                // Work done before, at both rates.
                let before = fake.rate * (at.min(half) + (*at - half).max(0.0) * factor);
                place = Some((*run, before));
                rate *= if *at < half { 1.0 } else { factor };
                *at += SECONDS * keeps;
            }
            did.push(Some(Did {
                work: (rate * keeps * noise.exp() * SECONDS).floor(),
                seconds: SECONDS,
                place,
                restarted: false,
            }));
        }
        let at = self.now - 0.5 * SECONDS;
        Ok(Block {
            at,
            did,
            shares_cache,
        })
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("m{index}")).collect()
}

fn settings(seconds: u64, seed: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed,
        half_width: 0.005,
    }
}

fn measured(bench: &mut FakeBench, seconds: u64, seed: u64) -> Measured {
    let count = bench.members.len();
    measure(
        bench,
        &names(count),
        &vec![Ok(()); count],
        &settings(seconds, seed),
    )
}

fn value(reading: &Reading<Performance>) -> &Performance {
    reading.value().unwrap_or_else(|| panic!("{reading:?}"))
}

#[test]
fn planted_losses_are_found_and_nulls_covered() {
    let planted = [0.5, 1.0, 0.93];
    let noises = [0.03, 0.02, 0.08];
    let mut missed = 0;
    let rounds = 40;
    for seed in 0..rounds {
        let fakes: Vec<Fake> = planted
            .iter()
            .zip(noises)
            .map(|(&keeps, noise)| Fake {
                keeps,
                noise,
                ..PLAIN
            })
            .collect();
        let found = measured(&mut FakeBench::new(&fakes, seed), 10, seed);
        for (truth, found) in planted.iter().zip(&found.performances) {
            let found = value(found);
            assert!((found.value - truth).abs() < 0.1, "{truth}: {found:?}");
            assert!(found.ci95[1] - found.ci95[0] < 0.2, "{found:?}");
            missed += usize::from(*truth < found.ci95[0] || *truth > found.ci95[1]);
        }
    }
    let share = missed as f64 / (3 * rounds) as f64;
    println!("missed {share:.3}");
    assert!(share < 0.12, "{share}");
}

#[test]
fn losses_are_those_in_a_shared_cache() {
    let fakes = [
        Fake {
            keeps: 0.7,
            ..PLAIN
        },
        PLAIN,
    ];
    let mut covered = 0;
    for seed in 0..10 {
        let mut bench = FakeBench::new(&fakes, seed);
        bench.shared = Some(0.3);
        let found = measured(&mut bench, 10, seed);
        let sharing = found.cache_sharing.expect("it was looked at");
        assert!(sharing.of_shared_time, "{sharing:?}");
        assert!((sharing.shared_percent - 30.0).abs() < 15.0, "{sharing:?}");
        let loser = value(&found.performances[0]);
        assert!((loser.value - 0.7).abs() < 0.05, "seed {seed}: {loser:?}");
        covered += u32::from(loser.ci95[0] <= 0.7 && 0.7 <= loser.ci95[1]);
    }
    assert!(covered >= 8, "{covered} of 10");
    // Never shared: what was seen is told, and that it is not of that time.
    let mut bench = FakeBench::new(&fakes, 1);
    bench.shared = Some(0.0);
    let found = measured(&mut bench, 10, 1);
    let sharing = found.cache_sharing.expect("it was looked at");
    assert_eq!(
        (sharing.shared_percent, sharing.of_shared_time),
        (0.0, false)
    );
    assert!((value(&found.performances[0]).value - 1.0).abs() < 0.03);
}

#[test]
fn rounds_wait_for_a_shared_cache() {
    let loser = Fake {
        keeps: 0.7,
        ..PLAIN
    };
    // Apart for the first half of every two seconds.
    let mut bench = FakeBench::new(&[loser, PLAIN], 1);
    bench.apart_until = Some(|now| {
        let begin = 2.0 * (now / 2.0).floor();
        (now < begin + 1.0).then_some(begin + 1.0)
    });
    let found = measured(&mut bench, 10, 1);
    assert!(found.seconds < 10.5, "{}", found.seconds);
    assert!(bench.now > 14.0, "waiting is not measuring: {}", bench.now);
    let loser = value(&found.performances[0]);
    assert!((loser.value - 0.7).abs() < 0.05, "{loser:?}");
    // For ever: it ends all the same.
    let mut bench = FakeBench::new(&[PLAIN, PLAIN], 1);
    bench.apart_until = Some(|now| Some(now + 1e6));
    let found = measured(&mut bench, 10, 1);
    assert!(found.seconds < 10.5, "{}", found.seconds);
    assert!(bench.now < 31.0, "{}", bench.now);
}

#[test]
fn phases_of_a_run_are_no_noise_and_no_loss() {
    let fake = Fake {
        keeps: 0.7,
        phases: (4.0, 1.0),
        ..PLAIN
    };
    for seed in 0..6 {
        let found = measured(&mut FakeBench::new(&[fake, fake], seed), 12, seed);
        for found in &found.performances {
            let found = value(found);
            assert!((found.value - 0.7).abs() < 0.05, "{found:?}");
        }
    }
}

#[test]
fn what_is_known_well_ends_early() {
    let quiet = Fake {
        noise: 0.005,
        ..PLAIN
    };
    let found = measured(&mut FakeBench::new(&[quiet, quiet], 1), 60, 1);
    assert!(found.seconds < 20.0, "{}", found.seconds);
    for found in &found.performances {
        assert_eq!(value(found).status, PerformanceStatus::Measured);
    }
    let wild = Fake {
        noise: 0.8,
        ..PLAIN
    };
    let found = measured(&mut FakeBench::new(&[quiet, wild], 1), 5, 1);
    assert_eq!(
        value(&found.performances[1]).status,
        PerformanceStatus::Unresolved
    );
}

#[test]
fn a_member_that_ends_leaves_what_was_read() {
    let half = Fake {
        keeps: 0.5,
        ..PLAIN
    };
    let mut bench = FakeBench::new(&[half, half], 1);
    bench.ends = Some((1, 61));
    let found = measured(&mut bench, 30, 1);
    for found in &found.performances {
        assert!((value(found).value - 0.5).abs() < 0.05);
    }
    let ended = |warning: &PairWarning| matches!(warning, PairWarning::MemberEnded { member, .. } if member == "m1");
    assert!(found.warnings.iter().any(ended), "{:?}", found.warnings);
    bench = FakeBench::new(&[half, half], 1);
    bench.ends = Some((1, 5));
    let found = measured(&mut bench, 30, 1);
    let reason = found.performances[0].reason().unwrap();
    assert!(
        reason.contains("m1 ended") && reason.contains("status 3"),
        "{reason}"
    );
}

#[test]
fn beside_one_that_cannot_be_paused_nobody_else_has_a_value() {
    let half = Fake {
        keeps: 0.5,
        ..PLAIN
    };
    let mut bench = FakeBench::new(&[half, half, PLAIN], 1);
    bench.unstoppable = Some(1);
    let found = measured(&mut bench, 10, 1);
    assert!((value(&found.performances[1]).value - 0.5).abs() < 0.05);
    for other in [0, 2] {
        let reason = found.performances[other].reason().unwrap();
        assert!(reason.contains("m1 cannot be paused: it is in the root cgroup"));
    }
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
}

#[test]
fn one_without_a_metric_is_told_and_the_others_are_measured() {
    let half = Fake {
        keeps: 0.5,
        ..PLAIN
    };
    let mut bench = FakeBench::new(&[half, half], 1);
    let readable = [Ok(()), Err("it publishes no progress".to_string())];
    let found = measure(&mut bench, &names(2), &readable, &settings(10, 1));
    assert!((value(&found.performances[0]).value - 0.5).abs() < 0.05);
    assert_eq!(
        found.performances[1].reason(),
        Some("it publishes no progress")
    );
    let text = found.warnings[0].facts();
    assert_eq!(text.code, "member-unread");
    assert!(text.message.contains("m1"));
}

#[test]
fn an_interruption_keeps_what_was_read() {
    let mut bench = FakeBench::new(&[PLAIN, PLAIN], 1);
    bench.interrupted_at = Some(100);
    let found = measured(&mut bench, 30, 1);
    assert!(found.interrupted);
    assert!(value(&found.performances[0]).blocks > 40);
}

#[test]
fn wrong_requests_are_refused_by_name() {
    let cases: &[(&[&str], &str)] = &[
        (&["pairs", "sleep 9"], "two or more"),
        (
            &["pairs", "sleep 9", "no-such-program-x"],
            "no-such-program-x",
        ),
        (&["pairs", "sleep 9", "pid:x"], "pid:1234"),
        (
            &["pairs", "sleep 9", "sleep 8", "--metric-of", "c=runs"],
            "there are sleep, sleep-2",
        ),
        (
            &["pairs", "sleep 9", "sleep 8", "--metric", "nonsense"],
            "nonsense",
        ),
        (
            &["pairs", "sleep 9", "sleep 8", "--budget", "1ms"],
            "--budget",
        ),
        (
            &["pairs", "sleep 9", "profile:/nonexistent.json"],
            "/nonexistent.json",
        ),
        (&["pairs", "sleep 9", " "], "an empty target"),
    ];
    for (arguments, words) in cases {
        let (code, _, stderr) = jostle(arguments).parts();
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_dry_run_says_who_would_run_where() {
    let told = [
        "pairs",
        "--dry-run",
        "--same-cpu",
        "a=sleep --x=9 8",
        "LC_ALL=C sort x",
        "sleep 7",
    ];
    let (code, text, stderr) = jostle(&told).parts();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        text.starts_with("same-cpu, 10 s at most\n  a on CPU "),
        "{text}"
    );
    assert!(text.contains(": sleep --x=9 8\n"), "{text}");
    // What needs a shell is given to one.
    assert!(text.contains(": sh -c LC_ALL=C sort x\n"), "{text}");
    assert!(text.contains("  sleep on CPU "), "{text}");
}

/// What is written of two busy demos, by placement.
fn two_busy(placement: &str) -> Option<Value> {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("pairs.json");
    let out = out.to_str().unwrap();
    let told = [
        "pairs",
        placement,
        "--budget",
        "6s",
        "--out",
        out,
        "demo:quiet",
        "demo:quiet",
    ];
    let (code, table, stderr) = Ended::of(command(&told), Duration::from_secs(120)).parts();
    if code == Some(2) && stderr.contains("CPUs of their own") {
        return None;
    }
    assert_eq!(code, Some(0), "{stderr}");
    assert!(table.contains("demo-quiet-2"), "{table}");
    let text = std::fs::read_to_string(out).unwrap();
    jostle_profile::pairs::load(std::path::Path::new(out)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

fn intervals(document: &Value) -> Vec<[f64; 2]> {
    let members = document["groups"][0]["members"].as_array().unwrap();
    let ends = members.iter().map(|member| {
        let ends = &member["performance"]["ci95"];
        [0, 1].map(|end| ends[end].as_f64().unwrap_or_else(|| panic!("{member}")))
    });
    ends.collect()
}

/// Times that it is tried while others load the machine: they take their shares of
/// the CPUs, too.
const TRIES: usize = 4;

/// Tries until the intervals of both are as `expected`; `None` without the CPUs.
fn eventually_both(placement: &str, expected: impl Fn([f64; 2]) -> bool) -> Option<()> {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let intervals = intervals(&two_busy(placement)?);
        if intervals.iter().all(|ends| expected(*ends)) {
            return Some(());
        }
        seen.push(intervals);
    }
    panic!("{seen:?}");
}

#[test]
fn two_busy_programs_on_one_cpu_keep_about_half_each() {
    // Two thirds beside somebody who keeps the CPU busy, too.
    let half = |[low, high]: [f64; 2]| low < 0.7 && high > 0.45 && high < 0.9;
    eventually_both("--same-cpu", half).unwrap();
}

#[test]
#[ignore = "full tier: takes long"]
fn a_program_that_uses_registers_only_keeps_all_on_a_cpu_of_its_own() {
    if eventually_both("--own-cpus", |[_, high]| high > 0.95).is_none() {
        common::skip::skip("cpus", "two programs on CPUs of their own need two");
    }
}
