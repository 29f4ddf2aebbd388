//! How much of a structure a source really pushes out: evidence, where its
//! declared footprint is only a claim.
//!
//! A reference working set of exactly the structure's size is walked three
//! times over: just warmed (w), after everything was pushed out (c), and after
//! the source has been through its footprint a few times (t). The share displaced is
//! (t − w) / (c − w), where each stands for the time of the walk or, for L2
//! and the LLC, for the reads that missed: there the clock can tell a miss from
//! a hit, and what a miss costs changes all the time with what others do.
//!
//! The set is warmed in one direction and walked in the other. In the same
//! direction a cache that evicts what was used longest ago would lose, with
//! every line the walk brings back, just the line it needs next: any intruder
//! at all would seem to displace everything. Backwards, what is still there is
//! met first. Data and pages are walked in a sparse sample for the same reason:
//! what the walk itself brings back must not push out much of what it comes to
//! later.
//!
//! What others on the same core or cache displace is in w and c alike. It
//! leaves less to displace, and more noise. The caller keeps the thread on one
//! CPU.

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
use crate::spec::check_known;
use crate::tlb;
use crate::tlb::Pages;
use jostle_profile::resource::Resource;

/// 64-bit words of a line.
const WORDS: usize = (LINE / 8) as usize;
/// Lines that some cores fetch together.
const PAIR: u64 = 2;
/// One place of so many is walked; odd, so that all sets get their turn.
const STRIDE: u64 = 7;
/// How often the source goes through its footprint before it is looked at.
const PASSES: u64 = 4;

/// A reference working set of one resource, ready to be displaced.
pub struct Displacement {
    spec: &'static KernelSpec,
    reference: Box<dyn Reference>,
    repetitions: usize,
}

/// What is walked, and what pushes it out.
trait Reference {
    /// Brings all of it in.
    fn warm(&self);
    /// Pushes all of it out.
    fn push_out(&self);
    /// Walks it against the direction it was warmed in: nanoseconds or misses.
    fn walk(&self) -> f64;
    fn judgement(&self) -> Judgement;
}

/// How the results of walks are read.
struct Judgement {
    unit: &'static str,
    /// How many times what a walk comes to with everything there it must come to
    /// with everything pushed out, or nothing can be told from noise.
    least_rise: f64,
    /// What many walks come to: the value that this share of them lies below.
    typical: f64,
}

impl Displacement {
    /// Builds the working set for `resource`.
    ///
    /// # Errors
    /// In words: the resource holds nothing that could be displaced, the
    /// structure's size is not known, or there is no memory.
    pub fn prepare(spec: &'static KernelSpec, env: &Environment) -> Result<Self, Failure> {
        let (reference, repetitions): (Box<dyn Reference>, usize) = match spec.resource {
            Resource::L1i => (code(env.l1i_bytes)?, 61),
            Resource::L1d => (lines(env.l1d_bytes)?, 201),
            Resource::L2Capacity => (Box::new(Pairs::new(env.l2_bytes, "L2 cache", env)?), 15),
            Resource::LlcCapacity => {
                let pairs = Pairs::new(env.llc_bytes, "last-level cache", env)?;
                (Box::new(pairs), 3)
            }
            Resource::Tlb => (pages(tlb::entries(env)?)?, 61),
            resource => {
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

    /// The share of the structure that `kernel`, the source of this resource,
    /// displaces at the intensity set last: 0 for nothing, 1 for all; noise may
    /// carry it a little beyond either.
    ///
    /// # Errors
    /// When the kernel fails, or when a walk shows hardly any difference after
    /// everything was pushed out.
    pub fn share(&mut self, kernel: &mut dyn Kernel) -> Result<f64, Failure> {
        let per_call = self.spec.operations_per_call * self.spec.units_per_operation;
        let calls = (PASSES * kernel.held()).div_ceil(per_call).max(1);
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
        let Judgement {
            unit,
            least_rise,
            typical,
        } = self.reference.judgement();
        let [warm, cold, after] =
            [warm, cold, after].map(|mut walks| quantile(&mut walks, typical));
        if cold < least_rise * warm {
            return Err(Failure::new(format!(
                "what {} displaces cannot be seen here: a walk through its reference set comes to \
                 {warm:.0} {unit} when all was just used and to {cold:.0} {unit} when all was \
                 pushed out",
                self.spec.resource
            )));
        }
        Ok((after - warm) / (cold - warm))
    }
}

/// The value that a share `part` of all lies below.
fn quantile<T: Copy + PartialOrd>(values: &mut [T], part: f64) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("times and counts are numbers"));
    values[(values.len() as f64 * part) as usize]
}

/// Loads all of `buffer` twice in scattered order.
fn sweep(buffer: &Buffer) {
    let segment = buffer.len() as u64 / LINE / GROUP;
    Scattered::default().touch(buffer, segment, 2 * segment);
}

/// Places whose walk is timed as a whole: a miss is too short for the clock.
struct Timed<R, P> {
    cycle: Cycle,
    count: u64,
    /// One place of so many is walked.
    stride: u64,
    /// Reads a place; returns 0.
    read: R,
    push_out: P,
}

impl<R: Fn(u64) -> u64 + 'static, P: Fn() + 'static> Timed<R, P> {
    fn boxed(count: u64, stride: u64, read: R, push_out: P) -> Box<dyn Reference> {
        Box::new(Timed {
            cycle: Cycle::over(count),
            count,
            stride,
            read,
            push_out,
        })
    }
}

impl<R: Fn(u64) -> u64, P: Fn()> Reference for Timed<R, P> {
    fn warm(&self) {
        for _ in 0..2 {
            self.cycle.forward(self.count, &self.read);
        }
    }

