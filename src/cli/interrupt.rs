//! Ctrl-C, SIGTERM and SIGHUP as a flag, so that everything is cleaned up.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::workload;
use nix::sys::signal::Signal;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGTSTP;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A flag that any of the signals raises from now on. Ctrl-Z releases a held target
/// before it stops this process.
///
/// # Errors
/// An environment error when the handlers cannot be installed.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| Error::environment(format!("cannot watch for Ctrl-C: {error}")))?;
    }
    release_before_a_stop()
        .map_err(|error| Error::environment(format!("cannot watch for Ctrl-Z: {error}")))?;
    Ok(flag)
}

fn release_before_a_stop() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTSTP])?;
    let thread = std::thread::Builder::new().name("jostle-ctrl-z".into());
    thread.spawn(move || {
        for _ in signals.forever() {
            workload::release_all();
            let _ = nix::sys::signal::raise(Signal::SIGSTOP);
        }
    })?;
    Ok(())
}

pub fn raised(flag: &AtomicBool) -> bool {
    flag.load(Relaxed)
}
