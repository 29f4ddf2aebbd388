//! Whether the numbers read as levels are rather a running total.

use crate::warning::Warning;

/// Levels in any order rise this often without falling once in one of
/// 9! = 362,880 measurements.
const RISES: u64 = 8;

/// The numbers of one target, in the order in which they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// The first and the last number.
    ends: Option<(f64, f64)>,
    rises: u64,
    falls: u64,
}

impl Growth {
    pub(super) fn push(&mut self, number: f64) {
        let (first, last) = self.ends.unwrap_or((number, number));
        self.rises += u64::from(number > last);
        self.falls += u64::from(number < last);
        self.ends = Some((first, number));
    }

    /// What to say of them where they were read as levels.
    pub(super) fn warning(&self) -> Option<Warning> {
        let (from, to) = self.ends?;
        let total = self.rises >= RISES && self.falls == 0;
        total.then_some(Warning::ReadTotalAsValue { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(numbers: impl IntoIterator<Item = f64>) -> bool {
        let mut growth = Growth::default();
        for number in numbers {
            growth.push(number);
        }
        growth.warning().is_some()
    }

    #[test]
    fn what_only_grows_is_a_total() {
        let total = || (1..=9).map(f64::from);
        assert!(warned(total()));
        assert!(!warned(total().take(8)), "too few");
        // Looked at more often than it changes.
        assert!(warned(total().flat_map(|it| [it, it])));
        // Levels that rise, and fall or stay.
        assert!(!warned(total().chain([8.5])));
        let warm_up = || total().take(5).chain([5.0; 100]);
        assert!(!warned(warm_up()));
        assert!(!warned([]));
    }
}
