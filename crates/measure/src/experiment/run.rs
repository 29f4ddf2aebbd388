//! The measurement of all subjects inside one time budget.
//!
//! Windows without interference come first ([`baseline`]). Where the metric
//! allows it, sources are then played in sequences ([`rounds`]). Every half of
//! the subjects that cannot be played gets its minimum of pairs, the cheap ones
//! first; what time is left goes in turns to the halves still undecided or
//! searching, the one expected to finish with the least of it first. A subject
//! may take 40 % of the budget while others still want time.
//!
//! [`super::queue`] decides who is next, [`super::log`] keeps what was read and
//! [`super::judge`] says what it means.

mod baseline;
mod compose;
mod parts;
mod rounds;
mod switches;
mod together;
mod wants;

use self::switches::MOST_SWITCHES;
use self::switches::SWITCHES;
use self::switches::Turns;
use super::design::Bench;
use super::design::Pair;
use super::design::expensive;
use super::executor::Executor;
use super::executor::Subject;
use super::executor::WindowError;
use super::judge::Ended;
use super::log::Log;
use super::log::PairRecord;
use super::outcome::Measured;
use super::queue::FAILURES;
use super::queue::Queue;
use super::sequences::Repetition;
use super::sequences::SequenceLog;
use super::settings::Half;
pub use super::settings::Halves;
pub use super::settings::Observer;
pub use super::settings::Progress;
pub use super::settings::Settings;
pub use super::settings::SoFar;
use crate::warning::Warning;
use jostle_profile::Readings;
use jostle_statistics::stream;
use std::time::Duration;

/// One idle window per this many pairs of the tolerated half.
const IDLE_EVERY: u64 = 10;

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
    let bench = Bench::new(executor, subjects, settings, rng);
    let mut run = Run {
        start: bench.now(),
        bench,
        settings,
        observer,
        queue: Queue::new(subjects, settings),
        log: Log::new(subjects, past),
        sequences: Vec::new(),
        repetition: Repetition::default(),
        switches: Vec::new(),
        in_finale: false,
        for_verdicts: None,
        warnings: Vec::new(),
    };
    // What ends the whole measurement arrives here as an error.
    let partial = run.all().err().map(|error| error.to_string());
    run.tell(None, "judging".into());
    let halves = std::mem::take(&mut run.queue.halves);
    let ended = Ended {
        elapsed: run.elapsed(),
        settings,
        bench: &run.bench,
        queue: &run.queue,
        log: &run.log,
        partial,
    };
    ended.judge(halves, run.warnings)
}

