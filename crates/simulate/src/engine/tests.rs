mod admission;
mod invariants;

use super::*;
use crate::run::run;
use crate::run::run_with;
use crate::settings::Agents;
use crate::settings::Latency;
use crate::settings::PhaseDetection;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use crate::truth::TruePlatform;
use crate::truth::Truth;
use crate::workload::Fault;
use crate::workload::Job;
use crate::workload::JobPhase;
use jostle_schedule::App;
use jostle_schedule::Choice;
use jostle_schedule::Cluster;
use jostle_schedule::Deciding;
use jostle_schedule::Decision;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use jostle_schedule::POLICIES;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use jostle_schedule::ResidentId;
use jostle_schedule::Scaling;
use jostle_schedule::Waiting;
use jostle_schedule::admission::Admission;
use jostle_schedule::admission::AdmissionOptions;
use jostle_schedule::admission::NoAdmission;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::Responses;
use rayon::prelude::*;
use std::sync::Arc;

const GIB: u64 = 1 << 30;

/// Applications that lose a percent per point on one resource, cause `caused`
/// points there, and are known to the policies as they are.
fn truth(caused: &[f32], residual_sd: f32) -> Truth {
    let platform = |name: &str, scale: f32| TruePlatform {
        name: name.into(),
        pressure_scale: [scale; LANES],
    };
    let app = |(index, caused): (usize, &f32)| {
        let mut lanes = [0.0; LANES];
        lanes[3] = *caused;
        TrueApp {
            name: format!("a{index}"),
            curves: vec![TrueCurve::new(3, |points| 1.0 - points / 100.0)],
            caused: lanes,
            speed: vec![1.0, 0.5],
            qos: 0.9,
            scaling: Scaling::amdahl(0.1, 8, 4),
        }
    };
    Truth {
        platforms: vec![platform("big", 1.0), platform("small", 1.5)],
        apps: caused.iter().enumerate().map(app).collect(),
        residual_sd,
        seed: 7,
    }
}

fn phase(truth: &Truth, from: f64, app: u32) -> JobPhase {
    let real = &truth.apps[app as usize];
    let mut estimate = App::bare(&real.name, Responses::default());
    estimate.set_scores(3, Some(10.0), Some(f64::from(real.caused[3])));
    JobPhase {
        from,
        truth: app,
        estimate: Arc::new(estimate),
    }
}

fn job(truth: &Truth, arrival: f64, work_seconds: f64, cpus: u32, app: u32) -> Job {
    Job {
        arrival,
        work_seconds,
        phases: vec![phase(truth, 0.0, app)],
        demand: Demand {
            cpus,
            memory_bytes: u64::from(cpus) * GIB,
        },
        profiling_seconds: 0.0,
        priority: 0,
        spread: false,
        target: None,
        class: 0,
    }
}

fn workload(cpus: &[u32], truth: Truth, jobs: Vec<Job>, faults: Vec<(f64, Fault)>) -> Workload {
    let node = |(index, cpus): (usize, &u32)| Node {
        name: format!("n{index}"),
        cpus: *cpus,
        memory_bytes: u64::from(*cpus) * GIB,
        platform: Some(["big", "small"][index % 2].into()),
        shares_cpus: false,
    };
    Workload {
        nodes: cpus.iter().enumerate().map(node).collect(),
        truth,
        jobs,
        faults,
        classes: vec!["all".into()],
    }
}

fn settings(policy: &str) -> Settings {
    Settings {
        policy: policy.into(),
        admission: "none".into(),
        admission_options: AdmissionOptions::default(),
        seed: 1,
        agents: Agents::default(),
        latency: Latency {
            base_seconds: 0.0,
            per_examined_seconds: 0.0,
        },
        phases: PhaseDetection::default(),
    }
}

/// A policy for tests, by a function; moves what changes to the first other
/// node with room.
#[derive(Clone, Copy)]
struct Scripted {
    choose: fn(&PlacementRequest, &Cluster) -> Decision,
    moves: bool,
}

