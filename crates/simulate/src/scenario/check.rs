//! From a file as it stands to a scenario that can run.

use super::app;
use super::keys::Arrivals;
use super::keys::ClassKeys;
use super::keys::ClusterPlan;
use super::keys::Keys;
use super::keys::NodeType;
use super::keys::PlatformKeys;
use super::keys::Pool;
use super::keys::Scenario;
use super::keys::Source as JobSource;
use super::keys::Work;
use super::keys::WorkKeys;
use super::source::Source;
use crate::arrivals;
use crate::arrivals::Arrival;
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
use jostle_schedule::admission::ADMISSIONS;
use jostle_schedule::admission::AdmissionOptions;
use std::collections::BTreeSet;
use toml::Value;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Most queues of ARQ.
const QUEUES: usize = 100;

/// The scenario that `keys` describe, or the first key that contradicts another
/// or names something that does not exist.
pub fn checked(source: &Source, keys: Keys) -> Result<Scenario> {
    let check = Check {
        source,
        keys: &keys,
    };
    let policies = check.policies()?;
    let admissions = check.admissions()?;
    let admission_options = check.admission_options()?;
    let cluster = check.cluster()?;
    if keys.profiling.inferred + keys.profiling.missing > 1.0 {
        let problem = Problem::MoreThanAll("missing_percent");
        return Err(source.wrong("profiling.inferred_percent", problem));
    }
    let arrivals = check.arrivals()?;
    let count = match (&arrivals, keys.jobs.count) {
        (Arrivals::Process(_), Some(count)) => count,
        (Arrivals::Process(_), None) => {
            let problem = Problem::Missing("say how many jobs come");
            return Err(source.wrong("jobs.count", problem));
        }
        (Arrivals::Trace(trace), count) => count.unwrap_or(trace.len()).min(trace.len()),
    };
    if let Some(burst) = keys.burst.filter(|burst| burst.after > count) {
        let (after, jobs) = (burst.after, count);
        return Err(source.wrong("burst.after", Problem::BurstTooLate { after, jobs }));
    }
    let sources = check.sources(&cluster)?;
    if let Arrivals::Trace(trace) = &arrivals {
        check.trace(trace, &sources)?;
    }
    if let Some(phases) = &keys.phases {
        check.phases(&phases.at)?;
    }
    if keys.reservations.is_some_and(|it| it.over + it.under > 1.0) {
        let problem = Problem::MoreThanAll("under_percent");
        return Err(source.wrong("reservations.over_percent", problem));
    }
    let work = match &keys.work {
        Some(keys) => check.work("work", keys)?,
        None => Work::Lognormal {
            median: 600.0,
            sigma: 0.5,
        },
    };
    let name = source.path.file_stem().unwrap_or_default();
    Ok(Scenario {
        name: name.to_string_lossy().into_owned(),
        policies,
        admissions,
        admission_options,
        path: source.path.into(),
        cluster,
        count,
        arrivals,
        work,
        sources,
        keys,
    })
}

/// A scenario's keys, and where they stand.
struct Check<'a> {
    source: &'a Source<'a>,
    keys: &'a Keys,
}

