//! The scratch file: unlinked, filled, open for direct I/O.

use crate::Buffer;
use crate::Failure;
use crate::weyl::GOLDEN;
use crate::weyl::xorshift;
use nix::errno::Errno;
use nix::fcntl;
use nix::sys::statfs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Written at once while the file is filled; its size is a multiple of this.
const STEP: usize = 1 << 20;
/// Assumed where neither the kernel nor sysfs tells: no disk asks for more.
const UNTOLD_ALIGNMENT: u32 = 4096;

/// What direct I/O on a file must be aligned to, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Address of a buffer in memory.
    pub memory: u32,
    /// Position in the file, and length of a request.
    pub offset: u32,
}

/// A file without a name, which the kernel frees with its last descriptor.
#[derive(Debug)]
pub struct Scratch {
    pub file: File,
    pub bytes: u64,
    pub alignment: Alignment,
}

impl Scratch {
    /// A file of `bytes`, rounded down to whole MiB, in `directory`, filled
    /// with data that no device can compress.
    ///
    /// # Errors
    /// In words, naming the directory and what to do: it cannot be written,
    /// lies in memory, has no direct I/O or no space; or `bytes` is too small.
    pub fn create(directory: &Path, bytes: u64) -> Result<Scratch, Failure> {
        let refuse = |what: String| {
            Failure::new(format!("scratch directory {}: {what}", directory.display()))
        };
        let whole = bytes / STEP as u64 * STEP as u64;
        if whole == 0 {
            return Err(Failure::new(format!(
                "a scratch file of {bytes} bytes is too small: give at least 1MiB with \
                 --scratch-size"
            )));
        }
        let file = open_unlinked(directory).map_err(|error| {
            refuse(match error.raw_os_error() {
                Some(libc::EROFS) => "the file system is mounted read-only; name a directory that \
                                      can be written with --scratch"
                    .into(),
                Some(libc::ENOSPC | libc::EDQUOT) => no_space(bytes, &error),
                _ => format!("cannot create a file: {error}; name another with --scratch"),
            })
        })?;
        if in_memory(&file) {
            return Err(refuse(
                "this is memory (tmpfs), not a disk; name a directory on a disk with --scratch"
                    .into(),
            ));
        }
        let alignment = direct(&file)
            .and_then(|()| alignment(&file))
            .map_err(|error| {
                refuse(format!(
                    "no direct I/O on this file system: {error}; name a directory on a local disk \
                     (ext4, xfs, btrfs) with --scratch"
                ))
            })?;
        fill(&file, whole).map_err(|error| {
            refuse(match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT) => no_space(whole, &error),
                _ => format!("cannot write the scratch file: {error}"),
            })
        })?;
        Ok(Scratch {
            file,
            bytes: whole,
            alignment,
        })
    }
}

fn no_space(bytes: u64, error: &io::Error) -> String {
    format!(
        "no space for a scratch file of {:.1} MiB ({error}); free some, give less with --scratch-size or \
         name a directory elsewhere with --scratch",
        bytes as f64 / f64::from(1 << 20)
    )
}

