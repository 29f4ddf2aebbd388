//! Ctrl-C, SIGTERM and SIGHUP as a flag, so that everything is cleaned up.

use crate::error::Error;
use crate::error::Result;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A flag that any of the signals raises from now on.
///
/// # Errors
/// An environment error when the handlers cannot be installed.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| Error::environment(format!("cannot watch for Ctrl-C: {error}")))?;
    }
    Ok(flag)
}

pub fn raised(flag: &AtomicBool) -> bool {
    flag.load(Relaxed)
}
