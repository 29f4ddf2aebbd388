//! The search for the intensity at which performance crosses a line.
//!
//! # The verdict at 100
//! Intensity 100 is measured first. Looks at the data happen at pair counts
//! fixed beforehand (the minimum, twice, four times …) and at the end of the time, and
//! look k spends `alpha / 2^k` of the one-sided error `alpha`, so that over any number
//! of looks a false verdict has probability below `alpha` (union bound). For a loss
//! `alpha = 0.05 / subjects` (Bonferroni): the chance of any false "sensitive" in a
//! profile is below 5 %, whatever the subjects have in common. That a subject costs
//! less than the line is said of each for itself, with `alpha = 0.05`
//! ([`KEPT_ALPHA`]), of which half is kept for the look at the end: that one asks no
//! more than that the reported 95 % interval lies above the line. One look uses
//! Student's interval around the robust location, since percentiles of a
//! bootstrap do not reach that far into the tail, and the reported interval,
//! since wild pairs make the tail a skewed one: both must lie on one side.
//!
//! # The crossing
//! After a loss was shown, levels on a 5-point grid are added by bisection and
//! pairs are spent where the interval is expected to shrink most. The interval
//! of the crossing comes from refitting the monotone curve to resampled pairs:
//! its lower end is the highest level kept in 97.5 % of the refits, its upper
//! end the lowest level lost in 97.5 %. Both ends are measured levels: between
//! two of them a monotone curve may fall anywhere, a cliff as well as a slope,
//! and an interval from interpolation alone would miss cliffs. A curve that ends
//! at the line is settled without a verdict once that interval is narrow.

use super::levels::Bracket;
use super::levels::FEWEST_PAIRS;
use super::levels::Level;
use super::levels::Levels;
pub use super::levels::Played;
use super::levels::estimate;
use super::levels::pair_sd;
use super::settings::Half;
use crate::warning::Warning;
use jostle_profile::CurvePoint;
use jostle_statistics::Bootstrap;
use jostle_statistics::below;
use jostle_statistics::normal_quantile;
use rand::rngs::ChaCha8Rng;

/// Levels stand on multiples of this many points.
const GRID: f64 = 5.0;
/// Resamples while searching, and for what is reported.
const RESAMPLES: usize = 200;
const FINAL_RESAMPLES: usize = 1000;
/// Most pairs at one level: beyond, drift and not sampling limits the answer.
const MOST_PAIRS: usize = 640;
/// Pairs per turn while the endpoint waits for its next look.
const TURN: usize = 8;
/// Pairs per turn on a level of the search.
const LEVEL_TURN: usize = 5;
/// Looks at the endpoint after which lower levels are measured too, so that
/// an undecided endpoint still ends with a useful lower bound.
const PATIENCE: u32 = 3;
/// One-sided error of "kept at 100" over all looks, of each subject for itself.
const KEPT_ALPHA: f64 = 0.05;
/// Part of that error which is kept for the look at the end of the time.
const LAST_LOOK: f64 = 0.5;
/// How many times as many pairs as a verdict at the end needs are worth more than those of
/// other sources. Not just so many: pairs that end as soon as they say something say too
/// often what is not so.
const SPARE_PAIRS: f64 = 1.5;
/// One-sided error at each end of the crossing's interval as reported. Looking
/// again and again costs some of it; that the ends are measured levels more
/// than pays.
const TAIL: f64 = 0.025;
/// The same while deciding whether to stop: stricter, so that the finer
/// resampling at the end does not undo the decision.
const STOP_TAIL: f64 = 0.015;

/// What a search is asked to find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Intensities at which the verdict falls, ascending; the last is 100.
    pub endpoints: &'static [f64],
    /// Performance that counts as kept, a fraction (0–1).
    pub line: f64,
    /// One-sided error of "lost at 100" over all looks.
    pub alpha: f64,
    /// Pairs before the first look.
    pub min_pairs: usize,
    /// Stop when the half-width of the crossing's 95 % interval is at most
    /// this, points.
    pub half_width: f64,
    /// Pairs come in even numbers at one level (switching is expensive).
    pub expensive: bool,
    /// Nothing is searched below the endpoints.
    pub full_only: bool,
}

/// What is known about the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Undecided,
    /// Above the line at 100, so everywhere.
    Kept,
    /// Below the line at 100.
    Lost,
}

