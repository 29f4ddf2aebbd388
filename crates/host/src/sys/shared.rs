//! A page of atomics shared between processes through a memfd or a file.

use nix::fcntl::FcntlArg;
use nix::fcntl::SealFlag;
use nix::fcntl::fcntl;
use nix::sys::memfd::MFdFlags;
use nix::sys::memfd::memfd_create;
use std::ffi::CString;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;

/// Types that may live in memory other processes write to.
///
/// # Safety
/// Every field must be an atomic (or padding that is never read), all-zero
/// bytes must be a valid value, and the layout must be `repr(C)`.
pub unsafe trait Shared: Sync {}

/// A `T` in shared memory. The memory stays valid as long as this value, even
/// when every other process has gone.
pub struct SharedPage<T: Shared> {
    page: NonNull<T>,
    fd: OwnedFd,
}

// SAFETY: `T: Shared` holds only atomics, which any thread may use.
unsafe impl<T: Shared> Send for SharedPage<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for SharedPage<T> {}

impl<T: Shared> SharedPage<T> {
    fn length() -> NonZeroUsize {
        NonZeroUsize::new(size_of::<T>().next_multiple_of(4096)).expect("a page type has a size")
    }

    /// A new, zeroed page. `name` shows in `/proc/PID/fd` as `/memfd:name`.
    /// Its size is sealed, so that nobody can pull it from under a reader. The
    /// descriptor is inherited by child processes.
    pub fn create(name: &str) -> io::Result<Self> {
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        let fd = memfd_create(name.as_c_str(), MFdFlags::MFD_ALLOW_SEALING)?;
        nix::unistd::ftruncate(&fd, Self::length().get() as i64)?;
        fcntl(
            &fd,
            FcntlArg::F_ADD_SEALS(
                SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL,
            ),
        )?;
        Self::map(fd)
    }

    /// Maps a page another process made with [`SharedPage::create`].
    ///
    /// # Errors
    /// `InvalidData` when the file is too small or could still shrink, beside
    /// what the kernel answers.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS)?;
        let size = nix::sys::stat::fstat(&fd)?.st_size;
        if seals & SealFlag::F_SEAL_SHRINK.bits() == 0 || size < Self::length().get() as i64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a sealed page of the expected size",
            ));
        }
        Self::map(fd)
    }

    /// A new, zeroed page in the new file `path`, which only its owner may use.
    /// Unlike a memfd it outlives all processes. The descriptor is inherited by
    /// child processes.
    ///
    /// # Errors
    /// What the kernel answers: the file exists, the disk is full ...
    pub fn in_file(path: &Path) -> io::Result<Self> {
        use nix::fcntl::OFlag;
        use nix::sys::stat::Mode;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let fd = nix::fcntl::open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // All of it now: a disk that is full later would kill the writer.
        let all = Self::length().get() as i64;
        let mapped = match nix::fcntl::posix_fallocate(&fd, 0, all) {
            Ok(()) => Self::map(fd),
            Err(error) => Err(error.into()),
        };
        if mapped.is_err() {
            let _ = std::fs::remove_file(path);
        }
        mapped
    }

    /// Maps a page that was made with [`SharedPage::in_file`].
    ///
    /// # Errors
    /// `InvalidData` for anything but a regular file of ours, of the expected
    /// size, that nobody else may write to.
    pub fn of_file(fd: OwnedFd) -> io::Result<Self> {
        let stat = nix::sys::stat::fstat(&fd)?;
        let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        let private = stat.st_mode & 0o077 == 0;
        let ours = stat.st_uid == nix::unistd::geteuid().as_raw();
        if !(regular && private && ours && stat.st_size == Self::length().get() as i64) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a page of the expected size that is ours alone",
            ));
        }
        Self::map(fd)
    }

    /// The same page once more, for another thread.
    ///
    /// # Errors
    /// When there are too many descriptors or mappings.
    pub fn again(&self) -> io::Result<Self> {
        Self::map(self.fd.try_clone()?)
    }

    fn map(fd: OwnedFd) -> io::Result<Self> {
        use nix::sys::mman::MapFlags;
        use nix::sys::mman::ProtFlags;
        // SAFETY: a fresh shared mapping at an address the kernel chooses
        // aliases nothing; the size was set or checked before. A memfd is
        // sealed; whoever may truncate a file of ours may as well kill us.
        let page = unsafe {
            nix::sys::mman::mmap(
                None,
                Self::length(),
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                &fd,
                0,
            )?
        };
        Ok(SharedPage {
            page: page.cast(),
            fd,
        })
    }
}

impl<T: Shared> Deref for SharedPage<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is as long as `T`, page-aligned, zero or written
        // through atomics, and lives until drop; `T: Shared` makes any bytes
        // other processes store through atomics valid.
        unsafe { self.page.as_ref() }
    }
}

impl<T: Shared> AsFd for SharedPage<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<T: Shared> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping and no reference outlives it.
        let _ = unsafe { nix::sys::mman::munmap(self.page.cast(), Self::length().get()) };
    }
}
