//! What holds whatever happens.

use super::*;
use crate::run::schedulers;
use proptest::prelude::*;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A random workload in which everything happens.
fn any_workload() -> impl Strategy<Value = Workload> {
    let job_parts = (
        0u32..60,
        1u32..50,
        1u32..7,
        0u32..4,
        prop::collection::vec((0.05f64..1.2, 0u32..4), 0..3),
        any::<bool>(),
        0u32..3,
    );
    let fault_parts = (0u32..100, 0u32..4, 1u32..30, any::<bool>());
    (
        prop::collection::vec(1u32..7, 1..5),
        prop::collection::vec(job_parts, 0..25),
        prop::collection::vec(fault_parts, 0..8),
        prop::sample::select(vec![0.0f32, 0.1]),
    )
        .prop_map(|(cpus, jobs, faults, residual_sd)| {
            let truth = truth(&[5.0, 20.0, 40.0, 80.0], residual_sd);
            let mut jobs: Vec<Job> = jobs
                .into_iter()
                .map(|(arrival, work, cpus, app, phases, spread, profiling)| {
                    let mut job = job(&truth, f64::from(arrival), f64::from(work), cpus, app);
                    let mut later = phases;
                    later.sort_by(|a, b| a.0.total_cmp(&b.0));
                    later.dedup_by_key(|it| it.0);
                    let later = later.iter().map(|(from, app)| phase(&truth, *from, *app));
                    job.phases.extend(later);
                    job.spread = spread;
                    job.profiling_seconds = f64::from(profiling);
                    job
                })
                .collect();
            jobs.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
            let mut faults: Vec<(f64, Fault)> = faults
                .into_iter()
                .map(|(at, node, seconds, whole)| {
                    let (node, seconds) = (node % cpus.len() as u32, f64::from(seconds));
                    let fault = match whole {
                        true => Fault::Node { node, seconds },
                        false => Fault::Cpu { node, seconds },
                    };
                    (f64::from(at), fault)
                })
                .collect();
            faults.sort_by(|a, b| a.0.total_cmp(&b.0));
            workload(&cpus, truth, jobs, faults)
        })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let latency = prop::sample::select(vec![0.0, 0.3]);
    (1usize..4, latency, any::<bool>(), 0u64..3).prop_map(|(count, base, migrate, seed)| {
        let mut settings = settings("any");
        settings.seed = seed;
        settings.agents.count = count;
        settings.latency.base_seconds = base;
        settings.phases.delay_seconds = 2.0;
        settings.phases.migrate = migrate;
        settings
    })
}

/// Runs event by event, and checks after each what must always hold.
fn audited(engine: &mut Engine) -> Result<(), TestCaseError> {
    let mut work: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
    let mut ends = vec![0u32; engine.jobs.len()];
    while engine.left > 0 {
        let before = engine.now;
        let rates: Vec<(u32, f64)> = (0..engine.jobs.len() as u32)
            .filter_map(|job| Some((job, engine.world.rate(job)?)))
            .collect();
        engine.next_event().map_err(|error| {
            let settings = engine.settings;
            let who = format!("{} + {}", settings.policy, settings.admission);
            TestCaseError::fail(format!("{who}: {error}"))
        })?;
        prop_assert!(engine.now >= before);
        for (job, rate) in rates {
            let progress = &engine.jobs[job as usize];
            let entry = work.entry(job).or_insert((0, 0.0));
            entry.1 += rate * (engine.now - before);
            if progress.state == State::Done {
                let all = engine.workload.jobs[job as usize].work_seconds;
                prop_assert!(close(entry.1, all), "{} of {all}", entry.1);
                ends[job as usize] += 1;
            }
        }
        for (job, progress) in (0u32..).zip(&engine.jobs) {
            let runs = progress.state == State::Running;
            prop_assert_eq!(runs, engine.world.estimate(job).is_some());
            prop_assert_eq!(runs, engine.world.parts(job).next().is_some());
            let entry = work.entry(job).or_insert((0, 0.0));
            if entry.0 != progress.starts {
                *entry = (progress.starts, 0.0);
            }
        }
        let cluster = engine.world.cluster();
        for node in engine.world.ids() {
            let (row, it) = (cluster.summary(*node), cluster.node(*node));
            prop_assert!(cluster.cpus_used(*node) <= u64::from(row.cpus));
            prop_assert!(cluster.memory_used(*node) <= u128::from(it.memory_bytes));
            prop_assert!(row.up || row.residents == 0);
            prop_assert_eq!(&cluster.recomputed(*node), row);
        }
        let count = |state: State| engine.jobs.iter().filter(|job| job.state == state).count();
        prop_assert_eq!(count(State::Running), engine.running as usize);
        let ended = count(State::Done) + count(State::Never);
        prop_assert_eq!(engine.jobs.len() - ended, engine.left);
    }
    for (job, progress) in engine.jobs.iter().enumerate() {
        prop_assert_eq!(ends[job], u32::from(progress.state == State::Done));
    }
    prop_assert_eq!(engine.waiting, 0);
    prop_assert_eq!(engine.running, 0);
    prop_assert!(engine.queues.iter().all(VecDeque::is_empty));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// No job is lost or run twice, capacity is never exceeded, time does not
    /// go back, and who ends has done its work; with every policy, behind
    /// every admission that needs no training.
    #[test]
    fn the_invariants_hold(workload in any_workload(), mut settings in any_settings()) {
        let scripts: [fn(&PlacementRequest, &Cluster) -> Decision; 3] = [first_fit, queue_at_two, one_by_one];
        for choose in scripts {
            let mut scripted = scripted(choose, true);
            let mut scheduler = |seed| Ok(scripted(seed));
            audited(&mut Engine::new(&workload, &settings, &mut scheduler).unwrap())?;
        }
        for (kind, admission) in POLICIES.iter().flat_map(|kind| [(kind, "none"), (kind, "arq")]) {
            settings.policy = kind.name.into();
            settings.admission = admission.into();
            let mut scheduler = schedulers(&settings).unwrap();
            audited(&mut Engine::new(&workload, &settings, &mut scheduler).unwrap())?;
        }
    }

    /// Equal input, equal outcome to the last bit; alone and beside others.
    #[test]
    fn runs_repeat(workload in any_workload(), settings in any_settings()) {
        let scripts: [fn(&PlacementRequest, &Cluster) -> Decision; 3] = [first_fit, queue_at_two, one_by_one];
        for choose in scripts {
            let once = || run_scripted(&workload, &settings, choose).unwrap();
            let alone = once();
            let beside: Vec<Outcome> = (0..3).into_par_iter().map(|_| once()).collect();
            for other in beside {
                prop_assert_eq!(&alone, &other);
            }
        }
    }
}
