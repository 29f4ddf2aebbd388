//! Nodes, what runs on them, and the sums a policy needs, kept up to date.

mod follow;
pub(crate) mod free_units;
pub(crate) mod ids;
pub(crate) mod node_list;
pub(crate) mod node_set;
pub(crate) mod summary;

use crate::app::App;
use crate::app::Demand;
use crate::cluster::free_units::FreeUnits;
use crate::cluster::node_list::NodeList;
use crate::cluster::node_set::NodeSet;
use crate::cluster::summary::NodeAggregates;
use crate::cluster::summary::NodeSummary;
use crate::predict::Lanes;
use std::collections::HashMap;
use std::sync::Arc;

pub use crate::error::ClusterError;
use crate::error::MOST_CPUS_IN_ALL;
use crate::error::MOST_NODES;
pub use ids::NodeId;
pub use ids::PlatformId;
pub use ids::ResidentId;

/// A machine that applications can be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// CPUs it offers, at least 1.
    pub cpus: u32,
    pub memory_bytes: u64,
    /// CPU model, to be compared with the one a profile was measured on.
    pub platform: Option<String>,
    /// True when applications take turns on its CPUs instead of having CPUs of
    /// their own. Decides which resources count (see the module's text).
    pub shares_cpus: bool,
}

/// An application where it runs.
#[derive(Clone, Debug)]
pub struct Resident {
    pub app: Arc<App>,
    pub node: NodeId,
    pub demand: Demand,
    generation: u32,
    /// Its place in the node's list.
    place: u32,
}

/// Nodes that are the same while empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    cpus: u32,
    memory_bytes: u64,
    platform: PlatformId,
    shares_cpus: bool,
}

/// What is rarely read of a node.
#[derive(Clone, Debug)]
struct NodeState {
    node: Arc<Node>,
    kind: u32,
    residents: Vec<u32>,
    aggregates: Box<NodeAggregates>,
    cpus_used: u64,
    memory_used: u128,
}

/// Nodes in the order they were given, what runs on them, and indexes: which
/// are empty, which have room, which units are free.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    summaries: Vec<NodeSummary>,
    states: Vec<NodeState>,
    by_name: HashMap<String, NodeId>,
    platforms: Vec<String>,
    kinds: Vec<Kind>,
    residents: Vec<Option<Resident>>,
    vacant: Vec<u32>,
    generation: u32,
    running: usize,
    units: FreeUnits,
    /// Per kind, the empty nodes that are up.
    empty: Vec<NodeList>,
    /// Nodes that run something and have a CPU free.
    open: NodeList,
    /// The same as a set, to go through in the order in which rows lie in
    /// memory.
    open_set: NodeSet,
}

/// The name of the platform of nodes that do not say theirs.
const UNNAMED: &str = "";

impl Cluster {
    /// A cluster of `nodes`, all of them up and empty.
    ///
    /// # Errors
    ///
    /// [`ClusterError::DuplicateNode`], [`ClusterError::NoCpu`],
    /// [`ClusterError::Platforms`].
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Result<Self, ClusterError> {
        let mut cluster = Cluster::default();
        for node in nodes {
            cluster.add_node(node)?;
        }
        Ok(cluster)
    }

