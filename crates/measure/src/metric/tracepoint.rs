//! Tracepoints: how they are written, and what counting one costs.

use super::error::Reason;
use crate::counters::tracefs::TracefsError;
use crate::counters::tracefs::tracepoint_id;
use crate::error::Result;
use jostle_host::sys::probe::Event;
use jostle_host::sys::probe::Place;
use jostle_host::sys::probe::explain;
use jostle_host::sys::probe::fastest;
use std::path::Path;
use std::time::Duration;

/// How the metric begins.
pub(super) const PREFIX: &str = "progress:tracepoint:";

/// Category and name in `CATEGORY:NAME`.
pub(super) fn parse(text: &str) -> Result<(&str, &str)> {
    let word = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        !text.is_empty() && text.chars().all(allowed)
    };
    text.split_once(':')
        .filter(|(category, name)| word(category) && word(name))
        .ok_or_else(|| Reason::TracepointSyntax.wrong(&format!("{PREFIX}{text}")))
}

/// The number of the event `CATEGORY:NAME`.
///
/// # Errors
/// A request error that lists near names, or an environment error saying how
/// tracefs is mounted.
pub(super) fn id(text: &str) -> Result<u64> {
    let (category, name) = parse(text)?;
    let asked = format!("{PREFIX}{text}");
    tracepoint_id(Path::new("/"), category, name).map_err(|error| match error {
        TracefsError::Unknown { .. } => Reason::from(error).wrong(&asked),
        _ => Reason::from(error).failed(&asked),
    })
}

/// System calls that are timed.
const CALLS: u32 = 2000;

/// What counting one event costs here: a cheap system call of our own thread,
/// with and without being counted. Other events cost less, since they do not
/// send system calls the slow way.
pub(super) fn cost() -> Result<Duration, Reason> {
    let id = id("syscalls:sys_enter_getppid").map_err(|_| Reason::NoSyscallEvents)?;
    let event = Event::Tracepoint { id };
    let round = || {
        for _ in 0..CALLS {
            std::hint::black_box(nix::unistd::getppid());
        }
    };
    let without = fastest(round);
    let here = Place::Thread {
        id: 0,
        inherit: false,
    };
    let counter = event.count(here);
    let counter = counter.map_err(|error| Reason::Probe(explain(&event, &error)))?;
    let with = fastest(round);
    drop(counter);
    Ok(with.saturating_sub(without) / CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_refused() {
        for wrong in ["", "sched", "a:", ":b", "../x:y", "a:b:c"] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2);
        }
    }
}
