//! Memory to press on: anonymous, aligned to huge pages, faulted in.

use crate::Failure;

const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// An anonymous mapping, aligned to 2 MiB and advised to use huge pages.
/// Where the kernel has none to give, ordinary pages stand in.
pub struct Buffer {
    mapping: *mut u8,
    mapping_bytes: usize,
    base: *mut u8,
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
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let mapping_bytes = bytes + HUGE_PAGE;
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses
        // aliases nothing.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapping_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(Failure::new(format!(
                "cannot map {bytes} bytes: {}",
                std::io::Error::last_os_error()
            )));
        }
        let mapping = mapping.cast::<u8>();
        let base = mapping.wrapping_add(mapping.align_offset(HUGE_PAGE));
        // SAFETY: the range lies inside the mapping made above; the advice may
        // be refused, which leaves ordinary pages.
        unsafe {
            libc::madvise(base.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        Ok(Buffer {
            mapping,
            mapping_bytes,
            base,
            bytes,
        })
    }

    /// A buffer with every page resident and written once.
    ///
    /// # Errors
    /// As [`Buffer::reserve`].
    pub fn resident(bytes: usize) -> Result<Self, Failure> {
        let mut buffer = Buffer::reserve(bytes)?;
        buffer.fault_in(0, bytes);
        Ok(buffer)
    }

    /// Writes one word into every page of `offset .. offset + bytes`, so that
    /// the pages exist and are not the shared zero page.
    pub fn fault_in(&mut self, offset: usize, bytes: usize) {
        let end = (offset + bytes).min(self.bytes);
        let mut at = offset - offset % PAGE;
        while at < end {
            // SAFETY: `at` is below `self.bytes`, page-aligned, and nobody else
            // reads or writes while `&mut self` is held.
            unsafe {
                self.base
                    .add(at)
                    .cast::<u64>()
                    .write_volatile(at as u64 | 1)
            };
            at += PAGE;
        }
    }

    /// Gives the pages from `offset` on back to the system.
    pub fn give_back(&mut self, offset: usize) {
        let offset = offset.next_multiple_of(PAGE);
        if offset < self.bytes {
            // SAFETY: the range lies inside our own anonymous mapping; its
            // content becomes zero, which is valid for bytes.
            unsafe {
                libc::madvise(
                    self.base.add(offset).cast(),
                    self.bytes - offset,
                    libc::MADV_DONTNEED,
                );
            }
        }
    }

    /// First byte; aligned to 2 MiB.
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// All of it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping holds `bytes` bytes, zero until written, which
        // nobody else uses while `&mut self` is held.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.bytes) }
    }

    /// First byte, to write through; aligned to 2 MiB.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.base
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
        unsafe { self.base.cast::<u64>().add(word).read_volatile() }
    }

    /// Sets the 64-bit word at `word`.
    pub fn write(&mut self, word: usize, value: u64) {
        assert!(word < self.bytes / 8);
        // SAFETY: in bounds by the check above, aligned because the base is.
        unsafe { self.base.cast::<u64>().add(word).write(value) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping this value made.
        unsafe {
            libc::munmap(self.mapping.cast(), self.mapping_bytes);
        }
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
}
