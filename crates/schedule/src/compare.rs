//! One application against one node, resource by resource.

use crate::app::App;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::summary::NodeSummary;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;
use crate::predict::resource_id;
use jostle_profile::resource::Resource;
use serde::Serialize;

/// Both directions on one resource. All numbers are points of the 0–100 scale;
/// a node's `causes` is a sum and may pass 100.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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

/// The resources on which D1 of `app` on the node of `row` is known, and those
/// on which D2 is.
#[inline]
pub fn known_directions(app: &App, summary: &NodeSummary) -> (LaneSet, LaneSet) {
    let counted = app.counted(summary.shares_cpus);
    (
        app.caused_known.and(summary.tolerated_known).and(counted),
        app.tolerated_known.and(summary.caused_known).and(counted),
    )
}

/// The resources on which D1 of `app` on the node of `row` is below zero, and
/// those on which D2 is; what is not known or does not count is never below.
#[inline]
pub fn below_zero(app: &App, summary: &NodeSummary) -> (LaneSet, LaneSet) {
    const BITS: Lanes<u32> = {
        let mut bits = [0; LANES];
        let mut lane = 0;
        while lane < LANES {
            bits[lane] = 1 << lane;
            lane += 1;
        }
        bits
    };
    let d1 = below(&summary.tolerated, &app.caused, &BITS);
    let d2 = below(&app.tolerated, &summary.caused, &BITS);
    let (known1, known2) = known_directions(app, summary);
    (
        LaneSet::from_bits(d1).and(known1),
        LaneSet::from_bits(d2).and(known2),
    )
}

/// Steps by which D1 and D2 of the node of `summary` are below zero, all
/// resources together.
pub(crate) fn overrun(app: &App, summary: &NodeSummary) -> i64 {
    let (d1, d2) = below_zero(app, summary);
    let residents = d1.iter().map(|at| app.caused[at] - summary.tolerated[at]);
    let newcomer = d2.iter().map(|at| summary.caused[at] - app.tolerated[at]);
    residents.chain(newcomer).map(i64::from).sum()
}

/// The `bits` of the lanes on which `t` is below `c`. The sign of the
/// difference fills a word, so that there is no branch on it: it would be
/// mispredicted half the time.
// On its own it is compiled to vector instructions; inlined into a search, half
// of it was not.
#[inline(never)]
pub(crate) fn below(t: &Lanes<i32>, c: &Lanes<i32>, bits: &Lanes<u32>) -> u32 {
    let (t, t_rest) = t.as_chunks::<WIDTH>();
    let (c, c_rest) = c.as_chunks::<WIDTH>();
    let (bits, bits_rest) = bits.as_chunks::<WIDTH>();
    let one = |t: i32, c: i32, bit: u32| (t.wrapping_sub(c) >> 31) as u32 & bit;
    let mut found = [0u32; WIDTH];
    for ((t, c), bits) in t.iter().zip(c).zip(bits) {
        for lane in 0..WIDTH {
            found[lane] |= one(t[lane], c[lane], bits[lane]);
        }
    }
    let mut all = found.iter().fold(0, |all, bits| all | bits);
    for ((t, c), bit) in t_rest.iter().zip(c_rest).zip(bits_rest) {
        all |= one(*t, *c, *bit);
    }
    all
}

/// Lanes that go through one operation together: the width that any 64-bit
/// machine has.
const WIDTH: usize = 4;

/// `app` against the residents of `node`, for every resource either knows of,
/// in the order of resource ids.
pub fn compare(app: &App, cluster: &Cluster, node: NodeId) -> Vec<Comparison> {
    let mentioned = |lane: &usize| {
        let mut residents = cluster.residents(node);
        app.mentions(*lane) || residents.any(|(_, resident)| resident.app.mentions(*lane))
    };
    let mut lanes: Vec<usize> = (0..LANES).filter(mentioned).collect();
    lanes.sort_by_key(|lane| resource_id(*lane));
    let lanes = lanes.into_iter();
    lanes.map(|lane| one(app, cluster, node, lane)).collect()
}

fn one(app: &App, cluster: &Cluster, node: NodeId, at: usize) -> Comparison {
    let summary = cluster.summary(node);
    let mut comparison = Comparison {
        resource: resource_id(at).into(),
        ..Comparison::default()
    };
    if at == Resource::CpuTime as usize && !summary.shares_cpus {
        comparison.not_counted = Some("each application has CPUs of its own here".into());
        return comparison;
    }
    if app.mentions(at) && !app.counted(summary.shares_cpus).contains(at) {
        comparison.not_counted = Some(format!(
            "{} was measured taking turns on one CPU, and has CPUs of its own here",
            app.name()
        ));
        return comparison;
    }
    let known = |set: LaneSet, steps: i32| set.contains(at).then(|| to_points(steps));
    comparison.app_tolerates = known(app.tolerated_known, app.tolerated[at]);
    comparison.app_causes = known(app.caused_known, app.caused[at]);
    comparison.node_tolerates = known(summary.tolerated_known, summary.tolerated[at]);
    comparison.node_causes = known(summary.caused_known, summary.caused[at]);
    if let Some(why) = app.missing(at) {
        comparison.not_known.push(format!("{}: {why}", app.name()));
    }
    let mut residents: Vec<_> = cluster.residents(node).collect();
    residents.sort_by_key(|(id, _)| *id);
    for (_, resident) in residents {
        let resident = resident.app.as_ref();
        let why = if resident.mentions(at) && !resident.counted(summary.shares_cpus).contains(at) {
            "measured taking turns on one CPU only"
        } else if let Some(why) = resident.missing(at) {
            why
        } else {
            continue;
        };
        let note = format!("{}: {why}", resident.name());
        if !comparison.not_known.contains(&note) {
            comparison.not_known.push(note);
        }
    }
    let difference = |t: Option<f64>, c: Option<f64>| Some(t? - c?);
    comparison.d1 = difference(comparison.node_tolerates, comparison.app_causes);
    comparison.d2 = difference(comparison.app_tolerates, comparison.node_causes);
    comparison
}
