//! First come, first served.

use super::Admission;
use super::Admitted;
use super::Waiter;
use crate::schedule::Cluster;
use crate::schedule::NodeId;
use std::collections::VecDeque;

/// One queue in the order of arrival. When the first does not fit, those
/// behind it are tried once in turn, so that a large job does not idle the
/// cluster; the first is tried first again after every change.
#[derive(Clone, Debug, Default)]
pub struct NoAdmission {
    queue: VecDeque<u64>,
    /// How many from the front were refused since the last change.
    tried: usize,
    /// At most this many are tried after one change; the rest wait on.
    depth: usize,
}

/// Tries per change unless told otherwise.
const DEPTH: usize = 16;

impl NoAdmission {
    pub fn new() -> Self {
        NoAdmission {
            depth: DEPTH,
            ..NoAdmission::default()
        }
    }

    fn forget(&mut self, job: u64) {
        if let Some(at) = self.queue.iter().position(|waiting| *waiting == job) {
            self.queue.remove(at);
        }
    }
}

impl Admission for NoAdmission {
    fn name(&self) -> &'static str {
        "none"
    }

    fn arrive(&mut self, waiter: Waiter, _now: f64) {
        self.queue.push_back(waiter.job);
    }

    fn next(&mut self, _now: f64, _cluster: &Cluster) -> Option<Admitted> {
        let job = *self.queue.get(self.tried)?;
        (self.tried < self.depth).then_some(Admitted { job, allowed: None })
    }

    fn started(&mut self, job: u64, _nodes: &[NodeId], _now: f64, _cluster: &Cluster) {
        self.forget(job);
    }

    fn refused(&mut self, _job: u64, _now: f64) {
        self.tried += 1;
    }

    fn ended(&mut self, job: u64, _nodes: &[NodeId], _now: f64, _cluster: &Cluster) {
        self.forget(job);
        self.tried = 0;
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
