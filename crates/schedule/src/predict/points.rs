//! Points of a recorded curve, in logarithms.

use super::isotonic::Knot;
use jostle_profile::CurvePoint;
use jostle_statistics::ByNumber;

/// Half of a 95 % interval in standard deviations.
pub(super) const Z95: f64 = 1.96;

/// Least performance that a logarithm is taken of.
pub(super) const FLOOR: f64 = 1e-3;

/// Standard deviation of a belief around `value` whose 95 % interval need not
/// be symmetric: the root mean square of its two directions.
pub(super) fn sd_around(value: f64, [low, high]: [f64; 2]) -> f64 {
    let sides = (value - low).powi(2) + (high - value).powi(2);
    (sides / 2.0).sqrt() / Z95
}

/// The points above intensity 0, ascending, in logarithms.
pub(super) fn sorted(points: &[CurvePoint]) -> Vec<Knot> {
    let log = |performance: f64| performance.max(FLOOR).ln();
    let mut knots: Vec<Knot> = points
        .iter()
        .filter(|point| point.intensity > 0.0)
        .map(|point| {
            let ln = log(point.performance);
            Knot {
                at: point.intensity,
                ln,
                variance: sd_around(ln, point.ci95.map(log)).powi(2),
            }
        })
        .collect();
    knots.sort_by_number(|it| it.at);
    knots
}

/// Above the highest intensity that was measured, at most this much more is
/// assumed to be lost, as a log ratio: half of the performance there.
pub(super) const MOST_BEYOND: f64 = std::f64::consts::LN_2;

/// Undisturbed at 0 by definition. Beyond the last point the mean slope goes
/// on, give or take all that it adds: nobody looked there.
pub(super) fn with_ends(mut knots: Vec<Knot>) -> Vec<Knot> {
    if let Some(last) = knots.last().copied()
        && last.at < 100.0
    {
        let more = (-last.ln * (100.0 - last.at) / last.at).min(MOST_BEYOND);
        knots.push(Knot {
            at: 100.0,
            ln: last.ln - more,
            variance: last.variance + more * more,
        });
    }
    knots.insert(
        0,
        Knot {
            at: 0.0,
            ln: 0.0,
            variance: 0.0,
        },
    );
    knots
}

/// What is believed at `at`, between two knots: on the line between them, with
/// the variance of their errors there and of a curve that falls somewhere
/// between (s(1 − s)/3 of the square of the fall: 0 at the knots, and midway
/// that of a place drawn evenly from between them).
pub(super) fn between(knots: &[Knot], at: f64) -> (f64, f64) {
    let above = knots.partition_point(|knot| knot.at < at);
    let b = knots[above.min(knots.len() - 1)];
    let a = knots[above.min(knots.len() - 1).saturating_sub(1)];
    let share = match b.at > a.at {
        true => ((at - a.at) / (b.at - a.at)).clamp(0.0, 1.0),
        false => 1.0,
    };
    let fall = b.ln - a.ln;
    let errors = (1.0 - share).powi(2) * a.variance + share.powi(2) * b.variance;
    (
        a.ln + share * fall,
        errors + share * (1.0 - share) / 3.0 * fall * fall,
    )
}
