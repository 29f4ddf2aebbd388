//! `tlb`: filling the second-level data TLB.

use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::cycle::Cycle;
use crate::mapping::Mapping;
use crate::scatter::LINE;
use crate::weyl::Weyl;
use jostle_profile::resource::Resource;
use nix::sys::mman;
use nix::unistd::SysconfVar;
use nix::unistd::sysconf;

pub const SPEC: KernelSpec = KernelSpec {
    operation: "load from a page",
    operations_per_call: 4096,
    doc: "Loads one line in each of x % as many base pages as the second-level data TLB has \
          entries, in golden-ratio order. All pages are the one zero page of the system, so it \
          takes entries and hardly any cache: 4 KiB of data and 8 bytes of page table per page. \
          The number of entries is what CPUID says, else it is measured at the start by the knee \
          of the access time. Where that TLB is shared with code, the target's code pages go \
          too. On an SMT sibling it takes entries and page walkers at every moment; in slices \
          on the same CPU the target pays a walk for each entry it gets back after every slice. \
          On an EPYC 9004 with 3072 entries, x % displaced x ± 3 % of as many. \
          It says nothing about the TLB entries of huge pages where those are kept apart.",
    ..KernelSpec::of(Resource::Tlb, build)
};

/// Pages that can be read and are all zeros: one page of memory behind many
/// addresses, so that touching them takes entries of the TLB but hardly a line
/// of any cache beside those of the page tables.
///
/// They begin at a multiple of their own length, rounded up to a power of two:
/// whatever bits of an address a TLB picks its sets by, all sets get alike.
pub struct Pages {
    mapping: Mapping,
    page_bytes: usize,
    /// Bits by which the number of a page is shifted to its place.
    shift: u32,
    /// How many there are.
    pub count: usize,
}

/// Bits of the place that spread pages share a line of the page tables by: eight
/// entries of 8 bytes.
const LINE_OF_TABLE: u32 = 3;

impl Pages {
    /// Maps `count` base pages next to each other and reads each once.
    pub fn mapped(count: usize) -> Result<Self, Failure> {
        Pages::placed(count, 0)
    }

    /// The same, every page with a line of the page tables to itself, as pages
    /// of large sparse data have: an entry costs more to get back.
    pub fn spread(count: usize) -> Result<Self, Failure> {
        Pages::placed(count, LINE_OF_TABLE)
    }

    fn placed(count: usize, shift: u32) -> Result<Self, Failure> {
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page_bytes = page_bytes.map_or(4096, |bytes| bytes as usize);
        let count = count.max(1);
        let alignment = ((count << shift) * page_bytes).next_power_of_two();
        let no_huge = mman::MmapAdvise::MADV_NOHUGEPAGE;
        let mapping = Mapping::new(alignment, alignment, mman::ProtFlags::PROT_READ, no_huge)
            .map_err(|error| Failure::new(format!("cannot map {count} pages: {error}")))?;
        let pages = Pages {
            mapping,
            page_bytes,
            shift,
            count,
        };
        for page in 0..count {
            pages.read(page);
        }
        Ok(pages)
    }

    /// Zero, read from a page; neighbouring pages are read at different lines.
    #[inline(always)]
    pub fn read(&self, page: usize) -> u64 {
        assert!(page < self.count);
        // Sets of a TLB go by the low bits of the place: those that the shift
        // leaves take others of the number.
        let place = (page << self.shift) + ((page >> 7) & ((1 << self.shift) - 1));
        let line = page & (self.page_bytes / LINE as usize - 1);
        let at = place * self.page_bytes + line * LINE as usize;
        // SAFETY: `place` is below `count << shift`, which is mapped; aligned to a
        // line.
        unsafe { self.mapping.base.add(at).cast::<u64>().read_volatile() }
    }
}

/// What the number of entries is rounded to, as such TLBs are built.
const UNIT: f64 = 512.0;
/// Fewest pages tried: more than any first-level TLB has entries, fewer than
/// any second-level one.
const FEWEST: u64 = 256;
/// Numbers of pages tried, each ⁴√2 times the one before: up to 16384.
const LEVELS: u32 = 25;
/// Passes over each number of pages, of which the fastest counts.
const ROUNDS: u32 = 8;

/// A rise of the time of a walk over ever more pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    pub entries: u64,
    /// Nanoseconds per page before and behind it.
    pub before_ns: f64,
    pub after_ns: f64,
}

/// [`measure_rise`], the entries alone.
///
/// # Errors
/// As there.
pub fn measure_entries() -> Result<u64, Failure> {
    Ok(measure_rise()?.entries)
}

/// Entries of the second-level data TLB for base pages that one really gets, by
/// the knee of the time of a dependent walk over ever more pages: where it has
/// risen by 35 % of all it will rise, to the nearest 512. A neighbour on the
/// same core that nobody here sees takes its part and moves the knee down.
/// Takes some 40 ms, longer on a busy CPU.
///
/// # Errors
/// In words, when the time rises too little to show a knee.
pub fn measure_rise() -> Result<Rise, Failure> {
    let counts: Vec<u64> = levels().collect();
    let pages = Pages::mapped(*counts.last().expect("levels") as usize)?;
    let mut times = vec![f64::INFINITY; counts.len()];
    let cycles: Vec<Cycle> = counts.iter().map(|count| Cycle::over(*count)).collect();
    for _ in 0..ROUNDS {
        for ((count, cycle), time) in counts.iter().zip(&cycles).zip(&mut times) {
            let read = |page| pages.read(page as usize);
            cycle.forward(read);
            *time = time.min(cycle.forward(read) / *count as f64);
        }
    }
    knee(&counts, &times)
}

