//! One experiment on the machine at a time: whoever measures unattended holds a lock
//! file alone; whoever measures by hand joins it, and is never kept waiting.

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

const NAME: &str = "jostle-experiment.lock";

/// Holds the lock until it is dropped.
pub struct OnlyOne {
    _file: Flock<File>,
}

/// Anybody may open it to see whether it is held; nobody needs to write to it.
fn open(path: &Path) -> Option<File> {
    let read = || File::open(path).ok();
    read().or_else(|| {
        let mut options = File::options();
        options.create(true).append(true).mode(0o644);
        options.open(path).ok()?;
        read()
    })
}

impl OnlyOne {
    /// Where all agents and commands of the machine meet, or in `directory` where
    /// there is no such place.
    pub fn usual_path(directory: &Path) -> PathBuf {
        let common = Path::new("/run/lock").join(NAME);
        match open(&common) {
            Some(_) => common,
            None => directory.join(NAME),
        }
    }

    /// Takes the lock alone; `None` while anybody else measures.
    pub fn try_take(path: &Path) -> Option<OnlyOne> {
        let file = open(path)?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        locked.ok().map(|file| OnlyOne { _file: file })
    }

    /// Joins those who measure by hand; `None` where that cannot be said, which is no
    /// obstacle.
    pub fn join() -> Option<OnlyOne> {
        let file = open(&Path::new("/run/lock").join(NAME))?;
        let locked = Flock::lock(file, FlockArg::LockSharedNonblock);
        locked.ok().map(|file| OnlyOne { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = OnlyOne::try_take(&path);
        assert!(first.is_some());
        assert!(OnlyOne::try_take(&path).is_none());
        drop(first);
        assert!(OnlyOne::try_take(&path).is_some());
    }
}
