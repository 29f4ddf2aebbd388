//! Atomics of the shared pages, and how long their parts are. The models in `loom/` have
//! their own atomics and shorter parts.

pub use std::sync::atomic::AtomicU8;
pub use std::sync::atomic::AtomicU32;
pub use std::sync::atomic::AtomicU64;

/// Blocks ahead of a worker, and turns behind it, at most. Powers of two.
pub const BLOCKS: usize = 1 << 10;
pub const TURNS: usize = 1 << 13;
/// Bytes of why a worker ended, and of what carries its operations.
pub const MESSAGE: usize = 1024;
pub const ENGINE: usize = 256;
/// Most processes of an attached target that can be stopped together by signals.
pub const PROCESSES: usize = 16_384;
/// `PATH_MAX`.
pub const PATH: usize = 4096;
pub const MARKER: usize = 64;
