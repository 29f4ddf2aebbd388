//! Measurements that are cut short and taken up again.

use crate::common::within;
use crate::support::PRINTER;
use crate::support::Place;
use crate::support::entry;
use crate::support::status;
use nix::sys::signal::Signal;
use std::thread::sleep;
use std::time::Duration;

/// A measurement that takes longer than anybody waits.
const LONG: &[&str] = &[
    "profile",
    "--demo",
    "l2",
    "--resources",
    "l1d,l2-capacity,cpu-time",
    "--budget",
    "60s",
    "--slice",
    "1ms",
    "--qos",
    "90",
    "--out",
    "p.json",
];

fn resumed(place: &Place, file: &str) {
    let asked = [
        "profile", "--resume", file, "--budget", "6s", "--demo", "l2",
    ];
    place.run(&asked).says(0, &["wrote p.json"]);
    place.left(&["p.json"]);
    let profile = place.profile_file("p.json");
    assert_ne!(profile["partial"], true, "{profile}");
    assert!(profile["readings"].is_null());
    assert_eq!(profile["qos"]["threshold"], 0.9, "{profile}");
    let doubts = profile["conditions"]["doubts"].to_string();
    assert!(doubts.contains("measured in parts"), "{doubts}");
    for resource in ["l1d", "l2-capacity", "cpu-time"] {
        let entry = entry(&profile, resource);
        assert!(
            matches!(status(entry), "measured" | "unresolved"),
            "{entry}"
        );
        assert!(
            entry["curve"]
                .as_array()
                .is_some_and(|curve| !curve.is_empty()),
            "{entry}"
        );
    }
}

#[test]
#[ignore = "full tier: takes long"]
fn an_interrupted_profile_goes_on() {
    let place = Place::beside_others();
    let mut running = place.start(LONG);
    place.process_with(&[" demo l2"]);
    sleep(Duration::from_millis(4000));
    running.signal(Signal::SIGINT);
    assert_eq!(running.end(), 130);
    let profile = place.profile_file("p.json");
    let pairs = profile["readings"]["pairs"].as_array().map_or(0, Vec::len);
    assert!(pairs > 0, "nothing was read in 4 s: {profile}");

    // What would not be comparable is refused, and the file is as it was.
    let again = |options: &[&str], texts: &[&str]| {
        let asked = [&["profile", "--resume", "p.json"], options].concat();
        place.run(&asked).says(2, texts);
        assert_eq!(place.profile_file("p.json"), profile);
    };
    again(
        &["--demo", "quiet"],
        &["'jostle demo l2", "'jostle demo quiet'"],
    );
    again(
        &["--demo", "l2", "--metric", "exec:echo 1"],
        &["exec", "progress"],
    );
    again(&["--demo", "l2", "--qos", "80"], &["--resume", "--qos"]);
    again(
        &["--metric", "stdout:n=([0-9]+)", "--", "sh", "-c", PRINTER],
        &["'jostle demo l2", "'sh -c"],
    );
    resumed(&place, "p.json");
    let complete = ["profile", "--resume", "p.json", "--demo", "l2"];
    place.run(&complete).says(2, &["complete"]);
}

#[test]
fn a_profile_whose_profiler_was_killed_goes_on() {
    let place = Place::beside_others();
    let mut running = place.start(LONG);
    let kept = place.directory.path().join("p.json.partial");
    within(Duration::from_secs(50), "readings are kept", || {
        kept.exists()
    });
    running.signal(Signal::SIGKILL);
    assert_eq!(running.end(), -9);
    within(Duration::from_secs(3), "everything is gone", || {
        place.processes().is_empty()
    });
    place.left(&["p.json.partial"]);
    resumed(&place, "p.json.partial");
}
