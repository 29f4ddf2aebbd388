//! Who is next: the halves on their way, what a pair of each costs, and who may
//! spend what is left of the budget.

use super::design::expensive;
use super::design::probe_settle;
use super::design::window_length;
use super::executor::Subject;
use super::levels::FEWEST_PAIRS;
use super::search::Rules;
use super::search::Search;
use super::settings::Half;
use super::settings::Halves;
use super::settings::Settings;
use jostle_profile::Readings;
use jostle_profile::curve::CAUSED_LINE;
use jostle_statistics::stream;
use std::time::Duration;

/// Chance of any false verdict over all subjects of a profile.
pub(super) const FAMILY_ALPHA: f64 = 0.05;
/// Share of the budget one subject may take while others want time.
pub(super) const SUBJECT_SHARE: f64 = 0.4;
/// Pairs in a row without a usable reading that end a half.
pub(super) const FAILURES: u32 = 3;

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
    /// Whether it is measured in sequences.
    pub(super) played: bool,
    /// Why it was not begun, and what would do.
    pub(super) skipped: Option<String>,
    /// Nothing more will be measured.
    pub(super) ended: bool,
    /// The subject's error that ended it.
    pub(super) error: Option<String>,
}

/// The halves of all subjects, tolerated ones first, and their prices.
pub(super) struct Queue<'a> {
    pub(super) subjects: &'a [Subject],
    settings: &'a Settings,
    pub(super) halves: Vec<HalfRun>,
    /// How many times their own length windows are.
    pub(super) stretch: u32,
    /// Length of a window with a metric that has its own, else zero.
    pub(super) natural: Duration,
    /// The subject left in treatment and the seconds to release it.
    held: (usize, f64),
}