/// What a finished search knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub verdict: Verdict,
    /// Whether the stop rule was met.
    pub resolved: bool,
    /// `None` when fewer than 4 pairs were measured at 100.
    pub bracket: Option<Bracket>,
    pub curve: Vec<CurvePoint>,
    /// Log-ratio standard deviation of one pair at 100, and their number.
    pub pair_sd: Option<f64>,
    pub pairs_at_100: usize,
    /// Pairs still missing for an answer, by sd and distance from the line;
    /// infinite when the curve lies on the line.
    pub missing_pairs: f64,
    pub warning: Option<Warning>,
}

/// A level below the line under one that is not, and what follows.
struct LostBelow {
    intensity: f64,
    verdict: Verdict,
    /// Pairs missing until it is certain.
    untold: f64,
}

/// The state of one search.
#[derive(Debug)]
pub struct Search {
    pub rules: Rules,
    levels: Levels,
    looks: u32,
    verdict: Verdict,
    /// Nothing more is worth measuring.
    pub settled: bool,
    /// As of the last judgement, at the tail of the stop rule.
    bracket: Option<Bracket>,
    /// Of the resamples.
    rng: ChaCha8Rng,
}

impl Search {
    pub fn new(rules: Rules, rng: ChaCha8Rng) -> Self {
        Search {
            rules,
            levels: Levels::new(rules.line),
            looks: 0,
            verdict: Verdict::Undecided,
            settled: false,
            bracket: None,
            rng,
        }
    }

    /// Sets the pairs before the first look; only before any was recorded.
    pub fn set_min_pairs(&mut self, pairs: usize) {
        self.rules.min_pairs = pairs.max(FEWEST_PAIRS);
    }

    /// What a second spent on this search weighs against others', less for
    /// what a reader acts on: where a certain loss begins before whether there
    /// is one that has not shown yet, and what the target bears before what it
    /// does to others.
    pub fn patience_weight(&self, half: Half) -> f64 {
        let certain = match self.verdict {
            Verdict::Lost => 0.25,
            _ => 1.0,
        };
        let side = match half {
            Half::Tolerated => 0.5,
            Half::Caused => 1.0,
        };
        certain * side
    }

    /// Pairs recorded over all levels.
    pub fn pairs(&self) -> usize {
        self.levels.all.iter().map(|level| level.ratios.len()).sum()
    }

    /// Intensities of the pairs wanted next, in random order (expensive switches:
    /// equal ones together). Empty once settled.
    pub fn wanted(&mut self) -> Vec<f64> {
        if self.settled {
            return Vec::new();
        }
        let mut batch = Vec::new();
        let undecided = self.verdict == Verdict::Undecided;
        if undecided {
            let whole = self.looks == 0 || self.rules.expensive;
            for &endpoint in self.rules.endpoints {
                let missing = self.next_look().saturating_sub(self.pairs_at(endpoint));
                let turn = if whole { missing } else { missing.min(TURN) };
                batch.extend(std::iter::repeat_n(endpoint, turn));
            }
            if batch.is_empty() {
                batch.push(100.0);
            }
        }
        if !undecided || self.looks >= PATIENCE {
            self.extend_search(&mut batch);
        }
        if self.rules.expensive {
            if batch.len() % 2 == 1 {
                batch.push(batch[batch.len() - 1]);
            }
        } else {
            for i in (1..batch.len()).rev() {
                let j = below(&mut self.rng, i + 1);
                batch.swap(i, j);
            }
        }
        batch
    }

    fn extend_search(&mut self, batch: &mut Vec<f64>) {
        let Some(bracket) = self.bracket else {
            return;
        };
        let Some(next) = self.choose(&bracket) else {
            return;
        };
        let turn = match self.rules.expensive {
            true => FEWEST_PAIRS,
            false => LEVEL_TURN.max(FEWEST_PAIRS.saturating_sub(self.pairs_at(next))),
        };
        batch.extend(std::iter::repeat_n(next, turn));
        // A level already in play is measured along with the new one, so that
        // a slow change of the machine does not fall on the new one alone.
        if !self.rules.expensive {
            let companion = self
                .levels
                .all
                .iter()
                .filter(|level| level.intensity != next && level.ratios.len() < MOST_PAIRS)
                .min_by(|a, b| {
                    let far = |level: &Level| (level.intensity - bracket.at).abs();
                    far(a).total_cmp(&far(b))
                });
            batch.extend(companion.map(|level| level.intensity));
        }
    }