impl Policy for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        (self.choose)(request, cluster)
    }

    fn why(&self, _: &PlacementRequest, _: &Cluster, _: &Choice) -> Deciding {
        Deciding {
            resource: None,
            why: "it is told".into(),
        }
    }

    fn runner_up(&self, _: &PlacementRequest, _: &Cluster, _: NodeId) -> String {
        "not told".into()
    }

    fn reconsider(
        &mut self,
        resident: ResidentId,
        cluster: &Cluster,
        _: f64,
        _: &MigrationCosts,
    ) -> Option<Choice> {
        let here = cluster.resident(resident)?;
        let free = |node: &NodeId| *node != here.node && cluster.fits(*node, here.demand);
        let node = cluster.ids().find(free).filter(|_| self.moves)?;
        Some(Choice {
            parts: vec![Part {
                node,
                cpus: here.demand.cpus,
            }],
            ..Choice::default()
        })
    }
}

/// The first node with room.
fn first_fit(request: &PlacementRequest, cluster: &Cluster) -> Decision {
    match cluster.ids().find(|node| request.may_use(cluster, *node)) {
        Some(node) => Decision::place(node, request),
        None => Decision::no_room(request, cluster),
    }
}

/// At the first two nodes that are large enough, whether there is room or not.
fn queue_at_two(request: &PlacementRequest, cluster: &Cluster) -> Decision {
    let large = |node: &NodeId| cluster.node(*node).cpus >= request.demand.cpus;
    let nodes: Vec<NodeId> = cluster.ids().filter(large).take(2).collect();
    match nodes.is_empty() {
        true => Decision::no_room(request, cluster),
        false => Decision::QueueAt(nodes),
    }
}

/// One CPU after the other, wherever one is free.
fn one_by_one(request: &PlacementRequest, cluster: &Cluster) -> Decision {
    let each = Demand {
        cpus: 1,
        memory_bytes: GIB,
    };
    let free = cluster.ids().filter(|node| cluster.fits(*node, each));
    let parts: Vec<Part> = free
        .take(request.demand.cpus as usize)
        .map(|node| Part { node, cpus: 1 })
        .collect();
    match parts.len() as u32 == request.demand.cpus && request.spread {
        true => Decision::Place(Choice {
            parts,
            ..Choice::default()
        }),
        false => first_fit(request, cluster),
    }
}

fn scripted(
    choose: fn(&PlacementRequest, &Cluster) -> Decision,
    moves: bool,
) -> impl FnMut(u64) -> Scheduler {
    move |_| {
        (
            Box::new(Scripted { choose, moves }),
            Box::new(NoAdmission::new()),
        )
    }
}

fn run_scripted(
    workload: &Workload,
    settings: &Settings,
    choose: fn(&PlacementRequest, &Cluster) -> Decision,
) -> Result<Outcome, SimulationError> {
    Ok(run_with(workload, settings, &mut scripted(choose, true))?.0)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

/// As in the world's test: A (causing 20) and B (causing 50) slow each other
/// down to 0.5 and 0.8 while both run.
#[test]
fn two_jobs_by_hand() {
    let truth = truth(&[20.0, 50.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 100.0, 1, 0), job(&truth, 10.0, 80.0, 1, 1)];
    let workload = workload(&[4], truth, jobs, vec![]);
    for kind in POLICIES {
        let (outcome, _) = run(&workload, &settings(kind.name)).unwrap();
        let [a, b] = &outcome.jobs[..] else {
            panic!("two jobs");
        };
        assert!(close(b.finished, 110.0), "{}: {b:?}", kind.name);
        assert!(close(a.finished, 150.0));
        assert!(close(a.performance, 100.0 / 150.0));
        assert!(close(b.performance, 0.8) && close(b.with_waiting, 0.8));
        assert!(close(outcome.makespan_seconds, 150.0));
        assert!(close(outcome.utilization, 250.0 / 600.0));
        assert_eq!((outcome.decisions, outcome.restarts), (2, 0));
    }
}

/// Two seconds of profiling, and decisions of 1.5 s one after the other.
#[test]
fn profiling_and_decisions_take_their_time() {
    let truth = truth(&[0.0], 0.0);
    let mut jobs = vec![job(&truth, 1.0, 10.0, 1, 0), job(&truth, 1.0, 10.0, 1, 0)];
    jobs.iter_mut().for_each(|job| job.profiling_seconds = 2.0);
    let workload = workload(&[4], truth, jobs, vec![]);
    let mut settings = settings("least-loaded");
    settings.latency = Latency {
        base_seconds: 1.0,
        per_examined_seconds: 0.5,
    };
    let (outcome, _) = run(&workload, &settings).unwrap();
    assert_eq!(outcome.jobs[0].started, 4.5);
    assert_eq!(outcome.jobs[1].started, 6.0);
    assert!(close(outcome.jobs[1].with_waiting, 10.0 / 15.0));
}

/// With late binding the job takes the node that is free first.
#[test]
fn a_queued_job_starts_where_room_comes_first() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![
        job(&truth, 0.0, 50.0, 4, 0),
        job(&truth, 0.0, 10.0, 4, 0),
        job(&truth, 1.0, 10.0, 4, 0),
        job(&truth, 2.0, 10.0, 4, 0),
    ];
    // The second node is half as fast: its job ends at 20.
    let workload = workload(&[4, 4], truth, jobs, vec![]);
    let outcome = run_scripted(&workload, &settings("scripted"), queue_at_two).unwrap();
    let started: Vec<f64> = outcome.jobs.iter().map(|job| job.started).collect();
    assert_eq!(started, [0.0, 0.0, 20.0, 40.0]);
}

