//! `jostle schedule`: place applications on nodes, and say why.

use super::output;
use crate::error::Error;
use crate::error::Result;
use crate::profile;
use crate::report::Style;
use crate::report::placement;
use crate::schedule::App;
use crate::schedule::Ask;
use crate::schedule::Cluster;
use crate::schedule::Decision;
use crate::schedule::NoPlacement;
use crate::schedule::NodesFile;
use crate::schedule::POLICIES;
use crate::schedule::PolicyKind;
use crate::schedule::PolicyOptions;
use crate::schedule::policy_kind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Places every profile in a directory once, in the order of names, each next
/// to those placed before it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// TOML file with [[node]] tables: name, cpus, memory, and optionally runs,
    /// platform, shares_cpus; and [[app]] tables: name, cpus, memory
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// Directory with the profiles of the applications to place
    #[arg(long, value_name = "DIR")]
    apps: PathBuf,
    /// Place only this workload of --apps; may be given more than once
    #[arg(long = "app", value_name = "NAME")]
    only: Vec<String>,
    /// Further directory in which to look up what runs on the nodes; may be
    /// given more than once
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
    /// How to choose
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY, value_parser = policies())]
    policy: String,
    /// Do not place what fits nowhere without harm; for policies that look for
    /// harm
    #[arg(long)]
    strict: bool,
    /// Show D1 and D2 of every resource for each placement
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const DEFAULT_POLICY: &str = "least-loaded";

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
    placed: &'a [Decision],
    not_placed: &'a [NoPlacement],
}

pub fn run(args: Args) -> Result<()> {
    let file =
        NodesFile::load(&args.nodes).map_err(|error| Error::request(format!("--nodes {error}")))?;
    let apps = to_place(&args)?;
    let known = known_profiles(&args)?;
    let mut cluster = build(&file, &known)?;
    let mut policy = (chosen_policy(&args.policy)?.make)(&PolicyOptions {
        strict: args.strict,
        ..PolicyOptions::default()
    });

    let (mut placed, mut not_placed) = (Vec::new(), Vec::new());
    for name in &apps {
        let app = Arc::new(demanded(&known[name].1, &file));
        match policy.place(&Ask::of(&app), &cluster) {
            Ok((choice, decision)) => {
                cluster
                    .admit(choice.node(), app)
                    .map_err(|error| Error::request(error.to_string()))?;
                placed.push(decision);
            }
            Err(refusal) => not_placed.push(refusal),
        }
    }

    if args.json {
        output::json(&Outcome {
            policy: policy.name(),
            placed: &placed,
            not_placed: &not_placed,
        })?;
    } else {
        let style = Style::for_stdout();
        output::text(&placement::page(
            policy.name(),
            &placed,
            &not_placed,
            &cluster,
            args.explain,
            style,
        ))?;
    }
    if not_placed.is_empty() {
        Ok(())
    } else {
        Err(Error::Gate(format!(
            "{} of {} applications could not be placed",
            not_placed.len(),
            apps.len()
        )))
    }
}

/// Profiles by workload name, with the file each came from.
type Known = BTreeMap<String, (PathBuf, App)>;

fn load(flag: &str, dir: &Path, known: &mut Known) -> Result<()> {
    let profiles =
        profile::load_dir(dir).map_err(|error| Error::request(format!("{flag} {error}")))?;
    if profiles.is_empty() {
        return Err(Error::request(format!(
            "{flag} {}: holds no profile (*.json); record one with `jostle profile --out`",
            dir.display()
        )));
    }
    for (path, profile) in profiles {
        let app = App::new(&profile);
        let name = app.name().to_string();
        if let Some((first, _)) = known.get(&name) {
            // The same directory given twice is not a contradiction.
            if same_file(first, &path) {
                continue;
            }
            return Err(Error::request(format!(
                "{flag} {}: workload.name `{name}` is also used by {}; keep one of the two",
                path.display(),
                first.display()
            )));
        }
        known.insert(name, (path, app));
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Names of the workloads to place, in order.
fn to_place(args: &Args) -> Result<Vec<String>> {
    let mut known = Known::new();
    load("--apps", &args.apps, &mut known)?;
    if args.only.is_empty() {
        return Ok(known.into_keys().collect());
    }
    let mut only = args.only.clone();
    only.sort();
    only.dedup();
    match only.iter().find(|name| !known.contains_key(*name)) {
        Some(name) => Err(Error::request(format!(
            "--app {name}: no profile of that workload in {}; there are {}",
            args.apps.display(),
            names(&known)
        ))),
        None => Ok(only),
    }
}

/// Everything that may run on a node.
fn known_profiles(args: &Args) -> Result<Known> {
    let mut known = Known::new();
    load("--apps", &args.apps, &mut known)?;
    for dir in &args.profiles {
        load("--profiles", dir, &mut known)?;
    }
    Ok(known)
}

fn build(file: &NodesFile, known: &Known) -> Result<Cluster> {
    let at = |line: usize| format!("--nodes {}, line {line}", file.path.display());
    let lookup = |key: &str, name: &str, line: usize| {
        known.get(name).ok_or_else(|| {
            Error::request(format!(
                "{}: key `{key}`: no profile of workload `{name}`; add its directory with --profiles. Known: {}",
                at(line),
                names(known)
            ))
        })
    };
    for (name, demand) in &file.demands {
        lookup("name", name, demand.line)?;
    }
    let nodes = file.nodes.iter().map(|entry| entry.node.clone());
    let mut cluster = Cluster::new(nodes)
        .map_err(|error| Error::request(format!("--nodes {}: {error}", file.path.display())))?;
    for entry in &file.nodes {
        let node = &entry.node;
        let Some(id) = cluster.id(&node.name) else {
            continue;
        };
        for (name, line) in &entry.runs {
            let (_, app) = lookup("runs", name, *line)?;
            let app = Arc::new(demanded(app, file));
            let demand = app.demand();
            cluster.record(id, app, demand);
        }
        if cluster.cpus_used(id) > u64::from(node.cpus)
            || cluster.memory_used(id) > u128::from(node.memory_bytes)
        {
            eprintln!(
                "jostle: warning: node `{}` already runs more than its CPUs or memory; nothing is placed there",
                node.name
            );
        }
    }
    Ok(cluster)
}

fn demanded(app: &App, file: &NodesFile) -> App {
    match file.demands.get(app.name()) {
        Some(demand) => app.clone().with_demand(demand.cpus, demand.memory_bytes),
        None => app.clone(),
    }
}

fn names(known: &Known) -> String {
    let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