    /// Adds one pair's log ratio (finite) at `intensity`.
    pub fn record(&mut self, intensity: f64, log_ratio: f64, pressure: Option<f64>) {
        let level = self.levels.level(intensity);
        level.ratios.push(log_ratio);
        level.pressures.extend(pressure.filter(|p| p.is_finite()));
        level.forget();
    }

    /// Adds a log ratio that an earlier run of this measurement recorded.
    pub fn recall(&mut self, intensity: f64, log_ratio: f64, pressure: Option<f64>) {
        self.record(intensity, log_ratio, pressure);
        let level = self.levels.level(intensity);
        level.recalled = (level.ratios.len(), level.pressures.len());
    }

    /// Replaces what was played at `intensity`: a sequence's ratios change as a
    /// whole with every block.
    pub fn replace(&mut self, intensity: f64, played: Played) {
        self.levels.level(intensity).replace(played);
    }

    /// The levels between others at which the interval of the crossing would
    /// shrink most, at most two; none while the verdict comes first.
    pub fn refinements(&self) -> Vec<f64> {
        let Some(bracket) = self.bracket.filter(|_| !self.settled) else {
            return Vec::new();
        };
        let first = self.choose(&bracket);
        let mut knots = vec![bracket.low, bracket.high];
        knots.extend(first);
        knots.extend(self.levels.all.iter().map(|level| level.intensity));
        knots.retain(|level| bracket.low <= *level && *level <= bracket.high);
        knots.sort_unstable_by(f64::total_cmp);
        let gaps = knots.windows(2).map(|gap| (gap[0], gap[1]));
        let widest = gaps.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let second = widest
            .filter(|(low, high)| first.is_some() && high - low > self.rules.half_width)
            .map(|(low, high)| (0.5 * (low + high) / GRID).round() * GRID)
            .filter(|level| !knots.contains(level));
        first.into_iter().chain(second).collect()
    }

    /// Log ratio at 100 as it looks; `None` while nothing is known.
    pub fn ratio_at_100(&self) -> Option<f64> {
        let endpoint = self.levels.endpoint().bootstrap.as_ref();
        endpoint.map(|bootstrap| bootstrap.location)
    }

    /// Performance at 100, a fraction, with its 95 % interval; `None` while nothing is
    /// known.
    pub fn at_100(&self) -> Option<[f64; 3]> {
        let bootstrap = self.levels.endpoint().bootstrap.as_ref()?;
        let [low, high] = bootstrap.interval95().map(f64::exp);
        Some([bootstrap.location.exp(), low, high])
    }

    /// Half-width of the 95 % interval of performance at 100, a fraction;
    /// infinite while nothing is known.
    pub fn half_width_at_100(&self) -> f64 {
        let endpoint = self.levels.endpoint().bootstrap.as_ref();
        endpoint.map_or(f64::INFINITY, |bootstrap| {
            let [low, high] = bootstrap.interval95();
            0.5 * (high.exp() - low.exp())
        })
    }

    /// Judges what was recorded. `last` marks the end of the time given: then
    /// pairs since the last look are looked at too.
    pub fn judge(&mut self, last: bool) {
        let endpoints = self.rules.endpoints;
        let verdict_on = |intensity| endpoints.contains(&intensity);
        // What is played after the answer still narrows its interval, and the
        // rounds end with that.
        self.levels.refresh(RESAMPLES, verdict_on, &mut self.rng);
        if self.settled && self.verdict != Verdict::Undecided {
            return;
        }
        if self.verdict == Verdict::Undecided {
            let n = self.endpoint_pairs();
            // Half of the pairs until the next look are those of the last one.
            let new = self.looks == 0 || 2 * n > self.next_look();
            if n >= self.next_look() || last && n >= FEWEST_PAIRS {
                self.looks += 1;
                self.verdict = self.look(last, new);
            }
        }
        let searching = self.verdict == Verdict::Lost || self.looks >= PATIENCE;
        let searching = searching && !self.rules.full_only;
        if searching {
            self.levels.refresh(RESAMPLES, |_| true, &mut self.rng);
        }
        self.bracket = searching
            .then(|| self.levels.bracket_at(STOP_TAIL))
            .flatten();
        self.settled = match self.verdict {
            Verdict::Kept => true,
            Verdict::Lost if self.rules.full_only => true,
            Verdict::Lost => self.bracket.is_some_and(|bracket| {
                let narrow = bracket.half_width() <= self.rules.half_width;
                narrow || self.choose(&bracket).is_none()
            }),
            Verdict::Undecided => {
                let close = self.bracket.is_some_and(|bracket| self.is_close(&bracket));
                close || self.endpoint_pairs() >= MOST_PAIRS
            }
        };
    }

