//! Nodes, what runs on them, and the sums a policy needs, kept up to date.

use super::app::App;
use super::app::Term;
use super::app::points;
use super::decision::NoPlacement;
use super::decision::NodeReason;
use crate::resource;
use crate::resource::Domain;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

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

impl Node {
    /// Whether a score for `resource` says something about neighbours here.
    pub(super) fn counts(&self, resource: &str, term: &Term) -> bool {
        let core_private = resource::find(resource).is_some_and(|resource| {
            matches!(
                resource.domain,
                Domain::LogicalCpu | Domain::PhysicalCore | Domain::L2Group
            )
        });
        self.shares_cpus || !(resource == "cpu-time" || (term.same_cpu && core_private))
    }
}

/// One application running on one node; unique in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResidentId(u64);

/// What the residents of a node amount to on one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    caused: i64,
    caused_by: usize,
    /// How many residents tolerate this much: a minimum that can be undone.
    tolerated: BTreeMap<i64, usize>,
}

impl Aggregate {
    /// Sum of the residents' `c`, over those that have one; may pass 100.
    pub fn caused(&self) -> Option<f64> {
        (self.caused_by > 0).then(|| points(self.caused))
    }

    /// Least of the residents' `t`, over those that have one.
    pub fn tolerated(&self) -> Option<f64> {
        self.tolerated.keys().next().map(|least| points(*least))
    }

    fn add(&mut self, term: &Term) {
        if let Some(caused) = term.caused {
            self.caused += caused;
            self.caused_by += 1;
        }
        if let Some(tolerated) = term.tolerated {
            *self.tolerated.entry(tolerated).or_default() += 1;
        }
    }

    fn remove(&mut self, term: &Term) {
        if let Some(caused) = term.caused {
            self.caused -= caused;
            self.caused_by = self.caused_by.saturating_sub(1);
        }
        if let Some(tolerated) = term.tolerated
            && let Some(count) = self.tolerated.get_mut(&tolerated)
        {
            *count -= 1;
            if *count == 0 {
                self.tolerated.remove(&tolerated);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.caused_by == 0 && self.tolerated.is_empty()
    }
}

/// A node and what runs on it.
#[derive(Clone, Debug)]
pub struct NodeState {
    node: Node,
    residents: BTreeMap<ResidentId, Arc<App>>,
    cpus_used: u64,
    memory_used: u128,
    aggregates: BTreeMap<String, Aggregate>,
}

impl NodeState {
    fn new(node: Node) -> Self {
        NodeState {
            node,
            residents: BTreeMap::new(),
            cpus_used: 0,
            memory_used: 0,
            aggregates: BTreeMap::new(),
        }
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn residents(&self) -> impl Iterator<Item = (ResidentId, &App)> {
        self.residents.iter().map(|(id, app)| (*id, app.as_ref()))
    }

    pub fn is_empty(&self) -> bool {
        self.residents.is_empty()
    }

    /// CPUs asked for by the residents; more than the node has when what
    /// already ran there was recorded so.
    pub fn cpus_used(&self) -> u64 {
        self.cpus_used
    }

    /// Bytes asked for by the residents.
    pub fn memory_used(&self) -> u128 {
        self.memory_used
    }

    /// Share of CPUs not asked for, 0–1.
    pub fn free_cpu_fraction(&self) -> f64 {
        let cpus = u64::from(self.node.cpus.max(1));
        cpus.saturating_sub(self.cpus_used) as f64 / cpus as f64
    }

    /// Share of memory not asked for, 0–1; 0 for a node without memory.
    pub fn free_memory_fraction(&self) -> f64 {
        let memory = u128::from(self.node.memory_bytes);
        if memory == 0 {
            return 0.0;
        }
        memory.saturating_sub(self.memory_used) as f64 / memory as f64
    }

    /// Per resource that counts here, what the residents amount to.
    pub fn aggregates(&self) -> &BTreeMap<String, Aggregate> {
        &self.aggregates
    }

    /// The aggregates computed afresh from the residents; equal to
    /// [`Self::aggregates`] whatever was added and removed before.
    pub fn recomputed_aggregates(&self) -> BTreeMap<String, Aggregate> {
        let mut fresh = NodeState::new(self.node.clone());
        for (id, app) in &self.residents {
            fresh.add(*id, Arc::clone(app));
        }
        fresh.aggregates
    }

    /// Why `app` does not fit, or `None` when it does.
    pub fn lacks(&self, app: &App) -> Option<String> {
        let free_cpus = u64::from(self.node.cpus).saturating_sub(self.cpus_used);
        let free_memory = u128::from(self.node.memory_bytes).saturating_sub(self.memory_used);
        if u64::from(app.cpus()) > free_cpus {
            Some(format!(
                "{free_cpus} of {} CPUs free, {} needed",
                self.node.cpus,
                app.cpus()
            ))
        } else if u128::from(app.memory_bytes()) > free_memory {
            Some(format!(
                "{} free of {} memory, {} needed",
                gib(free_memory),
                gib(u128::from(self.node.memory_bytes)),
                gib(u128::from(app.memory_bytes()))
            ))
        } else {
            None
        }
    }

    fn add(&mut self, id: ResidentId, app: Arc<App>) {
        self.cpus_used += u64::from(app.cpus());
        self.memory_used += u128::from(app.memory_bytes());
        for (resource, term) in app.terms() {
            if self.node.counts(resource, term) {
                let aggregate = self.aggregates.entry(resource.clone()).or_default();
                aggregate.add(term);
                if aggregate.is_empty() {
                    self.aggregates.remove(resource);
                }
            }
        }
        self.residents.insert(id, app);
    }

    fn remove(&mut self, id: ResidentId) -> Option<Arc<App>> {
        let app = self.residents.remove(&id)?;
        self.cpus_used -= u64::from(app.cpus());
        self.memory_used -= u128::from(app.memory_bytes());
        for (resource, term) in app.terms() {
            if self.node.counts(resource, term)
                && let Some(aggregate) = self.aggregates.get_mut(resource)
            {
                aggregate.remove(term);
                if aggregate.is_empty() {
                    self.aggregates.remove(resource);
                }
            }
        }
        Some(app)
    }
}

/// Why the cluster did not change as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClusterError {
    #[error("two nodes are called `{0}`")]
    DuplicateNode(String),
    #[error("node `{0}` has no CPU")]
    NoCpu(String),
    #[error("no node is called `{0}`")]
    UnknownNode(String),
    #[error("node `{node}` cannot take `{app}`: {lacks}")]
    NoRoom {
        node: String,
        app: String,
        lacks: String,
    },
}

/// Nodes in the order they were given.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    states: Vec<NodeState>,
    by_name: BTreeMap<String, usize>,
    next_resident: u64,
}

impl Cluster {
    /// An empty cluster of `nodes`.
    ///
    /// # Errors
    ///
    /// [`ClusterError::DuplicateNode`], [`ClusterError::NoCpu`].
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Result<Self, ClusterError> {
        let mut cluster = Cluster::default();
        for node in nodes {
            if node.cpus == 0 {
                return Err(ClusterError::NoCpu(node.name));
            }
            let index = cluster.states.len();
            if cluster.by_name.insert(node.name.clone(), index).is_some() {
                return Err(ClusterError::DuplicateNode(node.name));
            }
            cluster.states.push(NodeState::new(node));
        }
        Ok(cluster)
    }

