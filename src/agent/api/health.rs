//! `/healthz` and `/readyz`.

use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::Arc;

/// Refreshes that may be missing before the agent is not ready any more.
const INTERVALS: f64 = 3.0;
/// Short intervals get this much, seconds: a busy machine delays a refresh.
const LEAST_SECONDS: f64 = 2.0;

/// That the agent answers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alive {
    /// `alive` or `ready`.
    status: &'static str,
    version: &'static str,
}

const fn status(status: &'static str) -> Alive {
    Alive {
        status,
        version: env!("CARGO_PKG_VERSION"),
    }
}

pub async fn alive() -> Answer {
    Ok(json(&status("alive")))
}

pub async fn ready(State(shared): State<Arc<Shared>>) -> Answer {
    let published = shared.node()?;
    let age = published.at.elapsed().as_secs_f64();
    let interval = published.state.interval_seconds;
    if age > (INTERVALS * interval).max(LEAST_SECONDS) {
        let problem = format!(
            "the newest reading of the node is {age:.0} s old, one is due every {interval} s; see \
             the log of the agent"
        );
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem));
    }
    Ok(json(&status("ready")))
}
