//! `jostle blame`: planted culprits are found with what they cost, innocents are not
//! accused, and nobody stands still for longer than allowed.

mod common;

use jostle_measure::blame::Arm;
use jostle_measure::blame::Bench;
use jostle_measure::blame::BenchError;
use jostle_measure::blame::BlameWarning;
use jostle_measure::blame::Measured;
use jostle_measure::blame::Pause;
use jostle_measure::blame::REACHES;
use jostle_measure::blame::Settings;
use jostle_measure::blame::Window;
use jostle_measure::blame::measure;
use jostle_profile::blame::Verdict;
use jostle_statistics::Noise;
use std::path::Path;
use std::time::Duration;

/// Progress of a program beside a placebo, recorded on a virtual machine with busy
/// neighbours: operations by time.
struct Recording {
    /// Seconds from the beginning, and operations until then.
    marks: Vec<(f64, f64)>,
}

impl Recording {
    fn read(name: &str) -> Recording {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/statistics/tests/fixtures");
        let bytes = std::fs::read(folder.join(format!("noise/{name}.noise"))).unwrap();
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let words: Vec<&str> = head.split(' ').collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        let (ns, count, slice) = (number(2), number(4), number(6));
        let (mut at, mut done) = (0.0, 0.0);
        let mut marks = vec![(at, done)];
        for pair in bytes[end + 1..].chunks_exact(4) {
            let turn = f64::from(u16::from_le_bytes([pair[0], pair[1]]));
            let work = f64::from(u16::from_le_bytes([pair[2], pair[3]]));
            at += (turn * ns + slice) / 1e9;
            done += work * count;
            marks.push((at, done));
        }
        Recording { marks }
    }

    fn seconds(&self) -> f64 {
        self.marks[self.marks.len() - 1].0
    }

    /// Operations until `at`, over and over again.
    fn done(&self, at: f64) -> f64 {
        let (length, all) = self.marks[self.marks.len() - 1];
        let (rounds, at) = ((at / length).floor(), at % length);
        let next = self.marks.partition_point(|mark| mark.0 <= at);
        let next = next.clamp(1, self.marks.len() - 1);
        let ((t0, w0), (t1, w1)) = (self.marks[next - 1], self.marks[next]);
        rounds * all + w0 + (w1 - w0) * (at - t0) / (t1 - t0)
    }
}

/// What a candidate does to the victim.
#[derive(Clone, Copy, Debug)]
enum Does {
    Nothing,
    /// Takes this fraction of its speed.
    Costs(f64),
    /// Takes turns of this length with it on one CPU, seconds.
    Turns(f64),
    /// As much as `Costs`; what it evicted is only back after so many seconds.
    Evicts(f64, f64),
    Ends(f64),
    CannotBePaused,
}

struct FakeBench<'a> {
    recording: &'a Recording,
    candidates: Vec<Does>,
    /// Where in the recording it began.
    offset: f64,
    now: f64,
    /// Of the same at the end of the last pause.
    free_from: f64,
    noise: Noise,
    /// How pausing itself changes the victim's speed, a factor.
    placebo: f64,
    interrupted_at: f64,
    /// When each candidate was held, and for how long.
    held: Vec<Vec<(f64, f64)>>,
}

impl<'a> FakeBench<'a> {
    fn new(recording: &'a Recording, candidates: &[Does], seed: u64) -> FakeBench<'a> {
        let mut noise = Noise::seeded(seed);
        FakeBench {
            recording,
            candidates: candidates.to_vec(),
            offset: noise.uniform() * recording.seconds(),
            now: 0.0,
            free_from: 0.0,
            noise,
            placebo: 1.0,
            interrupted_at: f64::INFINITY,
            held: vec![Vec::new(); candidates.len()],
        }
    }

    /// Share of its speed that the victim has at `at` while `paused`, since `since`.
    fn kept(&self, at: f64, paused: Option<usize>, since: f64) -> f64 {
        let candidates = self.candidates.iter().enumerate();
        let factors = candidates.map(|(index, does)| {
            let is_paused = paused == Some(index);
            match *does {
                Does::Costs(loss) if !is_paused => 1.0 - loss,
                // The turns go on behind the pauses.
                Does::Turns(length) if !is_paused => {
                    f64::from(u8::from(((at / length) as u64).is_multiple_of(2)))
                }
                Does::Evicts(loss, back) => match is_paused {
                    true => 1.0 - loss * (-(at - since) / back).exp(),
                    false => 1.0 - loss,
                },
                _ => 1.0,
            }
        });
        factors.product()
    }

    fn window(&self, from: f64, to: f64, paused: Option<usize>, since: f64) -> Window {
        const STEP: f64 = 0.0005;
        let timed = |does: &Does| matches!(does, Does::Turns(_) | Does::Evicts(..));
        let steps = match self.candidates.iter().any(timed) {
            true => ((to - from) / STEP).ceil().max(1.0),
            false => 1.0,
        };
        let step = (to - from) / steps;
        let (mut work, mut before) = (0.0, self.recording.done(self.offset + from));
        for k in 0..steps as usize {
            let at = from + step * k as f64;
            let done = self.recording.done(self.offset + at + step);
            work += (done - before) * self.kept(at + 0.5 * step, paused, since);
            before = done;
        }
        Window {
            work: work.floor(),
            seconds: to - from,
            cpu_seconds: None,
            waited_seconds: None,
        }
    }
}

impl Bench for FakeBench<'_> {
    fn now(&self) -> f64 {
        self.now
    }

