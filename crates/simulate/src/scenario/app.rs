//! Applications that a scenario names itself, and those of recorded profiles.

use super::ClusterPlan;
use super::GivenApp;
use super::Pool;
use super::ScenarioError;
use super::Source as JobSource;
use super::number::Percent;
use super::raw::Raw;
use super::raw::RawApp;
use super::source::Names;
use super::source::Source;
use super::source::memory;
use super::source::unknown;
use crate::population;
use crate::population::Member;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_profile::resource::Resource;
use jostle_schedule::Demand;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::lane;
use std::collections::BTreeMap;
use toml::Spanned;

type Result<T> = std::result::Result<T, ScenarioError>;

/// True when a trace may name `name`: a class, or an application of a pool that
/// does not depend on the seed.
pub fn known(sources: &[JobSource], name: &str) -> bool {
    sources.iter().any(|source| {
        source.class == name
            || match &source.pool {
                Pool::Synthetic(kind) => {
                    let numbered = name
                        .strip_prefix(kind.name)
                        .and_then(|it| it.strip_prefix('-'));
                    let number = numbered.and_then(|number| number.parse().ok());
                    number.is_some_and(|number| (1..=kind.pool).contains(&number))
                }
                Pool::Recorded(profiles) => profiles.iter().any(|it| it.workload.name == name),
                Pool::Given(apps) => apps.iter().any(|app| app.member.app.name == name),
            }
    })
}

/// The profiles that [population] names.
pub fn recorded(source: &Source, raw: &Raw) -> Result<Pool> {
    let Some(population) = &raw.population else {
        return Ok(Pool::Recorded(Vec::new()));
    };
    let dir = source.beside(population.profiles.get_ref());
    population::load_profiles(&dir)
        .map(Pool::Recorded)
        .map_err(|error| source.wrong(&population.profiles, format!("key `profiles`: {error}")))
}

/// The [[app]] tables: an application loses what its QoS allows at the
/// intensity it tolerates, and so on at every further such step.
pub fn given(source: &Source, raw: &[RawApp], cluster: &ClusterPlan) -> Result<Vec<GivenApp>> {
    let mut names = Names::default();
    for app in raw {
        names.add(source, "app", &app.name)?;
    }
    let mut apps = Vec::with_capacity(raw.len());
    for app in raw {
        apps.push(one(source, app, raw, cluster)?);
    }
    for start in 0..apps.len() {
        let (mut at, mut from, mut steps) = (start, 0.0, 0);
        while let Some((next, begins)) = apps[at].then {
            let key = raw[at].then.as_ref().unwrap_or(&raw[at].name);
            steps += 1;
            if steps > apps.len() {
                let problem = format!(
                    "key `then`: the phases of `{}` run in a circle; let one of them be the last",
                    raw[start].name.get_ref()
                );
                return Err(source.wrong(key, problem));
            }
            if begins <= from {
                let problem = format!(
                    "key `at`: `{}` begins at {begins} of the work, before the phase that leads to it at {from}; fractions are of the whole work and ascend",
                    raw[next].name.get_ref()
                );
                return Err(source.wrong(key, problem));
            }
            (at, from) = (next, begins);
        }
    }
    Ok(apps)
}

fn one(source: &Source, raw: &RawApp, all: &[RawApp], cluster: &ClusterPlan) -> Result<GivenApp> {
    let qos = raw.qos.map_or(0.95, |qos| qos.0);
    let mut curves = Vec::new();
    for (lane, points) in lanes(source, "tolerates", &raw.tolerates)? {
        if points < 100.0 {
            let slope = qos.ln() / points.max(1.0);
            curves.push(TrueCurve::new(lane, |x| (slope * x).exp()));
        }
    }
    let mut caused = [0.0; LANES];
    for (lane, points) in lanes(source, "causes", &raw.causes)? {
        caused[lane] = points as f32;
    }
    let mut speed = Vec::new();
    for (platform, value) in &raw.speed {
        let known = || cluster.types.iter().filter_map(|kind| kind.name.as_deref());
        if !known().any(|known| known == platform) {
            let problem = unknown("speed", platform, known());
            return Err(source.wrong(value, problem));
        }
        speed.push((platform.clone(), value.get_ref().0));
    }
    let then = match (&raw.then, raw.at) {
        (Some(then), Some(at)) => {
            let next = all
                .iter()
                .position(|app| app.name.get_ref() == then.get_ref());
            let Some(next) = next else {
                let known = all.iter().map(|app| app.name.get_ref().as_str());
                return Err(source.wrong(then, unknown("then", then.get_ref(), known)));
            };
            Some((next, at.0))
        }
        (None, None) => None,
        (Some(then), None) => {
            let problem = "key `then` needs `at`: the fraction of the work at which it happens";
            return Err(source.wrong(then, problem.into()));
        }
        (None, Some(_)) => {
            let problem = "key `at` needs `then`: the app that this one turns into";
            return Err(source.wrong(&raw.name, problem.into()));
        }
    };
    let serial = raw.serial.unwrap_or(Percent(10.0)).fraction();
    Ok(GivenApp {
        member: Member {
            app: TrueApp {
                name: raw.name.get_ref().clone(),
                curves,
                caused,
                speed: Vec::new(),
                qos: qos as f32,
                scaling: Scaling::amdahl(serial, 32, 16),
            },
            demand: Demand {
                cpus: raw.cpus.map_or(1, |cpus| cpus.0 as u32),
                memory_bytes: match &raw.memory {
                    Some(key) => memory(source, key)?,
                    None => 0,
                },
            },
            profiled: population::shared(),
        },
        speed,
        work: raw.work_seconds.map(|seconds| seconds.0),
        then,
    })
}

/// Points by lane of a table of resources.
fn lanes(
    source: &Source,
    key: &str,
    table: &BTreeMap<String, Spanned<Percent>>,
) -> Result<Vec<(usize, f64)>> {
    let shared = population::shared();
    let mut lanes = Vec::with_capacity(table.len());
    for (resource, points) in table {
        match lane(resource) {
            Some(lane) if shared.contains(lane) => lanes.push((lane, points.get_ref().0)),
            Some(_) => {
                let problem = format!(
                    "key `{key}`: `{resource}` is not shared by applications with CPUs of their own; those that are: {}",
                    population::names(shared)
                );
                return Err(source.wrong(points, problem));
            }
            None => {
                let known = Resource::ALL.iter().map(|resource| resource.id());
                return Err(source.wrong(points, unknown(key, resource, known)));
            }
        }
    }
    Ok(lanes)
}
