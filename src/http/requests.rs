//! Counts of requests, for `/metrics`.

use axum::http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use prometheus_client::registry::Unit;
use std::time::Duration;

/// What is not in the table.
const OTHER: &str = "other";

/// Upper ends of the classes of durations, seconds.
const SECONDS: [f64; 8] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.1, 1.0, 10.0];

type ByRoute = [(&'static str, &'static str); 2];
type ByCode = [(&'static str, String); 3];

pub struct Requests {
    count: Family<ByCode, Counter>,
    duration: Family<ByRoute, Histogram, fn() -> Histogram>,
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            count: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }
}

impl Requests {
    /// Counts one. `asked` is path and method as they stand in the table, never as
    /// they were sent: what clients make up must not become series.
    pub fn add(
        &self,
        asked: Option<(&'static str, &'static str)>,
        status: StatusCode,
        took: Duration,
    ) {
        let (route, method) = asked.unwrap_or((OTHER, OTHER));
        let code = [
            ("route", route.to_string()),
            ("method", method.to_string()),
            ("code", status.as_str().to_string()),
        ];
        self.count.get_or_create(&code).inc();
        let by_route = [("route", route), ("method", method)];
        let duration = self.duration.get_or_create(&by_route);
        duration.observe(took.as_secs_f64());
    }

    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "http_requests",
            "Requests to the API that were answered, by path, method and status",
            self.count.clone(),
        );
        registry.register_with_unit(
            "http_request_duration",
            "Time from the head of a request to the start of its response",
            Unit::Seconds,
            self.duration.clone(),
        );
    }
}
