//! Going through a buffer from one end to the other, over and over.

use crate::Buffer;
use crate::moves::BLOCK;
use crate::moves::Move;

/// Where a buffer is read or written next.
pub(crate) struct Sweep {
    at: usize,
    /// Blocks from what is read to what is written, where both are done.
    apart: usize,
    kernel: Move,
}

impl Sweep {
    /// From the beginning. What is copied goes `apart` blocks further on; 0 for all else.
    pub(crate) fn new(kernel: Move, apart: usize) -> Self {
        Sweep {
            at: 0,
            apart,
            kernel,
        }
    }

    /// Moves the next `count` of the first `blocks` blocks of 512 bytes of `buffer`; after the
    /// last one comes the first.
    ///
    /// # Panics
    /// When the buffer is shorter, `blocks` is zero, or copies would overlap.
    pub(crate) fn over(&mut self, buffer: &mut Buffer, blocks: usize, count: usize) {
        assert!(blocks > 0 && self.apart + blocks <= buffer.len() / BLOCK);
        assert!(self.apart == 0 || self.apart >= blocks);
        let mut left = count;
        while left > 0 {
            if self.at >= blocks {
                self.at = 0;
            }
            let most = left.min(blocks - self.at);
            let base = buffer.as_mut_ptr();
            // SAFETY: `at + most <= blocks`, and `apart + blocks` is at most what the aligned
            // buffer has, as was checked; `most > 0`. What is copied does not overlap, as was
            // checked too. The variant was picked for this CPU.
            let folded = unsafe {
                (self.kernel)(
                    base.add(self.at * BLOCK),
                    base.add((self.apart + self.at) * BLOCK),
                    most,
                )
            };
            std::hint::black_box(folded);
            self.at += most;
            left -= most;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves;

    #[test]
    fn it_goes_around_and_follows_a_change_of_length() {
        let mut buffer = Buffer::resident(16 * BLOCK).unwrap();
        let mut sweep = Sweep::new(moves::load_twin, 0);
        sweep.over(&mut buffer, 16, 10);
        assert_eq!(sweep.at, 10);
        sweep.over(&mut buffer, 16, 10);
        assert_eq!(sweep.at, 4);
        sweep.over(&mut buffer, 3, 1);
        assert_eq!(sweep.at, 1, "beyond the end is the beginning");
        sweep.over(&mut buffer, 3, 9);
        assert_eq!(sweep.at, 1);
    }

    #[test]
    #[should_panic(expected = "blocks")]
    fn more_than_there_is_is_refused() {
        let mut buffer = Buffer::resident(2 * BLOCK).unwrap();
        let blocks = buffer.len() / BLOCK;
        Sweep::new(moves::load_twin, 1).over(&mut buffer, blocks, 1);
    }
}
