//! `l1d`, `l2-capacity`, `llc-capacity`: holding a share of a cache by touching
//! its lines: in scattered order the caches of a core, in sequence the last one.

use crate::Access;
use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::fit;
use crate::moves;
use crate::scatter::GROUP;
use crate::scatter::LINE;
use crate::scatter::Scattered;
use crate::spec::check_known;
use crate::sweep::Sweep;
use crate::walk::Walk;
use jostle_profile::resource::Resource;

pub const L1D: KernelSpec = KernelSpec {
    operation: "load of one cache line",
    units_per_operation: LINE,
    operations_per_call: 1 << 17,
    doc: "Loads the cache lines of x % of the L1 data cache whole, in golden-ratio order, with \
          the widest loads the CPU has, two per cycle where it can. On an SMT sibling this \
          takes L1d lines and load ports from the target at every moment. In slices on the \
          same CPU it can only cost the refill of one L1d per slice, a few µs; the bound is \
          computed from the refill time measured on the spot. On an EPYC 9004 with \
          32 KiB, x % displaced x ± 4 % of a reference set as large as the cache. It says \
          nothing about stores.",
    ..KernelSpec::of(Resource::L1d, |env| {
        Footprint::build(&L1D, "L1 data cache", env.l1d_bytes, 0, env)
    })
};

pub const L2_CAPACITY: KernelSpec = KernelSpec {
    operation: "load of one cache line",
    units_per_operation: LINE,
    operations_per_call: 1 << 14,
    doc: "Loads the cache lines of x % of the L2 cache, in golden-ratio order, on pages chosen by \
          access time so that they fit in it together (up to 4 MiB). Evicts the \
          target's lines from L2 and, since every L1d line passes through, from L1d. In slices \
          on the same CPU the target pays the refill after every slice. The fills come from \
          the last-level cache, whose bandwidth it uses a little. On an EPYC 9004 with \
          1 MiB, in a virtual machine, x % displaced x ± 3 % of a reference set as large as the \
          cache; with pages as they came it was 81 % at full.",
    ..KernelSpec::of(Resource::L2Capacity, |env| {
        Footprint::build(&L2_CAPACITY, "L2 cache", env.l2_bytes, 0, env)
    })
};

pub const LLC_CAPACITY: KernelSpec = KernelSpec {
    operation: "load of one cache line",
    units_per_operation: LINE,
    operations_per_call: 1024,
    probes: true,
    doc: "Loads the cache lines of x % of the last-level cache, as large as it was calibrated \
          or else as the machine reports it, one after the other, on another core of the \
          LLC group. What is read in sequence is fetched ahead, so that lines which the target \
          took come back at once. While the footprint is below twice the L2, every other load \
          is of an L2-sized buffer, so that the private caches do not absorb the rest. What a target \
          takes of the cache is seen by a walk from line to line over x/4 % of it instead: it \
          waits for every line, where the source has many under way at a time and loses \
          little beside anybody; and a quarter of the cache it keeps even where other guests \
          use the rest. In a virtual machine the reported \
          size is often not what one gets: other guests hold a part that nobody here sees.",
    ..KernelSpec::of(Resource::LlcCapacity, |env| {
        let (bytes, below) = (env.llc_bytes, env.l2_bytes);
        Footprint::build(&LLC_CAPACITY, "last-level cache", bytes, below, env)
    })
};

/// Touches a growing part of a buffer as large as a cache.
struct Footprint {
    buffer: Buffer,
    /// Lines of one of the eight segments that are touched alike, at 100 %.
    segment_full: u64,
    segment: u64,
    /// Lines loaded in one call.
    touches: u64,
    order: Order,
    /// Touched as well while the footprint could hide in the caches below.
    below: Option<(Buffer, Order)>,
    /// Where it probes, if it can, and whether it does.
    walk: Option<Walk>,
    probing: bool,
}

/// Which line is touched next.
enum Order {
    /// Nothing is fetched ahead, and nothing but what is touched.
    Scattered(Scattered),
    /// Faster by what is fetched ahead, and the faster a source comes back to its lines, the
    /// more of a cache it keeps: docs/sources.md.
    InSequence(Sweep),
}

impl Order {
    /// Touches the next `groups` groups of eight lines of the first `segment` groups.
    fn touch(&mut self, buffer: &mut Buffer, segment: u64, groups: u64) {
        match self {
            Order::Scattered(order) => order.touch(buffer, segment, groups),
            Order::InSequence(sweep) => sweep.over(buffer, segment as usize, groups as usize),
        }
    }
}

