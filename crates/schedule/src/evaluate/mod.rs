//! How well predictions hold on recorded co-locations.
//!
//! Every group is predicted with nothing learned from its own applications: the
//! population that fills in what a profile leaves open, the mean of recorded
//! pairs and the learned correction are those of all the others.

mod correction;
mod methods;
mod scores;

pub use correction::Correction;
pub use methods::Method;
pub use scores::Errors;
pub use scores::Scores;

use crate::app::App;
use crate::predict::Company;
use crate::predict::LaneSet;
use crate::predict::Population;
use crate::predict::Pressure;
use crate::predict::Residual;
use crate::predict::ResidualSpread;
use crate::predict::Sample;
use crate::predict::performance;
use crate::predict::resource_id;
use correction::Observation;
use jostle_profile::Profile;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::pairs::Member;
use jostle_profile::pairs::Pairs;
use jostle_profile::pairs::Performance;
use jostle_statistics::ByNumber;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

/// One recorded performance beside others, and what each method says of it.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    #[serde(skip)]
    pub placement: GroupPlacement,
    pub app: String,
    pub beside: Vec<String>,
    /// Fraction of the speed apart, with its 95 % interval.
    pub measured: f64,
    pub measured_ci95: [f64; 2],
    /// By method; absent where a method says nothing here.
    pub predicted: BTreeMap<&'static str, f64>,
    /// Interval of the default method.
    pub ci95: [f64; 2],
    /// Resources that the default method expects to cost most: id and loss in
    /// points.
    pub why: Vec<(&'static str, f64)>,
}

/// All cases of one placement.
#[derive(Clone, Debug, Serialize)]
pub struct Placement {
    pub placement: GroupPlacement,
    pub cases: Vec<Case>,
    pub methods: Vec<(Method, Scores)>,
    /// How far a second measurement of a group is from its first; absent where none was
    /// measured twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Scores>,
    /// The default method against the mean of all measurements of a performance; absent as
    /// above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub averaged: Option<Scores>,
}

impl Population {
    /// Takes over what predictions left unexplained of recorded co-locations.
    pub fn learn_unexplained(&mut self, evaluation: &Evaluation) {
        let of = |placement: GroupPlacement| evaluation.unexplained.get(placement.name());
        if let Some(rest) = of(GroupPlacement::SameCpu) {
            self.unexplained.same_cpu = *rest;
        }
        let own = of(GroupPlacement::OwnCpus).or_else(|| of(GroupPlacement::SameLlc));
        if let Some(rest) = own {
            self.unexplained.own_cpus = *rest;
        }
    }
}

/// What was evaluated, and what had to be left out.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    pub placements: Vec<Placement>,
    /// Sentences.
    pub left_out: Vec<String>,
    /// What the default method leaves unexplained, by placement.
    pub unexplained: BTreeMap<String, ResidualSpread>,
}

/// A profile by the name that pairs use for it.
pub struct Known<'a> {
    pub name: String,
    pub profile: &'a Profile,
}

struct Prepared<'a> {
    known: &'a Known<'a>,
    sample: Sample,
}

/// A group of which at least one performance is known.
struct Observed<'a> {
    placement: GroupPlacement,
    members: Vec<&'a Prepared<'a>>,
    measured: Vec<Option<(f64, [f64; 2])>>,
    /// By member: whether its CPUs serve the machine's disks; `None` where the
    /// recording does not say.
    serving: Option<Vec<bool>>,
}

/// Predicts every group of `pairs` from `profiles`.
pub fn evaluate(pairs: &Pairs, profiles: &[Known]) -> Evaluation {
    let prepared: Vec<Prepared> = profiles
        .iter()
        .map(|known| Prepared {
            known,
            sample: Sample::of(known.profile),
        })
        .collect();
    let (observed, left_out) = observed(pairs, &prepared);
    let mut evaluation = Evaluation {
        placements: Vec::new(),
        left_out,
        unexplained: BTreeMap::new(),
    };
    for placement in GroupPlacement::ALL {
        let groups: Vec<&Observed> = observed
            .iter()
            .filter(|group| group.placement == placement)
            .collect();
        if groups.is_empty() {
            continue;
        }
        let (cases, unexplained) = cases(placement, &groups, &prepared);
        let methods = Method::ALL
            .iter()
            .filter_map(|method| Some((*method, Scores::of(*method, &cases)?)))
            .collect();
        let name = placement.name().to_string();
        evaluation.unexplained.insert(name, unexplained);
        let repeated = Scores::of_pairs(&repeated(&groups));
        evaluation.placements.push(Placement {
            placement,
            averaged: repeated.and_then(|_| Scores::of(Method::DEFAULT, &averaged(&cases))),
            cases,
            methods,
            repeated,
        });
    }
    evaluation
}

