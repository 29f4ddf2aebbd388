//! Anonymous memory straight from the kernel.

use nix::sys::mman;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

pub(crate) const PAGE: usize = 4096;

/// Anonymous memory from an aligned address on, given back when dropped.
pub(crate) struct Mapping {
    mapping: NonNull<c_void>,
    mapped: NonZeroUsize,
    bytes: usize,
    pub base: *mut u8,
}

impl Mapping {
    /// Reserves `bytes` from a multiple of `alignment` on, on pages that `advice`
    /// asks for: a refusal of the advice leaves ordinary pages.
    pub fn new(
        bytes: usize,
        alignment: usize,
        protection: mman::ProtFlags,
        advice: mman::MmapAdvise,
    ) -> io::Result<Mapping> {
        let mapped = bytes.checked_add(alignment).and_then(NonZeroUsize::new);
        let mapped = mapped.ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = mman::MapFlags::MAP_PRIVATE | mman::MapFlags::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses
        // aliases nothing.
        let mapping = unsafe { mman::mmap_anonymous(None, mapped, protection, flags)? };
        let base = mapping.as_ptr().cast::<u8>();
        let base = base.wrapping_add(base.align_offset(alignment));
        let start = NonNull::new(base.cast()).expect("it lies in the mapping");
        // SAFETY: the range lies inside the mapping made above, and the advice
        // never changes what memory holds.
        let _ = unsafe { mman::madvise(start, bytes, advice) };
        Ok(Mapping {
            mapping,
            mapped,
            bytes,
            base,
        })
    }

    /// Gives the pages of `range`, in bytes, back to the system; they read as zeros
    /// afterwards. Its start is a multiple of a page; an empty one does nothing.
    pub fn give_back(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        assert!(range.end <= self.bytes);
        // SAFETY: the range lies inside our own anonymous mapping; its content becomes
        // zero, which is valid for bytes.
        unsafe {
            let start = self.base.add(range.start).cast();
            libc::madvise(start, range.len(), libc::MADV_DONTNEED);
        }
    }

    /// Moves page `page` of `from` here, in place of page `place`. Page `page` must
    /// not be used afterwards.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn take_page(&mut self, place: usize, from: &mut Mapping, page: usize) -> io::Result<()> {
        assert!(page < from.bytes / PAGE && place < self.bytes / PAGE);
        let source = from.base.wrapping_add(page * PAGE);
        let target = self.base.wrapping_add(place * PAGE);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // No hole may be left: what another thread maps there, `from` would unmap at its end.
        // Linux before 5.7 cannot do that and refuses.
        let moved = [flags | libc::MREMAP_DONTUNMAP, flags]
            .into_iter()
            .any(|flags| {
                // SAFETY: both pages lie in mappings that these values own, and nothing else
                // refers to either.
                let moved = unsafe { libc::mremap(source.cast(), PAGE, PAGE, flags, target) };
                moved != libc::MAP_FAILED
            });
        match moved {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping this value made.
        let _ = unsafe { mman::munmap(self.mapping, self.mapped.get()) };
    }
}
