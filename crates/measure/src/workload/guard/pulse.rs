//! Heartbeats of the profiler: a stopped or hanging profiler must not hold its target.

use super::Line;
use jostle_host::sys::clock::monotonic_ns;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use std::time::Instant;

/// Interval between heartbeats; a guard releases the target after four missed ones.
const EVERY: Duration = Duration::from_millis(500);
/// Longest wait for guards that were asked to release their targets.
const ANSWER: Duration = Duration::from_millis(500);

struct Lines {
    lines: Vec<Weak<Line>>,
    /// Whether a thread renews them.
    renewed: bool,
}

static LINES: Mutex<Lines> = Mutex::new(Lines {
    lines: Vec::new(),
    renewed: false,
});

fn lines() -> MutexGuard<'static, Lines> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    /// Those still there.
    fn living(&mut self) -> Vec<Arc<Line>> {
        self.lines.retain(|line| line.strong_count() > 0);
        self.lines.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Renews `line` until it is dropped.
///
/// # Errors
/// When no thread can be started.
pub(super) fn renew(line: &Arc<Line>) -> std::io::Result<()> {
    line.page.renewed.store(monotonic_ns(), SeqCst);
    let mut all = lines();
    all.lines.push(Arc::downgrade(line));
    if !all.renewed {
        let thread = std::thread::Builder::new().name("jostle-pulse".into());
        thread.spawn(beat)?;
        all.renewed = true;
    }
    Ok(())
}

fn beat() {
    loop {
        let mut all = lines();
        let living = all.living();
        if living.is_empty() {
            all.renewed = false;
            return;
        }
        drop(all);
        for line in living {
            line.page.renewed.store(monotonic_ns(), SeqCst);
        }
        std::thread::sleep(EVERY);
    }
}

/// Releases every held target, before this process is stopped.
pub fn release_all() {
    let holds = |line: &Arc<Line>| line.holds();
    let asked: Vec<_> = lines().living().into_iter().filter(holds).collect();
    let before: Vec<u64> = asked.iter().map(|line| line.ask()).collect();
    let deadline = Instant::now() + ANSWER;
    for (line, before) in asked.iter().zip(before) {
        while line.page.let_go.load(SeqCst) == before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
