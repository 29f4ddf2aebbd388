//! The measurement of all subjects inside one time budget.
//!
//! Undisturbed windows come first ([`super::undisturbed`]). Then every half of every subject gets its
//! minimum of pairs, the cheap ones first; what time is left goes in turns to
//! the halves still undecided or searching, the one expected to finish with the
//! least of it first. A subject may take 40 % of the budget while others still want time.

use super::design::Bench;
use super::design::Counted;
use super::design::Half;
use super::design::Pair;
use super::design::dear;
use super::design::probe_settle;
use super::design::window_length;
use super::executor::Executor;
use super::executor::Subject;
use super::executor::WindowError;
use super::outcome::Measured;
use super::past;
use super::search::Rules;
use super::search::Search;
pub use super::settings::Halves;
pub use super::settings::Observer;
pub use super::settings::Progress;
pub use super::settings::Settings;
pub use super::settings::Silent;
use jostle_profile::Readings;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Loss line of the caused half, whatever the QoS asked for: the definition
/// of `c` is 95 % of the source's own performance.
const CAUSED_LINE: f64 = 0.95;
/// Chance of any false verdict over all subjects of a profile.
pub(super) const FAMILY_ALPHA: f64 = 0.05;
/// One idle window per this many pairs of the tolerated half.
const IDLE_EVERY: u64 = 10;
/// Share of the budget one subject may take while others want time.
pub(super) const SUBJECT_SHARE: f64 = 0.4;
/// Pairs in a row without a usable reading that end a half.
pub(super) const FAILURES: u32 = 3;