impl Check<'_> {
    fn policies(&self) -> Result<Vec<String>> {
        let known: Vec<&str> = POLICIES.iter().map(|kind| kind.name).collect();
        let Some(names) = &self.keys.policies else {
            return Ok(known.into_iter().map(str::to_string).collect());
        };
        let fix = "name at least one, or leave it out for all";
        self.chosen("policies", fix, names.clone(), &known)
    }

    /// The admissions named, in the order given; first come, first served when none
    /// is.
    fn admissions(&self) -> Result<Vec<String>> {
        let given = match &self.keys.admission {
            None => return Ok(vec!["none".into()]),
            Some(Value::Array(several)) => several.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let wrong = |problem| self.source.wrong("admission", problem);
        let name = |value: &Value| {
            let name = value.as_str().map(str::to_string);
            name.ok_or_else(|| wrong(Problem::NoName(value.to_string())))
        };
        let names = given.iter().map(name).collect::<Result<_>>()?;
        let known: Vec<&str> = ADMISSIONS.iter().map(|kind| kind.name).collect();
        let fix = "name at least one, or leave it out";
        let admissions = self.chosen("admission", fix, names, &known)?;
        match self.keys.wrangler.is_none() && admissions.iter().any(|name| name == "wrangler") {
            true => Err(wrong(Problem::NoWindows)),
            false => Ok(admissions),
        }
    }

    /// `names` under `key`, if they are some of those `known`, each once.
    fn chosen(
        &self,
        key: &str,
        fix: &str,
        names: Vec<String>,
        known: &[&str],
    ) -> Result<Vec<String>> {
        let wrong = |problem| Err(self.source.wrong(key, problem));
        if names.is_empty() {
            return wrong(Problem::Empty(fix.into()));
        }
        for (at, name) in names.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return wrong(Problem::unknown(name, known.iter().copied()));
            }
            if names[..at].contains(name) {
                return wrong(Problem::NamedTwice(name.clone()));
            }
        }
        Ok(names)
    }

    /// The options in [arq] and [wrangler]. The file of windows is looked for when
    /// an admission learns from it: the scenario itself can make it.
    fn admission_options(&self) -> Result<AdmissionOptions> {
        let (arq, usual) = (&self.keys.arq, AdmissionOptions::default());
        if let Some(queues) = arq.queues.filter(|queues| *queues > QUEUES) {
            let problem = Problem::out_of_range(queues, format!("1 to {QUEUES}"));
            return Err(self.source.wrong("arq.queues", problem));
        }
        let mut options = AdmissionOptions {
            queues: arq.queues.unwrap_or(usual.queues),
            sjf: arq.sjf.unwrap_or(usual.sjf),
            priorities: arq.priorities.unwrap_or(usual.priorities),
            relative: arq.relative.unwrap_or(usual.relative),
            ..usual
        };
        let Some(wrangler) = &self.keys.wrangler else {
            return Ok(options);
        };
        if wrangler.windows.trim().is_empty() {
            let problem = Problem::Empty("name a CSV file".into());
            return Err(self.source.wrong("wrangler.windows", problem));
        }
        options.wrangler = Some(self.source.beside(&wrangler.windows));
        if let Some(value) = &wrangler.confidence {
            options.wrangler_confidence = match value {
                Value::Float(number) if (0.5..1.0).contains(number) => Some(*number),
                Value::String(word) if word == "tuned" => None,
                _ => {
                    let problem = Problem::Confidence(value.to_string());
                    return Err(self.source.wrong("wrangler.confidence", problem));
                }
            };
        }
        Ok(options)
    }

    fn cluster(&self) -> Result<ClusterPlan> {
        let mut plan = ClusterPlan::default();
        self.source
            .check_names("platform", self.keys.platform.iter().map(|it| &it.name))?;
        self.source
            .check_names("node", self.keys.node.iter().map(|it| &it.name))?;
        let mixes = || HARDWARE.iter().map(|mix| mix.name);
        if let Some(cluster) = &self.keys.cluster {
            let mix = hardware::hardware(&cluster.hardware).ok_or_else(|| {
                let problem = Problem::unknown(&cluster.hardware, mixes());
                self.source.wrong("cluster.hardware", problem)
            })?;
            plan.nodes = mix.nodes(cluster.servers.map_or(mix.servers(), |count| count as u32));
        }
        for node in &self.keys.node {
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
            let problem = Problem::NoNode(known.join(", "));
            return Err(ScenarioError::new(self.source.path, problem));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = plan.nodes.iter().find(|node| !seen.insert(&node.name)) {
            let mut all = self.keys.node.iter();
            let at = all.position(|node| twice.name.starts_with(&node.name));
            let key = format!("node[{}].name", at.unwrap_or(0));
            return Err(self
                .source
                .wrong(key, Problem::TwoNodes(twice.name.clone())));
        }
        for node in &plan.nodes {
            if !plan.types.iter().any(|kind| kind.name == node.platform) {
                let kind = node_type(node.platform.as_deref(), &self.keys.platform);
                plan.types.push(kind);
            }
        }
        for (at, platform) in self.keys.platform.iter().enumerate() {
            let mut types = plan.types.iter();
            if !types.any(|kind| kind.name.as_ref() == Some(&platform.name)) {
                let problem = Problem::UnusedPlatform(platform.name.clone());
                return Err(self.source.wrong(format!("platform[{at}].name"), problem));
            }
        }
        Ok(plan)
    }

    /// Whether there is every application that the trace names.
    fn trace(&self, trace: &[Arrival], sources: &[JobSource]) -> Result<()> {
        let named = |arrival: &Arrival| Some((arrival.line, arrival.app.clone()?));
        let mut named = trace.iter().filter_map(named);
        let Some((line, name)) = named.find(|(_, name)| !app::known(sources, name)) else {
            return Ok(());
        };
        let classes = sources.iter().map(|it| it.class.as_str());
        let file = self.keys.arrivals.file.as_deref().unwrap_or_default();
        Err(ScenarioError {
            line: Some(line),
            key: Some("app".into()),
            ..ScenarioError::new(&self.source.beside(file), Problem::unknown(&name, classes))
        })
    }

    /// Where the jobs' applications come from. Without [[class]] tables that is what
    /// the scenario lists itself, or else Paragon's four classes "with equal
    /// likelihood" (dissertation, 3.4).
    fn sources(&self, cluster: &ClusterPlan) -> Result<Vec<JobSource>> {
        self.source
            .check_names("class", self.keys.class.iter().map(|class| &class.name))?;
        if self.keys.class.is_empty() {
            let names: Vec<&str> = match (self.keys.app.is_empty(), &self.keys.population) {
                (false, _) => vec!["given"],
                (true, Some(_)) => vec!["recorded"],
                (true, None) => CLASSES[..4].iter().map(|kind| kind.name).collect(),
            };
            let percent = 100.0 / names.len() as f64;
            let class_of = |name: &&str| {
                let keys_of_class = ClassKeys {
                    name: name.to_string(),
                    percent,
                    work: None,
                    spread: false,
                };
                self.class(cluster, "class", &keys_of_class)
            };
            return names.iter().map(class_of).collect();
        }
        let sum: f64 = self.keys.class.iter().map(|class| class.percent).sum();
        if (sum - 100.0).abs() > 0.01 {
            return Err(self.source.wrong("class[0].percent", Problem::NotAll(sum)));
        }
        let classes = self.keys.class.iter().enumerate();
        classes
            .map(|(at, it)| self.class(cluster, &format!("class[{at}]"), it))
            .collect()
    }

    /// The class at `key`.
    fn class(&self, cluster: &ClusterPlan, key: &str, class: &ClassKeys) -> Result<JobSource> {
        let pool = match (class.name.as_str(), &self.keys.population) {
            ("given", _) if !self.keys.app.is_empty() => {
                Pool::Given(app::given(self.source, &self.keys.app, cluster)?)
            }
            ("recorded", Some(population)) => {
                let profiles = population::load_profiles(&self.source.beside(&population.profiles));
                let wrong = |problem| self.source.wrong("population.profiles", problem);
                Pool::Recorded(profiles.map_err(wrong)?)
            }
            (name, population) => Pool::Synthetic(population::class(name).ok_or_else(|| {
                let known = CLASSES.iter().map(|kind| kind.name);
                let known = known.chain((!self.keys.app.is_empty()).then_some("given"));
                let known = known.chain(population.as_ref().map(|_| "recorded"));
                self.source
                    .wrong(format!("{key}.name"), Problem::unknown(name, known))
            })?),
        };
        let work = |keys| self.work(&format!("{key}.work"), keys);
        Ok(JobSource {
            class: class.name.clone(),
            percent: class.percent,
            pool,
            work: class.work.as_ref().map(work).transpose()?,
            spread: class.spread,
        })
    }

    fn arrivals(&self) -> Result<Arrivals> {
        let keys = &self.keys.arrivals;
        let process = keys.process.as_str();
        let wrong = |key: &str, problem| self.source.wrong(format!("arrivals.{key}"), problem);
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
                let (process, takes) = (process.into(), takes.join(", "));
                return Err(wrong(key, Problem::ProcessTakes { process, takes }));
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
                let trace = arrivals::load_trace(&self.source.beside(file));
                Arrivals::Trace(trace.map_err(|error| wrong("file", Box::new(error).into()))?)
            }
        })
    }

    /// The [work] table at `key`.
    fn work(&self, key: &str, keys: &WorkKeys) -> Result<Work> {
        let wrong = |name: &str, problem| Err(self.source.wrong(format!("{key}.{name}"), problem));
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
            (None, None, Some(least), Some(most)) if least <= most => {
                Ok(Work::Uniform { least, most })
            }
            (None, None, Some(least), Some(most)) => {
                wrong("least_seconds", Problem::WorkInterval { least, most })
            }
            (Some(_), ..) => wrong("median_seconds", Problem::Work),
            (_, Some(_), ..) => wrong("sigma", Problem::Work),
            (_, _, Some(_), _) => wrong("least_seconds", Problem::Work),
            _ => wrong("most_seconds", Problem::Work),
        }
    }

    /// Whether the fractions at which phases begin are some, and ascend.
    fn phases(&self, at: &[f64]) -> Result<()> {
        let wrong =
            |at: usize, problem| Err(self.source.wrong(format!("phases.at[{at}]"), problem));
        if at.is_empty() {
            let fix = "say at which fractions of the work";
            return Err(self.source.wrong("phases.at", Problem::Empty(fix.into())));
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
}

/// What a platform's name refers to: its [[platform]] table, else a server type
/// of the papers, else the reference server.
fn node_type(name: Option<&str>, platforms: &[PlatformKeys]) -> NodeType {
    let known = name.and_then(hardware::server_type);
    let mut hardware: ServerType = known.copied().unwrap_or(hardware::REFERENCE);
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
