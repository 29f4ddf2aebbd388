//! The files in which a running target publishes its progress by itself.

use super::Scope;
use crate::os::here;
use crate::os::proc;
use crate::sys::published;
use crate::sys::published::PublishedError;
use std::fs::File;
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
            Some(seen_by(pid, path.as_ref()))
        });
        Self::open(named)
    }

    /// Opens `paths`, each file once.
    ///
    /// # Errors
    /// As [`Published::find_in`].
    pub fn open(paths: impl Iterator<Item = PathBuf>) -> Result<Option<Published>, PageProblem> {
        let mut files: Vec<(PathBuf, File)> = Vec::new();
        let mut known = Vec::new();
        let mut by_cpu_time = true;
        for path in paths {
            // It may be yet to come, or not be for us.
            let Ok(file) = File::open(&path) else {
                continue;
            };
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

/// `path` as process `pid` sees it.
fn seen_by(pid: i32, path: &Path) -> PathBuf {
    match path.strip_prefix("/") {
        // Links of /proc lead to open files, and not through a root directory.
        Ok(below) if below.starts_with("proc") => path.into(),
        Ok(below) => Path::new(&format!("/proc/{pid}/root")).join(below),
        Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_target() {
        let seen = |path: &str| seen_by(7, path.as_ref());
        assert_eq!(seen("/dev/shm/x"), Path::new("/proc/7/root/dev/shm/x"));
        assert_eq!(seen("x"), Path::new("/proc/7/cwd/x"));
        assert_eq!(seen("/proc/9/fd/3"), Path::new("/proc/9/fd/3"));
    }
}
