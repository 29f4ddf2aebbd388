//! CPU masks of processes.

use nix::sched::CpuSet;
use nix::sched::sched_getaffinity;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use std::io;

/// Logical CPUs that thread or process `pid` may run on (0: the caller),
/// ascending.
pub fn affinity(pid: i32) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid))?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// Restricts thread or process `pid` (0: the caller) to `cpus`.
pub fn set_affinity(pid: i32, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(Pid::from_raw(pid), &set)?;
    Ok(())
}
