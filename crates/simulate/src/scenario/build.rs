//! From a scenario and a seed to what one run is given.

use super::keys::Arrivals;
use super::keys::FaultPlan;
use super::keys::GivenApp;
use super::keys::NodeType;
use super::keys::PhaseKind;
use super::keys::PhasePlan;
use super::keys::Pool;
use super::keys::Reservations;
use super::keys::Scenario;
use super::keys::Work;
use crate::arrivals;
use crate::error::Problem;
use crate::error::ScenarioError;
use crate::hardware::ServerType;
use crate::population;
use crate::population::Member;
use crate::random;
use crate::truth::Truth;
use crate::workload::Fault;
use crate::workload::Job;
use crate::workload::JobPhase;
use crate::workload::Workload;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use jostle_statistics::ByNumber;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::ops::Range;
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
    random::stream(seed, of as u64)
}

/// Members of all pools, one after the other.
#[derive(Default)]
struct Pools {
    members: Vec<Drawn>,
    /// Those of each source.
    ranges: Vec<Range<usize>>,
}

#[derive(Clone)]
struct Drawn {
    member: Member,
    /// What a given application turns into, and when.
    then: Option<(usize, f64)>,
    work: Option<f64>,
}

pub fn workload(scenario: &Scenario, seed: u64) -> Result<Workload, ScenarioError> {
    let mut nodes = scenario.cluster.nodes.clone();
    // By chance, so that ties, which go to the earlier node, favour no type.
    nodes.shuffle(&mut stream(seed, Stream::Nodes));
    // Platforms stand in the order in which the nodes name them first.
    let mut types: Vec<&NodeType> = Vec::new();
    for node in &nodes {
        if !types.iter().any(|kind| kind.name == node.platform) {
            let mut all = scenario.cluster.types.iter();
            types.extend(all.find(|kind| kind.name == node.platform));
        }
    }
    let mut pools = pools(scenario, &types, &mut stream(seed, Stream::Population));
    let phases = scenario.keys.phases.as_ref();
    if phases.is_some_and(|phases| phases.to == PhaseKind::MemoryLoad) {
        // The application at i under load stands at i + the number of all.
        let mut high = pools.members.clone();
        for drawn in &mut high {
            drawn.member.app = population::under_memory_load(&drawn.member.app);
        }
        pools.members.extend(high);
    }
    let largest = nodes.iter().map(|node| node.cpus).max().unwrap_or(1);
    let jobs = jobs(scenario, &pools, largest, seed)?;
    let faults = scenario.keys.faults.as_ref().map_or_else(Vec::new, |plan| {
        faults(plan, &nodes, &jobs, &mut stream(seed, Stream::Faults))
    });
    let apps = pools.members.into_iter().map(|drawn| drawn.member.app);
    Ok(Workload {
        nodes,
        truth: Truth {
            platforms: types.iter().map(|kind| kind.truth.clone()).collect(),
            apps: apps.collect(),
            residual_sd: scenario.keys.jobs.residual as f32,
            seed,
        },
        jobs,
        faults,
        classes: scenario.sources.iter().map(|it| it.class.clone()).collect(),
    })
}

fn pools(scenario: &Scenario, types: &[&NodeType], rng: &mut ChaCha8Rng) -> Pools {
    let hardware: Vec<ServerType> = types.iter().map(|kind| kind.hardware).collect();
    let mut pools = Pools::default();
    for source in &scenario.sources {
        let first = pools.members.len();
        let members = match &source.pool {
            Pool::Synthetic(kind) => population::pool(kind, &hardware, rng),
            Pool::Recorded(profiles) => population::recorded(profiles, &hardware, rng),
            Pool::Given(apps) => apps.iter().map(|app| app.on(types)).collect(),
        };
        pools
            .members
            .extend(members.into_iter().map(|member| Drawn {
                member,
                then: None,
                work: None,
            }));
        if let Pool::Given(apps) = &source.pool {
            for (drawn, app) in pools.members[first..].iter_mut().zip(apps) {
                drawn.then = app.then.map(|(next, at)| (first + next, at));
                drawn.work = app.work;
            }
        }
        pools.ranges.push(first..pools.members.len());
    }
    pools
}

impl GivenApp {
    /// The application with its speeds on `types`, the best = 1.
    fn on(&self, types: &[&NodeType]) -> Member {
        let speed = |kind: &&NodeType| {
            let given = kind.name.as_ref().and_then(|name| self.speed.get(name));
            given.map_or(1.0, |speed| *speed as f32)
        };
        let mut member = self.member.clone();
        member.app.speed = types.iter().map(speed).collect();
        let best = member.app.speed.iter().copied().fold(f32::MIN, f32::max);
        member.app.speed.iter_mut().for_each(|speed| *speed /= best);
        member
    }
}

