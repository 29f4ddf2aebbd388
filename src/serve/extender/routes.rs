//! What each path answers.

use super::decide::Filtered;
use super::decide::Scored;
use super::decisions::Decision;
use super::decisions::Verb;
use super::guard;
use super::guard::whole;
use super::live::Live;
use super::live::NodeDocument;
use super::metrics;
use super::protocol::FilterResult;
use super::protocol::HostPriority;
use super::protocol::PassedNodes;
use super::protocol::Pod;
use super::protocol::Request;
use super::protocol::node_name;
use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::routing::post;
use axum::routing::put;
use bytes::Bytes;
use jostle_host::sys::clock::rfc3339;
use serde::Serialize;
use serde_json::json as value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;
use std::time::SystemTime;

/// Longest name of a node, bytes.
const LONGEST_NAME: usize = 253;

/// Everything.
pub fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
        .route("/v1/nodes/{name}", put(put_node))
        .route("/v1/nodes", get(nodes))
        .route("/v1/decisions", get(decisions))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(async || json(&value!({"status": "alive"}))))
        .route("/readyz", get(ready))
        .fallback(async || {
            let paths: Vec<&str> = guard::PATHS.iter().map(|(path, _)| *path).collect();
            Problem::not_found(format!(
                "there is no such path; there are {}",
                paths.join(", ")
            ))
        })
        .with_state(shared.clone())
}

async fn filter(State(shared): State<Arc<Shared>>, body: Body) -> Answer {
    let body = whole(body, shared.most_body_bytes).await?;
    computed(move || decide(&shared, Verb::Filter, &body)).await
}

async fn prioritize(State(shared): State<Arc<Shared>>, body: Body) -> Answer {
    let body = whole(body, shared.most_body_bytes).await?;
    computed(move || decide(&shared, Verb::Prioritize, &body)).await
}

/// Runs `work` on another thread, so that agents do not wait for it.
async fn computed(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let problem = "the decision failed; see the log of the extender";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem))
    })
}

fn decide(shared: &Shared, verb: Verb, body: &Bytes) -> Answer {
    let begin = Instant::now();
    let request: Request = serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("no request of a scheduler: {error}")))?;
    let pod = request.pod.clone().unwrap_or_default();
    let whole_nodes = request.nodes.as_ref();
    let whole_nodes: Vec<&RawValue> = whole_nodes
        .and_then(|list| list.items.as_ref())
        .map_or_else(Vec::new, Clone::clone);
    let given: Vec<String> = whole_nodes
        .iter()
        .map(|node| node_name(node))
        .collect::<Result<_, _>>()
        .map_err(|error| Problem::bad_request(format!("a node without a name: {error}")))?;
    let names: Vec<&str> = match &request.node_names {
        Some(names) => names.iter().map(|it| &*it.0).collect(),
        None => given.iter().map(String::as_str).collect(),
    };
    let (answer, mut decision) = match verb {
        Verb::Filter => filtered(shared, &pod, &request, &names, &whole_nodes),
        Verb::Prioritize => scored(shared, &pod, &names),
    };
    decision.took_seconds = begin.elapsed().as_secs_f64();
    decision.at = rfc3339(SystemTime::now());
    shared.counters.decided(&decision);
    let kept = shared.decisions.lock();
    kept.unwrap_or_else(PoisonError::into_inner).add(decision);
    Ok(answer)
}

fn filtered(
    shared: &Shared,
    pod: &Pod,
    request: &Request,
    names: &[&str],
    whole: &[&RawValue],
) -> (axum::response::Response, Decision) {
    let now = Instant::now();
    let Filtered { refused, decision } = shared.world.lock().filter(pod, names, shared.strict, now);
    let passed = |at: &usize| refused[*at].is_none();
    let by_name = request.node_names.is_some();
    let mut result = FilterResult {
        nodes: None,
        node_names: None,
        failed_nodes: BTreeMap::new(),
        error: "",
    };
    let passed = (0..names.len()).filter(passed);
    match by_name {
        true => result.node_names = Some(passed.map(|at| names[at]).collect()),
        false => {
            let items = passed.map(|at| whole[at]).collect();
            result.nodes = Some(PassedNodes { items });
        }
    }
    for (name, reason) in names.iter().zip(refused) {
        if let Some(reason) = reason {
            result.failed_nodes.insert(name, reason);
        }
    }
    (json(&result), decision)
}

