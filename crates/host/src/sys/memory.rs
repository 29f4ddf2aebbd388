//! Hints about memory.

use nix::sys::mman::MmapAdvise;
use std::ptr::NonNull;

/// Asks for huge pages behind `buffer`'s capacity, so that a test of a cache is
/// not one of the TLB. Ask before the memory is first touched. A refusal is
/// not an error: the pages just stay small.
pub fn ask_huge_pages<T>(buffer: &mut Vec<T>) {
    const PAGE: usize = 4096;
    let start = (buffer.as_mut_ptr() as usize).next_multiple_of(PAGE);
    let end = (buffer.as_mut_ptr() as usize + buffer.capacity() * size_of::<T>()) / PAGE * PAGE;
    if end <= start {
        return;
    }
    let Some(address) = NonNull::new(start as *mut std::ffi::c_void) else {
        return;
    };
    // SAFETY: the range lies inside one allocation that `buffer` owns, and
    // this advice never changes what the memory holds.
    let _ = unsafe { nix::sys::mman::madvise(address, end - start, MmapAdvise::MADV_HUGEPAGE) };
}
