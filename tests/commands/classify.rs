//! `jostle classify` on the recorded profiles.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Output;

fn jostle() -> Command {
    Command::new(env!("CARGO_BIN_EXE_jostle"))
}

/// The recorded profiles of applications whose metric is no latency; a file per
/// application, so that directories can be put together.
fn recorded(into: &Path) -> Vec<PathBuf> {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut paths = Vec::new();
    for entry in fs::read_dir(profiles).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        let format = document["format"].as_str().unwrap_or_default();
        let metric = document["metric"]["name"].as_str().unwrap_or_default();
        let name = document["workload"]["name"].as_str().unwrap_or_default();
        if !format.starts_with("jostle-profile/")
            || metric.starts_with("latency")
            || name.starts_with("demo")
        {
            continue;
        }
        let to = into.join(path.file_name().unwrap());
        let mut document = document;
        // Whatever they were recorded on.
        document["machine"]["fingerprint"] = "0123456789abcdef".into();
        fs::write(&to, document.to_string()).unwrap();
        paths.push(to);
    }
    paths.sort();
    paths
}

fn classify(file: &Path, more: &[&str]) -> Output {
    jostle()
        .arg("classify")
        .arg(file)
        .args(more)
        .output()
        .unwrap()
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Without what was measured of `resources`.
fn hide(file: &Path, resources: &[&str]) -> Value {
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    for id in resources {
        let entry = &profile["resources"][id];
        let placement = entry["placement"].clone();
        profile["resources"][id] = serde_json::json!({
            "status": "unresolved", "reason": "not measured", "placement": placement,
        });
    }
    fs::write(file, profile.to_string()).unwrap();
    profile
}

#[test]
fn hidden_entries_are_inferred_and_measured_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let files = recorded(dir.path());
    let file = files
        .iter()
        .find(|file| file.ends_with("gcc.json"))
        .unwrap();
    let before = hide(file, &["int", "fp", "l1i", "tlb", "llc-capacity"]);
    let out = dir.path().join("out.json");
    let output = classify(file, &["--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", says(&output));
    let after: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let int = &after["resources"]["int"];
    assert_eq!(int["status"], "inferred");
    assert!(int["tolerated"]["score"].as_f64().unwrap() > 80.0, "{int}");
    assert_eq!(int["inferred"]["method"], "mixture");
    assert!(
        int["reason"]
            .as_str()
            .unwrap()
            .contains("other applications")
    );
    assert_eq!(int["curve"][0]["windows"], 0);
    // What was known is what it was.
    for (id, entry) in before["resources"].as_object().unwrap() {
        for key in ["tolerated", "caused"] {
            if !entry[key].is_null() {
                let wide = |score: &Value| {
                    let end = |at: usize| score["ci95"][at].as_f64().unwrap();
                    end(1) - end(0) > 10.0
                };
                let kept = after["resources"][id][key] == entry[key] || wide(&entry[key]);
                assert!(kept, "{id} {key}");
            }
        }
    }
    // An inferred entry is no evidence for what is inferred next: it is the same
    // again.
    let again = classify(&out, &["--json"]);
    assert!(again.status.success(), "{}", says(&again));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(again["resources"]["int"]["tolerated"].is_object());
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let files = recorded(dir.path());
    let file = &files[0];

    // Another machine.
    let text = fs::read_to_string(&files[1]).unwrap();
    fs::write(
        &files[1],
        text.replace("0123456789abcdef", "fedcba9876543210"),
    )
    .unwrap();
    let output = classify(file, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        says(&output).contains("--mix-machines"),
        "{}",
        says(&output)
    );
    let output = classify(file, &["--mix-machines"]);
    assert!(output.status.success(), "{}", says(&output));

    // Too few, with a document of another kind between them.
    let few = tempfile::tempdir().unwrap();
    for file in &files[..3] {
        fs::copy(file, few.path().join(file.file_name().unwrap())).unwrap();
    }
    fs::write(few.path().join("x.schema.json"), "{}").unwrap();
    let from = few.path().to_str().unwrap();
    let output = classify(file, &["--from", from, "--mix-machines"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        says(&output).contains("3 applications to learn from")
            || says(&output).contains("2 applications to learn from"),
        "{}",
        says(&output)
    );

    // Nothing measured.
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    profile["resources"] = serde_json::json!({});
    profile.as_object_mut().unwrap().remove("usage");
    fs::write(file, profile.to_string()).unwrap();
    let output = classify(file, &["--mix-machines"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        says(&output).contains("0 measured numbers"),
        "{}",
        says(&output)
    );

    let output = classify(file, &["--method", "guess"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        says(&output).contains("means, neighbours, svd"),
        "{}",
        says(&output)
    );
}

#[test]
#[ignore = "full tier: takes long"]
fn every_method_is_judged_on_the_recorded_profiles() {
    let dir = tempfile::tempdir().unwrap();
    // As many as a test has time for.
    for file in recorded(dir.path()).iter().skip(9) {
        fs::remove_file(file).unwrap();
    }
    let from = dir.path().to_str().unwrap();
    let output = jostle()
        .args(["classify", "--evaluate", "--json", "--from", from])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", says(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 15);
    for row in rows {
        assert!(row["entries"].as_u64().unwrap() > 50, "{row}");
        assert!(row["mean"].as_f64().unwrap() < 40.0, "{row}");
    }
}

#[test]
fn quick_profiles_refuse_to_infer_from_too_few() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let from = dir.path().to_str().unwrap();
    let output = jostle()
        .args([
            "profile",
            "--quick",
            "--classify",
            from,
            "--dry-run",
            "--demo",
            "quiet",
        ])
        .output()
        .unwrap();
    // None of them was recorded on the machine that this is.
    assert_eq!(output.status.code(), Some(2), "{}", says(&output));
    assert!(
        says(&output).contains("0 applications to learn from"),
        "{}",
        says(&output)
    );
}
