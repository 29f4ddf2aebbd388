//! Who is guilty, when many are suspected.
//!
//! Each candidate is innocent (it costs the victim less than what counts) until
//! that is refuted with Holm's step-down correction (Holm 1979): the chance that
//! anybody at all is accused wrongly is at most 5 %, however many candidates there
//! are. What pausing a process that does nothing seems to do is taken off first
//! where it is clearly not nothing.

use crate::pairs::Estimated;
use jostle_profile::blame::Verdict;

/// Of each direction.
const ALPHA: f64 = 0.025;
/// Standard error of the log ratio that no number of pauses removes. Pauses are
/// shorter than what they are compared with, and time that is stolen now and then is
/// an outlier among short windows and a part of every long one. Without it 17 % of
/// the intervals of planted culprits in recorded noise missed (tests/blame.rs).
const LEAST_ERROR: f64 = 0.005;

/// The log of the speed beside a candidate over the speed without it, as far as
/// it is known.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub log_ratio: f64,
    /// Nothing but the candidate's own pauses.
    estimated: Estimated,
    /// Standard error of what was taken off for the placebo.
    shift_error: f64,
}

impl Evidence {
    pub fn of(estimated: &Estimated, shift: Shift) -> Evidence {
        Evidence {
            log_ratio: estimated.value.ln() - shift.log_ratio,
            estimated: estimated.clone(),
            shift_error: shift.error,
        }
    }

    /// How far the log ratio may be off in each direction.
    fn reach(&self, alpha: f64) -> f64 {
        self.estimated.log_reach(alpha) * self.wider()
    }

    /// What the errors beside that of the estimate widen it by, a factor.
    fn wider(&self) -> f64 {
        let own = self.estimated.log_error().max(1e-9);
        let others = self.shift_error.powi(2) + LEAST_ERROR.powi(2);
        (1.0 + others / own.powi(2)).sqrt()
    }

    /// The log ratio with an error of `alpha` on each side.
    pub fn interval(&self, alpha: f64) -> [f64; 2] {
        let reach = self.reach(alpha);
        [self.log_ratio - reach, self.log_ratio + reach]
    }

    /// The interval of the estimate itself, which may be lopsided, moved.
    pub fn interval95(&self) -> [f64; 2] {
        let (middle, wider) = (self.estimated.value.ln(), self.wider());
        let ends = self.estimated.ci95.map(|end| end.max(1e-9).ln() - middle);
        ends.map(|end| self.log_ratio + end * wider)
    }
}

/// What is taken off all candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shift {
    pub log_ratio: f64,
    pub error: f64,
}

/// Of each direction, and blocks, from which on the placebo is believed: after few
/// pauses beside bursts of I/O it seemed to make a difference of 36 %.
const PLACEBO_ALPHA: f64 = 0.0025;
const PLACEBO_BLOCKS: u64 = 40;

impl Shift {
    /// Nothing, unless it is all but certain that the placebo makes a difference.
    pub fn of(placebo: Option<&Estimated>) -> Shift {
        let Some(placebo) = placebo else {
            return Shift::default();
        };
        let reach = placebo.log_reach(PLACEBO_ALPHA) + LEAST_ERROR;
        let certain = placebo.value.ln().abs() > reach;
        match certain && placebo.blocks >= PLACEBO_BLOCKS {
            false => Shift::default(),
            true => Shift {
                log_ratio: placebo.value.ln(),
                error: placebo.log_error(),
            },
        }
    }
}

/// Verdicts in the order of `evidence`, and intervals of the log ratios that all
/// hold at once with 95 % confidence (Bonferroni). `least` is the slowdown that
/// does not count, as a fraction.
pub fn verdicts(evidence: &[Option<Evidence>], least: f64) -> Vec<(Verdict, Option<[f64; 2]>)> {
    let known = evidence.iter().flatten().count().max(1);
    let line = (1.0 - least).ln();
    let mut found = vec![Verdict::NotShown; evidence.len()];
    // Whoever is refuted at a level leaves a less strict one for the others.
    loop {
        let left = found.iter().zip(evidence);
        let left = left.filter(|(verdict, it)| **verdict == Verdict::NotShown && it.is_some());
        let alpha = ALPHA / left.count().max(1) as f64;
        let mut more = false;
        for (verdict, evidence) in found.iter_mut().zip(evidence) {
            let Some(evidence) = evidence else {
                continue;
            };
            if *verdict != Verdict::NotShown {
                continue;
            }
            let [low, high] = evidence.interval(alpha);
            if high < line {
                *verdict = Verdict::Slows;
            } else if low > -line {
                *verdict = Verdict::Helps;
            }
            more |= *verdict != Verdict::NotShown;
        }
        if !more {
            break;
        }
    }
    let found = found.into_iter().zip(evidence);
    found
        .map(|(verdict, evidence)| match evidence {
            None => (Verdict::NotTried, None),
            Some(evidence) => {
                let ends = evidence.interval(ALPHA / known as f64);
                (verdict, Some(ends))
            }
        })
        .collect()
}
