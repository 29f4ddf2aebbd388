//! Targets and metrics, against programs that misbehave in every way known.

use jostle::metric;
use jostle::metric::MetricOptions;
use jostle::metric::StdoutKind;
use jostle::profile::Direction;
use jostle::sys::perf;
use jostle::target;
use jostle::target::State;
use jostle::target::Target;
use jostle::target::TargetSpec;
use jostle::target::tree;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// Long enough for the slowest machine; nothing is expected to take it.
const PATIENCE: Duration = Duration::from_secs(60);

fn setup() {
    target::set_executable(env!("CARGO_BIN_EXE_jostle"));
}

fn sh(script: &str) -> TargetSpec {
    TargetSpec::Command {
        argv: vec!["sh".into(), "-c".into(), script.into()],
        show_output: false,
    }
}

fn python(script: &str) -> TargetSpec {
    TargetSpec::Command {
        argv: vec!["python3".into(), "-u".into(), "-c".into(), script.into()],
        show_output: false,
    }
}

fn start(spec: &TargetSpec) -> Target {
    setup();
    Target::start(spec, None, None).expect("the target starts")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Living processes with `marker` in their environment.
fn carrying(marker: &str) -> Vec<i32> {
    let ended = |pid: i32| tree::stat(pid).is_none_or(|stat| stat.ended());
    tree::processes()
        .into_iter()
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|entry| entry == marker.as_bytes())
        })
        .filter(|&pid| !ended(pid))
        .collect()
}

fn marker(test: &str) -> String {
    format!("JOSTLE_TEST_MARK={test}-{}", std::process::id())
}

fn message<T>(result: jostle::error::Result<T>, code: u8) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => {
            assert_eq!(error.exit_code(), code, "{error}");
            error.to_string()
        }
    }
}

/// A process that is not ours to end.
struct Stranger(Child);

