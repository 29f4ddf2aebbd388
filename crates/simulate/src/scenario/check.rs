//! From a file as it stands to a scenario that can run.

use super::Arrivals;
use super::ClusterPlan;
use super::FaultPlan;
use super::JobPlan;
use super::NodeType;
use super::PhaseKind;
use super::PhasePlan;
use super::Pool;
use super::Reservations;
use super::Scenario;
use super::ScenarioError;
use super::Work;
use super::admission;
use super::app;
use super::raw::Raw;
use super::raw::RawArrivals;
use super::raw::RawCluster;
use super::raw::RawNode;
use super::raw::RawPhases;
use super::raw::RawPlatform;
use super::raw::RawWork;
use super::source::Names;
use super::source::Source;
use super::source::memory;
use super::source::unknown;
use crate::arrivals;
use crate::arrivals::Burst;
use crate::arrivals::Process;
use crate::estimate::ProfilingError;
use crate::hardware;
use crate::hardware::HARDWARE;
use crate::hardware::ServerType;
use crate::population;
use crate::population::CLASSES;
use crate::settings::Agents;
use crate::settings::Latency;
use crate::settings::PhaseDetection;
use jostle_schedule::Node;
use jostle_schedule::POLICIES;
use toml::Spanned;

type Result<T> = std::result::Result<T, ScenarioError>;

/// `raw` checked.
pub fn checked(source: &Source, raw: Raw) -> Result<Scenario> {
    let policies = policies(source, &raw)?;
    let admissions = admission::admissions(source, &raw)?;
    let admission_options = admission::options(source, &raw)?;
    let cluster = cluster(source, raw.cluster.as_ref(), &raw.node, &raw.platform)?;
    let profiling_defaults = ProfilingError::default();
    let inferred = raw.profiling.inferred_percent.as_ref();
    let percent = |percent: Option<super::number::Percent>, usual: f64| {
        percent.map_or(usual, |percent| percent.fraction())
    };
    let profiling = ProfilingError {
        points: raw
            .profiling
            .error_points
            .map_or(profiling_defaults.points, |points| points.0),
        curve_sd: percent(raw.profiling.curve_percent, profiling_defaults.curve_sd),
        inferred: percent(
            inferred.map(|it| *it.get_ref()),
            profiling_defaults.inferred,
        ),
        missing: percent(raw.profiling.missing_percent, profiling_defaults.missing),
        speed: percent(raw.profiling.speed_percent, profiling_defaults.speed),
    };
    if let Some(inferred) = inferred
        && profiling.inferred + profiling.missing > 1.0
    {
        let problem = "keys `inferred_percent` and `missing_percent` add up to more than 100";
        return Err(source.wrong(inferred, problem.into()));
    }
    let usual = PhaseDetection::default();
    let migration = &raw.migration;
    let phases = PhaseDetection {
        chance: percent(migration.noticed_percent, usual.chance),
        delay_seconds: migration
            .delay_seconds
            .map_or(usual.delay_seconds, |it| it.0),
        migration_median_seconds: migration
            .median_seconds
            .map_or(usual.migration_median_seconds, |it| it.0),
        migration_sigma: migration.sigma.map_or(usual.migration_sigma, |it| it.0),
        migrate: migration.allowed.unwrap_or(usual.migrate),
    };
    let faults = raw.faults.as_ref().map(|faults| FaultPlan {
        nodes: faults.nodes_per_hour.0 / 3600.0,
        cpus: faults.cpus_per_hour.0 / 3600.0,
        repair_seconds: faults.repair_seconds.0,
    });
    Ok(Scenario {
        name: source
            .path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
        policies,
        admissions,
        admission_options,
        path: source.path.into(),
        profiling,
        profiling_seconds: raw.profiling.seconds.map_or(10.0, |seconds| seconds.0),
        residual_sd: percent(raw.jobs.residual_percent, 0.02),
        faults,
        agents: agents(source, &raw)?,
        latency: Latency {
            base_seconds: raw.latency.base_seconds.0,
            per_examined_seconds: raw.latency.per_examined_seconds.0,
        },
        phases,
        jobs: jobs(source, &raw, &cluster)?,
        cluster,
    })
}

fn policies(source: &Source, raw: &Raw) -> Result<Vec<String>> {
    let known = || POLICIES.iter().map(|kind| kind.name);
    let Some(given) = &raw.policies else {
        return Ok(known().map(str::to_string).collect());
    };
    if given.get_ref().is_empty() {
        let problem = "key `policies`: is empty; name at least one, or leave it out for all";
        return Err(source.wrong(given, problem.into()));
    }
    let mut policies: Vec<String> = Vec::new();
    for name in given.get_ref() {
        if !known().any(|known| known == name.get_ref()) {
            return Err(source.wrong(name, unknown("policies", name.get_ref(), known())));
        }
        if policies.contains(name.get_ref()) {
            let problem = format!("key `policies`: `{}` is named twice", name.get_ref());
            return Err(source.wrong(name, problem));
        }
        policies.push(name.get_ref().clone());
    }
    Ok(policies)
}

