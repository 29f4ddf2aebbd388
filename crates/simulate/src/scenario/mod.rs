//! Scenarios: what to simulate, as a TOML file. `scripts/scenarios/` holds the
//! papers' ones, with every key explained.
//!
//! A scenario and a seed make a [`Workload`]; every policy is given the same.

mod app;
mod build;
mod check;
mod keys;
mod source;

#[cfg(test)]
mod tests;

use crate::cloud::CloudScenario;
use crate::consolidation::ConsolidationScenario;
use crate::error::InvalidKey;
use crate::error::Problem;
use crate::error::ScenarioError;
use crate::settings::Settings;
use crate::workload::Workload;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use source::Source;
use std::path::Path;

pub use keys::Scenario;

/// What a scenario file can be.
#[derive(Clone, Debug)]
pub enum ScenarioFile {
    /// `kind = "jobs"`: jobs come, run and end on a cluster.
    Jobs(Box<Scenario>),
    /// `kind = "cloud"`: machines are rented for a load.
    Cloud(Box<CloudScenario>),
    /// `kind = "consolidation"`: storage on few nodes.
    Consolidation(Box<ConsolidationScenario>),
}

/// What is read of a file before everything else.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
}

impl ScenarioFile {
    /// [`Self::parse`] with the file at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is refused.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(path, &read(path)?)
    }

    /// Checks `text`; `path` is for messages, and files that it names are
    /// looked for beside it.
    ///
    /// # Errors
    ///
    /// TOML that is not well formed, an unknown `kind`, and a value that is not
    /// valid; with file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { path, text };
        let head: Head = source.parse()?;
        match head.kind.as_deref().unwrap_or("jobs") {
            "jobs" => Ok(ScenarioFile::Jobs(Scenario::parse(path, text)?.into())),
            "cloud" => valid(&source, CloudScenario::check).map(ScenarioFile::Cloud),
            "consolidation" => {
                valid(&source, ConsolidationScenario::check).map(ScenarioFile::Consolidation)
            }
            other => {
                let problem = Problem::unknown(other, ["jobs", "cloud", "consolidation"]);
                Err(source.wrong("kind", problem))
            }
        }
    }
}

/// A scenario that `check` accepts.
fn valid<T: DeserializeOwned>(
    source: &Source,
    check: fn(&T) -> Result<(), InvalidKey>,
) -> Result<Box<T>, ScenarioError> {
    let scenario = source.parse()?;
    check(&scenario).map_err(|error| source.invalid(error))?;
    Ok(Box::new(scenario))
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    regular::read_text(path, LONGEST_DOCUMENT)
        .map_err(|error| ScenarioError::new(path, error.into()))
}

impl Scenario {
    /// [`Self::parse`] with the file at `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is refused.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(path, &read(path)?)
    }

    /// Checks `text`; `path` is for messages, and files that it names are
    /// looked for beside it.
    ///
    /// # Errors
    ///
    /// TOML that is not well formed; a key that is unknown, missing or of the
    /// wrong type; numbers out of range; names that nothing has or that two
    /// things have; no node or no job; phases that run in a circle or lead to
    /// nobody; traces and profiles that cannot be read.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { path, text };
        check::checked(&source, source.parse()?)
    }

    /// What one run is given: equal for equal seeds.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] when what was drawn cannot be run, as when no
    /// application is left to draw.
    pub fn workload(&self, seed: u64) -> Result<Workload, ScenarioError> {
        build::workload(self, seed)
    }

    /// Whether the admission called `name` has all that it needs here.
    ///
    /// # Errors
    ///
    /// Wrangler without windows to learn from.
    pub fn check_admission(&self, name: &str) -> Result<(), ScenarioError> {
        match name == "wrangler" && self.admission_options.wrangler.is_none() {
            true => Err(ScenarioError::new(&self.path, Problem::NoWindows)),
            false => Ok(()),
        }
    }

    /// How one run is conducted.
    pub fn settings(&self, policy: &str, admission: &str, seed: u64) -> Settings {
        Settings {
            policy: policy.into(),
            admission: admission.into(),
            admission_options: self.admission_options.clone(),
            seed,
            agents: self.keys.agents.clone(),
            latency: self.keys.latency,
            phases: self.keys.migration,
        }
    }
}
