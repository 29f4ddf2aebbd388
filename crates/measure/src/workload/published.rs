//! The files in which a running target publishes its progress by itself.

use super::Scope;
use jostle_host::os::here;
use jostle_host::os::in_root;
use jostle_host::os::proc;
use jostle_host::sys::published;
use jostle_host::sys::published::PublishedError;
use jostle_profile::regular;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;

/// The pages of a target, read as one: what they hold adds up.
pub struct Published {
    files: Vec<(PathBuf, File)>,
    by_cpu_time: bool,
}

/// What is wrong with the page in a file.
#[derive(Debug, Error)]
#[error("the progress page {}: {reason}", path.display())]
pub struct PageProblem {
    path: PathBuf,
    reason: PublishedError,
}

impl Published {
    /// Opens what the environments of the target's processes name; `Ok(None)`
    /// when nobody publishes (yet).
    ///
    /// # Errors
    /// What is wrong with a page that was found.
    pub fn find_in(scope: &Scope) -> Result<Option<Published>, PageProblem> {
        let named = scope.processes().into_iter().filter_map(|pid| {
            let path = proc::environment(here(), pid, published::VARIABLE)?;
            let path = PathBuf::from(path);
            Some((open(pid, &path).ok()?, path))
        });
        Self::of(named)
    }

    /// Opens `paths`, each file once.
    ///
    /// # Errors
    /// As [`Published::find_in`].
    pub fn open(paths: impl Iterator<Item = PathBuf>) -> Result<Option<Published>, PageProblem> {
        // One may be yet to come, or not be for us.
        Self::of(paths.filter_map(|path| Some((regular::open(&path).ok()?, path))))
    }

    fn of(found: impl Iterator<Item = (File, PathBuf)>) -> Result<Option<Published>, PageProblem> {
        let mut files: Vec<(PathBuf, File)> = Vec::new();
        let mut known = Vec::new();
        let mut by_cpu_time = true;
        for (file, path) in found {
            let inode = file.metadata().map(|facts| (facts.dev(), facts.ino())).ok();
            if known.contains(&inode) {
                continue;
            }
            known.push(inode);
            match published::read(&file) {
                Ok(Some(page)) => {
                    by_cpu_time &= page.by_cpu_time;
                    files.push((path, file));
                }
                Ok(None) => {}
                Err(reason) => return Err(PageProblem { path, reason }),
            }
        }
        Ok((!files.is_empty()).then_some(Published { files, by_cpu_time }))
    }

    /// Operations and busy nanoseconds so far, of all pages together.
    ///
    /// # Errors
    /// What is wrong with one of them now.
    pub fn read(&self) -> Result<(u64, u64), PageProblem> {
        let mut sum = (0u64, 0u64);
        for (path, file) in &self.files {
            let page = published::read(file).and_then(|page| page.ok_or(PublishedError::Magic(0)));
            let page = page.map_err(|reason| PageProblem {
                path: path.clone(),
                reason,
            })?;
            sum.0 = sum.0.wrapping_add(page.operations);
            sum.1 = sum.1.wrapping_add(page.busy_ns);
        }
        Ok(sum)
    }

    /// Whether performance is counted per CPU time instead of wall time.
    pub fn by_cpu_time(&self) -> bool {
        self.by_cpu_time
    }

    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.files.iter().map(|(_, file)| file.as_fd()).collect()
    }
}

/// The file at `path` as process `pid` sees it, whose environment names it.
fn open(pid: i32, path: &Path) -> io::Result<File> {
    // Links of /proc lead to open files, and not through a root directory.
    if path.starts_with("/proc") {
        return regular::open(path);
    }
    let file = match path.is_absolute() {
        true => in_root::open(pid, path)?,
        // Where it stands, by its root.
        false => {
            let directory = fs::read_link(format!("/proc/{pid}/cwd"))?;
            in_root::open(pid, &directory.join(path))?
        }
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_target_and_a_pipe_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let (file, pipe) = (directory.path().join("file"), directory.path().join("pipe"));
        fs::write(&file, "").unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let us = std::process::id() as i32;
        assert!(open(us, &file).is_ok());
        assert!(open(us, &pipe).is_err());
        assert!(open(us, Path::new("Cargo.toml")).is_ok());
        assert!(open(us, Path::new("/dev/zero")).is_err());
    }
}