    fn push_out(&self) {
        (self.push_out)();
    }

    fn walk(&self) -> f64 {
        let (sample, places) = self.cycle.sparse(self.stride);
        sample.backward(places, &self.read)
    }

    /// Most noise makes a walk longer, so the middle of the better half counts.
    fn judgement(&self) -> Judgement {
        Judgement {
            unit: "ns",
            least_rise: 1.1,
            typical: 0.25,
        }
    }
}

/// Code: the last blocks of the chain of which the source runs the first.
fn code(l1i_bytes: u64) -> Result<Box<dyn Reference>, Failure> {
    let blocks = l1i_bytes / l1i::BLOCK;
    if blocks == 0 || 2 * blocks > l1i::SLOTS {
        return Err(Failure::new(format!(
            "an L1 instruction cache of {l1i_bytes} bytes cannot be walked: it takes twice \
             as much code, and there are {} bytes",
            l1i::SLOTS * l1i::BLOCK
        )));
    }
    let others = l1i::SLOTS - blocks;
    let visit = move |block| {
        std::hint::black_box(l1i::visit(others + block));
        0
    };
    let push_out = move || {
        l1i::run_chain(others, 2);
    };
    Ok(Timed::boxed(blocks, 1, visit, push_out))
}

/// Lines of L1d.
fn lines(l1d_bytes: u64) -> Result<Box<dyn Reference>, Failure> {
    let lines = l1d_bytes / LINE;
    check_known(lines, "L1 data cache")?;
    let buffer = Buffer::of_zeroed_lines(l1d_bytes)?;
    let intruder = Buffer::of_zeroed_lines(4 * l1d_bytes)?;
    let read = move |line| buffer.read(line as usize * WORDS);
    Ok(Timed::boxed(lines, STRIDE, read, move || sweep(&intruder)))
}

/// Pages, as many as the TLB has entries.
fn pages(entries: u64) -> Result<Box<dyn Reference>, Failure> {
    let pages = Pages::mapped(entries as usize)?;
    let intruder = Pages::mapped(2 * entries as usize)?;
    let push_out = move || {
        for page in 0..2 * intruder.count {
            intruder.read(page % intruder.count);
        }
    };
    let read = move |page| pages.read(page as usize);
    Ok(Timed::boxed(entries, STRIDE, read, push_out))
}

/// Lines of L2 or the LLC, whose misses are counted. One of each pair is
/// walked, since a core that fetches both would hide every other miss.
struct Pairs {
    cycle: Cycle,
    pairs: u64,
    /// One pair of so many is walked.
    stride: u64,
    buffer: Buffer,
    intruder: Buffer,
    /// Nanoseconds from which on a read is a miss.
    miss_ns: u32,
}

/// Most pairs a walk reads.
const SAMPLE: u64 = 1 << 14;

impl Pairs {
    fn new(bytes: u64, cache: &str, env: &Environment) -> Result<Self, Failure> {
        let pairs = bytes / LINE / PAIR;
        check_known(pairs, cache)?;
        let stride = STRIDE.max((pairs / SAMPLE) | 1);
        // Enough to push out what a cache that is not strict about age keeps,
        // where that does not take seconds.
        let times = if stride > STRIDE { 2 } else { 4 };
        let wanted = (1 + times) * bytes;
        env.check_memory(wanted, &format!("to push everything out of the {cache}"))?;
        let mut found = Pairs {
            cycle: Cycle::over(pairs),
            pairs,
            stride,
            buffer: Buffer::of_zeroed_lines(bytes)?,
            intruder: Buffer::of_zeroed_lines(times * bytes)?,
            miss_ns: 0,
        };
        found.miss_ns = found.halfway();
        Ok(found)
    }

    fn read(&self, pair: u64) -> u64 {
        self.buffer.read((pair * PAIR) as usize * WORDS)
    }

