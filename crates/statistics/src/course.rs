//! The course of a program that is run again and again: how fast its operations
//! follow each other at each place of a run.
//!
//! A program that does the same in every run is fast and slow at the same places.
//! What one run shows at a place is what the others are to be compared with there;
//! what differs between phases is no noise then. The same holds for the repetitions of
//! one run that does the same again and again: see [`crate::period`].

use super::robust::median;
use crate::ByNumber;
use std::collections::BTreeMap;

/// Length of a piece of a run in the time of the usual rate, in seconds.
const PIECE: f64 = 0.001;
/// The same where steps lead from operation to operation.
const FINE_PIECE: f64 = 0.000_25;
/// Fewest operations of a piece.
const FEWEST: f64 = 1.0;
/// Most pieces of a run.
const MOST_PIECES: f64 = 100_000.0;
/// Periods that are tried on either side of one that is known to a piece.
const MOST_REACH: i32 = 8;
/// Pairs of pieces a distance apart that it takes to judge the distance.
const FEWEST_PAIRS: usize = 100;
/// Most pairs of pieces that are looked at, over all distances.
const MOST_PAIRS: usize = 40_000_000;
/// Shortest distance that is tried, in pieces.
const SHORTEST: usize = 4;
/// Times that the longest distance fits into what was seen.
const OFTEN: usize = 4;
/// Largest mean square difference of pieces a period apart, as a fraction of that of any
/// two pieces.
const ALIKE: f64 = 0.6;
/// Distances tried as the period of the whole.
const TRIED: usize = 12;
/// Logs of times farther from their middle than this many of their typical distances are
/// taken to be as far.
const FARTHEST: f64 = 4.0;
/// Share of a piece that other runs have to have seen, and of what a block covers.
const SEEN_OF_PIECE: f64 = 0.25;
const SEEN: f64 = 0.5;

/// What a target did from one reading to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Number of the run.
    pub run: u32,
    /// Operations since its begin, at both ends.
    pub from: f64,
    pub to: f64,
    /// How long it took, as it would have taken without interference.
    pub seconds: f64,
}

/// Seconds, and operations seen, in each piece of a run.
type Pieces = BTreeMap<u64, (f64, f64)>;

/// How fast each place of a run is.
#[derive(Clone, Debug)]
pub struct Course {
    /// Operations of one piece.
    width: f64,
    /// The run that repeats itself, and the pieces of its period.
    of_period: Option<(u32, u64)>,
    /// By run, or by repetition.
    runs: BTreeMap<u64, Pieces>,
    all: Pieces,
    /// Log of operations per second over all of it.
    pub log_rate: f64,
}

impl Course {
    /// From all steps of at least two runs; `None` with less.
    pub fn of(steps: &[Step]) -> Option<Course> {
        Course::in_pieces(steps, PIECE)
    }

    /// The same in pieces as short as steps allow that lead from operation to operation.
    pub fn fine(steps: &[Step]) -> Option<Course> {
        Course::in_pieces(steps, FINE_PIECE)
    }

    /// The same in pieces of one operation: for steps whose ends are known to parts of
    /// operations.
    pub fn by_operation(steps: &[Step]) -> Option<Course> {
        Course::in_pieces(steps, 0.0)
    }

    fn in_pieces(steps: &[Step], piece: f64) -> Option<Course> {
        let longest = steps.iter().map(|step| step.to).fold(0.0, f64::max);
        let rate = rate(steps)?;
        let width = (rate * piece).max(FEWEST).max(longest / MOST_PIECES);
        longest
            .is_finite()
            .then(|| Course::with(steps, width, None, rate))?
    }

    /// From the steps of one run that comes to the same place again after `period`
    /// operations.
    pub fn folded(steps: &[Step], period: f64) -> Option<Course> {
        Course::folded_in_pieces(steps, period, PIECE)
    }

