//! How much of a structure a source really pushes out: evidence, where its
//! declared footprint is only a claim.
//!
//! A reference working set of exactly the structure's size is warmed, something
//! is done, and the set is walked. What is done is one of three: nothing that
//! takes a place of it ([`Look::There`]), pushing all of it out
//! ([`Look::Gone`]), or the source going through its footprint a few times
//! ([`Look::After`]). The share displaced is (after − there) / (gone − there),
//! where each stands for what many walks come to: their time or, for L2 and the
//! LLC, the reads that missed: there the clock can tell a miss from a hit, and
//! what a miss costs changes all the time with what others do.
//!
//! Doing nothing means running the source's own instructions for as long over a
//! few places of the set itself. A walk right after the set was warmed would
//! find branch predictors, micro-op caches and clocks of the core in another
//! state than after any source, and all of that would read as displaced.
//!
//! The set is warmed twice, each time in another order. In the same order every
//! time, structures that are not strict about age settle on a part of it: of the
//! pages that came first in that order, a TLB of 3072 entries (EPYC 9004) had
//! lost some 40 % before any source ran.
//!
//! The set is warmed in one direction and walked in the other. In the same
//! direction a cache that evicts what was used longest ago would lose, with
//! every line the walk brings back, just the line it needs next: any intruder
//! at all would seem to displace everything. Backwards, what is still there is
//! met first. Data and pages are walked in a sparse sample for the same reason:
//! what the walk itself brings back must not push out much of what it comes to
//! later.
//!
//! What others on the same core or cache displace is in all three alike. It
//! leaves less to displace, and more noise: the caller takes looks of all kinds
//! in turns, so that all see the same others, and keeps the thread on one CPU.

use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::cycle::Cycle;
use crate::fit;
use crate::l1i;
use crate::scatter::GROUP;
use crate::scatter::LINE;
use crate::scatter::Scattered;
use crate::spec::check_known;
use crate::tlb;
use crate::tlb::Pages;
use jostle_profile::resource::Resource;
use std::rc::Rc;

/// 64-bit words of a line.
const WORDS: usize = (LINE / 8) as usize;
/// Lines that some cores fetch together.
const PAIR: u64 = 2;
/// One place of so many is walked; odd, so that all sets get their turn.
const STRIDE: usize = 7;
/// The same for lines of L1d: few enough that the clock's steps show otherwise.
const LINES_STRIDE: usize = 3;
/// The same for code: what is fetched along with a visited block must not push
/// out much of what is visited later.
const BLOCKS_STRIDE: usize = 31;
/// How often the source goes through its footprint before it is looked at.
const PASSES: u64 = 4;
/// The same for code that is to push out all other, as often as the source.
const PASSES_OF_CODE: u64 = 8;
/// How often the reference set is gone through to warm it.
const WARM_PASSES: u32 = 2;
/// Visits of a few blocks before the walk over code.
const VISITS: u64 = 200;

/// What happens between warming the reference set and walking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing takes a place of the set.
    There,
    /// All of it is pushed out.
    Gone,
    /// The source goes through its footprint.
    After,
}

/// A reference working set of one resource, ready to be displaced.
pub struct Displacement {
    spec: &'static KernelSpec,
    reference: Box<dyn Reference>,
}

/// What is walked, and what pushes it out.
trait Reference {
    /// Brings all of it in.
    fn warm(&mut self);
    /// Runs the source's instructions `operations` times over places of the set.
    fn idle(&self, operations: u64);
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
    /// What many walks come to: the mean of those between these two shares of
    /// all.
    typical: [f64; 2],
}

impl Displacement {
    /// Builds the working set for `resource`.
    ///
    /// # Errors
    /// In words: the resource holds nothing that could be displaced, the
    /// structure's size is not known, or there is no memory.
    pub fn prepare(spec: &'static KernelSpec, env: &Environment) -> Result<Self, Failure> {
        let reference: Box<dyn Reference> = match spec.resource {
            Resource::L1i => code(env.l1i_bytes)?,
            Resource::L1d => lines(env.l1d_bytes)?,
            Resource::L2Capacity => pairs(env)?,
            Resource::LlcCapacity => Box::new(Pairs::new(env.llc_bytes, "last-level cache", env)?),
            Resource::Tlb => pages(tlb::entries(env)?, env.l1d_bytes)?,
            resource => {
                return Err(Failure::new(format!(
                    "{resource} holds no part of a cache that could be seen missing"
                )));
            }
        };
        Ok(Displacement { spec, reference })
    }

