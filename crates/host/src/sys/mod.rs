//! The only unsafe code outside `jostle-kernels`: shared memory, processes,
//! CPU masks, clocks, perf events. Everything exported is safe to call.

pub mod clock;
pub mod control_page;
pub mod cpus;
pub mod guard_page;
pub mod handover;
pub mod memory;
pub mod only_one;
pub mod open_files;
pub mod own;
pub mod pages;
pub mod perf;
pub mod perf_group;
pub mod pidfd;
pub mod probe;
pub mod process;
pub mod published;
pub mod sampling;
pub mod sched;
pub mod shape;
pub mod shared;
pub mod tape;
pub mod tracer;
pub mod unix_peers;
