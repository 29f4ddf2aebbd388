//! Values on the 0–1 scale of the windows learned from.

use serde::Deserialize;
use serde::Serialize;

/// How one feature is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scale {
    pub least: f64,
    /// 1 / range; 0 for one that is constant or was never there.
    pub factor: f64,
    /// What stands in for a value that is missing: the mean, scaled.
    pub mean: f64,
}

/// Scales of all features over `rows`; a value that is missing is not a number.
pub(super) fn scales<'a>(rows: impl Iterator<Item = &'a [f32]> + Clone) -> Vec<Scale> {
    let width = rows.clone().next().map_or(0, <[f32]>::len);
    let scale = |at: usize| {
        let values = rows.clone().map(|row| f64::from(row[at]));
        let values = values.filter(|value| value.is_finite());
        let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
            sum += value;
            count += 1;
        }
        let range = most - least;
        if count == 0 || range <= 0.0 || !range.is_finite() {
            let least = if count == 0 { 0.0 } else { least };
            return Scale {
                least,
                factor: 0.0,
                mean: 0.0,
            };
        }
        Scale {
            least,
            factor: 1.0 / range,
            mean: (sum / f64::from(count) - least) / range,
        }
    };
    (0..width).map(scale).collect()
}

/// `values` scaled and held within 0–1; what is missing counts as the mean.
pub(super) fn scaled(scales: &[Scale], values: &[f32]) -> Vec<f64> {
    let one = |(scale, value): (&Scale, &f32)| match value.is_finite() {
        true => ((f64::from(*value) - scale.least) * scale.factor).clamp(0.0, 1.0),
        false => scale.mean,
    };
    scales.iter().zip(values).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_counts_as_the_mean() {
        let rows: [[f32; 3]; 3] = [
            [1.0, f32::NAN, 7.0],
            [3.0, f32::NAN, 7.0],
            [f32::NAN, f32::NAN, 7.0],
        ];
        let scales = scales(rows.iter().map(|row| &row[..]));
        assert_eq!(scaled(&scales, &[2.0, 5.0, 9.0]), [0.5, 0.0, 0.0]);
        assert_eq!(scaled(&scales, &[9.0, f32::NAN, 0.0]), [1.0, 0.0, 0.0]);
        assert_eq!(scaled(&scales, &[f32::NAN; 3]), [0.5, 0.0, 0.0]);
    }
}
