//! Workers: spawn, place, pace, watch.
//!
//! A worker is this same binary re-executed as the hidden `worker` subcommand:
//! one process per CPU it loads, pinned, in its own process group, first in
//! line for the OOM killer, and dead when its parent dies. It is steered
//! through a [`ControlPage`](crate::sys::control_page::ControlPage): switching
//! an arm is one store.

pub mod brake;
mod error;
pub mod fit;
pub mod group;
pub mod host;
pub mod parent;
pub mod pattern;
mod pattern_file;
pub mod peak;
pub mod placement;
pub mod plan;
pub mod process;
pub mod schedule;
pub mod slice;
pub mod stall;
pub mod toll;
pub mod traffic;
pub mod turns;
pub mod worker;

pub use error::WorkerError;
pub use group::Snapshot;
pub use group::WorkerGroup;
pub use group::WorkerPlan;
