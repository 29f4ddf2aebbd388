//! Means, ranks, and summaries over seeds.

use serde::Serialize;

/// A mean over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    pub mean: f64,
    /// Of the mean; absent for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// Runs that have a value.
    pub runs: usize,
}

impl Mean {
    /// `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Mean> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Mean {
            mean,
            standard_error: (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt()),
            runs: values.len(),
        })
    }
}

/// `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// `values` in ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Nearest rank; 0 of nothing.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// The value in the middle, or the mean of the two there; 0 of nothing.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => 0.0,
        (0, Some(upper)) => (sorted[middle - 1] + upper) / 2.0,
        (_, Some(value)) => *value,
    }
}

/// A figure of one run, which may be absent.
pub(crate) trait Figure {
    fn figure(self) -> Option<f64>;
}

impl Figure for Option<f64> {
    fn figure(self) -> Option<f64> {
        self
    }
}

impl Figure for f64 {
    fn figure(self) -> Option<f64> {
        Some(self)
    }
}

impl Figure for u32 {
    fn figure(self) -> Option<f64> {
        Some(f64::from(self))
    }
}

impl Figure for usize {
    fn figure(self) -> Option<f64> {
        Some(self as f64)
    }
}

/// A struct with the [`Mean`] over seeds of each figure listed, and `all`, which
/// makes one for each element of a list that every outcome has.
macro_rules! summary {
    (
        $(#[$doc:meta])*
        $name:ident of $outcome:ident.$list:ident by $($id:ident: $kind:ty),*;
        $($figure:ident),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct $name {
            $(pub $id: $kind,)*
            $(pub $figure: Option<Mean>,)*
        }

        impl $name {
            /// In the order of the first outcome; all outcomes are of one
            /// scenario.
            pub fn all(outcomes: &[$outcome]) -> Vec<Self> {
                let Some(first) = outcomes.first() else {
                    return Vec::new();
                };
                let one = |at: usize| {
                    let runs = || outcomes.iter().filter_map(|outcome| outcome.$list.get(at));
                    $name {
                        $($id: first.$list[at].$id,)*
                        $($figure: Mean::of(runs().filter_map(|run| run.$figure.figure())),)*
                    }
                };
                (0..first.$list.len()).map(one).collect()
            }
        }
    };
}
pub(crate) use summary;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_by_hand() {
        assert_eq!(Mean::of([]), None);
        let one = Mean::of([3.0]).unwrap();
        assert_eq!((one.mean, one.standard_error, one.runs), (3.0, None, 1));
        // Squares add up to 8.
        let four = Mean::of([1.0, 3.0, 3.0, 5.0]).unwrap();
        assert_eq!(four.mean, 3.0);
        let error = (8.0_f64 / 3.0 / 4.0).sqrt();
        assert!((four.standard_error.unwrap() - error).abs() < 1e-12);
    }

    #[test]
    fn medians_and_ranks() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 9.0], 0.5), 2.0);
        assert_eq!(mean([].into_iter()), None);
    }
}
