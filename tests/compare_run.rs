//! `jostle compare --run`: a planted change is found, and bad commands are refused with
//! the fix.

mod common;

use crate::common::alone;
use assert_cmd::Command;
use serde_json::Value;
use std::time::Duration;

fn compare(old: &str, new: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
    command.args(["compare", "--run", old, new]).args(more);
    let output = command.timeout(Duration::from_secs(120)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A loop of the shell that ends by itself.
fn counting_to(number: u32) -> String {
    format!("sh -c 'i=0; while [ $i -lt {number} ]; do i=$((i+1)); done'")
}

#[test]
#[ignore = "full tier: takes long"]
fn half_as_much_work_again_is_slower_and_fails_the_build() {
    let _alone = alone();
    let (old, new) = (counting_to(20_000), counting_to(30_000));
    let (code, page, stderr) = compare(&old, &new, &["--budget", "8s", "--format", "json"]);
    assert_eq!(code, Some(1), "{page}{stderr}");
    let found: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(found["format"], "jostle-builds/1");
    assert_eq!(found["metric"]["old"], "runs");
    assert_eq!(found["verdict"]["word"], "slower");
    // Starting the shell takes its share, so it is not all of the third.
    let high = found["speed"]["interval"][1].as_f64().unwrap();
    assert!(high < -5.0, "{page}");
    // Faster the other way round, which no gate minds.
    let (code, page, _) = compare(&new, &old, &["--budget", "8s", "--fail-below", "5"]);
    assert_eq!(code, Some(0), "{page}");
    assert!(
        page.starts_with("NEW is ") && page.contains("% faster than OLD"),
        "{page}"
    );
}

#[test]
fn a_published_count_tells_how_fast_builds_are_that_run_on() {
    let _alone = alone();
    let jostle = assert_cmd::cargo::cargo_bin!("jostle")
        .display()
        .to_string();
    let demo = format!("'{jostle}' demo quiet");
    let (code, page, stderr) = compare(&demo, &demo, &["--budget", "8s", "--format", "json"]);
    // One claim in a hundred is promised of equal builds.
    assert!(matches!(code, Some(0 | 1)), "{page}{stderr}");
    let found: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(found["metric"]["old"], "progress");
    assert_eq!(found["warnings"][0]["code"], "same-command");
    let starts = found["starts"].as_array().unwrap();
    assert!(starts.len() >= 3, "{page}");
    for start in starts {
        assert!(start["old"].as_f64().unwrap() > 1e3, "{page}");
        let change = start["change_percent"].as_f64().unwrap();
        assert!((-95.0..2000.0).contains(&change), "{page}");
    }
}

#[test]
fn commands_that_cannot_be_compared_are_refused_with_the_fix() {
    for (old, new, code, said) in [
        (
            "no-such-program-1",
            "true",
            2,
            "OLD: command 'no-such-program-1' not found",
        ),
        (
            "true",
            "false",
            3,
            "NEW: the target false exited with status 1",
        ),
        ("a | b", "true", 2, "write sh -c"),
        ("true 'a", "true", 2, "is not closed"),
        ("A=1", "true", 2, "names no program"),
        (
            "sleep 60",
            "true",
            2,
            "NEW ends by itself and OLD was still running",
        ),
    ] {
        let (found, page, stderr) = compare(old, new, &["--budget", "3s"]);
        assert_eq!(found, Some(code), "{old}: {page}{stderr}");
        assert!(stderr.contains(said), "{old}: {stderr}");
    }
    for (more, said) in [
        (["--budget", "1s"], "--budget"),
        (["--fail-if", "l1d.loss > +5"], "speed < -1"),
    ] {
        let (found, _, stderr) = compare("true", "true", &more);
        assert_eq!(found, Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}
