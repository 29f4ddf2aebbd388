//! What performance is expected of the residents of the node, and of a newcomer
//! beside them.

use super::shared::Shared;
use crate::agent::board::Published;
use jostle_profile::reading::Reading;
use jostle_schedule::App;
use jostle_schedule::predict;
use jostle_schedule::predict::Basis;
use jostle_schedule::predict::Prediction;
use jostle_schedule::predict::Subject;
use serde::Serialize;
use std::sync::Arc;

/// What is expected of one program beside the others.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Expected {
    /// Of the workload; of the profile for a newcomer.
    pub name: String,
    /// Fraction of its performance without interference.
    pub performance: Reading<ExpectedPerformance>,
    /// The same without the newcomer; absent for the newcomer itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_without: Option<Reading<ExpectedPerformance>>,
    /// Fraction that it must keep.
    pub qos_threshold: f64,
    /// Resource on which the others are expected to cost it most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costliest_resource: Option<String>,
    /// Resources on which others apply pressure, costliest first.
    pub resources: Vec<ExpectedOnResource>,
    /// What would matter and is unknown; the numbers do not include it.
    pub unknown: Vec<String>,
}

/// A fraction of the performance without interference.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExpectedPerformance {
    pub value: f64,
    pub ci95: [f64; 2],
    /// Chance that it keeps its QoS threshold, 0 to 1.
    pub chance_of_qos: f64,
    /// Whether nothing of it was measured: it is what other programs would do.
    pub from_other_programs: bool,
}

/// The part of one resource.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExpectedOnResource {
    pub resource: String,
    /// Pressure of all others, 0 to 100.
    pub pressure: f64,
    /// Fraction that would be left if only this resource were shared.
    pub performance: f64,
    pub ci95: [f64; 2],
    /// Whether a part of it is what other programs would do.
    pub assumed: bool,
}

/// A program that runs here, in the form that predictions read.
pub struct Member {
    pub name: String,
    pub app: Arc<App>,
    pub qos: f64,
}

/// A workload about which nothing can be predicted.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftOut {
    pub workload: String,
    pub reason: String,
}

/// The workloads of the node that have a profile, and those that do not.
pub fn residents(shared: &Shared, published: &Published) -> (Vec<Member>, Vec<LeftOut>) {
    shared.apps.keep(&shared.store.names());
    let (mut members, mut left_out) = (Vec::new(), Vec::new());
    for workload in &published.state.workloads {
        let found = match &workload.profile {
            Reading::Unavailable { unavailable } => Err(unavailable.clone()),
            Reading::Value(summary) => shared
                .store
                .get(&summary.name)
                .map(|profile| (&summary.name, profile))
                .ok_or_else(|| format!("profile \"{}\" is gone from the store", summary.name)),
        };
        match found {
            Ok((name, profile)) => {
                let qos = profile.qos.threshold;
                let qos = workload
                    .performance
                    .value()
                    .map_or(qos, |it| it.qos_threshold);
                members.push(Member {
                    name: workload.name.clone(),
                    app: shared.apps.of(name, profile),
                    qos,
                });
            }
            Err(reason) => left_out.push(LeftOut {
                workload: workload.name.clone(),
                reason,
            }),
        }
    }
    (members, left_out)
}

/// What is expected of all of `members` on one machine.
pub fn together(members: &[Member], shares_cpus: bool) -> Vec<Expected> {
    let subjects: Vec<Subject> = members
        .iter()
        .map(|member| Subject {
            name: &member.name,
            responses: &member.app.responses,
            counted: member.app.counted(shares_cpus),
            qos: member.qos,
        })
        .collect();
    let predictions = predict::co_location(&subjects, shares_cpus);
    predictions.iter().map(expected).collect()
}

fn expected(prediction: &Prediction) -> Expected {
    let gaps = prediction.not_known.iter();
    let gaps = gaps.map(|gap| format!("{} on {}: {}", gap.whose, gap.resource, gap.why));
    let resources = prediction.resources.iter();
    let resources = resources.map(|on| ExpectedOnResource {
        resource: on.resource.into(),
        pressure: on.pressure,
        performance: on.performance,
        ci95: on.ci95,
        assumed: on.assumed,
    });
    Expected {
        name: prediction.name.clone(),
        performance: performance(prediction),
        performance_without: None,
        qos_threshold: prediction.qos,
        costliest_resource: prediction.most_costly.map(str::to_string),
        resources: resources.collect(),
        unknown: gaps.collect(),
    }
}

fn performance(prediction: &Prediction) -> Reading<ExpectedPerformance> {
    let parts = (
        prediction.performance,
        prediction.ci95,
        prediction.chance_of_qos,
    );
    let (Some(value), Some(ci95), Some(chance_of_qos)) = parts else {
        return Reading::unavailable("its profile has no sensitivity curve");
    };
    Reading::Value(ExpectedPerformance {
        value,
        ci95,
        chance_of_qos,
        from_other_programs: prediction.basis == Basis::Population,
    })
}