fn agents(source: &Source, raw: &Raw) -> Result<Agents> {
    let usual = Agents::default();
    let sync_seconds = match &raw.agents.sync_seconds {
        Some(key) => {
            let [least, most] = key.get_ref().map(|seconds| seconds.0);
            if least > most {
                let problem = format!("key `sync_seconds`: {least} is above {most}; least first");
                return Err(source.wrong(key, problem));
            }
            [least, most]
        }
        None => usual.sync_seconds,
    };
    Ok(Agents {
        count: raw.agents.count.map_or(usual.count, |count| count.0),
        sync_seconds,
    })
}

fn cluster(
    source: &Source,
    hardware_key: Option<&RawCluster>,
    nodes: &[RawNode],
    platforms: &[RawPlatform],
) -> Result<ClusterPlan> {
    let mut plan = ClusterPlan {
        nodes: Vec::new(),
        types: Vec::new(),
    };
    let mut names = Names::default();
    for platform in platforms {
        names.add(source, "platform", &platform.name)?;
    }
    if let Some(key) = hardware_key {
        let name = key.hardware.get_ref();
        let mix = hardware::hardware(name).ok_or_else(|| {
            let known = HARDWARE.iter().map(|mix| mix.name);
            source.wrong(&key.hardware, unknown("hardware", name, known))
        })?;
        plan.nodes = mix.nodes(key.servers.map_or(mix.servers(), |count| count.0 as u32));
    }
    let mut names = Names::default();
    for node in nodes {
        names.add(source, "node", &node.name)?;
        let count = node.count.map_or(1, |count| count.0);
        let memory_bytes = memory(source, &node.memory)?;
        for number in 1..=count {
            let name = match count {
                1 => node.name.get_ref().clone(),
                _ => format!("{}-{number}", node.name.get_ref()),
            };
            plan.nodes.push(Node {
                name,
                cpus: node.cpus.0 as u32,
                memory_bytes,
                platform: node.platform.as_ref().map(|name| name.get_ref().clone()),
                shares_cpus: false,
            });
        }
    }
    if plan.nodes.is_empty() {
        let known: Vec<&str> = HARDWARE.iter().map(|mix| mix.name).collect();
        let problem = format!(
            "holds no node; write [cluster] with hardware = one of {}, or add [[node]] tables",
            known.join(", ")
        );
        return Err(source.refuse(None, problem));
    }
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = plan.nodes.iter().find(|node| !seen.insert(&node.name)) {
        let key = nodes
            .iter()
            .find(|raw| twice.name.starts_with(raw.name.get_ref().as_str()));
        let at = key.map(|raw| raw.name.span().start);
        let problem = format!(
            "key `name`: two nodes are called `{}`; give each node a name of its own",
            twice.name
        );
        return Err(source.refuse(at, problem));
    }
    for node in &plan.nodes {
        if !plan.types.iter().any(|kind| kind.name == node.platform) {
            plan.types
                .push(node_type(node.platform.as_deref(), platforms));
        }
    }
    for platform in platforms {
        let name = platform.name.get_ref();
        if !plan
            .types
            .iter()
            .any(|kind| kind.name.as_ref() == Some(name))
        {
            let problem = format!("key `name`: no node is of platform `{name}`");
            return Err(source.wrong(&platform.name, problem));
        }
    }
    Ok(plan)
}

/// What stands behind a platform's name: its [[platform]] table, else a server
/// type of the papers, else the reference server.
fn node_type(name: Option<&str>, platforms: &[RawPlatform]) -> NodeType {
    let known = name.and_then(hardware::server_type);
    let mut hardware: ServerType = known.copied().unwrap_or(ServerType::reference());
    let mut truth = hardware.platform();
    truth.name = name.unwrap_or_default().into();
    let given = platforms
        .iter()
        .find(|platform| Some(platform.name.get_ref().as_str()) == name);
    if let Some(given) = given {
        if let Some(speed) = given.core_speed {
            hardware.core_speed = speed.0;
        }
        if let Some(pressure) = given.pressure {
            for lane in population::shared().iter() {
                truth.pressure_scale[lane] = pressure.0 as f32;
            }
        }
    }
    NodeType {
        name: name.map(str::to_string),
        hardware,
        truth,
    }
}

