//! Requests that cannot be met.

use crate::common::is_root;
use crate::common::skip::skip;
use crate::support::PRINTER;
use crate::support::Place;
use crate::support::SHORT;
use crate::support::entry;
use crate::support::reason;
use crate::support::status;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Options of a short measurement and `more`.
fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["profile"], SHORT, more].concat()
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let place = Place::beside_others();
    let known = ["nope", "l2-capacity", "storage-bandwidth"];
    let budget = ["profile", "--demo", "quiet", "--budget", "4s"];
    let asked = [&budget[..], &["--resources", "l1d,nope"]].concat();
    place.refused(&asked, 2, &[&["--resources"], &known[..]].concat());
    place.refused(&["run", "nope", "--intensity", "5"], 2, &known);
    place.refused(&short(&["--demo", "nope"]), 2, &["demo", "nope", "quiet"]);
    let asked = short(&["--demo", "quiet", "--metric", "nope"]);
    place.refused(&asked, 2, &["--metric nope", "stdout:REGEX"]);
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    let place = Place::beside_others();
    for intensity in ["101", "-1", "1e9", "nan", "inf"] {
        let asked = ["run", "l1d", "--intensity", intensity];
        place.refused(&asked, 2, &["--intensity", "0 to 100"]);
    }
    for intensity in ["", "half", "50%"] {
        let asked = ["run", "l1d", "--intensity", intensity];
        place.refused(&asked, 2, &["--intensity"]);
    }
    for (flag, value) in [
        ("--budget", "0s"),
        ("--budget", "1s"),
        ("--budget", "soon"),
        ("--slice", "1us"),
        ("--slice", "2min"),
        ("--qos", "0"),
        ("--qos", "101"),
        ("--share", "100"),
    ] {
        let asked = ["profile", "--demo", "quiet", flag, value];
        place.refused(&asked, 2, &[flag]);
    }
}

#[test]
fn labels_have_a_key_and_a_value() {
    let place = Place::beside_others();
    for label in ["input", "=small", ""] {
        let asked = short(&["--demo", "quiet", "--label", label]);
        place.refused(&asked, 2, &["--label", "KEY=VALUE"]);
    }
}

#[test]
fn an_expression_without_a_group_is_refused() {
    let place = Place::beside_others();
    let expected = ["--metric stdout:n=[0-9]+", "group", "for example"];
    for target in [vec!["--", "sleep", "1000"], vec!["--", "sh", "-c", PRINTER]] {
        let asked = [&["--metric", "stdout:n=[0-9]+"], &target[..]].concat();
        place.refused(&short(&asked), 2, &expected);
    }
    let asked = short(&["--metric", "stdout:(", "--", "sleep", "1000"]);
    place.refused(&asked, 2, &["not a regular expression"]);
}

#[test]
fn a_command_is_needed_and_only_one() {
    let place = Place::beside_others();
    place.refused(&short(&[]), 2, &["--pid", "--demo"]);
    place.refused(&short(&["--"]), 2, &["--pid", "--demo"]);
    let asked = short(&["--demo", "quiet", "--", "true"]);
    place.refused(&asked, 2, &["cannot be used with"]);
    let asked = short(&["--", "no-such-program-anywhere"]);
    place.refused(&asked, 2, &["no-such-program-anywhere", "not found"]);
    place.refused(&[], 2, &["Usage"]);
}

#[test]
fn processes_that_are_not_there_are_refused() {
    let place = Place::beside_others();
    let asked = short(&["--pid", "99999999"]);
    place.refused(&asked, 2, &["--pid 99999999", "no such process"]);
    place.refused(&short(&["--pid", "self"]), 2, &["--pid"]);
}

/// A copy of the program in a directory that everybody may enter, and `nobody`
/// as who runs it; `None`, saying so, where that cannot be had.
fn as_nobody(place: &Place, arguments: &[&str]) -> Option<Command> {
    if !is_root() {
        return None;
    }
    let mut trial = Command::new(crate::common::JOSTLE);
    trial.arg("--version").uid(65534).current_dir("/");
    if !trial.output().is_ok_and(|output| output.status.success()) {
        skip(
            "root",
            "another user cannot run the program where it was built",
        );
        return None;
    }
    let mut process = place.process(arguments);
    process.uid(65534);
    Some(process)
}

