//! The numbers of a node that decisions read, close together.

use crate::app::App;
use crate::app::FULL_SCALE;
use crate::cluster::ids::PlatformId;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;

/// What a node's residents amount to, and what is free there. A decision that
/// looks at every node reads nothing else: whole cache lines,
/// three of them with nineteen resources.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct NodeSummary {
    /// Least of the residents' `t`, in steps; the full scale where none is known.
    pub tolerated: Lanes<i32>,
    /// Sum of the residents' `c`, in steps; may pass the full scale.
    pub caused: Lanes<i32>,
    /// Resources of which a `t` is known; all of them on an empty node.
    pub tolerated_known: LaneSet,
    /// Likewise of `c`.
    pub caused_known: LaneSet,
    pub free_cpus: u32,
    /// CPUs that are not broken.
    pub cpus: u32,
    pub free_memory: u64,
    pub residents: u32,
    /// Grows with every change of this node.
    pub version: u32,
    pub platform: PlatformId,
    pub up: bool,
    pub shares_cpus: bool,
}

/// What only the bookkeeping of a node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAggregates {
    /// How many residents hold the least `t`.
    least_held: Lanes<u16>,
    tolerated_by: Lanes<u16>,
    caused_by: Lanes<u16>,
    /// Sum over residents of `c` × CPUs, in steps: what its units cause.
    pub(crate) by_units: Lanes<i64>,
}

impl Default for NodeAggregates {
    fn default() -> Self {
        NodeAggregates {
            least_held: [0; LANES],
            tolerated_by: [0; LANES],
            caused_by: [0; LANES],
            by_units: [0; LANES],
        }
    }
}

impl NodeSummary {
    pub(crate) fn empty(cpus: u32, memory: u64, platform: PlatformId, shares_cpus: bool) -> Self {
        NodeSummary {
            tolerated: [FULL_SCALE; LANES],
            caused: [0; LANES],
            tolerated_known: LaneSet::ALL,
            caused_known: LaneSet::ALL,
            free_cpus: cpus,
            cpus,
            free_memory: memory,
            residents: 0,
            version: 0,
            platform,
            up: true,
            shares_cpus,
        }
    }

    /// Adds the scores of `app` on `cpus` CPUs: O(resources).
    pub(crate) fn add(&mut self, aggregates: &mut NodeAggregates, app: &App, cpus: u32) {
        let counted = app.counted(self.shares_cpus);
        for lane in app.tolerated_known.and(counted).iter() {
            let tolerated = app.tolerated[lane];
            aggregates.tolerated_by[lane] += 1;
            if aggregates.tolerated_by[lane] == 1 || tolerated < self.tolerated[lane] {
                self.tolerated[lane] = tolerated;
                aggregates.least_held[lane] = 1;
            } else if tolerated == self.tolerated[lane] {
                aggregates.least_held[lane] += 1;
            }
        }
        for lane in app.caused_known.and(counted).iter() {
            self.caused[lane] += app.caused[lane];
            aggregates.caused_by[lane] += 1;
            aggregates.by_units[lane] += i64::from(app.caused[lane]) * i64::from(cpus);
        }
        self.residents += 1;
        self.note_known(aggregates);
    }

    /// Takes the scores of `app` out again; `others` are the residents left.
    /// O(resources), and for each resource on which it alone held the least
    /// `t`, a look at the others: with n of them that is one chance in n, so
    /// that the expected work stays O(resources).
    pub(crate) fn remove<'a>(
        &mut self,
        aggregates: &mut NodeAggregates,
        app: &App,
        cpus: u32,
        others: impl Iterator<Item = &'a App> + Clone,
    ) {
        let counted = app.counted(self.shares_cpus);
        for lane in app.tolerated_known.and(counted).iter() {
            aggregates.tolerated_by[lane] -= 1;
            if app.tolerated[lane] == self.tolerated[lane] {
                aggregates.least_held[lane] -= 1;
            }
            if aggregates.least_held[lane] == 0 {
                let (mut least, mut held) = (FULL_SCALE, 0);
                for other in others.clone() {
                    let known = other.tolerated_on(self.shares_cpus);
                    if known.contains(lane) {
                        let tolerated = other.tolerated[lane];
                        if held == 0 || tolerated < least {
                            (least, held) = (tolerated, 1);
                        } else if tolerated == least {
                            held += 1;
                        }
                    }
                }
                self.tolerated[lane] = least;
                aggregates.least_held[lane] = held;
            }
        }
        for lane in app.caused_known.and(counted).iter() {
            self.caused[lane] -= app.caused[lane];
            aggregates.caused_by[lane] -= 1;
            aggregates.by_units[lane] -= i64::from(app.caused[lane]) * i64::from(cpus);
        }
        self.residents -= 1;
        self.note_known(aggregates);
    }

    /// Brings what is free in line with what is used of the CPUs and of
    /// `memory_bytes`.
    pub(crate) fn set_free(&mut self, memory_bytes: u64, cpus_used: u64, memory_used: u128) {
        let free = u64::from(self.cpus).saturating_sub(cpus_used);
        self.free_cpus = if self.up { free as u32 } else { 0 };
        self.free_memory = u128::from(memory_bytes).saturating_sub(memory_used) as u64;
    }

    fn note_known(&mut self, aggregates: &NodeAggregates) {
        if self.residents == 0 {
            self.tolerated_known = LaneSet::ALL;
            self.caused_known = LaneSet::ALL;
        } else {
            let of = |counts: &Lanes<u16>| (0..LANES).filter(|lane| counts[*lane] > 0).collect();
            self.tolerated_known = of(&aggregates.tolerated_by);
            self.caused_known = of(&aggregates.caused_by);
        }
        self.version = self.version.wrapping_add(1);
    }
}
