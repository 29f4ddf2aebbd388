//! What `jostle release` does: lets go what a killed jostle left held.

use super::process::SILENCE;
use super::record;
use super::record::Record;
use super::undo;
use crate::error::Error;
use crate::error::Result;
use crate::sys::clock::monotonic_ns;
use crate::sys::guard_page::GuardPage;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

/// One target that jostle held or had started.
#[derive(Debug)]
pub struct Released {
    /// The jostle that did it, if its page can be read.
    pub profiler: Option<i32>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// That jostle runs and is heard of: nothing is done.
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

impl Outcome {
    /// Whether something was changed.
    pub fn is_a_deed(&self) -> bool {
        matches!(
            self,
            Outcome::Thawed(_) | Outcome::Continued(_) | Outcome::Ended(_)
        )
    }
}

impl Released {
    /// Whether something may still be held.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Runs => write!(f, "left alone what is being measured"),
            Outcome::Thawed(cgroup) => write!(f, "thawed {}", cgroup.display()),
            Outcome::Continued(1) => write!(f, "continued 1 process"),
            Outcome::Continued(count) => write!(f, "continued {count} processes"),
            Outcome::Ended(1) => write!(f, "ended 1 process that it had started"),
            Outcome::Ended(count) => write!(f, "ended {count} processes that it had started"),
            Outcome::Hooks => write!(
                f,
                "a --setup was begun and never torn down; undo it by hand"
            ),
            Outcome::Failed(reason) => write!(f, "failed: {reason}"),
        }?;
        match (self.profiler, &self.outcome) {
            (Some(pid), Outcome::Runs) => write!(f, " by jostle {pid}, which runs"),
            (Some(pid), _) => write!(f, " (of jostle {pid}, which is gone or silent)"),
            (None, _) => Ok(()),
        }
    }
}

/// Releases all that is held by a jostle of this user that is gone or has said
/// nothing for two seconds; with `dry_run` only tells what that would be.
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
        GuardPage::CONTINUE if silent => let_go(page, dry_run),
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

fn let_go(page: &GuardPage, dry_run: bool) -> Outcome {
    let lives = |&(pid, start): &(i32, u64)| {
        let stat = crate::workload::tree::stat(pid);
        stat.is_some_and(|stat| stat.start == start && stat.stopped())
    };
    let stopped = undo::entries(page).filter(lives).count();
    if !dry_run && let Err(error) = undo::let_go(page) {
        let cgroup = undo::frozen(page).map(|freezer| freezer.directory);
        let cgroup = cgroup.unwrap_or_default();
        return Outcome::Failed(format!("{} cannot be thawed: {error}", cgroup.display()));
    }
    match undo::frozen(page) {
        Some(freezer) => Outcome::Thawed(freezer.directory),
        None => Outcome::Continued(stopped),
    }
}
