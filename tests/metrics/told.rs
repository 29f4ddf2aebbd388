//! Files and probe commands.

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::impatient;
use crate::common::message;
use crate::common::sh;
use crate::support::start;
use crate::support::window;
use jostle_measure::metric::MetricOptions;
use jostle_measure::metric::StdoutKind;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::TargetSpec;
use jostle_profile::Direction;
use std::time::Duration;
use std::time::Instant;

#[test]
fn a_log_is_read_while_it_is_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("app.log");
    std::fs::write(&log, "old 99 req/s\n").unwrap();
    let script = format!(
        "i=0; while :; do i=$((i+1)); echo \"now 50 req/s\" >> {0}; \
         if [ $((i % 20)) = 0 ]; then mv {0} {0}.1; fi; \
         if [ $((i % 33)) = 0 ]; then : > {0}; fi; sleep 0.01; done",
        log.display()
    );
    let request = format!("file:{}:([0-9.]+) req/s", log.display());
    let mut started = start(&sh(&script), &request, &MetricOptions::default()).unwrap();
    for _ in 0..3 {
        assert_eq!(
            window(&mut started, Duration::from_millis(400)).unwrap(),
            50.0
        );
    }
    assert!(started.1.natural_window().is_some());
}

#[test]
fn a_status_file_that_is_written_anew_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let status = directory.path().join("status");
    // A running total, in a file that never grows.
    let script = format!(
        "i=1000; while :; do i=$((i+1)); echo \"served $i\" > {0}; sleep 0.05; done",
        status.display()
    );
    let request = format!(r"file:{}:served (\d+)", status.display());
    let options = MetricOptions {
        kind: StdoutKind::Rate,
        ..Default::default()
    };
    let mut started = start(&sh(&script), &request, &options).unwrap();
    let rate = window(&mut started, Duration::from_millis(500)).unwrap();
    assert!(rate > 0.0 && rate < 21.0, "{rate}");
}