#[test]
fn a_queue_that_dies_is_forgotten_and_the_job_asks_again() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 50.0, 4, 0), job(&truth, 1.0, 10.0, 4, 0)];
    let faults = vec![(
        5.0,
        Fault::Node {
            node: 0,
            seconds: 20.0,
        },
    )];
    let workload = workload(&[4], truth, jobs, faults);
    let outcome = run_scripted(&workload, &settings("scripted"), queue_at_two).unwrap();
    // Both are put off until 25. The queued one was told first that it may ask
    // again, after the evicted one.
    assert_eq!(outcome.restarts, 1);
    assert_eq!(outcome.jobs[0].started, 0.0);
    assert_eq!(outcome.jobs[0].restarts, 1);
    assert!(close(outcome.jobs[0].finished, 75.0));
    assert!(close(outcome.jobs[1].finished, 85.0));
}

/// Evicted after 30 of 100 s it begins anew on the slower node.
#[test]
fn a_job_on_a_lost_node_begins_anew() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 100.0, 2, 0)];
    let lost = Fault::Node {
        node: 0,
        seconds: f64::INFINITY,
    };
    let workload = workload(&[2, 2], truth, jobs, vec![(30.0, lost)]);
    let outcome = run_scripted(&workload, &settings("scripted"), first_fit).unwrap();
    let [record] = &outcome.jobs[..] else {
        panic!("one job");
    };
    assert_eq!((record.restarts, record.started), (1, 0.0));
    assert!(close(record.finished, 230.0));
    assert!(close(record.performance, 100.0 / 230.0));
    // 4 CPUs for 30 s, then 2 for 200 s.
    assert!(close(outcome.utilization, 460.0 / 520.0));
}

/// The change after 50 s is noticed 20 s later; the move costs what it costs.
#[test]
fn a_change_of_phase_may_move_a_job() {
    let truth = truth(&[0.0, 30.0], 0.0);
    let mut first = job(&truth, 0.0, 100.0, 1, 0);
    first.phases.push(phase(&truth, 0.5, 1));
    let workload = workload(&[2, 1, 2], truth, vec![first], vec![]);
    let mut settings = settings("scripted");
    settings.phases = PhaseDetection {
        chance: 1.0,
        delay_seconds: 20.0,
        migration_median_seconds: 5.0,
        migration_sigma: 0.0,
        migrate: true,
    };
    let outcome = run_scripted(&workload, &settings, first_fit).unwrap();
    assert_eq!(outcome.migrations, 1);
    assert_eq!(outcome.jobs[0].migrations, 1);
    // 70 s at 1, a stop of 5 s, 30 s of work at half the speed.
    assert!(close(outcome.jobs[0].finished, 135.0));
    settings.phases.migrate = false;
    let outcome = run_scripted(&workload, &settings, first_fit).unwrap();
    assert!(close(outcome.jobs[0].finished, 100.0));
    settings.phases.migrate = true;
    settings.phases.chance = 0.0;
    let outcome = run_scripted(&workload, &settings, first_fit).unwrap();
    assert_eq!(outcome.migrations, 0);
}