/// Steps of a walk in one call, and the part of the source's lines that it goes over. On
/// a guest whose cache of 32 MiB unseen neighbours use too, a walk over 8 MiB took 13 to
/// 14 ns a line at all times, and one over 15 MiB from 15 to 119 ns, from one half second
/// to the next: once it is slow its lines are evicted before it comes back to them. With
/// 8 MiB it kept 0.13 of its speed beside a stream, 0.53 beside zstd -9, 0.88 beside SQLite,
/// 0.96 beside awk and Node, and 0.99 or more beside bzip2 and Lua.
const STEPS: u64 = 256;
const WALKED_PART: u64 = 4;

impl Footprint {
    fn build(
        spec: &KernelSpec,
        cache: &str,
        cache_bytes: u64,
        below_bytes: u64,
        env: &Environment,
    ) -> Result<Box<dyn Kernel>, Failure> {
        check_known(cache_bytes, cache)?;
        let share = env.part(cache_bytes);
        let fits = spec.resource == Resource::L2Capacity;
        let wanted = if fits { fit::needs(share) } else { share };
        env.check_memory(wanted + below_bytes, &format!("to cover the {cache}"))?;
        let order = || match spec.resource {
            Resource::LlcCapacity => {
                let (_, load) = moves::widest(Access::Load, env.time_shared);
                Order::InSequence(Sweep::new(load, 0))
            }
            _ => Order::Scattered(Scattered::default()),
        };
        let below = match below_bytes {
            0 => None,
            bytes => Some((Buffer::resident(bytes as usize)?, order())),
        };
        let segment_full = (share / LINE / GROUP).max(1);
        let bytes = segment_full * GROUP * LINE;
        Ok(Box::new(Footprint {
            buffer: match fits {
                true => fit::buffer(bytes, env.l1d_bytes)?,
                false => Buffer::resident(bytes as usize)?,
            },
            segment_full,
            segment: segment_full,
            touches: spec.operations_per_call,
            order: order(),
            below,
            walk: (spec.resource == Resource::LlcCapacity).then(Walk::default),
            probing: false,
        }))
    }
}

impl Kernel for Footprint {
    fn set_intensity(&mut self, percent: f64) {
        let segment = (self.segment_full as f64 * percent / 100.0).round() as u64;
        self.segment = segment.clamp(1, self.segment_full);
    }

    fn set_probing(&mut self, probing: bool) {
        self.probing = probing;
    }

    fn work(&mut self) -> Result<u64, Failure> {
        let lines = (self.segment * GROUP).div_ceil(WALKED_PART);
        if let Some(walk) = self.walk.as_mut().filter(|_| self.probing) {
            walk.over(&self.buffer, lines, STEPS);
            return Ok(STEPS);
        }
        let groups = self.touches / GROUP;
        self.order.touch(&mut self.buffer, self.segment, groups);
        let held = self.held();
        if let Some((buffer, order)) = &mut self.below
            && held < 2 * buffer.len() as u64
        {
            let segment = buffer.len() as u64 / LINE / GROUP;
            order.touch(buffer, segment, groups);
        }
        Ok(self.touches)
    }

    fn held(&self) -> u64 {
        self.segment * GROUP * LINE
    }

    fn holds_at_most(&self) -> u64 {
        self.segment_full * GROUP * LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            llc_bytes: 4 << 20,
            memory_headroom_bytes: 1 << 30,
            ..Environment::default()
        }
    }

    #[test]
    fn footprint_follows_intensity() {
        let mut kernel = (L1D.build)(&environment()).unwrap();
        // The least is one line of each segment.
        for (percent, bytes) in [(100.0, 32 << 10), (50.0, 16 << 10), (0.0, 512)] {
            kernel.set_intensity(percent);
            assert_eq!(kernel.held(), bytes);
            assert_eq!(kernel.work().unwrap(), L1D.operations_per_call);
        }
    }

    #[test]
    fn the_last_level_cache_has_a_victim_and_the_others_have_none() {
        let work = |spec: &KernelSpec| {
            let mut kernel = (spec.build)(&environment()).unwrap();
            kernel.set_probing(true);
            kernel.set_intensity(100.0);
            kernel.work().unwrap()
        };
        assert_eq!(work(&LLC_CAPACITY), STEPS);
        for spec in [&L1D, &L2_CAPACITY] {
            assert!(!spec.probes);
            assert_eq!(work(spec), spec.operations_per_call);
        }
        let mut kernel = (LLC_CAPACITY.build)(&environment()).unwrap();
        kernel.set_probing(true);
        kernel.set_probing(false);
        assert_eq!(kernel.work().unwrap(), LLC_CAPACITY.operations_per_call);
    }

    #[test]
    fn unknown_size_and_too_little_memory_are_reasons() {
        let mut env = environment();
        env.llc_bytes = 0;
        let reason = (LLC_CAPACITY.build)(&env).err().unwrap().0;
        assert!(reason.contains("not known"), "{reason}");
        env.llc_bytes = 1 << 30;
        let reason = (LLC_CAPACITY.build)(&env).err().unwrap().0;
        assert!(reason.contains("more than half"), "{reason}");
    }
}