/// Measures `subjects` and returns what was learned, whatever happens: errors
/// of the executor end up as reasons in the result. The same seed and the same
/// answers of the executor give the same result.
pub fn measure(
    executor: &mut dyn Executor,
    subjects: &[Subject],
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Measured {
    go_on(executor, subjects, settings, &Readings::default(), observer)
}

/// As [`measure`], after what was read in an earlier run of the same
/// measurement: its pairs count as measured, and only what they leave open is
/// measured further.
pub fn go_on(
    executor: &mut dyn Executor,
    subjects: &[Subject],
    settings: &Settings,
    past: &Readings,
    observer: &mut dyn Observer,
) -> Measured {
    // Another order than the earlier run's.
    let rng = stream(settings.seed.wrapping_add(past.pairs.len() as u64), 0);
    let bench = Bench::new(
        executor,
        subjects,
        settings.budget,
        settings.steal_bound,
        rng,
    );
    let mut run = Run {
        start: bench.now(),
        bench,
        subjects,
        settings,
        observer,
        halves: Vec::new(),
        idle: Vec::new(),
        first_idle: 0,
        sharing: vec![Vec::new(); subjects.len()],
        log: Vec::new(),
        idle_at: Vec::new(),
        doubts: Vec::new(),
        past,
        natural: Duration::ZERO,
        held: (0, 0.0),
        partial: None,
    };
    // What ends the whole measurement arrives here as an error.
    if let Err(error) = run.all() {
        run.partial = Some(error.to_string());
    }
    run.finish()
}

pub(super) fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// One half of one subject on its way.
pub(super) struct HalfRun {
    pub(super) subject: usize,
    pub(super) half: Half,
    pub(super) search: Search,
    /// Pairs tried.
    pub(super) tried: u64,
    pub(super) spent: Duration,
    /// Of it, after the first pass.
    pub(super) spent_later: Duration,
    /// Seconds pairs took and were expected to take.
    pub(super) took: f64,
    pub(super) expected: f64,
    pub(super) failures: u32,
    pub(super) last_failure: Option<String>,
    pub(super) stolen: u64,
    /// Nothing more will be measured.
    pub(super) ended: bool,
    /// The subject's error that ended it.
    pub(super) error: Option<String>,
}

/// One pair of windows as it was measured.
#[derive(Clone, Debug)]
pub(super) struct PairRecord {
    pub(super) at: Duration,
    pub(super) subject: usize,
    pub(super) half: Half,
    pub(super) intensity: f64,
    pub(super) log_ratio: f64,
    pub(super) pressure: Option<f64>,
    pub(super) reference: f64,
    pub(super) counted: Counted,
}

pub(super) struct Run<'a, 'b> {
    pub(super) bench: Bench<'a>,
    pub(super) start: Duration,
    pub(super) subjects: &'a [Subject],
    pub(super) settings: &'a Settings,
    pub(super) observer: &'b mut dyn Observer,
    pub(super) halves: Vec<HalfRun>,
    /// Undisturbed performance, metric units; the first `first_idle` before
    /// anything else.
    pub(super) idle: Vec<f64>,
    pub(super) first_idle: usize,
    /// When each of `idle` was read.
    pub(super) idle_at: Vec<Duration>,
    /// Per subject `ln(control / idle)`.
    pub(super) sharing: Vec<Vec<f64>>,
    /// Every pair of this run, in order.
    pub(super) log: Vec<PairRecord>,
    /// Of the measurement as a whole.
    pub(super) doubts: Vec<String>,
    /// What an earlier run of this measurement had read.
    pub(super) past: &'a Readings,
    /// Length of a window with a metric that has its own, else zero.
    pub(super) natural: Duration,
    /// The subject left in treatment and the seconds to release it.
    pub(super) held: (usize, f64),
    pub(super) partial: Option<String>,
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), WindowError> {
        if self.subjects.is_empty() {
            return Ok(());
        }
        self.plan();
        self.recall();
        self.undisturbed()?;
        self.adapt_minima();
        self.forecast();
        self.first_pass()?;
        self.remaining_time()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.bench.now().saturating_sub(self.start)
    }

    /// Length of this subject's windows.
    pub(super) fn window(&self, subject: &Subject) -> Duration {
        window_length(subject, self.bench.stretch)
    }

    pub(super) fn left(&self) -> Duration {
        self.settings.budget.saturating_sub(self.elapsed())
    }

    pub(super) fn tell(&mut self, subject: Option<usize>, half: Option<Half>, note: String) {
        let progress = Progress {
            subject: subject.map(|index| self.subjects[index].resource),
            half,
            elapsed: self.elapsed(),
            budget: self.settings.budget,
            note,
        };
        self.observer.progress(progress);
    }

    /// The halves to measure, tolerated ones first.
    fn plan(&mut self) {
        let alpha = FAMILY_ALPHA / self.subjects.len() as f64;
        for half in [Half::Tolerated, Half::Caused] {
            let (wanted, line) = match half {
                Half::Tolerated => (self.settings.halves != Halves::Caused, self.settings.qos),
                Half::Caused => (self.settings.halves != Halves::Tolerated, CAUSED_LINE),
            };
            for (index, subject) in self.subjects.iter().enumerate() {
                if !wanted || (half == Half::Caused && !subject.stoppable) {
                    continue;
                }
                let endpoints: &'static [f64] = match half {
                    Half::Tolerated => &[100.0],
                    Half::Caused => subject.probe_endpoints,
                };
                let rules = Rules {
                    endpoints,
                    line,
                    alpha,
                    min_pairs: self.settings.min_pairs(),
                    half_width: self.settings.half_width(),
                    dear: dear(subject),
                };
                let number = 1 + 2 * index as u64 + u64::from(half == Half::Caused);
                self.halves.push(HalfRun {
                    subject: index,
                    half,
                    search: Search::new(rules, stream(self.settings.seed, number)),
                    tried: 0,
                    spent: Duration::ZERO,
                    spent_later: Duration::ZERO,
                    took: 0.0,
                    expected: 0.0,
                    failures: 0,
                    last_failure: None,
                    stolen: 0,
                    ended: false,
                    error: None,
                });
            }
        }
    }

    /// Expected seconds of `pairs` pairs at `intensity`, corrected by how long
    /// this half's pairs took so far.
    pub(super) fn cost(&self, half: usize, intensity: f64, pairs: usize) -> f64 {
        let run = &self.halves[half];
        let factor = if run.expected > 0.0 {
            (run.took / run.expected).max(0.01)
        } else {
            1.0
        };
        factor * self.nominal(half, intensity, pairs)
    }

    fn nominal(&self, half: usize, intensity: f64, pairs: usize) -> f64 {
        let run = &self.halves[half];
        let (holder, release) = self.held;
        let release = if holder == run.subject { 0.0 } else { release };
        release + self.price(run.subject, run.half, intensity, pairs)
    }

    /// Expected seconds of `pairs` pairs at `intensity` by the subject's facts.
    pub(super) fn price(&self, subject: usize, half: Half, intensity: f64, pairs: usize) -> f64 {
        let subject = &self.subjects[subject];
        let own = subject.settle + self.window(subject);
        let running = own.max(self.natural).as_secs_f64();
        let windows = match half {
            // Between equal arms of one visit nothing has to settle.
            Half::Tolerated if dear(subject) => {
                let settled = (pairs as f64 + 1.0) / pairs.max(1) as f64;
                2.0 * (running - subject.settle.as_secs_f64())
                    + settled * subject.settle.as_secs_f64()
            }
            Half::Caused if dear(subject) => {
                2.0 * (probe_settle(subject) + self.window(subject)).as_secs_f64()
            }
            Half::Tolerated => 2.0 * running,
            Half::Caused => 2.0 * own.as_secs_f64(),
        };
        let switch = subject.switch_cost.as_secs_f64() * intensity / 100.0;
        // In and out of treatment: once per pair, once per two pairs when the
        // order saves switches, once per visit when both arms are treated.
        let switches = match half {
            Half::Tolerated if dear(subject) => pairs.div_ceil(2),
            Half::Tolerated => pairs,
            Half::Caused => 1,
        };
        pairs as f64 * windows + 2.0 * switch * switches as f64
    }

    /// Seconds the minimum of a half takes.
    fn minimum(&self, half: usize) -> f64 {
        let rules = self.halves[half].search.rules();
        rules.endpoints.len() as f64 * self.cost(half, 100.0, rules.min_pairs)
    }

    fn subject_spent(&self, subject: usize) -> f64 {
        self.halves
            .iter()
            .filter(|run| run.subject == subject)
            .map(|run| run.spent.as_secs_f64())
            .sum()
    }

    /// Seconds one subject may take while others want time.
    fn cap(&self) -> f64 {
        let share = SUBJECT_SHARE.max(1.0 / self.subjects.len() as f64);
        share * self.settings.budget.as_secs_f64()
    }

    fn first_pass(&mut self) -> Result<(), WindowError> {
        let mut order: Vec<usize> = (0..self.halves.len()).collect();
        order.sort_by(|a, b| {
            let caused = |i: usize| self.halves[i].half == Half::Caused;
            let costs = self.minimum(*a).total_cmp(&self.minimum(*b));
            caused(*a).cmp(&caused(*b)).then(costs)
        });
        for index in order {
            if self.halves[index].tried > 0 {
                // Recalled from an earlier run.
                continue;
            }
            let minimum = self.minimum(index);
            let subject = self.halves[index].subject;
            let within_cap = self.subject_spent(subject) + minimum <= self.cap();
            if within_cap && minimum <= self.left().as_secs_f64() && !self.halves[index].ended {
                self.turn(index)?;
            }
        }
        Ok(())
    }

    /// Turns for whoever still wants time, the shortest job first.
    fn remaining_time(&mut self) -> Result<(), WindowError> {
        loop {
            let left = self.left().as_secs_f64();
            let mut best: Option<(bool, f64, usize)> = None;
            for index in 0..self.halves.len() {
                if self.halves[index].ended {
                    continue;
                }
                let next = self.next_cost(index);
                if next > left {
                    // What is left only shrinks.
                    self.halves[index].ended = true;
                    continue;
                }
                let run = &self.halves[index];
                let capped = self.subject_spent(run.subject) + next > self.cap();
                // By what it took and will take: short searches finish, long
                // ones get what is left, and a wrong outlook loses its turn.
                let outlook = run.search.outlook() * self.cost(index, 50.0, 2) / 2.0;
                let weight = run.search.patience_weight(run.half);
                let claim = (run.spent_later.as_secs_f64() + outlook) * weight;
                let key = (capped, claim, index);
                if best.is_none_or(|found| key < found) {
                    best = Some(key);
                }
            }
            let Some((_, _, index)) = best else {
                return Ok(());
            };
            let before = self.halves[index].spent;
            self.turn(index)?;
            let run = &mut self.halves[index];
            run.spent_later += run.spent.saturating_sub(before);
        }
    }

    /// Seconds of the least that can be measured next in a half.
    fn next_cost(&self, half: usize) -> f64 {
        let run = &self.halves[half];
        if run.tried == 0 {
            self.minimum(half)
        } else if run.search.rules().dear {
            // Two pairs of one level, at worst the highest.
            self.cost(half, 100.0, 2)
        } else {
            self.cost(half, 100.0, 1)
        }
    }

    /// Measures one batch of a half and judges it.
    fn turn(&mut self, index: usize) -> Result<(), WindowError> {
        let began = self.bench.now();
        let (subject, half) = (self.halves[index].subject, self.halves[index].half);
        let batch = self.halves[index].search.wanted();
        let levels = describe(&batch);
        self.tell(Some(subject), Some(half), levels);
        let unit = if dear(&self.subjects[subject]) { 2 } else { 1 };
        let measured = self.batch(index, &batch, unit);
        let run = &mut self.halves[index];
        run.spent += self.bench.now().saturating_sub(began);
        run.search.judge(false);
        if batch.is_empty() || run.search.settled() {
            run.ended = true;
        }
        let (start, log) = (self.start, &self.log);
        let elapsed = self.bench.now().saturating_sub(start);
        let (past, idle) = (self.past, &self.idle[..self.first_idle]);
        let subjects = self.subjects;
        self.observer
            .checkpoint(&|| past::readings(past, log, idle, subjects, elapsed));
        match measured {
            Err(WindowError::Subject(reason)) => {
                for run in self.halves.iter_mut().filter(|run| run.subject == subject) {
                    if !run.search.settled() {
                        run.error = Some(reason.clone());
                    }
                    run.ended = true;
                }
                Ok(())
            }
            other => other,
        }
    }

    fn batch(&mut self, index: usize, batch: &[f64], unit: usize) -> Result<(), WindowError> {
        let mut rest = batch;
        while let Some(intensity) = rest.first().copied() {
            let same = rest.iter().take(unit).take_while(|x| **x == intensity);
            let pairs = same.count();
            rest = &rest[pairs..];
            if self.cost(index, intensity, pairs) > self.left().as_secs_f64() {
                self.halves[index].ended = true;
                return Ok(());
            }
            self.unit(index, intensity, pairs)?;
            if self.halves[index].ended {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One or two pairs at one level.
    fn unit(&mut self, index: usize, intensity: f64, pairs: usize) -> Result<(), WindowError> {
        let (subject, half) = (self.halves[index].subject, self.halves[index].half);
        let expected = self.nominal(index, intensity, pairs);
        let before = self.bench.now();
        let results = self.bench.pairs(subject, half, intensity, pairs)?;
        let fill = self.subjects[subject].switch_cost.as_secs_f64() * intensity / 100.0;
        self.held = match half {
            // The last window of the saving order is a control window.
            Half::Tolerated if dear(&self.subjects[subject]) => (subject, 0.0),
            Half::Tolerated | Half::Caused => (subject, fill),
        };
        let took = self.bench.now().saturating_sub(before).as_secs_f64();
        let run = &mut self.halves[index];
        // A pair that had to be redone says nothing about its price.
        if !results.contains(&Pair::Stolen) {
            run.took += took;
            run.expected += expected;
        }
        let mut control = None;
        for result in results {
            run.tried += 1;
            match result {
                Pair::Ratio {
                    log_ratio,
                    pressure,
                    reference,
                    counted,
                } => {
                    run.failures = 0;
                    run.search.record(intensity, log_ratio, pressure);
                    control = Some(reference);
                    self.log.push(PairRecord {
                        at: self.bench.now().saturating_sub(self.start),
                        subject,
                        half,
                        intensity,
                        log_ratio,
                        pressure,
                        reference,
                        counted,
                    });
                }
                Pair::Stolen => run.stolen += 1,
                Pair::Failed(reason) => {
                    run.failures += 1;
                    run.last_failure = Some(reason);
                    run.ended = run.failures >= FAILURES;
                }
            }
        }
        if half == Half::Tolerated
            && let Some(control) = control
        {
            self.sharing_window(index, control)?;
        }
        Ok(())
    }

    /// Now and then an idle window beside a control window just measured.
    fn sharing_window(&mut self, index: usize, control: f64) -> Result<(), WindowError> {
        let run = &self.halves[index];
        let (subject, tried) = (run.subject, run.tried);
        let facts = &self.subjects[subject];
        let window = (facts.settle + self.window(facts)).max(self.natural);
        // Early samples give the ratio an interval; not where a window is a
        // whole run.
        let early = self.natural.is_zero() && (tried == 2 || tried == 6);
        if !(early || tried.is_multiple_of(IDLE_EVERY)) || window >= self.left() {
            return Ok(());
        }
        if let Some(idle) = self.bench.idle(subject)? {
            self.idle.push(idle);
            self.idle_at.push(self.elapsed());
            self.sharing[subject].push((control / idle).ln());
        }
        Ok(())
    }
}

/// "8 pairs at 100", "5 pairs at 50, 1 at 100".
fn describe(batch: &[f64]) -> String {
    let mut levels: Vec<f64> = batch.to_vec();
    levels.sort_unstable_by(f64::total_cmp);
    levels.dedup();
    let counts: Vec<String> = levels
        .iter()
        .map(|level| {
            let count = batch.iter().filter(|x| *x == level).count();
            format!("{count} at {level:.0}")
        })
        .collect();
    format!("pairs: {}", counts.join(", "))
}
