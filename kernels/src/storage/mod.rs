//! `storage-bandwidth`, `storage-capacity`: direct I/O on an unlinked file.
//!
//! | file | idea |
//! |---|---|
//! | `scratch.rs` | the file: where it may be, how large, how aligned |
//! | `engine.rs` | requests in flight, whatever carries them |
//! | `uring.rs`, `threads.rs` | what carries them |
//! | `pattern.rs`, `walk.rs` | which request comes next, and when |
//! | `order.rs` | every segment once, in an order that looks random |
//! | `bandwidth.rs`, `capacity.rs` | the two sources |

mod bandwidth;
mod capacity;
mod engine;
mod order;
pub mod pattern;
mod request;
mod scratch;
mod threads;
mod uring;
pub mod walk;

pub use bandwidth::SPEC as BANDWIDTH;
pub use capacity::SPEC as CAPACITY;

use crate::Environment;
use crate::Failure;
use scratch::Scratch;

/// The scratch file that `env` allows.
fn scratch(env: &Environment) -> Result<Scratch, Failure> {
    match &env.scratch_directory {
        Some(directory) => Scratch::create(directory, env.scratch_bytes),
        None => Err(Failure::new(
            "no scratch directory on a block device was found",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// An environment that allows a small scratch file in `directory`.
    pub fn environment(directory: &Path) -> Environment {
        Environment {
            scratch_directory: Some(directory.to_path_buf()),
            scratch_bytes: 4 << 20,
            ..Environment::default()
        }
    }

    /// A directory that takes direct I/O; `None`, said with the reason, where
    /// there is none here.
    pub fn place() -> Option<tempfile::TempDir> {
        let here = tempfile::tempdir_in(".").unwrap();
        let made = Scratch::create(here.path(), 1 << 20).map_err(|Failure(reason)| reason);
        crate::skip::have("direct-io", made).map(|_| here)
    }
}
