//! Files that vanish by themselves, for the demos that read from storage.

use crate::error::Error;
use crate::error::Result;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

/// Memory aligned for direct I/O.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    offset: usize,
    length: usize,
}

impl Aligned {
    const ALIGNMENT: usize = 4096;

    pub(super) fn new(length: usize) -> Aligned {
        let bytes = vec![0; length + Self::ALIGNMENT];
        let offset = bytes.as_ptr().align_offset(Self::ALIGNMENT);
        Aligned {
            // The answer may be "cannot tell" by contract; then direct I/O is
            // refused later with a reason.
            offset: offset.min(Self::ALIGNMENT),
            bytes,
            length,
        }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.offset..self.offset + self.length]
    }
}

/// Where scratch files may go: `--scratch` alone, or the current directory and
/// then /var/tmp.
pub(super) fn directories(chosen: Option<&Path>) -> Vec<PathBuf> {
    match chosen {
        Some(path) => vec![path.to_path_buf()],
        None => vec![".".into(), "/var/tmp".into()],
    }
}

/// A nameless file of `bytes` random bytes in the first of `directories` that
/// can have it; `direct` opens it with O_DIRECT, on a real device.
pub(super) fn create(directories: &[PathBuf], bytes: u64, direct: bool) -> Result<File> {
    let mut reasons = Vec::new();
    for directory in directories {
        match try_create(directory, bytes, direct) {
            Ok(file) => return Ok(file),
            Err(reason) => reasons.push(format!("{}: {reason}", directory.display())),
        }
    }
    Err(Error::environment(format!(
        "no place for a scratch file of {} MiB ({}); name one with --scratch DIR",
        bytes >> 20,
        reasons.join("; ")
    )))
}

fn try_create(directory: &Path, bytes: u64, direct: bool) -> io::Result<File> {
    use nix::sys::statfs::TMPFS_MAGIC;
    let facts = nix::sys::statfs::statfs(directory);
    let facts = facts.map_err(|errno| io::Error::other(errno.desc()))?;
    /// Not in libc for every architecture.
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let kind = facts.filesystem_type();
    if kind == TMPFS_MAGIC || kind.0 as i64 == RAMFS_MAGIC {
        return Err(io::Error::other("this is memory (tmpfs), not storage"));
    }
    let free = facts
        .blocks_available()
        .saturating_mul(facts.block_size() as u64);
    // A tenth is left to everybody else.
    if free / 10 * 9 < bytes {
        let reason = format!("only {} MiB are free", free >> 20);
        return Err(io::Error::other(reason));
    }
    let file = open(directory, direct).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) if direct => io::Error::other("the file system has no direct I/O"),
        _ => error,
    })?;
    fill(&file, bytes)?;
    Ok(file)
}

fn open(directory: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let nameless = options
        .clone()
        .custom_flags(libc::O_TMPFILE | flags)
        .open(directory);
    if nameless.is_ok() {
        return nameless;
    }
    // Some file systems cannot; then the name lives for a moment only.
    let path = directory.join(format!(".jostle-demo-{}", std::process::id()));
    let file = options.create_new(true).custom_flags(flags).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn fill(file: &File, bytes: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    const PIECE: usize = 1 << 20;
    let mut buffer = Aligned::new(PIECE);
    let mut state = 0x0bad_cafe_0bad_cafe;
    let mut position = 0;
    while position < bytes {
        // Random, so that no layer below compresses or deduplicates it.
        for word in buffer.bytes().chunks_exact_mut(8) {
            word.copy_from_slice(&super::random(&mut state).to_ne_bytes());
        }
        let length = (bytes - position).min(PIECE as u64) as usize;
        file.write_all_at(&buffer.bytes()[..length], position)?;
        position += length as u64;
    }
    Ok(())
}
