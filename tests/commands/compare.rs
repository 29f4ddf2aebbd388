//! `jostle compare`: what is claimed, what fails a build, and what bad input earns.

use assert_cmd::Command;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const SAMPLE: &str = "tests/fixtures/profiles/kv-store.json";

fn compare(arguments: &[&str], old: &Path, new: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
    command.arg("compare").args(arguments).args([old, new]);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn sample() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The sample and a second run of it that `edit` changes.
fn pair(directory: &Path, edit: impl FnOnce(&mut Value)) -> (PathBuf, PathBuf) {
    let (old, new) = (directory.join("old.json"), directory.join("new.json"));
    let mut profile = sample();
    fs::write(&old, profile.to_string()).unwrap();
    profile["conditions"]["recorded_at"] = json!("2026-11-21T09:30:00Z");
    edit(&mut profile);
    fs::write(&new, profile.to_string()).unwrap();
    (old, new)
}

/// Makes the program lose `points` more at every intensity of the L2 cache.
fn slower(profile: &mut Value, points: f64) {
    let curve = profile["resources"]["l2-capacity"]["curve"]
        .as_array_mut()
        .unwrap();
    for point in curve {
        let performance = point["performance"].as_f64().unwrap();
        point["performance"] = json!(performance - points / 100.0);
        for end in 0..2 {
            point["ci95"][end] = json!(point["ci95"][end].as_f64().unwrap() - points / 100.0);
        }
    }
}

#[test]
fn a_large_loss_is_shown_and_fails_the_build() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = pair(directory.path(), |it| slower(it, 45.0));
    let (code, page, stderr) = compare(&["--width", "80"], &old, &new);
    assert_eq!(code, Some(1), "{page}{stderr}");
    assert!(
        page.starts_with("Worse. Worse on l2-capacity: loses"),
        "{page}"
    );
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    assert!(page.lines().count() <= 40, "{page}");
    assert!(stderr.contains("the new profile is worse"), "{stderr}");
    // The other way round it is an improvement, and no failure.
    let (code, page, _) = compare(&[], &new, &old);
    assert_eq!(code, Some(0));
    assert!(page.starts_with("Better."), "{page}");
}

#[test]
fn a_second_run_of_the_same_program_is_not_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = pair(directory.path(), |it| slower(it, 1.0));
    let (code, page, _) = compare(&[], &old, &new);
    assert_eq!(code, Some(0), "{page}");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("No change was shown."), "{page}");
    assert!(page.contains("Cannot tell for"), "{page}");
    assert!(
        page.contains("merge the runs") || page.contains("longer"),
        "{page}"
    );
    let (code, _, stderr) = compare(&["--strict"], &old, &new);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--strict"), "{stderr}");
}

#[test]
fn conditions_decide_where_they_are_given() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = pair(directory.path(), |it| slower(it, 45.0));
    let code = |arguments: &[&str]| compare(arguments, &old, &new).0;
    assert_eq!(code(&["--fail-if", "l2-capacity.loss > +5"]), Some(1));
    assert_eq!(code(&["--fail-if", "l2-capacity.loss > 30"]), Some(1));
    assert_eq!(
        code(&["--fail-if", "l2-capacity.loss > +90", "--strict"]),
        Some(0)
    );
    assert_eq!(
        code(&["--fail-if", "cpu-time.loss > +40", "--strict"]),
        Some(0)
    );
    // Its scores are as they were.
    assert_eq!(code(&["--fail-below", "60"]), Some(0));
    assert_eq!(code(&["--fail-if", "interconnect.loss > +5"]), Some(0));
    assert_eq!(
        code(&["--fail-if", "interconnect.loss > +5", "--strict"]),
        Some(1)
    );
    for wrong in ["l3.loss > +5", "l2-capacity.loss", "l1d.speed > 1"] {
        let (code, _, stderr) = compare(&["--fail-if", wrong], &old, &new);
        assert_eq!(code, Some(2), "{wrong}");
        assert!(stderr.contains("--fail-if"), "{stderr}");
    }
}

#[test]
fn every_format_says_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = pair(directory.path(), |it| {
        slower(it, 45.0);
        it["workload"]["name"] = json!("<b>kv</b> | \u{1b}[31m&\"");
    });
    let (code, text, _) = compare(&["--format", "json"], &old, &new);
    assert_eq!(code, Some(1));
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["verdict"]["word"], "worse");
    assert_eq!(document["resources"][0]["resource"], "l2-capacity");
    assert_eq!(document["resources"][0]["loss"]["outcome"], "worse");
    let (_, markdown, _) = compare(&["--format", "markdown"], &old, &new);
    assert!(
        markdown.contains("| l2-capacity |") && markdown.contains("| worse |"),
        "{markdown}"
    );
    assert!(
        !markdown.contains("<b>") && !markdown.contains('\u{1b}'),
        "{markdown}"
    );
    let (_, junit, _) = compare(&["--format", "junit"], &old, &new);
    assert!(
        junit.contains("name=\"l2-capacity.loss\"><failure"),
        "{junit}"
    );
    assert!(
        !junit.contains("<b>") && !junit.contains('\u{1b}'),
        "{junit}"
    );
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let (_, terminal, _) = compare(&[], &old, &new);
    assert!(!terminal.contains('\u{1b}'), "{terminal}");
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |edit: &dyn Fn(&mut Value), named: &str| {
        let (old, new) = pair(directory.path(), edit);
        let (code, _, stderr) = compare(&[], &old, &new);
        assert_eq!(code, Some(2), "{named}: {stderr}");
        assert!(stderr.contains(named), "{named}: {stderr}");
    };
    refused(
        &|it| it["machine"]["model"] = json!("Other CPU"),
        "the machines differ",
    );
    refused(
        &|it| it["metric"]["name"] = json!("stdout:([0-9]+)"),
        "the metrics differ",
    );
    refused(
        &|it| it["resources"] = json!({}),
        "no resource was measured in both",
    );
    refused(
        &|it| it["format"] = json!("jostle-profile/2"),
        "jostle-profile/2",
    );
    let (old, new) = pair(directory.path(), |it| {
        it["machine"]["model"] = json!("Other")
    });
    let (code, page, _) = compare(&["--anyway"], &old, &new);
    assert_eq!(code, Some(0), "{page}");
    assert!(page.contains("the machines differ"), "{page}");
    let (code, _, stderr) = compare(&[], directory.path(), &new);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("is a directory"), "{stderr}");
}

