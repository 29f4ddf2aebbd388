//! Metrics that would work for a target, to be copied into the command line.

use super::binary;
use crate::counters::tracefs::tracefs;
use crate::workload::Target;
use jostle_host::sys::probe;
use std::path::Path;
use std::path::PathBuf;

/// One per line, each with what it reads.
pub(super) fn lines(target: &Target) -> String {
    let mut found: Vec<(String, &str)> = Vec::new();
    let mut add = |metric: &str, what| found.push((format!("--metric {metric}"), what));
    let processes = target.scope().processes();
    let exchanges = processes.iter().any(|pid| {
        let account = std::fs::read_to_string(format!("/proc/{pid}/io"));
        account.is_ok_and(|account| account.contains("rchar"))
    });
    if exchanges {
        add("progress:io", "bytes it reads and writes per second");
    }
    if probe::uprobe_cost(&[]).is_ok() {
        let mapped = binary::mapped(&processes);
        let program = std::fs::read_link(format!("/proc/{}/exe", target.pid()));
        if let Ok(program) = program {
            let request = format!("progress:uprobe:{}:FUNCTION", program.display());
            add(&request, "calls of a function it calls once per operation");
        }
        let libc =
            |(_, path): &&(i32, PathBuf)| path.file_name().is_some_and(|name| name == "libc.so.6");
        if mapped.iter().find(libc).is_some() {
            add(
                "progress:uprobe:lib:libc.so.6:write",
                "calls of a library's function",
            );
        }
    }
    if tracefs(Path::new("/")).is_ok_and(|root| root.join("events/raw_syscalls").is_dir()) {
        add(
            "progress:tracepoint:raw_syscalls:sys_enter",
            "system calls per second",
        );
    }
    if target.is_ours() {
        add("'stdout:([0-9.]+) req/s'", "a number it prints");
        add("runs", "how long it takes, if it ends by itself");
    }
    add("file:LOG:REGEX", "a number in its log or status file");
    add("prometheus:URL:METRIC", "its page of metrics");
    add("exec:CMD", "a command that prints a number");
    let lines: Vec<String> = found
        .iter()
        .map(|(metric, what)| format!("  {metric}  ({what})"))
        .collect();
    format!(
        "{}\nor let it publish a progress page; `jostle metrics` explains all",
        lines.join("\n")
    )
}
