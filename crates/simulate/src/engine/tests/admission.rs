//! Admissions that get in the way, and agents that get in each other's.

use super::*;

/// Offers its only job again and again, first for one node, then for all.
struct Stubborn(Option<u64>, u32);

impl Admission for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn arrive(&mut self, waiter: Waiter, _: f64) {
        self.0 = Some(waiter.job);
    }

    fn next(&mut self, _: f64, cluster: &Cluster) -> Option<jostle_schedule::admission::Admitted> {
        Some(jostle_schedule::admission::Admitted {
            job: self.0?,
            allowed: (self.1 < 2).then(|| cluster.ids().take(1).collect()),
        })
    }

    fn started(&mut self, _: u64, _: &[NodeId], _: f64, _: &Cluster) {
        self.0 = None;
    }

    fn refused(&mut self, _: u64, _: f64) {
        self.1 += 1;
    }

    fn ended(&mut self, _: u64, _: &[NodeId], _: f64, _: &Cluster) {}

    fn waiting(&self) -> usize {
        usize::from(self.0.is_some())
    }
}

#[test]
fn an_admission_may_offer_other_nodes_but_not_for_ever() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 4, 0)];
    let workload = workload(&[2, 2, 4], truth, jobs, vec![]);
    let with = |choose: fn(&PlacementRequest, &Cluster) -> Decision| {
        let mut stubborn = |_| -> Scheduler {
            let policy = Scripted {
                choose,
                moves: false,
            };
            (Box::new(policy), Box::new(Stubborn(None, 0)))
        };
        run_with(&workload, &settings("scripted"), &mut stubborn)
    };
    let (outcome, _) = with(first_fit).unwrap();
    assert_eq!((outcome.jobs[0].started, outcome.decisions), (0.0, 3));
    let waits = |_: &PlacementRequest, _: &Cluster| Decision::Wait(Waiting::ForBetter, None);
    let error = with(waits).unwrap_err();
    assert!(matches!(error, SimulationError::Stuck { .. }));
}

/// Three agents that know of each other's jobs only after 5 s place three jobs
/// at once: one node takes one.
#[test]
fn agents_conflict_and_try_elsewhere() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 4, 0); 3];
    let workload = workload(&[4, 4, 4], truth, jobs, vec![]);
    let mut settings = settings("scripted");
    settings.agents.count = 3;
    let outcome = run_scripted(&workload, &settings, first_fit).unwrap();
    assert!(outcome.jobs.iter().all(|job| job.started == 0.0));
    assert_eq!(outcome.conflicts, 3);
    settings.agents.count = 1;
    let outcome = run_scripted(&workload, &settings, first_fit).unwrap();
    assert_eq!(outcome.conflicts, 0);
}

/// Refuses the first node of every job.
struct Picky(NoAdmission, Vec<(u64, NodeId)>);

impl Admission for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn arrive(&mut self, waiter: Waiter, now: f64) {
        self.0.arrive(waiter, now);
    }

    fn next(
        &mut self,
        now: f64,
        cluster: &Cluster,
    ) -> Option<jostle_schedule::admission::Admitted> {
        self.0.next(now, cluster)
    }

    fn started(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.0.started(job, nodes, now, cluster);
    }

    fn refused(&mut self, job: u64, now: f64) {
        self.0.refused(job, now);
    }

    fn ended(&mut self, job: u64, nodes: &[NodeId], now: f64, cluster: &Cluster) {
        self.0.ended(job, nodes, now, cluster);
    }

    fn accept(&mut self, job: u64, node: NodeId, counters: &[f32], _: f64) -> bool {
        assert_eq!(
            counters.len(),
            crate::world::counters::counter_names().len()
        );
        assert!(!self.1.contains(&(job, node)), "asked again without it");
        self.1.push((job, node));
        node.index() > 1
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

#[test]
fn a_veto_sends_the_policy_elsewhere() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 4, 0); 2];
    let workload = workload(&[4, 4, 4], truth, jobs, vec![]);
    let mut picky = |_| -> Scheduler {
        (
            Box::new(Scripted {
                choose: first_fit,
                moves: false,
            }),
            Box::new(Picky(NoAdmission::new(), Vec::new())),
        )
    };
    let (outcome, _) = run_with(&workload, &settings("scripted"), &mut picky).unwrap();
    // The first goes to the third node, which is fast; for the second only
    // those that are vetoed are left, and the last choice stands: the slow one.
    assert!(close(outcome.jobs[0].finished, 10.0));
    assert_eq!(outcome.jobs[1].started, 0.0);
    assert!(close(outcome.jobs[1].finished, 20.0));
}