#[test]
fn who_fits_nowhere_is_told_and_the_rest_runs() {
    let truth = truth(&[0.0], 0.0);
    let mut jobs = vec![job(&truth, 0.0, 10.0, 9, 0); 2];
    // The first is left to the policy, which could have spread it.
    jobs[0].spread = true;
    jobs.push(job(&truth, 0.0, 10.0, 1, 0));
    let workload = workload(&[4], truth, jobs, vec![]);
    let (outcome, _) = run(&workload, &settings("least-loaded")).unwrap();
    assert_eq!(outcome.never, [0, 1]);
    assert_eq!(outcome.jobs.len(), 1);
}

/// Asked for in vain: the policy would rather wait for more nodes.
#[test]
fn a_job_that_could_only_be_spread_and_never_is_fits_nowhere() {
    let truth = truth(&[0.0], 0.0);
    let mut jobs = vec![job(&truth, 0.0, 10.0, 8, 0)];
    jobs[0].spread = true;
    let workload = workload(&[4, 4], truth, jobs, vec![]);
    let outcome = run_scripted(&workload, &settings("scripted"), |_, _| {
        Decision::Wait(Waiting::NoRoom, None)
    });
    assert_eq!(outcome.unwrap().never, [0]);
}

#[test]
fn a_policy_that_always_waits_is_given_up() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 1, 0), job(&truth, 3.0, 10.0, 1, 0)];
    let workload = workload(&[4], truth, jobs, vec![]);
    let waits: [fn(&PlacementRequest, &Cluster) -> Decision; 3] = [
        |_, _| Decision::Wait(Waiting::ForBetter, None),
        |request, _| Decision::Wait(Waiting::ForBetter, Some(request.now)),
        |_, _| Decision::Wait(Waiting::NoRoom, Some(f64::NAN)),
    ];
    for choose in waits {
        let mut settings = settings("scripted");
        for count in [1, 3] {
            settings.agents.count = count;
            let error = run_scripted(&workload, &settings, choose).unwrap_err();
            let SimulationError::Stuck { waiting, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(waiting, &[0, 1]);
            assert!(error.to_string().ends_with("wait for a place: 0, 1"));
        }
    }
}

#[test]
fn broken_rules_are_told() {
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 3, 0); 2];
    let workload = workload(&[4], truth, jobs, vec![]);
    let error = run_scripted(&workload, &settings("scripted"), |request, cluster| {
        Decision::place(cluster.ids().next().unwrap(), request)
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "policy `scripted` put job 1 where it may not go: n0 1 of 4 CPUs free, 3 needed"
    );
    let mut unknown = settings("greatest");
    let error = run(&workload, &unknown).unwrap_err().to_string();
    assert!(error.starts_with("no policy is called `greatest`; there are "));
    assert!(error.contains("least-loaded"));
    unknown = settings("least-loaded");
    unknown.agents.sync_seconds = [0.0, 1.0];
    assert!(run(&workload, &unknown).is_err());
}

/// Patience is no standstill, however often agents look at an idle cluster
/// meanwhile.
#[test]
fn a_policy_may_wait_for_days_in_an_idle_cluster() {
    const UNTIL: f64 = 1e6;
    let patient = |request: &PlacementRequest, cluster: &Cluster| match request.now < UNTIL {
        true => Decision::Wait(Waiting::ForBetter, Some(UNTIL)),
        false => first_fit(request, cluster),
    };
    let truth = truth(&[0.0], 0.0);
    let jobs = vec![job(&truth, 0.0, 10.0, 1, 0), job(&truth, 1.0, 10.0, 1, 0)];
    let workload = workload(&[4], truth, jobs, vec![]);
    for admission in ["none", "arq"] {
        let mut settings = settings("scripted");
        settings.agents.count = 3;
        let outcome = run_with(&workload, &settings, &mut |seed| {
            let options = AdmissionOptions {
                seed,
                ..AdmissionOptions::default()
            };
            let policy = Scripted {
                choose: patient,
                moves: false,
            };
            let kind = jostle_schedule::admission::admission_kind(admission).unwrap();
            (Box::new(policy), (kind.make)(&options).unwrap())
        });
        let (outcome, _) = outcome.unwrap();
        assert!(outcome.jobs.iter().all(|job| job.started == UNTIL));
        assert!(outcome.events < 100, "{}", outcome.events);
    }
}

