//! Uprobes, tracepoints and bytes.

use crate::common::compiled;
use crate::common::eventually;
use crate::common::impatient;
use crate::common::is_root;
use crate::common::message;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::sh;
use crate::common::skip::lacks;
use crate::common::skip::skip;
use crate::support::program;
use crate::support::start;
use crate::support::start_on;
use crate::support::window;
use jostle_measure::metric::METRICS;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::TargetSpec;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// Calls `serve` 220 times per millisecond slept, in threads and children too,
/// keeps the number of calls in the file of its first argument, and prints how
/// often the system refused it a thread or a child.
const SERVER: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int serve(int x) { __asm__ volatile("" ::: "memory"); return x + 1; }
__attribute__((noinline)) int never(int x) { __asm__ volatile("" ::: "memory"); return x - 1; }
static void *hundred(void *x) { for (int i = 0; i < 100; i++) serve(i); return x; }
int main(int count, char **words) {
    volatile int sink = 0;
    long calls = 0;
    int file = count > 1 ? open(words[1], O_WRONLY | O_CREAT, 0600) : -1;
    if (count > 1000) sink = never(sink);
    for (;;) {
        pthread_t thread;
        for (int i = 0; i < 20; i++) sink = serve(sink);
        if (pthread_create(&thread, 0, hundred, 0)) puts("refused 1"); else pthread_join(thread, 0);
        pid_t child = fork();
        if (child == 0) { hundred(0); _exit(0); }
        if (child < 0) puts("refused 1"); else waitpid(child, 0, 0);
        calls += 220;
        if (file >= 0 && pwrite(file, &calls, sizeof calls, 0) < 0) puts("refused 1");
        usleep(1000);
    }
}
"#;

/// Whether a kind of metric does not work here; said as a skipped test.
pub fn missing(name: &str, need: &str) -> bool {
    let kind = METRICS.iter().find(|kind| kind.name == name).unwrap();
    lacks(need, kind.unavailable())
}

#[test]
fn calls_are_counted_and_nobody_is_hurt() {
    if missing("progress:uprobe", "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, flags) in [("pie", &["-pie", "-fPIE"][..]), ("fixed", &["-no-pie"][..])] {
        let Some(server) = compiled(directory.path(), name, SERVER, flags) else {
            return;
        };
        let log = directory.path().join(format!("{name}.log"));
        let calls = directory.path().join(format!("{name}.calls"));
        let spec = sh(&format!(
            "exec {} {} > {}",
            server.display(),
            calls.display(),
            log.display()
        ));
        let request = format!("progress:uprobe:{}:serve", server.display());
        let mut started = start(&spec, &request, &MetricOptions::default()).unwrap();
        let made = || {
            let bytes = std::fs::read(&calls).unwrap();
            u64::from_ne_bytes(bytes.try_into().unwrap()) as f64
        };
        // Where processes may not be looked into that may run the file too,
        // threads and processes that begin and end within a window do not
        // count, as the facts say: 20 calls of 220 are the main thread's.
        let rule = started.1.window_rule();
        let everywhere = rule.contains("on every CPU");
        assert!(
            everywhere != rule.contains("count from the next one on"),
            "{rule}"
        );
        let counted = if everywhere { 1.0 } else { 20.0 / 220.0 };
        once_of_three("as many as were made", || {
            let (before, begin) = (made(), Instant::now());
            let rate = window(&mut started, Duration::from_millis(500)).unwrap();
            let truth = (made() - before) / begin.elapsed().as_secs_f64() * counted;
            near(rate / truth, 0.8, 1.25)
        });
        assert_eq!(started.1.facts().unit, "calls per second");
        // By its bare name, as the target runs it.
        let request = format!("progress:uprobe:{name}:serve");
        let attached = TargetSpec::Pid(started.0.pid());
        let mut second = start(&attached, &request, &MetricOptions::default()).unwrap();
        assert!(window(&mut second, Duration::from_millis(200)).unwrap() > 1000.0);
        let refused = std::fs::read_to_string(&log).unwrap();
        assert_eq!(
            refused, "",
            "the target could not fork while it was counted"
        );
    }
}

