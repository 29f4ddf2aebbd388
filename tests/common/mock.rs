//! An executor on a virtual clock that answers from a seeded response model,
//! so that statistics are tested against known truth.
#![allow(dead_code, reason = "no test needs all of it")]

use jostle_measure::experiment::executor::Arm;
use jostle_measure::experiment::executor::Block;
use jostle_measure::experiment::executor::BlockReading;
use jostle_measure::experiment::executor::BlockRequest;
use jostle_measure::experiment::executor::Completion;
use jostle_measure::experiment::executor::Executor;
use jostle_measure::experiment::executor::Place;
use jostle_measure::experiment::executor::Subject;
use jostle_measure::experiment::executor::TargetState;
use jostle_measure::experiment::executor::TargetTurn;
use jostle_measure::experiment::executor::WindowError;
use jostle_measure::experiment::executor::WindowReading;
use jostle_measure::experiment::executor::WindowRequest;
use jostle_statistics::Noise;
use std::time::Duration;

/// How performance, a fraction of undisturbed, answers to intensity (0–100).
#[derive(Clone, Copy, Debug)]
pub enum Curve {
    /// The same at every intensity above 0.
    Flat(f64),
    /// Falls from 1 by `loss` (a fraction) in a straight line to 100.
    Linear { loss: f64 },
    /// 1 up to and including `at`, then `then`.
    Step { at: f64, then: f64 },
    /// 1 up to `at`, then falls by `slope` per point, not below 0.05.
    Cliff { at: f64, slope: f64 },
    /// Any function of intensity.
    Function(fn(f64) -> f64),
}

impl Curve {
    /// The straight line that meets `line` at intensity `at`.
    pub fn line_through(at: f64, line: f64) -> Self {
        Curve::Linear {
            loss: (1.0 - line) * 100.0 / at,
        }
    }

    /// Performance at `intensity`.
    pub fn at(self, intensity: f64) -> f64 {
        if intensity <= 0.0 {
            return 1.0;
        }
        match self {
            Curve::Flat(level) => level,
            Curve::Linear { loss } => (1.0 - loss * intensity / 100.0).max(0.0),
            Curve::Step { at, then } => {
                if intensity > at {
                    then
                } else {
                    1.0
                }
            }
            Curve::Cliff { at, slope } => (1.0 - slope * (intensity - at).max(0.0)).max(0.05),
            Curve::Function(function) => function(intensity),
        }
    }
}

/// How one subject answers.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Target performance under treatment, as a fraction of under control.
    pub target: Curve,
    /// Source performance beside the running target, as a fraction of alone.
    pub probe: Curve,
    /// Target performance under control, as a fraction of idle.
    pub sharing: f64,
    /// Target time that a switch to the source costs in turns of the scheduler,
    /// microseconds.
    pub switch_microseconds: f64,
    /// Standard deviation of one window, a fraction.
    pub sd: f64,
}

impl Default for Response {
    /// Nothing is shared; 1 % noise.
    fn default() -> Self {
        Response {
            target: Curve::Flat(1.0),
            probe: Curve::Flat(1.0),
            sharing: 1.0,
            switch_microseconds: 0.0,
            sd: 0.01,
        }
    }
}

/// What disturbs every window, whatever its arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Weather {
    /// Correlation of the slow drift from one window to the next, 0–1.
    pub drift_memory: f64,
    /// Standard deviation of the slow drift, a fraction.
    pub drift_sd: f64,
    /// Chance that a window is off by ± `outlier_size`.
    pub outlier_chance: f64,
    pub outlier_size: f64,
    /// Chance that a burst of steal begins in a window.
    pub steal_chance: f64,
    /// How many windows a burst lasts, and the share it takes.
    pub steal_windows: u32,
    pub steal_share: f64,
}

/// How fast a command is at a place of its run, against its mean.
pub type Pace = fn(f64) -> f64;

impl Default for Weather {
    /// AR(1) drift of 1 %, 2 % of windows off by ± 30 %, no steal.
    fn default() -> Self {
        Weather {
            drift_memory: 0.9,
            drift_sd: 0.01,
            outlier_chance: 0.02,
            outlier_size: 0.3,
            steal_chance: 0.0,
            steal_windows: 2,
            steal_share: 0.3,
        }
    }
}

