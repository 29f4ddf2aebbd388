//! `jostle profiles`: many profiles in a directory.

use assert_cmd::Command;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const FIXTURES: &str = "tests/fixtures/profiles";

fn profiles(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.arg("profiles").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// File names and contents.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn sample(name: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(FIXTURES).join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn lists_sorts_and_filters() {
    let (code, page, _) = profiles(&["list", FIXTURES, "--width", "80"]);
    assert_eq!(code, Some(0));
    let names = |page: &str| -> Vec<String> {
        let lines = page.lines().skip(1).take_while(|line| !line.is_empty());
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_string())
            .collect()
    };
    assert_eq!(names(&page), ["analytics", "kv-store", "web"]);
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    assert!(page.contains("3 profiles of 1 machine."), "{page}");
    let (_, page, _) = profiles(&["list", FIXTURES, "--reverse"]);
    assert_eq!(names(&page), ["web", "kv-store", "analytics"]);
    let (_, page, _) = profiles(&["list", FIXTURES, "--name", "kv"]);
    assert_eq!(names(&page), ["kv-store"]);
    let (_, page, _) = profiles(&["list", FIXTURES, "--since", "2999-01-01"]);
    assert_eq!(page, "No profile found.\n");
    let (_, document, _) = profiles(&["list", FIXTURES, "--json", "--sort", "loss"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["profiles"].as_array().unwrap().len(), 3);
    let (code, _, stderr) = profiles(&["list", FIXTURES, "--since", "yesterday"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("2026-01-31"), "{stderr}");
}

#[test]
fn an_import_never_replaces_anything() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("from"), directory.path().join("into"));
    fs::create_dir_all(&from).unwrap();
    let mut web = sample("web");
    fs::write(from.join("a.json"), web.to_string()).unwrap();
    let import = |more: &[&str]| {
        let arguments = ["import", text(&from), "--into", text(&into)];
        profiles(&[&arguments, more].concat())
    };
    let (code, _, _) = import(&["--dry-run"]);
    assert_eq!(code, Some(0));
    assert!(!into.exists());
    assert_eq!(import(&[]).0, Some(0));
    let before = contents(&into);
    assert_eq!(before.keys().next().unwrap(), &into.join("web.json"));
    let (code, page, _) = import(&[]);
    assert_eq!(code, Some(0));
    assert!(page.contains("1 there already"), "{page}");
    // Another measurement of the same name.
    web["conditions"]["seed"] = json!(4711);
    fs::write(from.join("a.json"), web.to_string()).unwrap();
    let (code, _, stderr) = import(&[]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("--rename"), "{stderr}");
    assert_eq!(contents(&into), before);
    assert_eq!(import(&["--rename"]).0, Some(0));
    assert_eq!(
        contents(&into)[&into.join("web.json")],
        before[&into.join("web.json")]
    );
    let renamed: Value =
        serde_json::from_slice(&contents(&into)[&into.join("web-2.json")]).unwrap();
    assert_eq!(renamed["workload"]["name"], "web-2");
    assert_eq!(renamed["conditions"]["seed"], 4711);
}

#[test]
fn an_import_refuses_what_is_no_profile_and_names_that_are_paths() {
    let directory = tempfile::tempdir().unwrap();
    let (from, into) = (directory.path().join("from"), directory.path().join("into"));
    fs::create_dir_all(&from).unwrap();
    let mut web = sample("web");
    web["workload"]["name"] = json!("../../etc/passwd");
    fs::write(from.join("a.json"), web.to_string()).unwrap();
    web["workload"]["name"] = json!("half");
    let whole = web.to_string();
    fs::write(from.join("b.json"), &whole[..whole.len() / 2]).unwrap();
    web["format"] = json!("jostle-profile/7");
    fs::write(from.join("c.json"), web.to_string()).unwrap();
    let (code, page, stderr) = profiles(&["import", text(&from), "--into", text(&into)]);
    assert_eq!(code, Some(1), "{page}");
    assert!(
        stderr.contains("cut short") && stderr.contains("jostle-profile/7"),
        "{stderr}"
    );
    let files: Vec<PathBuf> = contents(&into).into_keys().collect();
    assert_eq!(files, [into.join("-..-etc-passwd.json")]);
}

#[test]
fn exported_rows_have_a_number_or_a_reason() {
    let (code, table, _) = profiles(&["export", "profiles", "--csv"]);
    assert_eq!(code, Some(0));
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let mut rows = 0;
    for row in reader.deserialize::<BTreeMap<String, String>>() {
        let row = row.unwrap();
        assert_eq!(
            row["score"].is_empty(),
            !row["reason"].is_empty(),
            "{row:?}"
        );
        assert_eq!(
            row["score"].is_empty(),
            row["score_low"].is_empty(),
            "{row:?}"
        );
        rows += 1;
    }
    assert!(rows > 1000, "{rows}");
}

#[test]
fn pruning_deletes_only_with_the_flag_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let web = sample("web");
    for name in ["a.json", "b.json"] {
        fs::write(directory.path().join(name), web.to_string()).unwrap();
    }
    fs::write(directory.path().join("c.json"), "{\"format\":\"other/1\"}").unwrap();
    fs::write(
        directory.path().join("d.json"),
        "{\"format\":\"jostle-pairs/1\"}",
    )
    .unwrap();
    let before = contents(directory.path());
    let (code, _, stderr) = profiles(&["prune", text(directory.path())]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--duplicates"), "{stderr}");
    let all = [
        "prune",
        text(directory.path()),
        "--duplicates",
        "--other-formats",
    ];
    let (code, page, _) = profiles(&all);
    assert_eq!(code, Some(0));
    assert!(page.contains("2 of 4 files would go"), "{page}");
    assert_eq!(contents(directory.path()), before);
    let (code, page, _) = profiles(&[&all[..], &["--delete"]].concat());
    assert_eq!(code, Some(0), "{page}");
    let left: Vec<PathBuf> = contents(directory.path()).into_keys().collect();
    assert_eq!(
        left,
        ["a.json", "d.json"].map(|name| directory.path().join(name))
    );
}

#[test]
fn a_pipe_among_the_files_is_named_and_does_not_hold_it_up() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let into = directory.path().join("into");
    let from = text(directory.path());
    for arguments in [
        &["list", from][..],
        &["export", from],
        &["import", from, "--into", text(&into)],
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
        let command = command.arg("profiles").args(arguments);
        let output = command
            .timeout(std::time::Duration::from_secs(20))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some(), "{arguments:?} waits");
        assert!(told.contains("not a regular file"), "{arguments:?}: {told}");
    }
}

#[test]
fn an_export_that_fails_leaves_the_old_table() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("table.csv");
    fs::write(&out, "old").unwrap();
    let (code, _, _) = profiles(&["export", FIXTURES, "--out", text(&out)]);
    assert_eq!(code, Some(0));
    assert!(fs::read_to_string(&out).unwrap().lines().count() > 3);
    let (code, _, told) = profiles(&["export", FIXTURES, "--out", "/dev/full"]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("/dev/full"), "{told}");
    assert_eq!(contents(directory.path()).len(), 1);
}
