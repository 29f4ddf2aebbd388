//! Children that this process has for itself: whoever looks for the processes of a
//! target, many times a second, need not read about these.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;

static OWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Processes that are nobody's target, by pid and start time: daemons of hooks.
static LEFT: Mutex<BTreeSet<(i32, u64)>> = Mutex::new(BTreeSet::new());

/// Tells that `pid`, which started at `start`, never belongs to a target, whoever adopts
/// it and whatever its environment says.
pub fn leave(pid: i32, start: u64) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.insert((pid, start));
}

pub fn is_left(pid: i32, start: u64) -> bool {
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.contains(&(pid, start))
}

/// A child that is known as this process's own until it is dropped, which must not
/// be later than when it is reaped: its pid may be somebody else's then.
#[derive(Debug)]
pub struct OwnChild(i32);

impl OwnChild {
    pub fn new(pid: i32) -> OwnChild {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert(pid);
        OwnChild(pid)
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.remove(&self.0);
    }
}

/// Whether `pid` is a child that this process has for itself.
pub fn is_own(pid: i32) -> bool {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.contains(&pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_own_until_it_is_let_go() {
        // No process has this number.
        let pid = i32::MAX - 1;
        let own = OwnChild::new(pid);
        assert!(is_own(pid));
        drop(own);
        assert!(!is_own(pid));
    }
}
