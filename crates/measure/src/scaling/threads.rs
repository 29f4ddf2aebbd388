//! How many threads a target has.

use super::plan::Plan;
use super::warning::ScalingWarning;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Target;
use crate::workload::TargetSpec;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often and how long a trial run is looked at.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(40);

/// Whether a command takes the number of its threads from the CPUs that it is started
/// on. `size` is the largest that is measured.
///
/// # Errors
/// When it cannot be started; an interrupted error.
pub(super) fn chosen_at_start(
    spec: &TargetSpec,
    plan: &Plan,
    size: u32,
    interrupt: &AtomicBool,
) -> Result<Option<ScalingWarning>> {
    let (Ok(all), Ok(one)) = (plan.of(size), plan.of(1)) else {
        return Ok(None);
    };
    let threads = started_on(spec, all, interrupt)?;
    let fewer = started_on(spec, one, interrupt)?;
    Ok(
        (threads > fewer).then_some(ScalingWarning::ThreadsChosenAtStart {
            threads,
            cpus: all.len(),
            fewer,
        }),
    )
}

/// Threads that lasted from one look to the next, in the middle of all looks.
fn started_on(spec: &TargetSpec, cpus: &[usize], interrupt: &AtomicBool) -> Result<usize> {
    let mut spec = spec.clone();
    if let TargetSpec::Command(command) = &mut spec {
        command.show_output = false;
    }
    let mut target = Target::start(&spec, Some(cpus), None)?;
    let mut counts = Vec::new();
    let mut before = BTreeSet::new();
    for _ in 0..LOOKS {
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted(String::new()));
        }
        std::thread::sleep(PAUSE);
        target.keep_running()?;
        let threads: BTreeSet<i32> = target.scope().threads().into_iter().collect();
        let lasting = threads.intersection(&before).count();
        counts.extend((lasting > 0).then_some(lasting));
        before = threads;
    }
    counts.sort_unstable();
    Ok(counts.get(counts.len() / 2).copied().unwrap_or(0))
}
