//! Where guards' pages lie: a file for each target that jostle holds or has
//! started, so that `jostle release` finds what nobody undid.

use crate::workload::tree;
use jostle_host::os::here;
use jostle_host::os::text;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::shared::SharedPage;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;

const PREFIX: &str = "held-";
const UNFINISHED: &str = "new-";

/// The directory of the pages: that of root, or of the user.
///
/// # Errors
/// Which variable is missing.
pub(super) fn directory() -> Result<PathBuf, String> {
    if nix::unistd::geteuid().is_root() {
        return Ok("/run/jostle/held".into());
    }
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute("XDG_RUNTIME_DIR")
        .map(|runtime| runtime.join("jostle/held"))
        .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("jostle/held")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/jostle/held")))
        .ok_or_else(|| "neither XDG_RUNTIME_DIR nor HOME names a directory".into())
}

/// A new page, filled in by `fill`, in a file of its own, and the file. Nobody finds
/// the file before it is filled in.
pub(super) fn create(fill: impl Fn(&GuardPage)) -> io::Result<(SharedPage<GuardPage>, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let directory = directory().map_err(io::Error::other)?;
    make(&directory)?;
    let number = COUNT.fetch_add(1, Relaxed);
    let name = format!("{}-{number}", std::process::id());
    let path = directory.join(format!("{PREFIX}{name}"));
    // Of an earlier process with our pid, which `release` was never asked about.
    if Record::read(&path).is_ok_and(|record| record.matters()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let unfinished = directory.join(format!("{UNFINISHED}{name}"));
    let _ = std::fs::remove_file(&unfinished);
    let page = SharedPage::in_file(&unfinished)?;
    fill(&page);
    std::fs::rename(&unfinished, &path)?;
    Ok((page, path))
}

/// Ours alone: nobody else may put a page or a link there.
fn make(directory: &Path) -> io::Result<()> {
    if let Some(above) = directory.parent() {
        std::fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(directory)
}

fn check(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    let ours = found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & 0o077 == 0;
    match found.is_dir() && ours {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{} is not a directory of ours alone (mode 0700)",
            directory.display()
        ))),
    }
}

/// The boot we live in, as the kernel names it.
pub(super) fn boot() -> String {
    text::text(here(), "proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Pid and start time of a process that lives.
pub(super) fn identity(pid: i32) -> (u64, u64) {
    let start = tree::stat(pid).map_or(0, |stat| stat.start);
    (pid as u64, start)
}

/// A page that was found.
pub(super) struct Record {
    pub(super) path: PathBuf,
    pub(super) page: SharedPage<GuardPage>,
}

impl Record {
    pub(super) fn read(path: &Path) -> io::Result<Record> {
        use nix::fcntl::OFlag;
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let fd = nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty())?;
        let page: SharedPage<GuardPage> = SharedPage::of_file(fd)?;
        if page.magic.load(SeqCst) != GuardPage::MAGIC {
            return Err(io::Error::other("not a page of this version of jostle"));
        }
        Ok(Record {
            path: path.to_path_buf(),
            page,
        })
    }

    /// Whether there is anything left to undo.
    pub(super) fn matters(&self) -> bool {
        let duty = self.page.duty.load(SeqCst);
        duty != GuardPage::NOTHING && self.page.boot.get() == boot().as_bytes()
    }

    /// The profiler's pid, and whether it still lives.
    pub(super) fn profiler(&self) -> (i32, bool) {
        living(&self.page.profiler)
    }

    /// Whether the guard still lives.
    pub(super) fn guarded(&self) -> bool {
        living(&self.page.guard).1
    }

    pub(super) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn living([pid, start]: &[AtomicU64; 2]) -> (i32, bool) {
    let (pid, start) = (pid.load(SeqCst) as i32, start.load(SeqCst));
    let found = tree::stat(pid);
    let lives = found.is_some_and(|stat| stat.start == start && !stat.ended());
    (pid, lives)
}

/// All pages in `directory`, each read or with the reason why not; none where there
/// is no such directory. Others may remove theirs meanwhile: those are left out.
///
/// # Errors
/// Why the directory cannot be read or trusted.
pub(super) fn all(directory: &Path) -> io::Result<Vec<(PathBuf, io::Result<Record>)>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    check(directory)?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    let read = |path: PathBuf| match Record::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        record => Some((path, record)),
    };
    Ok(paths.into_iter().filter_map(read).collect())
}
