//! Whether a source and the target share a cache while blocks are played.

use super::LiveExecutor;
use jostle_host::machine::transfer::Transfer;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::PlacementMode;
use std::time::Duration;

/// A look of so long ago counts as one of now.
const FRESH: Duration = Duration::from_millis(20);

/// The CPUs that are looked at, and what was found last.
#[derive(Default)]
pub(super) struct Nearness {
    /// Whether CPUs that are said to share a cache may not.
    pub(super) may_change: bool,
    /// `None` where there is nobody to look, or no way.
    known: Vec<(usize, Option<[usize; 2]>)>,
    transfer: Option<Transfer>,
    /// CPUs between which no look was possible.
    refused: Vec<[usize; 2]>,
    last: Option<(u64, [usize; 2], f64)>,
}

impl LiveExecutor<'_> {
    /// Looks, at each block, whether source and target still share a cache: on a
    /// virtual machine their CPUs may be moved.
    pub fn watch_nearness(&mut self) {
        self.nearness.may_change = true;
    }

    /// What a cache line takes from the CPU of the source of `subject` to the target's and
    /// back, nanoseconds; `None` where they need not share a cache, or cannot stop
    /// sharing it, or one CPU was too busy for a look.
    pub(super) fn line_ns(&mut self, subject: usize) -> Option<f64> {
        if !self.nearness.may_change {
            return None;
        }
        let cpus = self.cpus_between(subject)?;
        let now = monotonic_ns();
        if let Some((at, of, ns)) = self.nearness.last
            && of == cpus
            && now - at < FRESH.as_nanos() as u64
        {
            return Some(ns);
        }
        let nearness = &mut self.nearness;
        if nearness
            .transfer
            .as_ref()
            .is_none_or(|known| known.cpus != cpus)
        {
            if nearness.refused.contains(&cpus) {
                return None;
            }
            nearness.transfer = Transfer::between(cpus[0], cpus[1]).ok();
            if nearness.transfer.is_none() {
                nearness.refused.push(cpus);
            }
        }
        let ns = nearness.transfer.as_ref()?.look()?;
        nearness.last = Some((monotonic_ns(), cpus, ns));
        Some(ns)
    }

    /// A CPU of the source and one of the target, where they are said to share a cache.
    fn cpus_between(&mut self, subject: usize) -> Option<[usize; 2]> {
        let known = self.nearness.known.iter().find(|(of, _)| *of == subject);
        if let Some((_, cpus)) = known {
            return *cpus;
        }
        let placement = &self.groups[subject].plan.placement;
        let beside = placement.mode == PlacementMode::SharedLlc;
        let own = placement.cpus.first().copied().filter(|_| beside);
        let cpus = own.and_then(|own| {
            let of_target = self.target.cpus().ok()?;
            let other = of_target.iter().find(|cpu| **cpu != own)?;
            Some([own, *other])
        });
        self.nearness.known.push((subject, cpus));
        cpus
    }
}
