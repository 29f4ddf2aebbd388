//! Who would lose how much beside whom, by the profiles.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_schedule::App;
use jostle_schedule::predict::Population;
use jostle_schedule::predict::Subject;
use jostle_schedule::predict::co_location;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Predictions kept; beyond that all are forgotten and worked out again.
const MOST_KEPT: usize = 100_000;

/// A loss of performance that counts for somebody whose QoS is missed already.
const FURTHER_LOSS: f64 = 0.005;

/// The place of an application in [`Predictions::apps`].
pub type AppIndex = usize;

/// What a newcomer and those it would run beside are expected to lose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Harm {
    /// Whether one of them misses its QoS then, and loses by the newcomer.
    pub hurts: bool,
    /// The performance lost by all together; 1 is all that one has.
    pub loss: f64,
    /// Who keeps the smallest part of what it has without the newcomer.
    pub worst: Option<Worst>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub name: String,
    /// Fraction of its performance without interference.
    pub performance: f64,
    pub resource: &'static str,
}

/// The profiles by name, and what follows from them.
#[derive(Clone, Default)]
pub struct Predictions {
    apps: Vec<Arc<App>>,
    by_name: BTreeMap<String, AppIndex>,
    known: HashMap<(AppIndex, Vec<AppIndex>), Harm>,
}

impl Predictions {
    /// The profiles of a directory, by the names of their files.
    ///
    /// # Errors
    /// A request error that names `flag`.
    pub fn load(flag: &str, directory: &Path) -> Result<Predictions> {
        let profiles = profile::load_dir(directory);
        let profiles = profiles.map_err(|error| Error::request(format!("{flag} {error}")))?;
        if profiles.is_empty() {
            let shown = directory.display();
            return Err(Error::request(format!(
                "{flag} {shown}: holds no profile (*.json); record one with `jostle profile --out`"
            )));
        }
        let mut predictions = Predictions::default();
        for (path, profile) in profiles {
            let Some(name) = path.file_stem().and_then(|it| it.to_str()) else {
                continue;
            };
            let app = Arc::new(App::completed(&profile, Population::bundled()));
            predictions.add(name, app);
        }
        Ok(predictions)
    }

    pub fn add(&mut self, name: &str, app: Arc<App>) {
        self.by_name.insert(name.into(), self.apps.len());
        self.apps.push(app);
    }

    /// How many profiles there are.
    pub fn count(&self) -> usize {
        self.apps.len()
    }

    pub fn find(&self, name: &str) -> Option<AppIndex> {
        self.by_name.get(name).copied()
    }

    pub fn app(&self, index: AppIndex) -> &Arc<App> {
        &self.apps[index]
    }

    /// The harm when `newcomer` starts beside `members`, each on CPUs of its own.
    pub fn harm(&mut self, newcomer: AppIndex, members: &[AppIndex]) -> Harm {
        if members.is_empty() {
            return Harm::default();
        }
        let mut members = members.to_vec();
        members.sort_unstable();
        let key = (newcomer, members);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let harm = self.predict(newcomer, &key.1);
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        self.known.insert(key, harm.clone());
        harm
    }

    fn predict(&self, newcomer: AppIndex, members: &[AppIndex]) -> Harm {
        let mut all = members.to_vec();
        let before = self.performance(&all);
        all.push(newcomer);
        let after = self.performance(&all);
        let mut harm = Harm::default();
        let mut least_kept = 1.0;
        for (index, app) in all.iter().enumerate() {
            let app = &self.apps[*app];
            // The newcomer has all of its performance without the others.
            let was = before.get(index).map_or(1.0, |it| it.0);
            let (is, resource) = after[index];
            let lost = (was - is).max(0.0);
            harm.hurts |= is < f64::from(app.qos()) && lost > FURTHER_LOSS;
            harm.loss += lost;
            let kept = is / was.max(1e-6);
            if kept < least_kept {
                least_kept = kept;
                harm.worst = Some(Worst {
                    name: app.name().into(),
                    performance: is,
                    resource,
                });
            }
        }
        harm
    }

    /// Of each of `apps` beside all the others: performance, and what costs most.
    /// Where there is nothing to predict from, nothing is lost.
    fn performance(&self, apps: &[AppIndex]) -> Vec<(f64, &'static str)> {
        let subject = |app: &AppIndex| {
            let app = &self.apps[*app];
            Subject {
                name: app.name(),
                responses: &app.responses,
                counted: app.counted(false),
                qos: app.qos().into(),
            }
        };
        let subjects: Vec<Subject> = apps.iter().map(subject).collect();
        let predicted = co_location(&subjects, false);
        let known = predicted.iter();
        known
            .map(|it| (it.performance.unwrap_or(1.0), it.most_costly.unwrap_or("")))
            .collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn recorded() -> Predictions {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
        Predictions::load("--profiles", &directory).expect("recorded profiles")
    }

    #[test]
    fn harm_names_who_loses_and_nobody_loses_alone() {
        let mut predictions = recorded();
        let [stream, awk, redis] =
            ["numpy-stream", "awk", "redis-closed"].map(|name| predictions.find(name).unwrap());
        assert_eq!(predictions.harm(stream, &[]), Harm::default());
        let harm = predictions.harm(stream, &[redis, awk]);
        assert!(harm.hurts && harm.loss > 0.05, "{harm:?}");
        assert_eq!(harm.worst.map(|it| it.name).as_deref(), Some("awk"));
        assert!(!predictions.harm(stream, &[redis]).hurts);
        // The same the other way round: the newcomer is hurt.
        assert!(predictions.harm(awk, &[stream]).hurts);
    }

    #[test]
    fn a_directory_without_profiles_names_the_flag() {
        let directory = tempfile::tempdir().unwrap();
        let error = Predictions::load("--profiles", directory.path()).err();
        let text = error.expect("refused").to_string();
        assert!(
            text.starts_with("--profiles ") && text.contains("jostle profile"),
            "{text}"
        );
    }
}
