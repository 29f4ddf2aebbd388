//! `jostle simulate`: tables, documents that repeat, and what bad input earns.

use assert_cmd::Command;
use std::fs;
use std::path::Path;

fn simulate(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("jostle"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("simulate")
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        stderr,
    )
}

const SMALL: &str = "\
policies = [\"least-loaded\", \"ibench-l1\"]

[cluster]
hardware = \"paragon-40\"
servers = 10

[jobs]
count = 40

[arrivals]
process = \"constant\"
mean_seconds = 5
";

fn with(dir: &Path, toml: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let path = dir.join("small.toml");
    fs::write(&path, toml).unwrap();
    let mut args = vec![path.to_str().unwrap()];
    args.extend(more);
    simulate(&args)
}

#[test]
fn a_table_has_a_row_per_policy() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = with(dir.path(), SMALL, &["--seeds", "2", "--jobs", "1"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "small: 40 jobs, seeds 1 to 2",
        "least-loaded",
        "ibench-l1",
        "±",
        "QoS kept",
    ] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    assert!(!stdout.contains("pessimistic"), "{stdout}");
}

fn json(dir: &Path, more: &[&str]) -> serde_json::Value {
    let mut args = vec!["--json"];
    args.extend(more);
    let (code, stdout, stderr) = with(dir, SMALL, &args);
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn equal_seeds_give_equal_documents_but_for_the_timing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, mut again) = (
        json(dir.path(), &["--seed", "7", "--jobs", "1"]),
        json(dir.path(), &["--seed", "7", "--jobs", "3"]),
    );
    assert!(first["timing"][0]["decision_p50_seconds"].is_number());
    for document in [&mut first, &mut again] {
        document.as_object_mut().unwrap().remove("timing").unwrap();
    }
    assert_eq!(first, again);
    let mut other = json(dir.path(), &["--seed", "8"]);
    other.as_object_mut().unwrap().remove("timing").unwrap();
    assert_ne!(first, other);
    let performance = &first["policies"][0]["mean"]["mean_performance"];
    assert!(
        (0.3..=1.0).contains(&performance.as_f64().unwrap()),
        "{performance}"
    );
}

#[test]
fn a_directory_gets_the_document_and_a_plot() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/for/it");
    let args = ["--out", out.to_str().unwrap(), "--policy", "least-loaded"];
    let (code, stdout, stderr) = with(dir.path(), SMALL, &args);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stdout.contains("ibench-l1"), "{stdout}");
    let document = fs::read_to_string(out.join("small.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["policies"].as_array().unwrap().len(), 1);
    assert!(
        fs::read_to_string(out.join("small.svg"))
            .unwrap()
            .contains("least-loaded")
    );
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        2,
        "no temporary file is left"
    );
}

#[test]
fn jobs_that_fit_nowhere_are_told_and_do_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let app = "\n[[app]]\nname = \"giant\"\ncpus = 64\n";
    let (code, _, stderr) = with(dir.path(), &format!("{SMALL}{app}"), &[]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no job ran"), "{stderr}");
    let both = format!("{SMALL}{app}\n[[app]]\nname = \"small\"\ncpus = 1\n");
    let (code, stdout, stderr) = with(dir.path(), &both, &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("fit on no node"), "{stdout}");
}

#[test]
fn bad_input_is_refused_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    for (toml, expected) in [
        (
            SMALL.replace("count = 40", "cuont = 40"),
            "small.toml, line 8: unknown field `cuont`",
        ),
        (
            SMALL.replace("count = 40", "count = 0"),
            "line 8: is 0; write a whole number",
        ),
        (SMALL.replace("servers = 10", "servers = 0"), "line 5: is 0"),
        (
            SMALL.replace("= 5\n", "= -5\n"),
            "line 12: is -5; write a number of 0 or more",
        ),
        (
            SMALL.replace("ibench-l1", "ibench"),
            "line 1: key `policies`: there is no `ibench`; did you mean `ibench-l1`?",
        ),
        (SMALL.replace("[jobs]", "[jobs"), "line 7"),
        (
            "kind = \"job\"\n".to_string() + SMALL,
            "line 1: key `kind`: there is no `job`; did you mean `jobs`?",
        ),
    ] {
        let (code, stdout, stderr) = with(dir.path(), &toml, &[]);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(expected), "{expected} in {stderr}");
    }
    let (code, _, stderr) = simulate(&["/nowhere/small.toml"]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("/nowhere/small.toml: no such file"),
        "{stderr}"
    );
    let (code, _, stderr) = with(dir.path(), SMALL, &["--policy", "best"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("best"), "{stderr}");
}
