//! As `crates/host/src/sys/shared.rs`, for pages that threads share: Miri has no memory that processes
//! could.

use std::alloc;
use std::alloc::Layout;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;

/// # Safety
/// As in Jostle: atomics and padding that is never read, for which zero is valid.
pub unsafe trait Shared: Sync {}

/// A page as the kernel gives it: zeros, whatever `T` says of its default.
pub struct SharedPage<T: Shared> {
    page: NonNull<T>,
}

// SAFETY: `T: Shared` holds only atomics, which any thread may use.
unsafe impl<T: Shared> Send for SharedPage<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for SharedPage<T> {}

impl<T: Shared> SharedPage<T> {
    pub fn create(_: &str) -> io::Result<Self> {
        // SAFETY: no page type is empty.
        let page = unsafe { alloc::alloc_zeroed(Layout::new::<T>()) };
        let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedPage { page })
    }
}

impl<T: Shared> Deref for SharedPage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: allocated for a `T`, zero or written through atomics, until drop.
        unsafe { self.page.as_ref() }
    }
}

impl<T: Shared> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no reference outlives it.
        unsafe { alloc::dealloc(self.page.as_ptr().cast(), Layout::new::<T>()) };
    }
}
