//! The last refreshes of every workload: a ring of numbers each, for plots.

use jostle_profile::node::NodeState;
use jostle_profile::node::WorkloadState;
use jostle_profile::reading::Reading;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Most refreshes that are kept.
pub const MOST_POINTS: usize = 360;

/// How a workload did over the last refreshes, oldest first. All lists have the same
/// length; null where a number was unavailable.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trend {
    /// When each refresh was, seconds since 1970.
    pub unix_seconds: Vec<f64>,
    /// 100 for one CPU.
    pub cpu_percent: Vec<Option<f32>>,
    /// Share of the time in which some task of it waited (PSI).
    pub psi_cpu_some_percent: Vec<Option<f32>>,
    pub psi_memory_some_percent: Vec<Option<f32>>,
    pub psi_io_some_percent: Vec<Option<f32>>,
    /// 1 is as usual, lower is slower.
    pub relative_performance: Vec<Option<f32>>,
}

/// Those of all workloads of the newest state.
#[derive(Default)]
pub(super) struct Trends {
    rings: BTreeMap<String, VecDeque<Point>>,
}

/// One refresh; not a number where unavailable, which takes half the memory of an
/// option.
struct Point {
    unix_seconds: f64,
    values: [f32; 5],
}

impl Trends {
    /// Adds what `state`, read at `now`, says, and forgets workloads that it does
    /// not mention.
    pub(super) fn add(&mut self, state: &NodeState, now: SystemTime) {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut before = std::mem::take(&mut self.rings);
        for workload in &state.workloads {
            let (name, mut ring) = before
                .remove_entry(&workload.name)
                .unwrap_or_else(|| (workload.name.clone(), VecDeque::new()));
            if ring.len() == MOST_POINTS {
                ring.pop_front();
            }
            ring.push_back(Point {
                unix_seconds: since.as_secs_f64(),
                values: values(workload),
            });
            self.rings.insert(name, ring);
        }
    }

    pub(super) fn of(&self, name: &str) -> Option<Trend> {
        let ring = self.rings.get(name)?;
        let value = |index: usize| {
            let values = ring.iter().map(move |point| point.values[index]);
            values.map(|value| Some(value).filter(|it| it.is_finite()))
        };
        Some(Trend {
            unix_seconds: ring.iter().map(|point| point.unix_seconds).collect(),
            cpu_percent: value(0).collect(),
            psi_cpu_some_percent: value(1).collect(),
            psi_memory_some_percent: value(2).collect(),
            psi_io_some_percent: value(3).collect(),
            relative_performance: value(4).collect(),
        })
    }
}

fn values(workload: &WorkloadState) -> [f32; 5] {
    let number = |reading: &Reading<f64>| reading.value().map_or(f32::NAN, |it| *it as f32);
    let readings = &workload.readings;
    let performance = workload.performance.value();
    [
        number(&readings.cpu_percent),
        number(&readings.psi_cpu_some_percent),
        number(&readings.psi_memory_some_percent),
        number(&readings.psi_io_some_percent),
        performance.map_or(f32::NAN, |it| number(&it.relative)),
    ]
}
