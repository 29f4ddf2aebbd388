//! `prefetcher`: strided streams that break as soon as they are believed.

use crate::Buffer;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use crate::weyl::GOLDEN;
use jostle_profile::resource::Resource;

const LINE: usize = 64;
const PAGE: usize = 4096;
const WORDS_PER_LINE: usize = LINE / 8;
/// Streams start within this many lines of a page's end and run towards the
/// other end, so that none leaves its page.
const MARGIN: u64 = 16;
/// Longest stride, lines: the last of five accesses still lies in the page.
const LONGEST: u64 = 12;

pub const SPEC: KernelSpec = KernelSpec {
    resource: Resource::Prefetcher,
    waiting: Waiting::Spin,
    operation: "broken stream",
    units_per_operation: 1,
    operations_per_call: 512,
    pause_ns: 0,
    spans_cpus: false,
    doc: "Reads short strided streams: three to five loads, from a random page of a small \
          buffer, one to twelve lines apart, upwards or downwards, never leaving the page. \
          Just as a prefetcher has seen enough to follow, the stream breaks and the next \
          starts elsewhere with another stride. Which of sixteen copies of the code reads \
          the next stream depends on the data read, and its length is random: no branch \
          predictor knows either. That, and not a cache, sets its speed: at 3.9 GHz some \
          60 million streams per second, the same for any buffer from a third of L1d to a \
          fifth of L2, and four times as many with one copy and one length. The buffer is \
          four times the L1 data cache, so that most loads miss L1d, where prefetchers \
          listen, and hit L2, of whose bandwidth it uses less than a fifth. The rate is \
          held at x % of the peak measured at the start. On an SMT sibling it takes \
          entries of prefetchers and predictors from the target at every moment, and lines \
          of L1d: an effect can come from either. In slices on the same CPU it can cost no \
          more than the refill of L1d and learning again, after every slice. It does not \
          show how much a target gains from prefetching.",
    accesses: &[],
    build: |env| {
        if env.l1d_bytes == 0 {
            return Err(Failure::new(
                "the size of the L1 data cache is not known on this machine",
            ));
        }
        Ok(Box::new(Prefetcher::new(4 * env.l1d_bytes as usize)?))
    },
};

/// One short run of accesses inside a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    /// Word the first access reads.
    first: usize,
    /// Words from one access to the next.
    stride: isize,
    accesses: usize,
}

impl Stream {
    /// The stream that the bits of `random` describe, in a buffer of `pages`.
    #[inline(always)]
    fn draw(random: u64, pages: u64) -> Stream {
        let page = ((random >> 32) * pages) >> 32;
        let near = random % MARGIN;
        let lines = 1 + ((((random >> 8) & 0xff) * LONGEST) >> 8);
        let (line, direction) = match (random >> 4) & 1 {
            0 => (near, 1),
            _ => ((PAGE / LINE) as u64 - 1 - near, -1),
        };
        Stream {
            first: page as usize * (PAGE / 8) + line as usize * WORDS_PER_LINE,
            stride: direction * (lines as usize * WORDS_PER_LINE) as isize,
            accesses: 3 + ((((random >> 16) & 0xff) * 3) >> 8) as usize,
        }
    }
}

/// One of several copies of the same code. Prefetchers that go by the address
/// of the load keep a history for each copy, predictors for each branch.
#[inline(never)]
fn follow<const SITE: u64>(buffer: &Buffer, stream: Stream) -> u64 {
    let mut word = stream.first;
    let mut folded = SITE;
    for _ in 0..stream.accesses {
        folded ^= buffer.read(word);
        word = word.wrapping_add_signed(stream.stride);
    }
    folded
}

const SITES: [fn(&Buffer, Stream) -> u64; 16] = [
    follow::<0>,
    follow::<1>,
    follow::<2>,
    follow::<3>,
    follow::<4>,
    follow::<5>,
    follow::<6>,
    follow::<7>,
    follow::<8>,
    follow::<9>,
    follow::<10>,
    follow::<11>,
    follow::<12>,
    follow::<13>,
    follow::<14>,
    follow::<15>,
];

