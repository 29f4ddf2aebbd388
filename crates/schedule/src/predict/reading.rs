//! From a profile's entries to tables.
//!
//! Nothing becomes a point that was measured as an interval: a curve carries
//! the variance of its points and, between them, that of not having looked; an
//! entry of which only a threshold is known is as wide as its interval, and one
//! that is inferred never narrower than [`INFERRED_SD`]. An unresolved entry has
//! scores with wide intervals, or none; a curve then still tells what it can.
//! An entry without numbers is not known.
//!
//! Performance in a curve is a fraction of the undisturbed level whichever way
//! the metric is better, so that the direction does not matter here.

use super::isotonic::Knot;
use super::isotonic::falling;
use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::lanes::lane;
use super::responses::Curve;
use super::responses::GRID;
use super::responses::GRID_STEP;
use super::responses::Responses;
use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;

/// Half of a 95 % interval in standard deviations.
const Z95: f64 = 1.96;

/// Least performance that a logarithm is taken of.
const FLOOR: f64 = 1e-3;

/// Least standard deviation of a caused pressure, in points, when measured: a
/// score of 0 ± 0 says only that the source kept 95 % of its own beside it.
const MEASURED_SD: f64 = 1.0;

/// The same when not measured as such: inferred, or read from a curve without a
/// verdict. Classification from a few measured resources misses a score by
/// about as much (Paragon reports 5.3 %).
const INFERRED_SD: f64 = 5.0;

/// What a source must keep of its own beside the application for the pressure
/// caused to count as 0 (see [`ResourceEntry::caused`]).
const SOURCE_KEEPS: f64 = 0.95;

/// Where nothing was measured, at most this much more is believed lost by
/// pressing on to 100: a half.
const MOST_BEYOND: f64 = std::f64::consts::LN_2;

impl Responses {
    /// The tables of a profile. Resources that this version does not know are
    /// left out.
    ///
    /// A measured loss is drawn towards none by as much as its interval allows
    /// (positive-part James–Stein): of eighteen resources that cost nothing,
    /// each measured a percent low by chance, the product would cost a sixth.
    ///
    /// The pressure caused is the entry's `equivalent_intensity` where there is
    /// one: sensitivity curves run over the intensity of the source, and that
    /// is the intensity at which the source presses as the application does.
    /// `caused` says at which intensity the source starts to suffer, stands in
    /// where no equivalent was found, and errs high for a source that suffers
    /// early; where it has no score either but the source was watched, the
    /// crossing is read from `probe_curve` with the width of where it may lie.
    pub fn from_profile(profile: &Profile) -> Self {
        let mut curves = Vec::new();
        let mut flat = LaneSet::EMPTY;
        let mut caused: Lanes<Option<(f32, f32)>> = [None; LANES];
        for (id, entry) in &profile.resources {
            let Some(lane) = lane(id) else { continue };
            match curve_of(lane, entry, profile.qos.threshold) {
                Some(curve) if curve.costs_nothing() => flat.insert(lane),
                Some(curve) => curves.push(curve),
                None => {}
            }
            caused[lane] = caused_of(entry).map(|(points, sd)| (points as f32, sd as f32));
        }
        Responses::new(curves, flat, &caused)
    }
}

/// Standard deviation of a belief around `value` whose 95 % interval need not
/// be symmetric: the root mean square of its two halves.
fn sd_around(value: f64, [low, high]: [f64; 2]) -> f64 {
    let halves = (value - low).powi(2) + (high - value).powi(2);
    (halves / 2.0).sqrt() / Z95
}

fn least_sd(status: Status) -> f64 {
    match status {
        Status::Inferred => INFERRED_SD,
        _ => MEASURED_SD,
    }
}

/// The curve of one entry; `None` when it says nothing of performance.
fn curve_of(lane: usize, entry: &ResourceEntry, qos: f64) -> Option<Curve> {
    let measured = falling(&sorted(&entry.curve));
    let knots = if measured.is_empty() {
        from_threshold(&entry.tolerated?, entry.status, qos)
    } else {
        shrunk(measured)
    };
    Some(table(lane, &with_ends(knots)))
}

/// The points above intensity 0, ascending, in logarithms.
fn sorted(points: &[CurvePoint]) -> Vec<Knot> {
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
    knots.sort_by(|a, b| a.at.total_cmp(&b.at));
    knots
}

/// The whole curve drawn towards none by what its surest loss leaves open:
/// where a loss at 100 is certain, a small one at 20 is no accident.
fn shrunk(mut knots: Vec<Knot>) -> Vec<Knot> {
    let surest = knots
        .iter()
        .map(|knot| knot.variance / (knot.ln * knot.ln))
        .filter(|open| !open.is_nan())
        .fold(f64::INFINITY, f64::min);
    let kept = (1.0 - surest).max(0.0);
    for knot in &mut knots {
        knot.ln *= kept;
    }
    knots
}

