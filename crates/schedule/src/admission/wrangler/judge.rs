//! A model on the windows that it did not see.

use super::report::Score;
use super::report::beats;
use super::windows::Window;
use jostle_profile::reading::Reading;

/// Windows of a pair in the last third.
pub(super) const LEAST_TESTED: usize = 10;

/// Windows of one pair, by their place in the order of time.
#[derive(Default)]
pub(super) struct Members {
    pub train: Vec<usize>,
    pub test: Vec<usize>,
}

/// The score of probabilities on the later windows of `members`.
pub(super) fn judge(
    windows: &[Window],
    members: &Members,
    confidence: f64,
    probability: impl Fn(usize) -> f64,
) -> Reading<Score> {
    if members.test.len() < LEAST_TESTED {
        return Reading::unavailable(format!(
            "too little data: {} windows in the later third, {LEAST_TESTED} are needed",
            members.test.len()
        ));
    }
    let slow = members
        .train
        .iter()
        .filter(|row| windows[**row].slow)
        .count();
    let base_rate = slow as f64 / members.train.len().max(1) as f64;
    let tested = members.test.iter();
    let seen: Vec<(f64, bool)> = tested
        .map(|row| (probability(*row), windows[*row].slow))
        .collect();
    Reading::Value(Score::of(&seen, confidence, base_rate))
}

/// Later windows of which a model is right and the more frequent answer of the pair is
/// not, and the other way round: that some pairs are slow more often than others takes
/// no readings to know.
#[derive(Clone, Copy, Default)]
pub(super) struct Contest {
    gained: u32,
    lost: u32,
}

impl std::iter::Sum for Contest {
    fn sum<I: Iterator<Item = Contest>>(all: I) -> Contest {
        all.fold(Contest::default(), |sum, one| Contest {
            gained: sum.gained + one.gained,
            lost: sum.lost + one.lost,
        })
    }
}

impl Contest {
    pub(super) fn of(
        windows: &[Window],
        members: &Members,
        predicted: impl Fn(usize) -> bool,
    ) -> Contest {
        let slow = members.train.iter().filter(|row| windows[**row].slow);
        let usual = 2 * slow.count() > members.train.len();
        let mut contest = Contest::default();
        for row in &members.test {
            let (slow, predicted) = (windows[*row].slow, predicted(*row));
            contest.gained += u32::from(predicted == slow && usual != slow);
            contest.lost += u32::from(predicted != slow && usual == slow);
        }
        contest
    }

    pub(super) fn won(&self) -> bool {
        beats(self.gained, self.lost)
    }
}
