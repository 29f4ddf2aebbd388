use super::counters::counter_names;
use super::*;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use crate::truth::TruePlatform;
use crate::workload::JobPhase;
use jostle_schedule::Demand;
use jostle_schedule::predict::Responses;
use proptest::prelude::*;

impl World<'_> {
    /// Takes a running job away before its end: it loses what it has done.
    /// Where it was; `None` when it does not run.
    pub fn evict(&mut self, id: u32, now: f64) -> Option<Vec<Part>> {
        self.running(id)?;
        Some(self.end(id, now))
    }

    /// Work per second of a running job, 1 = as alone on its best platform.
    pub fn rate(&self, id: u32) -> Option<f64> {
        Some(self.running(id)?.rate)
    }
}

const GIB: u64 = 1 << 30;

pub(super) fn node(name: &str, cpus: u32, platform: &str) -> Node {
    Node {
        name: name.into(),
        cpus,
        memory_bytes: 64 * GIB,
        platform: Some(platform.into()),
        shares_cpus: false,
    }
}

/// Loses one percent of its performance per point of pressure on `lane`, and
/// causes `caused` points there.
fn app(name: &str, lane: usize, caused: f32, speed: Vec<f32>) -> TrueApp {
    let mut lanes = [0.0; LANES];
    lanes[lane] = caused;
    TrueApp {
        name: name.into(),
        curves: vec![TrueCurve::new(lane, |points| 1.0 - points / 100.0)],
        caused: lanes,
        speed,
        qos: 0.95,
        scaling: jostle_schedule::Scaling::amdahl(0.0, 8, 1),
    }
}

fn platform(name: &str, scale: f32) -> TruePlatform {
    TruePlatform {
        name: name.into(),
        pressure_scale: [scale; LANES],
    }
}

fn truth(apps: Vec<TrueApp>) -> Truth {
    Truth {
        platforms: vec![platform("big", 1.0), platform("small", 1.5)],
        apps,
        residual_sd: 0.0,
        seed: 1,
    }
}

fn job(truth: u32, work: f64, cpus: u32) -> Job {
    Job {
        arrival: 0.0,
        work_seconds: work,
        phases: vec![phase(0.0, truth)],
        demand: Demand {
            cpus,
            memory_bytes: GIB,
        },
        profiling_seconds: 0.0,
        priority: 0,
        spread: false,
        target: None,
        class: 0,
    }
}

fn phase(from: f64, truth: u32) -> JobPhase {
    JobPhase {
        from,
        truth,
        estimate: Arc::new(App::bare("estimate", Responses::default())),
    }
}

fn on(world: &World, node: usize, cpus: u32) -> Vec<Part> {
    vec![Part {
        node: world.ids()[node],
        cpus,
    }]
}

/// The next step as (seconds, job, what).
fn next(world: &mut World) -> (f64, u32, StepKind) {
    let step = world.step().expect("something is due");
    (step.seconds, step.job, step.what)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

/// Beside each other on `big`, A (causing 20) goes at 1 − 0.50 and B (causing
/// 50) at 1 − 0.20.
#[test]
fn two_jobs_by_hand() {
    let truth = truth(vec![
        app("a", 3, 20.0, vec![1.0, 0.5]),
        app("b", 3, 50.0, vec![1.0, 1.0]),
    ]);
    let (a, b) = (job(0, 100.0, 1), job(1, 80.0, 1));
    let mut world = World::new(&truth, &[node("n", 4, "big")]).unwrap();
    let here = on(&world, 0, 1);
    world.start(0, &a, &here, 0.0).unwrap();
    assert!(close(world.due(), 100.0));
    world.start(1, &b, &here, 10.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 0.5));
    assert!(close(world.rate(1).unwrap(), 0.8));
    // B ends at 10 + 80 / 0.8 = 110, A by then has done 10 + 100 × 0.5 = 60,
    // and ends 40 s later.
    let (seconds, id, what) = next(&mut world);
    assert!(close(seconds, 110.0) && id == 1 && matches!(what, StepKind::Finished(_)));
    assert!(close(world.work_done(0, 110.0).unwrap(), 60.0));
    assert!(close(next(&mut world).0, 150.0));
    assert_eq!(world.step(), None);
    assert_eq!(world.cpus_asked(), 0);
}