/// No curve: at `t` the loss is that of the QoS, and from 0 a straight line
/// goes there; how far off `t` may be is how far off the line may be.
fn from_threshold(tolerated: &Score, status: Status, qos: f64) -> Vec<Knot> {
    let loss = -qos.ln().min(-0.01);
    let spread = least_sd(status) * Z95;
    let low = tolerated.ci95[0].min(tolerated.score - spread).max(1.0);
    let high = tolerated.ci95[1].max(tolerated.score + spread);
    let at = tolerated.score.max(1.0);
    // The loss at `at` if the line reached that of the QoS at `low`, at `high`.
    let most = (loss * at / low).min(loss + MOST_BEYOND);
    if tolerated.score >= 100.0 {
        // Never violated: something between nothing and, hardly, `most`.
        return vec![Knot {
            at: 100.0,
            ln: 0.0,
            variance: (most / Z95).powi(2),
        }];
    }
    let least = loss * at / high.max(at);
    vec![Knot {
        at,
        ln: -loss,
        variance: sd_around(loss, [least, most]).powi(2),
    }]
}

/// Undisturbed at 0 by definition. Beyond the last point the mean slope goes
/// on, give or take all that it adds: nobody looked there.
fn with_ends(mut knots: Vec<Knot>) -> Vec<Knot> {
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
fn between(knots: &[Knot], at: f64) -> (f64, f64) {
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

fn table(lane: usize, knots: &[Knot]) -> Curve {
    let on_grid: [(f64, f64); GRID] =
        std::array::from_fn(|step| between(knots, f64::from(step as f32 * GRID_STEP)));
    let (ln, variance) = (on_grid.map(|(ln, _)| ln), on_grid.map(|(_, spread)| spread));
    Curve::new(
        lane,
        ln.map(|ln| ln as f32),
        variance.map(|spread| spread as f32),
    )
}

/// Points of pressure and their standard deviation; `None` when nothing is
/// known.
fn caused_of(entry: &ResourceEntry) -> Option<(f64, f64)> {
    let mut least = least_sd(entry.status);
    let from_score = entry
        .caused
        .map(|score| (score.score, sd_around(score.score, score.ci95)));
    let probe = sorted(&entry.probe_curve);
    let (points, sd) = if let Some(equivalent) = entry.equivalent_intensity {
        // The source's loss at 100 was matched: its relative error is ours.
        let sd = match probe.last() {
            Some(last) if last.ln < 0.0 => equivalent * last.variance.sqrt() / -last.ln,
            _ => from_score.map_or(2.0 * INFERRED_SD, |(_, sd)| sd),
        };
        (equivalent, sd)
    } else if let Some(score) = from_score {
        score
    } else {
        least = INFERRED_SD;
        from_probe(&probe)?
    };
    // Evenly anywhere on the scale is as little as one can know.
    Some((points, sd.clamp(least, 100.0 / 12f64.sqrt())))
}

/// `100 −` the intensity at which the source keeps [`SOURCE_KEEPS`] of its own,
/// from what it kept beside the application; as wide as the points' errors and
/// the gap between the points around the crossing make it.
fn from_probe(probe: &[Knot]) -> Option<(f64, f64)> {
    let fitted = falling(probe);
    fitted.last()?;
    let crossing = |z: f64| {
        let moved: Vec<Knot> = fitted
            .iter()
            .map(|knot| Knot {
                ln: knot.ln + z * knot.variance.sqrt(),
                ..*knot
            })
            .collect();
        crossing(&with_ends(falling(&moved)))
    };
    let (at, unseen) = crossing(0.0);
    let errors = sd_around(at, [crossing(-Z95).0, crossing(Z95).0]);
    Some((100.0 - at, errors.hypot(unseen)))
}

/// Where the line through `knots` falls to [`SOURCE_KEEPS`], and the standard
/// deviation of that place for not having looked between the knots around it
/// (as [`between`], across instead of down); 100 and 0 when it does not fall
/// so far.
fn crossing(knots: &[Knot]) -> (f64, f64) {
    let level = SOURCE_KEEPS.ln();
    for pair in knots.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if b.ln < level {
            let share = ((a.ln - level) / (a.ln - b.ln)).clamp(0.0, 1.0);
            let gap = b.at - a.at;
            return (
                a.at + share * gap,
                gap * (share * (1.0 - share) / 3.0).sqrt(),
            );
        }
    }
    (100.0, 0.0)
}

#[cfg(test)]
mod tests;
