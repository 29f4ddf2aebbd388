//! All paths: one table, one row each.

use super::answer::Problem;
use super::events;
use super::health;
use super::node;
use super::place;
use super::profiles;
use super::shared::Shared;
use axum::Router;
use axum::http::Method;
use axum::http::StatusCode;
use axum::routing::MethodRouter;
use axum::routing::get;
use axum::routing::post;
use std::sync::Arc;

/// One path and method.
#[allow(dead_code)]
pub struct Row {
    pub path: &'static str,
    pub method: Method,
    /// What clients that are generated from the description call it.
    pub id: &'static str,
    pub summary: &'static str,
    pub query: &'static [&'static str],
    /// Whether it is answered without a token.
    pub open: bool,
    handler: fn() -> MethodRouter<Arc<Shared>>,
}

/// What most rows have in common.
const GET: Row = Row {
    path: "",
    method: Method::GET,
    id: "",
    summary: "",
    query: &[],
    open: false,
    handler: MethodRouter::new,
};

pub static ROWS: &[Row] = &[
    Row {
        path: "/v1/node",
        id: "getNode",
        summary: "Everything the agent knows of its node",
        handler: || get(node::node),
        ..GET
    },
    Row {
        path: "/v1/workloads",
        id: "listWorkloads",
        summary: "All workloads that match a rule of the configuration",
        handler: || get(node::workloads),
        ..GET
    },
    Row {
        path: "/v1/workloads/{name}",
        id: "getWorkload",
        summary: "One workload, with its last 360 refreshes",
        handler: || get(node::workload),
        ..GET
    },
    Row {
        path: "/v1/profiles",
        id: "listProfiles",
        summary: "The profiles in the store, in short",
        handler: || get(profiles::profiles),
        ..GET
    },
    Row {
        path: "/v1/profiles/{name}",
        id: "getProfile",
        summary: "One profile, format jostle-profile/1",
        handler: || get(profiles::profile),
        ..GET
    },
    Row {
        path: "/v1/predict",
        id: "predict",
        summary: "Expected performance of the residents, and of a profile of the store if it joined",
        query: &["profile", "shares_cpus"],
        handler: || get(place::predict),
        ..GET
    },
    Row {
        path: "/v1/place",
        id: "placeStored",
        summary: "Whether the program of a profile in the store fits on the node",
        query: &["profile", "shares_cpus"],
        handler: || get(place::place_named),
        ..GET
    },
    Row {
        path: "/v1/place",
        method: Method::POST,
        id: "placePosted",
        summary: "Whether the program of the profile in the body fits on the node",
        query: &["shares_cpus"],
        handler: || post(place::place_posted),
        ..GET
    },
    Row {
        path: "/v1/culprits",
        id: "listCulprits",
        summary: "Who slows each workload",
        handler: || get(node::culprits),
        ..GET
    },
    Row {
        path: "/v1/events",
        id: "listEvents",
        summary: "What happened: a list, or a stream for Accept: text/event-stream",
        query: &["after"],
        handler: || get(events::events),
        ..GET
    },
    Row {
        path: "/healthz",
        id: "alive",
        summary: "Whether the agent answers",
        open: true,
        handler: || get(health::alive),
        ..GET
    },
    Row {
        path: "/readyz",
        id: "ready",
        summary: "Whether the node was read lately",
        open: true,
        handler: || get(health::ready),
        ..GET
    },
];

/// The row of a path as the router matched it.
pub fn row(path: &str, method: &Method) -> Option<&'static Row> {
    // A HEAD is a GET whose body is not sent.
    let method = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    ROWS.iter()
        .find(|row| row.path == path && row.method == *method)
}

/// Everything.
pub fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new();
    for row in ROWS {
        router = router.route(row.path, (row.handler)());
    }
    router
        .fallback(async || {
            let problem = "there is no such path; /v1/openapi.json lists all";
            Problem::not_found(problem)
        })
        .method_not_allowed_fallback(async || {
            let problem = "this path does not take this method; see the header Allow";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .with_state(shared.clone())
}
