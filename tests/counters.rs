//! Counters of real processes and cgroups, on the machine the test runs on.

mod common;

use crate::common::PATIENCE;
use crate::common::has_python;
use crate::common::skip::have;
use crate::common::skip::lacks;
use crate::common::skip::skip;
use jostle_host::sys::perf::why_no_instructions;
use jostle_measure::counters::CounterOptions;
use jostle_measure::counters::Counters;
use jostle_measure::counters::Sample;
use jostle_measure::workload::Scope;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// A child that is ended with its group.
struct Program(Child);

impl Program {
    fn shell(script: &str) -> Program {
        Program::start(Command::new("sh").args(["-c", script]))
    }

    fn start(command: &mut Command) -> Program {
        use std::os::unix::process::CommandExt;
        Program(
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn scope(&self) -> Scope {
        Scope::Processes(vec![self.pid()])
    }

    /// Lets a script go on that waits in `read`.
    fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        use nix::sys::signal::Signal;
        use nix::sys::signal::killpg;
        use nix::unistd::Pid;
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn open(scope: &Scope) -> Counters {
    Counters::open(scope, &[0], &CounterOptions::default())
}

/// The reading of one counter, or why there is none.
fn reading(counters: &Counters, name: &str, from: &Sample, to: &Sample) -> Result<f64, String> {
    let index = counters
        .list()
        .iter()
        .position(|counter| counter.name == name)
        .unwrap_or_else(|| panic!("{name} is not in the list"));
    match &counters.list()[index].unavailable {
        Some(reason) => Err(reason.clone()),
        None => counters.readings(from, to)[index].ok_or_else(|| "no reading".into()),
    }
}

/// Samples until `enough` says so of the reading since the first one; `None`,
/// said, where `need` is what the counter lacks.
fn until(
    counters: &mut Counters,
    name: &str,
    need: &str,
    enough: impl Fn(f64) -> bool,
) -> Option<f64> {
    let began = Instant::now();
    let first = counters.sample();
    let mut seen = f64::NAN;
    while began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        let now = counters.sample();
        match reading(counters, name, &first, &now) {
            Ok(value) if enough(value) => return Some(value),
            Ok(value) => seen = value,
            Err(reason) => {
                skip(need, format!("{name}: {reason}"));
                return None;
            }
        }
    }
    panic!("{name} stayed at {seen}");
}

#[test]
fn a_spinner_uses_its_cpu() {
    let program = Program::shell("while :; do :; done");
    let mut counters = open(&program.scope());
    // Other tests run beside it, and none makes it more than one CPU.
    until(&mut counters, "task-clock", "perf", |used| {
        assert!(used <= 1.1, "{used}");
        used > 0.1
    });
    let from = counters.sample();
    std::thread::sleep(Duration::from_millis(200));
    let to = counters.sample();
    for (counter, share) in counters
        .list()
        .iter()
        .zip(counters.running_shares(&from, &to))
    {
        if counter.source == "perf software" && !lacks("perf", counter.unavailable.clone()) {
            assert_eq!(share, Some(1.0), "{}", counter.name);
        }
    }
}

#[test]
fn a_sleeper_switches_as_often_as_it_sleeps() {
    let script = "import time\nwhile True: time.sleep(0.01)";
    if !has_python() {
        return;
    }
    let program = Program::start(Command::new("python3").args(["-c", script]));
    std::thread::sleep(Duration::from_millis(500));
    let mut counters = open(&program.scope());
    for name in ["context-switches", "voluntary-switches"] {
        // At most 100 sleeps a second, and some more switches from outside.
        until(&mut counters, name, "perf", |rate| {
            (20.0..300.0).contains(&rate)
        });
    }
}

#[test]
fn an_allocator_faults() {
    let script = "while :; do head -c 30000000 /dev/zero | tail -c 1 >/dev/null; done";
    let program = Program::shell(script);
    let mut counters = open(&program.scope());
    until(&mut counters, "minor-faults", "perf", |rate| rate > 100.0);
}

#[test]
fn children_of_later_are_counted_and_stay_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let done = scratch.path().join("done");
    let mut program = Program::shell(&format!(
        "read go; i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done; : >{}; sleep 1000",
        done.display()
    ));
    let mut counters = open(&program.scope());
    let first = counters.sample();
    let began = Instant::now();
    program.go();
    while !done.exists() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut faults = || {
        let now = counters.sample();
        let seconds = began.elapsed().as_secs_f64();
        reading(&counters, "minor-faults", &first, &now).map(|rate| rate * seconds)
    };
    match (faults(), faults()) {
        (Ok(once), Ok(again)) => {
            // Each of 300 processes that are gone now faulted many times.
            assert!(once > 3000.0, "{once}");
            assert!((again / once - 1.0).abs() < 0.2, "{once}, then {again}");
        }
        (Err(reason), _) | (_, Err(reason)) => {
            skip("perf", reason);
        }
    }
}

#[test]
fn threads_of_later_are_counted() {
    if !has_python() {
        return;
    }
    // The main thread only sleeps from here on.
    let script = "import sys, threading, time\n\
                  sys.stdin.readline()\n\
                  def spin():\n    while True: pass\n\
                  threading.Thread(target=spin, daemon=True).start()\n\
                  while True: time.sleep(1000)\n";
    let mut program = Program::start(Command::new("python3").args(["-c", script]));
    let mut counters = open(&program.scope());
    program.go();
    until(&mut counters, "task-clock", "perf", |used| used > 0.1);
}

#[test]
fn another_run_is_followed() {
    let first = Program::shell("while :; do :; done");
    let mut counters = open(&first.scope());
    let names: Vec<String> = counters.list().iter().map(|c| c.name.clone()).collect();
    let old = counters.sample();
    drop(first);
    let second = Program::shell("while :; do :; done");
    counters.follow(&second.scope());
    let again: Vec<String> = counters.list().iter().map(|c| c.name.clone()).collect();
    assert_eq!(names, again);
    // What was sampled of another run says nothing about this one.
    let new = counters.sample();
    assert!(counters.readings(&old, &new).iter().all(Option::is_none));
    assert!(
        counters
            .running_shares(&old, &new)
            .iter()
            .all(Option::is_none)
    );
    until(&mut counters, "task-clock", "perf", |used| used > 0.1);
}

#[test]
fn what_has_ended_says_so() {
    let program = Program::shell("exit 0");
    let scope = program.scope();
    drop(program);
    let counters = open(&scope);
    let why = |name: &str| {
        let mut list = counters.list().iter();
        let counter = list.find(|counter| counter.name == name).unwrap();
        counter.unavailable.clone().unwrap()
    };
    assert!(!why("task-clock").is_empty());
    assert!(!why("run-queue-delay").is_empty());
}

/// A cgroup of ours in one hierarchy, gone afterwards.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(mount: &str, name: &str) -> Result<Cgroup, String> {
        let path = Path::new(mount).join(format!("jostle-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Cgroup(path))
    }

    fn add(&self, pid: i32) -> Result<(), String> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string())
            .map_err(|error| error.to_string())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn mount(kind: &str, controller: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/mounts").ok()?;
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let has = controller.is_empty() || words[3].split(',').any(|name| name == controller);
        (words[2] == kind && has).then(|| words[1].to_string())
    })
}

