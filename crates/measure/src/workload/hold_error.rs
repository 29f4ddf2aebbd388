//! Why a target cannot be held or released.

use super::Exit;
use jostle_host::sys::guard_page::GuardPage;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(in crate::workload) enum HoldError {
    #[error("{0}")]
    Exited(Exit),
    #[error("there is no {} (the kernel has it since Linux 5.2)", .0.display())]
    NoFreezerFile(PathBuf),
    #[error("{} cannot be written: {error}", .file.display())]
    NotWritable { file: PathBuf, error: io::Error },
    #[error("no hierarchy has a freezer")]
    NoFreezer,
    /// The reason for each hierarchy that has a freezer.
    #[error("{}", .0.join("; "))]
    NoUsableFreezer(Vec<String>),
    #[error("{} was frozen by somebody else meanwhile; {by}", .directory.display())]
    FrozenMeanwhile { directory: PathBuf, by: String },
    #[error("{} is too long a path", .0.display())]
    PathTooLong(PathBuf),
    #[error("{}: {error}", .file.display())]
    Write { file: PathBuf, error: io::Error },
    #[error(
        "{} does not freeze within {seconds} s (a process blocked in the kernel?)",
        .directory.display()
    )]
    NotFrozen { directory: PathBuf, seconds: f64 },
    #[error("{} cannot be thawed: {error}", .directory.display())]
    NotThawed {
        directory: PathBuf,
        error: io::Error,
    },
    #[error("cannot be stopped safely without the guard process that would resume it: {0}")]
    NoGuard(String),
    #[error("process {pid} may not be stopped: {error}")]
    Denied { pid: i32, error: io::Error },
    #[error("does not stop on SIGSTOP (blocked in the kernel?)")]
    NotStopped,
    #[error("starts processes faster than they can be stopped ({0} so far)")]
    ForksTooFast(usize),
    #[error(
        "has {0} processes; at most {most} can be stopped safely by signals (any number in a \
         cgroup of its own with a freezer: give it with --cgroup)",
        most = GuardPage::CAPACITY
    )]
    TooMany(usize),
}
