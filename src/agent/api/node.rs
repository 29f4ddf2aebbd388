//! `/v1/node`, `/v1/workloads` and `/v1/culprits`.

use super::query::Name;
use super::shared::Shared;
use crate::agent::board::Published;
use crate::agent::trend::Trend;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use crate::http::answer::with_type;
use axum::extract::State;
use bytes::Bytes;
use jostle_profile::node::Culprits;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use serde::Serialize;
use std::sync::Arc;

/// All workloads.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadList<'a> {
    /// When they were read, RFC 3339, UTC.
    recorded_at: &'a str,
    /// Sorted by name.
    workloads: &'a [WorkloadState],
}

/// One workload.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadView<'a> {
    recorded_at: &'a str,
    workload: &'a WorkloadState,
    trend: Trend,
}

/// Who slows whom.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CulpritList<'a> {
    recorded_at: &'a str,
    /// All workloads, sorted by name.
    workloads: Vec<CulpritsOf<'a>>,
}

/// Who slows one workload.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CulpritsOf<'a> {
    workload: &'a str,
    culprits: &'a Reading<Culprits>,
}

/// The JSON of a state, kept alive while it is sent.
struct Text(Arc<Published>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.json()
    }
}

pub async fn node(State(shared): State<Arc<Shared>>) -> Answer {
    let text = Bytes::from_owner(Text(shared.node()?));
    Ok(with_type("application/json", text))
}

pub async fn workloads(State(shared): State<Arc<Shared>>) -> Answer {
    let published = shared.node()?;
    Ok(json(&WorkloadList {
        recorded_at: &published.state.recorded_at,
        workloads: &published.state.workloads,
    }))
}

pub async fn workload(State(shared): State<Arc<Shared>>, Name(name): Name) -> Answer {
    let published = shared.node()?;
    let mut workloads = published.state.workloads.iter();
    let workload = workloads.find(|workload| workload.name == name);
    let workload = workload.ok_or_else(|| {
        Problem::not_found(format!(
            "no workload is called \"{name}\"; /v1/workloads lists all"
        ))
    })?;
    Ok(json(&WorkloadView {
        recorded_at: &published.state.recorded_at,
        workload,
        trend: shared.board.trend(&name).unwrap_or_default(),
    }))
}

pub async fn culprits(State(shared): State<Arc<Shared>>) -> Answer {
    let published = shared.node()?;
    let workloads = published.state.workloads.iter();
    Ok(json(&CulpritList {
        recorded_at: &published.state.recorded_at,
        workloads: workloads
            .map(|workload| CulpritsOf {
                workload: &workload.name,
                culprits: &workload.culprits,
            })
            .collect(),
    }))
}
