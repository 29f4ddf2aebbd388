//! Files as a process sees them, below its own root directory.

use nix::fcntl::OFlag;
use nix::fcntl::OpenHow;
use nix::fcntl::ResolveFlag;
use nix::fcntl::openat2;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

fn root_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root"))
}

/// Opens `path` as process `pid` sees it: a link never leads out of its root directory,
/// and a pipe is not waited for.
///
/// # Errors
/// What the kernel answers; openat2 needs Linux 5.6.
pub fn open(pid: i32, path: &Path) -> io::Result<File> {
    resolved(pid, path, OFlag::O_RDONLY | OFlag::O_NONBLOCK)
}

fn resolved(pid: i32, path: &Path, flags: OFlag) -> io::Result<File> {
    let root = File::open(root_of(pid))?;
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT);
    Ok(File::from(openat2(&root, path, how)?))
}

/// A path without links by which we reach what process `pid` sees at `path`; `None` where
/// there is nothing.
pub fn path(pid: i32, path: &Path) -> Option<PathBuf> {
    let file = resolved(pid, path, OFlag::O_PATH).ok()?;
    let facts = file.metadata().ok()?;
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    // As its mount namespace names it, which may or may not be ours.
    let below = name.strip_prefix("/").ok()?;
    let same = |path: &PathBuf| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|it| (it.dev(), it.ino()) == (facts.dev(), facts.ino()))
    };
    [root_of(pid).join(below), name.clone()]
        .into_iter()
        .find(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_we_see_is_found_without_its_links() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let (file, link) = (directory.join("file"), directory.join("link"));
        fs::write(&file, "text").unwrap();
        symlink("file", &link).unwrap();
        let us = std::process::id() as i32;
        let found = path(us, &link).unwrap();
        assert!(
            found.ends_with(file.strip_prefix("/").unwrap()),
            "{found:?}"
        );
        let mut text = String::new();
        open(us, &link).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(path(us, &directory.join("none")), None);
    }
}
