//! How long until reserved resources come free.

use std::collections::VecDeque;

/// Gaps kept.
const KEPT: usize = 128;

/// Fewer gaps say nothing.
const LEAST: usize = 8;

/// The times between releases of resources of one size, as they were seen
/// (HCloud, section 8.4.2 and Figure 8.9b).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Releases {
    last: Option<f64>,
    gaps: VecDeque<f64>,
}

impl Releases {
    /// Something of this size came free at `now`.
    pub fn observe(&mut self, now: f64) {
        if let Some(last) = self.last {
            if self.gaps.len() == KEPT {
                self.gaps.pop_front();
            }
            self.gaps.push_back((now - last).max(0.0));
        }
        self.last = Some(now);
    }

    /// Expected seconds until one with `ahead` others before it has its turn:
    /// so many gaps and one more, each as long as the mean of those seen.
    pub fn expected_wait(&self, ahead: usize) -> Option<f64> {
        let mean = self.gaps.iter().sum::<f64>() / self.gaps.len() as f64;
        self.enough().then(|| mean * (ahead + 1) as f64)
    }

    fn enough(&self) -> bool {
        self.gaps.len() >= LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of gaps of at most `seconds`: the empirical distribution of the
    /// wait of one who is first in line. `None` before enough were seen.
    fn chance_within(releases: &Releases, seconds: f64) -> Option<f64> {
        let short = releases.gaps.iter().filter(|gap| **gap <= seconds).count();
        releases
            .enough()
            .then(|| short as f64 / releases.gaps.len() as f64)
    }
    use rand::RngExt;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    #[test]
    fn gaps_by_hand() {
        let mut releases = Releases::default();
        for at in 0..8 {
            releases.observe(f64::from(at * 10));
        }
        assert_eq!(releases.expected_wait(0), None, "seven gaps");
        releases.observe(110.0);
        // Seven of 10 s and one of 40 s.
        assert_eq!(releases.expected_wait(0), Some(110.0 / 8.0));
        assert_eq!(releases.expected_wait(2), Some(330.0 / 8.0));
        assert_eq!(chance_within(&releases, 10.0), Some(0.875));
    }

    #[test]
    fn the_estimate_holds_for_a_random_stream() {
        // Releases at a rate of 1 in 5 s: the fourth in line waits 20 s.
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut releases = Releases::default();
        let mut now = 0.0;
        for _ in 0..200 {
            now += -5.0 * (1.0 - rng.random::<f64>()).ln();
            releases.observe(now);
        }
        let wait = releases.expected_wait(3).unwrap();
        assert!((wait - 20.0).abs() < 4.0, "{wait}");
        let within = chance_within(&releases, 5.0).unwrap();
        assert!((within - (1.0 - (-1.0f64).exp())).abs() < 0.1, "{within}");
    }
}
