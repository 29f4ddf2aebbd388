//! Memory to press on: anonymous, aligned to huge pages, faulted in.

use crate::Failure;
use crate::mapping::Mapping;
use crate::mapping::PAGE;
use nix::sys::mman;
use std::io;

const HUGE_PAGE: usize = 2 << 20;
const WORDS_PER_LINE: usize = 64 / 8;

/// Memory to write to, aligned to 2 MiB and advised to use huge pages. Where the
/// kernel has none to give, ordinary pages stand in.
pub struct Buffer {
    mapping: Mapping,
    bytes: usize,
}

// SAFETY: the buffer owns its mapping and hands out addresses only through
// `&self`; reads of plain bytes may happen on any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Reserves `bytes` (rounded up to whole pages) without faulting them in.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn reserve(bytes: usize) -> Result<Self, Failure> {
        Buffer::advised(bytes, mman::MmapAdvise::MADV_HUGEPAGE)
    }

    fn advised(bytes: usize, advice: mman::MmapAdvise) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::new(format!("cannot map {bytes} bytes: {error}"));
        let rounded = bytes.max(1).checked_next_multiple_of(PAGE);
        let bytes = rounded.ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
        let protection = mman::ProtFlags::PROT_READ | mman::ProtFlags::PROT_WRITE;
        let mapping = Mapping::new(bytes, HUGE_PAGE, protection, advice).map_err(refused)?;
        Ok(Buffer { mapping, bytes })
    }

    /// A buffer with every page resident and written once.
    pub fn resident(bytes: usize) -> Result<Self, Failure> {
        let mut buffer = Buffer::reserve(bytes)?;
        buffer.fault_in(0, bytes);
        Ok(buffer)
    }

    /// A resident buffer with a zero at the beginning of every cache line: what
    /// dependent walks expect to read there.
    pub fn of_zeroed_lines(bytes: u64) -> Result<Self, Failure> {
        let mut buffer = Buffer::resident(bytes as usize)?;
        for word in (0..buffer.len() / 8).step_by(WORDS_PER_LINE) {
            buffer.write(word, 0);
        }
        Ok(buffer)
    }

    /// The first `bytes` (rounded up to whole pages) alone; the rest goes back to
    /// the system.
    pub fn shortened(mut self, bytes: usize) -> Self {
        self.give_back(bytes);
        self.bytes = self.bytes.min(bytes.max(1).next_multiple_of(PAGE));
        self
    }

    /// Only these pages of it, in this order, each at most once; the rest goes
    /// back to the system.
    ///
    /// # Errors
    /// When the kernel does not move a page.
    pub fn arranged(self, pages: &[usize]) -> Result<Self, Failure> {
        let bytes = pages.len() * PAGE;
        let mut arranged = Buffer::advised(bytes, mman::MmapAdvise::MADV_NOHUGEPAGE)?;
        let mut from = self.mapping;
        for (place, page) in pages.iter().enumerate() {
            let moved = arranged.mapping.take_page(place, &mut from, *page);
            moved.map_err(|error| Failure::new(format!("cannot move a page: {error}")))?;
        }
        Ok(arranged)
    }

    /// Writes one word into every page of `offset .. offset + bytes`, so that
    /// the pages exist and are not the shared zero page.
    pub fn fault_in(&mut self, offset: usize, bytes: usize) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        for at in (offset - offset % PAGE..end).step_by(PAGE) {
            // SAFETY: `at` is below `self.bytes`, page-aligned, and nobody else
            // reads or writes while `&mut self` is held.
            unsafe {
                self.mapping
                    .base
                    .add(at)
                    .cast::<u64>()
                    .write_volatile(at as u64 | 1)
            };
        }
    }

    /// Gives the pages from `offset` on back to the system.
    pub fn give_back(&mut self, offset: usize) {
        let offset = offset.next_multiple_of(PAGE);
        self.mapping.give_back(offset..self.bytes);
    }

    /// First byte; aligned to 2 MiB.
    pub fn as_ptr(&self) -> *const u8 {
        self.mapping.base
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping holds `bytes` bytes, zero until written, which
        // nobody else uses while `&mut self` is held.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base, self.bytes) }
    }

    /// First byte, to write through; aligned to 2 MiB.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.mapping.base
    }

    /// Length in bytes, a multiple of 4096.
    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// The 64-bit word at `word`, read so that no compiler can drop it.
    #[inline(always)]
    pub fn read(&self, word: usize) -> u64 {
        assert!(word < self.bytes / 8);
        // SAFETY: in bounds by the check above, aligned because the base is.
        unsafe { self.mapping.base.cast::<u64>().add(word).read_volatile() }
    }

    /// Removes the line of the 64-bit word at `word` from all caches; false where the
    /// architecture has no instruction for that which a program may use.
    #[inline(always)]
    pub fn flush(&self, word: usize) -> bool {
        assert!(word < self.bytes / 8);
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: in bounds by the check above; what the memory holds stays the same.
            unsafe {
                let at = self.mapping.base.cast::<u64>().add(word);
                std::arch::x86_64::_mm_clflush(at.cast());
                std::arch::x86_64::_mm_mfence();
            }
            true
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Sets the 64-bit word at `word`.
    pub fn write(&mut self, word: usize, value: u64) {
        assert!(word < self.bytes / 8);
        // SAFETY: in bounds by the check above, aligned because the base is.
        unsafe { self.mapping.base.cast::<u64>().add(word).write(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_resident_and_given_back() {
        let mut buffer = Buffer::resident(3 * HUGE_PAGE + 1).unwrap();
        assert_eq!(buffer.as_ptr().align_offset(HUGE_PAGE), 0);
        assert_eq!(buffer.len() % PAGE, 0);
        assert_eq!(buffer.read(PAGE / 8), PAGE as u64 | 1);
        buffer.give_back(PAGE);
        assert_eq!(buffer.read(0), 1, "what lies before the offset stays");
        assert_eq!(buffer.read(PAGE / 8), 0, "what was given back is zero");
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        for bytes in [usize::MAX, usize::MAX - PAGE, usize::MAX - HUGE_PAGE] {
            let Failure(reason) = Buffer::reserve(bytes).err().unwrap();
            assert!(reason.contains("cannot map"), "{reason}");
        }
    }

    #[test]
    fn pages_are_taken_out_and_put_in_order() {
        let mut pool = Buffer::resident(8 * PAGE).unwrap();
        for page in 0..8 {
            pool.write(page * PAGE / 8, page as u64);
        }
        let arranged = pool.arranged(&[5, 0, 7]).unwrap();
        assert_eq!(arranged.len(), 3 * PAGE);
        let first = |page: usize| arranged.read(page * PAGE / 8);
        assert_eq!([first(0), first(1), first(2)], [5, 0, 7]);
        let short = arranged.shortened(PAGE);
        assert_eq!((short.len(), short.read(0)), (PAGE, 5));
    }
}
