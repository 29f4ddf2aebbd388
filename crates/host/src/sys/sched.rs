//! How the scheduler treats a thread.

use nix::errno::Errno;
use std::io;

/// The kernel's `struct sched_attr`, first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for time slices of `nanoseconds` for the calling thread, keeping its
/// policy and priority. Since Linux 6.12 a shorter slice gives an earlier
/// deadline, so that a thread that wakes for a short turn is not kept waiting
/// for the end of the other's; its share of the CPU is unchanged. Older
/// kernels ignore it.
pub fn request_slice(nanoseconds: u64) -> io::Result<()> {
    set_attributes(0, libc::SCHED_OTHER, 0, nanoseconds)
}

/// Gives the CPU to any other task at once from now on (`SCHED_IDLE`): for the
/// calling thread and those it will start.
pub fn yield_cpu() -> io::Result<()> {
    set_attributes(0, libc::SCHED_IDLE, 0, 0)
}

/// Lets `thread` run before every ordinary one (`SCHED_FIFO`), until [`run_in_turn`].
///
/// # Errors
/// Without `CAP_SYS_NICE`, or where its cgroup may have no real-time tasks.
pub fn run_first(thread: libc::pid_t) -> io::Result<()> {
    set_attributes(thread, libc::SCHED_FIFO, 1, 0)
}

/// Makes `thread` an ordinary one again, without a slice of its own.
///
/// # Errors
/// When it has ended.
pub fn run_in_turn(thread: libc::pid_t) -> io::Result<()> {
    set_attributes(thread, libc::SCHED_OTHER, 0, 0)
}

/// Of `thread`; 0 is the caller.
fn set_attributes(
    thread: libc::pid_t,
    policy: libc::c_int,
    priority: u32,
    runtime: u64,
) -> io::Result<()> {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: policy as u32,
        priority,
        runtime,
        ..SchedAttr::default()
    };
    // SAFETY: `attributes` is a valid sched_attr of the size it states, and
    // lives during the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &attributes, 0) };
    Errno::result(result)?;
    Ok(())
}

/// Puts the calling thread last in line at every disk (the idle I/O class).
pub fn yield_disk() -> io::Result<()> {
    /// `IOPRIO_WHO_PROCESS`; process 0 is the caller.
    const WHO_PROCESS: libc::c_int = 1;
    /// `IOPRIO_CLASS_IDLE`, above the 13 bits of the level.
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: takes three numbers and changes only this thread's I/O priority.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
    Errno::result(result)?;
    Ok(())
}