fn jobs(source: &Source, raw: &Raw, cluster: &ClusterPlan) -> Result<JobPlan> {
    let arrivals = arrivals(source, &raw.arrivals)?;
    let count = match (&arrivals, raw.jobs.count) {
        (Arrivals::Process(_), Some(count)) => count.0,
        (Arrivals::Process(_), None) => {
            let problem = "key `count` is missing in [jobs]; say how many jobs come";
            return Err(source.refuse(None, problem.into()));
        }
        (Arrivals::Trace(trace), count) => count.map_or(trace.len(), |c| c.0.min(trace.len())),
    };
    let burst = match &raw.burst {
        Some(burst) => {
            let after = burst.after.get_ref().0;
            if after > count {
                let problem = format!("key `after`: is {after}, but only {count} jobs come");
                return Err(source.wrong(&burst.after, problem));
            }
            Some(Burst {
                after,
                jobs: burst.jobs.0,
                gap_seconds: burst.gap_seconds.0,
            })
        }
        None => None,
    };
    let usual = Work::Lognormal {
        median: 600.0,
        sigma: 0.5,
    };
    let sources = sources(source, raw, cluster)?;
    if let Arrivals::Trace(trace) = &arrivals {
        for arrival in trace {
            if let Some(name) = &arrival.app
                && !app::known(&sources, name)
            {
                let classes = sources.iter().map(|it| it.class.as_str());
                return Err(ScenarioError {
                    path: source.beside(raw.arrivals.file.as_ref().map_or("", |f| f.get_ref())),
                    line: Some(arrival.line),
                    problem: unknown("app", name, classes),
                });
            }
        }
    }
    Ok(JobPlan {
        count,
        priority: raw.jobs.priority_percent.unwrap_or_default().fraction(),
        arrivals,
        burst,
        work: match &raw.work {
            Some(work) => work_of(source, work)?,
            None => usual,
        },
        phases: match &raw.phases {
            Some(phases) => Some(phase_plan(source, phases)?),
            None => None,
        },
        reservations: match &raw.reservations {
            Some(it) => {
                let (over, under) = (
                    it.over_percent.get_ref().fraction(),
                    it.under_percent.fraction(),
                );
                if over + under > 1.0 {
                    let problem = "keys `over_percent` and `under_percent` add up to more than 100";
                    return Err(source.wrong(&it.over_percent, problem.into()));
                }
                Some(Reservations {
                    over,
                    over_factor: it.over_factor.0.max(1.0),
                    under,
                    under_factor: it.under_factor.0.max(1.0),
                })
            }
            None => None,
        },
        sources,
    })
}

fn sources(source: &Source, raw: &Raw, cluster: &ClusterPlan) -> Result<Vec<super::Source>> {
    let mut sources = Vec::new();
    let mut names = Names::default();
    for class in &raw.class {
        names.add(source, "class", &class.name)?;
        let name = class.name.get_ref();
        let pool = match name.as_str() {
            "given" if !raw.app.is_empty() => Pool::Given(app::given(source, &raw.app, cluster)?),
            "recorded" if raw.population.is_some() => app::recorded(source, raw)?,
            name => {
                let kind = population::class(name).ok_or_else(|| {
                    let known = CLASSES.iter().map(|kind| kind.name);
                    let known = known.chain((!raw.app.is_empty()).then_some("given"));
                    let known = known.chain(raw.population.is_some().then_some("recorded"));
                    source.wrong(&class.name, unknown("name", name, known))
                })?;
                Pool::Synthetic(kind)
            }
        };
        sources.push(super::Source {
            class: name.clone(),
            percent: class.percent.get_ref().0,
            pool,
            work: match &class.work {
                Some(work) => Some(work_of(source, work)?),
                None => None,
            },
            spread: class.spread,
        });
    }
    if let Some(first) = raw.class.first() {
        let sum: f64 = sources.iter().map(|it| it.percent).sum();
        if (sum - 100.0).abs() > 0.01 {
            let problem =
                format!("key `percent`: those of all classes add up to {sum}, not to 100");
            return Err(source.wrong(&first.percent, problem));
        }
        return Ok(sources);
    }
    let whole = |class: &str, pool: Pool| super::Source {
        class: class.into(),
        percent: 100.0,
        pool,
        work: None,
        spread: false,
    };
    if !raw.app.is_empty() {
        return Ok(vec![whole(
            "given",
            Pool::Given(app::given(source, &raw.app, cluster)?),
        )]);
    }
    if raw.population.is_some() {
        return Ok(vec![whole("recorded", app::recorded(source, raw)?)]);
    }
    // Paragon's four classes, "with equal likelihood" (dissertation, 3.4).
    Ok(CLASSES[..4]
        .iter()
        .map(|kind| super::Source {
            percent: 25.0,
            ..whole(kind.name, Pool::Synthetic(kind))
        })
        .collect())
}