struct Run<'a, 'b> {
    bench: Bench<'a>,
    start: Duration,
    settings: &'a Settings,
    observer: &'b mut dyn Observer,
    queue: Queue<'a>,
    log: Log<'a>,
    /// What is measured in sequences.
    sequences: Vec<SequenceLog>,
    /// What the target repeats, where it does not end.
    repetition: Repetition,
    /// The same in turns as the scheduler gives them.
    switches: Vec<Turns>,
    /// Whether little of the budget is left.
    in_finale: bool,
    /// Until when time goes to the next verdicts only; `None` while it does not.
    for_verdicts: Option<Duration>,
    /// Of the measurement as a whole.
    warnings: Vec<Warning>,
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), WindowError> {
        if self.queue.subjects.is_empty() {
            return Ok(());
        }
        self.queue.recall(self.log.past);
        self.tell(None, "windows without interference".into());
        self.baseline()?;
        self.begin_sequences();
        self.adapt_minima();
        self.lengthen_windows()?;
        // Longer windows leave room for fewer pairs.
        self.adapt_minima();
        if self.sequences.is_empty() {
            self.forecast();
        }
        // Where nothing is searched, the fewest pairs of the slow come first: a
        // round of long blocks would go on into what was kept for them.
        if self.settings.full_only {
            self.first_turns()?;
        }
        let kept = self.kept_for_switches() + self.kept_for_together();
        self.play_sequences(self.kept_for_slow() + kept)?;
        self.play_switches(SWITCHES)?;
        self.play_together()?;
        self.count()?;
        self.first_turns()?;
        while let Some(index) = self.queue.next(self.left()) {
            let before = self.queue.halves[index].spent;
            self.turn(index)?;
            let run = &mut self.queue.halves[index];
            run.spent_later += run.spent.saturating_sub(before);
        }
        self.play_sequences(Duration::ZERO)?;
        self.play_switches(MOST_SWITCHES)?;
        self.judge_at_the_end();
        Ok(())
    }

    fn adapt_minima(&mut self) {
        let left = self.left().mul_f64(self.slow_share());
        self.queue.adapt_minima(left);
    }

    /// The minimum of pairs of every half that may begin and has not.
    fn first_turns(&mut self) -> Result<(), WindowError> {
        for index in self.queue.first_order() {
            if self.queue.may_begin(index, self.left()) {
                self.turn(index)?;
            }
        }
        Ok(())
    }

    /// Warns before anything is stressed when the budget cannot show anything.
    fn forecast(&mut self) {
        let (elapsed, idle) = (self.elapsed(), self.log.baseline());
        if let Some(warning) = baseline::forecast(&self.queue, idle, elapsed, self.settings) {
            self.observer.warn(&warning.to_string());
            self.warnings.push(warning);
        }
    }

    fn elapsed(&self) -> Duration {
        self.bench.now().saturating_sub(self.start)
    }

    fn left(&self) -> Duration {
        self.settings.budget.saturating_sub(self.elapsed())
    }

    fn tell(&mut self, half: Option<usize>, note: String) {
        let run = half.map(|index| &self.queue.halves[index]);
        let progress = Progress {
            subject: run.map(|run| self.queue.subjects[run.subject].resource),
            half: run.map(|run| run.half),
            elapsed: self.elapsed(),
            budget: self.settings.budget,
            note,
            so_far: self.so_far(),
        };
        self.observer.progress(progress);
    }

    fn so_far(&self) -> Vec<SoFar> {
        let halves = self.queue.halves.iter();
        halves
            .filter(|run| run.half == Half::Tolerated)
            .map(|run| SoFar {
                resource: self.queue.subjects[run.subject].resource,
                loss: run.search.at_100().map(|[kept, low, high]| {
                    // What is kept most is lost least.
                    [1.0 - kept, 1.0 - high, 1.0 - low]
                }),
                settled: run.search.settled,
            })
            .collect()
    }

    /// Measures one batch of a half and judges it.
    fn turn(&mut self, index: usize) -> Result<(), WindowError> {
        let began = self.bench.now();
        let subject = self.queue.halves[index].subject;
        let batch = self.queue.halves[index].search.wanted();
        self.tell(Some(index), describe(&batch));
        let unit = 1 + usize::from(expensive(&self.queue.subjects[subject]));
        let measured = self.batch(index, &batch, unit);
        let run = &mut self.queue.halves[index];
        run.spent += self.bench.now().saturating_sub(began);
        run.search.judge(false);
        if batch.is_empty() || run.search.settled {
            run.ended = true;
        }
        let (log, elapsed) = (&self.log, self.elapsed());
        self.observer.checkpoint(&|| log.readings(elapsed));
        match measured {
            Err(WindowError::Subject(reason)) => {
                self.queue.end_subject(subject, &reason);
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
            if self.queue.cost(index, intensity, pairs) > self.left().as_secs_f64() {
                self.queue.halves[index].ended = true;
                return Ok(());
            }
            self.unit(index, intensity, pairs)?;
            if self.queue.halves[index].ended {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One or two pairs at one level.
    fn unit(&mut self, index: usize, intensity: f64, pairs: usize) -> Result<(), WindowError> {
        let run = &self.queue.halves[index];
        let (subject, half) = (run.subject, run.half);
        let expected = self.queue.nominal(index, intensity, pairs);
        let before = self.bench.now();
        let results = self.bench.pairs(subject, half, intensity, pairs)?;
        self.queue.hold(subject, half, intensity);
        let took = self.bench.now().saturating_sub(before).as_secs_f64();
        let run = &mut self.queue.halves[index];
        // A pair that had to be redone says nothing about its price.
        if !results.contains(&Pair::Stolen) {
            run.took += took;
            run.expected += expected;
        }
        let mut control = None;
        for result in &results {
            run.tried += 1;
            match result {
                Pair::Ratio {
                    log_ratio,
                    pressure,
                    reference,
                    ..
                } => {
                    run.failures = 0;
                    run.search.record(intensity, *log_ratio, *pressure);
                    control = Some(*reference);
                }
                Pair::Stolen => run.stolen += 1,
                Pair::Failed(reason) => {
                    run.failures += 1;
                    run.last_failure = Some(reason.clone());
                    run.ended = run.failures >= FAILURES;
                }
            }
        }
        for result in results {
            self.log_pair(subject, half, intensity, result);
        }
        if half == Half::Tolerated
            && let Some(control) = control
        {
            self.sharing_window(index, control)?;
        }
        Ok(())
    }

    /// Keeps a pair in the log, if it has a ratio.
    fn log_pair(&mut self, subject: usize, half: Half, intensity: f64, pair: Pair) {
        let Pair::Ratio {
            log_ratio,
            pressure,
            reference,
            counted,
        } = pair
        else {
            return;
        };
        self.log.pairs.push(PairRecord {
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

    /// Now and then an idle window beside a control window just measured.
    fn sharing_window(&mut self, index: usize, control: f64) -> Result<(), WindowError> {
        let run = &self.queue.halves[index];
        let (subject, tried) = (run.subject, run.tried);
        let facts = &self.queue.subjects[subject];
        let natural = self.queue.natural;
        let window = (facts.settle + self.queue.window(facts)).max(natural);
        // Early samples give the ratio an interval; not where a window is a
        // whole run.
        let early = natural.is_zero() && (tried == 2 || tried == 6);
        if !(early || tried.is_multiple_of(IDLE_EVERY)) || window >= self.left() {
            return Ok(());
        }
        if let Some(idle) = self.bench.idle(subject)? {
            self.log.push_idle(idle, self.elapsed());
            self.log.sharing[subject].push((control / idle).ln());
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
