//! As `mapping.rs`, of memory that Miri knows: it has no huge pages and moves none.

use nix::sys::mman;
use std::alloc;
use std::alloc::Layout;
use std::io;
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;

pub(crate) struct Mapping {
    layout: Layout,
    pub base: *mut u8,
}

impl Mapping {
    pub fn new(
        bytes: usize,
        alignment: usize,
        _: mman::ProtFlags,
        _: mman::MmapAdvise,
    ) -> io::Result<Mapping> {
        let layout = Layout::from_size_align(bytes, alignment);
        let layout = layout.map_err(|_| io::ErrorKind::OutOfMemory)?;
        assert!(bytes > 0);
        // SAFETY: the size is above 0.
        let base = unsafe { alloc::alloc_zeroed(layout) };
        match base.is_null() {
            true => Err(io::ErrorKind::OutOfMemory.into()),
            false => Ok(Mapping { layout, base }),
        }
    }

    pub fn give_back(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        assert!(range.end <= self.layout.size());
        // SAFETY: the range was allocated, and nobody else uses it.
        unsafe { self.base.add(range.start).write_bytes(0, range.len()) };
    }

    pub fn take_page(&mut self, place: usize, from: &mut Mapping, page: usize) -> io::Result<()> {
        assert!(page < from.layout.size() / PAGE && place < self.layout.size() / PAGE);
        // SAFETY: both pages were allocated, and apart from each other.
        unsafe {
            let source = from.base.add(page * PAGE);
            let target = self.base.add(place * PAGE);
            target.copy_from_nonoverlapping(source, PAGE);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.base, self.layout) };
    }
}