/// Counts one window.
pub type Count = fn(&WindowRequest, f64) -> Vec<Option<f64>>;

/// Answers windows from [`Response`]s on a virtual clock.
#[derive(Debug)]
pub struct MockExecutor {
    subjects: Vec<Subject>,
    pub responses: Vec<Response>,
    /// Disturbances shared by all windows.
    pub weather: Weather,
    /// Target performance when nothing disturbs it, metric units.
    pub baseline: f64,
    /// When set, a window with a running target lasts this long whatever was
    /// asked, as a metric of whole runs does.
    pub natural_window: Option<Duration>,
    /// Errors: from this time on (for this subject, if `Subject`).
    pub failures: Vec<(Duration, Option<usize>, WindowError)>,
    /// Subjects whose performance reads as this whatever happens.
    pub override_performance: Vec<(usize, Option<f64>)>,
    /// Operations are seen so many at a time, at once.
    pub bursts: Option<f64>,
    /// Parts of operations are counted, and when they were done.
    pub in_parts: bool,
    /// What was done in the latest turn: share of its time, operations.
    completed: Vec<(f64, f64)>,
    /// A command that is run again and again: operations of a run, and how fast it is
    /// at each place of it (0–1) against its mean.
    pub runs: Option<(f64, Pace)>,
    /// Whether its place in a run is known.
    pub placed: bool,
    /// Whole runs of it that were seen before, see [`MockExecutor::watch_runs`].
    pub watched: Vec<Vec<f64>>,
    /// Whether its runs are repetitions within one that does not end.
    pub endless: bool,
    /// Operations of all runs so far.
    ran: f64,
    /// Operations that were done, and that were seen.
    counted: [f64; 2],
    /// Level of the undisturbed target at this time, a fraction: its phases.
    pub phases: Option<fn(Duration) -> f64>,
    /// Intensity's cost is this power of what the response says, by time.
    pub phase_response: Option<fn(Duration) -> f64>,
    /// When somebody unseen is on the core: the target is slower, the sources are,
    /// and these take hardly anything from it.
    pub unseen: Option<fn(Duration) -> bool>,
    /// When sources on other CPUs share no cache with the target, and take nothing from
    /// it then.
    pub apart: Option<fn(Duration) -> bool>,
    /// Memory that the target uses, bytes, where that is known.
    pub touched: Option<f64>,
    /// What a source keeps beside the target as a victim, where that is another way than
    /// the one to press; the target loses nothing to it then.
    pub walk: Option<f64>,
    /// What is counted in a window, from its request and its disturbance.
    pub counters: Option<Count>,
    /// Whether subjects that have a sequence are played in it.
    pub plays: bool,
    /// Whether a block is a whole run.
    pub whole_runs: bool,
    /// What is left of the last arm's effect, a fraction, after each turn.
    pub carry_over: f64,
    /// Share of the target's CPU that control and treated blocks take, 0–1.
    pub slice_share: f64,
    /// What the target keeps beside two sources at once, as a fraction of the product
    /// of what it keeps beside each.
    pub interaction: f64,
    /// Why sources cannot press at once.
    pub never_at_once: Option<String>,
    /// Chance that a block is missed.
    pub missed_chance: f64,
    /// Every request answered, for tests of the order.
    pub log: Vec<WindowRequest>,
    /// Every block played.
    pub played: Vec<BlockRequest>,
    /// When each of them began.
    pub played_at: Vec<Duration>,
    /// The target's level, a fraction, at the end of the last turn.
    level: f64,
    noise: Noise,
    drift: f64,
    steal_left: u32,
    clock: Duration,
    held: Option<(usize, f64)>,
}

impl MockExecutor {
    /// `subjects` and `responses` have the same shape.
    pub fn new(subjects: &[Subject], responses: &[Response], seed: u64) -> Self {
        MockExecutor {
            subjects: subjects.to_vec(),
            responses: responses.to_vec(),
            weather: Weather::default(),
            baseline: 1000.0,
            bursts: None,
            in_parts: false,
            completed: Vec::new(),
            runs: None,
            placed: true,
            watched: Vec::new(),
            endless: false,
            ran: 0.0,
            counted: [0.0; 2],
            natural_window: None,
            failures: Vec::new(),
            override_performance: Vec::new(),
            phases: None,
            phase_response: None,
            unseen: None,
            apart: None,
            touched: None,
            walk: None,
            counters: None,
            plays: false,
            whole_runs: false,
            carry_over: 0.0,
            slice_share: 0.0,
            interaction: 1.0,
            never_at_once: None,
            missed_chance: 0.0,
            log: Vec::new(),
            played: Vec::new(),
            played_at: Vec::new(),
            level: 1.0,
            noise: Noise::seeded(seed),
            drift: 0.0,
            steal_left: 0,
            clock: Duration::ZERO,
            held: None,
        }
    }

