//! `jostle schedule`: place applications on nodes, and say why; once, or as a
//! co-process that answers events.

use super::gate;
use super::output;
use super::population::population;
use crate::report::Style;
use crate::report::placement;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::ClusterError;
use jostle_schedule::Explanation;
use jostle_schedule::NoPlacement;
use jostle_schedule::NodeEntry;
use jostle_schedule::NodesFile;
use jostle_schedule::POLICIES;
use jostle_schedule::Policy;
use jostle_schedule::PolicyKind;
use jostle_schedule::PolicyOptions;
use jostle_schedule::Stream;
use jostle_schedule::Wanted;
use jostle_schedule::admission::Gate;
use jostle_schedule::place_all;
use jostle_schedule::policy_kind;
use jostle_schedule::predict::Population;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Places every profile in a directory once, in the order of names, each next
/// to those placed before it. With --stdin, places and moves applications as
/// events tell, one JSON object a line, each answered at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// TOML file with [[node]] tables: name, cpus, memory, and optionally runs,
    /// platform, shares_cpus; and [[app]] tables: name, cpus, memory, qos,
    /// target, spread, platforms
    #[arg(long, value_name = "FILE", required_unless_present = "stdin")]
    pub(super) nodes: Option<PathBuf>,
    /// Directory with the profiles of the applications to place
    #[arg(long, value_name = "DIR", required_unless_present = "stdin")]
    pub(super) apps: Option<PathBuf>,
    /// Place only this workload of --apps; may be given more than once
    #[arg(long = "app", value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Further directory in which to look up what runs on the nodes; may be
    /// given more than once
    #[arg(long, value_name = "DIR")]
    pub(super) profiles: Vec<PathBuf>,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    pub(super) population: Option<PathBuf>,
    /// How to choose
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY, value_parser = policies())]
    pub(super) policy: String,
    /// Who may be placed now, before the policy is asked: none, arq (a queue per
    /// class of resource quality), or wrangler:MODEL (no start where the node's
    /// readings predict that it would be slow; MODEL as `jostle train` writes it)
    #[arg(long, value_name = "ADMISSION", default_value = "none")]
    pub(super) admission: String,
    /// What an agent says of its node now (`jostle agent --once`, or /v1/node), for
    /// --admission wrangler; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub(super) node_state: Vec<PathBuf>,
    /// Seed of policies that draw at random
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Do not place what fits nowhere without harm; for policies that look for
    /// harm
    #[arg(long)]
    pub(super) strict: bool,
    /// Read events from standard input and answer each with JSON lines: arrive,
    /// depart, node-up, node-down, node-reading, profile-changed, move-cost, state
    #[arg(long, conflicts_with_all = ["only", "json"])]
    pub(super) stdin: bool,
    /// Show D1 and D2 of every resource for each placement
    #[arg(long, conflicts_with = "json")]
    pub(super) explain: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

const DEFAULT_POLICY: &str = "jostle";

fn policies() -> clap::builder::PossibleValuesParser {
    let values = POLICIES
        .iter()
        .map(|kind| clap::builder::PossibleValue::new(kind.name).help(kind.summary));
    clap::builder::PossibleValuesParser::new(values)
}

fn chosen_policy(name: &str) -> Result<&'static PolicyKind> {
    policy_kind(name).ok_or_else(|| Error::request(format!("--policy {name}: no such policy")))
}

#[derive(Serialize)]
struct Outcome<'a> {
    policy: &'static str,
    placed: &'a [Explanation],
    not_placed: &'a [NoPlacement],
}

pub fn run(args: Args) -> Result<()> {
    let (policy, gate, file) = set_up(&args)?;
    match (args.stdin, file) {
        (false, Some(file)) => once(&args, &file, policy, gate),
        (false, None) => Err(Error::request("--nodes is missing; or use --stdin")),
        (true, file) => stream(&args, file, policy, gate),
    }
}