/// A new file that has no name from the first, or only for an instant on file
/// systems without O_TMPFILE.
fn open_unlinked(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let nameless = options
        .clone()
        .custom_flags(libc::O_TMPFILE)
        .open(directory);
    match nameless.as_ref().map_err(io::Error::raw_os_error) {
        // Not known to this file system, or to a kernel that sees a directory.
        Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let path = directory.join(format!(".jostle-scratch-{}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        _ => nameless,
    }
}

/// Some kernels take O_DIRECT on file systems that lie in memory, where it
/// presses on no disk.
fn in_memory(file: &File) -> bool {
    const RAMFS: statfs::FsType = statfs::FsType(0x8584_58f6);
    statfs::fstatfs(file)
        .is_ok_and(|found| [statfs::TMPFS_MAGIC, RAMFS].contains(&found.filesystem_type()))
}

/// Turns direct I/O on: refused where the file system has none.
fn direct(file: &File) -> io::Result<()> {
    let flags = fcntl::OFlag::from_bits_retain(fcntl::fcntl(file, fcntl::FcntlArg::F_GETFL)?);
    fcntl::fcntl(
        file,
        fcntl::FcntlArg::F_SETFL(flags | fcntl::OFlag::O_DIRECT),
    )?;
    Ok(())
}

/// What the kernel says of this file, or else of the disk under it.
fn alignment(file: &File) -> io::Result<Alignment> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open, the path is a string of length zero, and
    // `found` has room for the answer.
    let status = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            found.as_mut_ptr(),
        )
    };
    // SAFETY: zero is valid for every field, whatever the call filled in.
    let found = unsafe { found.assume_init() };
    if status == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0 {
        return match (found.stx_dio_mem_align, found.stx_dio_offset_align) {
            (0, _) | (_, 0) => Err(io::Error::other("the kernel says so (statx)")),
            (memory, offset) => Ok(Alignment { memory, offset }),
        };
    }
    let block = logical_block_bytes(file.metadata()?.dev()).unwrap_or(UNTOLD_ALIGNMENT);
    Ok(Alignment {
        memory: block,
        offset: block,
    })
}

/// Logical block size of the disk that is or holds `device`.
fn logical_block_bytes(device: u64) -> Option<u32> {
    let entry = format!(
        "/sys/dev/block/{}:{}",
        libc::major(device),
        libc::minor(device)
    );
    ["", "/.."]
        .iter()
        .filter_map(|up| {
            std::fs::read_to_string(format!("{entry}{up}/queue/logical_block_size")).ok()
        })
        .find_map(|text| text.trim().parse().ok())
        .filter(|&bytes: &u32| bytes.is_power_of_two())
}

/// Takes the space at once, so that a full file system says so before
/// anything is written, then writes all of it and waits until it is on the
/// disk: what a disk or its host still had to write would be measured as slow
/// reads.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    match fcntl::fallocate(
        file,
        fcntl::FallocateFlags::empty(),
        0,
        bytes as libc::off_t,
    ) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut buffer = Buffer::resident(STEP).map_err(|Failure(reason)| io::Error::other(reason))?;
    let mut state = GOLDEN;
    for offset in (0..bytes).step_by(STEP) {
        let block = &mut buffer.bytes_mut()[..STEP];
        for word in block.chunks_exact_mut(8) {
            state = xorshift(state);
            word.copy_from_slice(&state.to_ne_bytes());
        }
        file.write_all_at(block, offset)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::tests::place;
    use super::*;

    #[test]
    fn the_file_is_filled_and_has_no_name() {
        let Some(here) = place() else {
            return;
        };
        let scratch = Scratch::create(here.path(), (2 << 20) + 5).unwrap();
        assert_eq!(scratch.bytes, 2 << 20);
        assert_eq!(scratch.file.metadata().unwrap().len(), 2 << 20);
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
        let mut buffer = Buffer::resident(STEP).unwrap();
        let block = &mut buffer.bytes_mut()[..STEP];
        scratch.file.read_exact_at(block, STEP as u64).unwrap();
        let zeros = block.iter().filter(|byte| **byte == 0).count();
        assert!(
            zeros < STEP / 100,
            "{zeros} zeros in what must not compress"
        );
        assert!(scratch.alignment.offset.is_power_of_two());
    }

    #[test]
    fn what_cannot_work_is_a_reason() {
        let reason = |directory: &str, bytes| {
            Scratch::create(Path::new(directory), bytes)
                .err()
                .unwrap()
                .0
        };
        assert!(reason("/no/such/place", 1 << 20).contains("/no/such/place"));
        assert!(reason(".", 4096).contains("--scratch-size"));
        if Path::new("/dev/shm").is_dir() {
            assert!(reason("/dev/shm", 1 << 20).contains("--scratch"));
        }
    }
}
