//! What was read: every pair of windows and every window without interference,
//! in order, and how an interrupted measurement keeps them.

use super::design::Counted;
use super::executor::Subject;
use super::settings::Half;
use jostle_host::machine::private::Look;
use jostle_host::machine::transfer::APART_NS;
use jostle_profile::Estimate;
use jostle_profile::PairReading;
use jostle_profile::Readings;
use jostle_profile::Switch;
use jostle_profile::Together;
use jostle_profile::reading::Reading;
use jostle_statistics as stats;
use jostle_statistics::Contrasts;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

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

/// What an unseen neighbour had of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    /// Of the time, 0–1.
    pub(super) share: f64,
    /// Log ratio of the speed of execution units then to that when free.
    pub(super) slowed: f64,
}

/// How long sources and target shared the last-level cache that they are said to
/// share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Nearby {
    /// Of the looks before and after blocks, 0–1.
    pub(super) share: f64,
    /// Whether blocks have to be told apart by it.
    pub(super) told_apart: bool,
    /// Whether levels are of that time alone.
    pub(super) of_shared_time: bool,
    /// What a cache line took there and back then, and at other times, nanoseconds.
    pub(super) near_ns: Option<f64>,
    pub(super) apart_ns: Option<f64>,
}

/// Everything read in one run of a measurement.
pub(super) struct Log<'a> {
    pub(super) subjects: &'a [Subject],
    /// What an earlier run of this measurement had read.
    pub(super) past: &'a Readings,
    /// Performance without interference, metric units, and when it was read.
    pub(super) idle: Vec<f64>,
    pub(super) idle_at: Vec<Duration>,
    /// How many of `idle` were read before anything else.
    pub(super) first_idle: usize,
    /// Per subject `ln(control / idle)`.
    pub(super) sharing: Vec<Vec<f64>>,
    pub(super) pairs: Vec<PairRecord>,
    /// Per sequence, what its blocks come to as of its last judgement.
    pub(super) played: BTreeMap<usize, Vec<PairRecord>>,
    /// Per sequence the control's level, round by round: seconds, log rate.
    pub(super) levels: BTreeMap<usize, Vec<(f64, f64)>>,
    /// Per sequence what an unseen neighbour had of its core, and its subjects.
    pub(super) held: BTreeMap<usize, (Held, Vec<usize>)>,
    /// Per sequence how long its sources shared a cache with the target, and its
    /// subjects.
    pub(super) nearby: BTreeMap<usize, (Nearby, Vec<usize>)>,
    /// Subjects whose sources share it, and what a cache line took between them and the
    /// target each time that a sequence was chosen, nanoseconds.
    pub(super) evicting: Vec<usize>,
    pub(super) lines_ns: Vec<f64>,
    /// The looks at the cache that only the target's core has.
    pub(super) private_cache: Vec<Look>,
    /// Per subject whose levels are of a part of the time alone, its arm at 100 in the
    /// contrasts of all the time.
    pub(super) mixtures: BTreeMap<usize, (Rc<Contrasts>, usize)>,
    /// Per subject what a switch to it costs, or why that is not known.
    pub(super) switches: BTreeMap<usize, Reading<Switch>>,
    /// What a switch to the placebo costs, microseconds.
    pub(super) plain_switch: Option<Estimate>,
    /// What pairs of sources cost at once.
    pub(super) together: Vec<Together>,
}

impl<'a> Log<'a> {
    pub(super) fn new(subjects: &'a [Subject], past: &'a Readings) -> Log<'a> {
        Log {
            subjects,
            past,
            idle: Vec::new(),
            idle_at: Vec::new(),
            first_idle: 0,
            sharing: vec![Vec::new(); subjects.len()],
            pairs: Vec::new(),
            played: BTreeMap::new(),
            levels: BTreeMap::new(),
            held: BTreeMap::new(),
            nearby: BTreeMap::new(),
            evicting: Vec::new(),
            lines_ns: Vec::new(),
            private_cache: Vec::new(),
            mixtures: BTreeMap::new(),
            switches: BTreeMap::new(),
            plain_switch: None,
            together: Vec::new(),
        }
    }

    /// Looks at which source and target shared a last-level cache, and those at which they
    /// did not.
    pub(super) fn looks_at_sharing(&self) -> [usize; 2] {
        let apart = self.lines_ns.iter().filter(|ns| **ns > APART_NS).count();
        [self.lines_ns.len() - apart, apart]
    }

    /// All pairs of this run.
    pub(super) fn all_pairs(&self) -> impl Iterator<Item = &PairRecord> {
        self.pairs.iter().chain(self.played.values().flatten())
    }

    pub(super) fn push_idle(&mut self, value: f64, at: Duration) {
        self.idle.push(value);
        self.idle_at.push(at);
    }

    /// Takes every `factor` idle windows for one.
    pub(super) fn merge_idle(&mut self, factor: usize) {
        self.idle = self.idle.chunks_exact(factor).map(stats::mean).collect();
        let last = |times: &[Duration]| times[factor - 1];
        self.idle_at = self.idle_at.chunks_exact(factor).map(last).collect();
    }

    /// Performance before anything was stressed.
    pub(super) fn baseline(&self) -> &[f64] {
        &self.idle[..self.first_idle]
    }

    /// Pairs that compare the target beside `subject` with its control.
    pub(super) fn of_target(&self, subject: usize) -> impl Iterator<Item = &PairRecord> {
        let tolerated = |pair: &&PairRecord| pair.half == Half::Tolerated;
        self.all_pairs()
            .filter(tolerated)
            .filter(move |pair| pair.subject == subject)
    }

    /// Of them, those at the highest intensity measured.
    pub(super) fn strongest(&self, subject: usize) -> impl Iterator<Item = &PairRecord> {
        let top = self.of_target(subject).map(|pair| pair.intensity);
        let top = top.fold(0.0, f64::max);
        self.of_target(subject)
            .filter(move |pair| pair.intensity == top)
    }

    /// Everything read so far, earlier runs included.
    pub(super) fn readings(&self, elapsed: Duration) -> Readings {
        let mut all = self.past.clone();
        all.undisturbed.extend(self.baseline());
        all.pairs.extend(self.all_pairs().map(|pair| PairReading {
            resource: self.subjects[pair.subject].resource.to_string(),
            half: pair.half.as_str().to_string(),
            intensity: pair.intensity,
            log_ratio: pair.log_ratio,
            pressure: pair.pressure.filter(|pressure| pressure.is_finite()),
            reference: pair.reference,
            at_seconds: self.past.elapsed_seconds + pair.at.as_secs_f64(),
        }));
        all.elapsed_seconds += elapsed.as_secs_f64();
        all
    }
}