#[test]
fn functions_that_are_not_there_are_explained() {
    if missing("progress:uprobe", "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = compiled(directory.path(), "server", SERVER, &[]) else {
        return;
    };
    let Some(stripped) = compiled(directory.path(), "stripped", SERVER, &["-s"]) else {
        return;
    };
    let spec = program(&server);
    let ask = |binary: &str, symbol: &str, code| {
        let request = format!("progress:uprobe:{binary}:{symbol}");
        message(start(&spec, &request, &impatient()), code)
    };
    let own = server.to_string_lossy().into_owned();
    let text = ask(&own, "srve", 2);
    assert!(text.contains("near names: serve"), "{text}");
    let text = ask(&own, "never", 2);
    assert!(
        text.contains("no call of never") && text.contains("under load"),
        "{text}"
    );
    let text = ask(&own, "usleep", 2);
    assert!(text.contains("lib:libc.so.6:usleep"), "{text}");
    let text = ask(&stripped.to_string_lossy(), "serve", 2);
    assert!(text.contains("stripped"), "{text}");
    let text = ask("lib:libnone", "serve", 2);
    assert!(text.contains("no file libnone mapped"), "{text}");
    let text = ask("/nonexistent/x", "serve", 2);
    assert!(text.contains("does not exist"), "{text}");
    let text = ask("/etc/passwd", "serve", 2);
    assert!(text.contains("no ELF"), "{text}");
    let mut library = start(
        &spec,
        "progress:uprobe:lib:libc:usleep",
        &MetricOptions::default(),
    );
    match &mut library {
        Ok(started) => assert!(window(started, Duration::from_millis(300)).unwrap() > 0.0),
        Err(error) => println!("skipped usleep of the C library: {error}"),
    }
}

#[test]
fn tracepoints_are_counted_with_children() {
    if missing("progress:tracepoint", "tracepoint") {
        return;
    }
    let options = MetricOptions::default();
    let spec = sh("while :; do sleep 0.01; done");
    let request = "progress:tracepoint:sched:sched_process_exec";
    match start(&spec, request, &options) {
        Ok(mut started) => {
            // Only the children that it forks execute anything.
            let rate = window(&mut started, Duration::from_secs(1)).unwrap();
            assert!(rate > 0.0 && rate < 110.0, "{rate}");
            assert!(started.1.natural_window().unwrap() > Duration::from_secs(1));
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 3, "{error}");
            println!("skipped tracepoints_are_counted_with_children: {error}");
        }
    }
    let text = message(
        start(&spec, "progress:tracepoint:sched:sched_swich", &options),
        2,
    );
    assert!(text.contains("sched_switch"), "{text}");
    let idle = sh("exec sleep 1000");
    let text = message(start(&idle, request, &impatient()), 2);
    assert!(text.contains("never passed"), "{text}");
}

#[test]
fn bytes_are_counted_although_children_end() {
    // Each child moves 64 KiB and is gone.
    let spec = sh("while :; do head -c 65536 /dev/zero > /dev/null; done");
    let mut started = start(&spec, "progress:io:write", &MetricOptions::default()).unwrap();
    for _ in 0..3 {
        let rate = window(&mut started, Duration::from_millis(400)).unwrap();
        assert!(rate > 65536.0 && rate < 1e11, "{rate}");
    }
    let idle = sh("exec sleep 1000");
    let text = message(start(&idle, "progress:io", &impatient()), 2);
    assert!(text.contains("moved no such bytes"), "{text}");
}

#[test]
fn without_permission_the_reason_is_said() {
    if !is_root() {
        return;
    }
    let directory = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let copy = directory.path().join("jostle");
    std::fs::copy(env!("CARGO_BIN_EXE_jostle"), &copy).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), mode).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["metrics", "--json"])
        .current_dir("/")
        .stderr(Stdio::inherit())
        .output();
    let run = run.expect("setpriv is of util-linux");
    assert!(run.status.success());
    let rows: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), METRICS.len());
    let reason = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        row["reason"].as_str().unwrap_or("available").to_string()
    };
    let uprobe = reason("progress:uprobe");
    assert!(
        uprobe.contains("root") || uprobe.contains("no uprobes"),
        "{uprobe}"
    );
    let tracepoint = reason("progress:tracepoint");
    assert!(
        tracepoint.contains("root") || tracepoint.contains("mount"),
        "{tracepoint}"
    );
    assert_eq!(reason("progress:io"), "available");
}

#[test]
fn suggestions_are_for_this_target() {
    if jostle_host::sys::perf::why_no_instructions().is_none() {
        return skip("no-pmu", "this machine has a PMU");
    }
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id() as i32;
    eventually("exec is through", || {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"))
    });
    let chosen = start_on(&TargetSpec::Pid(pid), None, &impatient(), None);
    child.kill().unwrap();
    child.wait().unwrap();
    let text = message(chosen, 3);
    for part in [
        "--metric progress:io",
        "--metric prometheus:",
        "jostle metrics",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("--metric runs"), "{text}");
}
