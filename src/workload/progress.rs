//! The progress pages of a running target, as their reader sees them.

use super::Scope;
use super::cgroup;
use super::tree;
use crate::sys::pages::ProgressPage;
use crate::sys::shared::SharedPage;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Acquire;

/// The pages that a target publishes, read as one: operations and busy times
/// add up.
pub struct Progress {
    pages: Vec<Page>,
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
    pub fn find(pid: i32) -> Result<Option<Progress>, String> {
        Self::find_in(&Scope::Processes(vec![pid]))
    }

    /// Looks through everything that belongs to a target. A process that
    /// publishes speaks for its descendants. Of several leaders (instances of
    /// one command) each must publish before any counts.
    ///
    /// # Errors
    /// As [`Progress::find`].
    pub fn find_in(scope: &Scope) -> Result<Option<Progress>, String> {
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

    fn below(root: i32) -> Result<Vec<Page>, String> {
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

    fn of_process(pid: i32) -> Result<Option<Page>, String> {
        let prefix = format!("/memfd:{}", ProgressPage::NAME);
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            return Ok(None);
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(link) = std::fs::read_link(&path) else {
                continue;
            };
            // A memfd's link reads `/memfd:NAME (deleted)`.
            let link = link.to_string_lossy();
            if link.split(' ').next() != Some(prefix.as_str()) {
                continue;
            }
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(|error| format!("the progress page of process {pid}: {error}"))?;
            let facts = file
                .metadata()
                .map_err(|error| format!("the progress page of process {pid}: {error}"))?;
            let inode = (facts.dev(), facts.ino());
            let shared: SharedPage<ProgressPage> = match SharedPage::from_fd(file.into()) {
                Ok(page) => page,
                // Between its creation and its sealing.
                Err(_) if is_empty(&path) => return Ok(None),
                Err(error) => {
                    return Err(format!(
                        "the progress page of process {pid} is {error}: it must hold 4096 bytes and be sealed with F_SEAL_SHRINK"
                    ));
                }
            };
            return match shared.magic.load(Acquire) {
                0 => Ok(None),
                ProgressPage::MAGIC => match shared.version.load(Acquire) {
                    ProgressPage::VERSION => Ok(Some(Page { shared, inode })),
                    version => Err(format!(
                        "the progress page of process {pid} has version {version}; this jostle reads version {}",
                        ProgressPage::VERSION
                    )),
                },
                magic => Err(format!(
                    "the progress page of process {pid} starts with {magic:#018x} instead of {:#018x}",
                    ProgressPage::MAGIC
                )),
            };
        }
        Ok(None)
    }

    /// Operations and busy nanoseconds so far, of all pages together.
    pub fn read(&self) -> (u64, u64) {
        self.pages.iter().fold((0, 0), |(operations, busy), page| {
            let (more, longer) = page.read();
            (operations.wrapping_add(more), busy.wrapping_add(longer))
        })
    }

    /// Whether performance is counted per CPU time instead of wall time.
    pub fn by_cpu_time(&self) -> bool {
        let by_cpu = |page: &Page| page.shared.clock.load(Acquire) == ProgressPage::CLOCK_CPU;
        self.pages.iter().all(by_cpu)
    }
}

impl Page {
    fn read(&self) -> (u64, u64) {
        let page = &self.shared;
        let mut busy = page.busy_ns.load(Acquire);
        // Both belong to one moment when nothing moved in between; a publisher
        // too quick for that costs one batch of precision.
        for _ in 0..8 {
            let operations = page.operations.load(Acquire);
            let again = page.busy_ns.load(Acquire);
            if again == busy {
                return (operations, busy);
            }
            busy = again;
        }
        (page.operations.load(Acquire), busy)
    }
}

fn is_empty(path: &std::path::Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0)
}