/// On `small` A is half as fast, and 20 points press like 30.
#[test]
fn platforms_count_by_speed_and_scale() {
    let truth = truth(vec![
        app("a", 3, 20.0, vec![1.0, 0.5]),
        app("b", 3, 50.0, vec![0.5, 0.25]),
    ]);
    let (a, b) = (job(0, 100.0, 1), job(1, 80.0, 1));
    let mut world = World::new(&truth, &[node("n", 4, "small")]).unwrap();
    let here = on(&world, 0, 1);
    world.start(0, &a, &here, 0.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 0.5));
    world.start(1, &b, &here, 0.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 0.5 * 0.25));
    assert!(close(world.rate(1).unwrap(), 0.5 * 0.7));
    assert_eq!(world.pressure(world.ids()[0])[3], 105.0);
    world.evict(1, 40.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 0.5));
}

/// Half of its CPUs stand beside a neighbour of 50 points: that half goes at
/// half the rate; and it causes there half of its own 20 points.
#[test]
fn a_spread_job_is_the_sum_of_its_parts() {
    let truth = truth(vec![
        app("a", 3, 20.0, vec![1.0, 1.0]),
        app("b", 3, 50.0, vec![1.0, 1.0]),
    ]);
    let (a, b) = (job(0, 75.0, 4), job(1, 1000.0, 1));
    let nodes = [node("m", 4, "big"), node("n", 4, "big")];
    let mut world = World::new(&truth, &nodes).unwrap();
    let beside = on(&world, 0, 1);
    world.start(1, &b, &beside, 0.0).unwrap();
    let mut halves = on(&world, 1, 2);
    halves.extend(on(&world, 0, 2));
    world.start(0, &a, &halves, 0.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 0.5 + 0.5 * 0.5));
    assert!(close(world.rate(1).unwrap(), 0.9));
    // What happens on a node that is not its home moves its end.
    assert!(close(world.due(), 100.0));
    world.evict(1, 40.0).unwrap();
    assert!(close(world.due(), 40.0 + 45.0));
    let step = world.step().unwrap();
    assert_eq!(step.what, StepKind::Finished(halves.to_vec()));
    assert!(world.cluster().residents(world.ids()[0]).next().is_none());
}

#[test]
fn more_cpus_than_asked_speed_it_up() {
    let truth = truth(vec![app("a", 3, 20.0, vec![1.0, 1.0])]);
    let a = job(0, 75.0, 2);
    let mut world = World::new(&truth, &[node("n", 4, "big")]).unwrap();
    let here = on(&world, 0, 4);
    world.start(0, &a, &here, 0.0).unwrap();
    assert!(close(world.rate(0).unwrap(), 2.0));
}

#[test]
fn a_phase_changes_what_it_causes_and_bears() {
    let truth = truth(vec![
        app("a", 3, 20.0, vec![1.0, 1.0]),
        app("b", 3, 50.0, vec![1.0, 1.0]),
    ]);
    let mut a = job(0, 100.0, 1);
    a.phases.push(phase(0.5, 1));
    let b = job(0, 1000.0, 1);
    let mut world = World::new(&truth, &[node("n", 4, "big")]).unwrap();
    let here = on(&world, 0, 1);
    world.start(0, &a, &here, 0.0).unwrap();
    world.start(1, &b, &here, 0.0).unwrap();
    // Both go at 0.8; after 50 s of work, A causes 50.
    let (seconds, id, what) = next(&mut world);
    assert!(close(seconds, 62.5) && id == 0 && what == StepKind::PhaseBegan);
    assert!(close(world.rate(0).unwrap(), 0.8));
    assert!(close(world.rate(1).unwrap(), 0.5));
    assert!(close(next(&mut world).0, 125.0));
    assert!(close(world.rate(1).unwrap(), 1.0));
}

#[test]
fn a_move_stops_it_for_a_while() {
    let truth = truth(vec![app("a", 3, 20.0, vec![1.0, 1.0])]);
    let a = job(0, 100.0, 4);
    let nodes = [node("m", 4, "big"), node("n", 4, "big")];
    let mut world = World::new(&truth, &nodes).unwrap();
    let (first, second) = (on(&world, 0, 4), on(&world, 1, 4));
    world.start(0, &a, &first, 0.0).unwrap();
    world.start(1, &a, &second, 0.0).unwrap();
    assert!(world.migrate(0, &second, 5.0, 10.0).is_err());
    assert!(close(world.rate(0).unwrap(), 1.0));
    world.evict(1, 20.0);
    world.migrate(0, &second, 5.0, 30.0).unwrap();
    assert!(world.cluster().residents(world.ids()[0]).next().is_none());
    assert_eq!(next(&mut world), (35.0, 0, StepKind::Resumed));
    assert!(close(next(&mut world).0, 105.0));
}

