//! All paths: one table, one row each.

use super::events;
use super::events::EventList;
use super::health;
use super::health::Alive;
use super::metrics;
use super::node;
use super::node::CulpritList;
use super::node::WorkloadList;
use super::node::WorkloadView;
use super::openapi;
use super::page;
use super::place;
use super::place::Forecast;
use super::place::Placement;
use super::profiles;
use super::profiles::ProfileList;
use super::row::Content;
use super::row::Key;
use super::row::Row;
use super::row::of;
use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::with_type;
use axum::Router;
use axum::http::Method;
use axum::http::StatusCode;
use axum::routing::MethodRouter;
use axum::routing::get;
use axum::routing::post;
use bytes::Bytes;
use jostle_profile::Profile;
use jostle_profile::node::NodeState;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What most rows have in common.
const GET: Row = Row {
    path: "",
    method: Method::GET,
    id: "",
    summary: "",
    query: &[],
    takes: None,
    gives: &[],
    errors: &[],
    open: false,
    handler: MethodRouter::new,
};

const PROFILE: Key = Key {
    name: "profile",
    about: "Name of a profile in the store",
    schema: of::<String>,
};
const SHARES_CPUS: Key = Key {
    name: "shares_cpus",
    about: "Whether the programs share CPUs; otherwise each has CPUs of its own",
    schema: of::<bool>,
};
const AFTER: Key = Key {
    name: "after",
    about: "Number of the last event that is known already",
    schema: of::<u64>,
};

pub static ROWS: &[Row] = &[
    Row {
        path: "/v1/node",
        id: "getNode",
        summary: "Everything the agent knows of its node",
        gives: &[Content::json(of::<NodeState>)],
        errors: &[503],
        handler: || get(node::node),
        ..GET
    },
    Row {
        path: "/v1/workloads",
        id: "listWorkloads",
        summary: "All workloads that match a rule of the configuration",
        gives: &[Content::json(of::<WorkloadList>)],
        errors: &[503],
        handler: || get(node::workloads),
        ..GET
    },
    Row {
        path: "/v1/workloads/{name}",
        id: "getWorkload",
        summary: "One workload, with its last 360 refreshes",
        gives: &[Content::json(of::<WorkloadView>)],
        errors: &[404, 503],
        handler: || get(node::workload),
        ..GET
    },
    Row {
        path: "/v1/profiles",
        id: "listProfiles",
        summary: "The profiles in the store, in short",
        gives: &[Content::json(of::<ProfileList>)],
        handler: || get(profiles::profiles),
        ..GET
    },
    Row {
        path: "/v1/profiles/{name}",
        id: "getProfile",
        summary: "One profile, format jostle-profile/1",
        gives: &[Content::json(of::<Profile>)],
        errors: &[404],
        handler: || get(profiles::profile),
        ..GET
    },
    Row {
        path: "/v1/predict",
        id: "predict",
        summary: "Expected performance of the residents, and of a profile of the store if it joined",
        query: &[PROFILE, SHARES_CPUS],
        gives: &[Content::json(of::<Forecast>)],
        errors: &[404, 503],
        handler: || get(place::predict),
        ..GET
    },
    Row {
        path: "/v1/place",
        id: "placeStored",
        summary: "Whether the program of a profile in the store fits on the node",
        query: &[PROFILE, SHARES_CPUS],
        gives: &[Content::json(of::<Placement>)],
        errors: &[404, 503],
        handler: || get(place::place_named),
        ..GET
    },
    Row {
        path: "/v1/place",
        method: Method::POST,
        id: "placePosted",
        summary: "Whether the program of the profile in the body fits on the node",
        query: &[SHARES_CPUS],
        takes: Some(of::<Profile>),
        gives: &[Content::json(of::<Placement>)],
        errors: &[413, 415, 503],
        handler: || post(place::place_posted),
        ..GET
    },
    Row {
        path: "/v1/culprits",
        id: "listCulprits",
        summary: "Who slows each workload",
        gives: &[Content::json(of::<CulpritList>)],
        errors: &[503],
        handler: || get(node::culprits),
        ..GET
    },
    Row {
        path: "/v1/events",
        id: "listEvents",
        summary: "What happened: a list, or a stream for Accept: text/event-stream",
        query: &[AFTER],
        gives: &[
            Content::json(of::<EventList>),
            Content::other(events::STREAM),
        ],
        errors: &[503],
        handler: || get(events::events),
        ..GET
    },
    Row {
        path: "/healthz",
        id: "alive",
        summary: "Whether the agent answers",
        open: true,
        gives: &[Content::json(of::<Alive>)],
        handler: || get(health::alive),
        ..GET
    },
    Row {
        path: "/readyz",
        id: "ready",
        summary: "Whether the node was read lately",
        open: true,
        gives: &[Content::json(of::<Alive>)],
        errors: &[503],
        handler: || get(health::ready),
        ..GET
    },
    Row {
        path: "/metrics",
        id: "metrics",
        summary: "Everything that is a number, for Prometheus",
        gives: &[Content::other(metrics::TEXT)],
        handler: || get(metrics::metrics),
        ..GET
    },
    Row {
        path: "/v1/openapi.json",
        id: "describe",
        summary: "This description, OpenAPI 3.1",
        gives: &[Content::json(of::<BTreeMap<String, Value>>)],
        open: true,
        handler: || get(description),
        ..GET
    },
    Row {
        path: "/",
        id: "dashboard",
        summary: "The dashboard",
        gives: &[Content::other(page::HTML)],
        open: true,
        handler: || get(page::html),
        ..GET
    },
    Row {
        path: "/dashboard.js",
        id: "dashboardScript",
        summary: "Its script",
        gives: &[Content::other(page::SCRIPT)],
        open: true,
        handler: || get(page::script),
        ..GET
    },
    Row {
        path: "/dashboard.css",
        id: "dashboardStyle",
        summary: "Its style",
        gives: &[Content::other(page::STYLE)],
        open: true,
        handler: || get(page::style),
        ..GET
    },
    Row {
        path: "/dashboard.svg",
        id: "dashboardIcon",
        summary: "Its icon",
        gives: &[Content::other(page::ICON)],
        open: true,
        handler: || get(page::icon),
        ..GET
    },
];

async fn description() -> Answer {
    Ok(with_type(
        "application/json",
        Bytes::from_static(openapi::TEXT.as_bytes()),
    ))
}

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