    /// What one walk comes to after `look`; `kernel` is the source of this
    /// resource, at the intensity it is asked about.
    ///
    /// # Errors
    /// When the kernel fails.
    pub fn look(&mut self, look: Look, kernel: &mut dyn Kernel) -> Result<f64, Failure> {
        let per_call = self.spec.operations_per_call * self.spec.units_per_operation;
        let calls = (PASSES * kernel.held()).div_ceil(per_call).max(1);
        self.reference.warm();
        match look {
            Look::There => self.reference.idle(calls * self.spec.operations_per_call),
            Look::Gone => self.reference.push_out(),
            Look::After => {
                for _ in 0..calls {
                    kernel.work()?;
                }
            }
        }
        Ok(self.reference.walk())
    }

    /// What a source displaced whose walks came to `after`, by those taken in
    /// turns with them: 0 for nothing, 1 for all; noise may carry it a little
    /// beyond either.
    ///
    /// # Errors
    /// When walks show hardly any difference after everything was pushed out.
    pub fn share(&self, there: &[f64], gone: &[f64], after: &[f64]) -> Result<f64, Failure> {
        let Judgement {
            unit,
            least_rise,
            typical,
        } = self.reference.judgement();
        let [there, gone, after] = [there, gone, after].map(|walks| mean_between(walks, typical));
        // Written so that what is no number is refused, too.
        if gone >= least_rise * there {
            return Ok((after - there) / (gone - there));
        }
        Err(Failure::new(format!(
            "what {} displaces cannot be seen here: a walk through its reference set comes to \
             {there:.0} {unit} when all was just used and to {gone:.0} {unit} when all was \
             pushed out",
            self.spec.resource
        )))
    }
}

