//! How many files this process may have open.

use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;

/// Enough for some thousand workloads or connections.
const FILES: u64 = 65_536;

/// Raises the soft limit as far as the hard limit allows: every cgroup that is watched
/// keeps some files open, and so does every connection.
pub fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard.min(FILES)
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(FILES), hard);
    }
}