/// What answers the events of a server with these flags.
///
/// # Errors
/// A request error that names a flag.
pub(super) fn for_serve(args: &Args) -> Result<Stream> {
    let (policy, gate, file) = set_up(args)?;
    prepared(args, file, policy, gate)
}

type SetUp = (Box<dyn Policy>, Gate, Option<NodesFile>);

/// The policy, what stands in front of it, and the nodes file.
fn set_up(args: &Args) -> Result<SetUp> {
    let kind = chosen_policy(&args.policy)?;
    if args.strict && !kind.supports_strict {
        let heed = POLICIES.iter().filter(|kind| kind.supports_strict);
        let names: Vec<&str> = heed.map(|kind| kind.name).collect();
        return Err(Error::request(format!(
            "--strict: {} does not look for harm; use --policy with one of {}",
            kind.name,
            names.join(", ")
        )));
    }
    let policy = (kind.make)(&PolicyOptions {
        seed: args.seed,
        strict: args.strict,
    });
    let gate = gate::admission(&args.admission, args.seed)?;
    let load = |path| NodesFile::load(path);
    let file = args.nodes.as_deref().map(load).transpose();
    let file = file.map_err(|error| Error::request(format!("--nodes {error}")))?;
    Ok((policy, gate, file))
}

/// Places every application of `--apps`.
fn once(args: &Args, file: &NodesFile, mut policy: Box<dyn Policy>, mut gate: Gate) -> Result<()> {
    let (known, names) = known_profiles(args)?;
    for (name, demand) in &file.demands {
        known.get(file, "name", name, demand.line)?;
    }
    let (mut cluster, apps) = build(file, &known)?;
    for (name, demand) in &file.demands {
        for platform in demand.platforms.keys() {
            let there = |entry: &NodeEntry| entry.node.platform.as_ref() == Some(platform);
            if !file.nodes.iter().any(there) {
                warning!("app `{name}` has a speed on platform `{platform}`, which no node has");
            }
        }
    }
    gate::tell(&mut gate, &args.node_state, &cluster)?;
    let wanted: Vec<Wanted> = names
        .iter()
        .map(|name| {
            let demand = file.demands.get(name);
            Wanted {
                app: apps[name].clone(),
                target: demand.and_then(|demand| demand.target),
                spread: demand.is_some_and(|demand| demand.spread),
            }
        })
        .collect();
    let done = place_all(&wanted, policy.as_mut(), &mut gate, &mut cluster);
    let done = done.map_err(Error::request)?;
    let (placed, not_placed) = (done.placed, done.not_placed);

    if args.json {
        output::json(&Outcome {
            policy: policy.name(),
            placed: &placed,
            not_placed: &not_placed,
        })?;
    } else {
        output::text(&placement::page(
            policy.name(),
            &placed,
            &not_placed,
            &cluster,
            args.explain,
            Style::for_stdout(),
        ))?;
    }
    if not_placed.is_empty() {
        Ok(())
    } else {
        Err(Error::Gate(format!(
            "{} of {} applications could not be placed",
            not_placed.len(),
            names.len()
        )))
    }
}

/// The state behind a stream of events, over the nodes and profiles of `args`.
///
/// # Errors
/// A request error that names a flag.
fn prepared(
    args: &Args,
    file: Option<NodesFile>,
    policy: Box<dyn Policy>,
    mut gate: Gate,
) -> Result<Stream> {
    let (known, _) = known_profiles(args)?;
    let file = file.unwrap_or_default();
    let (cluster, apps) = build(&file, &known)?;
    gate::tell(&mut gate, &args.node_state, &cluster)?;
    Ok(Stream::new(cluster, policy, args.explain)
        .with_gate(gate)
        .with_apps(apps.into_values())
        .with_demands(file.demands))
}

