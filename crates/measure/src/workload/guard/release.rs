//! `jostle release`: resumes what a killed jostle left stopped or frozen.

use super::process::SILENCE;
use super::record;
use super::record::Record;
use super::undo;
use crate::error::Error;
use crate::error::Result;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::guard_page::GuardPage;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

/// A target that a jostle process held or started.
#[derive(Debug)]
pub struct Released {
    /// Pid of that process, if its page can be read.
    pub profiler: Option<i32>,
    pub outcome: Outcome,
    /// Whether this is only a plan.
    pub dry_run: bool,
}

#[derive(Debug)]
pub enum Outcome {
    /// That jostle is running: nothing is done.
    Runs,
    Thawed(PathBuf),
    /// Processes that it had stopped and that still lived.
    Continued(usize),
    /// Processes of a command that it had started.
    Ended(usize),
    /// Hooks it had begun; only their guard knew how to tear down.
    Hooks,
    Failed(String),
}

impl Released {
    /// Whether something may still be held.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |done: &'static str, planned: &'static str| match self.dry_run {
            true => planned,
            false => done,
        };
        let processes = |count: usize| match count {
            1 => "1 process".to_string(),
            _ => format!("{count} processes"),
        };
        let by = self
            .profiler
            .map_or("jostle".into(), |pid| format!("jostle {pid}"));
        match &self.outcome {
            Outcome::Runs => write!(f, "skipped what {by} holds: it is still running"),
            Outcome::Thawed(cgroup) => {
                let verb = verb("thawed", "would thaw");
                write!(f, "{verb} {}, frozen by {by}", cgroup.display())
            }
            Outcome::Continued(count) => {
                let verb = verb("resumed", "would resume");
                write!(f, "{verb} {}, stopped by {by}", processes(*count))
            }
            Outcome::Ended(count) => {
                let verb = verb("killed", "would kill");
                write!(f, "{verb} {}, started by {by}", processes(*count))
            }
            Outcome::Hooks => write!(
                f,
                "the --setup of {by} was never torn down; undo it manually"
            ),
            Outcome::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// Releases everything held by a jostle process of this user that has exited or has
/// been silent for two seconds; with `dry_run` only reports it.
///
/// # Errors
/// An environment error when the place where it is written down cannot be read.
pub fn release(dry_run: bool) -> Result<Vec<Released>> {
    let directory = record::directory().map_err(Error::environment)?;
    let found = record::all(&directory)
        .map_err(|error| Error::environment(format!("{}: {error}", directory.display())))?;
    let mut released = Vec::new();
    for (path, record) in found {
        match record {
            Ok(record) => released.extend(release_one(&record, dry_run)),
            Err(error) => released.push(Released {
                profiler: None,
                outcome: Outcome::Failed(format!("{}: {error}", path.display())),
                dry_run,
            }),
        }
    }
    Ok(released)
}

/// `None` where there was nothing to do.
fn release_one(record: &Record, dry_run: bool) -> Option<Released> {
    let page = &record.page;
    let (profiler, lives) = record.profiler();
    let told = |outcome| {
        Some(Released {
            profiler: Some(profiler),
            outcome,
            dry_run,
        })
    };
    let remove = || {
        if !lives && !dry_run {
            record.remove();
        }
    };
    if !record.matters() {
        remove();
        return None;
    }
    let silent = monotonic_ns().saturating_sub(page.renewed.load(SeqCst));
    let silent = !lives || silent > SILENCE.as_nanos() as u64;
    let outcome = match page.duty.load(SeqCst) {
        GuardPage::CONTINUE if silent => resume(page, dry_run),
        GuardPage::END_GROUPS if !lives => {
            let marker = String::from_utf8_lossy(&page.marker.get()).into_owned();
            Outcome::Ended(match dry_run {
                true => undo::marked(&marker).len(),
                false => undo::end_marked(&marker),
            })
        }
        GuardPage::TEAR_DOWN if !lives && !record.guarded() => Outcome::Hooks,
        _ => return told(Outcome::Runs),
    };
    if !matches!(outcome, Outcome::Failed(_)) {
        remove();
    }
    told(outcome)
}

fn resume(page: &GuardPage, dry_run: bool) -> Outcome {
    let lives = |&(pid, start): &(i32, u64)| {
        let stat = crate::workload::tree::stat(pid);
        stat.is_some_and(|stat| stat.start == start && stat.stopped())
    };
    let stopped = undo::entries(page).filter(lives).count();
    if !dry_run && let Err(error) = undo::resume(page) {
        let cgroup = undo::frozen(page).map(|freezer| freezer.directory);
        let cgroup = cgroup.unwrap_or_default();
        return Outcome::Failed(format!("{} cannot be thawed: {error}", cgroup.display()));
    }
    match undo::frozen(page) {
        Some(freezer) => Outcome::Thawed(freezer.directory),
        None => Outcome::Continued(stopped),
    }
}
