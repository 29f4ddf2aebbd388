//! The stream of jobs that makes a load.

use super::population::Class;
use super::population::Population;
use super::scenario::CloudScenario;
use crate::random;
use crate::workload::Job;
use crate::workload::JobPhase;
use jostle_schedule::App;
use jostle_schedule::predict::Responses;
use jostle_schedule::provision::SIZES;
use jostle_statistics::ByNumber;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::Distribution;
use rand_distr::LogNormal;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The first load builds up over so many seconds.
const RAMP_SECONDS: f64 = 60.0;

/// Slots of co-tenants' behaviour per size; each instance takes one at random.
const TENANTS: usize = 24;

/// Jobs as they come, once with profiles and once without, and the co-tenants.
pub(super) struct Jobs {
    pub profiled: Vec<Job>,
    pub bare: Vec<Job>,
    /// By place in [`SIZES`].
    pub tenants: Vec<Vec<Job>>,
}

/// vCPUs wanted at `seconds`.
fn wanted(scenario: &CloudScenario, seconds: f64) -> f64 {
    let minutes = seconds / 60.0;
    let after = scenario.load.partition_point(|point| point[0] <= minutes);
    let (Some(a), Some(b)) = (
        after.checked_sub(1).map(|at| scenario.load[at]),
        scenario.load.get(after),
    ) else {
        return scenario.load.last().map_or(0.0, |last| last[1]);
    };
    a[1] + (b[1] - a[1]) * (minutes - a[0]) / (b[0] - a[0])
}

/// Second by second, jobs arrive until those that would still run if each had
/// started at once and run undisturbed ask for the load wanted. The class that
/// is further below its share comes next.
pub(super) fn draw(scenario: &CloudScenario, population: &Population, seed: u64) -> Jobs {
    let mut rng = random::stream(seed, 2);
    let mean = scenario.job_minutes * 60.0;
    let sigma = scenario.job_sigma;
    let length = LogNormal::new(mean.ln() - 0.5 * sigma * sigma, sigma).ok();
    let end = scenario.load.last().map_or(0.0, |last| last[0] * 60.0);
    let mut running: BinaryHeap<(Reverse<u64>, u32, bool)> = BinaryHeap::new();
    let (mut busy, mut by_class) = (0.0, [0.0f64; 2]);
    let (mut profiled, mut bare) = (Vec::new(), Vec::new());
    for second in 0..end as u64 {
        while let Some((Reverse(until), cpus, batch)) = running.peek().copied()
            && until <= second * 1000
        {
            running.pop();
            busy -= f64::from(cpus);
            by_class[usize::from(batch)] -= f64::from(cpus);
        }
        let at = second as f64;
        let goal = wanted(scenario, at) * ((at + 1.0) / RAMP_SECONDS).min(1.0);
        let mut arrivals: Vec<(f64, u32, Class, usize, f64)> = Vec::new();
        while busy < goal {
            let batch = by_class[1] < scenario.batch_share * (busy + 1.0);
            let (class, weights) = match batch {
                true => (Class::Batch, &scenario.batch_sizes),
                false => (Class::Service, &scenario.service_sizes),
            };
            let size = random::pick(weights, &mut rng);
            let cpus = SIZES[size];
            let mut work = length.map_or(mean, |length| length.sample(&mut rng));
            if at < RAMP_SECONDS {
                // Those of the first load are somewhere in their run.
                work *= rng.random_range(0.05..1.0);
            }
            let work = work.max(1.0);
            let arrival = at + rng.random::<f64>();
            let app = Population::app(class, rng.random_range(0..1 << 16), size);
            running.push((Reverse(((arrival + work) * 1000.0) as u64), cpus, batch));
            busy += f64::from(cpus);
            by_class[usize::from(batch)] += f64::from(cpus);
            arrivals.push((arrival, app, class, size, work));
        }
        arrivals.sort_by_number(|it| it.0);
        for (arrival, app, class, size, work) in arrivals {
            let cpus = SIZES[size];
            let error = scenario.estimation_error_points;
            let known = population.estimate(app, cpus, error, &mut rng);
            let unknown = App::bare(known.name(), Responses::default());
            let unknown = unknown.with_demand(cpus, 0).with_qos(scenario.qos);
            let class = class as u16;
            profiled.push(job(arrival, work, app, Arc::new(known), class));
            bare.push(job(arrival, work, app, Arc::new(unknown), class));
        }
    }
    Jobs {
        profiled,
        bare,
        tenants: tenants(scenario, end, &mut rng),
    }
}