impl<'a> Queue<'a> {
    /// The halves that `settings` want.
    pub(super) fn new(subjects: &'a [Subject], settings: &'a Settings) -> Queue<'a> {
        let alpha = FAMILY_ALPHA / subjects.len() as f64;
        let mut halves = Vec::new();
        for half in [Half::Tolerated, Half::Caused] {
            let (wanted, line) = match half {
                Half::Tolerated => (settings.halves != Halves::Caused, settings.qos),
                Half::Caused => (settings.halves != Halves::Tolerated, CAUSED_LINE),
            };
            for (index, subject) in subjects.iter().enumerate() {
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
                    min_pairs: settings.min_pairs(),
                    half_width: settings.half_width(),
                    expensive: expensive(subject),
                    full_only: settings.full_only,
                };
                let number = 1 + 2 * index as u64 + u64::from(half == Half::Caused);
                halves.push(HalfRun {
                    subject: index,
                    half,
                    search: Search::new(rules, stream(settings.seed, number)),
                    tried: 0,
                    spent: Duration::ZERO,
                    spent_later: Duration::ZERO,
                    took: 0.0,
                    expected: 0.0,
                    failures: 0,
                    last_failure: None,
                    stolen: 0,
                    played: false,
                    skipped: None,
                    ended: false,
                    error: None,
                });
            }
        }
        Queue {
            subjects,
            settings,
            halves,
            stretch: 1,
            natural: Duration::ZERO,
            held: (0, 0.0),
        }
    }

    /// Takes over the pairs of an earlier run.
    pub(super) fn recall(&mut self, past: &Readings) {
        for pair in &past.pairs {
            let half = self.halves.iter_mut().find(|run| {
                self.subjects[run.subject].resource == pair.resource
                    && run.half.as_str() == pair.half
            });
            if let Some(run) = half
                && pair.log_ratio.is_finite()
            {
                run.search
                    .recall(pair.intensity, pair.log_ratio, pair.pressure);
                run.tried += 1;
            }
        }
        for run in &mut self.halves {
            if run.tried > 0 {
                run.search.judge(false);
                run.ended = run.search.settled;
            }
        }
    }

    /// Length of this subject's windows.
    pub(super) fn window(&self, subject: &Subject) -> Duration {
        window_length(subject, self.stretch)
    }

    /// Halves whose minimum costs more than a fair share of the budget get
    /// along with fewer pairs, down to 4.
    pub(super) fn adapt_minima(&mut self, left: Duration) {
        let windowed = self.halves.iter().filter(|run| !run.played).count();
        let fair = left.as_secs_f64() / windowed.max(1) as f64;
        for index in 0..self.halves.len() {
            if self.halves[index].tried > 0 || self.halves[index].played {
                continue;
            }
            let most = self.settings.min_pairs();
            let endpoints = self.halves[index].search.rules.endpoints.len() as f64;
            let each = endpoints * self.cost(index, 100.0, most) / most as f64;
            let affordable = (fair / each.max(1e-9)) as usize;
            let mut pairs = affordable.clamp(FEWEST_PAIRS, most);
            if self.halves[index].search.rules.expensive {
                pairs -= pairs % 2;
            }
            self.halves[index].search.set_min_pairs(pairs);
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

    pub(super) fn nominal(&self, half: usize, intensity: f64, pairs: usize) -> f64 {
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
            Half::Tolerated if expensive(subject) => {
                let settled = (pairs as f64 + 1.0) / pairs.max(1) as f64;
                2.0 * (running - subject.settle.as_secs_f64())
                    + settled * subject.settle.as_secs_f64()
            }
            Half::Caused if expensive(subject) => {
                2.0 * (probe_settle(subject) + self.window(subject)).as_secs_f64()
            }
            Half::Tolerated => 2.0 * running,
            Half::Caused => 2.0 * own.as_secs_f64(),
        };
        let switch = subject.switch_cost.as_secs_f64() * intensity / 100.0;
        // In and out of treatment: once per pair, once per two pairs when the
        // order saves switches, once per visit when both arms are treated.
        let switches = match half {
            Half::Tolerated if expensive(subject) => pairs.div_ceil(2),
            Half::Tolerated => pairs,
            Half::Caused => 1,
        };
        pairs as f64 * windows + 2.0 * switch * switches as f64
    }

    /// Seconds the minimum of a half takes.
    pub(super) fn minimum(&self, half: usize) -> f64 {
        let rules = &self.halves[half].search.rules;
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

    /// The halves to begin with, cheap ones first and tolerated before caused.
    pub(super) fn first_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.halves.len()).collect();
        order.sort_by(|a, b| {
            let caused = |i: usize| self.halves[i].half == Half::Caused;
            let costs = self.minimum(*a).total_cmp(&self.minimum(*b));
            caused(*a).cmp(&caused(*b)).then(costs)
        });
        // What was recalled from an earlier run has begun.
        order.retain(|index| self.halves[*index].tried == 0 && !self.halves[*index].played);
        order
    }

    /// Whether the minimum of a half fits into what is left and into its
    /// subject's share.
    pub(super) fn may_begin(&self, index: usize, left: Duration) -> bool {
        let run = &self.halves[index];
        let minimum = self.minimum(index);
        let within_cap = self.subject_spent(run.subject) + minimum <= self.cap();
        within_cap && minimum <= left.as_secs_f64() && !run.ended
    }

    /// Who still wants time, the shortest job first.
    pub(super) fn next(&mut self, left: Duration) -> Option<usize> {
        let left = left.as_secs_f64();
        let mut best: Option<(bool, f64, usize)> = None;
        for index in 0..self.halves.len() {
            if self.halves[index].ended || self.halves[index].played {
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
        best.map(|(_, _, index)| index)
    }

    /// Seconds of the least that can be measured next in a half.
    fn next_cost(&self, half: usize) -> f64 {
        let run = &self.halves[half];
        if run.tried == 0 {
            self.minimum(half)
        } else if run.search.rules.expensive {
            // Two pairs of one level, at worst the highest.
            self.cost(half, 100.0, 2)
        } else {
            self.cost(half, 100.0, 1)
        }
    }

    /// Remembers what the last pairs left behind, to be released by the next.
    pub(super) fn hold(&mut self, subject: usize, half: Half, intensity: f64) {
        let facts = &self.subjects[subject];
        let fill = facts.switch_cost.as_secs_f64() * intensity / 100.0;
        self.held = match half {
            // The last window of the saving order is a control window.
            Half::Tolerated if expensive(facts) => (subject, 0.0),
            Half::Tolerated | Half::Caused => (subject, fill),
        };
    }

    /// Ends both halves of a subject that cannot be measured further.
    pub(super) fn end_subject(&mut self, subject: usize, reason: &str) {
        for run in self.halves.iter_mut().filter(|run| run.subject == subject) {
            if !run.search.settled {
                run.error = Some(reason.to_string());
            }
            run.ended = true;
        }
    }
}
