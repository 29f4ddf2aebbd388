//! First come, first served.

use super::control::Admission;
use super::control::Admitted;
use super::control::Waiter;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use std::collections::HashSet;
use std::collections::VecDeque;

/// One queue in the order of arrival. When the first does not fit, those
/// behind it are tried once in turn, so that a large job does not idle the
/// cluster; the first is tried first again after every change. A start is no
/// such change: it makes room for nobody. Who waits for something better is
/// passed over until its time comes.
#[derive(Clone, Debug, Default)]
pub struct NoAdmission {
    queue: VecDeque<Place>,
    /// Who stands in it.
    waiting: HashSet<u64>,
    /// All before this place were tried or passed over since the last change.
    cursor: usize,
    /// The first time at which somebody who was passed over since then wants
    /// to be asked.
    soonest: Option<f64>,
    /// How many were refused since the last change.
    refused: usize,
    /// At most this many are tried after one change; the rest wait on.
    depth: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    job: u64,
    /// Seconds before which it does not want to be asked.
    not_before: f64,
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
        if self.waiting.remove(&job)
            && let Some(at) = self.queue.iter().position(|place| place.job == job)
        {
            self.queue.remove(at);
            if at < self.cursor {
                self.cursor -= 1;
            }
        }
    }

    fn pass_over(&mut self, until: f64) {
        let soonest = self.soonest.map_or(until, |soonest| soonest.min(until));
        self.soonest = Some(soonest);
        self.cursor += 1;
    }

    fn start_over(&mut self) {
        self.cursor = 0;
        self.soonest = None;
        self.refused = 0;
    }
}

impl Admission for NoAdmission {
    fn name(&self) -> &'static str {
        "none"
    }

    fn arrive(&mut self, waiter: Waiter, _now: f64) {
        if self.waiting.insert(waiter.job) {
            self.queue.push_back(Place {
                job: waiter.job,
                not_before: f64::NEG_INFINITY,
            });
        }
    }

    fn next(&mut self, now: f64, cluster: &Cluster) -> Option<Admitted> {
        // Where nothing runs, no end will come to try the rest after.
        if self.refused >= self.depth && cluster.running() > 0 {
            return None;
        }
        while let Some(place) = self.queue.get(self.cursor) {
            if place.not_before <= now {
                return Some(Admitted {
                    job: place.job,
                    allowed: None,
                });
            }
            self.pass_over(place.not_before);
        }
        None
    }

    fn started(&mut self, job: u64, _nodes: &[NodeId], _now: f64, _cluster: &Cluster) {
        self.forget(job);
    }

    fn refused(&mut self, job: u64, _now: f64) {
        if self
            .queue
            .get(self.cursor)
            .is_some_and(|place| place.job == job)
        {
            self.cursor += 1;
            self.refused += 1;
        }
    }

    fn postponed(&mut self, job: u64, until: f64, _now: f64) {
        let at = self.queue.get_mut(self.cursor);
        if let Some(place) = at.filter(|place| place.job == job) {
            place.not_before = until;
            self.pass_over(until);
        }
    }

    fn ended(&mut self, job: u64, _nodes: &[NodeId], _now: f64, _cluster: &Cluster) {
        self.forget(job);
        self.start_over();
    }

    fn changed(&mut self, _now: f64) {
        self.start_over();
    }

    fn chooses_next(&self) -> bool {
        false
    }

    fn reads_counters(&self) -> bool {
        false
    }

    fn wake_at(&self) -> Option<f64> {
        self.soonest
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::app::Demand;
    use crate::cluster::Node;
    use crate::predict::Responses;
    use std::sync::Arc;

    fn waiter(job: u64) -> Waiter {
        Waiter {
            job,
            app: Arc::new(App::bare("a", Responses::default())),
            demand: Demand {
                cpus: 1,
                memory_bytes: 0,
            },
            ideal_seconds: None,
            overhead_seconds: 0.0,
            priority: 0,
        }
    }

    fn queue(jobs: u64) -> (NoAdmission, Cluster, NodeId) {
        let mut admission = NoAdmission::new();
        for job in 0..jobs {
            admission.arrive(waiter(job), 0.0);
        }
        let node = Node {
            name: "n".into(),
            cpus: 8,
            memory_bytes: 0,
            platform: None,
            shares_cpus: false,
        };
        let mut cluster = Cluster::default();
        let id = cluster.add_node(node).unwrap();
        cluster
            .admit(id, Arc::new(App::bare("a", Responses::default())))
            .unwrap();
        (admission, cluster, id)
    }

    fn offered(admission: &mut NoAdmission, cluster: &Cluster) -> Option<u64> {
        Some(admission.next(0.0, cluster)?.job)
    }

    #[test]
    fn a_refused_job_waits_for_a_change_and_then_is_first() {
        let (mut admission, cluster, node) = queue(3);
        assert_eq!(offered(&mut admission, &cluster), Some(0));
        admission.refused(0, 0.0);
        assert_eq!(offered(&mut admission, &cluster), Some(1));
        admission.started(1, &[node], 0.0, &cluster);
        assert_eq!(offered(&mut admission, &cluster), Some(2));
        admission.refused(2, 0.0);
        assert_eq!(offered(&mut admission, &cluster), None);
        admission.ended(1, &[node], 1.0, &cluster);
        assert_eq!(offered(&mut admission, &cluster), Some(0));
        admission.refused(0, 0.0);
        admission.changed(2.0);
        assert_eq!(offered(&mut admission, &cluster), Some(0));
    }

    #[test]
    fn a_job_that_leaves_from_the_front_skips_nobody() {
        let (mut admission, cluster, node) = queue(3);
        admission.refused(0, 0.0);
        admission.refused(1, 0.0);
        admission.started(0, &[node], 0.0, &cluster);
        assert_eq!(offered(&mut admission, &cluster), Some(2));
    }

    #[test]
    fn few_are_tried_unless_nothing_runs() {
        let (mut admission, mut cluster, node) = queue(20);
        let mut tried = 0;
        while let Some(job) = offered(&mut admission, &cluster) {
            admission.refused(job, 0.0);
            tried += 1;
        }
        assert_eq!(tried, DEPTH);
        let (id, _) = cluster.residents(node).next().unwrap();
        cluster.remove(id);
        assert_eq!(offered(&mut admission, &cluster), Some(DEPTH as u64));
    }
}
