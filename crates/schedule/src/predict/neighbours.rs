//! What applications on one machine are expected to do to each other.

use super::colocation::performance;
use super::company::CPU;
use super::company::Company;
use super::company::Pressure;
use super::lanes::LaneSet;
use super::lanes::resource_id;
use super::responses::Responses;
use jostle_statistics::ByNumber;
use serde::Serialize;

/// One of the applications that share a machine.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub name: &'a str,
    /// Instances of one application hold the same reference.
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
    pub basis: Basis,
    /// Absent without a basis, as are the interval and the chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Fraction to be kept, and the chance (0–1) that it is.
    pub qos: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_of_qos: Option<f64>,
    /// Resource id; absent when nothing is expected to cost anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_costly: Option<&'static str>,
    /// Resources on which others are expected to press, costliest first.
    pub resources: Vec<OnResource>,
    /// What would matter and is therefore missing from the product.
    pub not_known: Vec<NotKnown>,
}

/// What a prediction rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// At least one curve of the application was measured; what else counts may
    /// come from the population.
    Profile,
    /// Nothing but the population of profiles.
    Population,
    /// Nothing at all.
    None,
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
    /// The curve, or a part of the pressure, is what the population of profiles
    /// has there, as nothing was measured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
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

/// Performance of every subject beside all the others, in their order: that of
/// [`performance`] under what all others press with together, and the interval
/// with what profiles leave unexplained where CPUs are shared or not.
///
/// Pressures add, and so do their variances. Where one direction is not known and
/// the population has nothing either, the resource costs nothing in the product,
/// and the prediction says so.
pub fn co_location(subjects: &[Subject], shares_cpus: bool) -> Vec<Prediction> {
    let members = subjects
        .iter()
        .map(|subject| (subject.responses, subject.counted));
    let company = Company::of(members);
    (0..subjects.len())
        .map(|index| beside_the_others(subjects, &company, index, shares_cpus))
        .collect()
}

fn beside_the_others(
    subjects: &[Subject],
    company: &Company,
    index: usize,
    shares_cpus: bool,
) -> Prediction {
    let subject = &subjects[index];
    let responses = subject.responses;
    let pressure = company.around(responses, subject.counted);
    let mut total = performance(responses, &pressure, subject.counted);
    if subjects.len() > 1 {
        total = total.widened(responses.unexplained[usize::from(shares_cpus)]);
    }
    let basis = basis(responses, subject.counted, subjects.len() > 1);
    let mut resources: Vec<OnResource> = Vec::new();
    for lane in subject.counted.iter() {
        let only: LaneSet = [lane].into_iter().collect();
        let felt = pressure.points[lane] > 0.0 || pressure.variance[lane] > 0.0;
        let taken = lane == CPU && pressure.cpu.is_some();
        let costs = taken || felt && responses.known.contains(lane);
        if !costs {
            continue;
        }
        let share = performance(responses, &pressure, only);
        let others = others(subjects, index, lane);
        resources.push(OnResource {
            resource: resource_id(lane),
            pressure: f64::from(pressure.points[lane]).clamp(0.0, 100.0),
            pressure_sd: f64::from(pressure.variance[lane]).sqrt(),
            performance: share.performance(),
            ci95: share.ci95(),
            assumed: responses.assumed.contains(lane)
                || others
                    .clone()
                    .any(|(_, other)| other.responses.caused_assumed.contains(lane)),
        });
    }
    // Stable: among equals the order of the resources.
    resources.sort_by_number(|it| it.performance);
    let most_costly = resources.first().filter(|share| share.performance < 1.0);
    let grounded = |value: f64| (basis != Basis::None).then_some(value);
    Prediction {
        name: subject.name.into(),
        basis,
        performance: grounded(total.performance()),
        ci95: (basis != Basis::None).then(|| total.ci95()),
        qos: subject.qos,
        chance_of_qos: grounded(f64::from(total.chance_of(subject.qos.ln() as f32))),
        most_costly: most_costly.map(|share| share.resource),
        not_known: not_known(subjects, index, &pressure),
        resources,
    }
}

fn basis(responses: &Responses, counted: LaneSet, neighbours: bool) -> Basis {
    let on_cpu = responses.cpu.is_some() && counted.contains(CPU);
    let known = responses.known.and(counted);
    if !neighbours || !known.without(responses.assumed).is_empty() {
        return Basis::Profile;
    }
    match known.is_empty() && !on_cpu {
        true => Basis::None,
        false => Basis::Population,
    }
}

/// All but the one at `index` that meet others on `lane`, by place.
fn others<'a, 'b>(
    subjects: &'b [Subject<'a>],
    index: usize,
    lane: usize,
) -> impl Iterator<Item = (usize, &'b Subject<'a>)> + Clone {
    let all = subjects.iter().enumerate();
    all.filter(move |(other, subject)| *other != index && subject.counted.contains(lane))
}

/// What is missing from the product and would matter.
fn not_known(subjects: &[Subject], index: usize, pressure: &Pressure) -> Vec<NotKnown> {
    let responses = subjects[index].responses;
    let mut missing = Vec::new();
    for lane in subjects[index].counted.iter() {
        if lane == CPU && pressure.cpu.is_some() {
            continue;
        }
        let gap = |subject: usize, half: Gap, why: &str| NotKnown {
            resource: resource_id(lane),
            subject,
            whose: subjects[subject].name.into(),
            half,
            why: why.into(),
        };
        let mut unknown: Vec<usize> = Vec::new();
        for (other, subject) in others(subjects, index, lane) {
            let seen = |seen: &usize| std::ptr::eq(subjects[*seen].responses, subject.responses);
            if !subject.responses.caused_known.contains(lane) && !unknown.iter().any(seen) {
                unknown.push(other);
            }
        }
        if !responses.known.contains(lane) {
            if pressure.points[lane] > 0.0 || pressure.variance[lane] > 0.0 || !unknown.is_empty() {
                let why = "its profile does not say what pressure costs it";
                missing.push(gap(index, Gap::Tolerated, why));
            }
        } else if responses.curves.iter().any(|curve| curve.lane() == lane) {
            // What nobody can feel need not be known.
            let why = "its profile does not say what it causes";
            missing.extend(unknown.iter().map(|other| gap(*other, Gap::Caused, why)));
        }
    }
    missing
}

#[cfg(test)]
mod tests;
