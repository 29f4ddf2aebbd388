//! Counts of whole runs of a command.

/// What was counted in whole runs of a command: that it is the same in each
/// shows that it tells how far a run has got.
#[derive(Default)]
pub(super) struct PerRun {
    /// Runs that had ended when the present one was seen to begin, and what had
    /// been counted.
    begun: Option<(u64, u64)>,
    counts: Vec<u64>,
}

impl PerRun {
    /// Another run was begun; `ended` runs have ended by themselves.
    pub(super) fn next(&mut self, ended: u64, total: u64) {
        if let Some((before, from)) = self.begun.replace((ended, total))
            && ended == before + 1
        {
            self.counts.push(total.saturating_sub(from));
        }
    }

    /// Mean and relative standard deviation of the counts, in words.
    pub(super) fn words(&self) -> Option<String> {
        let runs = self.counts.len() as f64;
        let mean = self.counts.iter().sum::<u64>() as f64 / runs;
        let squares = self
            .counts
            .iter()
            .map(|count| (*count as f64 - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (runs - 1.0)).sqrt() / mean;
        (runs >= 2.0 && mean > 0.0).then(|| {
            format!(
                "; {runs} whole runs had {mean:.0} calls each, with a standard deviation of {:.1} %",
                deviation * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_whole_runs_are_compared() {
        let mut runs = PerRun::default();
        assert_eq!(runs.words(), None);
        // The run that was under way when counting began is none.
        runs.next(1, 70);
        runs.next(2, 170);
        assert_eq!(runs.words(), None);
        runs.next(3, 280);
        // One that was ended early is none either.
        runs.next(3, 290);
        runs.next(4, 380);
        assert_eq!(runs.counts, [100, 110, 90]);
        let words = runs.words().unwrap();
        assert!(words.contains("3 whole runs had 100 calls each"), "{words}");
        assert!(words.contains("10.0 %"), "{words}");
    }
}