#[test]
fn a_broken_cpu_costs_the_one_that_has_done_least() {
    let truth = truth(vec![app("a", 3, 0.0, vec![1.0, 1.0])]);
    let a = job(0, 100.0, 2);
    let mut world = World::new(&truth, &[node("n", 5, "big")]).unwrap();
    let here = on(&world, 0, 2);
    world.start(0, &a, &here, 0.0).unwrap();
    world.start(1, &a, &here, 1.0).unwrap();
    let n = world.ids()[0];
    assert!(world.break_cpu(n, 2.0).is_empty());
    assert_eq!(world.work_done(1, 3.0), Some(2.0));
    let gone = world.break_cpu(n, 3.0);
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].0, 1);
    assert_eq!(world.work_done(0, 4.0), Some(4.0));
    let gone = world.take_down(n, 4.0);
    assert_eq!(gone[0].0, 0);
    assert_eq!(world.due(), f64::INFINITY);
}

#[test]
fn unknown_platforms_are_refused() {
    let truth = truth(vec![app("a", 3, 0.0, vec![1.0, 1.0])]);
    let refused = World::new(&truth, &[node("n", 5, "tiny")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "node `n` is of platform `tiny`, of which the truth knows nothing"
    );
}

#[test]
fn counters_read_pressure_with_noise() {
    let truth = truth(vec![app("a", 3, 50.0, vec![1.0, 1.0])]);
    let a = job(0, 100.0, 2);
    let mut world = World::new(&truth, &[node("n", 4, "big")]).unwrap();
    let here = on(&world, 0, 2);
    world.start(0, &a, &here, 0.0).unwrap();
    let mut noise: rand::rngs::ChaCha8Rng = rand::SeedableRng::seed_from_u64(1);
    let draws: Vec<f64> = (0..2000)
        .map(|_| f64::from(world.counters(world.ids()[0], &mut noise)[3]))
        .collect();
    let mean = draws.iter().sum::<f64>() / 2000.0;
    let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 2000.0;
    assert!((mean - 0.5).abs() < 0.003, "{mean}");
    assert!((variance.sqrt() - 0.03).abs() < 0.003);
    let read = world.counters(world.ids()[0], &mut noise);
    assert_eq!(read.len(), counter_names().len());
    assert_eq!(read[read.len() - 3..], [0.5, 1.0 / 64.0, 0.25]);
}

proptest! {
    /// Whatever came and went, rates are those of the jobs that are there.
    #[test]
    fn the_order_of_events_leaves_no_trace(
        events in prop::collection::vec((0u32..12, 0usize..3, 0usize..3), 1..60),
        residual_sd in prop::sample::select(vec![0.0f32, 0.1]),
    ) {
        let mut truth = truth(
            (0..3)
                .map(|k| app("x", 3 + k % 2, 7.3 * (k + 1) as f32, vec![1.0, 0.7]))
                .collect(),
        );
        truth.residual_sd = residual_sd;
        let jobs: Vec<Job> = (0..3).map(|k| job(k, 1e9, k + 1)).collect();
        let nodes = [node("l", 9, "big"), node("m", 9, "small"), node("n", 9, "big")];
        let mut world = World::new(&truth, &nodes).unwrap();
        let mut running = std::collections::BTreeMap::new();
        for (now, (id, kind, at)) in events.into_iter().enumerate() {
            if running.remove(&id).is_some() {
                world.evict(id, now as f64);
            } else {
                let mut parts = on(&world, at, kind as u32 + 1);
                if kind == 1 {
                    parts[0].cpus = 1;
                    parts.extend(on(&world, (at + 1) % 3, 1));
                }
                if world.start(id, &jobs[kind], &parts, now as f64).is_ok() {
                    running.insert(id, (kind, parts));
                }
            }
        }
        let mut fresh = World::new(&truth, &nodes).unwrap();
        for (id, (kind, parts)) in &running {
            fresh.start(*id, &jobs[*kind], parts, 0.0).unwrap();
        }
        for id in running.keys() {
            prop_assert_eq!(world.rate(*id), fresh.rate(*id));
        }
        for node in fresh.ids() {
            prop_assert_eq!(world.pressure(*node), fresh.pressure(*node));
        }
        prop_assert_eq!(world.cpus_asked(), fresh.cpus_asked());
    }
}
