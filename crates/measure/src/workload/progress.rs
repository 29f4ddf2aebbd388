//! The progress pages of a running target, as their reader sees them.

use super::Scope;
use super::cgroup;
use super::tree;
use jostle_host::sys::pages::ProgressPage;
use jostle_host::sys::shared::SharedPage;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Acquire;
use thiserror::Error;

/// The pages that a target publishes, read as one: operations and busy times
/// add up.
pub struct Progress {
    pages: Vec<Page>,
}

/// What is wrong with a page that was found.
#[derive(Debug, Error)]
pub enum ProgressError {
    #[error("the progress page of process {pid}: {error}")]
    Unreadable { pid: i32, error: io::Error },
    #[error(
        "the progress page of process {pid} is {error}: it must hold 4096 bytes and be sealed with \
         F_SEAL_SHRINK"
    )]
    Unsealed { pid: i32, error: io::Error },
    #[error(
        "the progress page of process {pid} has version {version}; this jostle reads version {}",
        ProgressPage::VERSION
    )]
    Version { pid: i32, version: u64 },
    #[error(
        "the progress page of process {pid} starts with {magic:#018x} instead of {:#018x}",
        ProgressPage::MAGIC
    )]
    Magic { pid: i32, magic: u64 },
}

struct Page {
    shared: SharedPage<ProgressPage>,
    /// Tells one memfd from another: children inherit their parent's.
    inode: (u64, u64),
}

impl Progress {
    /// Looks through the descriptors of `pid`, then of its descendants.
    /// `Ok(None)` when nobody publishes (yet).
    ///
    /// # Errors
    /// What is wrong with a page that was found.
    pub fn find(pid: i32) -> Result<Option<Progress>, ProgressError> {
        Self::find_in(&Scope::Processes(vec![pid]))
    }

    /// Looks through everything that belongs to a target. A process that
    /// publishes speaks for its descendants. Of several leaders (instances of
    /// one command) each must publish before any counts.
    ///
    /// # Errors
    /// As [`Progress::find`].
    pub fn find_in(scope: &Scope) -> Result<Option<Progress>, ProgressError> {
        let mut pages: Vec<Page> = Vec::new();
        let mut keep = |found: Vec<Page>| {
            for page in found {
                if !pages.iter().any(|known| known.inode == page.inode) {
                    pages.push(page);
                }
            }
        };
        match scope {
            Scope::Processes(leaders) => {
                for &leader in leaders {
                    let found = Self::below(leader)?;
                    if found.is_empty() {
                        return Ok(None);
                    }
                    keep(found);
                }
            }
            Scope::Cgroup(directory) => {
                let inside = cgroup::processes(directory).unwrap_or_default();
                for &pid in &inside {
                    let parent = tree::stat(pid).map(|stat| stat.parent);
                    if parent.is_some_and(|parent| inside.binary_search(&parent).is_err()) {
                        keep(Self::below(pid)?);
                    }
                }
            }
        }
        Ok((!pages.is_empty()).then_some(Progress { pages }))
    }

    fn below(root: i32) -> Result<Vec<Page>, ProgressError> {
        if let Some(page) = Self::of_process(root)? {
            return Ok(vec![page]);
        }
        let mut found = Vec::new();
        let mut problem = None;
        tree::descend(root, |child| match Self::of_process(child) {
            Ok(None) => problem.is_none(),
            Ok(Some(page)) => {
                found.push(page);
                false
            }
            Err(error) => {
                problem.get_or_insert(error);
                false
            }
        });
        problem.map_or(Ok(found), Err)
    }

    fn of_process(pid: i32) -> Result<Option<Page>, ProgressError> {
        let prefix = format!("/memfd:{}", ProgressPage::NAME);
        let unreadable = |error| ProgressError::Unreadable { pid, error };
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let paths = entries.into_iter().flatten().flatten();
        // A memfd's link reads `/memfd:NAME (deleted)`.
        let is_page = |path: &PathBuf| {
            std::fs::read_link(path)
                .is_ok_and(|link| link.to_string_lossy().split(' ').next() == Some(&prefix))
        };
        let Some(path) = paths.map(|entry| entry.path()).find(is_page) else {
            return Ok(None);
        };
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(&path);
        let file = file.map_err(unreadable)?;
        let facts = file.metadata().map_err(unreadable)?;
        let inode = (facts.dev(), facts.ino());
        let shared: SharedPage<ProgressPage> = match SharedPage::from_fd(file.into()) {
            Ok(page) => page,
            // Between its creation and its sealing.
            Err(_) if std::fs::metadata(&path).is_ok_and(|facts| facts.len() == 0) => {
                return Ok(None);
            }
            Err(error) => return Err(ProgressError::Unsealed { pid, error }),
        };
        match (shared.magic.load(Acquire), shared.version.load(Acquire)) {
            (0, _) => Ok(None),
            (ProgressPage::MAGIC, ProgressPage::VERSION) => Ok(Some(Page { shared, inode })),
            (ProgressPage::MAGIC, version) => Err(ProgressError::Version { pid, version }),
            (magic, _) => Err(ProgressError::Magic { pid, magic }),
        }
    }

    /// The pages themselves.
    pub fn pages(&self) -> Vec<BorrowedFd<'_>> {
        self.pages.iter().map(|page| page.shared.as_fd()).collect()
    }

    /// Operations and busy nanoseconds so far, of all pages together.
    pub fn read(&self) -> (u64, u64) {
        self.pages.iter().fold((0, 0), |(operations, busy), page| {
            let (more, longer) = page.shared.read();
            (operations.wrapping_add(more), busy.wrapping_add(longer))
        })
    }

    /// Whether performance is counted per CPU time instead of wall time.
    pub fn by_cpu_time(&self) -> bool {
        let by_cpu = |page: &Page| page.shared.clock.load(Acquire) == ProgressPage::CLOCK_CPU;
        self.pages.iter().all(by_cpu)
    }
}