fn mode(place: &Place, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(place.directory.path(), permissions).unwrap();
}

#[test]
fn processes_of_others_are_refused() {
    let place = Place::beside_others();
    mode(&place, 0o777);
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = stranger.id().to_string();
    let process = as_nobody(&place, &short(&["--pid", &pid]));
    if let Some(process) = process {
        place
            .run_process(process)
            .says(2, &["--pid", "belongs to user 0"]);
        place.left(&[]);
        assert!(stranger.try_wait().unwrap().is_none());
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn an_unwritable_place_for_the_profile_is_refused_before_anything_starts() {
    let place = Place::beside_others();
    let touch = ["--", "sh", "-c", "touch started; sleep 1000"];
    for out in ["/no/such/directory/p.json", "/proc/p.json", "."] {
        let asked = [&["--out", out], &touch[..]].concat();
        place.refused(&short(&asked), 2, &["--out"]);
    }
    mode(&place, 0o555);
    let asked = short(&[&["--out", "p.json"], &touch[..]].concat());
    if let Some(process) = as_nobody(&place, &asked) {
        place.run_process(process).says(2, &["--out p.json"]);
        place.left(&[]);
    }
}

#[test]
fn memory_and_cpus_that_are_not_there_are_refused() {
    let place = Place::beside_others();
    for (flag, value, word) in [
        ("--memory-reserve", "10TiB", "give less"),
        ("--memory-reserve", "much", "--memory-reserve"),
        ("--cpus", "4000", "outside the allowed set"),
        ("--worker-cpus", "4000", "outside the allowed set"),
        ("--cpus", "a", "'a'"),
        ("--worker-cpus", "3-1", "--worker-cpus"),
    ] {
        let asked = short(&["--demo", "quiet", flag, value]);
        place.refused(&asked, 2, &[flag, word]);
    }
    let asked = ["run", "l1d", "--intensity", "5", "--cpus", "4000"];
    place.refused(&asked, 2, &["--cpus"]);
}

#[test]
fn a_disk_that_cannot_be_pressed_on_gives_its_reason() {
    let place = Place::beside_others();
    let disk = |scratch: &[&'static str]| {
        let asked = [
            "profile",
            "--demo",
            "quiet",
            "--budget",
            "4s",
            "--resources",
        ];
        [&asked[..], &["storage-bandwidth"], scratch].concat()
    };
    let no_such = ["--scratch", "/no/such/directory"];
    place.refused(&disk(&no_such), 3, &["storage-bandwidth", "No such file"]);
    let huge = ["--scratch-size", "100000TiB"];
    place.refused(&disk(&huge), 3, &["storage-bandwidth", "free"]);
    if !std::fs::read_to_string("/proc/mounts")
        .is_ok_and(|mounts| mounts.contains(" /dev/shm tmpfs "))
    {
        return skip("tmpfs", "/dev/shm is none");
    }
    let shm = ["--scratch", "/dev/shm"];
    place.refused(&disk(&shm), 3, &["/dev/shm", "tmpfs", "local disk"]);

    let asked = [
        "profile",
        "--demo",
        "quiet",
        "--budget",
        "4s",
        "--halves",
        "tolerated",
        "--slice",
        "1ms",
        "--resources",
        "l1d,storage-bandwidth",
        "--out",
        "p.json",
        "--scratch",
        "/dev/shm",
    ];
    place.run(&asked).says(0, &["wrote p.json"]);
    place.left(&["p.json"]);
    let profile = place.profile_file("p.json");
    let disk = entry(&profile, "storage-bandwidth");
    assert_eq!(status(disk), "unavailable");
    assert!(reason(disk).contains("tmpfs"), "{disk}");
    assert_ne!(status(entry(&profile, "l1d")), "unavailable");
}