/// Half-width of the interval of a measured performance from which on it judges no
/// prediction: what is learned of it is the noise.
const COARSE: f64 = 0.1;

fn half_width(performance: &Performance) -> f64 {
    let [low, high] = performance.ci95;
    (high - low) / 2.0
}

/// The groups that can be judged, and why the others cannot.
fn observed<'a>(pairs: &Pairs, prepared: &'a [Prepared<'a>]) -> (Vec<Observed<'a>>, Vec<String>) {
    let (mut observed, mut left_out) = (Vec::new(), BTreeSet::new());
    // Performances of each application that were measured badly.
    let mut coarse: BTreeMap<&str, usize> = BTreeMap::new();
    for group in &pairs.groups {
        let names: Vec<&str> = group
            .members
            .iter()
            .map(|member| member.app.as_str())
            .collect();
        if let Some(sharing) = group
            .cache_sharing
            .filter(|sharing| !sharing.of_shared_time)
        {
            left_out.insert(format!(
                "{}: they shared a last-level cache for {:.0} % of the time",
                names.join(" + "),
                sharing.shared_percent
            ));
            continue;
        }
        let found = |name: &&str| {
            prepared
                .iter()
                .find(|one| one.known.name == instance_of(name))
        };
        let members: Option<Vec<&Prepared>> = names.iter().map(found).collect();
        let Some(members) = members else {
            for name in names.iter().filter(|name| found(name).is_none()) {
                left_out.insert(format!("{name}: no profile of that name"));
            }
            continue;
        };
        let mut measured = Vec::new();
        for member in &group.members {
            measured.push(match member.performance.value() {
                Some(performance) if half_width(performance) > COARSE => {
                    *coarse.entry(member.app.as_str()).or_insert(0) += 1;
                    None
                }
                Some(performance) => Some((performance.value, performance.ci95)),
                None => {
                    let why = member.performance.reason().unwrap_or("unknown");
                    left_out.insert(format!("{} in {}: {why}", member.app, names.join(" + ")));
                    None
                }
            });
        }
        let serving = group.disk_interrupt_cpus.as_ref().map(|serving| {
            let here = |member: &Member| member.cpus.iter().any(|cpu| serving.contains(cpu));
            group.members.iter().map(here).collect()
        });
        observed.push(Observed {
            serving,
            placement: group.placement,
            members,
            measured,
        });
    }
    let mut left_out: Vec<String> = left_out.into_iter().collect();
    if !coarse.is_empty() {
        let mut of: Vec<(usize, &str)> = coarse.into_iter().map(|(app, n)| (n, app)).collect();
        of.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let each: Vec<String> = of.iter().map(|(n, app)| format!("{app} {n}")).collect();
        left_out.push(format!(
            "measured to ± {:.0} points or worse, {} in all: {}",
            100.0 * COARSE,
            of.iter().map(|(n, _)| n).sum::<usize>(),
            each.join(", ")
        ));
    }
    (observed, left_out)
}

/// First and later measurements of the same members in the same roles.
fn repeated(groups: &[&Observed]) -> Vec<(f64, f64)> {
    let mut first: BTreeMap<Vec<&str>, &Observed> = BTreeMap::new();
    let mut both = Vec::new();
    for group in groups {
        let names = group
            .members
            .iter()
            .map(|member| member.known.name.as_str());
        let of_both = match first.entry(names.collect()) {
            Entry::Vacant(entry) => {
                entry.insert(group);
                continue;
            }
            Entry::Occupied(entry) => entry.get().measured.iter().zip(&group.measured),
        };
        both.extend(of_both.filter_map(|(a, b)| Some((a.as_ref()?.0, b.as_ref()?.0))));
    }
    both
}

/// One case for each performance, with the mean of all that was measured of it.
fn averaged(cases: &[Case]) -> Vec<Case> {
    let mut of: BTreeMap<(&str, &[String]), Vec<&Case>> = BTreeMap::new();
    for case in cases {
        of.entry((&case.app, &case.beside)).or_default().push(case);
    }
    let all = of.into_values();
    all.map(|same| Case {
        measured: same.iter().map(|case| case.measured).sum::<f64>() / same.len() as f64,
        ..same[0].clone()
    })
    .collect()
}

/// The application that `name` is an instance of: `gzip` of `gzip#2`.
fn instance_of(name: &str) -> &str {
    name.split('#').next().unwrap_or(name).trim_end()
}

/// Two profiles of one application: by name, by workload, or by the first word
/// of the name (`redis-p99` and `redis-throughput`).
fn same_application(a: &Known, b: &Known) -> bool {
    let first = |name: &str| name.split('-').next().map(str::to_string);
    a.name == b.name
        || a.profile.workload.name == b.profile.workload.name
        || first(&a.name) == first(&b.name)
}

