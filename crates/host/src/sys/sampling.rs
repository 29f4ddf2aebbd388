//! Where a thread is in its program: samples by the kernel's software clock, with
//! the top of the user stack. Needs no PMU.

use perf_event::Builder;
use perf_event::SampleFlag;
use perf_event::Sampler;
use perf_event::events::Software;
use std::io;
use std::time::Duration;

/// Type of a record that holds a sample (`PERF_RECORD_SAMPLE`).
const SAMPLE: u32 = 9;
/// Bit of the instruction pointer among the user registers that can be sampled.
#[cfg(target_arch = "aarch64")]
const POINTER: u64 = 1 << 32;
#[cfg(not(target_arch = "aarch64"))]
const POINTER: u64 = 1 << 8;

/// Most bytes of the stack in one sample.
pub const STACK_BYTES: u32 = 16 * 1024;
/// Bytes that wait to be read, per thread.
const RING_BYTES: usize = 4 << 20;

/// One look at a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub pid: i32,
    /// Its user-mode instruction, also while it was in the kernel.
    pub address: u64,
    /// The stack, from its top.
    pub stack: Vec<u64>,
}

/// Samples one thread while it runs.
pub struct SoftwareClock {
    sampler: Sampler,
}

impl SoftwareClock {
    /// Samples `thread` once per `period` of its CPU time from now on.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn watch(thread: i32, period: Duration) -> io::Result<SoftwareClock> {
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder
            .sample(SampleFlag::IP | SampleFlag::TID)
            .sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
            .sample_period(period.as_nanos().max(1) as u64)
            .sample_regs_user(POINTER)
            .sample_stack_user(STACK_BYTES)
            .exclude_callchain_kernel(true)
            .include_kernel()
            .enabled(true)
            .observe_pid(thread)
            .any_cpu();
        let sampler = builder.build()?.sampled(RING_BYTES)?;
        Ok(SoftwareClock { sampler })
    }

    /// The samples since the last call, in order.
    pub fn take(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        while let Some(record) = self.sampler.next_record() {
            if record.ty() == SAMPLE {
                samples.extend(parse(&record.to_contiguous()));
            }
        }
        samples
    }
}

/// A record's bytes: instruction, process and thread, user registers, user stack
/// (see perf_event_open(2)); `None` for a thread without user code.
fn parse(bytes: &[u8]) -> Option<Sample> {
    let word = |index: usize| -> Option<u64> {
        let bytes = bytes.get(index * 8..index * 8 + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let pid = i32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?);
    // Without an ABI there are no registers.
    if word(2)? == 0 {
        return None;
    }
    let address = word(3)?;
    let size = word(4)?;
    let words = (size / 8) as usize;
    // How much of it the kernel could read stands behind it.
    let filled = match size {
        0 => 0,
        _ => (word(5 + words)? / 8) as usize,
    };
    let stack = (0..filled.min(words)).map(|index| word(5 + index));
    Some(Sample {
        pid,
        address,
        stack: stack.collect::<Option<Vec<u64>>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn records_are_read_and_short_ones_refused() {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let ids = u64::from_ne_bytes([7, 0, 0, 0, 8, 0, 0, 0]);
        let whole: Vec<u8> = bytes(&[1, ids, 2, 0x40, 24, 10, 11, 12, 16]);
        let sample = parse(&whole).unwrap();
        assert_eq!((sample.pid, sample.address), (7, 0x40));
        assert_eq!(sample.stack, [10, 11]);
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None, "{length}");
        }
        let kernel: Vec<u8> = bytes(&[1, ids, 0, 0]);
        assert_eq!(parse(&kernel), None);
        let no_stack: Vec<u8> = bytes(&[1, ids, 2, 0x40, 0]);
        assert_eq!(parse(&no_stack).unwrap().stack.len(), 0);
        // More was filled in than there is.
        let liar: Vec<u8> = bytes(&[1, ids, 2, 0x40, 8, 10, 1 << 40]);
        assert_eq!(parse(&liar).unwrap().stack, [10]);
    }

    #[test]
    fn a_busy_thread_is_seen_where_it_is() {
        let clock = SoftwareClock::watch(0, Duration::from_micros(500));
        let Some(mut clock) = crate::skip::have("perf", clock) else {
            return;
        };
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let samples = clock.take();
        let pid = std::process::id() as i32;
        assert!(samples.len() > 10, "{}", samples.len());
        assert!(samples.iter().all(|sample| sample.pid == pid));
        assert!(samples.iter().all(|sample| !sample.stack.is_empty()));
    }
}