    /// Everything known, with the reported number of resamples; `direction` is
    /// what was searched, for the warnings.
    pub fn finish(mut self, direction: &'static str) -> Finding {
        self.judge(true);
        self.levels.all.iter_mut().for_each(Level::forget);
        self.levels
            .refresh(FINAL_RESAMPLES, |_| true, &mut self.rng);
        if self.levels.endpoint().is_played() && !self.is_upheld() {
            self.verdict = Verdict::Undecided;
        }
        let mut untold = match self.verdict {
            Verdict::Undecided => self.until_told(self.levels.endpoint(), self.tail_of_next_look()),
            _ => 0.0,
        };
        let mut bracket = self.levels.bracket_at(TAIL);
        if self.verdict == Verdict::Kept
            && let Some(lost) = self.lost_below()
        {
            bracket = self.levels.bracket_below(lost.intensity, TAIL);
            self.verdict = lost.verdict;
            untold = lost.untold;
        }
        let resolved = match (self.verdict, &mut bracket) {
            (Verdict::Kept, Some(bracket)) => {
                *bracket = Bracket {
                    at: 100.0,
                    low: 100.0,
                    high: 100.0,
                };
                true
            }
            (Verdict::Lost, Some(bracket)) => bracket.half_width() <= self.rules.half_width,
            (Verdict::Undecided, Some(bracket)) => self.is_close(bracket),
            (_, None) => false,
        };
        let missing_pairs = match resolved {
            true => 0.0,
            false => self
                .outlook()
                .max(untold)
                .max(self.by_width(bracket.as_ref()))
                .max(FEWEST_PAIRS as f64),
        };
        let endpoint = self.levels.endpoint();
        let pair_sd = endpoint.bootstrap.as_ref().map(pair_sd);
        Finding {
            verdict: self.verdict,
            resolved,
            bracket,
            curve: self.levels.curve(),
            pair_sd: pair_sd.filter(|sd| sd.is_finite()),
            pairs_at_100: endpoint.ratios.len(),
            missing_pairs,
            warning: self.levels.contradiction(direction),
        }
    }

    /// Whether the crossing is known well enough although nobody can say on
    /// which side of the line 100 lies: a curve that ends at the line.
    fn is_close(&self, bracket: &Bracket) -> bool {
        bracket.half_width() <= self.rules.half_width
    }

    /// Whether the reported intervals agree with the verdict: what a sequence
    /// says may change after a verdict, when the machine does.
    fn is_upheld(&self) -> bool {
        let line = self.rules.line.ln();
        let endpoints = self.rules.endpoints.iter();
        let mut intervals = endpoints
            .filter_map(|endpoint| self.levels.find(*endpoint)?.bootstrap.as_ref())
            .map(|bootstrap| bootstrap.interval95());
        match self.verdict {
            Verdict::Kept => intervals.all(|[low, _]| low > line),
            Verdict::Lost => intervals.any(|[_, high]| high < line),
            Verdict::Undecided => true,
        }
    }

    /// The lowest level that lies below the line although 100 lies above it: what a
    /// neighbour does there counts, whatever more of it does. A level that is only
    /// below by its own interval, one of many, leaves the verdict open.
    fn lost_below(&self) -> Option<LostBelow> {
        let line = self.rules.line.ln();
        let levels = self.levels.all.iter();
        let lower: Vec<(&Level, &Bootstrap)> = levels
            .filter(|level| level.intensity < 100.0)
            .filter_map(|level| Some((level, level.bootstrap.as_ref()?)))
            .collect();
        // What the looks left.
        let left = self.rules.alpha * 0.5f64.powi(self.looks as i32 + 1);
        let alpha = left / lower.len().max(1) as f64;
        let (level, bootstrap) = lower
            .iter()
            .find(|(_, bootstrap)| bootstrap.interval95()[1] < line)?;
        let verdict = match bootstrap.student(alpha)[1] < line {
            true => Verdict::Lost,
            false => Verdict::Undecided,
        };
        Some(LostBelow {
            intensity: level.intensity,
            verdict,
            untold: self.until_told(level, alpha),
        })
    }