struct Prefetcher {
    buffer: Buffer,
    pages: u64,
    random: u64,
    /// What the streams so far read, folded: picks the site of the next.
    read: u64,
}

impl Prefetcher {
    /// A buffer of `bytes`, whole pages, with a random word in every line.
    fn new(bytes: usize) -> Result<Self, Failure> {
        let mut buffer = Buffer::resident(bytes)?;
        let mut random = GOLDEN;
        for line in 0..buffer.len() / LINE {
            random = next(random);
            buffer.write(line * WORDS_PER_LINE, random);
        }
        Ok(Prefetcher {
            pages: (buffer.len() / PAGE) as u64,
            buffer,
            random,
            read: 0,
        })
    }

    #[inline(always)]
    fn stream(&mut self) {
        self.random = next(self.random);
        let stream = Stream::draw(self.random, self.pages);
        // The indirect call and the end of the loop behind it depend on data
        // that no predictor can know: each stream ends in wrong guesses.
        let site = SITES[(self.read >> 60) as usize];
        self.read = self.read.rotate_left(7) ^ site(&self.buffer, stream);
    }
}

impl Kernel for Prefetcher {
    fn work(&mut self) -> Result<u64, Failure> {
        for _ in 0..SPEC.operations_per_call {
            self.stream();
        }
        Ok(SPEC.operations_per_call)
    }
}

/// The next of a sequence that looks random and has a period of 2⁶⁴ − 1
/// (Marsaglia, Xorshift RNGs, 2003: shifts 13, 7, 17).
#[inline(always)]
fn next(mut random: u64) -> u64 {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    random
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn streams_stay_in_their_page_and_go_every_way() {
        let pages = 48u64;
        let mut random = GOLDEN;
        let mut starts = BTreeSet::new();
        let mut strides = BTreeSet::new();
        let mut lengths = BTreeSet::new();
        let mut repeats = 0;
        let mut last = None;
        for _ in 0..100_000 {
            random = next(random);
            let stream = Stream::draw(random, pages);
            let end = stream.first as isize + stream.stride * (stream.accesses as isize - 1);
            assert_eq!(stream.first / 512, end as usize / 512, "{stream:?}");
            assert!(end >= 0 && (end as u64) < pages * 512, "{stream:?}");
            starts.insert(stream.first / 512);
            strides.insert(stream.stride / WORDS_PER_LINE as isize);
            lengths.insert(stream.accesses);
            repeats += usize::from(last == Some(stream.stride));
            last = Some(stream.stride);
        }
        assert_eq!(starts.len() as u64, pages, "every page is a start");
        let every = (-12..=12).filter(|stride| *stride != 0).collect();
        assert_eq!(strides, every);
        assert_eq!(lengths, BTreeSet::from([3, 4, 5]));
        assert!(repeats < 6_000, "{repeats} of 100000 kept their stride");
    }

    #[test]
    fn sites_read_what_the_stream_says_and_are_all_used() {
        let mut prefetcher = Prefetcher::new(4 * PAGE).unwrap();
        let mut used = BTreeSet::new();
        for _ in 0..1000 {
            let site = (prefetcher.read >> 60) as usize;
            let read = prefetcher.read;
            prefetcher.stream();
            let stream = Stream::draw(prefetcher.random, 4);
            let expected = (0..stream.accesses as isize).fold(site as u64, |folded, access| {
                let word = stream.first as isize + access * stream.stride;
                folded ^ prefetcher.buffer.read(word as usize)
            });
            assert_eq!(prefetcher.read, read.rotate_left(7) ^ expected);
            used.insert(site);
        }
        assert_eq!(used.len(), SITES.len());
        assert_eq!(prefetcher.work().unwrap(), SPEC.operations_per_call);
    }

    #[test]
    fn an_unknown_cache_is_a_reason() {
        let reason = (SPEC.build)(&crate::Environment::default())
            .err()
            .unwrap()
            .0;
        assert!(reason.contains("L1 data cache is not known"), "{reason}");
    }
}