/// Entries as `env` knows them, or else as they are measured.
pub fn entries(env: &Environment) -> Result<u64, Failure> {
    match env.tlb_entries {
        0 => measure_entries(),
        entries => Ok(entries),
    }
}

/// The numbers of pages tried.
fn levels() -> impl Iterator<Item = u64> {
    (0..LEVELS).map(|level| (FEWEST as f64 * (f64::from(level) / 4.0).exp2()) as u64)
}

/// Where `times` have risen by 35 % from the least pages to the most.
fn knee(counts: &[u64], times: &[f64]) -> Result<Rise, Failure> {
    let ends = times.len() / 6;
    let low = median(&times[..=ends]);
    let high = median(&times[times.len() - 1 - ends..]);
    if high < 1.2 * low {
        return Err(Failure::new(format!(
            "the number of TLB entries is not known: walking {} pages takes {low:.1} ns a page \
             and {} pages {high:.1} ns, too little more to show a knee",
            counts[0],
            counts[counts.len() - 1]
        )));
    }
    let bar = low + 0.35 * (high - low);
    // From above: noise at few pages cannot hide the knee.
    let below = (0..counts.len() - 1 - ends)
        .rfind(|&level| times[level] <= bar)
        .unwrap_or(0);
    let rise = ((bar - times[below]) / (times[below + 1] - times[below])).clamp(0.0, 1.0);
    let entries = counts[below] as f64 + rise * (counts[below + 1] - counts[below]) as f64;
    Ok(Rise {
        entries: ((entries / UNIT).round().max(1.0) * UNIT) as u64,
        before_ns: low,
        after_ns: high,
    })
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

struct Tlb {
    pages: Pages,
    wanted: u64,
    order: Weyl,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let entries = env.part(entries(env)?);
    Ok(Box::new(Tlb {
        pages: Pages::mapped(entries as usize)?,
        wanted: entries.max(1),
        order: Weyl::default(),
    }))
}

impl Kernel for Tlb {
    fn set_intensity(&mut self, percent: f64) {
        let full = self.pages.count as u64;
        self.wanted = ((full as f64 * percent / 100.0).round() as u64).clamp(1, full);
    }

    fn work(&mut self) -> Result<u64, Failure> {
        let mut order = self.order;
        for _ in 0..SPEC.operations_per_call {
            self.pages.read(order.next_below(self.wanted) as usize);
        }
        self.order = order;
        Ok(SPEC.operations_per_call)
    }

    fn held(&self) -> u64 {
        self.wanted
    }

    fn holds_at_most(&self) -> u64 {
        self.pages.count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprint_follows_intensity() {
        let env = Environment {
            tlb_entries: 512,
            ..Environment::default()
        };
        let mut kernel = build(&env).unwrap();
        for (percent, entries) in [(100.0, 512), (25.0, 128), (0.0, 1)] {
            kernel.set_intensity(percent);
            assert_eq!(kernel.held(), entries);
            assert_eq!(kernel.work().unwrap(), SPEC.operations_per_call);
        }
    }

    #[test]
    fn a_page_of_memory_stands_behind_all_pages() {
        for pages in [Pages::mapped(3000).unwrap(), Pages::spread(3000).unwrap()] {
            assert!((0..3000).all(|page| pages.read(page) == 0));
        }
    }

    #[test]
    fn the_knee_is_found_or_a_reason_given() {
        let counts: Vec<u64> = levels().collect();
        // Misses begin at 0.8 of the entries and are the rule from 1.6 on.
        let walks = |entries: f64| -> Vec<f64> {
            let misses = |count: u64| ((count as f64 / entries - 0.8) / 0.8).clamp(0.0, 1.0);
            counts
                .iter()
                .map(|&count| 8.5 + 7.0 * misses(count))
                .collect()
        };
        for entries in [512, 1024, 1536, 2048, 3072, 4096] {
            let mut times = walks(entries as f64);
            let near = entries - entries / 8..=entries + entries / 8;
            let found = knee(&counts, &times).unwrap().entries;
            assert!(near.contains(&found), "{found} for {entries}");
            times[1] = 40.0;
            times[4] = 40.0;
            times[23] = 40.0;
            let noisy = knee(&counts, &times).unwrap().entries;
            assert_eq!(noisy, found, "with noise, {entries}");
        }
        let reason = knee(&counts, &[8.5; LEVELS as usize]).err().unwrap().0;
        assert!(reason.contains("knee"), "{reason}");
    }

    #[test]
    fn measuring_gives_a_plausible_number_or_a_reason() {
        match measure_entries() {
            Ok(entries) => assert!((512..=16384).contains(&entries), "{entries}"),
            Err(Failure(reason)) => assert!(reason.contains("knee"), "{reason}"),
        }
    }
}