impl Observed<'_> {
    fn holds(&self, known: &Known) -> bool {
        let mut members = self.members.iter();
        members.any(|member| same_application(member.known, known))
    }

    /// Nothing of `other` is of an application of this group.
    fn apart_from(&self, other: &Observed) -> bool {
        !other.members.iter().any(|member| self.holds(member.known))
    }
}

/// What one member meets, with the tables made without its group.
struct Modelled {
    group: usize,
    member: usize,
    app: App,
    pressure: Pressure,
    counted: LaneSet,
}

/// Every member of every group, and what was left unexplained of all.
fn cases(
    placement: GroupPlacement,
    groups: &[&Observed],
    prepared: &[Prepared],
) -> (Vec<Case>, ResidualSpread) {
    let shares = placement == GroupPlacement::SameCpu;
    let mut modelled = Vec::new();
    let mut observations = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let others = prepared.iter().filter(|one| !group.holds(one.known));
        let population = Population::of_samples(others.map(|one| &one.sample));
        let apps: Vec<App> = group
            .members
            .iter()
            .map(|member| App::completed(member.known.profile, &population))
            .collect();
        let responses = apps
            .iter()
            .map(|app| (app.responses.as_ref(), app.counted(shares)));
        let company = Company::of(responses);
        for (member, app) in apps.into_iter().enumerate() {
            let Some((measured, _)) = group.measured[member] else {
                continue;
            };
            let counted = app.counted(shares);
            let mut pressure = company.around(&app.responses, counted);
            if let Some(serving) = group.serving.as_ref().filter(|_| !shares) {
                pressure.serving = f32::from(u8::from(serving[member]));
            }
            observations.push(Observation {
                group: at,
                parts: Correction::parts(&app.responses, &pressure, counted),
                lanes: Correction::lanes(&app.responses, &pressure, counted),
                ln: measured.max(1e-3).ln(),
            });
            modelled.push(Modelled {
                group: at,
                member,
                app,
                pressure,
                counted,
            });
        }
    }
    let apart: Vec<Vec<bool>> = groups
        .iter()
        .map(|group| groups.iter().map(|other| group.apart_from(other)).collect())
        .collect();
    let mut cases: Vec<Case> = modelled
        .iter()
        .zip(&observations)
        .map(|(model, own)| {
            let group = groups[model.group];
            let learned = observations
                .iter()
                .filter(|other| apart[model.group][other.group]);
            case(placement, group, model, own, learned)
        })
        .collect();
    let residuals: Vec<Residual> = cases.iter().map(residual).collect();
    // Intervals hold what profiles leave open of others' co-locations.
    for (case, model) in cases.iter_mut().zip(&modelled) {
        let all = modelled.iter().zip(&residuals);
        let of_others = all.filter(|(other, _)| apart[model.group][other.group]);
        let of_others: Vec<Residual> = of_others.map(|(_, one)| *one).collect();
        let predicted = case.predicted[Method::DEFAULT.name()].max(1e-3);
        let sd = ResidualSpread::learned(&of_others)
            .variance(predicted.ln())
            .sqrt();
        let [low, high] = case.ci95.map(|end| (end.max(1e-3) / predicted).ln());
        let widened = |half: f64| half.hypot(1.96 * sd);
        case.ci95 = [
            predicted * (-widened(low)).exp(),
            predicted * widened(high).exp(),
        ];
    }
    (cases, ResidualSpread::learned(&residuals))
}

