//! From a scenario and a seed to what one run is given.

use super::plan::Arrivals;
use super::plan::FaultPlan;
use super::plan::JobPlan;
use super::plan::PhaseKind;
use super::plan::Pool;
use super::plan::Reservations;
use super::plan::Scenario;
use super::plan::Work;
use crate::arrivals;
use crate::error::Problem;
use crate::error::ScenarioError;
use crate::hardware::ServerType;
use crate::population;
use crate::population::Member;
use crate::truth::Truth;
use crate::workload::Fault;
use crate::workload::Job;
use crate::workload::JobPhase;
use crate::workload::Workload;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use rand::Rng;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::sync::Arc;

/// Each part of a workload has random numbers of its own, so that a change of
/// one leaves the others as they were.
enum Stream {
    Nodes,
    Population,
    Arrivals,
    Jobs,
    Estimates,
    Faults,
}

fn stream(seed: u64, of: Stream) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(of as u64);
    rng
}

/// Members of all pools, one after the other.
struct Pools {
    members: Vec<Member>,
    /// Per source: the first of its members and how many it has.
    ranges: Vec<(usize, usize)>,
    /// What a given application turns into: member, and when.
    then: Vec<Option<(usize, f64)>>,
    work: Vec<Option<f64>>,
}

pub fn workload(scenario: &Scenario, seed: u64) -> Result<Workload, ScenarioError> {
    let mut nodes = scenario.cluster.nodes.clone();
    // By chance, so that ties, which go to the earlier node, favour no type.
    nodes.shuffle(&mut stream(seed, Stream::Nodes));
    // Platforms stand in the order in which the nodes name them first.
    let mut order: Vec<usize> = Vec::new();
    for node in &nodes {
        let types = &scenario.cluster.types;
        if let Some(at) = types.iter().position(|kind| kind.name == node.platform)
            && !order.contains(&at)
        {
            order.push(at);
        }
    }
    let types = |at: &usize| &scenario.cluster.types[*at];
    let hardware: Vec<ServerType> = order.iter().map(|at| types(at).hardware).collect();
    let names: Vec<Option<&str>> = order.iter().map(|at| types(at).name.as_deref()).collect();
    let plan = &scenario.jobs;
    let mut pools = pools(
        plan,
        &hardware,
        &names,
        &mut stream(seed, Stream::Population),
    );
    if let Some(phases) = &plan.phases
        && phases.to == PhaseKind::MemoryLoad
    {
        // The application at i under load stands at i + the number of all.
        let high: Vec<Member> = pools.members.iter().map(under_load).collect();
        pools.members.extend(high);
    }
    let largest = nodes.iter().map(|node| node.cpus).max().unwrap_or(1);
    let jobs = jobs(scenario, &pools, largest, seed)?;
    let faults = match &scenario.faults {
        Some(plan) => faults(plan, &nodes, &jobs, &mut stream(seed, Stream::Faults)),
        None => Vec::new(),
    };
    Ok(Workload {
        nodes,
        truth: Truth {
            platforms: order.iter().map(|at| types(at).truth.clone()).collect(),
            apps: pools.members.into_iter().map(|member| member.app).collect(),
            residual_sd: scenario.residual_sd as f32,
            seed,
        },
        jobs,
        faults,
        classes: plan.sources.iter().map(|it| it.class.clone()).collect(),
    })
}

fn under_load(member: &Member) -> Member {
    Member {
        app: population::under_memory_load(&member.app),
        ..member.clone()
    }
}

