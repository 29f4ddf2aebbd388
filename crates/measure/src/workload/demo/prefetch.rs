//! `prefetcher`: strided streams, each load waiting for the one before.

use super::Batch;
use super::Demo;
use super::cache::filled;
use jostle_profile::resource::Resource;
use std::hint::black_box;

/// Fast only while prefetchers know all of its strides; no branch in it depends
/// on data.
pub const DEMO: Demo = Demo {
    name: "prefetcher",
    alias: Some("prefetch"),
    needs: Some(Resource::Prefetcher),
    about: "32 strided streams over eight times the second-level cache, load after load",
    unit: "loads",
    build: |context| {
        let mut streams = Streams::new(8 * context.l2_bytes);
        Ok(Box::new(move || streams.run()) as Batch)
    },
    ..Demo::USUAL
};

/// Streams, each read by an instruction of its own.
const STREAMS: usize = 32;
const WORDS_PER_LINE: usize = 8;
/// Loads of each stream in one batch.
const ROUNDS: usize = 192;

struct Streams {
    /// Zeros, which the next address waits for.
    words: Vec<u64>,
    /// Words of one stream.
    length: usize,
    at: [usize; STREAMS],
    read: u64,
}

impl Streams {
    fn new(bytes: usize) -> Streams {
        // Some lines more, or all streams would go through the same sets of a
        // cache at a time.
        let length = (bytes / STREAMS / 8).next_multiple_of(WORDS_PER_LINE) + 5 * WORDS_PER_LINE;
        Streams {
            words: filled(length * STREAMS, 0),
            length,
            at: [0; STREAMS],
            read: 0,
        }
    }

    /// Three, four or five lines on, or back to the start.
    #[inline(always)]
    fn step<const STREAM: usize>(&mut self) {
        let stride = (3 + STREAM % 3) * WORDS_PER_LINE;
        let mut at = self.at[STREAM] + stride + self.read as usize;
        if at >= self.length {
            at = 0;
        }
        self.at[STREAM] = at;
        self.read = self.words[STREAM * self.length + at];
    }

    fn run(&mut self) -> u64 {
        macro_rules! step {
            ($($stream:literal)*) => { $(self.step::<$stream>();)* };
        }
        for _ in 0..ROUNDS {
            step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            step!(16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
        black_box(self.read);
        (ROUNDS * STREAMS) as u64
    }
}
