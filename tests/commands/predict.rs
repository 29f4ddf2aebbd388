//! `jostle predict`: numbers that can be checked by hand, and what bad input
//! earns.

use crate::common::program::jostle;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use tempfile::TempDir;

const FIXTURES: &str = "tests/fixtures/profiles";

fn predict(args: &[&str]) -> (Option<i32>, String, String) {
    jostle(&[&["predict"], args].concat()).parts()
}

/// A profile `name` with one entry per (resource, mode, performance at 100,
/// caused); everything measured to a hair.
fn write(dir: &TempDir, name: &str, entries: &[(&str, &str, f64, f64)]) -> PathBuf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(FIXTURES)
        .join("web.json");
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    profile["workload"]["name"] = json!(name);
    profile["resources"] = json!({});
    for (id, mode, performance, caused) in entries {
        profile["resources"][id] = json!({
            "status": "measured",
            "placement": {"mode": mode, "cpus": [1]},
            "tolerated": {"score": 50.0, "ci95": [49.9, 50.1]},
            "caused": {"score": caused, "ci95": [caused - 0.1, caused + 0.1]},
            "curve": [
                {"intensity": 50.0, "performance": performance.sqrt(),
                 "ci95": [performance.sqrt() - 1e-5, performance.sqrt() + 1e-5], "windows": 9},
                {"intensity": 100.0, "performance": performance,
                 "ci95": [performance - 1e-5, performance + 1e-5], "windows": 9},
            ],
        });
    }
    let path = dir.path().join(format!("{name}.json"));
    fs::write(&path, profile.to_string()).unwrap();
    path
}

/// Too few profiles to say anything of others.
const NO_POPULATION: [&str; 2] = ["--population", FIXTURES];

fn document(args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.push("--json");
    all.extend(NO_POPULATION);
    let (code, stdout, stderr) = predict(&all);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&stdout).unwrap()
}

fn performance(document: &Value, index: usize) -> f64 {
    document["applications"][index]["performance"]
        .as_f64()
        .unwrap()
}

#[test]
fn performance_is_that_of_the_curves_at_the_others_pressure() {
    let dir = tempfile::tempdir().unwrap();
    let llc = |performance, caused| ("llc-capacity", "shared-llc", performance, caused);
    let memory = |performance, caused| ("memory-bandwidth", "same-numa", performance, caused);
    let a = write(&dir, "a", &[llc(0.64, 25.0), memory(0.25, 70.0)]);
    let b = write(&dir, "b", &[llc(1.0, 25.0), memory(1.0, 80.0)]);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    // a beside two of b: 0.64^(50/100) on llc-capacity, and 160 points of
    // memory-bandwidth, held at 100: 0.25. Both evict the same cache: the costlier counts.
    let found = document(&[a, b, b]);
    assert!((performance(&found, 0) - 0.25).abs() < 1e-2, "{found}");
    assert_eq!(found["applications"][0]["most_costly"], "memory-bandwidth");
    assert_eq!(found["applications"][0]["resources"][0]["pressure"], 100.0);
    assert_eq!(found["applications"][1]["name"], "b #1");
    assert!(performance(&found, 1) > 0.999);
    let beside_one = document(&[a, b]);
    let expected = 0.25f64.powf(0.8);
    assert!(
        (performance(&beside_one, 0) - expected).abs() < 1e-2,
        "{beside_one}"
    );
    // Two of a: each beside the other.
    let expected = 0.25f64.powf(0.7);
    let twins = document(&[a, a]);
    for index in [0, 1] {
        assert!(
            (performance(&twins, index) - expected).abs() < 1e-2,
            "{twins}"
        );
    }
}

#[test]
fn what_was_measured_in_turns_counts_only_where_cpus_are_shared() {
    let dir = tempfile::tempdir().unwrap();
    let entries = [
        ("cpu-time", "same-cpu", 0.5, 50.0),
        ("l1d", "same-cpu", 0.81, 100.0),
        ("llc-capacity", "shared-llc", 0.9, 100.0),
    ];
    let a = write(&dir, "a", &entries);
    let a = a.to_str().unwrap();
    let own = document(&[a, a]);
    assert!((performance(&own, 0) - 0.9).abs() < 1e-2, "{own}");
    let notes = own["notes"].to_string();
    assert!(notes.contains("cpu-time, l1d"), "{notes}");
    let shared = document(&[a, a, "--shares-cpus"]);
    // Half of the CPU each; what l1d costs in slices costs less in the longer
    // turns of the scheduler.
    let found = performance(&shared, 0);
    assert!((0.5 * 0.81 * 0.9..0.5 * 0.9).contains(&found), "{shared}");
}