    fn play(&mut self, arm: Arm, gap: f64, pause: f64) -> Result<Pause, BenchError> {
        let order = self.now + gap;
        let before = REACHES.map(|reach| {
            let from = (order - reach * pause).max(self.free_from + 0.01);
            self.window(from, order, None, 0.0)
        });
        if order > self.interrupted_at {
            return Err(BenchError::Interrupted);
        }
        let paused = match arm {
            Arm::Placebo => None,
            Arm::Candidate(index) => {
                match self.candidates[index] {
                    Does::Ends(at) if order > at => {
                        return Err(BenchError::Ended("it is gone".into()));
                    }
                    Does::CannotBePaused => {
                        return Err(BenchError::NotPaused("not ours".into()));
                    }
                    _ => {}
                }
                Some(index)
            }
        };
        let stop = 0.00003 + 0.0001 * self.noise.uniform();
        let from = order + stop;
        let middle = from + 0.5 * pause;
        let mut halves = [
            self.window(from, middle, paused, from),
            self.window(middle, from + pause, paused, from),
        ];
        for half in &mut halves {
            half.work = (half.work * self.placebo).floor();
        }
        self.now = from + pause + 0.00005;
        self.free_from = self.now;
        let held_seconds = self.now - order;
        if let Some(index) = paused {
            self.held[index].push((order, held_seconds));
        }
        Ok(Pause {
            before,
            paused: halves,
            stop_seconds: stop,
            resume_seconds: 0.00005,
            held_seconds,
            spoiled: false,
        })
    }
}

fn settings(seconds: u64, max_pause: f64, seed: u64) -> Settings {
    Settings {
        budget: Duration::from_secs(seconds),
        seed,
        pause: Duration::from_millis(5),
        max_pause,
        half_width: 0.0,
        least: 0.01,
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("c{index}")).collect()
}

fn measured(bench: &mut FakeBench, settings: &Settings) -> Measured {
    let count = bench.candidates.len();
    measure(bench, &names(count), settings)
}

const RECORDINGS: [&str; 5] = [
    "chase-40KiB",
    "chase-1300KiB",
    "chase-16MiB",
    "kv",
    "l2-capacity",
];

/// Runs with some innocent accused, of `runs`.
fn accused(innocents: usize, culprit: Option<Does>, runs: u64) -> u64 {
    let began = std::time::Instant::now();
    let recordings = RECORDINGS.map(Recording::read);
    let mut accused = 0;
    for seed in 0..runs {
        let mut candidates = vec![Does::Nothing; innocents];
        candidates.extend(culprit);
        let recording = &recordings[seed as usize % recordings.len()];
        let mut bench = FakeBench::new(recording, &candidates, seed);
        let found = measured(&mut bench, &settings(12, 0.05, seed));
        let guilty = found.effects[..innocents].iter();
        let guilty = guilty.filter(|(verdict, _)| *verdict != Verdict::NotShown);
        if guilty.count() > 0 {
            accused += 1;
            println!("seed {seed}: {:?}", found.effects);
        }
    }
    println!(
        "{innocents} innocents, {culprit:?}: accused in {accused} of {runs} runs, {:?}",
        began.elapsed()
    );
    accused
}

#[test]
#[ignore = "full tier: takes long"]
fn innocents_are_hardly_ever_accused() {
    assert!(accused(1, None, 100) <= 5);
}

#[test]
fn many_innocents_beside_a_culprit_are_hardly_ever_accused() {
    assert!(accused(6, Some(Does::Turns(0.003)), 40) <= 2);
}

#[test]
fn culprits_are_found_with_what_they_cost() {
    let recordings = RECORDINGS.map(Recording::read);
    let planted = [
        (Does::Costs(0.3), 0.3),
        (Does::Nothing, 0.0),
        (Does::Turns(0.003), 0.5),
        (Does::Costs(0.1), 0.1),
    ];
    let candidates: Vec<Does> = planted.iter().map(|(does, _)| *does).collect();
    let (mut inside, mut intervals, mut found_guilty, mut guilty) = (0, 0, 0, 0);
    for seed in 0..40 {
        let recording = &recordings[seed as usize % recordings.len()];
        let mut bench = FakeBench::new(recording, &candidates, seed);
        let found = measured(&mut bench, &settings(30, 0.05, seed));
        for ((_, truth), (verdict, effect)) in planted.iter().zip(&found.effects) {
            let effect = effect.value().unwrap();
            let [low, high] = effect.slowed_percent.ci95;
            intervals += 1;
            let covered = low <= 100.0 * truth && 100.0 * truth <= high;
            inside += usize::from(covered);
            if !covered {
                println!("seed {seed}, {truth}: {:?}", effect.slowed_percent);
            }
            if *truth > 0.2 {
                guilty += 1;
                found_guilty += usize::from(*verdict == Verdict::Slows);
            }
            let [low, high] = effect.family95;
            assert!(low <= effect.slowed_percent.value && effect.slowed_percent.value <= high);
        }
    }
    println!("{inside} of {intervals} inside, {found_guilty} of {guilty} found");
    assert!(inside * 10 >= intervals * 9, "{inside} of {intervals}");
    assert!(
        found_guilty * 10 >= guilty * 9,
        "{found_guilty} of {guilty}"
    );
}

