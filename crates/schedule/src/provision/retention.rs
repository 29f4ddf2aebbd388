//! How long an idle instance stays.

use serde::Deserialize;
use serde::Serialize;

/// An idle instance that behaved well is kept for a multiple of what it takes
/// to get one; one that did not goes at once (HCloud, section 8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Multiple of the mean spin-up time.
    pub spin_ups: f64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { spin_ups: 10.0 }
    }
}

impl Retention {
    /// When to release an instance that has been idle since `idle_since`.
    pub fn until(&self, idle_since: f64, mean_spin_up: f64, well_behaved: bool) -> f64 {
        match well_behaved {
            true => idle_since + self.spin_ups * mean_spin_up,
            false => idle_since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_spin_ups_for_those_that_behave() {
        let retention = Retention::default();
        assert_eq!(retention.until(100.0, 16.0, true), 260.0);
        assert_eq!(retention.until(100.0, 16.0, false), 100.0);
    }
}