    /// A further node, up and empty.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, ClusterError> {
        if node.cpus == 0 {
            return Err(ClusterError::NoCpu(node.name));
        }
        if self.by_name.contains_key(&node.name) {
            return Err(ClusterError::DuplicateNode(node.name));
        }
        if self.summaries.len() >= MOST_NODES {
            return Err(ClusterError::TooManyNodes { node: node.name });
        }
        if self.units.total() + node.cpus as usize > MOST_CPUS_IN_ALL {
            return Err(ClusterError::TooManyCpus { node: node.name });
        }
        let platform = self.add_platform(node.platform.as_deref().unwrap_or(UNNAMED))?;
        let kind = Kind {
            cpus: node.cpus,
            memory_bytes: node.memory_bytes,
            platform,
            shares_cpus: node.shares_cpus,
        };
        let known = self.kinds.iter().position(|known| *known == kind);
        let kind_index = known.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.empty.push(NodeList::default());
            self.kinds.len() - 1
        });
        let id = NodeId(self.summaries.len() as u32);
        self.by_name.insert(node.name.clone(), id);
        self.summaries.push(NodeSummary::empty(
            node.cpus,
            node.memory_bytes,
            platform,
            node.shares_cpus,
        ));
        self.units.add_node(id, node.cpus);
        self.states.push(NodeState {
            node: Arc::new(node),
            kind: kind_index as u32,
            residents: Vec::new(),
            aggregates: Box::default(),
            cpus_used: 0,
            memory_used: 0,
        });
        self.empty[kind_index].insert(id);
        Ok(id)
    }

    /// The platform type called `name`, made known if it was not: so that an
    /// application's speed there can be told before a node of it comes.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Platforms`].
    pub fn add_platform(&mut self, name: &str) -> Result<PlatformId, ClusterError> {
        if let Some(known) = self.platform(name) {
            return Ok(known);
        }
        let most = usize::from(u16::MAX);
        if self.platforms.len() >= most {
            return Err(ClusterError::Platforms(most));
        }
        self.platforms.push(name.into());
        Ok(PlatformId::nth(self.platforms.len() - 1))
    }

    /// Names of the platform types, by [`PlatformId`]; an empty one is that of
    /// nodes that do not say theirs.
    pub fn platforms(&self) -> &[String] {
        &self.platforms
    }

    /// The platform type called `name`.
    pub fn platform(&self, name: &str) -> Option<PlatformId> {
        let place = self.platforms.iter().position(|known| known == name);
        place.map(PlatformId::nth)
    }

    /// Nodes, up or down.
    pub fn len(&self) -> usize {
        self.summaries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.summaries.is_empty()
    }

    /// Every node in the order of adding.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.summaries.len() as u32).map(NodeId)
    }

    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// What decisions read of every node, by [`NodeId::index`].
    pub fn summaries(&self) -> &[NodeSummary] {
        &self.summaries
    }

    pub fn summary(&self, node: NodeId) -> &NodeSummary {
        &self.summaries[node.index()]
    }

    pub fn node(&self, node: NodeId) -> &Node {
        &self.states[node.index()].node
    }

    pub fn name(&self, node: NodeId) -> &str {
        &self.node(node).name
    }

    /// What runs on `node`, in no order.
    pub fn residents(&self, node: NodeId) -> impl Iterator<Item = (ResidentId, &Resident)> + Clone {
        self.states[node.index()]
            .residents
            .iter()
            .filter_map(|slot| {
                let resident = self.residents[*slot as usize].as_ref()?;
                let id = ResidentId {
                    slot: *slot,
                    generation: resident.generation,
                };
                Some((id, resident))
            })
    }

    /// `None` once it has left.
    pub fn resident(&self, id: ResidentId) -> Option<&Resident> {
        let resident = self.residents.get(id.slot as usize)?.as_ref()?;
        (resident.generation == id.generation).then_some(resident)
    }

    /// How many applications run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// CPUs asked for by the residents of `node`; more than it has when what
    /// already ran there was recorded so.
    pub fn cpus_used(&self, node: NodeId) -> u64 {
        self.states[node.index()].cpus_used
    }

    /// Bytes asked for by the residents of `node`.
    pub fn memory_used(&self, node: NodeId) -> u128 {
        self.states[node.index()].memory_used
    }

    /// Sum over the residents of `node` of `c` × CPUs, in steps: what its
    /// occupied units cause, each as much as its application.
    pub fn caused_by_units(&self, node: NodeId) -> &Lanes<i64> {
        &self.states[node.index()].aggregates.by_units
    }

    /// The free resource units.
    pub fn units(&self) -> &FreeUnits {
        &self.units
    }

    /// Nodes that run something, are up and have a CPU free, in no order.
    pub fn open(&self) -> &[NodeId] {
        self.open.members()
    }

    /// The same nodes as a set.
    pub fn open_set(&self) -> &NodeSet {
        &self.open_set
    }

    /// Per kind of node (CPUs, memory, platform, sharing), the empty nodes that
    /// are up, in no order. Those of one kind are alike for every decision.
    pub fn empty_by_kind(&self) -> impl Iterator<Item = &[NodeId]> {
        self.empty.iter().map(NodeList::members)
    }

    /// Share of CPUs not asked for, 0–1.
    pub fn free_cpu_fraction(&self, node: NodeId) -> f64 {
        let summary = self.summary(node);
        f64::from(summary.free_cpus) / f64::from(summary.cpus.max(1))
    }

    /// Share of memory not asked for, 0–1; 0 for a node without memory.
    pub fn free_memory_fraction(&self, node: NodeId) -> f64 {
        match self.node(node).memory_bytes {
            0 => 0.0,
            memory => self.summary(node).free_memory as f64 / memory as f64,
        }
    }

    /// Whether `demand` fits on `node` now.
    pub fn fits(&self, node: NodeId, demand: Demand) -> bool {
        // One branch in place of three: which of them decides is hard to
        // predict.
        let summary = self.summary(node);
        summary.up
            & (summary.free_cpus >= demand.cpus)
            & (summary.free_memory >= demand.memory_bytes)
    }

    /// Whether `demand` would fit on `node`, which is up, if it were empty.
    pub(crate) fn could_fit(&self, node: NodeId, demand: Demand) -> bool {
        let summary = self.summary(node);
        summary.up
            && summary.cpus >= demand.cpus
            && self.node(node).memory_bytes >= demand.memory_bytes
    }

    /// Whether `demand` would fit on some node if it were up and empty.
    pub fn could_ever_fit(&self, demand: Demand) -> bool {
        self.kinds
            .iter()
            .any(|kind| kind.cpus >= demand.cpus && kind.memory_bytes >= demand.memory_bytes)
    }

    /// Why `demand` does not fit on `node`, or `None` when it does.
    pub fn lacks(&self, node: NodeId, demand: Demand) -> Option<String> {
        let summary = self.summary(node);
        if !summary.up {
            Some("is down".into())
        } else if demand.cpus > summary.free_cpus {
            Some(format!(
                "{} of {} CPUs free, {} needed",
                summary.free_cpus, summary.cpus, demand.cpus
            ))
        } else if demand.memory_bytes > summary.free_memory {
            Some(format!(
                "{} free of {} memory, {} needed",
                gib(summary.free_memory),
                gib(self.node(node).memory_bytes),
                gib(demand.memory_bytes)
            ))
        } else {
            None
        }
    }

    /// Starts `app` on `node` with its usual demand, within its capacity.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Down`], [`ClusterError::NoRoom`].
    pub fn admit(&mut self, node: NodeId, app: Arc<App>) -> Result<ResidentId, ClusterError> {
        let demand = app.demand();
        self.admit_as(node, app, demand)
    }

    /// Starts `app` on `node` with `demand`.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Down`], [`ClusterError::NoRoom`].
    pub fn admit_as(
        &mut self,
        node: NodeId,
        app: Arc<App>,
        demand: Demand,
    ) -> Result<ResidentId, ClusterError> {
        if !self.fits(node, demand) {
            let name = self.name(node).to_string();
            return Err(match self.summary(node).up {
                false => ClusterError::Down(name),
                true => ClusterError::NoRoom {
                    node: name,
                    app: app.name().into(),
                    lacks: self.lacks(node, demand).unwrap_or_default(),
                },
            });
        }
        Ok(self.record(node, app, demand))
    }

    /// Notes that `app` already runs on `node`, whether it fits or not.
    pub fn record(&mut self, node: NodeId, app: Arc<App>, demand: Demand) -> ResidentId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.residents.push(None);
            (self.residents.len() - 1) as u32
        });
        self.generation = self.generation.wrapping_add(1);
        let at = node.index();
        let (summary, state) = (&mut self.summaries[at], &mut self.states[at]);
        summary.add(&mut state.aggregates, &app, demand.cpus);
        let resident = Resident {
            app,
            node,
            demand,
            generation: self.generation,
            place: state.residents.len() as u32,
        };
        state.residents.push(slot);
        state.cpus_used += u64::from(demand.cpus);
        state.memory_used += u128::from(demand.memory_bytes);
        self.residents[slot as usize] = Some(resident);
        self.running += 1;
        self.settle(node);
        ResidentId {
            slot,
            generation: self.generation,
        }
    }

    /// Ends `id` and returns it; `None` when it does not run.
    pub fn remove(&mut self, id: ResidentId) -> Option<Resident> {
        self.resident(id)?;
        let resident = self.residents[id.slot as usize].take()?;
        self.vacant.push(id.slot);
        self.running -= 1;
        let node = resident.node;
        let at = node.index();
        let (summary, state) = (&mut self.summaries[at], &mut self.states[at]);
        state.residents.swap_remove(resident.place as usize);
        if let Some(moved) = state.residents.get(resident.place as usize)
            && let Some(moved) = self.residents[*moved as usize].as_mut()
        {
            moved.place = resident.place;
        }
        state.cpus_used -= u64::from(resident.demand.cpus);
        state.memory_used -= u128::from(resident.demand.memory_bytes);
        let others = state
            .residents
            .iter()
            .filter_map(|slot| self.residents[*slot as usize].as_ref())
            .map(|resident| resident.app.as_ref());
        summary.remove(
            &mut state.aggregates,
            &resident.app,
            resident.demand.cpus,
            others,
        );
        self.settle(node);
        Some(resident)
    }

    /// Gives `id` another profile where it runs, as after a change of phase;
    /// the old one, or `None` when it does not run. O(resources).
    pub fn replace(&mut self, id: ResidentId, app: Arc<App>) -> Option<Arc<App>> {
        self.resident(id)?;
        let resident = self.residents[id.slot as usize].as_mut()?;
        let (node, cpus) = (resident.node, resident.demand.cpus);
        let old = std::mem::replace(&mut resident.app, app);
        let at = node.index();
        let (summary, state) = (&mut self.summaries[at], &mut self.states[at]);
        let others = state
            .residents
            .iter()
            .filter(|slot| **slot != id.slot)
            .filter_map(|slot| self.residents[*slot as usize].as_ref())
            .map(|resident| resident.app.as_ref());
        summary.remove(&mut state.aggregates, &old, cpus, others);
        if let Some(resident) = self.residents[id.slot as usize].as_ref() {
            summary.add(&mut state.aggregates, &resident.app, cpus);
        }
        Some(old)
    }

    /// Takes `node` out of service; what ran there has to go elsewhere. Nothing
    /// is returned for a node that is down already.
    pub fn take_down(&mut self, node: NodeId) -> Vec<(ResidentId, Resident)> {
        if !self.summary(node).up {
            return Vec::new();
        }
        let ids: Vec<ResidentId> = self.residents(node).map(|(id, _)| id).collect();
        let evicted = ids
            .into_iter()
            .filter_map(|id| Some((id, self.remove(id)?)))
            .collect();
        self.summaries[node.index()].up = false;
        self.settle(node);
        evicted
    }

    /// Puts `node` back into service with all its CPUs.
    pub fn bring_up(&mut self, node: NodeId) {
        self.summaries[node.index()].up = true;
        self.set_cpus(node, self.node(node).cpus);
    }

    /// One CPU of `node` breaks. When its residents now ask for more than is
    /// left, [`NodeSummary::cpus`] is below [`Self::cpus_used`] and somebody must go.
    pub fn break_cpu(&mut self, node: NodeId) {
        self.set_cpus(node, self.summary(node).cpus.saturating_sub(1));
    }

    /// One broken CPU of `node` works again.
    pub fn repair_cpu(&mut self, node: NodeId) {
        let all = self.node(node).cpus;
        self.set_cpus(node, (self.summary(node).cpus + 1).min(all));
    }

    fn set_cpus(&mut self, node: NodeId, cpus: u32) {
        self.summaries[node.index()].cpus = cpus;
        self.settle(node);
    }

    /// Brings what is free and the indexes in line after a change of `node`.
    fn settle(&mut self, node: NodeId) {
        let at = node.index();
        let (summary, state) = (&mut self.summaries[at], &self.states[at]);
        let before = summary.free_cpus;
        summary.set_free(state.node.memory_bytes, state.cpus_used, state.memory_used);
        summary.version = summary.version.wrapping_add(1);
        self.index(node, before);
    }

    /// Brings the indexes in line with the row of `node`, which had `before`
    /// CPUs free.
    fn index(&mut self, node: NodeId, before: u32) {
        let (summary, state) = (&self.summaries[node.index()], &self.states[node.index()]);
        let whole = summary.cpus == state.node.cpus;
        let empty = summary.up && summary.residents == 0 && whole;
        let open = summary.up && summary.free_cpus > 0 && !empty;
        self.units.set_free(node, before, summary.free_cpus);
        self.empty[state.kind as usize].set(node, empty);
        self.open.set(node, open);
        match open {
            true => self.open_set.insert(node),
            false => self.open_set.remove(node),
        }
    }

    /// The row of `node` computed afresh from its residents; equal to
    /// [`Self::summary`] but for its version, whatever was added and removed before.
    pub fn recomputed(&self, node: NodeId) -> NodeSummary {
        let (old, memory_bytes) = (self.summary(node), self.node(node).memory_bytes);
        let mut summary = NodeSummary::empty(old.cpus, memory_bytes, old.platform, old.shares_cpus);
        let mut aggregates = NodeAggregates::default();
        let (mut cpus, mut memory) = (0u64, 0u128);
        for (_, resident) in self.residents(node) {
            summary.add(&mut aggregates, &resident.app, resident.demand.cpus);
            cpus += u64::from(resident.demand.cpus);
            memory += u128::from(resident.demand.memory_bytes);
        }
        summary.up = old.up;
        summary.set_free(memory_bytes, cpus, memory);
        summary.version = old.version;
        summary
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
