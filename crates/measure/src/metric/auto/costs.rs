//! What counting costs on this machine.

use super::super::error::Reason;
use jostle_host::sys::probe;
use std::time::Duration;

/// What a probe costs on a cheap instruction and on others, and a breakpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    push: Duration,
    other: Duration,
    pub(super) breakpoint: Duration,
}

impl Costs {
    pub(super) fn measure() -> Result<Costs, Reason> {
        Ok(Costs {
            breakpoint: probe::breakpoint_cost().map_err(Reason::Probe)?,
            push: probe::uprobe_cost(&[0x55]).map_err(Reason::Probe)?,
            other: probe::uprobe_cost(&[]).map_err(Reason::Probe)?,
        })
    }

    pub(super) fn of(&self, code: &[u8]) -> Duration {
        match probe::is_cheap(code) {
            true => self.push,
            false => self.other,
        }
    }
}
