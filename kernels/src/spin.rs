//! The placebo: passing time on a CPU while doing as little as possible.

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("../asm/x86_64/spin.s"));

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn jostle_spin_ticks(ticks: u64);
}

/// Spins for about `pauses` × 50 ns without touching memory.
pub fn spin(pauses: u32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the routine reads the time-stamp counter and changes only
    // caller-saved registers. 130 ticks are 40 to 65 ns at 2 to 3 GHz.
    unsafe {
        jostle_spin_ticks(u64::from(pauses) * 130);
    }
    #[cfg(not(target_arch = "x86_64"))]
    spin_twin(pauses);
}

/// The same in plain Rust.
pub fn spin_twin(pauses: u32) {
    for _ in 0..pauses {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn spins_for_about_as_long_as_asked() {
        let quickest = (0..20)
            .map(|_| {
                let start = Instant::now();
                spin(200);
                start.elapsed().as_nanos()
            })
            .min()
            .unwrap();
        assert!((3_000..40_000).contains(&quickest), "{quickest} ns");
        spin_twin(10);
    }
}
