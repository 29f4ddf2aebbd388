//! The file of measured pairs: read with care, written whole, told by a schema.

use crate::common::program::jostle;
use crate::common::root;
use jostle_profile as profile;
use jostle_profile::layout;
use jostle_profile::pairs;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::pairs::MemberTarget;
use jostle_profile::pairs::Pairs;
use jostle_profile::pairs::PerformanceStatus;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

fn sample_path() -> PathBuf {
    root().join("tests/fixtures/pairs/two-groups.json")
}

fn sample() -> Value {
    serde_json::from_str(&fs::read_to_string(sample_path()).unwrap()).unwrap()
}

/// What `pairs::load` says of `text`.
fn loaded(text: &str) -> Result<Pairs, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pairs.json");
    fs::write(&path, text).unwrap();
    pairs::load(&path).map_err(|error| error.to_string())
}

#[test]
fn every_key_of_the_file_is_read() {
    let read = pairs::load(&sample_path()).unwrap();
    let [same, own] = &read.groups[..] else {
        panic!("{read:?}");
    };
    assert_eq!(same.placement, GroupPlacement::SameCpu);
    assert_eq!(own.placement, GroupPlacement::OwnCpus);
    assert_eq!(same.members[1].target, MemberTarget::Pid(4711));
    assert!(same.members[1].performance.reason().is_some());
    let kept = same.members[0].performance.value().unwrap();
    assert_eq!((kept.value, kept.blocks), (0.49, 120));
    assert_eq!(kept.status, PerformanceStatus::Measured);
    let kept = own.members[0].performance.value().unwrap();
    assert_eq!(kept.status, PerformanceStatus::Unresolved);
}