fn pools(
    plan: &JobPlan,
    hardware: &[ServerType],
    names: &[Option<&str>],
    rng: &mut ChaCha8Rng,
) -> Pools {
    let mut pools = Pools {
        members: Vec::new(),
        ranges: Vec::new(),
        then: Vec::new(),
        work: Vec::new(),
    };
    for source in &plan.sources {
        let first = pools.members.len();
        match &source.pool {
            Pool::Synthetic(kind) => {
                pools.members.extend(population::pool(kind, hardware, rng));
            }
            Pool::Recorded(profiles) => {
                for profile in profiles {
                    pools
                        .members
                        .push(population::recorded(profile, hardware, rng));
                }
            }
            Pool::Given(apps) => {
                for app in apps {
                    let mut member = app.member.clone();
                    let speed = |name: &Option<&str>| {
                        let given = app.speed.iter().find(|(of, _)| Some(of.as_str()) == *name);
                        given.map_or(1.0, |(_, speed)| *speed as f32)
                    };
                    member.app.speed = names.iter().map(speed).collect();
                    let best = member.app.speed.iter().copied().fold(f32::MIN, f32::max);
                    member.app.speed.iter_mut().for_each(|speed| *speed /= best);
                    pools.members.push(member);
                }
                pools.then.resize(first, None);
                pools.work.resize(first, None);
                for app in apps {
                    pools
                        .then
                        .push(app.then.map(|(next, at)| (first + next, at)));
                    pools.work.push(app.work);
                }
            }
        }
        pools.ranges.push((first, pools.members.len() - first));
    }
    pools.then.resize(pools.members.len(), None);
    pools.work.resize(pools.members.len(), None);
    pools
}

fn jobs(
    scenario: &Scenario,
    pools: &Pools,
    largest: u32,
    seed: u64,
) -> Result<Vec<Job>, ScenarioError> {
    let plan = &scenario.jobs;
    let mut times = stream(seed, Stream::Arrivals);
    let mut rng = stream(seed, Stream::Jobs);
    let mut estimates = stream(seed, Stream::Estimates);
    let (arrivals, named): (Vec<f64>, Vec<Option<&str>>) = match &plan.arrivals {
        Arrivals::Process(process) => {
            let mut arrivals = process.times(plan.count, &mut times);
            if let Some(burst) = plan.burst {
                arrivals = burst.added_to(arrivals);
            }
            let named = vec![None; arrivals.len()];
            (arrivals, named)
        }
        Arrivals::Trace(trace) => trace[..plan.count]
            .iter()
            .map(|arrival| (arrival.seconds, arrival.app.as_deref()))
            .unzip(),
    };
    let mut jobs = Vec::with_capacity(arrivals.len());
    for (arrival, name) in arrivals.into_iter().zip(named) {
        let (class, member) = choose(scenario, pools, name, &mut rng)?;
        let source = &plan.sources[class];
        let stretches = stretches(plan, pools, class, member, &mut rng);
        let work = source.work.unwrap_or(plan.work);
        let work_seconds = match (pools.work[member], work) {
            (Some(seconds), _) => seconds,
            (None, Work::Lognormal { median, sigma }) => {
                arrivals::lognormal(median, sigma, &mut rng)
            }
            (None, Work::Uniform { least, most }) => arrivals::uniform(least, most, &mut rng),
        };
        let needed = pools.members[member].demand;
        let scaling = &pools.members[member].app.scaling;
        let priority = u32::from(rng.random::<f64>() < plan.priority);
        let asked = match &plan.reservations {
            Some(reservations) => reservations.asked(needed, largest, &mut rng),
            None => needed,
        };
        let speed_up = |cpus: u32| scaling.by_cpus(f64::from(cpus));
        let phases = stretches
            .into_iter()
            .map(|(from, at)| {
                let member = &pools.members[at];
                let app = scenario.profiling.estimate(member, &mut estimates);
                JobPhase {
                    from,
                    truth: at as u32,
                    estimate: Arc::new(app.with_demand(asked.cpus, asked.memory_bytes)),
                }
            })
            .collect();
        jobs.push(Job {
            arrival,
            // The same work, done with other CPUs.
            work_seconds: work_seconds * speed_up(needed.cpus) / speed_up(asked.cpus),
            phases,
            demand: asked,
            profiling_seconds: scenario.profiling.seconds,
            priority,
            spread: source.spread,
            target: plan.reservations.map(|_| speed_up(needed.cpus)),
            class: class as u16,
        });
    }
    Ok(jobs)
}