impl Stranger {
    fn new() -> Stranger {
        let child = Command::new("sleep").arg("1000").spawn();
        let stranger = Stranger(child.expect("sleep starts"));
        eventually("exec is through", || {
            let line = std::fs::read(format!("/proc/{}/cmdline", stranger.pid()));
            line.is_ok_and(|line| line.starts_with(b"sleep"))
        });
        stranger
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    fn stopped(&self) -> bool {
        tree::stat(self.pid()).is_some_and(|stat| stat.stopped())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_command_that_is_not_there_is_named() {
    setup();
    let spec = |argv: &[&str]| TargetSpec::Command {
        argv: argv.iter().map(|word| word.to_string()).collect(),
        show_output: false,
    };
    let text = message(Target::start(&spec(&["no-such-thing-1"]), None, None), 2);
    assert!(text.contains("'no-such-thing-1' not found"), "{text}");
    let text = message(Target::start(&spec(&["/etc/passwd"]), None, None), 2);
    assert!(text.contains("not executable"), "{text}");
    message(Target::start(&spec(&[]), None, None), 2);
    message(Target::start(&spec(&[""]), None, None), 2);
    message(Target::start(&spec(&["true", "a\0b"]), None, None), 2);
}

#[test]
fn an_early_end_shows_status_and_last_words() {
    setup();
    let spec = sh(r"printf 'broken \033 pipe\n' >&2; exit 7");
    let text = message(
        metric::start(&spec, None, &MetricOptions::default(), None),
        3,
    );
    assert!(text.contains("exited with status 7"), "{text}");
    assert!(text.contains("broken \\u{1b} pipe"), "{text}");
    let mut target = start(&sh("kill -9 $$"));
    eventually(
        "the end is seen",
        || matches!(target.state(), State::Exited(exit) if exit.signal == Some(9)),
    );
    let text = message(target.check_alive(), 3);
    assert!(text.contains("SIGKILL"), "{text}");
}

#[test]
fn descendants_end_too_even_daemons() {
    let mark = marker("forks");
    let target = start(&sh(&format!(
        "export {mark}; for i in 1 2 3 4 5; do sleep 1000 & done; \
         setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; \
         exec sh -c 'sleep 1000; true'"
    )));
    eventually("all children run", || carrying(&mark).len() >= 10);
    target.finish();
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn daemons_that_ended_do_not_pile_up() {
    let script = "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; exec sleep 1000";
    let mut target = start(&sh(script));
    eventually("all were started, and reaped", || {
        target.check_alive().unwrap();
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", target.pid()));
        comm.is_ok_and(|comm| comm == "sleep\n") && tree::ended_orphans(target.pid()).is_empty()
    });
}

#[test]
fn sigterm_may_be_ignored() {
    let mark = marker("stubborn");
    let mut target = start(&sh(&format!(
        "trap '' TERM; export {mark}; sh -c 'while :; do sleep 1000; done'"
    )));
    eventually("it runs", || !carrying(&mark).is_empty());
    target.stop().unwrap();
    drop(target);
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn a_group_stops_and_goes_on() {
    let mark = marker("stops");
    let mut target = start(&sh(&format!(
        "export {mark}; setsid sleep 1000 & sleep 1000 & exec sleep 1000"
    )));
    eventually("all run", || carrying(&mark).len() >= 2);
    let stopped = |pid: &i32| tree::stat(*pid).is_some_and(|stat| stat.stopped());
    target.stop().unwrap();
    assert_eq!(target.state(), State::Stopped);
    eventually("everything stands", || carrying(&mark).iter().all(stopped));
    target.cont().unwrap();
    eventually("everything goes on", || {
        !carrying(&mark).iter().any(stopped)
    });
    assert_eq!(target.state(), State::Running);
}

#[test]
fn a_panic_leaves_no_process() {
    let mark = marker("panics");
    let result = std::panic::catch_unwind(|| {
        let mut target = start(&sh(&format!("export {mark}; sh -c 'sleep 1000; true'")));
        eventually("it runs", || !carrying(&mark).is_empty());
        target.stop().unwrap();
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(carrying(&mark), [] as [i32; 0]);
}

#[test]
fn processes_that_cannot_be_targets_are_refused() {
    setup();
    let attach = |pid: i32| Target::start(&TargetSpec::Pid(pid), None, None);
    for (pid, word) in [
        (-5, "not a process id"),
        (0, "not a process id"),
        (1, "init"),
        (i32::MAX, "no such process"),
        (std::process::id() as i32, "jostle itself"),
        (std::os::unix::process::parent_id() as i32, ""),
    ] {
        let text = message(attach(pid), 2);
        assert!(text.contains(word) && text.contains("--pid"), "{text}");
    }
    if tree::stat(2).is_some_and(|stat| stat.flags & 0x0020_0000 != 0) {
        let text = message(attach(2), 2);
        assert!(text.contains("kernel thread"), "{text}");
    }
}

#[test]
fn an_attached_process_is_left_as_found() {
    setup();
    let stranger = Stranger::new();
    let spec = TargetSpec::Pid(stranger.pid());
    let mut target = Target::start(&spec, None, None).unwrap();
    assert_eq!(target.name(), "sleep");
    assert_eq!(target.command(), ["sleep", "1000"]);
    target.stop().unwrap();
    assert!(stranger.stopped());
    target.cont().unwrap();
    assert!(!stranger.stopped());
    message(target.restart(), 2);
    target.stop().unwrap();
    drop(target);
    assert!(!stranger.stopped());
    assert!(tree::stat(stranger.pid()).is_some_and(|stat| !stat.ended()));

    let pid = nix::unistd::Pid::from_raw(stranger.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    eventually("it stands", || stranger.stopped());
    let mut target = Target::start(&spec, None, None).unwrap();
    target.stop().unwrap();
    target.cont().unwrap();
    drop(target);
    assert!(stranger.stopped(), "it was stopped before we came");
}

#[test]
fn the_end_of_an_attached_process_is_seen() {
    setup();
    let stranger = Stranger::new();
    let mut target = Target::start(&TargetSpec::Pid(stranger.pid()), None, None).unwrap();
    drop(stranger);
    let text = message(target.check_alive(), 3);
    assert!(text.contains("sleep ended"), "{text}");
    message(target.stop(), 3);
}

#[test]
fn targets_keep_to_their_cpus() {
    setup();
    let allowed = jostle::sys::cpus::affinity(0).unwrap();
    let first = &allowed[..1];
    let target = Target::start(&sh("exec sleep 1000"), Some(first), None).unwrap();
    assert_eq!(target.cpus().unwrap(), first);
    let spec = TargetSpec::Pid(target.pid());
    drop(Target::start(&spec, Some(first), None).unwrap());
    let text = message(Target::start(&spec, Some(&[]), None), 2);
    assert!(text.contains("taskset"), "{text}");
}

#[test]
#[ignore = "run by a test as another user"]
fn helper_is_refused() {
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Pid(argument.parse().unwrap());
    let text = message(Target::start(&spec, None, None), 2);
    assert!(text.contains("belongs to user"), "{text}");
}

#[test]
fn processes_of_other_users_are_refused() {
    use std::os::unix::process::CommandExt;
    if !nix::unistd::geteuid().is_root() {
        println!("skipped processes_of_other_users_are_refused: needs root to be another user");
        return;
    }
    let stranger = Stranger::new();
    let helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_is_refused", "--ignored"])
        .env("JOSTLE_TEST_ARGUMENT", stranger.pid().to_string())
        .current_dir("/")
        .uid(65534)
        .output();
    match helper {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => println!("skipped processes_of_other_users_are_refused: {error}"),
    }
}

#[test]
fn output_is_shown_on_request_only() {
    // In a process of its own, whose standard error can be read.
    for (show, expected) in [("yes", true), ("no", false)] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_shows_output", "--ignored", "--nocapture"])
            .env("JOSTLE_TEST_ARGUMENT", show)
            .output()
            .unwrap();
        assert!(output.status.success());
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stdout.contains("to-stdout"), "{stdout}");
        assert_eq!(stderr.contains("to-stdout"), expected, "{stderr}");
        assert_eq!(stderr.contains("to-stderr"), expected, "{stderr}");
    }
}

#[test]
#[ignore = "run by a test that reads its output"]
fn helper_shows_output() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Command {
        argv: ["sh", "-c", "echo to-stdout; echo to-stderr >&2"]
            .map(String::from)
            .to_vec(),
        show_output: argument == "yes",
    };
    let mut target = Target::start(&spec, None, None).unwrap();
    assert!(target.wait(PATIENCE).is_some());
    assert!(target.stderr_tail().contains("to-stderr"));
}

/// Runs test `name` of this file, an ignored one, as a process of its own.
fn helper(name: &str, argument: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("JOSTLE_TEST_ARGUMENT", argument)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "run by a test that kills it"]
fn helper_stops_a_process() {
    setup();
    let Ok(argument) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let spec = TargetSpec::Pid(argument.parse().unwrap());
    let mut target = Target::start(&spec, None, None).unwrap();
    target.stop().unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
#[ignore = "run by a test that kills it"]
fn helper_starts_a_group() {
    let Ok(mark) = std::env::var("JOSTLE_TEST_ARGUMENT") else {
        return;
    };
    let mut target = start(&sh(&format!(
        "export {mark}; setsid sleep 1000 & sleep 1000 & exec sleep 1000"
    )));
    eventually("all run", || carrying(&mark).len() >= 2);
    target.stop().unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_killed_profiler_leaves_no_process_stopped() {
    let stranger = Stranger::new();
    let mut profiler = helper("helper_stops_a_process", &stranger.pid().to_string());
    eventually("it is stopped", || stranger.stopped());
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    eventually("it goes on", || !stranger.stopped());
    assert!(tree::stat(stranger.pid()).is_some_and(|stat| !stat.ended()));
}

#[test]
fn a_killed_profiler_takes_its_target_along() {
    let mark = marker("orphans");
    let mut profiler = helper("helper_starts_a_group", &mark);
    let stopped = |pid: &i32| tree::stat(*pid).is_some_and(|stat| stat.stopped());
    eventually("it runs and stands", || {
        let processes = carrying(&mark);
        processes.len() >= 2 && processes.iter().all(stopped)
    });
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    eventually("all are gone", || carrying(&mark).is_empty());
}

fn impatient() -> MetricOptions {
    MetricOptions {
        print_timeout: Duration::from_millis(700),
        trial: Duration::from_millis(700),
        ..Default::default()
    }
}

fn read_stdout(
    spec: &TargetSpec,
    pattern: &str,
    options: &MetricOptions,
) -> jostle::error::Result<f64> {
    setup();
    let (mut target, mut metric) =
        metric::start(spec, Some(&format!("stdout:{pattern}")), options, None)?;
    metric.begin(&mut target)?;
    metric.end(&mut target)
}

#[test]
fn printed_numbers_are_read() {
    let level = sh(r"while :; do printf 'rate 1,250.5 per s\n'; sleep 0.01; done");
    let options = MetricOptions::default();
    let value = read_stdout(&level, r"rate ([0-9.,]+)", &options).unwrap();
    assert_eq!(value, 1250.5);
    let options = MetricOptions {
        direction: Direction::Lower,
        ..Default::default()
    };
    let value = read_stdout(&level, r"rate ([0-9.,]+)", &options).unwrap();
    assert_eq!(value, 1.0 / 1250.5);
    let total = sh(r"i=0; while :; do i=$((i+10)); printf 'total %d\r' $i; sleep 0.01; done");
    let options = MetricOptions {
        kind: StdoutKind::Rate,
        ..Default::default()
    };
    let rate = read_stdout(&total, r"total (\d+)", &options).unwrap();
    assert!(rate > 0.0 && rate < 1000.5, "{rate}");
}

#[test]
fn output_without_the_number_is_explained() {
    let options = impatient();
    let text = message(read_stdout(&sh("sleep 1000"), r"(\d+)", &options), 2);
    assert!(text.contains("printed nothing"), "{text}");
    let line = sh("while :; do echo hello; sleep 0.01; done");
    let text = message(read_stdout(&line, r"(\d+)", &options), 2);
    assert!(text.contains("was 'hello'"), "{text}");
    let text = message(read_stdout(&line, r"(h\w+)", &options), 2);
    assert!(text.contains("never held a number"), "{text}");
    let text = message(read_stdout(&line, r"\d+", &options), 2);
    assert!(text.contains("needs a group"), "{text}");
    let unfinished = sh("while :; do printf 12; sleep 0.01; done");
    let text = message(read_stdout(&unfinished, r"(\d+)", &options), 2);
    assert!(text.contains("no whole line"), "{text}");
    let text = message(read_stdout(&sh("echo 1; exit 3"), r"(\d+)", &options), 3);
    assert!(text.contains("status 3"), "{text}");
}

#[test]
fn binary_and_floods_do_no_harm() {
    let garbage = python(
        "import os,time\nwhile True:\n os.write(1, os.urandom(3000)+b'\\nx=5\\n')\n os.write(2, os.urandom(3000))\n time.sleep(0.01)",
    );
    let value = read_stdout(&garbage, r"(?-u)^x=(\d+)$", &MetricOptions::default()).unwrap();
    assert_eq!(value, 5.0);
    let flood = python("import os\nb=b'x=5\\n'*16000\nwhile True: os.write(1, b)");
    let value = read_stdout(&flood, r"x=(\d+)", &MetricOptions::default()).unwrap();
    assert_eq!(value, 5.0);
}

#[test]
fn demos_tell_their_progress_and_die_with_their_target() {
    setup();
    for name in ["quiet", "cpu-time", "l1d", "kv"] {
        let spec = TargetSpec::Demo {
            name: name.into(),
            options: vec![],
        };
        let options = MetricOptions::default();
        let (mut target, mut metric) = metric::start(&spec, None, &options, None).unwrap();
        let pid = target.pid();
        metric.begin(&mut target).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(metric.end(&mut target).unwrap() > 0.0, "{name}");
        assert_eq!(metric.facts().name, "progress");
        assert!(metric.facts().chosen_because.contains("demo"));
        target.restart().unwrap();
        metric.begin(&mut target).unwrap();
        assert!(metric.end(&mut target).unwrap() >= 0.0, "{name} again");
        drop(target);
        assert!(tree::stat(pid).is_none_or(|stat| stat.ended()));
    }
    let wrong = TargetSpec::Demo {
        name: "kw".into(),
        options: vec![],
    };
    let text = message(Target::start(&wrong, None, None), 2);
    assert!(text.contains("did you mean kv?"), "{text}");
}

#[test]
fn progress_of_a_foreign_process_is_found() {
    setup();
    // Any program may publish: here one written in another language.
    let publisher = "import fcntl,mmap,os,struct,time
f=os.memfd_create('jostle-progress', os.MFD_ALLOW_SEALING)
os.ftruncate(f, 4096)
fcntl.fcntl(f, 1033, 1|2|4)
m=mmap.mmap(f, 4096)
m[8:16]=struct.pack('=Q', 1)
m[0:8]=struct.pack('=Q', 0x4a4f53544c455047)
n=0
while True:
 n+=1
 m[16:24]=struct.pack('=Q', n)
 time.sleep(0.001)";
    let child = Command::new("python3").args(["-c", publisher]).spawn();
    let stranger = Stranger(child.unwrap());
    eventually("the page is there", || {
        matches!(target::Progress::find(stranger.pid()), Ok(Some(_)))
    });
    let spec = TargetSpec::Pid(stranger.pid());
    let options = MetricOptions::default();
    let (mut target, mut metric) = metric::start(&spec, None, &options, None).unwrap();
    metric.begin(&mut target).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let performance = metric.end(&mut target).unwrap();
    assert!(performance > 0.0 && performance < 1100.0, "{performance}");
    assert_eq!(metric.facts().unit, "operations per second");
}

#[test]
fn runs_are_timed() {
    setup();
    let options = MetricOptions::default();
    let (mut target, mut metric) = metric::start(&sh("sleep 0.1"), None, &options, None).unwrap();
    assert_eq!(metric.facts().name, "runs");
    assert!(metric.one_run_per_window());
    for _ in 0..2 {
        metric.begin(&mut target).unwrap();
        // Coming late must not make the run longer.
        std::thread::sleep(Duration::from_millis(400));
        let performance = metric.end(&mut target).unwrap();
        let seconds = metric.in_unit(performance);
        assert!(
            (0.1..PATIENCE.as_secs_f64()).contains(&seconds),
            "{seconds}"
        );
    }
    target.keep_running().unwrap();
    eventually("it runs again", || target.state() == State::Running);
}

#[test]
fn failing_and_endless_runs_are_errors() {
    setup();
    let options = MetricOptions {
        run_timeout: Duration::from_millis(300),
        ..Default::default()
    };
    let run = |spec: &TargetSpec| {
        let (mut target, mut metric) = metric::start(spec, Some("runs"), &options, None)?;
        metric.begin(&mut target)?;
        metric.end(&mut target)
    };
    let text = message(run(&sh("echo no luck >&2; exit 4")), 3);
    assert!(text.contains("status 4"), "{text}");
    let text = message(run(&sh("exec sleep 1000")), 2);
    assert!(text.contains("--run-timeout"), "{text}");
}

#[test]
fn without_a_pmu_other_metrics_are_named() {
    setup();
    if perf::why_no_instructions().is_none() {
        println!("skipped without_a_pmu_other_metrics_are_named: this machine has a PMU");
        return;
    }
    let spec = sh("exec sleep 1000");
    let text = message(metric::start(&spec, Some("ips"), &impatient(), None), 3);
    assert!(
        text.contains("stdout:REGEX") && text.contains("runs"),
        "{text}"
    );
    let text = message(metric::start(&spec, None, &impatient(), None), 3);
    assert!(text.contains("still running"), "{text}");
    let stranger = Stranger::new();
    let spec = TargetSpec::Pid(stranger.pid());
    let text = message(metric::start(&spec, None, &impatient(), None), 3);
    assert!(text.contains("publishes no progress"), "{text}");
}

#[test]
fn with_a_pmu_instructions_are_counted() {
    setup();
    if let Some(reason) = perf::why_no_instructions() {
        println!("skipped with_a_pmu_instructions_are_counted: {reason}");
        return;
    }
    let spec = sh("while :; do :; done");
    let (mut target, mut metric) =
        metric::start(&spec, Some("ips"), &MetricOptions::default(), None).unwrap();
    metric.begin(&mut target).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(metric.end(&mut target).unwrap() > 0.0);
}

#[test]
fn metrics_that_do_not_fit_the_target_are_refused() {
    setup();
    let stranger = Stranger::new();
    let pid = TargetSpec::Pid(stranger.pid());
    let options = MetricOptions::default();
    for name in ["runs", "stdout:(x)", "speed"] {
        let text = message(metric::start(&pid, Some(name), &options, None), 2);
        assert!(text.contains("--metric"), "{text}");
    }
    options
        .interrupt
        .store(true, std::sync::atomic::Ordering::Relaxed);
    message(metric::start(&sh("sleep 9"), None, &options, None), 130);
}

#[test]
fn the_demo_command_lists_and_refuses() {
    let jostle = || assert_cmd::Command::new(env!("CARGO_BIN_EXE_jostle"));
    let listed = jostle().args(["demo", "--list"]).assert().success();
    let listed = String::from_utf8_lossy(&listed.get_output().stdout).into_owned();
    assert_eq!(listed.lines().count(), target::demo::DEMOS.len());
    let wrong = jostle().args(["demo", "quite"]).assert().code(2);
    let wrong = String::from_utf8_lossy(&wrong.get_output().stderr).into_owned();
    assert!(wrong.contains("did you mean quiet?"), "{wrong}");
    jostle()
        .args(["demo", "quiet", "--for", "-1"])
        .assert()
        .code(2);
    jostle()
        .args(["demo", "quiet", "--for", "0.05"])
        .assert()
        .success();
    let guard = ["guard", "--page", "99", "--marker", "x"];
    jostle().args(guard).assert().code(2);
    let memory = ["demo", "storage", "--scratch", "/dev/shm", "--for", "0.1"];
    if std::path::Path::new("/dev/shm").is_dir() {
        let refused = jostle().args(memory).assert().code(3);
        let refused = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(refused.contains("--scratch"), "{refused}");
    }
}
