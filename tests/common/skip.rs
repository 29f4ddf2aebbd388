//! What a test needs of the machine, and how it says that it was skipped.
#![allow(dead_code, reason = "not every package needs all of it")]

use std::fmt::Display;
use std::io::Write;

/// What tests may need, by the names that `JOSTLE_REQUIRE` takes.
const NEEDS: &[&str] = &[
    "bash",
    "caches",
    "cgroup1",
    "cgroup2",
    "chromium",
    "cpus",
    "direct-io",
    "fish",
    "free-l2",
    "gcc",
    "groff",
    "int1",
    "io-uring",
    "ipv6",
    "mandoc",
    "memcached",
    "mounts",
    "netns",
    "nginx",
    "no-pmu",
    "ns-last-pid",
    "perf",
    "pmu",
    "podman",
    "python3",
    "real-time",
    "redis",
    "root",
    "schedstat",
    "tmpfs",
    "tracepoint",
    "uprobe",
    "zsh",
];

/// Says that the running test, or a part of it, is skipped since `need` is not
/// met: at once on standard error, and in the file that `JOSTLE_SKIPS` names.
///
/// # Panics
/// When `JOSTLE_REQUIRE`, a list with commas, names `need`.
#[track_caller]
pub fn skip(need: &str, reason: impl Display) {
    assert!(NEEDS.contains(&need), "{need} is missing in NEEDS");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("skipped {test}: needs {need}: {reason}\n");
    let required = std::env::var("JOSTLE_REQUIRE").unwrap_or_default();
    for name in required.split(',').filter(|name| !name.is_empty()) {
        assert!(
            NEEDS.contains(&name),
            "JOSTLE_REQUIRE: no test needs {name}"
        );
        assert!(name != need, "{line}JOSTLE_REQUIRE names {need}");
    }
    // Not through a macro, whose text the test runner keeps to itself.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("JOSTLE_SKIPS") {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the file that JOSTLE_SKIPS names takes a line");
    }
}

/// The value; `None`, said as [`skip`] does, where there is only a reason.
#[track_caller]
pub fn have<T, E: Display>(need: &str, value: Result<T, E>) -> Option<T> {
    value.map_err(|reason| skip(need, reason)).ok()
}

/// Whether this test cannot be done for `reason`, which is said.
#[track_caller]
pub fn lacks(need: &str, reason: Option<impl Display>) -> bool {
    reason.map(|reason| skip(need, reason)).is_some()
}