    /// The same in pieces as short as steps allow that lead from operation to operation,
    /// and the period by which they agree best: what is off by part of a piece adds up from
    /// one repetition to the next. `None` where nothing comes again.
    pub fn finely_folded(steps: &[Step]) -> Option<(Course, f64)> {
        let operations = steps.last()?.to - steps.first()?.from;
        let width = (rate(steps)? * FINE_PIECE).max(FEWEST).round();
        let stretches = stretches(steps);
        let best_of = |periods: &mut dyn Iterator<Item = f64>| {
            let courses = periods.filter_map(|period| {
                let course = Course::folded_in_pieces(steps, period, FINE_PIECE)?;
                Some((course.misfit(&stretches)?, course, period))
            });
            courses.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        // What repeats itself for a while need not fit the whole.
        let lags = cells(steps, width).lags();
        let (off, course, near) = best_of(&mut lags.into_iter().map(|lag| width * lag as f64))?;
        let step = (0.5 * width * near / operations).clamp(1.0, width);
        let reach = ((width / step) as i32).min(MOST_REACH);
        let around = (-reach..=reach).filter(|index| *index != 0);
        let mut around = around.map(|index| (near + f64::from(index) * step).round());
        Some(match best_of(&mut around) {
            Some((nearer, course, period)) if nearer < off => (course, period),
            _ => (course, near),
        })
    }

    /// From steps whose ends are known to parts of operations, in pieces of one operation.
    pub fn folded_by_operation(steps: &[Step], period: f64) -> Option<Course> {
        Course::folded_in_pieces(steps, period, 0.0)
    }

    /// The same by a period that is known.
    pub fn folded_in_fine_pieces(steps: &[Step], period: f64) -> Option<Course> {
        Course::folded_in_pieces(steps, period, FINE_PIECE)
    }

    /// Whether it is of what one run repeats.
    pub fn is_of_period(&self) -> bool {
        self.of_period.is_some()
    }

    /// Runs, or repetitions, that it is known from.
    pub fn seen(&self) -> usize {
        self.runs.len()
    }

    /// How far most stretches are from what other runs, or repetitions, took for them, as
    /// a log of time; `None` where most are of places that no other was seen at.
    fn misfit(&self, stretches: &[Step]) -> Option<f64> {
        let off = stretches.iter().filter_map(|stretch| {
            let expected = self.log_rate_of(stretch.run, stretch.from, stretch.to)?;
            Some(((stretch.to - stretch.from) / stretch.seconds).ln() - expected)
        });
        let mut off: Vec<f64> = off.collect();
        let middle = median(&mut off);
        let mut sizes: Vec<f64> = off.iter().map(|off| (off - middle).abs()).collect();
        (2 * sizes.len() >= stretches.len() && !sizes.is_empty()).then(|| median(&mut sizes))
    }

    fn folded_in_pieces(steps: &[Step], period: f64, piece: f64) -> Option<Course> {
        let rate = rate(steps)?;
        let pieces = (period / (rate * piece).max(FEWEST)).round();
        let pieces = pieces.clamp(1.0, MOST_PIECES);
        let of_period = Some((steps.first()?.run, pieces as u64));
        (period > 0.0).then(|| Course::with(steps, period / pieces, of_period, rate))?
    }

    fn with(
        steps: &[Step],
        width: f64,
        of_period: Option<(u32, u64)>,
        rate: f64,
    ) -> Option<Course> {
        let mut course = Course {
            width,
            of_period,
            runs: BTreeMap::new(),
            all: Pieces::new(),
            log_rate: rate.ln(),
        };
        for step in usable(steps) {
            let length = step.to - step.from;
            for (piece, part) in parts(width, step.from, step.to) {
                let (run, piece) = course.place(step.run, piece);
                let own = course.runs.entry(run).or_default();
                let share = if length > 0.0 { part / length } else { 1.0 };
                for pieces in [own, &mut course.all] {
                    let sum = pieces.entry(piece).or_default();
                    sum.0 += step.seconds * share;
                    sum.1 += part;
                }
            }
        }
        (course.runs.len() > 1).then_some(course)
    }

    /// The run, or the repetition, that a piece of `run` is in, and which of its pieces
    /// it is.
    fn place(&self, run: u32, piece: u64) -> (u64, u64) {
        match self.of_period {
            None => (u64::from(run), piece),
            Some((_, pieces)) => (piece / pieces, piece % pieces),
        }
    }

    /// Log of the operations per second between two places of `run`, as the other
    /// runs, or repetitions, show it; `None` where they have not seen enough of it.
    pub fn log_rate_of(&self, run: u32, from: f64, to: f64) -> Option<f64> {
        // Where another run stands in the period is not known.
        if self.of_period.is_some_and(|(repeats, _)| repeats != run) {
            return None;
        }
        let (mut seconds, mut seen) = (0.0, 0.0);
        for (piece, part) in parts(self.width, from, to) {
            let (run, piece) = self.place(run, piece);
            let own = self.runs.get(&run).and_then(|own| own.get(&piece));
            let own = own.copied().unwrap_or_default();
            let all = self.all.get(&piece).copied().unwrap_or_default();
            let others = (all.0 - own.0, all.1 - own.1);
            if others.1 > SEEN_OF_PIECE * self.width {
                seconds += part * others.0 / others.1;
                seen += part;
            }
        }
        let known = to > from && seen > SEEN * (to - from) && seconds > 0.0;
        known.then(|| (seen / seconds).ln())
    }
}

/// Log of the time that each piece of a run took, less its middle; not a number for those
/// that were not seen.
struct Cells(Vec<f64>);

/// The pieces of `width` operations of the run that `steps` are of.
fn cells(steps: &[Step], width: f64) -> Cells {
    let first = steps
        .first()
        .map_or(0.0, |step| (step.from / width).floor());
    let last = steps.iter().map(|step| step.to).fold(0.0, f64::max);
    let count = ((last / width).ceil() - first).clamp(0.0, 10.0 * MOST_PIECES) as usize;
    let mut sums = vec![(0.0, 0.0); count];
    for step in usable(steps).filter(|step| step.to > step.from) {
        for (piece, part) in parts(width, step.from, step.to) {
            if let Some(sum) = sums.get_mut(piece.wrapping_sub(first as u64) as usize) {
                sum.0 += step.seconds * part / (step.to - step.from);
                sum.1 += part;
            }
        }
    }
    let log = |(seconds, seen): (f64, f64)| match seen > 0.5 * width && seconds > 0.0 {
        true => (seconds / seen).ln(),
        false => f64::NAN,
    };
    let mut logs: Vec<f64> = sums.into_iter().map(log).collect();
    let mut seen: Vec<f64> = logs.iter().copied().filter(|log| log.is_finite()).collect();
    let middle = median(&mut seen);
    let mut sizes: Vec<f64> = seen.iter().map(|log| (log - middle).abs()).collect();
    let most = FARTHEST * median(&mut sizes);
    for log in &mut logs {
        *log = (*log - middle).clamp(-most, most);
    }
    Cells(logs)
}

impl Cells {
    /// The distances at which pieces are most alike, the best first; none where they are
    /// hardly more so than any two.
    fn lags(&self) -> Vec<usize> {
        let cells = &self.0;
        let known = || cells.iter().filter(|log| log.is_finite());
        let count = known().count() as f64;
        let mean = known().sum::<f64>() / count;
        let variance = known().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        let longest = (cells.len() / OFTEN).min(MOST_PAIRS / cells.len().max(1));
        let unlike = |lag: usize| {
            let pairs = cells.iter().zip(&cells[lag..]);
            let squares = pairs.map(|(one, other)| (one - other).powi(2));
            let (sum, pairs) = squares
                .filter(|square| square.is_finite())
                .fold((0.0, 0), |(sum, pairs), square| (sum + square, pairs + 1));
            (pairs >= FEWEST_PAIRS).then(|| sum / pairs as f64 / (2.0 * variance))
        };
        let tried = (SHORTEST..longest).filter_map(|lag| Some((lag, unlike(lag)?)));
        let mut alike: Vec<(usize, f64)> = tried.filter(|(_, unlike)| *unlike <= ALIKE).collect();
        alike.sort_by_number(|it| it.1);
        alike.truncate(TRIED);
        alike.into_iter().map(|(lag, _)| lag).collect()
    }
}

/// Steps that follow each other without a gap, put together.
fn stretches(steps: &[Step]) -> Vec<Step> {
    let mut stretches: Vec<Step> = Vec::new();
    for step in usable(steps) {
        match stretches.last_mut() {
            Some(last) if last.run == step.run && (step.from - last.to).abs() < 0.5 * FEWEST => {
                last.to = step.to;
                last.seconds += step.seconds;
            }
            _ => stretches.push(*step),
        }
    }
    stretches.retain(|stretch| stretch.to > stretch.from);
    stretches
}

fn usable(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let usable = |step: &&Step| step.seconds > 0.0 && step.to >= step.from && step.from >= 0.0;
    steps.iter().filter(usable)
}

/// Operations per second over all steps; `None` where nothing was done.
fn rate(steps: &[Step]) -> Option<f64> {
    let seconds: f64 = usable(steps).map(|step| step.seconds).sum();
    let operations: f64 = usable(steps).map(|step| step.to - step.from).sum();
    let rate = operations / seconds;
    (rate > 0.0 && rate.is_finite()).then_some(rate)
}

/// The pieces between two places, and how many operations of each lie there; the one
/// piece where both are the same.
fn parts(width: f64, from: f64, to: f64) -> impl Iterator<Item = (u64, f64)> {
    let first = (from / width) as u64;
    let last = ((to / width).ceil() as u64).max(first + 1);
    (first..last).map(move |piece| {
        let begin = from.max(piece as f64 * width);
        let end = to.min((piece + 1) as f64 * width);
        (piece, (end - begin).max(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;
    use crate::period;

    /// Operations per second at a place of a run of 3,000: slow, fast, slow.
    fn planted(place: f64) -> f64 {
        match (place / 1000.0) as u64 {
            0 | 2 => 2_000.0,
            _ => 10_000.0,
        }
    }

    /// Steps of 0.4 ms over some runs, with noise, and gaps between them.
    fn steps(runs: u32, noise: f64) -> Vec<Step> {
        let mut random = Noise::seeded(3);
        let mut steps = Vec::new();
        for run in 0..runs {
            let mut place = 0.0;
            while place < 3000.0 {
                let seconds = 0.0004;
                let rate = planted(place) * (noise * random.normal()).exp();
                let to = place + rate * seconds;
                if random.uniform() > 0.3 {
                    steps.push(Step {
                        run,
                        from: place.floor(),
                        to: to.floor(),
                        seconds,
                    });
                }
                place = to;
            }
        }
        steps
    }

    #[test]
    fn each_place_has_the_rate_that_other_runs_show() {
        let course = Course::of(&steps(8, 0.1)).unwrap();
        for (from, to) in [(100.0, 150.0), (1200.0, 1300.0), (2500.0, 2560.0)] {
            let found = course.log_rate_of(3, from, to).unwrap();
            let off = found - planted(from).ln();
            assert!(off.abs() < 0.1, "{from}: {off}");
        }
        // Nobody came that far.
        assert_eq!(course.log_rate_of(3, 5000.0, 5050.0), None);
        // A run that was not seen is compared with all.
        assert!(course.log_rate_of(99, 100.0, 150.0).is_some());
    }

    #[test]
    fn repetitions_are_compared_as_runs_are() {
        // The runs one after the other, as one that does not end.
        let steps: Vec<Step> = steps(8, 0.1)
            .into_iter()
            .map(|step| Step {
                run: 0,
                from: step.from + 3000.0 * f64::from(step.run),
                to: step.to + 3000.0 * f64::from(step.run),
                ..step
            })
            .collect();
        let course = Course::folded(&steps, 3000.0).unwrap();
        for from in [100.0, 1200.0, 2500.0, 2500.0 + 4.0 * 3000.0] {
            let found = course.log_rate_of(0, from, from + 60.0).unwrap();
            let off = found - planted(from % 3000.0).ln();
            assert!(off.abs() < 0.1, "{from}: {off}");
        }
        assert_eq!(course.log_rate_of(1, 100.0, 160.0), None);
        // Slow, then slow again: across the end of a repetition.
        let across = course.log_rate_of(0, 2900.0, 3100.0).unwrap();
        assert!((across - 2_000f64.ln()).abs() < 0.1, "{across}");
        assert_eq!(period(&steps).map(f64::round), Some(3000.0));
    }

    /// Time of an operation of a period of 487: 22 that come again many times, and then a
    /// part without any order.
    fn unequal(operation: u64) -> f64 {
        let place = operation % 487;
        let kind = if place < 330 { place % 22 } else { place };
        let mixed = (kind + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        0.0005 * 50f64.powf(mixed as f64 / (1u64 << 24) as f64 - 0.5)
    }

    #[test]
    fn the_period_of_the_whole_is_found_to_the_operation() {
        let mut random = Noise::seeded(5);
        let mut steps = Vec::new();
        for block in 0..800 {
            let first = 40 * block + (25.0 * random.uniform()) as u64;
            steps.extend((first..first + 12).map(|operation| Step {
                run: 0,
                from: operation as f64,
                to: operation as f64 + 1.0,
                seconds: unequal(operation) * (0.1 * random.normal()).exp(),
            }));
        }
        let (course, period) = Course::finely_folded(&steps).unwrap();
        assert_eq!(period % 487.0, 0.0, "{period}");
        for from in [100, 400, 487 * 9 + 350] {
            let seconds: f64 = (from..from + 12).map(unequal).sum();
            let rate = course.log_rate_of(0, from as f64, from as f64 + 12.0);
            let off = rate.unwrap() - (12.0 / seconds).ln();
            assert!(off.abs() < 0.05, "{from}: {off}");
        }
        // Without an order there is no period.
        for step in &mut steps {
            step.seconds = 0.0005 * random.normal().exp();
        }
        assert!(Course::finely_folded(&steps).is_none());
    }

    #[test]
    fn a_run_is_not_compared_with_itself() {
        let slow = |step: Step| Step {
            seconds: if step.run == 0 { 2.0 } else { 1.0 } * step.seconds,
            ..step
        };
        let steps: Vec<Step> = steps(2, 0.0).into_iter().map(slow).collect();
        let course = Course::of(&steps).unwrap();
        let rate = |run| course.log_rate_of(run, 200.0, 800.0).unwrap();
        // The slow one is seen by the other, not by itself.
        assert!((rate(1) - 1_000f64.ln()).abs() < 0.05, "{}", rate(1).exp());
        assert!((rate(0) - 2_000f64.ln()).abs() < 0.05, "{}", rate(0).exp());
    }

    #[test]
    fn time_without_an_operation_counts_where_it_passes() {
        let step = |run, from, to, seconds| Step {
            run,
            from,
            to,
            seconds,
        };
        let run = |run| {
            [
                step(run, 0.0, 10.0, 0.01),
                step(run, 10.0, 10.0, 0.03),
                step(run, 10.0, 20.0, 0.01),
            ]
        };
        let course = Course::of(&[run(0), run(1)].concat()).unwrap();
        let rate = |from, to| course.log_rate_of(0, from, to).unwrap().exp();
        assert!((rate(0.0, 20.0) - 400.0).abs() < 1e-6);
        assert!(rate(10.0, 12.0) < rate(0.0, 4.0) / 4.0);
    }

    #[test]
    fn one_run_has_no_course() {
        assert!(Course::of(&steps(1, 0.1)).is_none());
        assert!(Course::of(&[]).is_none());
        let wrong = Step {
            run: 0,
            from: 5.0,
            to: 4.0,
            seconds: f64::NAN,
        };
        assert!(Course::of(&[wrong; 4]).is_none());
    }
}
