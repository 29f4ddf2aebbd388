//! What a policy is asked and what it answers.

use crate::app::App;
use crate::app::Demand;
use crate::cluster::Cluster;
use crate::cluster::ClusterError;
use crate::cluster::NodeId;
use crate::cluster::ResidentId;
use crate::cluster::node_set::NodeSet;
use crate::compare::compare;
use crate::explanation::Deciding;
use crate::explanation::Direction;
use crate::explanation::ExpectedPerformance;
use crate::explanation::Explanation;
use crate::explanation::NoPlacement;
use crate::explanation::NodeReason;
use crate::explanation::PartReason;
use crate::explanation::RUNNERS_UP;
use crate::explanation::Relaxed;
use crate::predict::resource_id;
use crate::sizing;
use std::sync::Arc;

/// An application that wants a place.
#[derive(Clone, Copy, Debug)]
pub struct PlacementRequest<'a> {
    pub app: &'a Arc<App>,
    pub demand: Demand,
    /// Only these nodes; all of them when absent.
    pub allowed: Option<&'a NodeSet>,
    /// Seconds on the caller's clock.
    pub now: f64,
    /// Seconds for which it has been waiting for a place.
    pub waited_seconds: f64,
    /// Seconds it would take alone on its best platform, where that is known.
    pub ideal_seconds: Option<f64>,
    /// May be split over several nodes.
    pub spread: bool,
    /// Speed wanted, as a multiple of that on one undisturbed CPU of its best
    /// platform; for policies that size.
    pub target: Option<f64>,
}

impl<'a> PlacementRequest<'a> {
    /// `app` with its usual demand, on any one node, at time 0.
    pub fn of(app: &'a Arc<App>) -> Self {
        PlacementRequest {
            app,
            demand: app.demand(),
            allowed: None,
            now: 0.0,
            waited_seconds: 0.0,
            ideal_seconds: None,
            spread: false,
            target: None,
        }
    }

    /// The same for so many CPUs, with the memory of the whole.
    pub fn with_cpus(&self, cpus: u32) -> Self {
        let demand = Demand {
            cpus,
            ..self.demand
        };
        PlacementRequest { demand, ..*self }
    }

    /// The same for one CPU, wherever it is of use: calls `look` with one node
    /// of each empty kind for an application on one node, and with all of them,
    /// as two may be needed, for one on `several`.
    pub(crate) fn candidates_for_sizing(
        &self,
        cluster: &Cluster,
        several: bool,
        look: impl FnMut(NodeId),
    ) {
        let one = self.with_cpus(1);
        match several {
            false => one.candidates(cluster, look),
            true => cluster
                .ids()
                .filter(|node| one.may_use(cluster, *node))
                .for_each(look),
        }
    }

    /// Whether `node` may be chosen and has the room.
    #[inline]
    pub fn may_use(&self, cluster: &Cluster, node: NodeId) -> bool {
        cluster.fits(node, self.demand) && self.allowed.is_none_or(|allowed| allowed.contains(node))
    }

    /// Calls `look` with nodes that may be chosen and have the room: every
    /// one that runs something, and of the empty ones of each kind, which are
    /// alike, only the first by order of adding. Those that run something come
    /// first, in the order of adding.
    #[inline]
    pub fn candidates(&self, cluster: &Cluster, mut look: impl FnMut(NodeId)) {
        cluster.open_set().each_also_in(self.allowed, |node| {
            if cluster.fits(node, self.demand) {
                look(node);
            }
        });
        for alike in cluster.empty_by_kind() {
            let allowed = alike
                .iter()
                .filter(|node| self.allowed.is_none_or(|set| set.contains(**node)));
            if let Some(first) = allowed.min()
                && cluster.fits(*first, self.demand)
            {
                look(*first);
            }
        }
    }
}

/// A share of an application on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub node: NodeId,
    pub cpus: u32,
}

impl Part {
    /// What it asks for as one of `parts`: its CPUs, and the memory of `all` in
    /// proportion, rounded up.
    pub fn demand(&self, parts: &[Part], all: Demand) -> Demand {
        let cpus: u128 = parts.iter().map(|part| u128::from(part.cpus)).sum();
        let share = u128::from(all.memory_bytes) * u128::from(self.cpus);
        Demand {
            cpus: self.cpus,
            memory_bytes: share.div_ceil(cpus.max(1)) as u64,
        }
    }
}

/// Where to place, in a form that costs little; [`Policy::explain`] puts it
/// into words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// One, unless the application is spread.
    pub parts: Vec<Part>,
    /// The next best, best first.
    pub runners_up: [Option<NodeId>; RUNNERS_UP],
    /// Conditions given up for this choice: side and lane.
    pub relaxed: Vec<(Direction, usize)>,
    /// Nodes (or units) that were looked at.
    pub examined: u32,
    /// The policy's own figure of merit, higher is better.
    pub score: f64,
    /// What the reader should know, as that the search was cut short.
    pub notes: Vec<&'static str>,
}