    pub fn nodes(&self) -> &[NodeState] {
        &self.states
    }

    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.states.get(*self.by_name.get(name)?)
    }

    /// Starts `app` on `node`, within its capacity.
    ///
    /// # Errors
    ///
    /// [`ClusterError::UnknownNode`], [`ClusterError::NoRoom`].
    pub fn admit(&mut self, node: &str, app: Arc<App>) -> Result<ResidentId, ClusterError> {
        let state = self
            .node(node)
            .ok_or_else(|| ClusterError::UnknownNode(node.into()))?;
        if let Some(lacks) = state.lacks(&app) {
            return Err(ClusterError::NoRoom {
                node: node.into(),
                app: app.name().into(),
                lacks,
            });
        }
        self.record(node, app)
    }

    /// Notes that `app` already runs on `node`, whether it fits or not.
    ///
    /// # Errors
    ///
    /// [`ClusterError::UnknownNode`].
    pub fn record(&mut self, node: &str, app: Arc<App>) -> Result<ResidentId, ClusterError> {
        let state = self
            .by_name
            .get(node)
            .and_then(|index| self.states.get_mut(*index))
            .ok_or_else(|| ClusterError::UnknownNode(node.into()))?;
        let id = ResidentId(self.next_resident);
        self.next_resident += 1;
        state.add(id, app);
        Ok(id)
    }

    /// Ends `id` on `node` and returns it; `None` when it does not run there.
    pub fn remove(&mut self, node: &str, id: ResidentId) -> Option<Arc<App>> {
        let index = *self.by_name.get(node)?;
        self.states.get_mut(index)?.remove(id)
    }

    /// The nodes with the CPUs and the memory for `app`.
    ///
    /// # Errors
    ///
    /// When there is none, with what each lacks.
    pub fn with_room(&self, app: &App) -> Result<Vec<&NodeState>, NoPlacement> {
        let (fits, reasons): (Vec<_>, Vec<_>) = self
            .states
            .iter()
            .map(|state| (state, state.lacks(app)))
            .partition(|(_, lacks)| lacks.is_none());
        if fits.is_empty() {
            return Err(NoPlacement {
                app: app.name().into(),
                nodes: reasons
                    .into_iter()
                    .map(|(state, lacks)| NodeReason {
                        node: state.node.name.clone(),
                        why: lacks.unwrap_or_default(),
                    })
                    .collect(),
            });
        }
        Ok(fits.into_iter().map(|(state, _)| state).collect())
    }
}

fn gib(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
