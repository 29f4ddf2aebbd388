//! Progress of unmodified programs, found automatically.

use crate::common::compiled;
use crate::common::eventually;
use crate::common::has_python;
use crate::common::impatient;
use crate::common::message;
use crate::common::near;
use crate::common::once_of_three;
use crate::common::sh;
use crate::counted::missing;
use crate::support::program;
use crate::support::start;
use crate::support::start_on;
use crate::support::window;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::Shield;
use jostle_measure::workload::TargetSpec;
use std::process::Child;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

const AUTO: &str = "progress:auto";

/// Calls `batch` about every 200 µs of its CPU time, which calls a hot function
/// for most of it, and one that calls itself.
const BATCHES: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) unsigned hot(unsigned x) { for (int i = 0; i < 10; i++) x = x * 1664525 + 1013904223; return x; }
__attribute__((noinline)) unsigned deep(unsigned x, int depth) { return depth ? deep(hot(x), depth - 1) + 1 : hot(x); }
__attribute__((noinline)) unsigned batch(unsigned x) { for (int i = 0; i < 10000; i++) x = hot(x); return deep(x, 20); }
int main(int count, char **words) {
    unsigned x = count;
    long batches = count > 1 ? atol(words[1]) : 1L << 60;
    for (long i = 0; i < batches; i++) x = batch(x);
    return x == 77;
}
"#;

#[test]
fn calls_are_found_in_a_stripped_static_program() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &["-static", "-s"]) else {
        return;
    };
    let mut started = start(&program(&file), AUTO, &MetricOptions::default()).unwrap();
    let facts = started.1.facts();
    let name = format!("progress:uprobe:{}:0x", file.display());
    assert!(facts.name.starts_with(&name), "{}", facts.name);
    assert!(facts.chosen_because.contains("times per second"));
    let rate = window(&mut started, Duration::from_millis(300)).unwrap();
    assert!((200.0..40_000.0).contains(&rate), "{rate}");
    assert!(started.1.turns().is_some());
    drop(started);
    // What was found can be asked for again, and only what is an instruction.
    let mut again = start(&program(&file), &facts.name, &MetricOptions::default()).unwrap();
    assert_eq!(again.1.facts().name, facts.name);
    let same = window(&mut again, Duration::from_millis(300)).unwrap();
    assert!(same > rate / 4.0 && same < rate * 4.0, "{same}, {rate}");
    drop(again);
    // Also in a command that ends while it is looked for.
    let argv = [file.display().to_string(), "50".into()];
    let short = TargetSpec::Command(CommandSpec::new(argv));
    let (_, found) = start_on(&short, Some(&facts.name), &MetricOptions::default(), None).unwrap();
    assert_eq!(found.facts().name, facts.name);
    drop(found);
    let inside = facts.name.split("+0x").next().unwrap();
    let request = format!("{inside}+0xffff0");
    let text = message(
        start_on(&program(&file), Some(&request), &impatient(), None),
        2,
    );
    assert!(text.contains("no instruction is seen"), "{text}");
}

#[test]
fn a_command_of_short_runs_is_looked_into_across_runs() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &[]) else {
        return;
    };
    let took = |batches: u64| {
        let began = Instant::now();
        let status = Command::new(&file).arg(batches.to_string()).status();
        assert!(status.unwrap().code().is_some());
        began.elapsed().as_secs_f64()
    };
    let fastest = (0..3).map(|_| took(500)).fold(f64::MAX, f64::min);
    let command = |seconds: f64| {
        let batches = ((seconds / fastest * 500.0) as u64).to_string();
        TargetSpec::Command(CommandSpec::new([file.display().to_string(), batches]))
    };
    // Ends within the time that a program has before it is sampled, or meanwhile.
    for seconds in [0.1, 0.2, 0.24, 0.35] {
        // Another test on the same CPUs may make all of its functions look unsteady.
        once_of_three("looked into", || {
            let options = MetricOptions::default();
            let (_, mut started) = start_on(&command(seconds), Some(AUTO), &options, None).unwrap();
            let facts = started.facts();
            let name = format!("progress:uprobe:{}:", file.display());
            started.suspend();
            match facts.name.starts_with(&name) {
                true => Ok(()),
                false => Err(format!("{seconds}: {:?}", facts.chosen_because)),
            }
        });
    }
    // A function that is named is counted across runs as well.
    let named = format!("progress:uprobe:{}:batch", file.display());
    let mut started = start(&command(0.2), &named, &MetricOptions::default()).unwrap();
    assert!(started.1.restarts());
    let mut windows = 0;
    while started.0.ended_runs() < 2 {
        windows += 1;
        assert!(windows <= 20, "{} runs ended", started.0.ended_runs());
        let rate = window(&mut started, Duration::from_millis(300)).unwrap();
        assert!(rate > 100.0, "{rate}");
    }
    drop(started);
    // Of shorter ones whole runs are timed, and it says why.
    let command = command(0.02);
    let (_, whole) = start_on(&command, Some(AUTO), &MetricOptions::default(), None).unwrap();
    let facts = whole.facts();
    assert_eq!(facts.name, "runs");
    assert!(
        facts.chosen_because.contains("too short"),
        "{}",
        facts.chosen_because
    );
}

