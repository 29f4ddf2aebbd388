//! One number from several runs, with what differs between them.
//!
//! Runs of one program differ by more than the noise inside each: by the layout
//! of its memory, by the hour, by other machines on the host. The variance
//! between runs is estimated by moments (DerSimonian & Laird 1986). A few runs
//! tell it badly for one number, and by chance often as zero; so the same is
//! estimated from all numbers of the runs together, and the larger one counts.

use crate::robust::student_quantile;

/// One run's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub value: f64,
    /// Standard error inside the run.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
}

/// The answer of all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    pub value: f64,
    pub error: f64,
    pub freedom: f64,
    /// Standard deviation between runs that was taken into account.
    pub spread: f64,
    /// Whether the runs differ by more than their own errors explain, at 1 %.
    pub disagree: bool,
}

impl Pooled {
    pub fn ci95(&self) -> [f64; 2] {
        let half = student_quantile(0.975, self.freedom) * self.error;
        [self.value - half, self.value + half]
    }
}

/// Standard deviation between runs that all `numbers` show together: one list of
/// runs for each, in the same unit. Zero where none has two runs.
pub fn common_spread(numbers: &[Vec<Run>]) -> f64 {
    let moments = numbers.iter().filter_map(|runs| Moments::of(runs));
    let (mut excess, mut scale) = (0.0, 0.0);
    for moments in moments {
        // Each number alike, whatever the unit of its weights.
        excess += (moments.heterogeneity - moments.freedom) / moments.scale * moments.freedom;
        scale += moments.freedom;
    }
    match scale > 0.0 {
        true => (excess / scale).max(0.0).sqrt(),
        false => 0.0,
    }
}

/// The runs' answer, with a spread between them of at least `least_spread`.
/// `None` without a run.
pub fn pool(runs: &[Run], least_spread: f64) -> Option<Pooled> {
    let first = runs.first()?;
    let Some(moments) = Moments::of(runs) else {
        // Nothing tells how far other runs would lie but the spread given.
        return Some(Pooled {
            value: first.value,
            error: first.error.hypot(least_spread),
            freedom: first.freedom,
            spread: least_spread,
            disagree: false,
        });
    };
    let own = ((moments.heterogeneity - moments.freedom) / moments.scale).max(0.0);
    let spread = own.sqrt().max(least_spread);
    let between = spread * spread;
    let weight = |run: &Run| 1.0 / (run.error * run.error + between).max(f64::MIN_POSITIVE);
    let weights: f64 = runs.iter().map(weight).sum();
    let value = runs.iter().map(|run| weight(run) * run.value).sum::<f64>() / weights;
    // Satterthwaite: errors inside the runs rest on many windows, their spread
    // on few runs unless it is what all numbers show.
    let count = runs.len() as f64;
    let (mut inside, mut outside) = (0.0, 0.0);
    for run in runs {
        // Parts of the answer's variance, which is 1 / weights.
        let share = weight(run) / weights;
        let part = share * weight(run) * run.error * run.error;
        inside += part * part / run.freedom;
        outside += share * weight(run) * between;
    }
    let known_elsewhere = least_spread > 0.0 && own <= least_spread * least_spread;
    let outside_freedom = if known_elsewhere { 30.0 } else { count - 1.0 };
    let variance = 1.0 / weights;
    let parts = inside + outside * outside / outside_freedom;
    let freedom = match parts > 0.0 {
        true => (1.0 / parts).clamp(1.0, 1e6),
        false => count - 1.0,
    };
    Some(Pooled {
        value,
        error: variance.sqrt(),
        freedom,
        spread,
        disagree: moments.p() < 0.01,
    })
}

/// Cochran's heterogeneity and what it would be without a spread between runs.
struct Moments {
    heterogeneity: f64,
    /// Runs less one.
    freedom: f64,
    /// What a variance of 1 between runs adds to the heterogeneity.
    scale: f64,
}

impl Moments {
    fn of(runs: &[Run]) -> Option<Moments> {
        if runs.len() < 2 {
            return None;
        }
        let weight = |run: &Run| 1.0 / (run.error * run.error).max(1e-12);
        let sum: f64 = runs.iter().map(weight).sum();
        let squares: f64 = runs.iter().map(|run| weight(run).powi(2)).sum();
        let mean = runs.iter().map(|run| weight(run) * run.value).sum::<f64>() / sum;
        let apart = |run: &Run| weight(run) * (run.value - mean).powi(2);
        Some(Moments {
            heterogeneity: runs.iter().map(apart).sum(),
            freedom: (runs.len() - 1) as f64,
            scale: sum - squares / sum,
        })
    }

    /// Chance of as much heterogeneity between runs of one truth (Wilson and
    /// Hilferty's approximation of the chi-square law).
    fn p(&self) -> f64 {
        let step = 2.0 / (9.0 * self.freedom);
        let root = (self.heterogeneity / self.freedom).cbrt();
        1.0 - crate::robust::normal_share((root - (1.0 - step)) / step.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;

    /// `runs` runs of a truth of 10 that lie `spread` apart, each with an error
    /// of 1.
    fn drawn(noise: &mut Noise, runs: usize, spread: f64) -> Vec<Run> {
        (0..runs)
            .map(|_| Run {
                value: 10.0 + spread * noise.normal() + noise.normal(),
                error: 1.0,
                freedom: 20.0,
            })
            .collect()
    }

    /// Of 1000 sets of 16 numbers, how many intervals of the first hold the truth.
    fn covered(runs: usize, spread: f64) -> usize {
        let mut noise = Noise::seeded(3);
        (0..1000)
            .filter(|_| {
                let numbers: Vec<Vec<Run>> =
                    (0..16).map(|_| drawn(&mut noise, runs, spread)).collect();
                let pooled = pool(&numbers[0], common_spread(&numbers)).unwrap();
                let [low, high] = pooled.ci95();
                (low..=high).contains(&10.0)
            })
            .count()
    }

    #[test]
    fn intervals_hold_the_truth_with_and_without_a_spread() {
        for (runs, spread) in [(2, 0.0), (3, 0.0), (2, 2.0), (3, 2.0), (5, 4.0)] {
            let covered = covered(runs, spread);
            assert!(covered >= 930, "{runs} runs, spread {spread}: {covered}");
        }
    }

    #[test]
    fn runs_that_disagree_widen_the_interval_and_are_named() {
        let run = |value| Run {
            value,
            error: 1.0,
            freedom: 20.0,
        };
        let width = |pooled: Pooled| pooled.ci95()[1] - pooled.ci95()[0];
        let alike = pool(&[run(10.0), run(10.5), run(9.8)], 0.0).unwrap();
        assert!(!alike.disagree && width(alike) < width(pool(&[run(10.0)], 0.0).unwrap()));
        let apart = pool(&[run(10.0), run(20.0), run(9.0)], 0.0).unwrap();
        assert!(apart.disagree && apart.spread > 4.0, "{apart:?}");
        assert!(width(apart) > 10.0, "{apart:?}");
        assert_eq!(pool(&[], 1.0), None);
    }
}
