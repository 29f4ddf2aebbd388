//! `jostle validate` as a person runs it.

use crate::common::within;
use crate::support::Place;
use nix::sys::signal::Signal;
use std::time::Duration;

#[test]
fn two_sources_are_validated_against_themselves_and_each_other() {
    let place = Place::alone();
    let ended = place.run(&[
        "validate",
        "--resources",
        "cpu-time,l2-capacity",
        "--budget",
        "14s",
        "--quick",
        "--json",
        "--html",
        "page.html",
    ]);
    let report = ended.json();
    assert_eq!(report["format"], "jostle-validation/1");
    let sources = report["sources"].as_array().unwrap();
    let names: Vec<&str> = sources
        .iter()
        .map(|source| source["resource"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cpu-time", "l2-capacity"]);
    for source in sources {
        let linearity = &source["linearity"];
        let squared = linearity["r_squared"].as_f64().expect("it was measured");
        assert!(squared > 0.8, "a dial that turns: {source}");
        assert!(linearity["levels"].as_array().unwrap().len() >= 3);
        assert!(source["strength"]["full_scale"].as_f64().unwrap() > 0.0);
    }
    // Half the CPU is a large effect; its interval must know that.
    let effect = report["effects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|effect| effect["source"] == "cpu-time" && effect["victim"] == "cpu-time")
        .expect("the cell was reached");
    let lowest = effect["ci95"][0].as_f64().unwrap();
    assert!(lowest > 5.0, "{effect}");
    assert_eq!(effect["size"], "large");
    let victims = report["victims"].as_array().unwrap();
    let points_at = |name: &str| {
        let victim = victims.iter().find(|victim| victim["resource"] == name);
        victim.unwrap()["selectivity"].as_str().unwrap()
    };
    assert_eq!(points_at("cpu-time"), "own-first", "{victims:?}");
    let page = std::fs::read_to_string(place.directory.path().join("page.html")).unwrap();
    // What a cache source displaces may not be visible on a busy machine; the
    // report then says so, and there is one plot less.
    let curves = sources
        .iter()
        .flat_map(|source| [&source["linearity"], &source["displaced"]])
        .filter(|curve| curve["r_squared"].is_number())
        .count();
    assert!(curves >= 2, "both dials were measured");
    assert_eq!(page.matches("<svg").count(), curves);
    assert!(page.ends_with("</html>\n"));
    for outside in ["src=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(outside), "the page needs nothing else");
    }
    place.left(&["page.html"]);
}

#[test]
fn wrong_validations_are_refused_before_anything_starts() {
    let place = Place::beside_others();
    let refuse = |more: &[&str], texts: &[&str]| {
        place.refused(&[&["validate"], more].concat(), 2, texts);
    };
    refuse(&["--resources", "l9"], &["--resources", "no resource 'l9'"]);
    refuse(&["--victims", "l9"], &["--victims", "no resource 'l9'"]);
    refuse(&["--budget", "1s"], &["--budget", "5 s or more"]);
    refuse(
        &["--html", "/no/such/place/page.html"],
        &["--html", "cannot write"],
    );
    refuse(&["--html", "/"], &["--html", "directory"]);
    refuse(&["--max-stall", "101"], &["--max-stall", "from 0 to 100"]);
}

#[test]
fn a_dry_validation_shows_every_source_and_starts_none() {
    let place = Place::beside_others();
    let ended = place.run(&["validate", "--dry-run"]);
    ended.says(0, &[]);
    for resource in jostle_profile::resource::Resource::ALL {
        assert!(ended.stdout.contains(resource.id()), "{}", ended.stdout);
    }
    assert!(ended.stdout.contains("always left"), "{}", ended.stdout);
    place.left(&[]);
}

#[test]
fn an_interrupted_validation_leaves_nothing() {
    let place = Place::beside_others();
    let mut running = place.start(&[
        "validate",
        "--resources",
        "l1d,l2-capacity",
        "--budget",
        "60s",
        "--html",
        "page.html",
    ]);
    place.process_with(&["worker"]);
    running.signal(Signal::SIGINT);
    assert_eq!(running.end(), 130);
    within(Duration::from_secs(5), "the workers are gone", || {
        place.processes().is_empty()
    });
    place.left(&[]);
}

#[test]
fn a_check_fails_when_nothing_was_measured() {
    let place = Place::beside_others();
    let ended = place.run(&[
        "validate",
        "--resources",
        "network-bandwidth",
        "--budget",
        "5s",
        "--quick",
        "--check",
    ]);
    ended.says(1, &["--check", "network-bandwidth: not measured", "--peer"]);
    place.left(&[]);
}
