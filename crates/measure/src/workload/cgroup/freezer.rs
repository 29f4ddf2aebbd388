//! Stopping everything in a cgroup at once, forks included, unseen by the
//! processes and their parents.

use super::Hierarchies;
use super::processes;
use crate::workload::hold_error::HoldError;
use crate::workload::poll;
use jostle_host::os::here;
use jostle_host::os::text;
use nix::unistd::AccessFlags;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workload) enum Kind {
    /// `cgroup.freeze`: 0 or 1.
    V2,
    /// `freezer.state`: THAWED or FROZEN.
    V1,
}

impl Kind {
    fn word(self, frozen: bool) -> &'static str {
        match (self, frozen) {
            (Kind::V2, true) => "1",
            (Kind::V2, false) => "0",
            (Kind::V1, true) => "FROZEN",
            (Kind::V1, false) => "THAWED",
        }
    }
}

/// The freezer of one cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workload) struct Freezer {
    pub(in crate::workload) directory: PathBuf,
    pub(in crate::workload) kind: Kind,
}

impl Freezer {
    /// The freezer that holds exactly what the cgroup at `directory` holds.
    pub(in crate::workload) fn of(
        hierarchies: &Hierarchies,
        directory: &Path,
    ) -> Result<Freezer, HoldError> {
        if let Some(own) = Self::in_it(hierarchies, directory) {
            return own;
        }
        // The same path in a hierarchy that has a freezer, with the same
        // processes: then holding one is holding the other.
        let mut reasons = Vec::new();
        for (controller, unified) in [("", true), ("freezer", false)] {
            match hierarchies.counterpart(directory, controller) {
                Ok(None) => {}
                Ok(Some(other)) => match Self::usable(other, unified) {
                    Ok(freezer) => return Ok(freezer),
                    Err(reason) => reasons.push(reason.to_string()),
                },
                Err(reason) => reasons.push(reason.to_string()),
            }
        }
        match reasons.is_empty() {
            true => Err(HoldError::NoFreezer),
            false => Err(HoldError::NoUsableFreezer(reasons)),
        }
    }

    /// The freezer in the directory itself, where its hierarchy has one; with
    /// the reason when it cannot be used.
    pub(in crate::workload) fn in_it(
        hierarchies: &Hierarchies,
        directory: &Path,
    ) -> Option<Result<Freezer, HoldError>> {
        let (own, _) = hierarchies.locate(directory)?;
        (own.unified() || own.has("freezer"))
            .then(|| Self::usable(directory.to_path_buf(), own.unified()))
    }

    /// The freezer of a cgroup that holds exactly `members` (ascending), one of
    /// which is `pid`.
    pub(in crate::workload) fn around(
        hierarchies: &Hierarchies,
        pid: i32,
        members: &[i32],
    ) -> Option<Freezer> {
        let places = ["", "freezer"].into_iter().filter_map(|controller| {
            let of_process = hierarchies.of_process(&pid.to_string(), controller);
            let directory = of_process.ok().flatten()?;
            let (hierarchy, below) = hierarchies.locate(&directory)?;
            let inside = !below.as_os_str().is_empty();
            inside.then(|| (directory.clone(), hierarchy.unified()))
        });
        places
            .filter(|(directory, _)| processes(directory).is_ok_and(|found| found == members))
            .find_map(|(directory, unified)| Self::usable(directory, unified).ok())
    }

    fn usable(directory: PathBuf, unified: bool) -> Result<Freezer, HoldError> {
        let kind = if unified { Kind::V2 } else { Kind::V1 };
        let freezer = Freezer { directory, kind };
        let file = freezer.file();
        match nix::unistd::access(&file, AccessFlags::W_OK) {
            Ok(()) => Ok(freezer),
            Err(nix::errno::Errno::ENOENT) => Err(HoldError::NoFreezerFile(file)),
            Err(error) => Err(HoldError::NotWritable {
                file,
                error: error.into(),
            }),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(match self.kind {
            Kind::V2 => "cgroup.freeze",
            Kind::V1 => "freezer.state",
        })
    }

    /// Whether it is, or is about to be, frozen; with who has to thaw it.
    pub(in crate::workload) fn frozen_by(&self) -> Option<String> {
        let read = |name: &str| read(&self.directory, name);
        let thaw = |text: &str, directory: &Path, file: &str| {
            format!(
                "whoever froze it must thaw it first (echo {text} > {}/{file})",
                directory.display()
            )
        };
        match self.kind {
            Kind::V2 if read("cgroup.freeze") == "1" => {
                Some(thaw("0", &self.directory, "cgroup.freeze"))
            }
            Kind::V2 if text::value(&read("cgroup.events"), "frozen") == Some("1") => {
                let frozen = |above: &&Path| self::read(above, "cgroup.freeze") == "1";
                let above = self.directory.ancestors().skip(1).find(frozen)?;
                Some(thaw("0", above, "cgroup.freeze"))
            }
            Kind::V2 => None,
            Kind::V1 if read("freezer.state") == "THAWED" => None,
            Kind::V1 => {
                let own = |above: &&Path| self::read(above, "freezer.self_freezing") == "1";
                let by = self.directory.ancestors().find(own);
                let by = by.unwrap_or(&self.directory);
                Some(thaw("THAWED", by, "freezer.state"))
            }
        }
    }

    /// Freezes and waits until everything stands, at most `limit`; the caller
    /// thaws when this fails.
    ///
    /// # Errors
    /// Why; what is frozen by then stays frozen.
    pub(in crate::workload) fn freeze(&self, limit: Duration) -> Result<(), HoldError> {
        let file = self.file();
        let write = || std::fs::write(&file, self.kind.word(true));
        write().map_err(|error| HoldError::Write {
            file: file.clone(),
            error,
        })?;
        let stands = poll(limit, || match self.kind {
            Kind::V2 => {
                let events = read(&self.directory, "cgroup.events");
                text::value(&events, "frozen") == Some("1")
            }
            // A fork may have slipped through: asking again takes it too.
            Kind::V1 => read(&self.directory, "freezer.state") == "FROZEN" || write().is_err(),
        });
        match stands {
            true => Ok(()),
            false => Err(HoldError::NotFrozen {
                directory: self.directory.clone(),
                seconds: limit.as_secs_f64(),
            }),
        }
    }

    /// # Errors
    /// What the kernel says; `NotFound` when the cgroup vanished.
    pub(in crate::workload) fn thaw(&self) -> io::Result<()> {
        std::fs::write(self.file(), self.kind.word(false))
    }
}

/// The text of a file of the cgroup at `directory`; empty when it is gone.
fn read(directory: &Path, name: &str) -> String {
    text::text(here(), directory.join(name)).unwrap_or_default()
}