    /// Pairs at 100 at which the next look happens.
    fn next_look(&self) -> usize {
        self.rules.min_pairs << self.looks.min(20)
    }

    /// The look with the number `looks`, `last` at the end of the time; whether there is
    /// something `new` that may be a loss.
    fn look(&self, last: bool, new: bool) -> Verdict {
        let endpoints = self.rules.endpoints;
        let share = 0.5f64.powi(self.looks as i32);
        let lost_alpha = match new {
            true => share * self.rules.alpha / endpoints.len() as f64,
            false => 0.0,
        };
        let kept_alpha = KEPT_ALPHA
            * match last {
                true => LAST_LOOK,
                false => (1.0 - LAST_LOOK) * share,
            };
        let line = self.rules.line.ln();
        let mut kept = 0;
        for &endpoint in endpoints {
            let level = self.levels.find(endpoint);
            let Some(bootstrap) = level.and_then(|l| l.bootstrap.as_ref()) else {
                continue;
            };
            // Student's interval reaches far into the tail, but knows nothing of
            // a skewed one; a verdict must not contradict what is reported.
            let [least, most] = bootstrap.interval95();
            let low = bootstrap.student(kept_alpha)[0].min(least);
            let high = bootstrap.student(lost_alpha)[1].max(most);
            if high < line {
                return Verdict::Lost;
            }
            kept += usize::from(low > line);
        }
        match kept == endpoints.len() {
            true => Verdict::Kept,
            false => Verdict::Undecided,
        }
    }

    /// Pairs at `intensity`.
    pub fn pairs_at(&self, intensity: f64) -> usize {
        self.levels
            .find(intensity)
            .map_or(0, |level| level.ratios.len())
    }

    /// Pairs that every endpoint has at least.
    fn endpoint_pairs(&self) -> usize {
        let counts = self.rules.endpoints.iter().map(|x| self.pairs_at(*x));
        counts.min().unwrap_or(0)
    }

    /// The level where pairs shrink the interval most; `None` when none can.
    fn choose(&self, bracket: &Bracket) -> Option<f64> {
        let inside = |x: f64| x > bracket.low && x < bracket.high;
        // A level begun but not yet usable is finished first.
        let levels = || self.levels.all.iter();
        if let Some(begun) = levels().find(|l| !l.usable() && inside(l.intensity)) {
            return Some(begun.intensity);
        }
        let mut knots = vec![bracket.low];
        knots.extend(levels().map(|l| l.intensity).filter(|x| inside(*x)));
        knots.push(bracket.high);
        let gaps = || {
            knots
                .windows(2)
                .map(|gap| (gap[0], gap[1]))
                .filter(|(a, b)| b - a > self.rules.half_width)
        };
        let around = gaps().find(|(a, b)| *a <= bracket.at && bracket.at <= *b);
        let widest = gaps().max_by(|x, y| (x.1 - x.0).total_cmp(&(y.1 - y.0)));
        if let Some((a, b)) = around.or(widest) {
            let middle = (0.5 * (a + b) / GRID).round() * GRID;
            if middle > a && middle < b {
                return Some(middle);
            }
        }
        levels()
            .filter(|l| inside(l.intensity) || (l.intensity == 100.0 && bracket.high == 100.0))
            .filter(|l| l.ratios.len() < MOST_PAIRS)
            .map(|l| (l.intensity, self.gain(l, bracket)))
            .max_by(|x, y| x.1.total_cmp(&y.1))
            .map(|(intensity, _)| intensity)
    }

    /// Points the interval shrinks by per further pair at `level`, if its
    /// estimate is right: it would become the end on its side.
    fn gain(&self, level: &Level, bracket: &Bracket) -> f64 {
        let shrink = if estimate(level) >= self.rules.line {
            level.intensity - bracket.low
        } else {
            bracket.high - level.intensity
        };
        shrink.max(0.1) / (1.0 + self.missing_at(level, STOP_TAIL).min(1e6))
    }

    /// Pairs missing until `level` is told from the line at one-sided `tail`:
    /// `(z sd / gap)^2` less those there are.
    fn missing_at(&self, level: &Level, tail: f64) -> f64 {
        let Some(bootstrap) = &level.bootstrap else {
            return FEWEST_PAIRS as f64;
        };
        (self.needed_at(bootstrap, tail) - bootstrap.n as f64).max(1.0)
    }

