//! Demos as targets: what they are told of the limits, and which CPUs they get.

use super::place;
use super::place::TargetCpus;
use crate::error::Result;
use crate::workload::TargetSpec;
use crate::workload::demo;
use crate::workload::demo::Demo;
use crate::workload::demo::Share;
use jostle_host::inject::plan::Limits;
use jostle_host::machine::Machine;

/// `jostle demo NAME` with what it must know of `limits` to need its resource
/// within them, and with `share` of it where that is given.
///
/// # Errors
/// A request error for a name that there is no demo of.
pub fn target(name: &str, limits: &Limits, share: Option<Share>) -> Result<TargetSpec> {
    let demo = demo::find(name)?;
    let mut options = options(demo, limits);
    options.extend(share.into_iter().flat_map(Share::options));
    Ok(TargetSpec::Demo {
        name: demo.name.to_string(),
        options,
    })
}

/// What a reader can repeat of `jostle demo NAME OPTIONS`, wherever the binary
/// and the scratch directory lie.
pub fn command(name: &str, options: &[String]) -> Vec<String> {
    let mut words = vec!["jostle".to_string(), "demo".into(), name.into()];
    let held = |option: &String| option == "--share" || option == "--rate";
    let held = options.iter().position(held);
    words.extend(
        held.into_iter()
            .flat_map(|at| options[at..].iter().take(2).cloned()),
    );
    words
}

fn options(demo: &Demo, limits: &Limits) -> Vec<String> {
    let mut options = Vec::new();
    if demo.name == "memory-capacity" {
        // Its file must be larger than what the source always leaves free.
        let mebibytes = 2 * (limits.memory_reserve_bytes >> 20);
        options.extend(["--size".into(), mebibytes.to_string()]);
    }
    if let Ok(directory) = &limits.scratch
        && ["memory-capacity", "storage-capacity", "storage-bandwidth"].contains(&demo.name)
    {
        options.extend(["--scratch".into(), directory.display().to_string()]);
    }
    if let Some(traffic) = &limits.network
        && demo.name == "network-bandwidth"
    {
        options.extend(["--peer".into(), traffic.peer.to_string()]);
        let protocol = traffic.transport.as_str().to_string();
        options.extend(["--network-protocol".into(), protocol]);
        if let Some(bytes) = traffic.cap_bytes_per_second {
            options.extend(["--network-cap".into(), format!("{bytes}B/s")]);
        }
    }
    options
}

/// The quietest CPU, and for a demo of several threads the next ones of its
/// last-level cache, as far as there are any.
///
/// # Errors
/// An environment error when no CPU is allowed.
pub fn cpus(machine: &Machine, count: usize) -> Result<TargetCpus> {
    if count == 1 {
        return place::quiet_cpu(machine, "a demo has one busy thread");
    }
    let reason = format!("the demo has {count} busy threads");
    let mut found = place::quiet_cpu(machine, &reason)?;
    let mut others = machine.llc_group(found.cpus[0]);
    others.retain(|cpu| machine.allowed_cpus.contains(cpu) && !found.cpus.contains(cpu));
    found.cpus.extend(others.into_iter().take(count - 1));
    found.cpus.sort_unstable();
    found.choice.open.clear();
    Ok(found)
}
