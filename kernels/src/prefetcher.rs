//! `prefetcher`: strided streams that break as soon as they are believed.

use crate::Buffer;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use crate::spec::check_known;
use crate::weyl::GOLDEN;
use crate::weyl::xorshift as next;
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
    operation: "broken stream",
    operations_per_call: 512,
    doc: "Reads short strided streams: three to five loads, from a random page of a small \
          buffer, one to twelve lines apart, upwards or downwards, never leaving the page. \
          Just as a prefetcher has seen enough to follow, the stream breaks and the next \
          starts elsewhere with another stride. Sixteen copies of the code, each with a \
          length of its own, read the streams in turn, so that every branch is easy to \
          predict; where a stream lies depends on the data that the last one read, by \
          arithmetic alone. That latency sets its speed: some 100 million streams per second \
          on an EPYC 9004. The buffer is twice the L1 data cache, so that half of the loads \
          miss L1d, where prefetchers listen, and hit L2, of whose bandwidth it takes a part. \
          The rate is held at x % of the peak measured at the start. On an SMT sibling it \
          takes entries of prefetchers from the target at every moment, and lines of L1d: an \
          effect can come from either. In slices on the same CPU it can cost no more than \
          the refill of L1d and learning again, after every slice: in slices of 0.25 ms a \
          program of 32 strided streams lost nothing that could be seen (at most 0.3 %), nor \
          did one that needs branch prediction alone (at most 0.4 %). It does not show how \
          much a target gains from prefetching.",
    ..KernelSpec::of(Resource::Prefetcher, |env| {
        check_known(env.l1d_bytes, "L1 data cache")?;
        Ok(Box::new(Prefetcher::new(2 * env.l1d_bytes as usize)?))
    })
};

/// One short run of accesses inside a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    /// Word the first access reads.
    first: usize,
    /// Words from one access to the next.
    stride: isize,
}

impl Stream {
    /// The stream that the bits of `random` describe, in a buffer of `pages`:
    /// by arithmetic alone, so that no branch depends on them.
    #[inline(always)]
    fn draw(random: u64, pages: u64) -> Stream {
        const LAST: u64 = (PAGE / LINE) as u64 - 1;
        let page = ((random >> 32) * pages) >> 32;
        let lines = 1 + ((((random >> 8) & 0xff) * LONGEST) >> 8);
        // All ones for a stream that runs down from the end of its page.
        let down = ((random >> 4) & 1).wrapping_neg();
        let line = (random % MARGIN) ^ (LAST & down);
        let words = (lines * WORDS_PER_LINE as u64) as i64;
        Stream {
            first: page as usize * (PAGE / 8) + line as usize * WORDS_PER_LINE,
            stride: ((words ^ down as i64) - down as i64) as isize,
        }
    }
}

/// Loads of the stream that `site` reads.
const fn accesses(site: u64) -> usize {
    3 + (site % 3) as usize
}

/// One of several copies of the same code: prefetchers that go by the address
/// of the load keep a history for each. Returns what was read, folded.
#[inline(never)]
fn follow<const SITE: u64>(buffer: &Buffer, stream: Stream) -> u64 {
    let mut word = stream.first;
    let mut folded = SITE;
    for _ in 0..accesses(SITE) {
        folded ^= buffer.read(word);
        word = word.wrapping_add_signed(stream.stride);
    }
    folded
}

/// Copies of the code, read in this order over and over.
const SITES: u64 = 16;

struct Prefetcher {
    buffer: Buffer,
    pages: u64,
    random: u64,
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
        })
    }

    /// Where the next stream lies depends on what this one reads: no core can
    /// begin it early.
    #[inline(always)]
    fn stream<const SITE: u64>(&mut self) {
        let stream = Stream::draw(self.random, self.pages);
        self.random = next(self.random) ^ follow::<SITE>(&self.buffer, stream);
    }

    fn round(&mut self) {
        self.stream::<0>();
        self.stream::<1>();
        self.stream::<2>();
        self.stream::<3>();
        self.stream::<4>();
        self.stream::<5>();
        self.stream::<6>();
        self.stream::<7>();
        self.stream::<8>();
        self.stream::<9>();
        self.stream::<10>();
        self.stream::<11>();
        self.stream::<12>();
        self.stream::<13>();
        self.stream::<14>();
        self.stream::<15>();
    }
}

impl Kernel for Prefetcher {
    fn work(&mut self) -> Result<u64, Failure> {
        for _ in 0..SPEC.operations_per_call / SITES {
            self.round();
        }
        Ok(SPEC.operations_per_call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn streams_stay_in_their_page_and_go_every_way() {
        let pages = 48u64;
        let longest = (0..SITES).map(accesses).max().unwrap() as isize;
        let mut random = GOLDEN;
        let mut starts = BTreeSet::new();
        let mut strides = BTreeSet::new();
        let mut repeats = 0;
        let mut last = None;
        for _ in 0..100_000 {
            random = next(random);
            let stream = Stream::draw(random, pages);
            let end = stream.first as isize + stream.stride * (longest - 1);
            assert_eq!(stream.first / 512, end as usize / 512, "{stream:?}");
            assert!(end >= 0 && (end as u64) < pages * 512, "{stream:?}");
            starts.insert(stream.first / 512);
            strides.insert(stream.stride / WORDS_PER_LINE as isize);
            repeats += usize::from(last == Some(stream.stride));
            last = Some(stream.stride);
        }
        assert_eq!(starts.len() as u64, pages, "every page is a start");
        let every = (-12..=12).filter(|stride| *stride != 0).collect();
        assert_eq!(strides, every);
        assert!(repeats < 6_000, "{repeats} of 100000 kept their stride");
    }

    #[test]
    fn sites_read_what_their_streams_say_in_turn() {
        let mut prefetcher = Prefetcher::new(4 * PAGE).unwrap();
        let mut random = prefetcher.random;
        for site in (0..SITES).chain(0..SITES) {
            if site == 0 {
                prefetcher.round();
            }
            let stream = Stream::draw(random, 4);
            let read = (0..accesses(site) as isize).fold(site, |folded, access| {
                let word = stream.first as isize + access * stream.stride;
                folded ^ prefetcher.buffer.read(word as usize)
            });
            random = next(random) ^ read;
        }
        assert_eq!(prefetcher.random, random);
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
