//! The progress page of a running process, as its reader sees it.

use super::tree;
use crate::sys::pages::ProgressPage;
use crate::sys::shared::SharedPage;
use std::sync::atomic::Ordering::Acquire;

/// A page that `pid` or one of its descendants publishes.
pub struct Progress {
    page: SharedPage<ProgressPage>,
}

impl Progress {
    /// Looks through the descriptors of `pid`, then of its descendants.
    /// `Ok(None)` when nobody publishes (yet).
    ///
    /// # Errors
    /// What is wrong with a page that was found.
    pub fn find(pid: i32) -> Result<Option<Progress>, String> {
        if let Some(progress) = Self::of_process(pid)? {
            return Ok(Some(progress));
        }
        for child in tree::descendants(pid) {
            if let Some(progress) = Self::of_process(child)? {
                return Ok(Some(progress));
            }
        }
        Ok(None)
    }

    fn of_process(pid: i32) -> Result<Option<Progress>, String> {
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
            let page: SharedPage<ProgressPage> = match SharedPage::from_fd(file.into()) {
                Ok(page) => page,
                // Between its creation and its sealing.
                Err(_) if is_empty(&path) => return Ok(None),
                Err(error) => {
                    return Err(format!(
                        "the progress page of process {pid} is {error}: it must hold 4096 bytes and be sealed with F_SEAL_SHRINK"
                    ));
                }
            };
            return match page.magic.load(Acquire) {
                0 => Ok(None),
                ProgressPage::MAGIC => match page.version.load(Acquire) {
                    ProgressPage::VERSION => Ok(Some(Progress { page })),
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

    /// Operations and busy nanoseconds so far.
    pub fn read(&self) -> (u64, u64) {
        let mut busy = self.page.busy_ns.load(Acquire);
        // Both belong to one moment when nothing moved in between; a publisher
        // too quick for that costs one batch of precision.
        for _ in 0..8 {
            let operations = self.page.operations.load(Acquire);
            let again = self.page.busy_ns.load(Acquire);
            if again == busy {
                return (operations, busy);
            }
            busy = again;
        }
        (self.page.operations.load(Acquire), busy)
    }

    /// Whether performance is counted per CPU time instead of wall time.
    pub fn by_cpu_time(&self) -> bool {
        self.page.clock.load(Acquire) == ProgressPage::CLOCK_CPU
    }
}

fn is_empty(path: &std::path::Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.len() == 0)
}