/// Answers events until there are no more.
fn stream(args: &Args, file: Option<NodesFile>, policy: Box<dyn Policy>, gate: Gate) -> Result<()> {
    let mut stream = prepared(args, file, policy, gate)?;
    match stream.run(io::stdin().lock(), io::stdout().lock()) {
        // The reader had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Error::environment(format!(
            "the stream of events broke: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}

/// Profiles by workload name, with the file each came from.
#[derive(Default)]
struct Known(BTreeMap<String, (PathBuf, App)>);

impl Known {
    fn load(&mut self, flag: &str, dir: &Path, population: &Population) -> Result<()> {
        let profiles =
            profile::load_dir(dir).map_err(|error| Error::request(format!("{flag} {error}")))?;
        if profiles.is_empty() {
            return Err(Error::request(format!(
                "{flag} {}: holds no profile (*.json); record one with `jostle profile --out`",
                dir.display()
            )));
        }
        for (path, profile) in profiles {
            let app = App::completed(&profile, population);
            let name = app.name().to_string();
            match self.0.get(&name) {
                // The same directory given twice is not a contradiction.
                Some((first, _)) if same_file(first, &path) => continue,
                Some((first, _)) => {
                    return Err(Error::request(format!(
                        "{flag} {}: workload.name `{name}` is also used by {}; keep one of the two",
                        path.display(),
                        first.display()
                    )));
                }
                None => self.0.insert(name, (path, app)),
            };
        }
        Ok(())
    }

    /// What `key` of the nodes file names on `line`.
    fn get(&self, file: &NodesFile, key: &str, name: &str, line: usize) -> Result<&App> {
        match self.0.get(name) {
            Some((_, app)) => Ok(app),
            None => Err(Error::request(format!(
                "--nodes {}, line {line}: key `{key}`: no profile of workload `{name}`; add its directory with --profiles. Known: {}",
                file.path.display(),
                self.names()
            ))),
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.0.keys().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => "none".into(),
            false => names.join(", "),
        }
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Everything that may run on a node, and the names of what is to be placed, in
/// order.
fn known_profiles(args: &Args) -> Result<(Known, Vec<String>)> {
    let population = population(args.population.as_deref())?;
    let mut known = Known::default();
    if let Some(dir) = &args.apps {
        known.load("--apps", dir, &population)?;
    }
    let mut names = args.only.clone();
    names.sort_unstable();
    names.dedup();
    if let Some(name) = names.iter().find(|name| !known.0.contains_key(*name)) {
        return Err(Error::request(format!(
            "--app {name}: no profile of that workload in --apps; there are {}",
            known.names()
        )));
    }
    if names.is_empty() {
        names.extend(known.0.keys().cloned());
    }
    for dir in &args.profiles {
        known.load("--profiles", dir, &population)?;
    }
    Ok((known, names))
}

/// The nodes with what runs there, and every known application with what the
/// nodes file says of it.
fn build(file: &NodesFile, known: &Known) -> Result<(Cluster, BTreeMap<String, Arc<App>>)> {
    let refuse =
        |error: ClusterError| Error::request(format!("--nodes {}: {error}", file.path.display()));
    let nodes = file.nodes.iter().map(|entry| entry.node.clone());
    let mut cluster = Cluster::new(nodes).map_err(refuse)?;
    let mut apps = BTreeMap::new();
    for (name, (_, app)) in &known.0 {
        let app = match file.demands.get(name) {
            Some(demand) => demand.applied(app.clone(), &mut cluster).map_err(refuse)?,
            None => app.clone(),
        };
        apps.insert(name.clone(), Arc::new(app));
    }
    for entry in &file.nodes {
        let node = &entry.node;
        let Some(id) = cluster.id(&node.name) else {
            continue;
        };
        for (name, line) in &entry.runs {
            known.get(file, "runs", name, *line)?;
            let app = apps[name].clone();
            let demand = app.demand();
            cluster.record(id, app, demand);
        }
        if cluster.cpus_used(id) > u64::from(node.cpus)
            || cluster.memory_used(id) > u128::from(node.memory_bytes)
        {
            warning!(
                "node `{}` already runs more than its CPUs or memory; nothing is placed there",
                node.name
            );
        }
    }
    Ok((cluster, apps))
}
