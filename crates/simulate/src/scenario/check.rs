//! From a file as it stands to a scenario that can run.

use super::admission;
use super::app;
use super::keys::ArrivalKeys;
use super::keys::ClassKeys;
use super::keys::Keys;
use super::keys::PlatformKeys;
use super::keys::WorkKeys;
use super::plan::Arrivals;
use super::plan::ClusterPlan;
use super::plan::JobPlan;
use super::plan::NodeType;
use super::plan::Pool;
use super::plan::Scenario;
use super::plan::Source as JobSource;
use super::plan::Work;
use super::source::Source;
use crate::arrivals;
use crate::arrivals::Process;
use crate::error::Problem;
use crate::error::ScenarioError;
use crate::hardware;
use crate::hardware::HARDWARE;
use crate::hardware::ServerType;
use crate::population;
use crate::population::CLASSES;
use jostle_schedule::Node;
use jostle_schedule::POLICIES;
use std::collections::BTreeSet;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The scenario that `keys` describe.
///
/// # Errors
///
/// The first key that contradicts another, or names something that does not
/// exist.
pub fn checked(source: &Source, keys: Keys) -> Result<Scenario> {
    let policies = policies(source, &keys)?;
    let admissions = admission::admissions(source, &keys)?;
    let admission_options = admission::options(source, &keys)?;
    let cluster = cluster(source, &keys)?;
    let profiling = keys.profiling;
    if profiling.inferred + profiling.missing > 1.0 {
        let problem = Problem::MoreThanAll("missing_percent");
        return Err(source.wrong("profiling.inferred_percent", problem));
    }
    let name = source.path.file_stem().unwrap_or_default();
    Ok(Scenario {
        name: name.to_string_lossy().into_owned(),
        policies,
        admissions,
        admission_options,
        path: source.path.into(),
        profiling,
        residual_sd: keys.jobs.residual,
        faults: keys.faults,
        jobs: jobs(source, &keys, &cluster)?,
        agents: keys.agents,
        latency: keys.latency,
        phases: keys.migration,
        cluster,
    })
}

fn policies(source: &Source, keys: &Keys) -> Result<Vec<String>> {
    let known = || POLICIES.iter().map(|kind| kind.name);
    let Some(policies) = &keys.policies else {
        return Ok(known().map(str::to_string).collect());
    };
    let wrong = |problem| Err(source.wrong("policies", problem));
    if policies.is_empty() {
        let fix = "name at least one, or leave it out for all";
        return wrong(Problem::Empty(fix.into()));
    }
    for (at, name) in policies.iter().enumerate() {
        if !known().any(|known| known == name) {
            return wrong(Problem::unknown(name, known()));
        }
        if policies[..at].contains(name) {
            return wrong(Problem::NamedTwice(name.clone()));
        }
    }
    Ok(policies.clone())
}

