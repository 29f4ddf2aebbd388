//! A target that is everything inside a cgroup, and is left as it was found.

use super::Exit;
use super::State;
use super::cgroup;
use super::cgroup::CgroupSpec;
use super::cgroup::Freezer;
use super::cgroup::Hierarchies;

use super::guard::Guard;
use super::hold::Hold;
use super::hold_error::HoldError;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use jostle_host::os::cgroup::Population;
use jostle_host::os::cgroup::population;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::pidfd::PidFd;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

/// How often a cgroup is looked at while its end is waited for.
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Inside {
    pub(super) spec: CgroupSpec,
    hierarchies: Hierarchies,
    /// Its first process when we came.
    pub(super) pid: i32,
    /// Why it may not be stopped, if it may not.
    pub(super) unstoppable: Option<String>,
    pub(super) hold: Hold,
}

fn hierarchies(spec: &CgroupSpec) -> Result<Hierarchies> {
    Hierarchies::here().map_err(|reason| Error::environment(format!("{}: {reason}", spec.asked)))
}

/// Whether the cgroup can be a target.
pub(super) fn check(spec: &CgroupSpec) -> Result<()> {
    let hierarchies = hierarchies(spec)?;
    let refused = |reason| Error::request(format!("{}: {reason}", spec.asked));
    if let Some(reason) = cgroup::refusal(&hierarchies, &spec.directory) {
        return Err(refused(reason));
    }
    let freezer = Freezer::of(&hierarchies, &spec.directory);
    match freezer.ok().and_then(|freezer| freezer.frozen_by()) {
        Some(by) => Err(refused(format!(
            "the cgroup {} is frozen; {by}, or `jostle release` if a killed jostle did",
            spec.directory.display()
        ))),
        None => Ok(()),
    }
}

/// The cgroup in a line.
pub(super) fn describe(spec: &CgroupSpec) -> String {
    let shown = spec.directory.display();
    let found = living(&spec.directory);
    let freezer = hierarchies(spec)
        .map_err(|error| error.to_string())
        .and_then(|hierarchies| {
            Freezer::of(&hierarchies, &spec.directory).map_err(|error| error.to_string())
        });
    let how = match freezer {
        Ok(freezer) => format!("held by the freezer of {}", freezer.directory.display()),
        Err(no_freezer) => match why_no_signals(&found) {
            None => format!("stopped by signals ({no_freezer})"),
            Some(no_signals) => format!("not to be stopped ({no_freezer}; {no_signals})"),
        },
    };
    format!("cgroup {shown}: {} processes, {how}", found.len())
}

/// CPUs that any thread inside may run on.
pub(super) fn own_cpus(spec: &CgroupSpec) -> Vec<usize> {
    tree::affinities(cgroup::processes(&spec.directory).unwrap_or_default())
}

impl Inside {
    pub(super) fn attach(spec: &CgroupSpec) -> Result<Inside> {
        check(spec)?;
        let hierarchies = hierarchies(spec)?;
        let found = living(&spec.directory);
        let &pid = found.first().ok_or_else(|| {
            let shown = spec.directory.display();
            Error::request(format!(
                "{}: the cgroup {shown} holds no process",
                spec.asked
            ))
        })?;
        let unstoppable = match Freezer::of(&hierarchies, &spec.directory) {
            Ok(_) => None,
            Err(no_freezer) => why_no_signals(&found)
                .map(|no_signals| format!("no freezer: {no_freezer}; no signals: {no_signals}")),
        };
        Ok(Inside {
            spec: spec.clone(),
            hierarchies,
            pid,
            unstoppable,
            hold: Hold::new(Guard::start("")?),
        })
    }

    pub(super) fn state(&self) -> State {
        match population(&self.spec.directory) {
            Population::Vanished | Population::Empty => State::Exited(Exit::default()),
            Population::Living if self.hold.holds() => State::Stopped,
            Population::Living => match Freezer::in_it(&self.hierarchies, &self.spec.directory) {
                Some(Ok(freezer)) if freezer.frozen_by().is_some() => State::Stopped,
                _ => State::Running,
            },
        }
    }

    pub(super) fn wait(&self, limit: Duration) -> Option<Exit> {
        let deadline = Instant::now() + limit;
        loop {
            if let State::Exited(exit) = self.state() {
                return Some(exit);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// What became of it, when it has ended.
    pub(super) fn end(&self) -> String {
        let shown = self.spec.directory.display();
        match population(&self.spec.directory) {
            Population::Vanished => format!("the cgroup {shown} vanished"),
            _ => format!("the cgroup {shown} holds no process any more"),
        }
    }

    pub(super) fn stop(&mut self) -> Result<(), HoldError> {
        if self.hold.holds() {
            return Ok(());
        }
        if let State::Exited(exit) = self.state() {
            return Err(HoldError::Exited(exit));
        }
        let directory = &self.spec.directory;
        let held = match Freezer::of(&self.hierarchies, directory) {
            Ok(freezer) => self.hold.freeze(freezer),
            Err(_) => self.hold.stop(|| living(directory)),
        };
        held.map_err(|reason| match self.state() {
            State::Exited(exit) => HoldError::Exited(exit),
            _ => reason,
        })
    }
}

fn living(directory: &Path) -> Vec<i32> {
    let mut found = cgroup::processes(directory).unwrap_or_default();
    found.retain(|&pid| tree::stat(pid).is_some_and(|stat| !stat.ended()));
    found
}

/// Why these processes cannot be stopped by signals, if they cannot.
fn why_no_signals(processes: &[i32]) -> Option<String> {
    if processes.len() > GuardPage::CAPACITY {
        return Some(format!("it {}", HoldError::TooMany(processes.len())));
    }
    processes.iter().find_map(|&pid| {
        let error = PidFd::open(pid).ok()?.signal(None).err()?;
        (error.raw_os_error() == Some(libc::EPERM)).then(|| {
            format!("process {pid} belongs to somebody else; run jostle as that user or as root")
        })
    })
}
