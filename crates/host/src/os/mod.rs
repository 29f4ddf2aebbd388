//! What the kernel tells in its text files: `/proc`, `/sys`, cgroups.
//!
//! Every reader takes the root below which these lie, so that tests can put a
//! tree of files in its place; errors name the path as the kernel knows it.
//! What is read once goes through the `procfs` crate where that works below
//! another root and on cut-down kernels; what is read at every window goes
//! through [`text::Text`], which keeps file and buffer.

pub mod cgroup;
pub mod connections;
pub mod cpulist;
pub mod disks;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod in_root;
pub mod interrupts;
pub mod mounts;
pub mod network;
pub mod proc;
pub mod psi;
pub mod sched;
pub mod stat;
pub mod sysfs;
pub mod text;

use std::io;
use std::path::Path;

/// Where `/proc` and `/sys` are, but in tests.
pub fn here() -> &'static Path {
    Path::new("/")
}

/// Why a file of the kernel could not be read or understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{path} does not exist")]
    Absent { path: String },
    /// As `cgroup.procs` of a threaded cgroup.
    #[error("{path}: switched off in this kernel")]
    Unsupported { path: String },
    #[error("{path}: the process has ended")]
    Ended { path: String },
    #[error("{path}: not allowed; run as its owner or as root")]
    Denied { path: String },
    #[error("{path}: {reason}")]
    Failed { path: String, reason: String },
    #[error("{path}: {problem}")]
    Malformed { path: String, problem: ParseError },
    #[error("no cgroup file system is mounted")]
    NoCgroups,
    #[error("the cgroup v1 controller '{0}' is not mounted")]
    NoController(String),
    #[error("cgroup v2 is not mounted")]
    NoUnified,
    #[error("there are more than {0} cgroups; give the directory with --cgroup")]
    TooManyCgroups(usize),
    #[error("{0} holds no process")]
    NoProcess(String),
    #[error("{0} holds other processes")]
    OtherProcesses(String),
}

/// What is wrong with the text of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("'{0}' is not a number")]
    Number(String),
    #[error("no line {0}")]
    NoLine(String),
    #[error("no readable {0}")]
    NoKey(String),
    #[error("{key}: {problem}")]
    Value {
        key: String,
        problem: Box<ParseError>,
    },
    #[error("'{text}' {problem}")]
    Text { text: String, problem: &'static str },
    #[error("{found} of {wanted} CPUs found")]
    Cpus { found: usize, wanted: usize },
    #[error("no device but loopback")]
    NoDevice,
    #[error("longer than {0} bytes")]
    TooLong(usize),
    #[error("not text")]
    NotText,
    /// In the words of whoever parsed it.
    #[error("{0}")]
    Other(String),
}

impl ParseError {
    /// `text`, its first part if it is long, with what is wrong with it.
    pub fn text(text: &str, problem: &'static str) -> ParseError {
        let text = text.trim().chars().take(80).collect();
        ParseError::Text { text, problem }
    }
}

impl Error {
    /// What `error` of the file at `path` means.
    pub fn of_io(path: impl Into<String>, error: &io::Error) -> Error {
        let path = path.into();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV) => Error::Absent { path },
            Some(libc::EOPNOTSUPP) => Error::Unsupported { path },
            Some(libc::ESRCH) => Error::Ended { path },
            Some(libc::EACCES | libc::EPERM) => Error::Denied { path },
            _ => Error::Failed {
                path,
                reason: error.to_string(),
            },
        }
    }

    /// `None` for what is not there.
    pub fn absent_as_none<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Err(error) if error.is_absent() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whether the file, or what it is about, is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Error::Absent { .. } | Error::Ended { .. })
    }
}
