//! Backing off when the whole machine waits for memory.

use crate::os;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// How often a look is taken; shorter spans say little.
const SPAN: Duration = Duration::from_millis(500);

/// Limit unless told otherwise, percent of the time.
pub const DEFAULT_LIMIT: f64 = 20.0;

/// Watches the kernel's pressure stall information for memory: the share of
/// time in which every task that wanted to run waited for memory ("full").
/// Other pressures are what the sources are there for; this one may take a
/// machine down.
pub struct StallGuard {
    limit_percent: f64,
    root: PathBuf,
    /// Stalled microseconds at the last look.
    last: Option<(f64, Instant)>,
}

impl StallGuard {
    /// Guards this machine.
    pub fn new(limit_percent: f64) -> Self {
        StallGuard::at(Path::new("/"), limit_percent)
    }

    /// Reads `<root>/proc/pressure/memory`.
    pub fn at(root: &Path, limit_percent: f64) -> Self {
        let mut guard = StallGuard {
            limit_percent,
            root: root.to_path_buf(),
            last: None,
        };
        guard.last = guard.stalled().ok().map(|us| (us, Instant::now()));
        guard
    }

    /// Why nothing is guarded, where that is so.
    pub fn blind(&self) -> Option<String> {
        self.stalled().err().map(|error| error.to_string())
    }

    /// The reason to take the pressure off, if there is one now. Cheap between
    /// looks, which are half a second apart.
    pub fn look(&mut self) -> Option<String> {
        let (before, since) = self.last?;
        let elapsed = since.elapsed();
        if elapsed < SPAN {
            return None;
        }
        let now = self.stalled().ok()?;
        self.last = Some((now, Instant::now()));
        let percent = (now - before).max(0.0) / elapsed.as_micros() as f64 * 100.0;
        (percent > self.limit_percent).then(|| {
            format!(
                "backed off: every task waited for memory {percent:.0} % of the last {:.1} s, more \
                 than --max-stall {:.0}",
                elapsed.as_secs_f64(),
                self.limit_percent
            )
        })
    }

    /// Microseconds since boot in which all tasks waited for memory.
    fn stalled(&self) -> Result<f64, os::Error> {
        os::text::parse(&self.root, "proc/pressure/memory", |text| {
            os::psi::total_us(text, "full")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::Tree;

    fn pressure(total: u64) -> String {
        format!(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n\
             full avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"
        )
    }

    #[test]
    fn a_stalled_machine_is_left_alone() {
        let tree = Tree::new();
        tree.write("proc/pressure/memory", &pressure(1000));
        let mut guard = StallGuard::at(tree.path(), 50.0);
        assert_eq!(guard.blind(), None);
        assert_eq!(guard.look(), None, "too early to tell");
        std::thread::sleep(SPAN);
        assert_eq!(guard.look(), None, "nothing stalled");
        std::thread::sleep(SPAN);
        tree.write("proc/pressure/memory", &pressure(60_000_000));
        let reason = guard.look().unwrap();
        assert!(reason.contains("--max-stall 50"), "{reason}");
        assert_eq!(guard.look(), None, "each look covers its own span");
    }

    #[test]
    fn a_kernel_without_pressure_information_is_said_so() {
        let tree = Tree::new();
        let mut guard = StallGuard::at(tree.path(), 50.0);
        assert!(guard.blind().unwrap().contains("proc/pressure/memory"));
        assert_eq!(guard.look(), None);
    }
}