impl Choice {
    /// All of it on `node`.
    pub fn on(node: NodeId, request: &PlacementRequest) -> Self {
        Choice {
            parts: vec![Part {
                node,
                cpus: request.demand.cpus,
            }],
            ..Choice::default()
        }
    }

    /// The same with the first few of `nodes` as runners-up.
    pub fn with_runners_up(mut self, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        for (place, node) in self.runners_up.iter_mut().zip(nodes) {
            *place = Some(node);
        }
        self
    }

    /// CPUs of each part.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        self.parts.iter().map(|part| part.cpus).collect()
    }

    /// The node of the first part.
    ///
    /// # Panics
    ///
    /// When there is no part, which no policy answers.
    pub fn node(&self) -> NodeId {
        self.parts[0].node
    }

    /// Starts every part with `app`. Of the memory of `demand` each part takes
    /// its share by CPUs, rounded up.
    ///
    /// # Errors
    ///
    /// As [`Cluster::admit_as`] for the first part that does not fit; then
    /// nothing has been started.
    pub fn start(
        &self,
        cluster: &mut Cluster,
        app: &Arc<App>,
        demand: Demand,
    ) -> Result<Vec<ResidentId>, ClusterError> {
        let mut started = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let demand = part.demand(&self.parts, demand);
            match cluster.admit_as(part.node, app.clone(), demand) {
                Ok(resident) => started.push(resident),
                Err(error) => {
                    for resident in started {
                        cluster.remove(resident);
                    }
                    return Err(error);
                }
            }
        }
        Ok(started)
    }
}

/// Why an application is not placed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// No node has the room; some node could, if it were empty.
    NoRoom,
    /// No node could, even up and empty.
    Never,
    /// There is room, and waiting promises more (or admission says no).
    ForBetter,
}

/// What a policy answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Place(Choice),
    /// Wait at each of these nodes; the first to have room takes it, and the
    /// others forget it (late binding).
    QueueAt(Vec<NodeId>),
    /// Ask again when something has changed; at the latest at the time given
    /// (seconds on the clock of [`PlacementRequest::now`]).
    Wait(Waiting, Option<f64>),
}

impl Decision {
    /// For a policy that found no node with room.
    pub fn no_room(request: &PlacementRequest, cluster: &Cluster) -> Self {
        Decision::Wait(
            match cluster.could_ever_fit(request.demand) {
                true => Waiting::NoRoom,
                false => Waiting::Never,
            },
            None,
        )
    }

    /// At `nodes`, if there are any.
    pub(crate) fn queue_at(
        nodes: Vec<NodeId>,
        request: &PlacementRequest,
        cluster: &Cluster,
    ) -> Self {
        match nodes.is_empty() {
            true => Decision::no_room(request, cluster),
            false => Decision::QueueAt(nodes),
        }
    }

    /// One node, with no more to say.
    pub fn place(node: NodeId, request: &PlacementRequest) -> Self {
        Decision::Place(Choice::on(node, request))
    }
}

/// What moving a running application has cost so far.
#[derive(Clone, Debug, Default)]
pub struct MigrationCosts {
    /// Seconds of its run lost by each move, in order.
    pub seconds: Vec<f64>,
}

/// How many moves are remembered: what moves cost long ago says nothing of now.
const MOVES_REMEMBERED: usize = 1000;

impl MigrationCosts {
    /// A further move; those before the last thousand are forgotten.
    pub fn add(&mut self, seconds: f64) {
        self.seconds.push(seconds);
        let forgotten = self.seconds.len().saturating_sub(MOVES_REMEMBERED);
        self.seconds.drain(..forgotten);
    }

