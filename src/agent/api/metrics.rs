//! `/metrics`: the newest node state for Prometheus, in the text format of
//! OpenMetrics.
//!
//! What is unavailable is left out, so that no panel shows a zero that nobody
//! measured.

use super::series::NODE;
use super::series::RESOURCES;
use super::series::Series;
use super::series::WORKLOADS;
use super::shared::Shared;
use crate::http::answer::Answer;
use crate::http::answer::with_type;
use axum::extract::State;
use jostle_profile::node::NodeState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use prometheus_client::registry::Unit;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

pub const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub async fn metrics(State(shared): State<Arc<Shared>>) -> Answer {
    let mut registry = Registry::with_prefix("jostle");
    shared.requests.register(&mut registry);
    registry.register_collector(Box::new(Now(shared)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes any text");
    Ok(with_type(TEXT, text))
}

/// Everything that is known at this moment.
struct Now(Arc<Shared>);

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now")
    }
}

/// Labels and a number.
type Sample<'a> = (Vec<(&'a str, &'a str)>, f64);

/// Name, unit and help.
type Head<'a> = (&'a str, &'a str, &'a str);

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let out = &mut encoder;
        self.server(out)?;
        let Some(published) = self.0.board.node() else {
            return Ok(());
        };
        let state = &published.state;
        let help = "Time since the node was last read";
        let age = published.at.elapsed().as_secs_f64();
        gauge(out, ("node_refresh_age", "seconds", help), [(vec![], age)])?;
        let help = "Readings of the node since the agent was started";
        counter(
            out,
            ("node_refreshes", "", help),
            [(vec![], state.refresh as f64)],
        )?;
        for series in NODE {
            table(out, series, &[(vec![], state)])?;
        }
        let resources = state.resources.iter();
        let resources: Vec<_> = resources
            .map(|(id, it)| (vec![("resource", id.as_str())], it))
            .collect();
        for series in RESOURCES {
            table(out, series, &resources)?;
        }
        let workloads = state.workloads.iter();
        let workloads: Vec<_> = workloads
            .map(|it| (vec![("workload", it.name.as_str())], it))
            .collect();
        for series in WORKLOADS {
            table(out, series, &workloads)?;
        }
        facts(out, state)?;
        slowed(out, state)?;
        experiment(out, state)
    }
}

impl Now {
    /// What is known before the first refresh.
    fn server(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let connections = &self.0.connections;
        let help = "Open connections to the API";
        gauge(
            out,
            ("http_connections", "", help),
            [(vec![], connections.open() as f64)],
        )?;
        let help = "Idle connections to the API that were closed to make room for others";
        let displaced = connections.displaced() as f64;
        counter(
            out,
            ("http_connections_displaced", "", help),
            [(vec![], displaced)],
        )?;
        let help = "Open event streams of the API";
        let streams = self.0.open_streams() as f64;
        gauge(out, ("http_event_streams", "", help), [(vec![], streams)])?;
        let help = "What happened on the node since the agent was started, by kind";
        let counts = self.0.board.event_counts();
        let counts: Vec<(String, f64)> = counts
            .iter()
            .map(|(kind, count)| (word(kind), *count as f64))
            .collect();
        let samples = counts
            .iter()
            .map(|(kind, count)| (vec![("kind", kind.as_str())], *count));
        counter(out, ("events", "", help), samples)?;
        let help = "Profiles in the store of the agent";
        let profiles = self.0.store.names().len() as f64;
        gauge(out, ("profiles", "", help), [(vec![], profiles)])
    }
}

/// The word that JSON has for a `kind`.
fn word(kind: &impl Serialize) -> String {
    let value = serde_json::to_value(kind).expect("plain data");
    value.as_str().unwrap_or_default().to_string()
}

/// What does not change, as labels of a 1.
fn facts(out: &mut DescriptorEncoder, state: &NodeState) -> fmt::Result {
    let labels = vec![
        ("node", state.name.as_str()),
        ("version", &state.tool_version),
        ("model", &state.machine.model),
        ("kernel", &state.machine.kernel),
    ];
    let help = "The node and its agent";
    gauge(out, ("node_info", "", help), [(labels, 1.0)])?;
    let kinds = state.workloads.iter();
    let kinds: Vec<String> = kinds.map(|workload| word(&workload.kind)).collect();
    let samples = state.workloads.iter().zip(&kinds).map(|(workload, kind)| {
        let profile = workload.profile.value();
        let labels = vec![
            ("workload", workload.name.as_str()),
            ("kind", kind),
            ("profile", profile.map_or("", |it| &it.name)),
        ];
        (labels, 1.0)
    });
    let help = "What a workload is, and its profile";
    gauge(out, ("workload_info", "", help), samples)
}

fn slowed(out: &mut DescriptorEncoder, state: &NodeState) -> fmt::Result {
    let found = state.workloads.iter().filter_map(|workload| {
        let culprits = workload.culprits.value()?;
        Some((workload.name.as_str(), &culprits.suspects))
    });
    let samples = found.flat_map(|(workload, suspects)| {
        suspects.iter().filter_map(move |suspect| {
            let percent = suspect.slowed_percent.value()?.value;
            let labels = vec![("workload", workload), ("by", suspect.name.as_str())];
            Some((labels, percent / 100.0))
        })
    });
    let help = "Share of its speed that a workload loses to another, by the last experiment";
    gauge(out, ("workload_slowed", "ratio", help), samples)
}

fn experiment(out: &mut DescriptorEncoder, state: &NodeState) -> fmt::Result {
    let running = state.experiment.as_ref();
    let kind = running.map(|it| word(&it.kind)).unwrap_or_default();
    let samples = running.map(|it| {
        let labels = vec![("kind", kind.as_str()), ("workload", it.workload.as_str())];
        (labels, 1.0)
    });
    let help = "The experiment that runs at this moment";
    gauge(out, ("experiment_running", "", help), samples)
}

fn table<T>(
    out: &mut DescriptorEncoder,
    series: &Series<T>,
    all: &[(Vec<(&str, &str)>, &T)],
) -> fmt::Result {
    let samples = all.iter().flat_map(|(labels, of)| {
        series.parts.iter().filter_map(|(part, read)| {
            let value = read(of)?;
            let mut labels = labels.clone();
            if !series.label.is_empty() {
                labels.push((series.label, part));
            }
            Some((labels, value))
        })
    });
    gauge(out, (series.name, series.unit, series.help), samples)
}

fn gauge<'a>(
    out: &mut DescriptorEncoder,
    head: Head<'_>,
    samples: impl IntoIterator<Item = Sample<'a>>,
) -> fmt::Result {
    family(out, head, MetricType::Gauge, samples)
}

fn counter<'a>(
    out: &mut DescriptorEncoder,
    head: Head<'_>,
    samples: impl IntoIterator<Item = Sample<'a>>,
) -> fmt::Result {
    family(out, head, MetricType::Counter, samples)
}

fn family<'a>(
    out: &mut DescriptorEncoder,
    (name, unit, help): Head<'_>,
    kind: MetricType,
    samples: impl IntoIterator<Item = Sample<'a>>,
) -> fmt::Result {
    let unit = Some(unit).filter(|unit| !unit.is_empty());
    let unit = unit.map(|unit| Unit::Other(unit.into()));
    let mut metric = out.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for (labels, value) in samples {
        let mut sample = metric.encode_family(&labels)?;
        match kind {
            MetricType::Counter => sample.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            _ => sample.encode_gauge(&value)?,
        }
    }
    Ok(())
}
