//! What is read off the points of a curve.

use crate::CurvePoint;

/// What a source still keeps of its own performance at the intensity that `caused` is
/// counted from, whatever the QoS asked for.
pub const CAUSED_LINE: f64 = 0.95;
/// Half of the width around the QoS threshold, a fraction of the baseline, in which the
/// interval of performance at full pressure has to lie to be at the line.
const NEAR_THE_LINE: f64 = 0.025;
/// What has to arrive of an intensity of 100 %.
const FULL_PRESSURE: f64 = 90.0;

/// The point at the highest intensity; of several there, the last.
pub fn strongest(curve: &[CurvePoint]) -> Option<&CurvePoint> {
    let points = curve.iter();
    points.max_by(|a, b| a.intensity.total_cmp(&b.intensity))
}

/// The point whose loss is told: at the highest intensity, unless a lower one certainly
/// costs more and the entry is `sensitive`.
pub fn telling(curve: &[CurvePoint], sensitive: Option<bool>) -> Option<&CurvePoint> {
    let last = strongest(curve)?;
    let costlier = curve.iter().filter(|point| point.ci95[1] < last.ci95[0]);
    let costliest = costlier.min_by(|a, b| a.performance.total_cmp(&b.performance));
    Some(match sensitive {
        Some(true) => costliest.unwrap_or(last),
        _ => last,
    })
}

/// Whether full pressure is known to bring performance so close to `threshold`, a fraction
/// of the baseline, that the side hardly matters.
pub fn ends_at_the_line(curve: &[CurvePoint], threshold: f64) -> bool {
    strongest(curve).is_some_and(|point| {
        let near = |performance: f64| (performance - threshold).abs() <= NEAR_THE_LINE;
        point.intensity >= FULL_PRESSURE && point.ci95.into_iter().all(near)
    })
}

/// Whether all of the interval of performance at the highest intensity keeps `threshold`,
/// a fraction of the baseline.
pub fn ends_above(curve: &[CurvePoint], threshold: f64) -> bool {
    strongest(curve).is_some_and(|point| point.ci95[0] >= threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ci95: [f64; 2], intensity: f64) -> CurvePoint {
        CurvePoint {
            intensity,
            requested: None,
            performance: 0.5 * (ci95[0] + ci95[1]),
            ci95,
            windows: 40,
            pressure: None,
        }
    }

    /// A disk reader loses more beside a neighbour that is busy at times than beside one
    /// that always is.
    #[test]
    fn a_lower_intensity_that_costs_more_is_told() {
        let mut curve = vec![point([0.88, 0.90], 40.0), point([1.01, 1.03], 100.0)];
        let told = |curve: &[CurvePoint], sensitive| telling(curve, sensitive).unwrap().intensity;
        assert_eq!(told(&curve, None), 100.0);
        assert_eq!(told(&curve, Some(true)), 40.0);
        // Not certainly more.
        curve[1].ci95[0] = 0.89;
        assert_eq!(told(&curve, Some(true)), 100.0);
    }

    #[test]
    fn what_is_known_to_be_near_the_line_is_at_it() {
        let at = |ci95, intensity| ends_at_the_line(&[point(ci95, intensity)], 0.95);
        assert!(at([0.94, 0.97], 100.0));
        assert!(at([0.93, 0.949], 100.0));
        assert!(!at([0.92, 0.97], 100.0));
        // Too little arrived.
        assert!(!at([0.94, 0.97], 74.0));
    }
}
