//! Applications that a scenario names itself, and those of recorded profiles.

use super::keys::AppKeys;
use super::keys::ClusterPlan;
use super::keys::GivenApp;
use super::keys::Pool;
use super::keys::Source as JobSource;
use super::source::Source;
use crate::error::Problem;
use crate::error::ScenarioError;
use crate::population;
use crate::population::Member;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_profile::resource::Resource;
use jostle_schedule::Demand;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::lane;
use jostle_schedule::predict::resource_id;
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, ScenarioError>;

/// True when a trace may name `name`: a class, or an application of a pool that
/// does not depend on the seed.
pub fn known(sources: &[JobSource], name: &str) -> bool {
    sources.iter().any(|source| {
        source.class == name
            || match &source.pool {
                Pool::Synthetic(kind) => {
                    let number = name.strip_prefix(kind.name);
                    let number = number.and_then(|it| it.strip_prefix('-')?.parse().ok());
                    number.is_some_and(|number| (1..=kind.pool).contains(&number))
                }
                Pool::Recorded(profiles) => profiles.iter().any(|it| it.workload.name == name),
                Pool::Given(apps) => apps.iter().any(|app| app.member.app.name == name),
            }
    })
}

/// The [[app]] tables: an application loses what its QoS allows at the
/// intensity it tolerates, and so on at every further such step.
pub fn given(source: &Source, keys: &[AppKeys], cluster: &ClusterPlan) -> Result<Vec<GivenApp>> {
    source.check_names("app", keys.iter().map(|app| &app.name))?;
    let apps = (0..keys.len())
        .map(|at| one(source, at, keys, cluster))
        .collect::<Result<Vec<_>>>()?;
    for start in 0..apps.len() {
        let (mut at, mut before, mut steps) = (start, 0.0, 0);
        while let Some((next, begins)) = apps[at].then {
            steps += 1;
            if steps > apps.len() {
                let problem = Problem::PhaseCircle(keys[start].name.clone());
                return Err(source.wrong(format!("app[{at}].then"), problem));
            }
            if begins <= before {
                let problem = Problem::PhaseOrder {
                    next: keys[next].name.clone(),
                    at: begins,
                    before,
                };
                return Err(source.wrong(format!("app[{at}].at"), problem));
            }
            (at, before) = (next, begins);
        }
    }
    Ok(apps)
}

fn one(source: &Source, at: usize, all: &[AppKeys], cluster: &ClusterPlan) -> Result<GivenApp> {
    let keys = &all[at];
    let wrong = |key: &str, problem| source.wrong(format!("app[{at}].{key}"), problem);
    let points = |key: &str, table: &BTreeMap<String, f64>| {
        let lanes = table.iter().map(|(resource, points)| {
            lane_of(resource, *points)
                .map_err(|problem| wrong(&format!("{key}.{resource}"), problem))
        });
        lanes.collect::<Result<Vec<_>>>()
    };
    let curves = points("tolerates", &keys.tolerates)?
        .into_iter()
        .filter(|(_, points)| *points < 100.0)
        .map(|(lane, points)| {
            let slope = keys.qos.ln() / points.max(1.0);
            TrueCurve::new(lane, |x| (slope * x).exp())
        })
        .collect();
    let mut caused = [0.0; LANES];
    for (lane, points) in points("causes", &keys.causes)? {
        caused[lane] = points as f32;
    }
    for (platform, value) in &keys.speed {
        let key = format!("speed.{platform}");
        if !(value.is_finite() && *value > 0.0) {
            let problem = Problem::out_of_range(value, "a number above 0");
            return Err(wrong(&key, problem));
        }
        let known = || cluster.types.iter().filter_map(|kind| kind.name.as_deref());
        if !known().any(|known| known == platform) {
            return Err(wrong(&key, Problem::unknown(platform, known())));
        }
    }
    let then = match (&keys.then, keys.at) {
        (Some(then), Some(begins)) => {
            let next = all.iter().position(|app| app.name == *then);
            let next = next.ok_or_else(|| {
                let known = all.iter().map(|app| app.name.as_str());
                wrong("then", Problem::unknown(then, known))
            })?;
            Some((next, begins))
        }
        (None, None) => None,
        (Some(_), None) => return Err(wrong("then", Problem::ThenWithoutAt)),
        (None, Some(_)) => return Err(wrong("at", Problem::AtWithoutThen)),
    };
    Ok(GivenApp {
        member: Member {
            app: TrueApp {
                name: keys.name.clone(),
                curves,
                caused,
                speed: Vec::new(),
                qos: keys.qos as f32,
                scaling: Scaling::amdahl(keys.serial, 32, 16),
            },
            demand: Demand {
                cpus: keys.cpus,
                memory_bytes: keys.memory_bytes,
            },
            profiled: population::shared(),
        },
        speed: keys.speed.clone(),
        work: keys.work_seconds,
        then,
    })
}

/// The lane of `resource`, with its points.
fn lane_of(resource: &str, points: f64) -> std::result::Result<(usize, f64), Problem> {
    if !(0.0..=100.0).contains(&points) {
        return Err(Problem::out_of_range(points, "a percentage from 0 to 100"));
    }
    let shared = population::shared();
    match lane(resource) {
        Some(lane) if shared.contains(lane) => Ok((lane, points)),
        Some(_) => Err(Problem::NotShared {
            resource: resource.into(),
            shared: shared
                .iter()
                .map(resource_id)
                .collect::<Vec<_>>()
                .join(", "),
        }),
        None => Err(Problem::unknown(
            resource,
            Resource::ALL.iter().map(|it| it.id()),
        )),
    }
}
