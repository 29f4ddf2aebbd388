//! `memory-capacity`: keeping memory resident.

use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use crate::weyl::Weyl;
use jostle_profile::resource::Resource;

const TOUCHES: u64 = 256;
/// Faulted in between two looks at the control page.
const STEP: usize = 2 << 20;
/// Faulted in between two looks at what is left.
const CHECK: usize = 64 << 20;
const LINE: u64 = 64;

pub const SPEC: KernelSpec = KernelSpec {
    waiting: Waiting::Sleep,
    operation: "load of one cache line at random",
    units_per_operation: LINE,
    operations_per_call: TOUCHES,
    pause_ns: 1_000_000,
    doc: "Keeps x % of the memory that may be taken resident (what was available at the start \
          less the reserve) and touches it here and there, so seldom that caches and memory \
          bandwidth are left alone. A target notices when its page cache or its own pages must \
          go. Switching takes as long as the kernel needs to hand out the pages; the memory is \
          given back at once when treatment ends or when what is left falls below the reserve. \
          It does not show what swapping would cost elsewhere.",
    ..KernelSpec::of(Resource::MemoryCapacity, build)
};

struct MemoryCapacity {
    buffer: Buffer,
    resident: usize,
    wanted: usize,
    reserve: u64,
    unchecked: usize,
    order: Weyl,
    available_bytes: fn() -> Option<u64>,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let bytes = env.part(env.memory_headroom_bytes);
    if bytes < STEP as u64 {
        return Err(Failure::new(format!(
            "no memory to take: {} bytes are available above the reserve of {} bytes",
            env.memory_headroom_bytes, env.memory_reserve_bytes
        )));
    }
    let Some(available_bytes) = env.available_bytes.filter(|ask| ask().is_some()) else {
        return Err(Failure::new(
            "the kernel does not tell how much memory is available, so the reserve could not be kept",
        ));
    };
    Ok(Box::new(MemoryCapacity {
        buffer: Buffer::reserve(bytes as usize)?,
        resident: 0,
        wanted: 0,
        reserve: env.memory_reserve_bytes,
        unchecked: 0,
        order: Weyl::default(),
        available_bytes,
    }))
}

impl MemoryCapacity {
    /// Now and then, gives memory back when less than the reserve is left, and
    /// no longer asks for more than is held then.
    fn keep_reserve(&mut self) {
        if self.unchecked < CHECK {
            return;
        }
        self.unchecked = 0;
        let left = (self.available_bytes)().unwrap_or(0);
        if left < self.reserve {
            let back = (self.reserve - left) as usize;
            self.resident = self.resident.saturating_sub(back) & !(STEP - 1);
            self.wanted = self.resident;
            self.buffer.give_back(self.resident);
        }
    }
}

impl Kernel for MemoryCapacity {
    fn set_intensity(&mut self, percent: f64) {
        let all = self.buffer.len();
        self.wanted = ((all as f64 * percent / 100.0) as usize).min(all);
        if self.wanted < self.resident {
            self.buffer.give_back(self.wanted);
            self.resident = self.wanted;
        }
    }

    fn work(&mut self) -> Result<u64, Failure> {
        if self.resident < self.wanted {
            let step = STEP.min(self.wanted - self.resident);
            self.buffer.fault_in(self.resident, step);
            self.resident += step;
            self.unchecked += step;
            self.keep_reserve();
            return Ok(0);
        }
        // Holding: about one look at the reserve per 64 calls.
        self.unchecked += CHECK / 64;
        self.keep_reserve();
        let lines = self.resident as u64 / LINE;
        if lines == 0 {
            return Ok(0);
        }
        for _ in 0..TOUCHES {
            let line = self.order.next_below(lines);
            self.buffer.read((line * (LINE / 8)) as usize);
        }
        Ok(TOUCHES)
    }

    fn release(&mut self) {
        self.wanted = 0;
        self.resident = 0;
        self.buffer.give_back(0);
    }

    fn applied(&self) -> bool {
        self.resident == self.wanted
    }

    fn held(&self) -> u64 {
        self.resident as u64
    }

    fn holds_at_most(&self) -> u64 {
        self.buffer.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(headroom: u64, reserve: u64) -> Environment {
        Environment {
            memory_headroom_bytes: headroom,
            memory_reserve_bytes: reserve,
            available_bytes: Some(|| Some(1 << 40)),
            ..Environment::default()
        }
    }

    #[test]
    fn fills_in_steps_and_gives_back() {
        let mut kernel = build(&environment(64 << 20, 0)).unwrap();
        kernel.set_intensity(50.0);
        assert!(!kernel.applied());
        let mut calls = 0;
        while !kernel.applied() {
            assert_eq!(kernel.work().unwrap(), 0);
            calls += 1;
        }
        assert_eq!(calls, 16);
        assert_eq!(kernel.held(), 32 << 20);
        assert_eq!(kernel.work().unwrap(), TOUCHES);
        kernel.release();
        assert_eq!(kernel.held(), 0);
        assert!(kernel.applied());
    }

    #[test]
    fn stops_at_the_reserve() {
        // A reserve nobody can keep: everything taken goes back at the first look.
        let mut kernel = build(&environment(256 << 20, u64::MAX)).unwrap();
        kernel.set_intensity(100.0);
        for _ in 0..256 {
            kernel.work().unwrap();
        }
        assert!(kernel.held() < 2 * CHECK as u64);
        assert!(kernel.applied(), "what was refused is no longer asked for");
    }

    #[test]
    fn nothing_to_take_is_a_reason() {
        let reason = build(&environment(0, 1 << 30)).err().unwrap().0;
        assert!(reason.contains("no memory to take"), "{reason}");
    }
}