#[test]
fn files_that_cannot_serve_are_explained() {
    let spec = sh("exec sleep 1000");
    let ask = |path: &str| {
        message(
            start(&spec, &format!(r"file:{path}:(\d+)"), &impatient()),
            2,
        )
    };
    let text = ask("/nonexistent/log");
    assert!(text.contains("there is no file /nonexistent/log"), "{text}");
    assert!(ask("/tmp").contains("not an ordinary file"));
    let still = tempfile::NamedTempFile::new().unwrap();
    let text = ask(&still.path().to_string_lossy());
    assert!(text.contains("nothing was added"), "{text}");
    let garbage = tempfile::tempdir().unwrap();
    let file = garbage.path().join("garbage");
    let script = format!(
        "while :; do head -c 5000 /dev/urandom >> {}; sleep 0.01; done",
        file.display()
    );
    let request = format!(r"file:{}:served (\d+)", file.display());
    let text = message(start(&sh(&script), &request, &impatient()), 2);
    assert!(
        text.contains("no line matched") && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn a_target_that_dies_ends_the_waiting_at_once() {
    let options = MetricOptions {
        print_timeout: PATIENCE * 10,
        probe_timeout: PATIENCE * 10,
        trial: PATIENCE * 10,
        ..Default::default()
    };
    let dies = sh("sleep 0.3; echo good bye >&2; exit 9");
    let begin = Instant::now();
    for request in [
        r"file:/nonexistent/log:(\d+)",
        "exec:sleep 1000",
        "prometheus:http://127.0.0.1:1/metrics:x_total",
    ] {
        let text = message(start(&dies, request, &options), 3);
        assert!(
            text.contains("status 9") && text.contains("good bye"),
            "{request}: {text}"
        );
    }
    assert!(begin.elapsed() < PATIENCE);
}

#[test]
fn a_probe_is_run_once_per_reading() {
    // Started without a shell: the first probe would otherwise race with its exec.
    let spec = TargetSpec::Command(CommandSpec::new(["sleep", "1000"]));
    let options = MetricOptions {
        direction: Direction::Lower,
        ..Default::default()
    };
    let mut started = start(&spec, "exec:echo 4", &options).unwrap();
    assert_eq!(window(&mut started, Duration::ZERO).unwrap(), 0.25);
    let request = r"exec:tr '\0' ' ' < /proc/$JOSTLE_PID/cmdline | cut -d' ' -f2";
    let mut started = start(&spec, request, &MetricOptions::default()).unwrap();
    assert_eq!(window(&mut started, Duration::ZERO).unwrap(), 1000.0);
    // A total of milliseconds grows by about a thousand per second.
    let options = MetricOptions {
        kind: StdoutKind::Rate,
        ..Default::default()
    };
    let mut started = start(&spec, "exec:date +%s%3N", &options).unwrap();
    let rate = window(&mut started, Duration::from_millis(500)).unwrap();
    assert!(rate > 300.0 && rate < 3000.0, "{rate}");
}

#[test]
fn a_running_total_that_is_read_as_a_level_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let count = format!(
        "i=0; while :; do i=$((i+1)); echo total $i level $((i%2)) | tee -a {}; sleep 0.02; done",
        log.display()
    );
    // A busy machine reads few numbers in a window.
    let warnings = |request: &str, kind: StdoutKind, windows: usize| {
        let options = MetricOptions {
            kind,
            probe_interval: Duration::from_millis(20),
            ..Default::default()
        };
        let mut started = start(&sh(&count), request, &options).unwrap();
        let mut warnings = Vec::new();
        for _ in 0..windows {
            window(&mut started, Duration::from_millis(400)).unwrap();
            warnings = started.1.warnings();
            if !warnings.is_empty() {
                break;
            }
        }
        warnings.iter().map(|it| it.facts()).collect::<Vec<_>>()
    };
    let log = log.display();
    for request in [
        r"stdout:total (\d+)",
        &format!(r"file:{log}:total (\d+)"),
        &format!("exec:grep -c total {log}"),
    ] {
        let said = warnings(request, StdoutKind::Value, 20);
        assert_eq!(said.len(), 1, "{request}: {said:?}");
        assert_eq!(said[0].code, "read-total-as-value");
        assert!(said[0].message.contains("--kind rate"), "{said:?}");
        assert_eq!(warnings(request, StdoutKind::Rate, 1), [], "{request}");
    }
    assert_eq!(warnings(r"stdout:level (\d+)", StdoutKind::Value, 1), []);
}

#[test]
fn probes_that_misbehave_are_explained() {
    let spec = sh("exec sleep 1000");
    let options = MetricOptions {
        probe_timeout: Duration::from_secs(1),
        ..Default::default()
    };
    for (probe, words) in [
        ("sleep 1000", "--probe-timeout"),
        ("yes", "more than 64 KiB"),
        ("echo nan", "must be finite"),
        ("echo fast", "'fast', which is not one number"),
        ("true", "printed nothing"),
        ("echo broken >&2; exit 5", "broken"),
        ("echo -3", "must be positive"),
    ] {
        let request = format!("exec:{probe}");
        let asked = start(&spec, &request, &options);
        let text = message(
            asked.and_then(|mut started| window(&mut started, Duration::ZERO)),
            2,
        );
        assert!(text.contains(words), "{probe}: {text}");
    }
}

#[test]
fn a_probe_that_fails_later_is_told_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let number = directory.path().join("number");
    std::fs::write(&number, "5\n").unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let spec = TargetSpec::Pid(child.id() as i32);
    eventually("exec is through", || {
        std::fs::read(format!("/proc/{}/cmdline", child.id()))
            .is_ok_and(|line| line.starts_with(b"sleep"))
    });
    let request = format!("exec:cat {}", number.display());
    let mut started = start(&spec, &request, &MetricOptions::default()).unwrap();
    assert_eq!(window(&mut started, Duration::ZERO).unwrap(), 5.0);
    std::fs::remove_file(number).unwrap();
    let text = message(window(&mut started, Duration::ZERO), 3);
    assert!(text.contains("No such file"), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
    let text = message(window(&mut started, Duration::ZERO), 3);
    assert!(text.contains("ended"), "{text}");
}