fn scored(shared: &Shared, pod: &Pod, names: &[&str]) -> (axum::response::Response, Decision) {
    let now = Instant::now();
    let Scored { scores, decision } = shared.world.lock().prioritize(pod, names, now);
    let list = names.iter().zip(scores);
    let list: Vec<HostPriority> = list
        .map(|(host, score)| HostPriority { host, score })
        .collect();
    (json(&list), decision)
}

/// A state of a node, from its agent.
async fn put_node(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    body: Body,
) -> Answer {
    let body = whole(body, guard::MOST_STATE_BYTES).await?;
    let document = NodeDocument::parse(&body).map_err(Problem::bad_request)?;
    if document.name != name || name.is_empty() || name.len() > LONGEST_NAME {
        return Err(Problem::bad_request(format!(
            "the state is of node \"{}\"; send it to /v1/nodes/ and that name",
            document.name.chars().take(LONGEST_NAME).collect::<String>()
        )));
    }
    let mut world = shared.world.lock();
    if world.node(&name).is_none() && world.informed.is_some() {
        return Err(Problem::not_found(format!(
            "the API server has no node \"{name}\"; set agent.node_name to its name there"
        )));
    }
    world.set_live(&name, Live::of(document, Instant::now()));
    drop(world);
    shared.counters.states.inc();
    Ok(json(&value!({"status": "kept"})))
}

/// One node, as `/v1/nodes` lists it.
#[derive(Serialize)]
struct NodeEntry<'a> {
    name: &'a str,
    /// Names of the profiles of what runs there.
    residents: Vec<&'a str>,
    agent: Option<AgentEntry<'a>>,
}

#[derive(Serialize)]
struct AgentEntry<'a> {
    recorded_at: &'a str,
    age_seconds: f64,
    stale: bool,
    misses_qos: Vec<&'a str>,
}

async fn nodes(State(shared): State<Arc<Shared>>) -> Answer {
    let now = Instant::now();
    let world = shared.world.lock();
    let entry = |name| {
        let live = world.live(name);
        let agent = live.map(|live| AgentEntry {
            recorded_at: &live.recorded_at,
            age_seconds: live.age(now).as_secs_f64(),
            stale: !live.is_fresh(now),
            misses_qos: live.missed.iter().map(|it| it.workload.as_str()).collect(),
        });
        NodeEntry {
            name,
            residents: world
                .node(name)
                .map_or_else(Vec::new, |it| world.residents(it)),
            agent,
        }
    };
    let nodes: Vec<NodeEntry> = world.node_names().into_iter().map(entry).collect();
    let broken = &world.profiles.broken;
    Ok(json(&value!({
        "profiles_version": world.profiles.version,
        "profiles": world.profiles.apps.keys().collect::<Vec<_>>(),
        "broken_profiles": broken,
        "nodes": nodes,
    })))
}

async fn decisions(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Answer {
    let query = query.unwrap_or_default();
    let mut keys = form_urlencoded::parse(query.as_bytes());
    let after = match keys.find(|(key, _)| key == "after") {
        None => 0,
        Some((_, value)) => value
            .parse()
            .map_err(|_| Problem::bad_request("after: give the number of a decision"))?,
    };
    let kept = shared.decisions.lock();
    let list = kept.unwrap_or_else(PoisonError::into_inner).after(after);
    Ok(json(&value!({"decisions": list})))
}

async fn ready(State(shared): State<Arc<Shared>>) -> Answer {
    let listed = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    match listed(&shared.nodes_listed) && listed(&shared.pods_listed) {
        true => Ok(json(&value!({"status": "ready"}))),
        false => {
            let problem = "nodes and pods were not listed yet; see the log of the extender";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem))
        }
    }
}
