//! How fast something is counted, and how long a window must be for that.

use super::Context;
use crate::error::Result;
use crate::workload::Target;
use std::time::Duration;
use std::time::Instant;

/// Operations a window should hold.
pub(super) const ENOUGH: u32 = 200;

/// Shortest and usual time to watch.
const SHORT: Duration = Duration::from_millis(100);
const USUAL: Duration = Duration::from_secs(1);

/// What was seen before anything was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub per_second: f64,
}

impl Pace {
    /// The window that holds [`ENOUGH`]; `None` when any does.
    pub(super) fn window(&self) -> Option<Duration> {
        let seconds = f64::from(ENOUGH) / self.per_second;
        // Slower than once in a day is not a pace.
        (seconds.is_finite() && (0.001..17_280_000.0).contains(&seconds))
            .then(|| Duration::from_secs_f64(seconds))
    }
}

/// Watches a count until its pace is known or the trial is over; then the pace
/// may be 0. `count` says what the end of the target means.
///
/// # Errors
/// Those of `count`, an interruption.
pub(super) fn watch(
    target: &mut Target,
    context: &Context,
    mut count: impl FnMut(&mut Target) -> Result<f64>,
) -> Result<Pace> {
    let first = count(target)?;
    let begin = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        context.check_interrupt()?;
        let (elapsed, counted) = (begin.elapsed(), count(target)? - first);
        let done = elapsed >= context.options.trial
            || (elapsed >= SHORT && counted >= f64::from(ENOUGH))
            || (elapsed >= USUAL && counted >= f64::from(ENOUGH) / 10.0);
        if done {
            let per_second = counted / elapsed.as_secs_f64();
            return Ok(Pace { per_second });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_counts_need_long_windows() {
        let window = |per_second| Pace { per_second }.window();
        assert_eq!(window(10.0), Some(Duration::from_secs(20)));
        assert_eq!(window(1e9), None);
        assert_eq!(window(0.0), None);
        assert_eq!(window(f64::NAN), None);
    }
}