    /// Time a switch to `arm` of `subject` takes beyond settling: what the old
    /// treatment releases and the new one fills.
    fn switch(&mut self, subject: usize, arm: Arm) -> Duration {
        let next = match arm {
            Arm::Treat(intensity) | Arm::Probe(intensity) => Some((subject, intensity)),
            Arm::Control | Arm::Idle => None,
        };
        let fill = |held: Option<(usize, f64)>| {
            held.map_or(Duration::ZERO, |(index, intensity)| {
                self.subjects[index].switch_cost.mul_f64(intensity / 100.0)
            })
        };
        let cost = match (self.held, next) {
            (Some((old, from)), Some((new, to))) if old == new => self.subjects[new]
                .switch_cost
                .mul_f64((from - to).abs() / 100.0),
            (old, new) => fill(old) + fill(new),
        };
        self.held = next;
        cost
    }

    fn steal(&mut self) -> f64 {
        if self.steal_left == 0 && self.noise.uniform() < self.weather.steal_chance {
            self.steal_left = self.weather.steal_windows;
        }
        if self.steal_left == 0 {
            return 0.0;
        }
        self.steal_left -= 1;
        self.weather.steal_share
    }

    /// One window's disturbance, a factor.
    fn disturbance(&mut self, sd: f64) -> f64 {
        let memory = self.weather.drift_memory;
        let fresh = (1.0 - memory * memory).sqrt() * self.weather.drift_sd;
        self.drift = memory * self.drift + fresh * self.noise.normal();
        let own = sd * self.noise.normal();
        let wild = self
            .noise
            .outlier(self.weather.outlier_chance, self.weather.outlier_size);
        (1.0 + self.drift + own + wild).max(0.01)
    }
}

impl MockExecutor {
    /// Where in a run the target is.
    fn place(&self) -> Option<Place> {
        let (length, _) = self.runs?;
        let run = (self.ran / length).floor();
        let whole = |operations: f64| match self.in_parts {
            true => operations,
            false => operations.floor(),
        };
        let place = match self.endless {
            true => Place {
                run: 1,
                operations: whole(self.ran),
                from_begin: false,
            },
            false => Place {
                run: run as u32,
                operations: whole(self.ran % length),
                from_begin: true,
            },
        };
        self.placed.then_some(place)
    }

    /// Operations done, one after the other at its own pace, in the time of `even` at the
    /// usual one.
    fn advance(&mut self, even: f64) -> f64 {
        let Some((length, pace)) = self.runs else {
            self.ran += even;
            return even;
        };
        let (from, mut left) = (self.ran, even);
        self.completed.clear();
        while left > 0.0 {
            // Rounding shall not leave it just below where an operation begins.
            let at = (self.ran + 1e-6).floor();
            let pace = pace((at % length) / length);
            let needed = (at + 1.0 - self.ran) / pace;
            if needed <= left {
                self.ran = at + 1.0;
                self.completed
                    .push((1.0 - (left - needed) / even, self.ran - from));
            } else {
                self.ran += left * pace;
            }
            left -= needed;
        }
        self.ran - from
    }

    /// Watches whole runs without a source, in which the target differs by `sd` from one
    /// millisecond to the next, beside what disturbs everybody.
    pub fn watch_runs(&mut self, runs: usize, sd: f64) {
        let Some((length, pace)) = self.runs else {
            return;
        };
        for _ in 0..runs {
            let (mut now, mut until, mut speed) = (0.0, 0.0, 1.0);
            let times = (0..length as usize).map(|operation| {
                if now >= until {
                    (speed, until) = (self.disturbance(sd), now + 0.001);
                }
                now += 1.0 / (self.baseline * pace(operation as f64 / length) * speed);
                now
            });
            let times = times.collect();
            self.watched.push(times);
        }
    }

