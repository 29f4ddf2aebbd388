//! Progress that programs publish by `JOSTLE_PROGRESS`, in C, Rust and Python.

#[path = "../../crates/progress/src/lib.rs"]
mod rust_publisher;

use crate::common::compiled;
use crate::common::eventually;
use crate::common::has_python;
use crate::common::impatient;
use crate::common::message;
use crate::common::python;
use crate::common::sh;
use crate::support::program;
use crate::support::start;
use crate::support::start_on;
use crate::support::window;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::TargetSpec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SHM: &str = "progress:shm";

/// Publishes 7 operations per millisecond slept, of which its child does 4, and
/// ends after a second when it is told to.
const PUBLISHER: &str = r#"
#include "jostle_progress.h"
int main(int count, char **words) {
    jostle_open();
    unsigned each = fork() ? 3 : 4;
    for (int i = 0; count == 1 || i < 900; i++) { usleep(1000); jostle_add(each); }
    (void)words;
    return 0;
}
"#;

fn publisher(directory: &Path) -> Option<std::path::PathBuf> {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = [include, "-Wall", "-Wextra", "-Werror"];
    compiled(directory, "publisher", PUBLISHER, &flags)
}

/// About a thousand sleeps of 1 ms per second, or far fewer on a busy machine.
fn plausible(rate: f64, each: f64) {
    assert!(rate > 50.0 * each && rate < 1100.0 * each, "{rate}");
}

#[test]
fn a_c_program_and_its_child_publish() {
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = publisher(directory.path()) else {
        return;
    };
    let mut started = start(&program(&file), SHM, &MetricOptions::default()).unwrap();
    assert_eq!(started.1.facts().name, SHM);
    assert!(started.1.turns().is_some());
    plausible(
        window(&mut started, Duration::from_millis(400)).unwrap(),
        7.0,
    );
    // It is found without being asked for.
    let options = MetricOptions::default();
    let (_target, metric) = start_on(&program(&file), None, &options, None).unwrap();
    assert_eq!(metric.facts().name, SHM);
}

#[test]
fn counts_go_on_from_run_to_run() {
    let directory = tempfile::tempdir().unwrap();
    let Some(file) = publisher(directory.path()) else {
        return;
    };
    let spec = sh(&format!("exec {} ends", file.display()));
    let mut started = start(&spec, SHM, &MetricOptions::default()).unwrap();
    assert!(started.1.restarts());
    let mut pids = vec![started.0.pid()];
    eventually("three runs were seen", || {
        let rate = window(&mut started, Duration::from_millis(300)).unwrap();
        assert!(rate < 7700.0, "{rate}");
        pids.push(started.0.pid());
        pids.dedup();
        pids.len() >= 3
    });
}

/// What docs/progress.md tells to put into a Python program.
fn snippet() -> &'static str {
    let text = include_str!("../../docs/progress.md");
    let begin = text.find("```python\n").unwrap() + "```python\n".len();
    &text[begin..][..text[begin..].find("```").unwrap()]
}

#[test]
fn the_snippet_in_python_publishes() {
    if !has_python() {
        return;
    }
    let snippet = snippet();
    let rest = "import time\np = Progress()\nwhile True:\n    time.sleep(0.001)\n    p.add(3)\n";
    let spec = python(&format!("{snippet}\n{rest}"));
    let mut started = start(&spec, SHM, &MetricOptions::default()).unwrap();
    plausible(
        window(&mut started, Duration::from_millis(400)).unwrap(),
        3.0,
    );
}

#[test]
fn the_snippet_in_python_never_goes_backwards() {
    if !has_python() {
        return;
    }
    let snippet = snippet();
    let spec = python(&format!(
        "{snippet}\np = Progress()\nwhile True:\n    p.add()\n"
    ));
    let mut started = start(&spec, SHM, &MetricOptions::default()).unwrap();
    for _ in 0..500 {
        window(&mut started, Duration::from_millis(1)).unwrap();
    }
}

/// A target that sleeps, whose environment names `page`.
fn sleeper(page: &Path) -> TargetSpec {
    let mut command = CommandSpec::new(["sleep", "1000"]);
    let page = page.to_string_lossy().into_owned();
    command.environment = vec![(rust_publisher::VARIABLE.into(), page)];
    TargetSpec::Command(command)
}

#[test]
fn the_function_in_rust_publishes() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page");
    let progress = rust_publisher::Progress::in_file(&page).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                progress.add(5);
            }
        });
        // This process has no such file.
        rust_publisher::Progress::open().add(1_000_000);
        let rate = start(&sleeper(&page), SHM, &MetricOptions::default())
            .and_then(|mut started| window(&mut started, Duration::from_millis(400)));
        over.store(true, Relaxed);
        plausible(rate.unwrap(), 5.0);
    });
}

#[test]
fn pages_that_shrink_lie_or_go_backwards_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page");
    rust_publisher::Progress::in_file(&page).unwrap().add(1000);
    let file = File::options().write(true).open(&page).unwrap();
    let put = |index: u64, word: u64| file.write_all_at(&word.to_ne_bytes(), index * 8).unwrap();
    let spec = sleeper(&page);
    let mut started = start(&spec, SHM, &impatient()).unwrap();
    let mut follow = || {
        let (target, metric) = &mut started;
        message(metric.follow(target), 3)
    };
    put(2, 500);
    let text = follow();
    assert!(text.contains("went backwards, from 1000 to 500"), "{text}");
    put(4, 9);
    let text = follow();
    assert!(text.contains("its clock is 9"), "{text}");
    put(0, 1);
    let text = follow();
    assert!(text.contains("starts with 0x"), "{text}");
    file.set_len(10).unwrap();
    let text = follow();
    assert!(text.contains("10 bytes instead of 64"), "{text}");
    let text = message(start_on(&spec, Some(SHM), &impatient(), None), 3);
    assert!(text.contains("10 bytes instead of 64"), "{text}");
    file.set_len(0).unwrap();
    let text = message(start_on(&spec, Some(SHM), &impatient(), None), 3);
    assert!(text.contains("published nothing in the file"), "{text}");
}