/// The source and the member for a job: that which a trace names, or by chance.
fn choose(
    scenario: &Scenario,
    pools: &Pools,
    name: Option<&str>,
    rng: &mut ChaCha8Rng,
) -> Result<(usize, usize), ScenarioError> {
    let sources = &scenario.jobs.sources;
    let class = match name {
        Some(name) => {
            for (class, (first, count)) in pools.ranges.iter().enumerate() {
                let members = &pools.members[*first..first + count];
                if let Some(at) = members.iter().position(|member| member.app.name == name) {
                    return Ok((class, first + at));
                }
            }
            sources.iter().position(|source| source.class == name)
        }
        None => {
            let all: f64 = sources.iter().map(|source| source.percent).sum();
            let mut at = rng.random::<f64>() * all;
            let drawn = sources.iter().position(|source| {
                at -= source.percent;
                at < 0.0
            });
            drawn.or(sources.len().checked_sub(1))
        }
    };
    let class = class.ok_or_else(|| ScenarioError {
        path: scenario.path.clone(),
        line: None,
        key: None,
        problem: Box::new(Problem::NoApplication(name.unwrap_or_default().into())),
    })?;
    let (first, count) = pools.ranges[class];
    Ok((class, first + rng.random_range(0..count)))
}

/// What a job of `member` does: from which fraction of its work on it behaves
/// like which member.
fn stretches(
    plan: &JobPlan,
    pools: &Pools,
    class: usize,
    member: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<(f64, usize)> {
    let mut stretches = vec![(0.0, member)];
    let mut at = member;
    while let Some((next, from)) = pools.then[at] {
        stretches.push((from, next));
        at = next;
    }
    let Some(phases) = &plan.phases else {
        return stretches;
    };
    if stretches.len() > 1 || rng.random::<f64>() >= phases.share {
        return stretches;
    }
    let all: usize = pools.ranges.iter().map(|(_, count)| count).sum();
    for (index, from) in phases.at.iter().enumerate() {
        let to = match phases.to {
            PhaseKind::MemoryLoad if index % 2 == 0 => all + member,
            PhaseKind::MemoryLoad => member,
            PhaseKind::Another => {
                let (first, count) = pools.ranges[class];
                first + rng.random_range(0..count)
            }
        };
        stretches.push((*from, to));
    }
    stretches
}

impl Reservations {
    /// What a user asks for who needs `needed`: uniformly up to so many times
    /// too much or too little (Quasar, section 4.2: up to 10 times too much for
    /// 70 % of jobs, up to 5 times too little for 20 %), within the largest
    /// node.
    fn asked(&self, needed: Demand, largest: u32, rng: &mut ChaCha8Rng) -> Demand {
        let (chance, how_far): (f64, f64) = (rng.random(), rng.random());
        let factor = if chance < self.over {
            1.0 + (self.over_factor - 1.0) * how_far
        } else if chance < self.over + self.under {
            1.0 / (1.0 + (self.under_factor - 1.0) * how_far)
        } else {
            1.0
        };
        let cpus = (f64::from(needed.cpus) * factor).round() as u32;
        Demand {
            cpus: cpus.clamp(1, largest),
            ..needed
        }
    }
}

/// Nothing breaks after so many times the time in which the cluster could do
/// all the work.
const HORIZON: f64 = 3.0;

fn faults(
    plan: &FaultPlan,
    nodes: &[Node],
    jobs: &[Job],
    rng: &mut ChaCha8Rng,
) -> Vec<(f64, Fault)> {
    let cpus: f64 = nodes.iter().map(|node| f64::from(node.cpus)).sum();
    let work: f64 = jobs
        .iter()
        .map(|job| job.work_seconds * f64::from(job.demand.cpus))
        .sum();
    let longest = jobs.iter().map(|job| job.work_seconds).fold(0.0, f64::max);
    let last = jobs.last().map_or(0.0, |job| job.arrival);
    let until = last + HORIZON * (work / cpus).max(longest);
    let mut faults = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let node_index = index as u32;
        let mut up_again = 0.0;
        for at in arrivals::poisson_moments(plan.nodes, until, rng) {
            // What is down cannot break.
            if at >= up_again {
                let seconds = repair(plan, rng);
                up_again = at + seconds;
                let fault = Fault::Node {
                    node: node_index,
                    seconds,
                };
                faults.push((at, fault));
            }
        }
        let rate = plan.cpus * f64::from(node.cpus);
        for at in arrivals::poisson_moments(rate, until, rng) {
            let fault = Fault::Cpu {
                node: node_index,
                seconds: repair(plan, rng),
            };
            faults.push((at, fault));
        }
    }
    faults.sort_by(|a, b| a.0.total_cmp(&b.0));
    faults
}

/// Half to one and a half times the usual repair.
fn repair(plan: &FaultPlan, rng: &mut impl Rng) -> f64 {
    plan.repair_seconds * rng.random_range(0.5..1.5)
}