#[test]
fn placements_that_differ_leave_a_resource_out() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = pair(directory.path(), |it| {
        it["resources"]["l2-capacity"]["placement"]["mode"] = json!("same-cpu");
    });
    let (_, text, _) = compare(&["--format", "json"], &old, &new);
    let document: Value = serde_json::from_str(&text).unwrap();
    let left_out = document["not_compared"].as_array().unwrap();
    let reason = left_out
        .iter()
        .find(|it| it["resource"] == "l2-capacity")
        .unwrap();
    assert!(
        reason["reason"]
            .as_str()
            .unwrap()
            .contains("placements differ"),
        "{reason}"
    );
}

#[test]
fn a_profile_compared_with_itself_says_so() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE);
    let (code, page, _) = compare(&[], &path, &path);
    assert_eq!(code, Some(0));
    assert!(
        page.contains("Both files hold the same measurement"),
        "{page}"
    );
    assert_eq!(compare(&["--strict"], &path, &path).0, Some(1));
}

fn merge(arguments: &[&Path]) -> (Option<i32>, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
    let output = command.arg("merge").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Five runs whose losses on the L2 cache lie around `points` above the sample's.
fn runs(directory: &Path, name: &str, points: f64, apart: f64) -> PathBuf {
    let files: Vec<PathBuf> = (0..5)
        .map(|run| {
            let mut profile = sample();
            slower(&mut profile, points + apart * (f64::from(run) - 2.0));
            profile["conditions"]["recorded_at"] = json!(format!("2026-11-2{run}T09:30:00Z"));
            profile["conditions"]["seed"] = json!(points.to_bits() >> 40);
            let file = directory.join(format!("{name}-{run}.json"));
            fs::write(&file, profile.to_string()).unwrap();
            file
        })
        .collect();
    let merged = directory.join(format!("{name}.json"));
    let out = Path::new("--out");
    let arguments: Vec<&Path> = files
        .iter()
        .map(PathBuf::as_path)
        .chain([out, &merged])
        .collect();
    let (code, _, stderr) = merge(&arguments);
    assert_eq!(code, Some(0), "{stderr}");
    merged
}

#[test]
fn merged_runs_show_what_single_ones_cannot() {
    let directory = tempfile::tempdir().unwrap();
    let old = runs(directory.path(), "old", 0.0, 0.3);
    let new = runs(directory.path(), "new", 8.0, 0.3);
    let (code, page, _) = compare(&[], &old, &new);
    assert_eq!(code, Some(1), "{page}");
    assert!(page.starts_with("Worse. Worse on l2-capacity"), "{page}");
    // Of single runs the same difference may be chance.
    let single = directory.path().join("old-0.json");
    let other = directory.path().join("new-0.json");
    assert_eq!(compare(&[], &single, &other).0, Some(0));
}

#[test]
fn runs_that_disagree_are_named_and_widen_the_interval() {
    let directory = tempfile::tempdir().unwrap();
    let width = |file: &Path| {
        let profile: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let curve = profile["resources"]["l2-capacity"]["curve"]
            .as_array()
            .unwrap();
        let ends = &curve.last().unwrap()["ci95"];
        let doubts = profile["conditions"]["doubts"].to_string();
        assert_eq!(profile["merged"]["runs"].as_array().unwrap().len(), 5);
        (
            ends[1].as_f64().unwrap() - ends[0].as_f64().unwrap(),
            doubts,
        )
    };
    let (alike, doubts) = width(&runs(directory.path(), "alike", 0.0, 0.1));
    assert!(!doubts.contains("disagree"), "{doubts}");
    let (apart, doubts) = width(&runs(directory.path(), "apart", 0.0, 6.0));
    assert!(doubts.contains("disagree"), "{doubts}");
    assert!(apart > 4.0 * alike, "{alike} {apart}");
}

#[test]
fn only_runs_of_one_program_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("merged.json");
    let refused = |edit: &dyn Fn(&mut Value), named: &str| {
        let (one, other) = pair(directory.path(), edit);
        let (code, _, stderr) = merge(&[&one, &other, Path::new("--out"), &out]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(named), "{named}: {stderr}");
        assert!(!out.exists());
    };
    refused(
        &|it| it["workload"]["name"] = json!("other"),
        "named kv-store and other",
    );
    refused(
        &|it| it["machine"]["fingerprint"] = json!("f2"),
        "the machines are",
    );
    refused(
        &|it| it["metric"]["unit"] = json!("s"),
        "the metrics differ",
    );
    refused(
        &|it| it["conditions"]["recorded_at"] = json!("2026-11-20T09:30:00Z"),
        "the same measurement",
    );
}