/// Works for 0.56 of every 10 ms and ends after 17 of them.
const SPARING: &str = r#"
#include <time.h>
__attribute__((noinline)) double used(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}
int main(void) {
    struct timespec rest = {0, 9400000};
    for (int i = 0; i < 17; i++) {
        double until = used() + 0.56e-3;
        while (used() < until) {}
        nanosleep(&rest, 0);
    }
    return 0;
}
"#;

#[test]
fn several_short_runs_show_what_one_does_not() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "sparing", SPARING, &[]) else {
        return;
    };
    // What is left of a run when it is looked at holds fewer samples than it takes.
    once_of_three("sampled for long enough", || {
        let options = MetricOptions::default();
        let (_, found) = start_on(&program(&file), Some(AUTO), &options, None).unwrap();
        let why = found.facts().chosen_because;
        match why.contains("hardly runs") {
            true => Err(why.to_string()),
            false => Ok(()),
        }
    });
}

/// Does one thing for some 30 ms and another for as long, each in calls of about
/// a millisecond.
const PHASES: &str = r#"
__attribute__((noinline)) unsigned even(unsigned x) {
    for (int i = 0; i < 800000; i++) x = x * 1664525u + 1013904223u;
    return x;
}
__attribute__((noinline)) unsigned odd(unsigned x) {
    for (int i = 0; i < 800000; i++) x = x * 22695477u + 1u;
    return x;
}
int main(void) {
    unsigned x = 1;
    for (;;) {
        for (int i = 0; i < 25; i++) x = even(x);
        for (int i = 0; i < 25; i++) x = odd(x);
        if (x == 77) return 0;
    }
}
"#;

#[test]
#[ignore = "full tier: takes long"]
fn functions_that_take_turns_are_counted_together() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "phases", PHASES, &[]) else {
        return;
    };
    let both = ["even", "odd"].map(|name| format!("{}:{name}", file.display()));
    // Either of them pauses half of the time, and may do so at every glance.
    once_of_three("both are found", || {
        let options = MetricOptions::default();
        let (_, found) = start_on(&program(&file), Some(AUTO), &options, None)
            .map_err(|error| error.to_string())?;
        let facts = found.facts();
        let all = both.iter().all(|name| facts.name.contains(name));
        match all && facts.chosen_because.contains("together") {
            true => Ok(()),
            false => Err(facts.name),
        }
    });
    // As it can be asked for; of each alone, about half.
    let rate = |request: &str| {
        let options = MetricOptions::default();
        let mut started = start(&program(&file), request, &options).unwrap();
        window(&mut started, Duration::from_millis(600)).unwrap()
    };
    once_of_three("both are counted", || {
        let together = rate(&format!("progress:uprobe:{}", both.join(",")));
        let alone = rate(&format!("progress:uprobe:{}", both[0]));
        near(alone / together, 0.35, 0.65)
    });
    let request = format!("progress:uprobe:{},odd", both[0]);
    let text = message(
        start_on(&program(&file), Some(&request), &impatient(), None),
        2,
    );
    assert!(text.contains("progress:uprobe:BINARY:SYMBOL"), "{text}");
}

