//! Whether the numbers read as levels are rather a running total.

use super::StdoutKind;
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

    /// What to say of them where they were read as `kind`.
    pub(super) fn warning(&self, kind: StdoutKind) -> Option<Warning> {
        let (from, to) = self.ends?;
        let total = kind == StdoutKind::Value && self.rises >= RISES && self.falls == 0;
        total.then_some(Warning::ReadTotalAsValue { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(numbers: impl IntoIterator<Item = f64>, kind: StdoutKind) -> bool {
        let mut growth = Growth::default();
        for number in numbers {
            growth.push(number);
        }
        growth.warning(kind).is_some()
    }

    #[test]
    fn what_only_grows_is_a_total() {
        let total = || (1..=9).map(f64::from);
        assert!(warned(total(), StdoutKind::Value));
        assert!(!warned(total(), StdoutKind::Rate));
        assert!(!warned(total().take(8), StdoutKind::Value), "too few");
        // Looked at more often than it changes.
        assert!(warned(total().flat_map(|it| [it, it]), StdoutKind::Value));
        // Levels that rise, and fall or stay.
        assert!(!warned(total().chain([8.5]), StdoutKind::Value));
        let warm_up = || total().take(5).chain([5.0; 100]);
        assert!(!warned(warm_up(), StdoutKind::Value));
        assert!(!warned([], StdoutKind::Value));
    }
}