fn job(arrival: f64, work_seconds: f64, truth: u32, estimate: Arc<App>, class: u16) -> Job {
    Job {
        arrival,
        work_seconds,
        demand: estimate.demand(),
        phases: vec![JobPhase {
            from: 0.0,
            truth,
            estimate,
        }],
        profiling_seconds: 0.0,
        priority: 0,
        spread: false,
        target: None,
        class,
    }
}

/// Co-tenants as jobs that outlive every scenario, with a phase per period.
fn tenants(scenario: &CloudScenario, end: f64, rng: &mut ChaCha8Rng) -> Vec<Vec<Job>> {
    let external = &scenario.external;
    let nobody = Arc::new(App::bare("co-tenants", Responses::default()));
    // Long enough for jobs that a slow instance draws out; the last phase stays.
    let phases = (4.0 * end / external.period_seconds).ceil().max(2.0) as usize;
    let mut one = |size: usize| {
        let phase = |at: usize| {
            let swing = external.swing * rng.random_range(-1.0..=1.0);
            JobPhase {
                from: at as f64 * external.period_seconds / 1e9,
                truth: Population::co_tenants(external.mean + swing, size),
                estimate: nobody.clone(),
            }
        };
        Job {
            phases: (0..phases).map(phase).collect(),
            ..job(0.0, 1e9, 0, nobody.clone(), 0)
        }
    };
    (0..SIZES.len())
        .map(|size| (0..TENANTS).map(|_| one(size)).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> CloudScenario {
        CloudScenario {
            load: vec![[0.0, 300.0], [20.0, 300.0], [21.0, 500.0], [40.0, 500.0]],
            ..CloudScenario::default()
        }
    }

    #[test]
    fn jobs_make_the_load_in_the_shares_asked_for() {
        let scenario = scenario();
        let population = Population::draw(&scenario, 3);
        let jobs = draw(&scenario, &population, 3);
        let at = |seconds: f64, class: Option<u16>| -> u32 {
            let busy = jobs.profiled.iter().filter(|job| {
                job.arrival <= seconds
                    && job.arrival + job.work_seconds > seconds
                    && class.is_none_or(|class| class == job.class)
            });
            busy.map(|job| job.demand.cpus).sum()
        };
        for (seconds, cpus) in [(600.0, 300.0), (1100.0, 300.0), (1900.0, 500.0)] {
            let busy = f64::from(at(seconds, None));
            assert!((busy / cpus - 1.0).abs() < 0.05, "{busy} at {seconds}");
            let batch = f64::from(at(seconds, Some(0))) / busy;
            assert!((batch - scenario.batch_share).abs() < 0.05, "{batch}");
        }
        assert!(jobs.profiled.is_sorted_by(|a, b| a.arrival <= b.arrival));
        assert_eq!(jobs.profiled.len(), jobs.bare.len());
        let later = jobs.profiled.iter().filter(|job| job.arrival > 60.0);
        let minutes: Vec<f64> = later.map(|job| job.work_seconds / 60.0).collect();
        let mean = minutes.iter().sum::<f64>() / minutes.len() as f64;
        assert!((mean - 8.1).abs() < 0.5, "{mean}");
    }

    #[test]
    fn a_load_is_straight_between_its_points() {
        assert_eq!(wanted(&scenario(), 20.5 * 60.0), 400.0);
        assert_eq!(wanted(&scenario(), 1e9), 500.0);
    }
}