/// Like a compiler: what it calls in one part of a run it does not call in the others, and
/// at an uneven rate.
const COMPILER: &str = r#"
#include <stdlib.h>
static unsigned dice = 1;
#define INLINE __attribute__((always_inline)) static inline
INLINE unsigned drawn(unsigned most) { dice = dice * 1664525 + 1013904223; return (dice >> 16) % most; }
INLINE unsigned work(unsigned x, unsigned steps) { while (steps--) x = x * 22695477u + 1u; return x; }
#define PASS(name) \
__attribute__((noinline)) unsigned name(unsigned x) { return work(x, 20000 + drawn(100000)); } \
__attribute__((noinline)) unsigned all_##name(unsigned x, long each) { \
    while (each--) { \
        for (unsigned k = drawn(12); k > 0; k--) x = name(x); \
        x = work(x, drawn(3000000)); \
    } \
    return x; \
}
PASS(parse) PASS(emit)
int main(int count, char **words) {
    unsigned (*passes[])(unsigned, long) = {all_parse, all_emit};
    unsigned x = count;
    long each = count > 1 ? atol(words[1]) : 1000;
    for (int pass = 0; pass < 2; pass++) x = passes[pass](x, each);
    return x == 77;
}
"#;

#[test]
#[ignore = "full tier: takes long"]
fn whole_runs_are_compared_where_each_phase_calls_other_functions() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "compiler", COMPILER, &["-O1"]) else {
        return;
    };
    let began = Instant::now();
    assert!(Command::new(&file).arg("100").status().unwrap().success());
    // Three seconds, more than a fifth of the time for the choice.
    let each = (300.0 / began.elapsed().as_secs_f64()) as u64;
    let argv = [file.display().to_string(), each.to_string()];
    let command = TargetSpec::Command(CommandSpec::new(argv));
    once_of_three("runs are compared", || {
        let options = MetricOptions {
            choice: Duration::from_secs(7),
            ..MetricOptions::default()
        };
        let (_, found) =
            start_on(&command, Some(AUTO), &options, None).map_err(|error| error.to_string())?;
        let facts = found.facts();
        match facts.chosen_because.contains("times in every run") {
            true => Ok(()),
            false => Err(format!("{}: {}", facts.name, facts.chosen_because)),
        }
    });
}

/// Calls `evenly` every 3 ms or so, and `often` in bursts, now and then; nothing else
/// is called as evenly (a function of a library could be found as well).
const BURSTS: &str = r#"
__attribute__((noinline)) unsigned hot(unsigned x) { for (int i = 0; i < 10; i++) x = x * 1664525 + 1013904223; return x; }
__attribute__((noinline)) unsigned evenly(unsigned x) { for (int i = 0; i < 300000; i++) x = hot(x); return x; }
__attribute__((noinline)) unsigned often(unsigned x) { for (int i = 0; i < 500; i++) x = hot(x); return x; }
int main(void) {
    unsigned x = 1, dice = 1;
    for (;;) {
        x = evenly(x);
        dice = dice * 1664525 + 1013904223;
        if ((dice >> 16) % 5 == 0) for (int i = 0; i < 60; i++) x = often(x);
        if (x == 77) return 0;
    }
}
"#;

#[test]
fn a_slow_function_that_is_called_evenly_is_better_than_bursts() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "bursts", BURSTS, &[]) else {
        return;
    };
    once_of_three("the even one is found", || {
        let options = MetricOptions::default();
        let (_, found) = start_on(&program(&file), Some(AUTO), &options, None)
            .map_err(|error| error.to_string())?;
        let name = found.facts().name;
        match name.contains("evenly") && !name.contains("often") {
            true => Ok(()),
            false => Err(name),
        }
    });
}

/// One thread calls `tick` 1,000 times per second, whatever the other gets done in
/// `work`, which takes now less and now more.
const TIMER: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) unsigned hot(unsigned x) { for (int i = 0; i < 10; i++) x = x * 1664525 + 1013904223; return x; }
__attribute__((noinline)) unsigned work(unsigned x) { int n = 4000 + rand() % 40000; for (int i = 0; i < n; i++) x = hot(x); return x; }
__attribute__((noinline)) unsigned tick(unsigned x) { for (int i = 0; i < 8000; i++) x = hot(x); return x; }
void *timer(void *none) {
    struct timespec at;
    volatile unsigned x = 1;
    clock_gettime(CLOCK_MONOTONIC, &at);
    for (;;) {
        at.tv_nsec += 1000000;
        if (at.tv_nsec >= 1000000000) { at.tv_nsec -= 1000000000; at.tv_sec++; }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
        x = tick(x);
    }
    return none;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, timer, 0);
    unsigned x = 1;
    while ((x = work(x)) != 77);
    return 0;
}
"#;

