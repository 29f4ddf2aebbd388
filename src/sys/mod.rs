//! The only unsafe code outside `jostle-kernels`: shared memory, processes,
//! CPU masks, clocks, perf events. Everything exported is safe to call.

pub mod clock;
pub mod cpus;
pub mod perf;
pub mod process;
pub mod shared;
