//! One application against one node, resource by resource.

use super::app::App;
use super::cluster::NodeState;
use serde::Serialize;
use std::collections::BTreeSet;

/// Both directions on one resource. All numbers are points of the 0–100 scale;
/// a node's `causes` is a sum and may pass 100.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub resource: String,
    pub app_tolerates: Option<f64>,
    pub app_causes: Option<f64>,
    pub node_tolerates: Option<f64>,
    pub node_causes: Option<f64>,
    /// `t_node − c_app` (Paragon, section 3.3.2).
    pub d1: Option<f64>,
    /// `t_app − c_node` (Paragon, section 3.3.2).
    pub d2: Option<f64>,
    /// Why this resource is left out on this node although scores exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted: Option<String>,
    /// Whose score is missing and why; what is known is still compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_known: Vec<String>,
}

impl Comparison {
    /// `|D1 + D2|`, its share of Paragon's ‖D1 + D2‖₁; `None` unless both
    /// directions are known.
    pub fn slack(&self) -> Option<f64> {
        Some((self.d1? + self.d2?).abs())
    }

    /// `|t_app − c_node| + |t_node − c_app|`; a direction that is not known
    /// adds nothing.
    pub fn distance(&self) -> Option<f64> {
        match (self.d1, self.d2) {
            (None, None) => None,
            (d1, d2) => Some(d1.unwrap_or(0.0).abs() + d2.unwrap_or(0.0).abs()),
        }
    }
}

/// `app` against the residents of `state`, for every resource either knows of,
/// in the order of resource ids.
pub fn compare(app: &App, state: &NodeState) -> Vec<Comparison> {
    let mut ids: BTreeSet<&String> = app.terms().keys().collect();
    for (_, resident) in state.residents() {
        ids.extend(resident.terms().keys());
    }
    ids.into_iter().map(|id| one(app, state, id)).collect()
}

fn one(app: &App, state: &NodeState, id: &str) -> Comparison {
    let mut comparison = Comparison {
        resource: id.into(),
        app_tolerates: None,
        app_causes: None,
        node_tolerates: None,
        node_causes: None,
        d1: None,
        d2: None,
        not_counted: None,
        not_known: Vec::new(),
    };
    let term = app.terms().get(id);
    let counted = |term| state.node().counts(id, term);
    if id == "cpu-time" && !state.node().shares_cpus {
        comparison.not_counted = Some("each application has CPUs of its own here".into());
        return comparison;
    }
    if term.is_some_and(|term| !counted(term)) {
        comparison.not_counted = Some(format!(
            "{} was measured taking turns on one CPU, and has CPUs of its own here",
            app.name()
        ));
        return comparison;
    }
    match term {
        None => {
            let note = format!("{}: not in its profile", app.name());
            comparison.not_known.push(note);
        }
        Some(term) => {
            comparison.app_tolerates = term.tolerated();
            comparison.app_causes = term.caused();
            if term.tolerated.is_none() || term.caused.is_none() {
                let note = format!("{}: {}", app.name(), term.missing);
                comparison.not_known.push(note);
            }
        }
    }
    for (_, resident) in state.residents() {
        let why = match resident.terms().get(id) {
            None => "not in its profile".to_string(),
            Some(term) if !counted(term) => "measured taking turns on one CPU only".to_string(),
            Some(term) if term.tolerated.is_none() || term.caused.is_none() => term.missing.clone(),
            Some(_) => continue,
        };
        let note = format!("{}: {why}", resident.name());
        if !comparison.not_known.contains(&note) {
            comparison.not_known.push(note);
        }
    }
    if state.is_empty() {
        comparison.node_tolerates = Some(100.0);
        comparison.node_causes = Some(0.0);
    } else if let Some(aggregate) = state.aggregates().get(id) {
        comparison.node_tolerates = aggregate.tolerated();
        comparison.node_causes = aggregate.caused();
    }
    let difference = |t: Option<f64>, c: Option<f64>| Some(t? - c?);
    comparison.d1 = difference(comparison.node_tolerates, comparison.app_causes);
    comparison.d2 = difference(comparison.app_tolerates, comparison.node_causes);
    comparison
}