    /// The 95th percentile of what was observed (nearest rank); `None` before
    /// the first move.
    pub fn p95(&self) -> Option<f64> {
        let mut sorted = self.seconds.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (0.95 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

/// A way to choose a node. One file per policy.
pub trait Policy: Send {
    /// The name used on the command line.
    fn name(&self) -> &'static str;

    /// Where to put it; changes nothing in the cluster. Never a node that is
    /// down, not allowed, or lacks the CPUs or the memory.
    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision;

    /// Whether it chooses the size of an application for which a speed is wanted and
    /// the speed-up is known; others place it at the size asked for.
    fn sizes(&self) -> bool {
        false
    }

    /// What tipped the balance for a choice of its own.
    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding;

    /// How a runner-up compares, in words.
    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String;

    /// Why a node with room was not used, when nothing was placed.
    fn unused(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        self.runner_up(request, cluster, node)
    }

    /// Where a running application would now be better off by more than moving
    /// costs, after its profile in the cluster has changed; most policies
    /// never move what runs.
    fn reconsider(
        &mut self,
        _resident: ResidentId,
        _cluster: &Cluster,
        _seconds_left: f64,
        _costs: &MigrationCosts,
    ) -> Option<Choice> {
        None
    }

    /// Something started, ended or changed its profile on `node`, or the node
    /// itself changed; for policies that keep indexes of their own. `now` is in
    /// seconds on the clock of [`PlacementRequest::now`].
    fn changed(&mut self, _cluster: &Cluster, _node: NodeId, _now: f64) {}

    /// Every node and why it does not take the application.
    fn refusal(&self, request: &PlacementRequest, cluster: &Cluster) -> NoPlacement {
        let nodes = cluster.ids().map(|node| NodeReason {
            node: cluster.name(node).into(),
            why: cluster
                .lacks(node, request.demand)
                .unwrap_or_else(|| self.unused(request, cluster, node)),
        });
        NoPlacement {
            app: request.app.name().into(),
            never: !cluster.could_ever_fit(request.demand),
            nodes: nodes.collect(),
        }
    }

    /// What is predicted on `node`, for policies that predict.
    fn expected(
        &self,
        _request: &PlacementRequest,
        _cluster: &Cluster,
        _node: NodeId,
    ) -> Option<ExpectedPerformance> {
        None
    }

    /// A choice in words, with both directions of every resource.
    fn explain(
        &self,
        request: &PlacementRequest,
        cluster: &Cluster,
        choice: &Choice,
    ) -> Explanation {
        let node = choice.node();
        let name = |node: NodeId| cluster.name(node).to_string();
        let comparisons = compare(request.app, cluster, node);
        let relaxed = choice.relaxed.iter().filter_map(|(direction, lane)| {
            let resource = resource_id(*lane);
            let comparison = comparisons.iter().find(|c| c.resource == resource)?;
            let d = match direction {
                Direction::D1 => comparison.d1,
                Direction::D2 => comparison.d2,
            }?;
            (d < 0.0).then(|| Relaxed {
                resource: resource.into(),
                direction: *direction,
                shortfall: -d,
            })
        });
        let usual = matches!(choice.parts[..], [part] if part.cpus == request.app.cpus());
        let parts = choice.parts.iter().filter(|_| !usual);
        let runners_up = choice.runners_up.iter().flatten();
        let mut notes: Vec<String> = choice.notes.iter().map(|note| note.to_string()).collect();
        notes.extend(platform_note(request.app, cluster, node));
        let unknown = &request.app.unknown_resources;
        if !unknown.is_empty() {
            notes.push(format!(
                "not known to this version and left out: {}",
                unknown.join(", ")
            ));
        }
        Explanation {
            app: request.app.name().into(),
            policy: self.name(),
            node: name(node),
            parts: parts
                .map(|part| PartReason {
                    node: name(part.node),
                    cpus: part.cpus,
                })
                .collect(),
            size: sizing::reason(
                self.name(),
                self.sizes(),
                request.target,
                request.app.scaling(),
                &choice.sizes(),
            ),
            expected: self.expected(request, cluster, node),
            deciding: self.why(request, cluster, choice),
            relaxed: relaxed.collect(),
            runners_up: runners_up
                .map(|node| NodeReason {
                    node: name(*node),
                    why: self.runner_up(request, cluster, *node),
                })
                .collect(),
            notes,
            comparisons,
        }
    }

    /// One decision in words; changes nothing in the cluster. An answer to wait
    /// is a refusal here.
    ///
    /// # Errors
    ///
    /// When it is not placed now, with the reason for each node.
    fn place(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
    ) -> Result<(Choice, Explanation), NoPlacement> {
        match self.choose(request, cluster) {
            Decision::Place(choice) => {
                let decision = self.explain(request, cluster, &choice);
                Ok((choice, decision))
            }
            Decision::QueueAt(_) | Decision::Wait(..) => Err(self.refusal(request, cluster)),
        }
    }
}

/// For a choice among one.
pub fn only_candidate(cluster: &Cluster, node: NodeId) -> Deciding {
    let alike = cluster
        .empty_by_kind()
        .any(|alike| alike.len() > 1 && alike.contains(&node));
    let name = cluster.name(node);
    Deciding::because(match alike {
        true => format!("{name} is the first of empty nodes that are alike; no other has room"),
        false => format!("{name} is the only node with the CPUs and the memory"),
    })
}

fn platform_note(app: &App, cluster: &Cluster, node: NodeId) -> Option<String> {
    let platform = cluster.node(node).platform.as_ref()?;
    let known = app.speed_on(cluster.summary(node).platform).is_some();
    (*platform != app.measured_on && !known && !app.measured_on.is_empty()).then(|| {
        format!(
            "{} was measured on `{}`; on `{platform}` its scores may differ",
            app.name(),
            app.measured_on
        )
    })
}
