//! Reading a buffer from one end to the other, over and over.

use crate::Access;
use crate::Buffer;
use crate::moves;
use crate::moves::BLOCK;
use crate::moves::Move;

/// Where a buffer is read next.
pub(crate) struct Sweep {
    at: usize,
    load: Move,
}

impl Sweep {
    /// From the beginning, with the widest loads this CPU has, or those that leave a CPU as
    /// they found it if it is `time_shared`.
    pub(crate) fn new(time_shared: bool) -> Self {
        let (_, load) = moves::widest(Access::Load, time_shared);
        Sweep { at: 0, load }
    }

    /// Reads the next `count` of the first `blocks` blocks of 512 bytes of `buffer`; after the
    /// last one comes the first.
    ///
    /// # Panics
    /// When the buffer is shorter, or `blocks` is zero.
    pub(crate) fn over(&mut self, buffer: &Buffer, blocks: usize, count: usize) {
        assert!(blocks > 0 && blocks <= buffer.len() / BLOCK);
        let mut left = count;
        while left > 0 {
            if self.at >= blocks {
                self.at = 0;
            }
            let most = left.min(blocks - self.at);
            let base = buffer.as_ptr();
            // SAFETY: `at + most <= blocks`, which the buffer has, as was checked; a buffer is
            // aligned; `most > 0`. A load writes nothing: no second address is used. The
            // variant was picked for this CPU.
            let folded = unsafe {
                let from = base.add(self.at * BLOCK);
                (self.load)(from, std::ptr::null_mut(), most)
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

    #[test]
    fn it_goes_around_and_follows_a_change_of_length() {
        let buffer = Buffer::resident(16 * BLOCK).unwrap();
        let mut sweep = Sweep {
            at: 0,
            load: moves::load_twin,
        };
        sweep.over(&buffer, 16, 10);
        assert_eq!(sweep.at, 10);
        sweep.over(&buffer, 16, 10);
        assert_eq!(sweep.at, 4);
        sweep.over(&buffer, 3, 1);
        assert_eq!(sweep.at, 1, "beyond the end is the beginning");
        sweep.over(&buffer, 3, 9);
        assert_eq!(sweep.at, 1);
    }

    #[test]
    #[should_panic(expected = "blocks")]
    fn more_than_there_is_is_refused() {
        let buffer = Buffer::resident(2 * BLOCK).unwrap();
        Sweep::new(false).over(&buffer, buffer.len() / BLOCK + 1, 1);
    }
}