    /// The first and the last operation that was done in a turn of `seconds`.
    fn outer(&self, seconds: f64) -> Option<[Completion; 2]> {
        let of = |&(share, operations): &(f64, f64)| Completion {
            seconds: share * seconds,
            operations,
        };
        let (first, last) = self.completed.first().zip(self.completed.last())?;
        Some([of(first), of(last)])
    }

    /// What is seen of `done` operations.
    fn seen(&mut self, done: f64) -> f64 {
        let Some(bursts) = self.bursts else {
            return done;
        };
        self.counted[0] += done;
        let seen = (self.counted[0] / bursts).floor() * bursts;
        seen - std::mem::replace(&mut self.counted[1], seen)
    }

    fn failure(&self, subject: usize) -> Option<WindowError> {
        let due = |(from, whose, error): &(Duration, Option<usize>, WindowError)| {
            let now = self.clock >= *from && whose.is_none_or(|index| index == subject);
            now.then(|| error.clone())
        };
        self.failures.iter().find_map(due)
    }

    /// Whether a source on CPUs of its own shares a cache with the target.
    fn evicts(&self, subject: usize) -> bool {
        let subject = &self.subjects[subject];
        let apart = subject.sequence.is_some_and(|sequence| !sequence.slices);
        apart && !subject.resource.starts_with("storage")
    }

    fn block(&mut self, request: &BlockRequest) -> Block {
        let sequence = self.subjects[request.subject]
            .sequence
            .expect("only subjects with a sequence are played");
        let response = self.responses[request.subject];
        let disturbance = self.disturbance(response.sd);
        let running = request.target == TargetState::Running;
        let kept = request.turn.map(|turn| {
            let lost = response.switch_microseconds / 1e6;
            1.0 - lost / turn.as_secs_f64()
        });
        let apart = self.apart.filter(|_| self.evicts(request.subject));
        let line_ns = apart.map(|apart| [if apart(self.clock) { 360.0 } else { 80.0 }; 2]);
        let shares = line_ns.is_none_or(|line| line[0] < 200.0);
        let held = self.unseen.is_some_and(|held| held(self.clock));
        let (slower, less) = if held { (0.7, 0.1) } else { (1.0, 1.0) };
        let (probe, aim) = match request.arm {
            Arm::Idle => (None, 1.0),
            Arm::Control => (None, response.sharing),
            Arm::Treat(intensity) | Arm::Probe(intensity) => {
                let walk = self.walk.filter(|_| matches!(request.arm, Arm::Probe(_)));
                let beside = match running && shares {
                    true => walk.unwrap_or(response.probe.at(intensity)),
                    false => 1.0,
                };
                let power = self.phase_response.map_or(1.0, |power| power(self.clock));
                let own = response.sharing * response.target.at(intensity).powf(power * less);
                let own = kept.map_or(own, |kept| response.sharing * kept);
                let presses = shares && walk.is_none();
                let own = if presses { own } else { response.sharing };
                (Some(1e6 * beside * slower * disturbance), own)
            }
        };
        let company = request.beside.map_or(1.0, |other| {
            let kept = self.responses[other].target.at(100.0);
            match request.arm {
                Arm::Treat(_) => kept * self.interaction,
                Arm::Idle | Arm::Control | Arm::Probe(_) => kept,
            }
        });
        let aim = aim * company;
        let phase = slower * self.phases.map_or(1.0, |level| level(self.clock));
        let mut turns = Vec::new();
        for position in 0..request.periods {
            self.clock += request.period(&sequence);
            self.level = aim + (self.level - aim) * self.carry_over;
            let seconds = match request.turn {
                Some(turn) => turn.as_secs_f64(),
                None => 0.8 * sequence.period.as_secs_f64(),
            };
            let own = 1.0 + response.sd * self.noise.normal();
            let from = self.place();
            let even = self.baseline * phase * self.level * disturbance * own * seconds;
            let done = if running { self.advance(even) } else { 0.0 };
            let operations = match running {
                true if self.in_parts => done,
                true => self.seen(done),
                false => 0.0,
            };
            if running {
                turns.push(TargetTurn {
                    position,
                    operations,
                    seconds,
                    all_operations: operations,
                    all_seconds: match request.arm {
                        Arm::Idle => seconds,
                        Arm::Control | Arm::Treat(_) | Arm::Probe(_) => {
                            seconds / (1.0 - self.slice_share)
                        }
                    },
                    from,
                    in_parts: self.in_parts,
                    done: self.in_parts.then(|| self.outer(seconds)).flatten(),
                });
            }
        }
        if self.noise.uniform() < self.missed_chance {
            return Block::Missed;
        }
        Block::Read(BlockReading {
            at: self.clock - request.period(&sequence) * request.periods / 2,
            turns,
            probe,
            // In company a source reaches four fifths.
            beside: request.beside.map(|_| match request.arm {
                Arm::Treat(_) => 8e5,
                Arm::Idle | Arm::Control | Arm::Probe(_) => 1e6,
            }),
            pressure: probe.map(|_| match request.arm {
                Arm::Treat(intensity) | Arm::Probe(intensity) => intensity * 1e4,
                Arm::Idle | Arm::Control => 0.0,
            }),
            steal: 0.0,
            line_ns,
        })
    }
}