/// Work that is 12 s with the 2 CPUs asked for is done at the target, the speed
/// of one CPU, in 12 s times the speed-up of two; with another target less.
#[test]
fn performance_is_measured_by_the_target_and_not_by_what_is_asked() {
    let truth = truth(&[0.0], 0.0);
    let two = truth.apps[0].scaling.by_cpus(2.0);
    let four = truth.apps[0].scaling.by_cpus(4.0);
    let with = |target: Option<f64>| {
        let mut job = job(&truth, 0.0, 12.0, 2, 0);
        job.target = target;
        let workload = workload(&[4], truth.clone(), vec![job], vec![]);
        let outcome = run_scripted(&workload, &settings("scripted"), first_fit).unwrap();
        outcome.jobs[0].clone()
    };
    let given = with(None);
    assert_eq!((given.ideal_seconds, given.performance), (12.0, 1.0));
    // More than wanted is no more than all.
    let modest = with(Some(1.0));
    assert!(close(modest.ideal_seconds, 12.0 * two));
    assert_eq!((modest.performance, modest.with_waiting), (1.0, 1.0));
    // Amdahl, 10 % serial: 2 CPUs 1/0.55, 4 CPUs 1/0.325 times as fast.
    let short = with(Some(four));
    assert!(close(short.ideal_seconds, 12.0 * 0.325 / 0.55));
    assert!(close(short.performance, 0.325 / 0.55));
}

/// Beside the job that causes 80 points others take five times as long.
#[test]
fn windows_label_the_stragglers() {
    let truth = truth(&[0.0, 80.0], 0.0);
    let mut jobs = vec![job(&truth, 0.0, 1000.0, 1, 1)];
    jobs.extend((0..6).map(|at| job(&truth, 1.0 + f64::from(at), 10.0, 1, 0)));
    // Two beside it, four on the third node; the second is too small.
    let workload = workload(&[3, 1, 4], truth, jobs, vec![]);
    let mut scheduler = scripted(
        |request, cluster| {
            let fast = |node: &NodeId| node.index() != 1 && request.may_use(cluster, *node);
            Decision::place(cluster.ids().find(fast).unwrap(), request)
        },
        false,
    );
    let settings = settings("scripted");
    let mut scheduler = |seed| Ok(scheduler(seed));
    let windows = crate::windows::labelled(&workload, &settings, &mut scheduler).unwrap();
    assert_eq!((windows.len(), windows.stragglers()), (7, 2));
    let mut csv = Vec::new();
    windows.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0].len(),
        3 + crate::world::counters::counter_names().len()
    );
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let labels: Vec<&str> = rows[1..].iter().map(|row| row[row.len() - 1]).collect();
    assert_eq!(labels, ["0", "1", "1", "0", "0", "0", "0"]);
    // What the second to start could be read of: 80 points on lane 3.
    let read: f64 = rows[2][5].parse().unwrap();
    assert!((read - 0.8).abs() < 0.15, "{read}");
    assert_eq!(rows[2][2 + LANES].parse::<f64>().unwrap() as f32, 1.0 / 3.0);
}

/// In parallel, in order, each as alone.
#[test]
fn a_batch_is_its_runs() {
    let truth = truth(&[20.0, 50.0], 0.1);
    let jobs: Vec<Job> = (0..40)
        .map(|at| job(&truth, f64::from(at), 60.0, 1 + at % 3, at % 2))
        .collect();
    let workload = workload(&[4, 4, 4, 4], truth, jobs, vec![]);
    let runs: Vec<_> = POLICIES
        .iter()
        .flat_map(|kind| {
            (0..3).map(|seed| {
                let mut settings = settings(kind.name);
                settings.seed = seed;
                (&workload, settings)
            })
        })
        .collect();
    let each = runs.par_iter();
    let all: Vec<_> = each
        .map(|(workload, settings)| run(workload, settings))
        .collect();
    assert_eq!(all.len(), runs.len());
    for ((workload, settings), result) in runs.iter().zip(all) {
        let outcome = result.unwrap().0;
        assert_eq!(outcome, run(workload, settings).unwrap().0);
        assert_eq!(
            (&outcome.policy, outcome.seed),
            (&settings.policy, settings.seed)
        );
    }
}
