//! Backing off when the whole machine waits for memory.

use crate::os;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// How often a look is taken; shorter spans say little.
const SPAN: Duration = Duration::from_millis(500);
/// The time of which the limit is a share: while memory fills, the kernel takes page
/// cache back, and everybody may wait for a second or two.
const LONG: Duration = Duration::from_secs(10);
/// Limit of a single look, percent: nobody can use such a machine.
const SUDDEN: f64 = 80.0;

/// Limit unless told otherwise, percent of the time.
pub const DEFAULT_LIMIT: f64 = 20.0;

/// Watches the kernel's pressure stall information for memory: the share of
/// time in which every task that wanted to run waited for memory ("full").
/// Other pressures are what the sources are there for; this one may take a
/// machine down.
pub struct StallGuard {
    limit_percent: f64,
    root: PathBuf,
    /// The last look, and the one from which the longer time counts.
    last: Option<[Look; 2]>,
}

/// Stalled microseconds since boot at one moment.
#[derive(Clone, Copy)]
struct Look {
    stalled_us: f64,
    at: Instant,
}

impl Look {
    /// Percent of the time until `now` that was stalled, and that time.
    fn until(self, now: Look) -> (f64, Duration) {
        let passed = now.at.saturating_duration_since(self.at);
        let stalled_us = (now.stalled_us - self.stalled_us).max(0.0);
        (
            stalled_us / passed.as_micros().max(1) as f64 * 100.0,
            passed,
        )
    }
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
        guard.last = guard.now().ok().map(|look| [look, look]);
        guard
    }

    /// Why nothing is guarded, where that is so.
    pub fn blind(&self) -> Option<String> {
        self.now().err().map(|error| error.to_string())
    }

    /// The reason to take the pressure off, if there is one now. Cheap between
    /// looks, which are half a second apart.
    pub fn look(&mut self) -> Option<String> {
        let [last, _] = self.last?;
        if last.at.elapsed() < SPAN {
            return None;
        }
        let now = self.now().ok()?;
        self.judge(now)
    }

    fn judge(&mut self, now: Look) -> Option<String> {
        let [last, first] = self.last?;
        let (sudden, span) = last.until(now);
        let (lasting, long) = first.until(now);
        let over = long >= LONG;
        self.last = Some([now, if over { now } else { first }]);
        let (percent, time) = if sudden > self.limit_percent.max(SUDDEN) {
            (sudden, span)
        } else if over && lasting > self.limit_percent {
            (lasting, long)
        } else {
            return None;
        };
        Some(format!(
            "backed off: every task waited for memory {percent:.0} % of the last {:.1} s, more \
             than --max-stall {:.0}",
            time.as_secs_f64(),
            self.limit_percent
        ))
    }

    fn now(&self) -> Result<Look, os::Error> {
        let stalled_us = os::text::parse(&self.root, "proc/pressure/memory", |text| {
            os::psi::total_us(text, "full")
        })?;
        Ok(Look {
            stalled_us,
            at: Instant::now(),
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
    fn a_moment_is_endured_and_what_lasts_is_not() {
        let tree = Tree::new();
        tree.write("proc/pressure/memory", &pressure(0));
        // Percent in each half second, and whether the last one is too much.
        for (percents, expected) in [
            (&[75.0, 75.0, 75.0, 0.0, 75.0][..], false),
            (&[21.0; 20], true),
            (&[85.0], true),
            (&[19.0; 60], false),
        ] {
            let mut guard = StallGuard::at(tree.path(), 20.0);
            let [mut look, _] = guard.last.unwrap();
            let mut reasons = Vec::new();
            for percent in percents {
                look.at += SPAN;
                look.stalled_us += percent / 100.0 * SPAN.as_micros() as f64;
                reasons.push(guard.judge(look));
            }
            assert_eq!(reasons.pop().unwrap().is_some(), expected, "{percents:?}");
            assert!(reasons.iter().all(Option::is_none), "{percents:?}");
        }
    }

    #[test]
    fn a_kernel_without_pressure_information_is_said_so() {
        let tree = Tree::new();
        let mut guard = StallGuard::at(tree.path(), 50.0);
        assert!(guard.blind().unwrap().contains("proc/pressure/memory"));
        assert_eq!(guard.look(), None);
    }
}