fn arrivals(source: &Source, raw: &RawArrivals) -> Result<Arrivals> {
    let name = raw.process.get_ref().as_str();
    let allowed: &[&str] = match name {
        "constant" => &["mean_seconds"],
        "gaussian" => &["mean_seconds", "sd_seconds"],
        "poisson" => &["mean_seconds", "per_second"],
        "trace" => &["file"],
        _ => {
            let known = ["constant", "gaussian", "poisson", "trace"];
            return Err(source.wrong(&raw.process, unknown("process", name, known)));
        }
    };
    for (key, at) in [
        ("mean_seconds", raw.mean_seconds.as_ref().map(Spanned::span)),
        ("sd_seconds", raw.sd_seconds.as_ref().map(Spanned::span)),
        ("per_second", raw.per_second.as_ref().map(Spanned::span)),
        ("file", raw.file.as_ref().map(Spanned::span)),
    ] {
        if let Some(at) = at
            && !allowed.contains(&key)
        {
            let problem = format!(
                "key `{key}`: process `{name}` has none; it takes {}",
                allowed.join(", ")
            );
            return Err(source.refuse(Some(at.start), problem));
        }
    }
    let missing = |key: &str| {
        source.wrong(
            &raw.process,
            format!("process `{name}` needs the key `{key}`"),
        )
    };
    let mean = || {
        let key = raw.mean_seconds.as_ref().map(|key| key.get_ref().0);
        key.ok_or_else(|| missing("mean_seconds"))
    };
    Ok(match name {
        "constant" => Arrivals::Process(Process::Constant { seconds: mean()? }),
        "gaussian" => Arrivals::Process(Process::Gaussian {
            mean: mean()?,
            sd: match &raw.sd_seconds {
                Some(key) => key.get_ref().0,
                None => return Err(missing("sd_seconds")),
            },
        }),
        "poisson" => Arrivals::Process(Process::Poisson {
            mean: match (&raw.per_second, &raw.mean_seconds) {
                (Some(key), Some(_)) => {
                    let problem = "keys `per_second` and `mean_seconds` say the same; keep one";
                    return Err(source.wrong(key, problem.into()));
                }
                (Some(key), None) => 1.0 / key.get_ref().0,
                (None, _) => mean()?,
            },
        }),
        _ => {
            let file = raw.file.as_ref().ok_or_else(|| missing("file"))?;
            let trace = arrivals::load_trace(&source.beside(file.get_ref()))
                .map_err(|error| source.wrong(file, format!("key `file`: {error}")))?;
            Arrivals::Trace(trace)
        }
    })
}

fn work_of(source: &Source, raw: &RawWork) -> Result<Work> {
    match (
        &raw.median_seconds,
        &raw.sigma,
        &raw.least_seconds,
        &raw.most_seconds,
    ) {
        (Some(median), sigma, None, None) => Ok(Work::Lognormal {
            median: median.get_ref().0,
            sigma: sigma.as_ref().map_or(0.0, |sigma| sigma.get_ref().0),
        }),
        (None, None, Some(least), Some(most)) => {
            let (low, high) = (least.get_ref().0, most.get_ref().0);
            match low <= high {
                true => Ok(Work::Uniform {
                    least: low,
                    most: high,
                }),
                false => Err(source.wrong(
                    least,
                    format!("key `least_seconds`: {low} is above most_seconds = {high}"),
                )),
            }
        }
        (median, sigma, least, most) => {
            let at = median.as_ref().map(Spanned::span);
            let at = at.or(sigma.as_ref().map(Spanned::span));
            let at = at.or(least.as_ref().map(Spanned::span));
            let at = at.or(most.as_ref().map(Spanned::span));
            let problem =
                "work is either median_seconds and sigma, or least_seconds and most_seconds";
            Err(source.refuse(at.map(|span| span.start), problem.into()))
        }
    }
}

fn phase_plan(source: &Source, raw: &RawPhases) -> Result<PhasePlan> {
    let to = match raw.to.get_ref().as_str() {
        "memory-load" => PhaseKind::MemoryLoad,
        "another" => PhaseKind::Another,
        other => {
            let problem = unknown("to", other, ["memory-load", "another"]);
            return Err(source.wrong(&raw.to, problem));
        }
    };
    let mut at: Vec<f64> = Vec::with_capacity(raw.at.len());
    for key in &raw.at {
        let value = key.get_ref().0;
        if let Some(last) = at.last()
            && value <= *last
        {
            let problem = format!("key `at`: {value} is not above {last}; fractions ascend");
            return Err(source.wrong(key, problem));
        }
        at.push(value);
    }
    if at.is_empty() {
        let problem = "key `at` of [phases] is empty; say at which fractions of the work";
        return Err(source.wrong(&raw.to, problem.into()));
    }
    Ok(PhasePlan {
        share: raw.percent.fraction(),
        at,
        to,
    })
}
