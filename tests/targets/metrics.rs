//! Metrics, against targets that print, publish, end, or do none of it.

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::impatient;
use crate::common::message;
use crate::common::python;
use crate::common::sh;
use crate::common::skip::lacks;
use crate::common::skip::skip;
use crate::support::Stranger;
use crate::support::setup;
use jostle_host::sys::perf;
use jostle_measure::metric;
use jostle_measure::metric::MetricOptions;
use jostle_measure::metric::StdoutKind;
use jostle_measure::workload;
use jostle_measure::workload::State;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::tree;
use jostle_profile::Direction;
use std::process::Command;
use std::time::Duration;

fn read_stdout(
    spec: &TargetSpec,
    pattern: &str,
    options: &MetricOptions,
) -> jostle_measure::error::Result<f64> {
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
        // A busy machine may leave it no time in one of them.
        let progress = (0..20).any(|_| {
            metric.begin(&mut target).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            metric.end(&mut target).unwrap() > 0.0
        });
        assert!(progress, "{name}");
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
        matches!(workload::Progress::find(stranger.pid()), Ok(Some(_)))
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
        return skip("no-pmu", "this machine has a PMU");
    }
    let spec = sh("exec sleep 1000");
    let text = message(metric::start(&spec, Some("ips"), &impatient(), None), 3);
    assert!(text.contains("stdout:") && text.contains("runs"), "{text}");
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
    if lacks("pmu", perf::why_no_instructions()) {
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
    let start = metric::Start::default();
    start
        .interrupt
        .store(true, std::sync::atomic::Ordering::Relaxed);
    message(metric::start_warm(&sh("sleep 9"), start, |_| Ok(())), 130);
}

#[test]
fn the_demo_command_lists_and_refuses() {
    let jostle = || assert_cmd::Command::new(env!("CARGO_BIN_EXE_jostle"));
    let listed = jostle().args(["demo", "--list"]).assert().success();
    let listed = String::from_utf8_lossy(&listed.get_output().stdout).into_owned();
    assert_eq!(listed.lines().count(), workload::demo::DEMOS.len());
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
    let guard = ["guard", "--page", "99"];
    jostle().args(guard).assert().code(2);
    let memory = ["demo", "storage", "--scratch", "/dev/shm", "--for", "0.1"];
    if std::path::Path::new("/dev/shm").is_dir() {
        let refused = jostle().args(memory).assert().code(3);
        let refused = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(refused.contains("--scratch"), "{refused}");
    }
}
