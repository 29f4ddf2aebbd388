//! `/v1/profiles`.

use super::query::Name;
use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use axum::extract::State;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::Score;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is in the profile store.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileList {
    /// Sorted by name.
    profiles: Vec<ProfileEntry>,
    /// Files that are no profile.
    broken: Vec<BrokenFile>,
}

/// One profile, in short.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileEntry {
    /// As in `/v1/profiles/NAME`.
    name: String,
    /// What was measured.
    workload: String,
    /// RFC 3339, UTC.
    recorded_at: String,
    machine_fingerprint: String,
    machine_model: String,
    metric: String,
    unit: String,
    /// Level without interference, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<Estimate>,
    /// Fraction of the baseline that it must keep.
    qos_threshold: f64,
    /// Whether its measurement was cut short.
    partial: bool,
    /// By resource id: tolerated pressure, 0 to 100; absent where unknown.
    tolerated: BTreeMap<String, f64>,
    caused: BTreeMap<String, f64>,
}

/// A file of the store that could not be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BrokenFile {
    file: String,
    problem: String,
}

pub async fn profiles(State(shared): State<Arc<Shared>>) -> Answer {
    let names = shared.store.names();
    let entries = names.into_iter().filter_map(|name| {
        let profile = shared.store.get(&name)?;
        Some(entry(name, &profile))
    });
    let broken = shared.store.broken().into_iter();
    let broken = broken.map(|(path, problem)| BrokenFile {
        file: path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        problem,
    });
    Ok(json(&ProfileList {
        profiles: entries.collect(),
        broken: broken.collect(),
    }))
}

pub async fn profile(State(shared): State<Arc<Shared>>, Name(name): Name) -> Answer {
    let profile = named(&shared, &name)?;
    Ok(json(&*profile))
}

/// The profile called `name` in the store.
///
/// # Errors
/// 404.
pub fn named(shared: &Shared, name: &str) -> Result<Arc<Profile>, Problem> {
    shared.store.get(name).ok_or_else(|| {
        let problem = format!("no profile is called \"{name}\"; /v1/profiles lists all");
        Problem::not_found(problem)
    })
}

fn entry(name: String, profile: &Profile) -> ProfileEntry {
    ProfileEntry {
        name,
        workload: profile.workload.name.clone(),
        recorded_at: profile.conditions.recorded_at.clone(),
        machine_fingerprint: profile.machine.fingerprint.clone(),
        machine_model: profile.machine.model.clone(),
        metric: profile.metric.name.clone(),
        unit: profile.metric.unit.clone(),
        baseline: profile.metric.baseline,
        qos_threshold: profile.qos.threshold,
        partial: profile.partial,
        tolerated: scores(profile, |entry| entry.tolerated),
        caused: scores(profile, |entry| entry.caused),
    }
}

fn scores(
    profile: &Profile,
    direction: impl Fn(&jostle_profile::ResourceEntry) -> Option<Score>,
) -> BTreeMap<String, f64> {
    let known = profile.resources.iter();
    known
        .filter_map(|(id, entry)| Some((id.clone(), direction(entry)?.score)))
        .collect()
}