impl Executor for MockExecutor {
    fn plays(&self) -> bool {
        self.plays
    }

    fn whole_runs(&self) -> bool {
        self.whole_runs
    }

    fn runs_watched(&self) -> &[Vec<f64>] {
        &self.watched
    }

    fn touched_within(&self, _time: Duration) -> Option<f64> {
        self.touched
    }

    fn cache_line_ns(&mut self, subject: usize) -> Option<f64> {
        let apart = self.apart.filter(|_| self.evicts(subject));
        apart.map(|apart| if apart(self.clock) { 375.0 } else { 100.0 })
    }

    fn at_once(&self, _one: usize, _other: usize) -> Result<(), String> {
        self.never_at_once.clone().map_or(Ok(()), Err)
    }

    fn play(&mut self, blocks: &[BlockRequest]) -> Result<Vec<Block>, WindowError> {
        let mut results = Vec::new();
        for request in blocks {
            self.played.push(*request);
            self.played_at.push(self.clock);
            results.push(match self.failure(request.subject) {
                Some(WindowError::Subject(reason)) => Block::Failed(reason),
                Some(error) => return Err(error),
                None => self.block(request),
            });
        }
        Ok(results)
    }

    fn now(&self) -> Duration {
        self.clock
    }

    fn window(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError> {
        self.log.push(*request);
        let length = match (self.natural_window, request.read_target) {
            (Some(natural), true) => natural,
            _ => request.length,
        };
        let switch = self.switch(request.subject, request.arm);
        self.clock += switch + request.settle + length;
        if let Some(error) = self.failure(request.subject) {
            return Err(error);
        }
        let response = self.responses[request.subject];
        let steal = self.steal();
        let running = request.target == TargetState::Running;
        let disturbance = self.disturbance(response.sd) * (1.0 - steal);
        let phase = self.phases.map_or(1.0, |level| {
            // What is read is the mean over the window.
            let moments = (0..20).map(|step| level(self.clock - length * step / 20));
            moments.sum::<f64>() / 20.0
        });
        let power = self.phase_response.map_or(1.0, |power| power(self.clock));
        let level = phase
            * match request.arm {
                Arm::Idle => 1.0,
                Arm::Control => response.sharing,
                Arm::Treat(intensity) | Arm::Probe(intensity) => {
                    response.sharing * response.target.at(intensity).powf(power)
                }
            };
        let read = running && request.read_target;
        let mut performance = read.then_some(self.baseline * level * disturbance);
        if let Some((_, planted)) = self
            .override_performance
            .iter()
            .find(|(index, _)| *index == request.subject)
        {
            performance = *planted;
        }
        let (probe, pressure) = match request.arm {
            Arm::Treat(intensity) | Arm::Probe(intensity) => {
                let beside = if running {
                    response.probe.at(intensity)
                } else {
                    1.0
                };
                let probe = 1e6 * beside * disturbance;
                (Some(probe), Some(intensity * 1e4))
            }
            Arm::Idle | Arm::Control => (None, None),
        };
        let counters = match self.counters {
            Some(count) => count(request, disturbance),
            None => Vec::new(),
        };
        Ok(WindowReading {
            performance,
            probe,
            pressure,
            steal,
            counters,
        })
    }
}