#[test]
#[ignore = "full tier: takes long"]
fn what_follows_a_clock_is_no_progress() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "timer", TIMER, &[]) else {
        return;
    };
    // Both on one CPU, so that they have something to share with the check.
    once_of_three("work is found", || {
        let options = MetricOptions::default();
        let (_, found) = start_on(&program(&file), Some(AUTO), &options, Some(&[0]))
            .map_err(|error| error.to_string())?;
        let name = found.facts().name;
        match name.contains("work") && !name.contains("tick") {
            true => Ok(()),
            false => Err(name),
        }
    });
}

/// Beside a process that is not its own nobody is kept busy to see whether calls follow a
/// clock; but the thread that makes them hardly works.
#[test]
#[ignore = "full tier: takes long"]
fn what_an_idle_thread_does_is_no_progress() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // A fiftieth of a CPU, not a tenth.
    let source = TIMER.replace("8000", "1500");
    let Some(file) = compiled(directory.path(), "timer", &source, &[]) else {
        return;
    };
    // Where CPUs are full the thread that works waits, and the other one hardly.
    for others in [0, 4] {
        let mut running: Vec<Child> = (0..others)
            .map(|_| {
                Command::new("sh")
                    .args(["-c", "while :; do :; done"])
                    .spawn()
                    .unwrap()
            })
            .collect();
        running.push(Command::new(&file).spawn().unwrap());
        let spec = TargetSpec::Pid(running[others].id() as i32);
        let found = start_on(&spec, Some(AUTO), &MetricOptions::default(), None);
        for mut child in running {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        match found {
            Ok((_, found)) => {
                let name = found.facts().name;
                assert!(!name.contains("tick"), "{name} beside {others}");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("hardly use a CPU"), "{text}");
            }
        }
    }
}

#[test]
fn a_command_that_ends_is_followed() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &[]) else {
        return;
    };
    // About half a second a run.
    let spec = sh(&format!("exec {} 2500", file.display()));
    // Another test on the same CPUs may make all of its functions look unsteady.
    once_of_three("followed", || {
        let mut started = start_on(&spec, Some(AUTO), &MetricOptions::default(), None)
            .map_err(|error| error.to_string())?;
        let facts = started.1.facts();
        if facts.name == "runs" {
            return Err(facts.chosen_because);
        }
        assert!(started.1.restarts());
        let mut pids = vec![started.0.pid()];
        let mut rates = Vec::new();
        eventually("three runs were seen", || {
            let rate = window(&mut started, Duration::from_millis(100)).unwrap();
            rates.push(rate);
            pids.push(started.0.pid());
            pids.dedup();
            pids.len() >= 3
        });
        let read = rates.iter().filter(|rate| **rate > 200.0).count();
        match read * 2 > rates.len() {
            true => Ok(()),
            false => Err(format!("{rates:?}")),
        }
    });
}

#[test]
fn the_first_run_is_counted_from_its_begin() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &[]) else {
        return;
    };
    let spec = sh(&format!("exec {} 2500", file.display()));
    // Another test on the same CPUs may make all of its functions look unsteady.
    once_of_three("followed", || {
        let (mut target, mut metric) = start_on(&spec, Some(AUTO), &MetricOptions::default(), None)
            .map_err(|error| error.to_string())?;
        let Some(calls) = metric.whole_runs().first().map(Vec::len) else {
            return Err(metric.facts().chosen_because);
        };
        // What the run before it did until it was ended is not of it.
        let first = metric.run().expect("it was just started");
        eventually("a later run was seen", || {
            std::thread::sleep(Duration::from_millis(5));
            metric.follow(&mut target).unwrap();
            metric.run().is_some_and(|run| run.number != first.number)
        });
        // Not always the next one: beside other tests a whole run may pass unseen.
        let next = metric.run().expect("it was seen");
        let runs = u64::from(next.number - first.number);
        assert_eq!(
            next.base - first.base,
            runs * calls as u64,
            "{first:?} {next:?}"
        );
        Ok(())
    });
}

