//! Stopping a target that is not ours, so that it goes on whatever happens to
//! us: by its freezer where it has one, else by signals.

use super::SIGNAL_LIMIT;
use super::cgroup::Freezer;
use super::guard::Guard;
use super::hold_error::HoldError;
use super::poll;
use super::tree;
use jostle_host::sys::pidfd::PidFd;
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

/// Added to the time for stopping, per process.
const PER_PROCESS: Duration = Duration::from_micros(500);

/// What is held now.
enum Held {
    Nothing,
    Frozen(Freezer),
    /// Pid and start time.
    Stopped(Vec<(i32, u64)>),
}

pub(super) struct Hold {
    guard: Guard,
    held: Held,
}

impl Hold {
    pub(super) fn new(guard: Guard) -> Hold {
        Hold {
            guard,
            held: Held::Nothing,
        }
    }

    pub(super) fn holds(&self) -> bool {
        !matches!(self.held, Held::Nothing)
    }

    /// Freezes; nothing is held when this fails.
    pub(super) fn freeze(&mut self, freezer: Freezer) -> Result<(), HoldError> {
        if self.holds() {
            return Ok(());
        }
        if let Some(by) = freezer.frozen_by() {
            return Err(HoldError::FrozenMeanwhile {
                directory: freezer.directory,
                by,
            });
        }
        self.guard.watches().map_err(HoldError::NoGuard)?;
        self.guard.hold();
        if !self.guard.will_freeze(&freezer) {
            self.guard.relax();
            return Err(HoldError::PathTooLong(freezer.directory));
        }
        // Told before the deed: from here on somebody undoes it in any case.
        let before = self.guard.releases();
        let frozen = freezer.freeze(SIGNAL_LIMIT);
        self.held = Held::Frozen(freezer.clone());
        if let Err(reason) = frozen {
            self.release()?;
            return match self.guard.releases() == before {
                true => Err(reason),
                // We were stopped ourselves in the middle of it.
                false => self.freeze(freezer),
            };
        }
        Ok(())
    }

    /// Stops every process that `members` lists, and asks again until it lists
    /// none that runs: one that is not stopped yet may fork. Those that somebody
    /// else stopped stay his. Nothing is held when this fails.
    pub(super) fn stop(&mut self, mut members: impl FnMut() -> Vec<i32>) -> Result<(), HoldError> {
        if self.holds() {
            return Ok(());
        }
        loop {
            self.guard.watches().map_err(HoldError::NoGuard)?;
            let before = self.guard.releases();
            self.guard.hold();
            self.held = Held::Stopped(Vec::new());
            let outcome = self.stop_all(&mut members);
            if outcome.is_err() {
                let _ = self.release();
            }
            // Else we were stopped ourselves in the middle of it.
            if outcome.is_ok() || self.guard.releases() == before {
                return outcome;
            }
        }
    }

    fn stop_all(&mut self, members: &mut impl FnMut() -> Vec<i32>) -> Result<(), HoldError> {
        let Held::Stopped(stopped) = &mut self.held else {
            return Ok(());
        };
        let began = Instant::now();
        // Start times of all that were seen, ours to let go on or not.
        let mut seen: HashMap<i32, u64> = HashMap::new();
        loop {
            let mut new = Vec::new();
            for pid in members() {
                let Some(stat) = tree::stat(pid) else {
                    continue;
                };
                if seen.insert(pid, stat.start) == Some(stat.start) {
                    continue;
                }
                // Stopped by somebody else: not ours to let go on.
                if stat.stopped() || stat.ended() {
                    continue;
                }
                if !self.guard.will_stop(stopped.len(), (pid, stat.start)) {
                    return Err(HoldError::TooMany(members().len()));
                }
                stopped.push((pid, stat.start));
                new.push(pid);
                let process = PidFd::open(pid);
                let same = tree::stat(pid).is_some_and(|now| now.start == stat.start);
                if let (Ok(process), true) = (process, same)
                    && let Err(error) = process.signal(Some(Signal::SIGSTOP))
                    && error.raw_os_error() == Some(libc::EPERM)
                {
                    return Err(HoldError::Denied { pid, error });
                }
            }
            let limit = SIGNAL_LIMIT + PER_PROCESS * seen.len() as u32;
            if new.is_empty() {
                return Ok(());
            }
            if !poll(limit, || {
                new.retain(|&pid| !tree::stands(pid));
                new.is_empty()
            }) {
                return Err(HoldError::NotStopped);
            }
            if began.elapsed() > limit * 4 {
                return Err(HoldError::ForksTooFast(seen.len()));
            }
        }
    }

    /// Thaws or continues what is held.
    ///
    /// # Errors
    /// When the freezer refuses; the guard then still knows of it.
    pub(super) fn release(&mut self) -> Result<(), HoldError> {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => {}
            Held::Frozen(freezer) => match freezer.thaw() {
                Ok(()) => {}
                // Gone: nothing in it can be frozen any more.
                Err(_) if !freezer.directory.is_dir() => {}
                Err(error) => {
                    let directory = freezer.directory.clone();
                    self.held = Held::Frozen(freezer);
                    return Err(HoldError::NotThawed { directory, error });
                }
            },
            Held::Stopped(stopped) => {
                for (pid, start) in stopped {
                    tree::resume(pid, start);
                }
            }
        }
        self.guard.relax();
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.release().is_err() {
            // The guard tries once more, as if we had been killed.
            self.guard.abandon();
        }
    }
}