    /// Pairs missing at `level` until what is reported of it, and Student's interval with a
    /// one-sided error of `tail`, lie on the side of the line where the estimate lies: both
    /// shrink with the root of their number.
    fn until_told(&self, level: &Level, tail: f64) -> f64 {
        let Some(bootstrap) = &level.bootstrap else {
            return FEWEST_PAIRS as f64;
        };
        let line = self.rules.line.ln();
        let towards = usize::from(bootstrap.location < line);
        let ends = [bootstrap.interval95(), bootstrap.student(tail)];
        let reach = ends.map(|end| (end[towards] - bootstrap.location).abs());
        let gap = (bootstrap.location - line).abs();
        let parts = (reach[0].max(reach[1]) / gap.max(1e-9)).powi(2);
        (parts - 1.0).max(0.0) * bootstrap.n as f64
    }

    /// Pairs at a level that tell it from the line with a one-sided error of `tail`, if the
    /// estimates are right.
    fn needed_at(&self, bootstrap: &Bootstrap, tail: f64) -> f64 {
        let gap = (bootstrap.location - self.rules.line.ln()).abs();
        // A wild pair among few is diluted by the next ones.
        let sd = pair_sd(bootstrap).min(self.levels.typical_sd());
        (normal_quantile(1.0 - tail) * sd / gap.max(1e-9)).powi(2)
    }

    /// Pairs at 100 that the verdict at the end of the time lacks if the estimates are right;
    /// `None` where it has these and some to spare, or its verdict.
    pub fn until_verdict(&self) -> Option<f64> {
        if self.settled || self.verdict != Verdict::Undecided {
            return None;
        }
        let endpoint = self.levels.endpoint();
        let Some(bootstrap) = endpoint.bootstrap.as_ref().filter(|_| self.looks > 0) else {
            return Some(self.rules.min_pairs as f64);
        };
        // Not by the noise of a pair: pairs share their controls.
        let [low, high] = bootstrap.interval95();
        let errors = normal_quantile(1.0 - self.tail_of_next_look()) / normal_quantile(0.975);
        let gap = (bootstrap.location - self.rules.line.ln()).abs();
        let needed = (0.5 * (high - low) * errors / gap.max(1e-9)).powi(2);
        let lacks = |parts: f64| (parts * needed - 1.0).max(0.0) * bootstrap.n as f64;
        (lacks(SPARE_PAIRS) > 0.0).then(|| lacks(1.0))
    }

    /// One-sided error that the next look at 100 spends on the side of the line where the
    /// estimate lies.
    fn tail_of_next_look(&self) -> f64 {
        match estimate(self.levels.endpoint()) >= self.rules.line {
            true => LAST_LOOK * KEPT_ALPHA,
            false => self.rules.alpha * 0.5f64.powi(self.looks as i32 + 1),
        }
    }

    /// Pairs missing for an answer, if the estimates are right; infinite when
    /// the curve lies on the line.
    pub fn outlook(&self) -> f64 {
        if self.settled {
            return 0.0;
        }
        if self.verdict == Verdict::Undecided {
            if self.looks == 0 {
                return self.rules.min_pairs as f64;
            }
            return self.missing_at(self.levels.endpoint(), self.tail_of_next_look());
        }
        let Some(bracket) = self.bracket else {
            return f64::INFINITY;
        };
        let next = self.choose(&bracket);
        let played = next.and_then(|next| self.levels.find(next));
        match played.filter(|level| level.usable()) {
            // Both sides of the crossing have to be told from the line.
            Some(level) => 2.0 * self.missing_at(level, STOP_TAIL),
            None => {
                let halvings = (bracket.half_width() / self.rules.half_width).log2();
                LEVEL_TURN as f64 * halvings.ceil().max(1.0)
            }
        }
    }

    /// Further pairs by the rule that an interval shrinks with the root of
    /// their number; 0 while halving the interval is still the way to go on.
    fn by_width(&self, bracket: Option<&Bracket>) -> f64 {
        let Some(bracket) = bracket.filter(|_| self.verdict == Verdict::Lost) else {
            return 0.0;
        };
        // A level that was begun halves it too.
        let known = |next| self.levels.find(next).is_some_and(Level::usable);
        if self.choose(bracket).is_some_and(|next| !known(next)) {
            return 0.0;
        }
        let excess = bracket.half_width() / self.rules.half_width;
        self.pairs() as f64 * (excess * excess - 1.0).max(0.0)
    }
}

#[cfg(test)]
mod tests;