/// A process that ends with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_else_calls_what_is_counted_on_the_cpus_of_the_target_is_named() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &[]) else {
        return;
    };
    // Another process that runs this file, on the same CPU, and is stopped.
    let mut other = Command::new("taskset");
    let other = Ended(other.args(["-c", "0"]).arg(&file).spawn().unwrap());
    let pid = other.0.id().to_string();
    let signal = |name: &str| {
        let mut kill = Command::new("kill");
        assert!(kill.args([name, &pid]).status().unwrap().success());
    };
    std::thread::sleep(Duration::from_millis(100));
    signal("-STOP");
    let spec = sh(&format!("{} 2500; true", file.display()));
    let options = MetricOptions::default();
    once_of_three("counted on the CPU", || {
        let (mut target, mut metric) =
            start_on(&spec, Some(AUTO), &options, Some(&[0])).map_err(|error| error.to_string())?;
        let rule = metric.window_rule();
        if !rule.contains("no other process was seen") {
            return Err(rule);
        }
        metric.follow(&mut target).unwrap();
        assert!(metric.warnings().is_empty(), "{:?}", metric.warnings());
        signal("-CONT");
        eventually("the other one was seen", || {
            std::thread::sleep(Duration::from_millis(20));
            metric.keep_moments();
            metric.follow(&mut target).unwrap();
            let said = metric.warnings().into_iter().map(|it| it.to_string());
            said.into_iter()
                .any(|text| text.contains("batches) ran on"))
        });
        signal("-STOP");
        Ok(())
    });
}

#[test]
fn what_cannot_be_counted_is_told_with_the_reason() {
    if missing(AUTO, "uprobe") {
        return;
    }
    let chosen = |spec: &TargetSpec| start_on(spec, Some(AUTO), &impatient(), None);
    let (_, metric) = chosen(&sh("exit 0")).unwrap();
    assert_eq!(metric.facts().name, "runs");
    let because = metric.facts().chosen_because;
    assert!(because.contains("its runs are too short"), "{because}");
    let text = message(chosen(&sh("exec sleep 1000")), 3);
    assert!(text.contains("it hardly runs"), "{text}");
    // Nothing but one instruction that jumps to itself.
    let directory = tempfile::tempdir().unwrap();
    let spins = "int main(void) { for (;;) __asm__ volatile(\"\"); }";
    if let Some(file) = compiled(directory.path(), "spins", spins, &[]) {
        let text = message(chosen(&program(&file)), 3);
        assert!(text.contains("no function was found"), "{text}");
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn a_shell_that_forks_and_an_interpreter_are_looked_into() {
    if missing(AUTO, "uprobe") || !has_python() {
        return;
    }
    for spec in [
        sh("while :; do /bin/true; done"),
        crate::common::python("while True: sorted(str(i) for i in range(3000))"),
    ] {
        // Found or not, it must neither fail nor harm the target.
        match start_on(&spec, Some(AUTO), &impatient(), None) {
            Ok((mut target, metric)) => {
                assert!(metric.facts().chosen_because.contains(AUTO));
                target.check_alive().unwrap();
            }
            Err(error) => assert!(error.to_string().contains("no function was found")),
        }
    }
}

#[test]
fn it_is_the_default_without_a_pmu() {
    if missing(AUTO, "uprobe") || jostle_host::sys::perf::why_no_instructions().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = compiled(directory.path(), "batches", BATCHES, &[]) else {
        return;
    };
    let options = MetricOptions::default();
    let (target, metric) = start_on(&program(&file), None, &options, None).unwrap();
    assert!(metric.facts().name.starts_with("progress:uprobe:"));
    drop((target, metric));
    let mut child = Command::new(&file).spawn().unwrap();
    let found = start_on(&TargetSpec::Pid(child.id() as i32), None, &options, None);
    let found = found.map(|(_, metric)| (metric.facts().name, metric.restarts()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    // Breakpoints could kill what somebody else traces.
    let mut debugger = Shield::start().unwrap();
    debugger.cover([child.id() as i32]).unwrap();
    let traced = start_on(&TargetSpec::Pid(child.id() as i32), None, &options, None);
    let traced = message(traced, 3);
    drop(debugger);
    child.kill().unwrap();
    child.wait().unwrap();
    let (name, restarts) = found.unwrap();
    assert!(name.starts_with("progress:uprobe:") && !restarts, "{name}");
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    assert!(traced.contains("cannot be traced"), "{traced}");
}