#[test]
fn what_is_saved_is_what_was_loaded_with_unknown_keys() {
    let mut given = sample();
    given["added_later"] = json!({"a": [1, 2]});
    given["groups"][0]["binary"] = json!("abc");
    given["groups"][0]["members"][0]["share"] = json!(0.5);
    given["groups"][0]["members"][0]["performance"]["spread"] = json!(0.1);
    let read = loaded(&given.to_string()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pairs.json");
    pairs::save(&read, &path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), given);
    assert_eq!(text, layout::json(&read).unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn old_foreign_and_wrong_files_are_refused_with_the_key() {
    let with = |pointer: &str, value: Value| {
        let mut changed = sample();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string()
    };
    let performance = "/groups/0/members/0/performance";
    let one = json!([sample()["groups"][0]["members"][0]]);
    let cases = [
        (String::new(), "the file is empty"),
        ("[]".into(), "not a file of jostle pairs"),
        (
            with("/format", json!("jostle-profile/1")),
            "jostle-profile/1",
        ),
        (
            with("/format", json!("jostle-pairs/2")),
            "needs a newer jostle",
        ),
        (with("/format", json!("jostle-pairs/0")), "jostle-pairs/0"),
        (
            with("/groups/0/placement", json!("beside")),
            "groups[0].placement",
        ),
        (with("/groups/0/members", one), "groups[0].members"),
        (
            with("/groups/0/members/1/app", json!("xz")),
            "`xz` is the name of two members",
        ),
        (
            with(&format!("{performance}/value"), json!(-0.5)),
            "groups[0].members[0].performance.value",
        ),
        (
            with(&format!("{performance}/ci95"), json!([0.6, 0.5])),
            "write the lower end first",
        ),
        (
            with("/settings/budget_seconds", json!(-1)),
            "settings.budget_seconds",
        ),
    ];
    for (text, words) in cases {
        let error = loaded(&text).unwrap_err();
        assert!(error.contains(words), "{words} in: {error}");
        assert!(error.contains("pairs.json"), "{error}");
    }
    let mut wrong = loaded(&sample().to_string()).unwrap();
    wrong.groups[0].seconds = f64::NAN;
    let dir = tempfile::tempdir().unwrap();
    assert!(pairs::save(&wrong, &dir.path().join("pairs.json")).is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_of_profiles_may_hold_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let kv = root().join("tests/fixtures/profiles/kv-store.json");
    fs::copy(kv, dir.path().join("kv.json")).unwrap();
    fs::copy(sample_path(), dir.path().join("pairs.json")).unwrap();
    let profiles = profile::load_dir(dir.path()).unwrap();
    assert_eq!(profiles.len(), 1);
    // What is neither is told as before.
    fs::write(dir.path().join("other.json"), "{}").unwrap();
    let error = profile::load_dir(dir.path()).unwrap_err().to_string();
    assert!(error.contains("other.json"), "{error}");
}

#[test]
fn the_committed_schema_is_the_printed_one_and_the_samples_keep_to_it() {
    let (code, printed, stderr) = jostle(&["schema", "pairs"]).parts();
    assert_eq!(code, Some(0), "{stderr}");
    let committed = fs::read_to_string(root().join("profiles/jostle-pairs-1.schema.json")).unwrap();
    assert_eq!(printed, committed);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let recorded = [
        "profiles/pairs.json",
        "profiles/repeats/pairs.json",
        "profiles/epyc-busy/pairs.json",
        "profiles/epyc-afternoon/pairs.json",
        "profiles/epyc-night/pairs.json",
        "profiles/xeon/pairs.json",
    ];
    let recorded = recorded.map(|path| root().join(path));
    let files: Vec<PathBuf> = std::iter::once(sample_path()).chain(recorded).collect();
    for path in files.iter().filter(|path| path.exists()) {
        let document = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let problems = validator.iter_errors(&document).map(|e| e.to_string());
        let problems: Vec<String> = problems.collect();
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        pairs::load(path).unwrap();
    }
    let mut wrong = sample();
    wrong["groups"][0]["members"][0]["performance"] = json!({"value": -1, "ci95": [0, 1]});
    assert!(!validator.is_valid(&wrong));
}

/// Recorded on a machine on which nothing was tuned.
#[test]
fn predictions_of_another_machine_are_below_every_baseline() {
    assert_below_every_baseline("xeon");
}

/// Recorded after the rules of prediction were made.
#[test]
fn predictions_of_a_later_hour_are_below_every_baseline() {
    assert_below_every_baseline("epyc-afternoon");
}

/// Recorded while other guests used the last-level cache, without a calibration of it.
#[test]
fn predictions_of_a_busy_host_are_below_every_baseline() {
    let worst = assert_below_every_baseline("epyc-busy");
    assert!(worst.iter().all(|worst| *worst < 15.0), "{worst:?}");
}

/// Profiled by sources as they are now.
#[test]
fn predictions_of_the_newest_recording_are_below_every_baseline() {
    let worst = assert_below_every_baseline("epyc-night");
    assert!(worst.iter().all(|worst| *worst < 15.0), "{worst:?}");
}

/// The worst error in points on a shared CPU and on CPUs of their own.
fn assert_below_every_baseline(machine: &str) -> Vec<f64> {
    let profiles = root().join("profiles").join(machine);
    let pairs = profiles.join("pairs.json");
    let arguments = [&pairs, &profiles].map(|path| path.to_str().unwrap());
    let [pairs, profiles] = arguments;
    let (code, stdout, stderr) =
        jostle(&["evaluate", pairs, "--profiles", profiles, "--json"]).parts();
    assert_eq!(code, Some(0), "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let placements = found["placements"].as_array().unwrap();
    assert_eq!(placements.len(), 2);
    let mut worst = Vec::new();
    for placement in placements {
        let methods = placement["methods"].as_array().unwrap();
        let of = |name: &str| {
            let mut named = methods.iter().filter(|method| method[0] == name);
            named.next_back().map(|method| &method[1])
        };
        let mean = |name: &str| of(name).and_then(|found| found["errors"]["mean"].as_f64());
        let own = mean("product").unwrap();
        // A CPU of its own is not split.
        let split = (placement["placement"] == "same-cpu").then_some("equal-split");
        for baseline in ["none", "mean-of-pairs"].into_iter().chain(split) {
            assert!(own < mean(baseline).unwrap(), "{baseline}: {methods:?}");
        }
        let covered = of("product").unwrap()["covered_percent"].as_f64().unwrap();
        // 89 % of those of the busy host, which were profiled by a weaker source of `llc-capacity`.
        assert!((88.0..=100.0).contains(&covered), "{covered}");
        worst.push(of("product").unwrap()["errors"]["worst"].as_f64().unwrap());
    }
    worst
}

#[test]
fn several_recordings_are_evaluated_together() {
    let profiles = root().join("profiles");
    let profiles = profiles.to_str().unwrap();
    let [first, again] =
        ["pairs.json", "repeats/pairs.json"].map(|path| format!("{profiles}/{path}"));
    let cases = |paths: &[&str]| -> Vec<(u64, bool)> {
        let arguments = [
            &["evaluate"][..],
            paths,
            &["--profiles", profiles, "--json"],
        ]
        .concat();
        let (code, stdout, stderr) = jostle(&arguments).parts();
        assert_eq!(code, Some(0), "{stderr}");
        let found: Value = serde_json::from_str(&stdout).unwrap();
        let placements = found["placements"].as_array().unwrap().iter();
        placements
            .map(|one| {
                let count = one["cases"].as_array().unwrap().len() as u64;
                (count, one["repeated"]["cases"].as_u64().is_some())
            })
            .collect()
    };
    let [one, other, both] = [&[&*first][..], &[&*again], &[&*first, &*again]].map(cases);
    for ((one, other), both) in one.iter().zip(&other).zip(&both) {
        assert_eq!(one.0 + other.0, both.0);
        assert_eq!((one.1, other.1, both.1), (false, false, true));
    }

    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere.json");
    let mut document: Value = serde_json::from_str(&fs::read_to_string(&again).unwrap()).unwrap();
    document["machine"]["fingerprint"] = json!("0123456789abcdef");
    fs::write(&elsewhere, document.to_string()).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    let (code, _, stderr) =
        jostle(&["evaluate", &first, elsewhere, "--profiles", profiles]).parts();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("elsewhere.json"), "{stderr}");
    assert!(stderr.contains("--mix-machines"), "{stderr}");
}