/// The mean of those of `values` whose rank lies between two shares of all.
fn mean_between(values: &[f64], [from, to]: [f64; 2]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |share: f64| (sorted.len() as f64 * share) as usize;
    let middle = &sorted[rank(from)..rank(to).max(rank(from) + 1).min(sorted.len())];
    middle.iter().sum::<f64>() / middle.len() as f64
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
struct Timed<R> {
    cycle: Cycle,
    /// One place of so many is walked.
    stride: usize,
    /// What brings a place in, one after the other: a read of it, and of what is
    /// fetched along with it. Each returns 0.
    bring: Vec<Box<dyn Fn(u64) -> u64>>,
    /// Reads a place to see whether it is there; returns 0.
    read: R,
    idle: Box<dyn Fn(u64)>,
    push_out: Box<dyn Fn()>,
    /// Brings the core to the state it walks in, and takes no place of the set.
    settle: Box<dyn Fn()>,
}

impl<R: Fn(u64) -> u64> Reference for Timed<R> {
    fn warm(&mut self) {
        for _ in 0..WARM_PASSES {
            self.cycle.shuffle();
            for bring in &self.bring {
                self.cycle.forward(bring);
            }
        }
    }

    fn idle(&self, operations: u64) {
        (self.idle)(operations);
    }

    fn push_out(&self) {
        (self.push_out)();
    }

    fn walk(&self) -> f64 {
        (self.settle)();
        self.cycle.backward(self.stride, &self.read)
    }

    /// Most noise makes a walk longer, so the better half counts; of it the
    /// mean, since the steps of the clock are no smaller than what is looked
    /// for.
    fn judgement(&self) -> Judgement {
        Judgement {
            unit: "ns",
            least_rise: 1.1,
            typical: [0.05, 0.5],
        }
    }
}

/// Code: the last blocks of the chain of which the source runs the first.
fn code(l1i_bytes: u64) -> Result<Box<dyn Reference>, Failure> {
    let blocks = l1i_bytes / l1i::BLOCK;
    if blocks == 0 || 3 * blocks > l1i::SLOTS {
        return Err(Failure::new(format!(
            "an L1 instruction cache of {l1i_bytes} bytes cannot be walked: it takes three \
             times as much code, and there are {} bytes",
            l1i::SLOTS * l1i::BLOCK
        )));
    }
    let others = l1i::SLOTS - blocks;
    Ok(Box::new(Timed {
        cycle: Cycle::over(blocks),
        stride: BLOCKS_STRIDE,
        bring: vec![Box::new(move |block| {
            std::hint::black_box(l1i::visit(others + block));
            0
        })],
        read: move |block| {
            l1i::visit_middle(others + block);
            0
        },
        idle: Box::new(move |operations| {
            l1i::run_chain_from(others, 1, operations.max(1));
        }),
        // No more of the levels below than it takes.
        push_out: Box::new(move || {
            l1i::run_chain(2 * blocks, PASSES_OF_CODE);
        }),
        // What is predicted of a visit depends on what ran before.
        settle: Box::new(|| {
            for visit in 0..VISITS {
                std::hint::black_box(l1i::visit(l1i::SLOTS / 2 + visit % 4));
            }
        }),
    }))
}

/// Lines of L1d.
fn lines(l1d_bytes: u64) -> Result<Box<dyn Reference>, Failure> {
    let lines = l1d_bytes / LINE;
    check_known(lines, "L1 data cache")?;
    let buffer = Rc::new(Buffer::of_zeroed_lines(l1d_bytes)?);
    // Twice as much, as often: more would take places of the first-level TLB, too.
    let intruder = Buffer::of_zeroed_lines(2 * l1d_bytes)?;
    let (touched, brought) = (buffer.clone(), buffer.clone());
    Ok(Box::new(Timed {
        cycle: Cycle::over(lines),
        stride: LINES_STRIDE,
        bring: vec![Box::new(move |line| brought.read(line as usize * WORDS))],
        read: move |line| buffer.read(line as usize * WORDS),
        idle: Box::new(move |operations| idle(&touched, operations)),
        push_out: Box::new(move || {
            sweep(&intruder);
            sweep(&intruder);
        }),
        settle: Box::new(|| {}),
    }))
}

/// Lines of L2. One of each pair is walked, since a core that fetches both would
/// hide every other miss.
fn pairs(env: &Environment) -> Result<Box<dyn Reference>, Failure> {
    let bytes = env.l2_bytes;
    let pairs = bytes / LINE / PAIR;
    check_known(pairs, "L2 cache")?;
    let wanted = fit::needs(bytes) + 4 * bytes;
    env.check_memory(wanted, "to push everything out of the L2 cache")?;
    let buffer = Rc::new(fit::buffer(bytes, env.l1d_bytes)?);
    // Enough to push out what a cache that is not strict about age keeps.
    let intruder = Buffer::of_zeroed_lines(4 * bytes)?;
    let (touched, first, second) = (buffer.clone(), buffer.clone(), buffer.clone());
    Ok(Box::new(Timed {
        cycle: Cycle::over(pairs),
        stride: STRIDE,
        bring: vec![
            Box::new(move |pair| second.read((pair * PAIR + 1) as usize * WORDS)),
            Box::new(move |pair| first.read((pair * PAIR) as usize * WORDS)),
        ],
        read: move |pair| buffer.read((pair * PAIR) as usize * WORDS),
        idle: Box::new(move |operations| idle(&touched, operations)),
        push_out: Box::new(move || sweep(&intruder)),
        settle: Box::new(|| {}),
    }))
}

/// Pages, as many as the TLB has entries. What a miss costs depends on whether
/// the page tables' lines are in L1d: they are pushed out of it before each walk.
fn pages(entries: u64, l1d_bytes: u64) -> Result<Box<dyn Reference>, Failure> {
    let pages = Rc::new(Pages::mapped(entries as usize)?);
    let intruder = Pages::mapped(2 * entries as usize)?;
    let near = Buffer::of_zeroed_lines((4 * l1d_bytes).max(GROUP * LINE))?;
    let (touched, brought) = (pages.clone(), pages.clone());
    Ok(Box::new(Timed {
        cycle: Cycle::over(entries),
        stride: STRIDE,
        bring: vec![Box::new(move |page| brought.read(page as usize))],
        read: move |page| pages.read(page as usize),
        idle: Box::new(move |operations| {
            for _ in 0..operations {
                touched.read(0);
            }
        }),
        push_out: Box::new(move || {
            for page in 0..2 * intruder.count {
                intruder.read(page % intruder.count);
            }
        }),
        settle: Box::new(move || sweep(&near)),
    }))
}

/// Loads eight lines of `buffer` over and over, as a source does its own.
fn idle(buffer: &Buffer, operations: u64) {
    Scattered::default().touch(buffer, 1, (operations / GROUP).max(1));
}

/// Lines of L2 or the LLC, whose misses are counted. One of each pair is
/// walked, since a core that fetches both would hide every other miss.
struct Pairs {
    cycle: Cycle,
    /// One pair of so many is walked.
    stride: usize,
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
        let stride = STRIDE.max((pairs / SAMPLE) as usize | 1);
        // Enough to push out what a cache that is not strict about age keeps,
        // where that does not take seconds.
        let times = if stride > STRIDE { 2 } else { 4 };
        let wanted = (1 + times) * bytes;
        env.check_memory(wanted, &format!("to push everything out of the {cache}"))?;
        let mut found = Pairs {
            cycle: Cycle::over(pairs),
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
        let few = Cycle::over((self.cycle.len() / 8).max(1));
        let mut took = Vec::with_capacity(self.cycle.len() as usize);
        let mut part = |cycle: &Cycle, part: f64| {
            took.clear();
            cycle.each_backward(self.stride, |pair| self.read(pair), |ns| took.push(ns));
            quantile(&mut took, part)
        };
        let mut tries = [0; 4];
        for bar in &mut tries {
            self.push_out();
            let miss = part(&self.cycle, 0.1);
            for _ in 0..3 {
                few.forward(|pair| self.read(pair));
            }
            *bar = (part(&few, 0.5) + miss) / 2;
        }
        *tries.iter().min().expect("four tries")
    }
}

impl Reference for Pairs {
    fn warm(&mut self) {
        sweep(&self.buffer);
        if self.stride == STRIDE {
            for _ in 0..WARM_PASSES {
                self.cycle.shuffle();
                self.cycle.forward(|pair| {
                    self.read(pair) + self.buffer.read((pair * PAIR + 1) as usize * WORDS)
                });
            }
        }
    }

    fn idle(&self, operations: u64) {
        idle(&self.buffer, operations);
    }

    fn push_out(&self) {
        sweep(&self.intruder);
    }

    fn walk(&self) -> f64 {
        let mut misses = 0;
        let count = |took| misses += u32::from(took >= self.miss_ns);
        self.cycle
            .each_backward(self.stride, |pair| self.read(pair), count);
        f64::from(misses)
    }

    /// Where half of it is gone before anybody pushes, others hold the cache.
    /// They only ever take, so the better half counts.
    fn judgement(&self) -> Judgement {
        Judgement {
            unit: "misses",
            least_rise: 2.0,
            typical: [0.05, 0.5],
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
        let mut full = (footprint::L1D.build)(&environment()).unwrap();
        let [mut there, mut gone, mut nothing, mut all] = [const { Vec::new() }; 4];
        for _ in 0..500 {
            there.push(displacement.look(Look::There, &mut Idle).unwrap());
            nothing.push(displacement.look(Look::After, &mut Idle).unwrap());
            gone.push(displacement.look(Look::Gone, &mut Idle).unwrap());
            all.push(displacement.look(Look::After, &mut *full).unwrap());
        }
        // Emulators have no caches to show.
        let all = match displacement.share(&there, &gone, &all) {
            Ok(share) => share,
            Err(reason) => return crate::skip::skip("caches", &reason.0),
        };
        let nothing = displacement.share(&there, &gone, &nothing).unwrap();
        assert!(all > nothing + 0.5, "{nothing} {all}");
    }

    #[test]
    fn a_share_is_told_from_better_halves_or_refused() {
        let displacement = Displacement::prepare(&footprint::L1D, &environment()).unwrap();
        // Others make half of the walks much longer.
        let walks = |own: f64| -> Vec<f64> {
            (0..100)
                .map(|n| own + if n % 2 == 0 { 0.0 } else { 5000.0 })
                .collect()
        };
        let share = displacement.share(&walks(200.0), &walks(400.0), &walks(250.0));
        assert!((share.unwrap() - 0.25).abs() < 1e-9);
        let reason = displacement.share(&walks(200.0), &walks(210.0), &walks(205.0));
        assert!(reason.unwrap_err().0.contains("cannot be seen"));
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