fn case<'a>(
    placement: GroupPlacement,
    group: &Observed,
    model: &Modelled,
    own: &Observation,
    learned: impl Iterator<Item = &'a Observation> + Clone,
) -> Case {
    let responses = &model.app.responses;
    let expected = performance(responses, &model.pressure, model.counted);
    let half = 1.96 * f64::from(expected.variance).sqrt();
    let known = group.members[model.member].known;
    let mut others = group.members.clone();
    others.remove(model.member);
    let mut why: Vec<(&'static str, f64)> = model
        .counted
        .iter()
        .map(|lane| {
            let only = std::iter::once(lane).collect();
            let kept = performance(responses, &model.pressure, only).performance();
            (resource_id(lane), (1.0 - kept) * 100.0)
        })
        .filter(|(_, loss)| *loss >= 0.2)
        .collect();
    why.sort_by_number(|it| -it.1);
    why.truncate(3);
    let mut predicted = methods::predicted(placement, group.members.len(), own, learned);
    let profiles = others.iter().map(|other| other.known.profile);
    let shares = placement == GroupPlacement::SameCpu;
    let l1 = methods::l1(known.profile, profiles, shares);
    predicted.extend(l1.map(|l1| (Method::L1, l1)));
    let (measured, measured_ci95) = group.measured[model.member].unwrap_or((1.0, [1.0, 1.0]));
    Case {
        placement,
        app: known.name.clone(),
        beside: others
            .iter()
            .map(|other| other.known.name.clone())
            .collect(),
        measured,
        measured_ci95,
        predicted: predicted
            .into_iter()
            .map(|(method, value)| (method.name(), value))
            .collect(),
        ci95: [-half, half].map(|half| (f64::from(expected.ln) + half).exp()),
        why,
    }
}

/// What `case` leaves unexplained, before its interval holds anything of it. The error of
/// the measurement is a part of it: an interval is to hold what is measured, and most users
/// measure no longer than the recorded co-locations were.
fn residual(case: &Case) -> Residual {
    let log = |x: f64| x.max(1e-3).ln();
    let predicted = log(case.predicted[Method::DEFAULT.name()]);
    let width = |[low, high]: [f64; 2]| (log(high) - log(low)) / 3.92;
    Residual {
        predicted,
        ln: log(case.measured) - predicted,
        variance: width(case.ci95).powi(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::pairs;
    use jostle_profile::reading::Reading;
    use std::path::Path;
    use std::path::PathBuf;

    fn recorded(file: &str) -> PathBuf {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles");
        Path::new(directory).join(file)
    }

    /// Intervals of `predict` hold what those of `evaluate` hold.
    #[test]
    fn bundled_intervals_are_those_that_were_learned() {
        let mut pairs = pairs::load(&recorded("pairs.json")).unwrap();
        let again = pairs::load(&recorded("repeats/pairs.json")).unwrap();
        pairs.groups.extend(again.groups);
        let profiles = jostle_profile::load_dir(&recorded("")).unwrap();
        let known = profiles.iter().map(|(path, profile)| Known {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            profile,
        });
        let found = evaluate(&pairs, &known.collect::<Vec<_>>());
        let bundled = Population::bundled().unexplained;
        for (placement, rest) in &found.unexplained {
            let bundled = bundled.of(placement == GroupPlacement::SameCpu.name());
            let all = found
                .placements
                .iter()
                .flat_map(|placement| &placement.cases);
            let cases = all.filter(|case| case.placement.name() == placement);
            for case in cases {
                let ln = case.predicted[Method::DEFAULT.name()].ln();
                let [of_file, learned] = [bundled, *rest].map(|rest| rest.variance(ln).sqrt());
                assert!(
                    (of_file - learned).abs() < 0.01,
                    "{placement}: {bundled:?}, {rest:?}"
                );
            }
        }
    }

    #[test]
    fn repeats_are_one_case_with_their_mean() {
        let case = |app: &str, beside: &str, measured| Case {
            placement: GroupPlacement::OwnCpus,
            app: app.into(),
            beside: vec![beside.into()],
            measured,
            measured_ci95: [measured, measured],
            predicted: BTreeMap::from([(Method::DEFAULT.name(), 0.6)]),
            ci95: [0.55, 0.65],
            why: Vec::new(),
        };
        let cases = [
            case("awk", "sort", 0.5),
            case("sort", "awk", 0.9),
            case("awk", "sort", 0.7),
        ];
        let scores = Scores::of(Method::DEFAULT, &averaged(&cases)).unwrap();
        let errors = scores.errors.unwrap();
        assert_eq!(scores.cases, 2);
        assert!((errors.mean - 15.0).abs() < 1e-9, "{errors:?}");
        assert_eq!(scores.covered_percent, Some(50.0));
    }

    #[test]
    fn what_was_measured_badly_judges_nothing() {
        let mut pairs = pairs::load(&recorded("pairs.json")).unwrap();
        pairs.groups.truncate(1);
        let group = &mut pairs.groups[0];
        group.cache_sharing = None;
        let names: Vec<String> = group.members.iter().map(|one| one.app.clone()).collect();
        for (member, half) in group.members.iter_mut().zip([0.02, 0.3]) {
            let Reading::Value(found) = &mut member.performance else {
                panic!("{}: not measured", member.app);
            };
            found.ci95 = [found.value - half, found.value + half];
        }
        let profiles: Vec<Profile> = names
            .iter()
            .map(|name| jostle_profile::load(&recorded(&format!("{name}.json"))).unwrap())
            .collect();
        let known: Vec<Known> = names
            .iter()
            .zip(&profiles)
            .map(|(name, profile)| Known {
                name: name.clone(),
                profile,
            })
            .collect();
        let found = evaluate(&pairs, &known);
        let judged: Vec<&str> = found.placements[0]
            .cases
            .iter()
            .map(|case| case.app.as_str())
            .collect();
        assert_eq!(judged, [names[0].as_str()]);
        let left_out = format!("measured to ± 10 points or worse, 1 in all: {} 1", names[1]);
        assert_eq!(found.left_out, [left_out]);
    }
}
