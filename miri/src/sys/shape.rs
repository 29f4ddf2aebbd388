//! As `crates/host/src/sys/shape.rs`, and short: Miri takes a thousand times as long as a CPU.

pub use std::sync::atomic::AtomicU8;
pub use std::sync::atomic::AtomicU32;
pub use std::sync::atomic::AtomicU64;

pub const BLOCKS: usize = 16;
pub const TURNS: usize = 16;
pub const MESSAGE: usize = 1024;
pub const ENGINE: usize = 16;
pub const PROCESSES: usize = 2;
pub const PATH: usize = 16;
pub const MARKER: usize = 8;
