//! Means over seeds.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(Mean::of([]), None);
        let one = Mean::of([3.0]).unwrap();
        assert_eq!((one.mean, one.standard_error, one.runs), (3.0, None, 1));
        // Squares add up to 8.
        let four = Mean::of([1.0, 3.0, 3.0, 5.0]).unwrap();
        assert_eq!(four.mean, 3.0);
        let error = (8.0_f64 / 3.0 / 4.0).sqrt();
        assert!((four.standard_error.unwrap() - error).abs() < 1e-12);
    }
}