#[test]
fn what_is_not_known_is_what_others_have_there() {
    let dir = tempfile::tempdir().unwrap();
    let llc = |performance| ("llc-capacity", "shared-llc", performance, 80.0);
    for (name, kept) in [("w", 0.75), ("x", 0.7), ("y", 0.8), ("z", 0.9)] {
        write(&dir, name, &[llc(kept)]);
    }
    let population = dir.path().to_str().unwrap().to_string();
    let elsewhere = tempfile::tempdir().unwrap();
    let memory = [("memory-bandwidth", "same-numa", 1.0, 0.0)];
    let a = write(&elsewhere, "a", &memory);
    let a = a.to_str().unwrap();
    let (code, stdout, stderr) = predict(&[a, a, "--json", "--population", population.as_str()]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let found: Value = serde_json::from_str(&stdout).unwrap();
    // About 0.8^(80/100), and as wide as they differ.
    assert!((0.7..0.95).contains(&performance(&found, 0)), "{found}");
    let interval = &found["applications"][0]["ci95"];
    let width = interval[1].as_f64().unwrap() - interval[0].as_f64().unwrap();
    assert!(width > 0.15, "{found}");
    assert_eq!(found["applications"][0]["resources"][0]["assumed"], true);
}

#[test]
fn nothing_known_is_no_basis() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = write(&dir, "nothing", &[]);
    let nothing = nothing.to_str().unwrap();
    let found = document(&[nothing, nothing]);
    assert_eq!(found["applications"][0]["basis"], "none");
    assert_eq!(found["applications"][0]["performance"], Value::Null);
    let mut args = vec![nothing, nothing];
    args.extend(NO_POPULATION);
    let (_, stdout, _) = predict(&args);
    assert!(stdout.contains("no basis"), "{stdout}");
}

#[test]
fn one_alone_has_no_neighbours() {
    let (code, stdout, _) = predict(&["profiles/xz.json"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("one application alone"), "{stdout}");
    assert!(stdout.contains("100.0 %"), "{stdout}");
    assert_eq!(performance(&document(&["profiles/xz.json"]), 0), 1.0);
}

#[test]
fn what_is_not_known_is_said_and_why() {
    let files = ["web.json", "analytics.json"].map(|name| format!("{FIXTURES}/{name}"));
    let [web, analytics] = [files[0].as_str(), files[1].as_str()];
    let [flag, dir] = NO_POPULATION;
    let (_, stdout, _) = predict(&[web, analytics, flag, dir]);
    let whose = "not known: what pressure costs web on";
    assert!(
        stdout.contains(whose) && stdout.contains("storage-bandwidth"),
        "{stdout}"
    );
    assert!(!stdout.contains('\u{1b}'));
    let found = document(&[web, analytics]);
    let gaps = found["applications"][0]["not_known"].as_array().unwrap();
    let gap = gaps
        .iter()
        .find(|gap| gap["resource"] == "storage-bandwidth" && gap["half"] == "tolerated")
        .unwrap();
    assert!(
        gap["why"].as_str().unwrap().starts_with("unavailable"),
        "{gap}"
    );
}

#[test]
fn different_machines_are_pointed_out() {
    let here = format!("{FIXTURES}/web.json");
    let (_, stdout, _) = predict(&[&here, "profiles/xz.json"]);
    assert!(
        stdout.contains("not measured on the same machine"),
        "{stdout}"
    );
}

#[test]
fn bad_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.json");
    fs::write(&broken, "{\"format\": \"jostle-profile/1\",").unwrap();
    let broken = broken.to_str().unwrap();
    for (args, says) in [
        (vec!["no.json"], vec!["no.json", "no such file"]),
        (
            vec!["profiles/xz.json", "profiles"],
            vec!["profiles", "is a directory"],
        ),
        (vec![broken], vec!["broken.json", "cut short"]),
        (vec![], vec!["FILE"]),
    ] {
        let (code, stdout, stderr) = predict(&args);
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stdout.is_empty());
        for expected in says {
            assert!(stderr.contains(expected), "{expected} in {stderr}");
        }
    }
}
