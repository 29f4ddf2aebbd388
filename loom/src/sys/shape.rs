//! As `crates/host/src/sys/shape.rs`, of what loom knows, and short.

pub use loom::sync::atomic::AtomicU8;
pub use loom::sync::atomic::AtomicU32;
pub use loom::sync::atomic::AtomicU64;

pub const BLOCKS: usize = 2;
pub const TURNS: usize = 2;
pub const MESSAGE: usize = 3;
pub const ENGINE: usize = 1;
pub const PROCESSES: usize = 2;
pub const PATH: usize = 1;
pub const MARKER: usize = 1;
