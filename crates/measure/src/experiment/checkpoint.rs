//! Writes down what was read while measuring, so that a measurement that is
//! killed can be resumed.

use super::outcome::Measured;
use super::record;
use super::record::RunMetadata;
use super::settings::Observer;
use super::settings::Progress;
use jostle_profile as profile;
use jostle_profile::Readings;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// When the readings are first written down.
const FIRST: Duration = Duration::from_secs(2);
/// The interval between later writes, which grow with the readings.
const EVERY: Duration = Duration::from_secs(10);

/// Passes everything on, and now and then writes down what was read.
pub(super) struct Checkpointer<'a> {
    inner: &'a mut dyn Observer,
    path: Option<PathBuf>,
    metadata: RunMetadata,
    due: Instant,
}

impl<'a> Checkpointer<'a> {
    /// Passes everything on to `inner`; keeps nothing without a `path`.
    pub(super) fn new(
        inner: &'a mut dyn Observer,
        path: Option<PathBuf>,
        metadata: RunMetadata,
    ) -> Checkpointer<'a> {
        Checkpointer {
            inner,
            path,
            metadata,
            due: Instant::now() + FIRST,
        }
    }
}

impl Observer for Checkpointer<'_> {
    fn progress(&mut self, progress: Progress) {
        self.inner.progress(progress);
    }

    fn warn(&mut self, text: &str) {
        self.inner.warn(text);
    }

    fn checkpoint(&mut self, readings: &dyn Fn() -> Readings) {
        let Some(path) = &self.path else {
            return;
        };
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let readings = readings();
        let mut metadata = self.metadata.clone();
        metadata.profile.conditions.duration_seconds = readings.elapsed_seconds;
        let measured = Measured::unfinished(readings);
        let mut profile = record::profile(&measured, metadata);
        // Verdicts fall at the end; what has not begun is to be resumed too.
        for resource in self.metadata.sources.keys() {
            let entry = ResourceEntry::without_numbers(
                Status::Unresolved,
                "the measurement did not come to its end",
            );
            profile.resources.insert(resource.to_string(), entry);
        }
        if let Err(error) = profile::save(&profile, path) {
            self.inner.warn(&format!(
                "cannot keep what was read so far, an interruption by force would lose it: {error}"
            ));
            self.path = None;
        }
    }
}
