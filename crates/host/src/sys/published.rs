//! The page of 64 bytes that a program publishes its progress on, in the file
//! that `JOSTLE_PROGRESS` names.
//!
//! It is read and never mapped: the file belongs to the target, and one that is
//! cut off under a mapping would kill the reader.

use super::pages::ProgressPage;
use nix::fcntl::FcntlArg;
use nix::fcntl::SealFlag;
use nix::fcntl::fcntl;
use nix::sys::memfd::MFdFlags;
use nix::sys::memfd::memfd_create;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// In the environment of a target: the file.
pub const VARIABLE: &str = "JOSTLE_PROGRESS";
/// Bytes of the page; eight words in native byte order, of which the first five
/// are those of [`ProgressPage`] and the others are 0.
pub const BYTES: usize = 64;

/// What stands on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub operations: u64,
    pub busy_ns: u64,
    pub by_cpu_time: bool,
}

/// What is wrong with a page.
#[derive(Debug, Error)]
pub enum PublishedError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it has {0} bytes instead of {BYTES}: was it cut off?")]
    Short(usize),
    #[error("it starts with {0:#018x} instead of {expected:#018x}", expected = ProgressPage::MAGIC)]
    Magic(u64),
    #[error("it has version {0}; this jostle reads version {known}", known = ProgressPage::VERSION)]
    Version(u64),
    #[error("its clock is {0}; 0 is wall time, 1 is CPU time")]
    Clock(u64),
}

/// A page for a target that is about to be started: kept in memory, of a size
/// that cannot be changed, zero, and closed in children.
///
/// # Errors
/// What the kernel refuses.
pub fn create() -> io::Result<OwnedFd> {
    let page = memfd_create(
        c"jostle-published",
        MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC,
    )?;
    nix::unistd::ftruncate(&page, BYTES as i64)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&page, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(page)
}

/// Reads the page in `file`; `None` while nobody has published anything.
///
/// # Errors
/// What is wrong with it.
pub fn read(file: &File) -> Result<Option<Published>, PublishedError> {
    let mut bytes = [0; BYTES];
    let mut length = 0;
    while length < BYTES {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let word = |index: usize| {
        let bytes = bytes[index * 8..].first_chunk().copied();
        bytes.map_or(0, u64::from_ne_bytes)
    };
    match (length, word(0), word(1), word(4)) {
        (BYTES, 0, ..) | (0, ..) => Ok(None),
        (0..BYTES, ..) => Err(PublishedError::Short(length)),
        (_, magic, ..) if magic != ProgressPage::MAGIC => Err(PublishedError::Magic(magic)),
        (_, _, version, _) if version != ProgressPage::VERSION => {
            Err(PublishedError::Version(version))
        }
        (.., clock) if clock > ProgressPage::CLOCK_CPU => Err(PublishedError::Clock(clock)),
        (.., clock) => Ok(Some(Published {
            operations: word(2),
            busy_ns: word(3),
            by_cpu_time: clock == ProgressPage::CLOCK_CPU,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &File) -> String {
        read(file).unwrap_err().to_string()
    }

    #[test]
    fn pages_are_read_and_wrong_ones_named() {
        let file = File::from(create().unwrap());
        let put = |index: u64, word: u64| file.write_all_at(&word.to_ne_bytes(), index * 8);
        assert_eq!(read(&file).unwrap(), None);
        put(0, ProgressPage::MAGIC).unwrap();
        assert!(text(&file).contains("version 0"));
        put(1, ProgressPage::VERSION).unwrap();
        put(2, 77).unwrap();
        put(3, 5).unwrap();
        let published = read(&file).unwrap().unwrap();
        assert_eq!((published.operations, published.busy_ns), (77, 5));
        assert!(!published.by_cpu_time);
        put(4, 1).unwrap();
        assert!(read(&file).unwrap().unwrap().by_cpu_time);
        put(4, 2).unwrap();
        assert!(text(&file).contains("its clock is 2"));
        put(0, 1).unwrap();
        assert!(text(&file).contains("starts with 0x0000000000000001"));
        assert!(file.set_len(8).is_err() && file.set_len(4096).is_err());
    }

    #[test]
    fn a_file_that_is_cut_off_is_no_page() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(read(&file).unwrap(), None);
        file.write_all_at(&ProgressPage::MAGIC.to_ne_bytes(), 0)
            .unwrap();
        assert!(text(&file).contains("8 bytes instead of 64"));
    }
}
