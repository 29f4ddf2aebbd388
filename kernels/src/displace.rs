//! How much of a structure a source really pushes out: evidence, where its
//! declared footprint is only a claim.
//!
//! A reference working set of exactly the structure's size is walked three
//! times over: just warmed (time w), after everything was pushed out (time c),
//! and after the source has touched its footprint twice (time t). The share
//! displaced is (t − w) / (c − w).
//!
//! It is warmed in one direction and timed in the other. In the same direction
//! a cache that evicts what was used longest ago would lose, with every line
//! the walk brings back, just the line it needs next: any intruder at all would
//! seem to displace everything. Backwards, what is still there is met first.
//!
//! The caller keeps the thread on one CPU.

use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::cycle::Cycle;
use crate::l1i;
use crate::scatter::GROUP;
use crate::scatter::LINE;
use crate::scatter::Scattered;
use crate::tlb;
use crate::tlb::Pages;

const WORDS: usize = (LINE / 8) as usize;

/// The walk must take this much longer after everything was pushed out, or
/// nothing can be told from noise.
const LEAST_RISE: f64 = 0.05;

/// A reference working set of one resource, ready to be displaced.
pub struct Displacement {
    spec: &'static KernelSpec,
    reference: Reference,
    /// Repetitions of one measurement.
    repetitions: usize,
}

/// What is walked, and what pushes it out.
enum Reference {
    Lines {
        cycle: Cycle,
        lines: u64,
        /// How many of the lines a timed walk reads, evenly spread.
        sample: u64,
        buffer: Buffer,
        intruder: Buffer,
    },
    Pages {
        cycle: Cycle,
        pages: Pages,
        intruder: Pages,
    },
    /// The last `blocks` blocks of the chain of `l1i`; the source runs the first.
    Code { cycle: Cycle, blocks: u64 },
}

/// Lines a walk through the last-level cache reads: a full one takes a second.
const SAMPLE: u64 = 16384;

impl Displacement {
    /// Builds the working set for `resource`.
    ///
    /// # Errors
    /// In words: the resource holds nothing that could be displaced, the
    /// structure's size is not known, or there is no memory.
    pub fn prepare(resource: &str, env: &Environment) -> Result<Self, Failure> {
        let spec = crate::find(resource)
            .ok_or_else(|| Failure::new(format!("this version has no source for '{resource}'")))?;
        let (reference, repetitions) = match resource {
            "l1i" => (Reference::code(env.l1i_bytes)?, 41),
            "l1d" => (
                Reference::lines(env.l1d_bytes, 4, "L1 data cache", env)?,
                41,
            ),
            "l2-capacity" => (Reference::lines(env.l2_bytes, 4, "L2 cache", env)?, 21),
            "llc-capacity" => (
                Reference::lines(env.llc_bytes, 2, "last-level cache", env)?,
                3,
            ),
            "tlb" => (Reference::pages(env.tlb_entries)?, 41),
            _ => {
                return Err(Failure::new(format!(
                    "{resource} holds no part of a cache that could be seen missing"
                )));
            }
        };
        Ok(Displacement {
            spec,
            reference,
            repetitions,
        })
    }

    /// The share of the structure that `kernel` displaces at the intensity set
    /// last: 0 for nothing, 1 for all; noise may carry it a little beyond.
    ///
    /// # Errors
    /// When the kernel fails, or when the walk takes hardly longer after
    /// everything was pushed out, so that nothing can be seen.
    pub fn share(&mut self, kernel: &mut dyn Kernel) -> Result<f64, Failure> {
        let per_call = self.spec.operations_per_call * self.spec.units_per_operation;
        let calls = (2 * kernel.held()).div_ceil(per_call).max(1);
        let [mut warm, mut cold, mut after] = [const { Vec::new() }; 3];
        for _ in 0..self.repetitions {
            self.reference.warm();
            warm.push(self.reference.walk());
            self.reference.warm();
            self.reference.push_out();
            cold.push(self.reference.walk());
            self.reference.warm();
            for _ in 0..calls {
                kernel.work()?;
            }
            after.push(self.reference.walk());
        }
        let [warm, cold, after] = [warm, cold, after].map(lower_quartile);
        if cold - warm < LEAST_RISE * warm {
            return Err(Failure::new(format!(
                "what {} displaces cannot be seen: a walk takes {:.1} µs when everything is \
                 there and {:.1} µs when nothing is",
                self.spec.resource,
                warm / 1e3,
                cold / 1e3
            )));
        }
        Ok((after - warm) / (cold - warm))
    }
}