#[test]
fn a_v2_cgroup_is_counted_as_one() {
    let program = Program::shell("while :; do (:); done");
    let made = mount("cgroup2", "")
        .ok_or("no cgroup2 is mounted".to_string())
        .and_then(|mount| Cgroup::new(&mount, "v2"))
        .and_then(|cgroup| cgroup.add(program.pid()).map(|()| cgroup));
    let Some(cgroup) = have("cgroup2", made) else {
        return;
    };
    let mut counters = open(&Scope::Cgroup(cgroup.0.clone()));
    for name in ["context-switches", "minor-faults", "task-clock"] {
        until(&mut counters, name, "perf", |rate| rate > 0.05);
    }
    until(&mut counters, "run-queue-delay", "schedstat", |rate| {
        rate > 0.0
    });
    // Another cgroup's work is not counted here.
    drop(program);
    // Its last children may still be ending.
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(cgroup.0.join("cgroup.procs")).is_ok_and(|all| !all.is_empty()) {
        assert!(
            Instant::now() < deadline,
            "the cgroup does not become empty"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    let other = Program::shell("while :; do (:); done");
    let from = counters.sample();
    std::thread::sleep(Duration::from_millis(200));
    let to = counters.sample();
    drop(other);
    if let Some(rate) = have("perf", reading(&counters, "minor-faults", &from, &to)) {
        assert_eq!(rate, 0.0);
    }
}

#[test]
fn a_v1_cgroup_is_counted_by_its_threads_where_perf_has_no_hierarchy() {
    let program = Program::shell("while :; do (:); done");
    let made = mount("cgroup", "cpuacct")
        .ok_or("no v1 cpuacct hierarchy is mounted".to_string())
        .and_then(|mount| Cgroup::new(&mount, "v1"))
        .and_then(|cgroup| cgroup.add(program.pid()).map(|()| cgroup));
    let Some(cgroup) = have("cgroup1", made) else {
        return;
    };
    let mut counters = open(&Scope::Cgroup(cgroup.0.clone()));
    until(&mut counters, "cgroup-cpu", "cgroup1", |used| used > 0.01);
    until(&mut counters, "task-clock", "perf", |used| used > 0.01);
    let notes = counters.notes();
    let told = notes.iter().any(|note| note.contains("not the cgroup"));
    assert!(told || mount_has_perf(), "{notes:?}");
}

fn mount_has_perf() -> bool {
    mount("cgroup", "perf_event").is_some()
}

#[test]
fn every_counter_has_a_name_and_either_a_reading_or_a_reason() {
    let program = Program::shell("while :; do (:); done");
    let options = CounterOptions {
        events: ["r01c2", "gpu/x/", "nonsense", "task-clock"]
            .map(String::from)
            .to_vec(),
        ..CounterOptions::default()
    };
    let mut counters = Counters::open(&program.scope(), &[0], &options);
    let from = counters.sample();
    std::thread::sleep(Duration::from_millis(300));
    let to = counters.sample();
    let readings = counters.readings(&from, &to);
    assert_eq!(readings.len(), counters.list().len());
    let (mut names, mut silent): (Vec<&str>, Vec<&str>) = Default::default();
    for (counter, reading) in counters.list().iter().zip(&readings) {
        assert!(
            !names.contains(&counter.name.as_str()),
            "{} twice",
            counter.name
        );
        names.push(&counter.name);
        match (&counter.unavailable, reading) {
            (Some(reason), None) => assert!(!reason.is_empty(), "{}", counter.name),
            (Some(reason), Some(value)) => panic!("{}: {value} and {reason}", counter.name),
            (None, Some(value)) => assert!(value.is_finite() && *value >= 0.0, "{}", counter.name),
            // Between these two samples nothing of it happened.
            (None, None) => silent.push(&counter.name),
        }
    }
    for name in ["r01c2", "gpu/x/", "nonsense", "task-clock (asked for)"] {
        assert!(names.contains(&name), "{name}");
    }
    assert!(names.len() > 2 * silent.len(), "no readings of {silent:?}");
}

#[test]
fn the_hardware_agrees_with_itself() {
    if lacks("pmu", why_no_instructions()) {
        return;
    }
    let program = Program::shell("while :; do :; done");
    let mut counters = open(&program.scope());
    let Some(ipc) = until(&mut counters, "ipc", "pmu", |ipc| ipc > 0.0) else {
        return;
    };
    let from = counters.sample();
    std::thread::sleep(Duration::from_millis(500));
    let to = counters.sample();
    let of = |name| reading(&counters, name, &from, &to).unwrap();
    let quotient = of("instructions") / of("cycles");
    assert!((of("ipc") / quotient - 1.0).abs() < 1e-6 && (0.05..20.0).contains(&ipc));
}

#[test]
fn a_machine_without_a_target_is_shown() {
    let mut counters = Counters::of_machine(&CounterOptions::default());
    let from = counters.sample();
    std::thread::sleep(Duration::from_millis(300));
    let to = counters.sample();
    let busy = reading(&counters, "cpu-busy", &from, &to).unwrap();
    assert!((0.0..=100.0).contains(&busy));
    assert!(
        counters
            .list()
            .iter()
            .all(|counter| counter.name != "run-queue-delay")
    );
}

fn jostle(arguments: &[&str]) -> assert_cmd::assert::Assert {
    assert_cmd::Command::new(env!("CARGO_BIN_EXE_jostle"))
        .arg("counters")
        .args(arguments)
        .timeout(Duration::from_secs(120))
        .assert()
}

#[test]
fn the_command_prints_a_document_per_interval() {
    let done = jostle(&[
        "--json", "--count", "2", "--every", "100ms", "--", "sleep", "1000",
    ]);
    let output = String::from_utf8_lossy(&done.success().get_output().stdout).into_owned();
    let lines: Vec<serde_json::Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["interval"], 2);
    let counters = lines[1]["counters"].as_object().unwrap();
    for (name, reading) in counters {
        let fine = reading["value"].is_number() != reading["unavailable"].is_string();
        assert!(fine, "{name}: {reading}");
    }
    assert!(counters.contains_key("ipc") && counters.contains_key("run-queue-delay"));
}

#[test]
fn the_command_ends_with_its_target_and_tells_how() {
    let done = jostle(&["--every", "50ms", "--", "sh", "-c", "sleep 0.2; exit 3"]).success();
    let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(told.contains("exited with status 3"), "{told}");
    let table = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(
        table.contains("counter") && table.contains("source"),
        "{table}"
    );
}

#[test]
fn the_command_lists_what_there_is() {
    let done = jostle(&["--list", "--events", "gpu/x/"]).success();
    let list = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(
        list.contains("cpu-busy") && list.contains("no PMU gpu"),
        "{list}"
    );
    let done = jostle(&["--list", "--json"]).success();
    let list: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert!(
        list.as_array().unwrap().iter().all(|one| {
            one["available"] == serde_json::Value::Bool(one.get("reason").is_none())
        })
    );
}

#[test]
fn wrong_requests_name_the_flag() {
    for (arguments, word) in [
        (vec!["--every", "1us"], "--every"),
        (vec!["--count", "0"], "--count"),
        (vec!["--events", "a,,b"], "--events"),
        (vec!["--events", "speed"], "--events"),
        (vec!["--events", "cpu/event=1"], "slash"),
        (vec!["--pid", "2147483647"], "--pid"),
        (vec!["--cpus", "0"], "--cpus"),
    ] {
        let done = jostle(&arguments).code(2);
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(told.contains(word), "{arguments:?}: {told}");
    }
}

/// What looking costs; run with `--ignored --nocapture`, best in release.
#[test]
#[ignore = "full tier: a measurement, not a check"]
fn what_sampling_costs() {
    use jostle_host::sys::perf_group::EventConfig;
    use jostle_host::sys::perf_group::Group;
    use jostle_host::sys::perf_group::MAX_EVENTS;
    use jostle_host::sys::perf_group::PerfTarget;
    use std::os::fd::AsRawFd;

    fn median(mut work: impl FnMut()) -> f64 {
        let mut times: Vec<u128> = (0..4001)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed().as_nanos()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2] as f64 / 1e3
    }
    // Apart from each other where there are two CPUs, so that reading has to
    // reach over.
    let _ = jostle_host::sys::cpus::set_affinity(0, &[0]);
    for (label, script) in [
        ("sleeping", "exec sleep 1000"),
        ("spinning", "exec nice -n -20 sh -c 'while :; do :; done'"),
    ] {
        let program = Program::shell(script);
        let _ = jostle_host::sys::cpus::set_affinity(program.pid(), &[1]);
        std::thread::sleep(Duration::from_millis(200));
        let events = [1, 3, 5, 6].map(EventConfig::software);
        match Group::open(&events, PerfTarget::Thread(program.pid()), true) {
            Err(failed) => skip("perf", failed.error),
            Ok(group) => {
                let mut values = [0; MAX_EVENTS];
                let ours = median(|| {
                    group.read(&mut values).unwrap();
                });
                let mut buffer = [0u8; 256];
                let fd = group.as_raw_fd();
                // The same descriptor through /proc/self/fd cannot be reopened, so
                // it is borrowed for the bare call.
                let bare = median(|| {
                    // SAFETY: the group is open for the whole block.
                    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
                    nix::unistd::read(fd, &mut buffer).unwrap();
                });
                println!(
                    "a group of four, {label} target: {ours:.2} us, {:.2} of a bare read ({bare:.2} us)",
                    ours / bare
                );
            }
        }
        let mut counters = open(&program.scope());
        let whole = median(|| {
            std::hint::black_box(counters.sample());
        });
        println!("a whole sample, {label} target: {whole:.1} us");
        let scope = program.scope();
        let began = Instant::now();
        (0..20).for_each(|_| counters.follow(&scope));
        let each = began.elapsed().as_secs_f64() / 20.0;
        println!("following another run: {:.2} ms", each * 1e3);
    }
}
