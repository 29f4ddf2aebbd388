//! Numbers of a profile that are compared, or why there is none.

use crate::change::Quantity;
use crate::spread::Spread;
use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::reading::Reading;
use jostle_statistics::Known;

/// Fewest degrees of freedom that an interval is taken to rest on.
const LEAST_FREEDOM: f64 = 3.0;
/// Points at most so far apart are of one intensity, percent.
const SAME_INTENSITY: f64 = 5.0;
/// Between points further apart than this nothing is interpolated, percent.
const WIDEST_GAP: f64 = 25.0;

/// A profile and what its intervals leave out.
pub struct Subject<'a> {
    pub profile: &'a Profile,
    spread: Spread,
}

impl<'a> Subject<'a> {
    pub fn new(profile: &'a Profile) -> Self {
        Subject {
            profile,
            spread: Spread::of(profile),
        }
    }
}

/// A number of one resource; losses need both profiles, see [`losses`].
pub fn number(subject: &Subject, id: &str, quantity: Quantity) -> Result<Known, String> {
    let entry = entry(subject.profile, id)?;
    let (score, curve) = match quantity {
        Quantity::Tolerated => (entry.tolerated, &entry.curve),
        Quantity::Caused => (entry.caused, &entry.probe_curve),
        Quantity::Use => return used(subject, id),
        Quantity::Loss => {
            let top = strongest(&entry.curve).ok_or("it has no curve")?;
            return Ok(loss(subject, id, top));
        }
    };
    let Score { score, ci95 } = score.ok_or_else(|| why_open(entry, quantity))?;
    let windows: u64 = curve.iter().map(|point| point.windows).sum();
    let tolerated = match quantity {
        // What the source tolerates of the target.
        Quantity::Caused => 100.0 - score,
        _ => score,
    };
    Ok(Known {
        value: score,
        ci95,
        freedom: freedom(windows),
        spread: subject.spread.of_score(id, tolerated, curve),
    })
}

/// The losses of two profiles at the highest intensity that both have, and that
/// intensity.
pub fn losses(old: &Subject, new: &Subject, id: &str) -> Result<(f64, [Known; 2]), String> {
    let curves = [entry(old.profile, id)?, entry(new.profile, id)?].map(|entry| &entry.curve);
    let tops = [strongest(curves[0]), strongest(curves[1])];
    let [Some(old_top), Some(new_top)] = tops else {
        return Err("one of the profiles has no curve of it".into());
    };
    let level = old_top.intensity.min(new_top.intensity);
    let at = |curve: &[CurvePoint]| {
        at_intensity(curve, level).ok_or_else(|| {
            format!(
                "measured at {:.0} % in the old profile and {:.0} % in the new one",
                old_top.intensity, new_top.intensity
            )
        })
    };
    let points = [at(curves[0])?, at(curves[1])?];
    Ok((
        level,
        [loss(old, id, &points[0]), loss(new, id, &points[1])],
    ))
}

fn entry<'a>(profile: &'a Profile, id: &str) -> Result<&'a ResourceEntry, String> {
    let entry = profile
        .resources
        .get(id)
        .ok_or("one of the profiles lacks it")?;
    let without = |what: &str| {
        let reason = entry.reason.as_deref();
        reason.map_or(what.to_string(), |reason| format!("{what}: {reason}"))
    };
    match (entry.status, &entry.inferred) {
        (Status::NotShared, _) => Err(without("not shared")),
        (Status::Unavailable, _) => Err(without("unavailable")),
        (Status::Inferred, _) | (_, Some(_)) => {
            Err("inferred from other applications, not measured".into())
        }
        _ => Ok(entry),
    }
}

fn why_open(entry: &ResourceEntry, quantity: Quantity) -> String {
    match (&entry.reason, quantity) {
        (Some(reason), _) => reason.clone(),
        (None, quantity) => {
            format!("how much is {quantity} was not resolved in one of the profiles")
        }
    }
}

fn freedom(windows: u64) -> f64 {
    (windows as f64 - 1.0).max(LEAST_FREEDOM)
}

fn strongest(curve: &[CurvePoint]) -> Option<&CurvePoint> {
    let order = |a: &&CurvePoint, b: &&CurvePoint| {
        let windows = a.windows.cmp(&b.windows);
        a.intensity.total_cmp(&b.intensity).then(windows)
    };
    curve.iter().max_by(order)
}

/// The point of `curve` at `level`, between two where there is none.
fn at_intensity(curve: &[CurvePoint], level: f64) -> Option<CurvePoint> {
    let near = curve
        .iter()
        .filter(|point| (point.intensity - level).abs() <= SAME_INTENSITY);
    if let Some(point) = near.max_by_key(|point| point.windows) {
        return Some(point.clone());
    }
    let intensity = |a: &&CurvePoint, b: &&CurvePoint| a.intensity.total_cmp(&b.intensity);
    let below = curve
        .iter()
        .filter(|point| point.intensity < level)
        .max_by(intensity)?;
    let above = curve
        .iter()
        .filter(|point| point.intensity > level)
        .min_by(intensity)?;
    let gap = above.intensity - below.intensity;
    if gap > WIDEST_GAP {
        return None;
    }
    let share = (level - below.intensity) / gap;
    let between = |low: f64, high: f64| low + share * (high - low);
    Some(CurvePoint {
        intensity: level,
        requested: None,
        performance: between(below.performance, above.performance),
        ci95: [0, 1].map(|end| between(below.ci95[end], above.ci95[end])),
        pressure: None,
        windows: below.windows.min(above.windows),
    })
}

fn loss(subject: &Subject, id: &str, point: &CurvePoint) -> Known {
    let percent = |performance: f64| 100.0 * (1.0 - performance);
    let value = percent(point.performance);
    Known {
        value,
        ci95: [percent(point.ci95[1]), percent(point.ci95[0])],
        freedom: freedom(point.windows),
        spread: subject.spread.of_loss(id, value),
    }
}

/// Share of the peak of a resource that is used; of several quantities the
/// largest, as of bytes read and written.
fn used(subject: &Subject, id: &str) -> Result<Known, String> {
    let usage = subject
        .profile
        .usage
        .as_ref()
        .ok_or("one of the profiles does not say what is used")?;
    let of_it = usage.quantities.values().filter_map(Reading::value);
    let of_it = of_it.filter(|quantity| quantity.resource.as_deref() == Some(id));
    let mut reason = "what is used of it cannot be read";
    let mut most: Option<Known> = None;
    for quantity in of_it {
        match &quantity.share {
            Reading::Value(share) if most.is_none_or(|it| share.percent > it.value) => {
                most = Some(Known {
                    value: share.percent,
                    ci95: share.ci95,
                    freedom: freedom(usage.parts),
                    spread: subject.spread.of_use(share.percent),
                });
            }
            Reading::Value(_) => {}
            Reading::Unavailable { unavailable } => reason = unavailable,
        }
    }
    most.ok_or_else(|| reason.to_string())
}