/// Most noise makes a walk longer, so the middle of the faster half.
fn lower_quartile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

impl Reference {
    fn code(l1i_bytes: u64) -> Result<Self, Failure> {
        let blocks = l1i_bytes / l1i::BLOCK;
        if blocks == 0 || 2 * blocks > l1i::SLOTS {
            return Err(Failure::new(format!(
                "an L1 instruction cache of {l1i_bytes} bytes cannot be walked: there are {} \
                 bytes of code, and it takes twice the size",
                l1i::SLOTS * l1i::BLOCK
            )));
        }
        Ok(Reference::Code {
            cycle: Cycle::over(blocks),
            blocks,
        })
    }

    fn lines(bytes: u64, intruders: u64, cache: &str, env: &Environment) -> Result<Self, Failure> {
        let lines = bytes / LINE / GROUP * GROUP;
        if lines == 0 {
            return Err(Failure::new(format!(
                "the size of the {cache} is not known on this machine"
            )));
        }
        let wanted = (1 + intruders) * bytes;
        if wanted > env.memory_headroom_bytes / 2 {
            return Err(Failure::new(format!(
                "needs {wanted} bytes of memory to push everything out of the {cache}, more than \
                 half of the {} bytes that may be taken",
                env.memory_headroom_bytes
            )));
        }
        let mut buffer = Buffer::resident((lines * LINE) as usize)?;
        for line in 0..lines as usize {
            buffer.write(line * WORDS, 0);
        }
        Ok(Reference::Lines {
            cycle: Cycle::over(lines),
            lines,
            sample: match lines > 16 * SAMPLE {
                true => SAMPLE,
                false => lines,
            },
            buffer,
            intruder: Buffer::resident((intruders * lines * LINE) as usize)?,
        })
    }

    fn pages(entries: u64) -> Result<Self, Failure> {
        let entries = match entries {
            0 => tlb::measure_entries()?,
            entries => entries,
        };
        Ok(Reference::Pages {
            cycle: Cycle::over(entries),
            pages: Pages::mapped(entries as usize)?,
            intruder: Pages::mapped(2 * entries as usize)?,
        })
    }

    /// Brings the whole working set in.
    fn warm(&self) {
        match self {
            Reference::Lines {
                lines,
                sample,
                buffer,
                ..
            } if sample < lines => {
                Scattered::new().touch(buffer, lines / GROUP, lines / GROUP);
            }
            Reference::Lines {
                cycle,
                lines,
                buffer,
                ..
            } => {
                for _ in 0..2 {
                    cycle.forward(*lines, |line| buffer.read(line as usize * WORDS));
                }
            }
            Reference::Pages { cycle, pages, .. } => {
                for _ in 0..2 {
                    cycle.forward(pages.count() as u64, |page| pages.read(page as usize));
                }
            }
            Reference::Code { cycle, blocks } => {
                for _ in 0..2 {
                    cycle.forward(*blocks, |block| visit(l1i::SLOTS - blocks + block));
                }
            }
        }
    }

    /// Pushes the whole working set out.
    fn push_out(&self) {
        match self {
            Reference::Lines { intruder, .. } => {
                let segment = intruder.len() as u64 / LINE / GROUP;
                Scattered::new().touch(intruder, segment, 2 * segment);
            }
            Reference::Pages { intruder, .. } => {
                for page in 0..intruder.count() {
                    intruder.read(page);
                }
            }
            Reference::Code { blocks, .. } => {
                l1i::run_chain(l1i::SLOTS - blocks, 2);
            }
        }
    }

    /// Nanoseconds to walk it against the direction it was warmed in.
    fn walk(&self) -> f64 {
        match self {
            Reference::Lines {
                cycle,
                sample,
                buffer,
                ..
            } => cycle.backward(*sample, |line| buffer.read(line as usize * WORDS)),
            Reference::Pages { cycle, pages, .. } => {
                cycle.backward(pages.count() as u64, |page| pages.read(page as usize))
            }
            Reference::Code { cycle, blocks } => {
                cycle.backward(*blocks, |block| visit(l1i::SLOTS - blocks + block))
            }
        }
    }
}

/// Runs one block and returns 0, as walks expect.
fn visit(block: u64) -> u64 {
    std::hint::black_box(l1i::visit(block));
    0
}