    /// Nanoseconds halfway from a hit to a quick miss: an eighth of the set just
    /// used, against all of it pushed out. The least of several tries: what was
    /// never used before comes from farther away than what was pushed out once.
    fn halfway(&self) -> u32 {
        let few = Cycle::over((self.pairs / 8).max(1));
        let mut took = Vec::with_capacity((self.pairs / self.stride + 1) as usize);
        let mut part = |cycle: Cycle, part: f64| {
            took.clear();
            let (sample, places) = cycle.sparse(self.stride);
            sample.each_backward(places, |pair| self.read(pair), |ns| took.push(ns));
            quantile(&mut took, part)
        };
        let mut tries = [0; 4];
        for bar in &mut tries {
            self.push_out();
            let miss = part(self.cycle, 0.1);
            for _ in 0..3 {
                few.forward((self.pairs / 8).max(1), |pair| self.read(pair));
            }
            *bar = (part(few, 0.5) + miss) / 2;
        }
        *tries.iter().min().expect("four tries")
    }
}

impl Reference for Pairs {
    fn warm(&self) {
        sweep(&self.buffer);
        if self.stride == STRIDE {
            for _ in 0..2 {
                self.cycle.forward(self.pairs, |pair| {
                    self.read(pair) + self.buffer.read((pair * PAIR + 1) as usize * WORDS)
                });
            }
        }
    }

    fn push_out(&self) {
        sweep(&self.intruder);
    }

    fn walk(&self) -> f64 {
        let mut misses = 0;
        let count = |took| misses += u32::from(took >= self.miss_ns);
        let (sample, places) = self.cycle.sparse(self.stride);
        sample.each_backward(places, |pair| self.read(pair), count);
        f64::from(misses)
    }

    /// Where half of it is gone before anybody pushes, others hold the cache.
    /// Noise hardly changes a count, but what the cache keeps differs from time
    /// to time, either way.
    fn judgement(&self) -> Judgement {
        Judgement {
            unit: "misses",
            least_rise: 2.0,
            typical: 0.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint;
    use crate::int;

    fn environment() -> Environment {
        // SAFETY: asks for a constant of the system; 0 where it is not told.
        let l1d = unsafe { libc::sysconf(libc::_SC_LEVEL1_DCACHE_SIZE) };
        Environment {
            l1d_bytes: if l1d > 0 { l1d as u64 } else { 32 << 10 },
            memory_headroom_bytes: 1 << 30,
            ..Environment::default()
        }
    }

    struct Idle;

    impl Kernel for Idle {
        fn work(&mut self) -> Result<u64, Failure> {
            Ok(1)
        }
    }

    #[test]
    fn a_full_footprint_displaces_much_more_than_nothing() {
        let mut displacement = Displacement::prepare(&footprint::L1D, &environment()).unwrap();
        let reference = &displacement.reference;
        let typical = |push_out: bool| {
            let mut walks: Vec<f64> = (0..201)
                .map(|_| {
                    reference.warm();
                    if push_out {
                        reference.push_out();
                    }
                    reference.walk()
                })
                .collect();
            quantile(&mut walks, 0.25)
        };
        // Emulators have no caches to show, and some processors hide most of this
        // one: then the steps of the clock are as large as what is to be seen.
        let (warm, cold) = (typical(false), typical(true));
        if cold < 1.5 * warm {
            let reason = format!("a walk takes {warm} ns with L1d warm and {cold} ns with it cold");
            return crate::skip::skip("caches", &reason);
        }
        let mut full = (footprint::L1D.build)(&environment()).unwrap();
        let shares: Vec<Result<_, Failure>> = (0..11)
            .map(|_| {
                let nothing = displacement.share(&mut Idle)?;
                Ok((nothing, displacement.share(&mut *full)?))
            })
            .collect();
        let (mut nothing, mut all): (Vec<f64>, Vec<f64>) = shares
            .iter()
            .filter_map(|share| share.as_ref().ok())
            .copied()
            .unzip();
        assert!(nothing.len() >= 6, "most could be measured: {shares:?}");
        // Other work may spoil some, not most. How much of the whole rise a
        // refill from the next level makes depends on the processor: an EPYC
        // showed 0.25 in every try.
        let (most, least) = (quantile(&mut nothing, 0.75), quantile(&mut all, 0.25));
        assert!(least > most + 0.15, "{shares:?}");
    }

    #[test]
    fn what_cannot_be_walked_is_a_reason() {
        for (spec, part) in [
            (&int::SPEC, "no part of a cache"),
            (&l1i::SPEC, "cannot be walked"),
            (&footprint::L2_CAPACITY, "not known"),
        ] {
            let reason = Displacement::prepare(spec, &environment()).err().unwrap();
            assert!(reason.0.contains(part), "{}: {}", spec.resource, reason.0);
        }
        let mut env = environment();
        env.llc_bytes = 1 << 30;
        let reason = Displacement::prepare(&footprint::LLC_CAPACITY, &env)
            .err()
            .unwrap();
        assert!(reason.0.contains("more than half"), "{}", reason.0);
    }
}