fn jobs(
    scenario: &Scenario,
    pools: &Pools,
    largest: u32,
    seed: u64,
) -> Result<Vec<Job>, ScenarioError> {
    let keys = &scenario.keys;
    let mut times = stream(seed, Stream::Arrivals);
    let mut rng = stream(seed, Stream::Jobs);
    let mut estimates = stream(seed, Stream::Estimates);
    let arrivals: Vec<(f64, Option<&str>)> = match &scenario.arrivals {
        Arrivals::Process(process) => {
            let mut arrivals = process.times(scenario.count, &mut times);
            if let Some(burst) = keys.burst {
                arrivals = burst.added_to(arrivals);
            }
            arrivals
                .into_iter()
                .map(|seconds| (seconds, None))
                .collect()
        }
        Arrivals::Trace(trace) => trace[..scenario.count]
            .iter()
            .map(|arrival| (arrival.seconds, arrival.app.as_deref()))
            .collect(),
    };
    let mut jobs = Vec::with_capacity(arrivals.len());
    for (arrival, name) in arrivals {
        let (class, member) = choose(scenario, pools, name, &mut rng)?;
        let source = &scenario.sources[class];
        let stretches = stretches(keys.phases.as_ref(), pools, class, member, &mut rng);
        let drawn = &pools.members[member];
        let work_seconds = match (drawn.work, source.work.unwrap_or(scenario.work)) {
            (Some(seconds), _) => seconds,
            (None, Work::Lognormal { median, sigma }) => {
                arrivals::lognormal(median, sigma, &mut rng)
            }
            (None, Work::Uniform { least, most }) => arrivals::uniform(least, most, &mut rng),
        };
        let needed = drawn.member.demand;
        let scaling = &drawn.member.app.scaling;
        let priority = u32::from(rng.random::<f64>() < keys.jobs.priority);
        let asked = match &keys.reservations {
            Some(reservations) => reservations.asked(needed, largest, &mut rng),
            None => needed,
        };
        let speed_up = |cpus: u32| scaling.by_cpus(f64::from(cpus));
        let phases = stretches.into_iter().map(|(from, at)| {
            let member = &pools.members[at].member;
            let app = keys.profiling.estimate(member, &mut estimates);
            JobPhase {
                from,
                truth: at as u32,
                estimate: Arc::new(app.with_demand(asked.cpus, asked.memory_bytes)),
            }
        });
        jobs.push(Job {
            arrival,
            // The same work, done with other CPUs.
            work_seconds: work_seconds * speed_up(needed.cpus) / speed_up(asked.cpus),
            phases: phases.collect(),
            demand: asked,
            profiling_seconds: keys.profiling.seconds,
            priority,
            spread: source.spread,
            target: keys.reservations.map(|_| speed_up(needed.cpus)),
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
    let sources = &scenario.sources;
    let class = match name {
        Some(name) => {
            let mut members = pools.members.iter();
            let named = members.position(|drawn| drawn.member.app.name == name);
            let class = |at: &usize| pools.ranges.iter().position(|range| range.contains(at));
            if let Some(at) = named
                && let Some(class) = class(&at)
            {
                return Ok((class, at));
            }
            let class = sources.iter().position(|source| source.class == name);
            class.ok_or_else(|| {
                ScenarioError::new(&scenario.path, Problem::NoApplication(name.into()))
            })?
        }
        None => {
            let percent: Vec<f64> = sources.iter().map(|source| source.percent).collect();
            random::pick(&percent, rng)
        }
    };
    Ok((class, rng.random_range(pools.ranges[class].clone())))
}

/// What a job of `member` does: from which fraction of its work on it behaves
/// like which member.
fn stretches(
    phases: Option<&PhasePlan>,
    pools: &Pools,
    class: usize,
    member: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<(f64, usize)> {
    let mut stretches = vec![(0.0, member)];
    let mut at = member;
    while let Some((next, from)) = pools.members[at].then {
        stretches.push((from, next));
        at = next;
    }
    let Some(phases) = phases else {
        return stretches;
    };
    if stretches.len() > 1 || rng.random::<f64>() >= phases.share {
        return stretches;
    }
    let all = pools.ranges.last().map_or(0, |range| range.end);
    stretches.extend(phases.at.iter().enumerate().map(|(index, from)| {
        let to = match phases.to {
            PhaseKind::MemoryLoad if index % 2 == 0 => all + member,
            PhaseKind::MemoryLoad => member,
            PhaseKind::Another => rng.random_range(pools.ranges[class].clone()),
        };
        (*from, to)
    }));
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
    // Half to one and a half times the usual repair.
    let repair = |rng: &mut ChaCha8Rng| plan.repair_seconds * rng.random_range(0.5..1.5);
    for (node, cpus) in (0u32..).zip(nodes.iter().map(|node| node.cpus)) {
        let mut up_again = 0.0;
        for at in arrivals::poisson_moments(plan.nodes, until, rng) {
            // What is down cannot break.
            if at >= up_again {
                let seconds = repair(rng);
                up_again = at + seconds;
                faults.push((at, Fault::Node { node, seconds }));
            }
        }
        for at in arrivals::poisson_moments(plan.cpus * f64::from(cpus), until, rng) {
            let seconds = repair(rng);
            faults.push((at, Fault::Cpu { node, seconds }));
        }
    }
    faults.sort_by_number(|(at, _)| *at);
    faults
}