fn cluster(source: &Source, keys: &Keys) -> Result<ClusterPlan> {
    let mut plan = ClusterPlan::default();
    source.check_names("platform", keys.platform.iter().map(|it| &it.name))?;
    source.check_names("node", keys.node.iter().map(|it| &it.name))?;
    let mixes = || HARDWARE.iter().map(|mix| mix.name);
    if let Some(cluster) = &keys.cluster {
        let mix = hardware::hardware(&cluster.hardware).ok_or_else(|| {
            let problem = Problem::unknown(&cluster.hardware, mixes());
            source.wrong("cluster.hardware", problem)
        })?;
        plan.nodes = mix.nodes(cluster.servers.map_or(mix.servers(), |count| count as u32));
    }
    for node in &keys.node {
        plan.nodes.extend((1..=node.count).map(|number| Node {
            name: match node.count {
                1 => node.name.clone(),
                _ => format!("{}-{number}", node.name),
            },
            cpus: node.cpus,
            memory_bytes: node.memory_bytes,
            platform: node.platform.clone(),
            shares_cpus: false,
        }));
    }
    if plan.nodes.is_empty() {
        let known: Vec<&str> = mixes().collect();
        return Err(ScenarioError {
            path: source.path.into(),
            line: None,
            key: None,
            problem: Box::new(Problem::NoNode(known.join(", "))),
        });
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = plan.nodes.iter().find(|node| !seen.insert(&node.name)) {
        let mut all = keys.node.iter();
        let at = all.position(|node| twice.name.starts_with(&node.name));
        let key = format!("node[{}].name", at.unwrap_or(0));
        return Err(source.wrong(key, Problem::TwoNodes(twice.name.clone())));
    }
    for node in &plan.nodes {
        if !plan.types.iter().any(|kind| kind.name == node.platform) {
            let kind = node_type(node.platform.as_deref(), &keys.platform);
            plan.types.push(kind);
        }
    }
    for (at, platform) in keys.platform.iter().enumerate() {
        let mut types = plan.types.iter();
        if !types.any(|kind| kind.name.as_ref() == Some(&platform.name)) {
            let problem = Problem::UnusedPlatform(platform.name.clone());
            return Err(source.wrong(format!("platform[{at}].name"), problem));
        }
    }
    Ok(plan)
}

/// What a platform's name refers to: its [[platform]] table, else a server type
/// of the papers, else the reference server.
fn node_type(name: Option<&str>, platforms: &[PlatformKeys]) -> NodeType {
    let known = name.and_then(hardware::server_type);
    let mut hardware: ServerType = known.copied().unwrap_or(ServerType::reference());
    let mut truth = hardware.platform();
    truth.name = name.unwrap_or_default().into();
    let given = platforms.iter().find(|it| Some(it.name.as_str()) == name);
    if let Some(speed) = given.and_then(|given| given.core_speed) {
        hardware.core_speed = speed;
    }
    if let Some(pressure) = given.and_then(|given| given.pressure) {
        for lane in population::shared().iter() {
            truth.pressure_scale[lane] = pressure as f32;
        }
    }
    NodeType {
        name: name.map(str::to_string),
        hardware,
        truth,
    }
}

fn jobs(source: &Source, keys: &Keys, cluster: &ClusterPlan) -> Result<JobPlan> {
    let arrivals = arrivals(source, &keys.arrivals)?;
    let count = match (&arrivals, keys.jobs.count) {
        (Arrivals::Process(_), Some(count)) => count,
        (Arrivals::Process(_), None) => {
            let problem = Problem::Missing("say how many jobs come");
            return Err(source.wrong("jobs.count", problem));
        }
        (Arrivals::Trace(trace), count) => count.unwrap_or(trace.len()).min(trace.len()),
    };
    if let Some(burst) = keys.burst.filter(|burst| burst.after > count) {
        let problem = Problem::BurstTooLate {
            after: burst.after,
            jobs: count,
        };
        return Err(source.wrong("burst.after", problem));
    }
    let sources = sources(source, keys, cluster)?;
    if let Arrivals::Trace(trace) = &arrivals {
        for arrival in trace {
            if let Some(name) = &arrival.app
                && !app::known(&sources, name)
            {
                let classes = sources.iter().map(|it| it.class.as_str());
                return Err(ScenarioError {
                    path: source.beside(keys.arrivals.file.as_deref().unwrap_or_default()),
                    line: Some(arrival.line),
                    key: Some("app".into()),
                    problem: Box::new(Problem::unknown(name, classes)),
                });
            }
        }
    }
    if let Some(phases) = &keys.phases {
        check_phases(source, &phases.at)?;
    }
    if keys.reservations.is_some_and(|it| it.over + it.under > 1.0) {
        let problem = Problem::MoreThanAll("under_percent");
        return Err(source.wrong("reservations.over_percent", problem));
    }
    Ok(JobPlan {
        count,
        priority: keys.jobs.priority,
        arrivals,
        burst: keys.burst,
        work: match &keys.work {
            Some(keys) => work(source, "work", keys)?,
            None => Work::Lognormal {
                median: 600.0,
                sigma: 0.5,
            },
        },
        phases: keys.phases.clone(),
        reservations: keys.reservations,
        sources,
    })
}

/// Where the jobs' applications come from. Without [[class]] tables that is what
/// the scenario lists itself, or else Paragon's four classes "with equal
/// likelihood" (dissertation, 3.4).
fn sources(source: &Source, keys: &Keys, cluster: &ClusterPlan) -> Result<Vec<JobSource>> {
    source.check_names("class", keys.class.iter().map(|class| &class.name))?;
    let (given, recorded) = (!keys.app.is_empty(), keys.population.is_some());
    if keys.class.is_empty() {
        let names: Vec<&str> = match (given, recorded) {
            (true, _) => vec!["given"],
            (false, true) => vec!["recorded"],
            _ => CLASSES[..4].iter().map(|kind| kind.name).collect(),
        };
        let percent = 100.0 / names.len() as f64;
        let classes = names.into_iter().map(|name| ClassKeys {
            name: name.into(),
            percent,
            work: None,
            spread: false,
        });
        return classes
            .map(|it| class(source, keys, cluster, "class", &it))
            .collect();
    }
    let sum: f64 = keys.class.iter().map(|class| class.percent).sum();
    if (sum - 100.0).abs() > 0.01 {
        return Err(source.wrong("class[0].percent", Problem::NotAll(sum)));
    }
    let classes = keys.class.iter().enumerate();
    classes
        .map(|(at, it)| class(source, keys, cluster, &format!("class[{at}]"), it))
        .collect()
}

/// The class at `key`.
fn class(
    source: &Source,
    keys: &Keys,
    cluster: &ClusterPlan,
    key: &str,
    class: &ClassKeys,
) -> Result<JobSource> {
    let pool = match (class.name.as_str(), &keys.population) {
        ("given", _) if !keys.app.is_empty() => {
            Pool::Given(app::given(source, &keys.app, cluster)?)
        }
        ("recorded", Some(population)) => {
            let profiles = population::load_profiles(&source.beside(&population.profiles));
            Pool::Recorded(
                profiles.map_err(|error| source.wrong("population.profiles", error.into()))?,
            )
        }
        (name, population) => Pool::Synthetic(population::class(name).ok_or_else(|| {
            let known = CLASSES.iter().map(|kind| kind.name);
            let known = known.chain((!keys.app.is_empty()).then_some("given"));
            let known = known.chain(population.as_ref().map(|_| "recorded"));
            source.wrong(format!("{key}.name"), Problem::unknown(name, known))
        })?),
    };
    Ok(JobSource {
        class: class.name.clone(),
        percent: class.percent,
        pool,
        work: match &class.work {
            Some(keys) => Some(work(source, &format!("{key}.work"), keys)?),
            None => None,
        },
        spread: class.spread,
    })
}

fn arrivals(source: &Source, keys: &ArrivalKeys) -> Result<Arrivals> {
    let process = keys.process.as_str();
    let wrong = |key: &str, problem| source.wrong(format!("arrivals.{key}"), problem);
    let takes: &[&str] = match process {
        "constant" => &["mean_seconds"],
        "gaussian" => &["mean_seconds", "sd_seconds"],
        "poisson" => &["mean_seconds", "per_second"],
        "trace" => &["file"],
        _ => {
            let known = ["constant", "gaussian", "poisson", "trace"];
            return Err(wrong("process", Problem::unknown(process, known)));
        }
    };
    for (key, given) in [
        ("mean_seconds", keys.mean_seconds.is_some()),
        ("sd_seconds", keys.sd_seconds.is_some()),
        ("per_second", keys.per_second.is_some()),
        ("file", keys.file.is_some()),
    ] {
        if given && !takes.contains(&key) {
            let problem = Problem::ProcessTakes {
                process: process.into(),
                takes: takes.join(", "),
            };
            return Err(wrong(key, problem));
        }
    }
    let needs = |key| {
        let process = process.into();
        wrong("process", Problem::ProcessNeeds { process, key })
    };
    let mean = || keys.mean_seconds.ok_or_else(|| needs("mean_seconds"));
    Ok(match process {
        "constant" => Arrivals::Process(Process::Constant { seconds: mean()? }),
        "gaussian" => Arrivals::Process(Process::Gaussian {
            mean: mean()?,
            sd: keys.sd_seconds.ok_or_else(|| needs("sd_seconds"))?,
        }),
        "poisson" => Arrivals::Process(Process::Poisson {
            mean: match (keys.per_second, keys.mean_seconds) {
                (Some(_), Some(_)) => return Err(wrong("per_second", Problem::TwoMeans)),
                (Some(rate), None) => 1.0 / rate,
                (None, _) => mean()?,
            },
        }),
        _ => {
            let file = keys.file.as_ref().ok_or_else(|| needs("file"))?;
            let trace = arrivals::load_trace(&source.beside(file));
            Arrivals::Trace(trace.map_err(|error| wrong("file", Box::new(error).into()))?)
        }
    })
}

/// The [work] table at `key`.
fn work(source: &Source, key: &str, keys: &WorkKeys) -> Result<Work> {
    match (
        keys.median_seconds,
        keys.sigma,
        keys.least_seconds,
        keys.most_seconds,
    ) {
        (Some(median), sigma, None, None) => Ok(Work::Lognormal {
            median,
            sigma: sigma.unwrap_or(0.0),
        }),
        (None, None, Some(least), Some(most)) if least <= most => Ok(Work::Uniform { least, most }),
        (None, None, Some(least), Some(most)) => {
            let problem = Problem::WorkInterval { least, most };
            Err(source.wrong(format!("{key}.least_seconds"), problem))
        }
        (median, sigma, least, _) => {
            let first = match (median, sigma, least) {
                (Some(_), ..) => "median_seconds",
                (_, Some(_), _) => "sigma",
                (.., Some(_)) => "least_seconds",
                _ => "most_seconds",
            };
            Err(source.wrong(format!("{key}.{first}"), Problem::Work))
        }
    }
}

/// Whether the fractions at which phases begin are some, and ascend.
fn check_phases(source: &Source, at: &[f64]) -> Result<()> {
    let wrong = |at: usize, problem| Err(source.wrong(format!("phases.at[{at}]"), problem));
    if at.is_empty() {
        let fix = "say at which fractions of the work";
        return Err(source.wrong("phases.at", Problem::Empty(fix.into())));
    }
    for (index, value) in at.iter().enumerate() {
        if !(*value > 0.0 && *value < 1.0) {
            let expected = "a fraction between 0 and 1";
            return wrong(index, Problem::out_of_range(value, expected));
        }
        if index > 0 && *value <= at[index - 1] {
            return wrong(index, Problem::NotAscending(*value, at[index - 1]));
        }
    }
    Ok(())
}
