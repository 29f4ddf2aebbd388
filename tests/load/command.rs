//! The commands, as a person types them.

use crate::common::eventually;
use crate::common::skip::have;
use crate::servers::redis;
use crate::support::Act;
use crate::support::Fake;
use crate::support::Speaks;
use crate::support::VALUE;
use crate::support::free_port;
use serde_json::Value;
use std::process::Command;
use std::process::Output;

fn jostle(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jostle"))
        .args(words.split_whitespace())
        .output()
        .expect("jostle runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_load_tells_what_it_sent_and_how_late() {
    let fake = Fake::start(Speaks::Redis, |_| Act::Say(VALUE.into()));
    let url = format!("redis://127.0.0.1:{}", fake.port);
    let common = format!("load {url} --prefill=no --reads 100 --connections 4");
    let told = json(&jostle(&format!(
        "{common} --rate 500/s --for 1s --slo 1s --json"
    )));
    assert_eq!(told["requested_per_second"], 500.0);
    let due = told["requests_due"].as_u64().unwrap();
    assert!((300..700).contains(&due), "{due}");
    assert_eq!(told["successes"].as_u64(), Some(due));
    for at in ["p50", "p90", "p99", "p99.9", "max"] {
        assert!(
            told["latency"][at]["seconds"].as_f64().unwrap() > 0.0,
            "{at}"
        );
    }
    assert!(told["timing_error"]["p99_seconds"].as_f64().is_some());
    assert!(told["load"]["generator_cpu_percent"].as_f64().unwrap() > 0.0);
    assert_eq!(told["goodput"]["met"], true);
    let closed = jostle(&format!("{common} --closed --for 500ms"));
    let text = String::from_utf8_lossy(&closed.stdout).into_owned();
    assert!(
        text.contains("closed loop") && text.contains("failures   none"),
        "{text}"
    );
    // A target that is missed fails the gate.
    let missed = jostle(&format!("{common} --rate 200/s --for 500ms --slo p50:1us"));
    assert_eq!(missed.status.code(), Some(1), "{}", stderr(&missed));
}

#[test]
fn wrong_requests_are_told_by_flag_and_fix() {
    let port = free_port();
    let redis = format!("redis://127.0.0.1:{port}");
    for (words, code, expected) in [
        (format!("load {redis}"), 2, "--rate"),
        ("load ftp://x --rate 5".into(), 2, "not supported"),
        (format!("load {redis} --rate 0"), 2, "rate"),
        (format!("load {redis} --rate 5 --keys 0"), 2, "--keys"),
        (format!("load {redis} --rate 5 --zipf=-1"), 2, "--zipf"),
        (
            format!("load {redis} --rate 5 --connections 0"),
            2,
            "--connections",
        ),
        (format!("load {redis} --closed --ramp 1s"), 2, "--ramp"),
        (format!("load {redis} --find-capacity"), 2, "--slo"),
        (format!("load {redis} --rate 5 --slo p99"), 2, "--slo"),
        ("load http://h/ --rate 5 --keys 5".into(), 2, "{key}"),
        ("load http://h/ --rate 5 --reads 5".into(), 2, "--reads"),
        (
            format!("load {redis} --rate 5 --connect-timeout 100ms"),
            3,
            "nobody listens",
        ),
        (format!("profile --load {redis} --demo quiet"), 2, "--rate"),
        ("profile --rate 5 --demo quiet".into(), 2, "--load"),
        ("profile --connections 5 --demo quiet".into(), 2, "--load"),
        (
            "profile --metric latency:p99 --demo quiet --quick".into(),
            2,
            "--load",
        ),
        (
            format!("profile --metric latency:p99 --demo quiet --load {redis} --closed"),
            2,
            "--rate",
        ),
    ] {
        let output = jostle(&words);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {text}");
        assert!(text.contains(expected), "{words}: {text}");
        assert!(!text.contains("panicked"), "{words}: {text}");
    }
}

#[test]
#[ignore = "full tier: starts a server"]
fn a_running_server_is_profiled_under_load() {
    let Some(server) = redis() else { return };
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("redis.json");
    let words = format!(
        "profile --pid {} --load redis://127.0.0.1:{} --rate 1000/s --keys 100 --metric latency:p50 \
         --resources cpu-time --budget 12s --json --out {}",
        server.pid(),
        server.port,
        out.display()
    );
    let profile = json(&jostle(&words));
    assert_eq!(profile["metric"]["name"], "latency:p50");
    assert_eq!(profile["metric"]["unit"], "seconds");
    assert_eq!(profile["metric"]["direction"], "lower");
    let baseline = profile["metric"]["baseline"]["value"].as_f64().unwrap();
    assert!((1e-6..0.5).contains(&baseline), "{baseline}");
    let load = &profile["metric"]["load"];
    assert_eq!(load["rate_per_second"], 1000.0);
    assert!(load["timing_error_p99_us"].as_f64().unwrap() > 0.0);
    assert!(load["generator_cpu_percent"].as_f64().unwrap() > 0.0);
    // It still runs, and still answers.
    let again = jostle(&format!(
        "load redis://127.0.0.1:{} --closed --for 200ms",
        server.port
    ));
    assert!(again.status.success(), "{}", stderr(&again));
}

#[test]
#[ignore = "full tier: starts a server"]
fn a_server_that_is_the_command_is_waited_for_and_ended() {
    let version = Command::new("redis-server").arg("--version").output();
    if have("redis", version).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let words = format!(
        "profile --load redis://127.0.0.1:{port} --closed --keys 100 --resources cpu-time \
         --budget 10s --json --out {0}/p.json -- redis-server --port {port} --bind 127.0.0.1 \
         --dir {0} --appendonly no",
        directory.path().display()
    );
    let profile = json(&jostle(&words));
    assert_eq!(profile["metric"]["name"], "throughput");
    assert_eq!(profile["metric"]["load"]["arrivals"], "closed");
    assert!(profile["metric"]["baseline"]["value"].as_f64().unwrap() > 100.0);
    let curve = profile["resources"]["cpu-time"]["curve"].as_array();
    let full = curve.and_then(|curve| curve.last()).expect("a curve");
    assert!(full["windows"].as_u64() >= Some(4), "{full}");
    eventually("the server is gone", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}
