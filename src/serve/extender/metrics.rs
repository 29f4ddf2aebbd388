//! `/metrics`: counts of decisions, and what is known, for Prometheus.

use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::with_type;
use axum::extract::State;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use prometheus_client::registry::Unit;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub async fn metrics(State(shared): State<Arc<Shared>>) -> Answer {
    let mut registry = Registry::with_prefix("jostle_extender");
    let counters = &shared.counters;
    shared.requests.register(&mut registry);
    let help = "Answers to the scheduler";
    registry.register("decisions", help, counters.decisions.clone());
    let help = "Nodes that were refused to a pod";
    registry.register("refused_nodes", help, counters.refused.clone());
    let help = "Answers about pods without a profile";
    registry.register("without_profile", help, counters.without_profile.clone());
    let help = "Node states that agents sent";
    registry.register("node_states", help, counters.states.clone());
    let now = Instant::now();
    let world = shared.world.lock();
    let counts = world.counts(now);
    for (name, help, count) in [
        ("nodes", "Nodes of the API server", counts.nodes),
        (
            "pods",
            "Pods with a profile on nodes, or on their way",
            counts.pods,
        ),
        (
            "residents",
            "Programs with a profile that are known",
            counts.residents,
        ),
        ("agents", "Agents that have sent a state", counts.agents),
        (
            "stale_agents",
            "Agents whose state is stale",
            counts.stale_agents,
        ),
        ("profiles", "Profiles in force", world.profiles.apps.len()),
        (
            "broken_profiles",
            "Files that are no profile",
            world.profiles.broken.len(),
        ),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(count as i64);
        registry.register(name, help, gauge);
    }
    let version = vec![("version", world.profiles.version.clone())];
    registry.register("profiles_version", "Their version", Info::new(version));
    if let Some(informed) = world.informed {
        let age: Gauge<f64, AtomicU64> = Gauge::default();
        age.set(now.saturating_duration_since(informed).as_secs_f64());
        let help = "Time since the API server was heard of";
        registry.register_with_unit("api_server_age", help, Unit::Seconds, age);
    }
    drop(world);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes any text");
    Ok(with_type(TEXT, text))
}
