//! What `schedule` and `serve` share: nodes, profiles, and how to choose.

use super::population::population;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use jostle_profile as profile;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::ClusterError;
use jostle_schedule::NodesFile;
use jostle_schedule::POLICIES;
use jostle_schedule::Policy;
use jostle_schedule::PolicyOptions;
use jostle_schedule::Stream;
use jostle_schedule::policy_kind;
use jostle_schedule::predict::Population;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Where applications are placed, and how.
#[derive(Debug, clap::Args)]
pub struct Placing {
    /// TOML file with [[node]] tables: name, cpus, memory, and optionally runs,
    /// platform, shares_cpus; and [[app]] tables: name, cpus, memory, qos,
    /// target, spread, platforms
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Directory with the profiles of the applications to place
    #[arg(long, value_name = "DIR")]
    pub apps: Option<PathBuf>,
    /// Further directory in which to look up what runs on the nodes; may be
    /// given more than once
    #[arg(long, value_name = "DIR")]
    pub profiles: Vec<PathBuf>,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    pub population: Option<PathBuf>,
    /// How to choose
    #[arg(long, value_name = "POLICY", default_value = DEFAULT_POLICY, value_parser = policies())]
    policy: String,
    /// Seed of policies that draw at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not place what fits nowhere without harm; for policies that look for
    /// harm
    #[arg(long)]
    strict: bool,
    /// Show D1 and D2 of every resource for each placement
    #[arg(long)]
    pub explain: bool,
}

const DEFAULT_POLICY: &str = "jostle";

fn policies() -> clap::builder::PossibleValuesParser {
    let values = POLICIES
        .iter()
        .map(|kind| clap::builder::PossibleValue::new(kind.name).help(kind.summary));
    clap::builder::PossibleValuesParser::new(values)
}

impl Placing {
    /// The policy that was asked for.
    ///
    /// # Errors
    /// A request error for one that does not take the flags given.
    pub fn policy(&self) -> Result<Box<dyn Policy>> {
        let name = &self.policy;
        let kind = policy_kind(name)
            .ok_or_else(|| Error::request(format!("--policy {name}: no such policy")))?;
        if self.strict && !kind.supports_strict {
            let heed = POLICIES.iter().filter(|kind| kind.supports_strict);
            let names: Vec<&str> = heed.map(|kind| kind.name).collect();
            return Err(Error::request(format!(
                "--strict: {} does not look for harm; use --policy with one of {}",
                kind.name,
                names.join(", ")
            )));
        }
        Ok((kind.make)(&PolicyOptions {
            seed: self.seed,
            strict: self.strict,
        }))
    }

    /// The nodes file, if there is one.
    ///
    /// # Errors
    /// A request error when it cannot be read.
    pub fn nodes_file(&self) -> Result<Option<NodesFile>> {
        let file = self.nodes.as_deref().map(NodesFile::load).transpose();
        file.map_err(|error| Error::request(format!("--nodes {error}")))
    }

    /// A stream of events over the nodes and profiles that were given.
    ///
    /// # Errors
    /// A request error that names a flag.
    pub fn stream(&self) -> Result<Stream> {
        let policy = self.policy()?;
        let file = self.nodes_file()?.unwrap_or_default();
        let known = self.known()?;
        let (cluster, apps) = build(&file, &known)?;
        Ok(Stream::new(cluster, policy, self.explain)
            .with_apps(apps.into_values())
            .with_demands(file.demands))
    }

    /// Everything that may run on a node.
    ///
    /// # Errors
    /// A request error that names the flag and the profile.
    pub fn known(&self) -> Result<Known> {
        let population = population(self.population.as_deref())?;
        let mut known = Known::default();
        if let Some(dir) = &self.apps {
            known.load("--apps", dir, &population)?;
        }
        known.to_place = known.profiles.keys().cloned().collect();
        for dir in &self.profiles {
            known.load("--profiles", dir, &population)?;
        }
        Ok(known)
    }
}

/// Profiles by workload name, with the file each came from.
#[derive(Default)]
pub struct Known {
    profiles: BTreeMap<String, (PathBuf, App)>,
    /// The names of those in `--apps`, in order.
    to_place: Vec<String>,
}

impl Known {
    /// Adds the profiles in `dir`.
    ///
    /// # Errors
    /// A request error that names `flag`.
    pub fn load(&mut self, flag: &str, dir: &Path, population: &Population) -> Result<()> {
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
            match self.profiles.get(&name) {
                // The same directory given twice is not a contradiction.
                Some((first, _)) if same_file(first, &path) => continue,
                Some((first, _)) => {
                    return Err(Error::request(format!(
                        "{flag} {}: workload.name `{name}` is also used by {}; keep one of the two",
                        path.display(),
                        first.display()
                    )));
                }
                None => self.profiles.insert(name, (path, app)),
            };
        }
        Ok(())
    }

    /// What is to be placed: of `--apps` all, or `only` some.
    ///
    /// # Errors
    /// A request error that names `--app`.
    pub fn to_place(&self, only: &[String]) -> Result<Vec<String>> {
        let mut names = only.to_vec();
        names.sort();
        names.dedup();
        if let Some(name) = names.iter().find(|name| !self.to_place.contains(name)) {
            return Err(Error::request(format!(
                "--app {name}: no profile of that workload in --apps; there are {}",
                shown(&self.to_place)
            )));
        }
        Ok(match names.is_empty() {
            true => self.to_place.clone(),
            false => names,
        })
    }

    /// What `key` of the nodes file names on `line`.
    ///
    /// # Errors
    /// A request error where there is no such profile.
    pub fn get(&self, file: &NodesFile, key: &str, name: &str, line: usize) -> Result<&App> {
        match self.profiles.get(name) {
            Some((_, app)) => Ok(app),
            None => Err(Error::request(format!(
                "--nodes {}, line {line}: key `{key}`: no profile of workload `{name}`; add its directory with --profiles. Known: {}",
                file.path.display(),
                self.names()
            ))),
        }
    }

    /// Every name, for a message.
    pub fn names(&self) -> String {
        shown(self.profiles.keys())
    }
}

fn shown<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The nodes with what runs there, and every known application with what the
/// nodes file says of it.
///
/// # Errors
/// A request error that names the nodes file.
pub fn build(file: &NodesFile, known: &Known) -> Result<(Cluster, BTreeMap<String, Arc<App>>)> {
    let refuse =
        |error: ClusterError| Error::request(format!("--nodes {}: {error}", file.path.display()));
    let nodes = file.nodes.iter().map(|entry| entry.node.clone());
    let mut cluster = Cluster::new(nodes).map_err(refuse)?;
    let mut apps = BTreeMap::new();
    for (name, (_, app)) in &known.profiles {
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
