//! A scheduler at work: its policy, its admission, and what it knows.

use super::Event;
use super::LEAST_WAIT_SECONDS;
use crate::agenda::EventQueue;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::Demand;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::Policy;
use jostle_schedule::admission::Admission;

/// A decision that is being made.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) job: u32,
    pub(super) allowed: Option<NodeSet>,
    pub(super) decision: Decision,
    /// The epoch of the agent when it looked.
    pub(super) epoch: u64,
}

/// One of the schedulers that work at the same time.
pub(super) struct Agent {
    pub(super) policy: Box<dyn Policy>,
    pub(super) admission: Box<dyn Admission>,
    /// Its own copy of the cluster; absent where it sees the true state.
    pub(super) copy: Option<Cluster>,
    pub(super) pending: Option<Pending>,
    /// Its admission may have somebody to offer.
    pub(super) may_offer: bool,
    /// Grows with every change that may help who was refused.
    pub(super) epoch: u64,
    /// Demands for which no node had room in this epoch.
    pub(super) no_room: Vec<Demand>,
    /// Seconds at which it is to be asked again; infinite for not at all.
    pub(super) wake: f64,
}

impl Agent {
    pub(super) fn new(
        policy: Box<dyn Policy>,
        admission: Box<dyn Admission>,
        copy: Option<Cluster>,
    ) -> Self {
        Agent {
            policy,
            admission,
            copy,
            pending: None,
            may_offer: false,
            epoch: 1,
            no_room: Vec::new(),
            wake: f64::INFINITY,
        }
    }

    /// The cluster as this agent sees it, where `actual` is its true state.
    pub(super) fn view<'c>(&'c self, actual: &'c Cluster) -> &'c Cluster {
        self.copy.as_ref().unwrap_or(actual)
    }

    /// `job` runs on `nodes` now, or waits at nodes of its own.
    pub(super) fn started(&mut self, job: u32, nodes: &[NodeId], now: f64, actual: &Cluster) {
        let seen = self.copy.as_ref().unwrap_or(actual);
        self.admission.started(u64::from(job), nodes, now, seen);
    }

    /// `job` has left `nodes`, where there is room now.
    pub(super) fn ended(&mut self, job: u32, nodes: &[NodeId], now: f64, actual: &Cluster) {
        let seen = self.copy.as_ref().unwrap_or(actual);
        self.admission.ended(u64::from(job), nodes, now, seen);
        self.retry_refused();
    }

    /// The cluster has changed in a way that may help who was refused.
    pub(super) fn cluster_changed(&mut self, now: f64) {
        self.admission.changed(now);
        self.retry_refused();
    }

    /// Something has changed that may help who was refused.
    pub(super) fn retry_refused(&mut self) {
        self.may_offer = true;
        self.epoch += 1;
        self.no_room.clear();
    }

    /// What has changed since that epoch may help who was refused then.
    pub(super) fn offer_if_changed_since(&mut self, epoch: u64, now: f64) {
        if self.epoch != epoch {
            self.admission.changed(now);
            self.may_offer = true;
        }
    }

    /// To be asked again at `seconds`, but not at once.
    pub(super) fn wake_at(
        &mut self,
        seconds: f64,
        now: f64,
        index: usize,
        events: &mut EventQueue<Event>,
    ) {
        let seconds = seconds.max(now + LEAST_WAIT_SECONDS);
        if seconds < self.wake {
            self.wake = seconds;
            events.note(seconds, Event::Wake(index as u32));
        }
    }

    /// Whether it was to be asked again at `now`.
    pub(super) fn wakes(&mut self, now: f64) -> bool {
        let wakes = self.wake <= now;
        if wakes {
            self.wake = f64::INFINITY;
        }
        wakes
    }

    /// Brings `nodes` of its copy, if it has one, up to date with `actual`;
    /// whether that was news.
    pub(super) fn update_view(&mut self, nodes: &[NodeId], actual: &Cluster, now: f64) -> bool {
        let mut news = false;
        for node in nodes {
            let Some(copy) = &mut self.copy else {
                self.policy.changed(actual, *node, now);
                news = true;
                continue;
            };
            if copy.summary(*node).version == actual.summary(*node).version {
                continue;
            }
            let mut followed = Vec::new();
            copy.follow(actual, *node, &mut followed);
            news |= !followed.is_empty();
            for node in followed {
                self.policy.changed(copy, node, now);
            }
        }
        news
    }

    /// Whether it is known already that `demand` has no room.
    pub(super) fn is_known_full(&self, demand: Demand) -> bool {
        self.no_room
            .iter()
            .any(|known| known.cpus <= demand.cpus && known.memory_bytes <= demand.memory_bytes)
    }
}

/// Whether any node has room for `demand`.
pub(super) fn has_room(cluster: &Cluster, demand: Demand) -> bool {
    let empty = cluster.empty_by_kind().filter_map(|alike| alike.first());
    let mut nodes = cluster.open().iter().chain(empty);
    nodes.any(|node| cluster.fits(*node, demand))
}
