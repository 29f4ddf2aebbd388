//! What was done when, in a file of the state directory.

use jostle_profile::node::Culprits;
use jostle_profile::node::ExperimentKind;
use serde::Deserialize;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Measurements are counted within so much time, seconds.
pub(super) const DAY: f64 = 86_400.0;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Since 1970.
    pub at_seconds: f64,
    pub seconds: f64,
}

/// What was done with one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Past {
    /// Highest intensity of its next measurement, percent.
    pub ceiling: f64,
    /// Whether the last one reached the floor.
    pub reached_floor: bool,
    /// Whether the last experiment failed.
    pub failed: bool,
    /// Profiles of the last day.
    pub profiled: Vec<Measured>,
    /// Begin of the last one, since 1970.
    pub profiled_at: Option<f64>,
    pub blamed_at: Option<f64>,
    pub culprits: Option<Culprits>,
}

impl Past {
    /// A measurement is begun; it counts with its whole budget until it has ended.
    pub fn begin_profile(&mut self, now: SystemTime, budget: f64) {
        let at_seconds = seconds(now);
        self.profiled.retain(|it| at_seconds - it.at_seconds < DAY);
        self.profiled.push(Measured {
            at_seconds,
            seconds: budget,
        });
        self.profiled_at = Some(at_seconds);
    }

    pub fn ended(&mut self, took: f64, kind: ExperimentKind) {
        if let (ExperimentKind::Profile, Some(last)) = (kind, self.profiled.last_mut()) {
            last.seconds = took;
        }
    }

    /// Seconds of measurements in the last day.
    pub fn spent(&self, now: SystemTime) -> f64 {
        let now = seconds(now);
        let recent = self.profiled.iter().filter(|it| now - it.at_seconds < DAY);
        recent.map(|it| it.seconds).sum()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    workloads: BTreeMap<String, Past>,
    #[serde(skip)]
    path: PathBuf,
}

pub(super) fn seconds(moment: SystemTime) -> f64 {
    let since = moment.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

impl Memory {
    /// What stands in `path`, nothing where there is no such file.
    ///
    /// # Errors
    /// An empty one and why the file cannot be read.
    pub fn load(path: PathBuf) -> Result<Memory, (Memory, String)> {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                String::from("{\"workloads\":{}}")
            }
            Err(error) => {
                let why = format!("{}: {error}", path.display());
                let empty = Memory {
                    path,
                    ..Memory::default()
                };
                return Err((empty, why));
            }
        };
        match serde_json::from_str::<Memory>(&text) {
            Ok(memory) => Ok(Memory { path, ..memory }),
            Err(error) => {
                let why = format!("{}: {error}", path.display());
                let empty = Memory {
                    path,
                    ..Memory::default()
                };
                Err((empty, why))
            }
        }
    }

    /// Writes all of it, or leaves the old file.
    pub fn save(&self) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        jostle_profile::document::replace(&self.path, &text)
    }

    pub fn of(&self, workload: &str) -> Option<&Past> {
        self.workloads.get(workload)
    }

    /// The same, made with `ceiling` where it is new.
    pub fn of_mut(&mut self, workload: &str, ceiling: f64) -> &mut Past {
        let past = self.workloads.entry(workload.into());
        past.or_insert_with(|| Past {
            ceiling,
            ..Past::default()
        })
    }
}
