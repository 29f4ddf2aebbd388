//! From a profile's entries to tables.

use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::lanes::lane;
use super::responses::Curve;
use super::responses::GRID;
use super::responses::GRID_STEP;
use super::responses::Responses;
use crate::profile::CurvePoint;
use crate::profile::Profile;
use crate::profile::ResourceEntry;
use crate::profile::Score;

/// Half of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;

/// Least performance that a logarithm is taken of.
const FLOOR: f64 = 1e-3;

impl Responses {
    /// The tables of a profile. Resources that this version does not know are
    /// left out.
    ///
    /// A measured loss is drawn towards none by as much as its interval allows
    /// (positive-part James–Stein): of eighteen resources that cost nothing,
    /// each measured a percent low by chance, the product would cost a sixth.
    pub fn from_profile(profile: &Profile) -> Self {
        let mut curves = Vec::new();
        let mut flat = LaneSet::EMPTY;
        let mut caused: Lanes<Option<(f32, f32)>> = [None; LANES];
        for (id, entry) in &profile.resources {
            let Some(lane) = lane(id) else { continue };
            match curve_of(lane, entry, profile.qos.threshold) {
                Some(curve) if curve.at(100.0).0 < 0.0 || curve.at(100.0).1 > 0.0 => {
                    curves.push(curve);
                }
                Some(_) => flat.insert(lane),
                None => {}
            }
            caused[lane] = entry
                .caused
                .map(|score| (score.score as f32, sd_of(&score)));
        }
        Responses::new(curves, flat, &caused)
    }
}

fn sd_of(score: &Score) -> f32 {
    ((score.ci95[1] - score.ci95[0]).max(0.0) / (2.0 * Z95)) as f32
}

/// The curve of one entry; `None` when it says nothing of performance.
fn curve_of(lane: usize, entry: &ResourceEntry, qos: f64) -> Option<Curve> {
    // (intensity, ln performance, variance), at 0 by definition undisturbed.
    let mut knots = vec![(0.0, 0.0, 0.0)];
    if entry.curve.is_empty() {
        // No curve: the threshold alone. At t the loss is that of the QoS; from
        // 0 a straight line goes there, and on.
        let score = entry.tolerated?;
        if score.score >= 100.0 {
            knots.push((100.0, 0.0, 0.0));
        } else {
            let slope = qos.ln() / score.score.max(1.0);
            let sd = f64::from(sd_of(&score)) * slope.abs();
            knots.push((score.score.max(1.0), qos.ln(), sd * sd));
            knots.push((100.0, slope * 100.0, sd * sd));
        }
    } else {
        let mut points: Vec<&CurvePoint> = entry.curve.iter().collect();
        points.sort_by(|a, b| a.intensity.total_cmp(&b.intensity));
        for point in points.iter().filter(|point| point.intensity > 0.0) {
            knots.push(knot(point));
        }
        if let [.., last] = knots[..]
            && last.0 < 100.0
        {
            knots.push((100.0, last.1, last.2));
        }
    }
    let mut ln = [0.0f32; GRID];
    let mut variance = [0.0f32; GRID];
    let mut upper = 1;
    for step in 0..GRID {
        let at = f64::from(step as f32 * GRID_STEP);
        while upper + 1 < knots.len() && knots[upper].0 < at {
            upper += 1;
        }
        let (a, b) = (knots[upper - 1], knots[upper]);
        let share = if b.0 > a.0 {
            ((at - a.0) / (b.0 - a.0)).clamp(0.0, 1.0)
        } else {
            1.0
        };
        ln[step] = (a.1 + share * (b.1 - a.1)) as f32;
        variance[step] = (a.2 + share * (b.2 - a.2)) as f32;
    }
    Some(Curve::new(lane, ln, variance))
}

fn knot(point: &CurvePoint) -> (f64, f64, f64) {
    let log = |performance: f64| performance.max(FLOOR).ln();
    let sd = (log(point.ci95[1]) - log(point.ci95[0])).max(0.0) / (2.0 * Z95);
    let (ln, variance) = (log(point.performance).min(0.0), sd * sd);
    let kept = if ln < 0.0 {
        (1.0 - variance / (ln * ln)).max(0.0)
    } else {
        0.0
    };
    (point.intensity, ln * kept, variance)
}