#[test]
fn nobody_is_held_longer_than_allowed_at_any_time() {
    let recording = Recording::read("kv");
    for (count, share) in [(1, 0.01), (3, 0.01), (12, 0.02), (30, 0.5)] {
        let mut bench = FakeBench::new(&recording, &vec![Does::Costs(0.2); count], 1);
        let settings = settings(20, share, 1);
        let found = measured(&mut bench, &settings);
        for held in &bench.held {
            let mut sum = 0.0;
            for (from, seconds) in held {
                sum += seconds;
                assert!(
                    sum <= share * (from + seconds) * 1.02 + 1e-6,
                    "{count}: {sum} of {from}"
                );
            }
        }
        for (_, effect) in &found.effects {
            let paused = effect.value().map_or(0.0, |effect| effect.paused_percent);
            assert!(paused <= 100.0 * share * 1.02, "{count} {share}: {paused}");
        }
    }
}

#[test]
fn what_pausing_itself_does_is_taken_off() {
    let recording = Recording::read("chase-40KiB");
    let mut bench = FakeBench::new(&recording, &[Does::Nothing, Does::Costs(0.3)], 5);
    bench.placebo = 1.1;
    let found = measured(&mut bench, &settings(30, 0.1, 5));
    assert_eq!(found.effects[0].0, Verdict::NotShown);
    assert_eq!(found.effects[1].0, Verdict::Slows);
    let slowed = found.effects[1].1.value().unwrap().slowed_percent;
    assert!((slowed.value - 30.0).abs() < 4.0, "{slowed:?}");
    let shifted = |it: &BlameWarning| matches!(it, BlameWarning::PlaceboShifted { .. });
    assert!(found.warnings.iter().any(shifted), "{:?}", found.warnings);
}

#[test]
fn a_victim_that_recovers_slowly_is_told() {
    let recording = Recording::read("chase-40KiB");
    let mut bench = FakeBench::new(&recording, &[Does::Evicts(0.5, 0.004)], 2);
    let found = measured(&mut bench, &settings(30, 0.1, 2));
    let effect = found.effects[0].1.value().unwrap();
    let late = effect.late_slowed_percent.unwrap();
    assert!(late.value > effect.slowed_percent.value + 3.0, "{effect:?}");
    let recovering = |it: &BlameWarning| matches!(it, BlameWarning::StillRecovering { .. });
    assert!(
        found.warnings.iter().any(recovering),
        "{:?}",
        found.warnings
    );
}

#[test]
fn candidates_that_go_or_cannot_be_paused_leave_the_others() {
    let recording = Recording::read("kv");
    let candidates = [Does::Ends(5.0), Does::CannotBePaused, Does::Costs(0.5)];
    let mut bench = FakeBench::new(&recording, &candidates, 3);
    let found = measured(&mut bench, &settings(20, 0.05, 3));
    assert_eq!(found.effects[1].0, Verdict::NotTried);
    let reason = found.effects[1].1.reason().unwrap();
    assert!(reason.contains("cannot be paused: not ours"), "{reason}");
    assert_eq!(found.effects[2].0, Verdict::Slows);
    let told = |code: &str| found.warnings.iter().any(|it| it.facts().code == code);
    assert!(told("candidate-ended") && told("candidate-not-paused"));
}

#[test]
fn an_interruption_keeps_what_is_known() {
    let recording = Recording::read("kv");
    let mut bench = FakeBench::new(&recording, &[Does::Costs(0.5), Does::Nothing], 4);
    bench.interrupted_at = 15.0;
    let found = measured(&mut bench, &settings(60, 0.05, 4));
    assert!(found.interrupted);
    assert_eq!(found.effects[0].0, Verdict::Slows);
    bench = FakeBench::new(&recording, &[Does::Costs(0.5)], 4);
    bench.interrupted_at = 0.3;
    let found = measured(&mut bench, &settings(60, 0.05, 4));
    let reason = found.effects[0].1.reason().unwrap();
    assert!(reason.contains("interrupted"), "{reason}");
}

#[test]
fn what_is_known_well_ends_early() {
    let recording = Recording::read("chase-40KiB");
    let mut bench = FakeBench::new(&recording, &[Does::Costs(0.5)], 4);
    let settings = Settings {
        half_width: 0.03,
        ..settings(600, 0.05, 4)
    };
    let found = measured(&mut bench, &settings);
    assert!(found.seconds < 60.0, "{}", found.seconds);
}
