//! What applications on one machine are expected to do to each other.

use super::colocation::Expected;
use super::colocation::performance;
use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::lanes::resource_id;
use super::responses::Responses;
use serde::Serialize;

/// One of the applications that share a machine.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub name: &'a str,
    /// Two instances of one application hold the same reference: what is wrong
    /// about one is then wrong about the other in the same way.
    pub responses: &'a Responses,
    /// Resources on which it meets the others.
    pub counted: LaneSet,
    /// Fraction of its undisturbed performance that it must keep.
    pub qos: f64,
}

/// What is expected of one application beside the others. Performance is a
/// fraction of the undisturbed level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub name: String,
    pub performance: f64,
    pub ci95: [f64; 2],
    /// Fraction to be kept, and the chance (0–1) that it is.
    pub qos: f64,
    pub chance_of_qos: f64,
    /// Resource id; absent when nothing is expected to cost anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_costly: Option<&'static str>,
    /// Resources on which others are known to press and the effect is known,
    /// costliest first.
    pub resources: Vec<OnResource>,
    /// What would matter and is therefore missing from the product.
    pub not_known: Vec<NotKnown>,
}

/// The share of one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnResource {
    pub resource: &'static str,
    /// Points that the others are known to cause together, held within 100,
    /// and the standard deviation of their sum.
    pub pressure: f64,
    pub pressure_sd: f64,
    pub performance: f64,
    pub ci95: [f64; 2],
}

/// Which half is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gap {
    /// What pressure costs the application itself.
    Tolerated,
    /// What another causes.
    Caused,
}

/// Something that the product leaves out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotKnown {
    pub resource: &'static str,
    /// Whose profile does not say, by place in the list of subjects.
    #[serde(skip)]
    pub subject: usize,
    pub whose: String,
    pub half: Gap,
    pub why: String,
}

/// Performance of every subject beside all the others, in their order.
///
/// Pressures add, and so do the variances of what different applications
/// cause; of instances of one application the standard deviations add. A
/// resource's share is [`performance`] averaged over what the pressure may be
/// (Gauss–Hermite, five points), so that the cap at 100 and the bends of a
/// curve count as far as they are within reach. Where one half is not known,
/// the resource costs nothing in the product, and the prediction says so.
pub fn co_location(subjects: &[Subject]) -> Vec<Prediction> {
    (0..subjects.len())
        .map(|index| beside_the_others(subjects, index))
        .collect()
}

fn beside_the_others(subjects: &[Subject], index: usize) -> Prediction {
    let subject = &subjects[index];
    let (mut resources, mut not_known) = (Vec::new(), Vec::new());
    let mut total = Expected::default();
    for lane in subject.counted.iter() {
        let pressure = pressure_of_others(subjects, index, lane);
        let felt = pressure.points > 0.0 || pressure.sd > 0.0;
        let not_known_of = |subject: usize, half: Gap, why: &str| NotKnown {
            resource: resource_id(lane),
            subject,
            whose: subjects[subject].name.into(),
            half,
            why: why.into(),
        };
        if !subject.responses.known.contains(lane) {
            if felt || !pressure.unknown.is_empty() {
                let why = "its profile does not say what pressure costs it";
                not_known.push(not_known_of(index, Gap::Tolerated, why));
            }
            continue;
        }
        let mut curves = subject.responses.curves.iter();
        let bends = curves.any(|curve| curve.lane() == lane);
        // What nobody can feel need not be known.
        if bends {
            let why = "its profile does not say what it causes";
            let others = pressure.unknown.iter();
            not_known.extend(others.map(|other| not_known_of(*other, Gap::Caused, why)));
        }
        if !felt {
            continue;
        }
        let share = averaged(subject.responses, lane, &pressure);
        total.ln += share.ln;
        total.variance += share.variance;
        resources.push((
            share.ln,
            OnResource {
                resource: resource_id(lane),
                pressure: pressure.points.clamp(0.0, 100.0),
                pressure_sd: pressure.sd,
                performance: share.performance(),
                ci95: share.ci95(),
            },
        ));
    }
    // Stable: among equals the order of the resources.
    resources.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most_costly = resources
        .first()
        .filter(|(ln, _)| *ln < 0.0)
        .map(|(_, share)| share.resource);
    Prediction {
        name: subject.name.into(),
        performance: total.performance(),
        ci95: total.ci95(),
        qos: subject.qos,
        chance_of_qos: f64::from(total.chance_of(subject.qos.ln() as f32)),
        most_costly,
        resources: resources.into_iter().map(|(_, share)| share).collect(),
        not_known,
    }
}

/// A sum of what others cause.
struct Pressure {
    points: f64,
    sd: f64,
    /// Those of whom nothing is known here, each application once.
    unknown: Vec<usize>,
}

fn pressure_of_others(subjects: &[Subject], index: usize, lane: usize) -> Pressure {
    let others = subjects
        .iter()
        .enumerate()
        .filter(|(other, subject)| *other != index && subject.counted.contains(lane));
    let mut unknown: Vec<usize> = Vec::new();
    let mut points = 0.0;
    // Per application: the sum of its instances' standard deviations.
    let mut spreads: Vec<(&Responses, f64)> = Vec::new();
    for (other, subject) in others {
        let responses = subject.responses;
        if !responses.caused_known.contains(lane) {
            if !unknown
                .iter()
                .any(|seen| std::ptr::eq(subjects[*seen].responses, responses))
            {
                unknown.push(other);
            }
            continue;
        }
        points += f64::from(responses.caused[lane]);
        let sd = f64::from(responses.caused_sd[lane]);
        match spreads
            .iter_mut()
            .find(|(seen, _)| std::ptr::eq(*seen, responses))
        {
            Some((_, sum)) => *sum += sd,
            None => spreads.push((responses, sd)),
        }
    }
    let variance: f64 = spreads.iter().map(|(_, sd)| sd * sd).sum();
    Pressure {
        points,
        sd: variance.sqrt(),
        unknown,
    }
}

/// Places, in standard deviations, and weights of five-point Gauss–Hermite
/// quadrature against the normal density.
const PLACES: [(f64, f64); 5] = [
    (-2.856_970_013_872_806, 0.011_257_411_327_720_69),
    (-1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (0.0, 0.533_333_333_333_333_3),
    (1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (2.856_970_013_872_806, 0.011_257_411_327_720_69),
];

/// [`performance`] on `lane` over what the pressure may be: mean and variance
/// of its logarithm.
fn averaged(responses: &Responses, lane: usize, pressure: &Pressure) -> Expected {
    let only: LaneSet = [lane].into_iter().collect();
    let none: Lanes<f32> = [0.0; LANES];
    let at = |points: f64| {
        let mut pressures: Lanes<f32> = [0.0; LANES];
        pressures[lane] = points as f32;
        performance(responses, &pressures, &none, only)
    };
    if pressure.sd == 0.0 {
        return at(pressure.points);
    }
    let (mut mean, mut square) = (0.0f64, 0.0f64);
    for (place, weight) in PLACES {
        let expected = at(pressure.points + place * pressure.sd);
        let ln = f64::from(expected.ln);
        mean += weight * ln;
        square += weight * (ln * ln + f64::from(expected.variance));
    }
    Expected {
        ln: mean.min(0.0) as f32,
        variance: (square - mean * mean).max(0.0) as f32,
    }
}

#[cfg(test)]
mod tests;
