//! `jostle simulate`: tables, documents that repeat, and what bad input earns.

use crate::common::program::jostle;
use std::fs;
use std::path::Path;

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

fn simulate(args: &[&str]) -> (Option<i32>, String, String) {
    jostle(&[&["simulate"], args].concat()).parts()
}

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

fn json_of(args: &[&str]) -> serde_json::Value {
    let (code, stdout, stderr) = simulate(args);
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn document(dir: &Path, name: &str, toml: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, toml).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn several_admissions_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let both = format!("admission = [\"none\", \"arq\"]\n{SMALL}\n[arq]\nqueues = 4\n");
    let (code, stdout, stderr) = with(dir.path(), &both, &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let words = |line: &str| -> Vec<String> {
        line.split_whitespace()
            .take(2)
            .map(str::to_string)
            .collect()
    };
    let rows: Vec<Vec<String>> = stdout.lines().skip(2).take(5).map(words).collect();
    let expected = [
        ["policy", "admission"],
        ["least-loaded", "none"],
        ["least-loaded", "arq"],
        ["ibench-l1", "none"],
        ["ibench-l1", "arq"],
    ];
    assert_eq!(rows, expected);
    let (_, one, _) = with(dir.path(), &both, &["--admission", "arq"]);
    assert!(one.contains("admission arq\n"), "{one}");
}

/// One in five presses on the cache, on which the others depend.
const BULLY: &str = "\
policies = [\"random\"]

[[node]]
name = \"n\"
cpus = 8
memory = \"64GiB\"
count = 6

[jobs]
count = 2400

[arrivals]
process = \"constant\"
mean_seconds = 50

[wrangler]
windows = \"w.csv\"
confidence = \"tuned\"

[[app]]
name = \"bully\"
causes = { llc-capacity = 80 }

[[app]]
name = \"meek-1\"
tolerates = { llc-capacity = 5 }

[[app]]
name = \"meek-2\"
tolerates = { llc-capacity = 5 }

[[app]]
name = \"meek-3\"
tolerates = { llc-capacity = 5 }

[[app]]
name = \"meek-4\"
tolerates = { llc-capacity = 5 }
";

/// Windows of one seed teach the admission of another.
#[test]
fn wrangler_learns_from_windows_of_an_earlier_run() {
    let dir = tempfile::tempdir().unwrap();
    let toml = BULLY;
    let wrangler = ["--admission", "wrangler", "--seed", "2"];
    let (code, _, stderr) = with(dir.path(), toml, &wrangler);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("w.csv") && stderr.contains("cannot read"),
        "{stderr}"
    );

    let csv = dir.path().join("w.csv");
    let write = ["--windows", csv.to_str().unwrap(), "--seed", "1"];
    let (code, stdout, stderr) = with(dir.path(), toml, &write);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(
        stdout.contains("2400 windows of random, seed 1"),
        "{stdout}"
    );
    let text = fs::read_to_string(&csv).unwrap();
    assert_eq!(text.lines().count(), 2401);
    assert!(text.starts_with("node,workload,") && text.contains(",straggler\n"));

    let mut documents = Vec::new();
    for admission in ["wrangler", "wrangler", "none"] {
        let args = ["--json", "--seed", "2", "--admission", admission];
        let (code, stdout, stderr) = with(dir.path(), toml, &args);
        assert_eq!(code, Some(0), "{stderr}");
        let mut document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        document.as_object_mut().unwrap().remove("timing").unwrap();
        assert_eq!(document["policies"][0]["admission"], admission);
        documents.push(document);
    }
    assert_eq!(documents[0], documents[1]);
    let performance = |at: usize| documents[at]["policies"][0]["mean"]["mean_performance"].clone();
    let [gated, open] = [0, 2].map(|at| performance(at).as_f64().unwrap());
    assert!(gated > open + 0.005, "{gated} {open}");

    fs::write(&csv, "node,load,straggler\nn,0.5,2\n").unwrap();
    let (code, _, stderr) = with(dir.path(), toml, &wrangler);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("w.csv:2: "), "{stderr}");
    let (code, _, stderr) = with(dir.path(), SMALL, &wrangler);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("small.toml: ") && stderr.contains("[wrangler]"),
        "{stderr}"
    );
}

const CLOUD: &str = "\
kind = \"cloud\"
name = \"tiny\"
load = [[0, 40], [10, 80], [20, 40]]
with_profiles = [true]
";

#[test]
fn a_cloud_has_a_row_per_strategy() {
    let dir = tempfile::tempdir().unwrap();
    let path = document(dir.path(), "sky.toml", CLOUD);
    let (code, stdout, stderr) = simulate(&[&path, "--seeds", "2"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in ["tiny: 40 to 80 vCPUs, seeds 1 to 2", "SR", "OdF", "HM", "±"] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    let out = dir.path().join("out");
    let args = [
        &path,
        "--json",
        "--seeds",
        "2",
        "--out",
        out.to_str().unwrap(),
    ];
    let (once, again) = (json_of(&args), json_of(&args));
    assert_eq!(once, again);
    let written = fs::read_to_string(out.join("sky.json")).unwrap();
    assert_eq!(
        once,
        serde_json::from_str::<serde_json::Value>(&written).unwrap()
    );
    assert_eq!(once["runs"].as_array().unwrap().len(), 2);
    assert_eq!(once["strategies"][0]["strategy"], "SR");
    let mean = once["strategies"][0]["cost"]["mean"].as_f64().unwrap();
    let of = |run: usize| once["runs"][run]["strategies"][0]["cost"].as_f64().unwrap();
    assert!((mean - (of(0) + of(1)) / 2.0).abs() < 1e-9);
    let error = once["strategies"][0]["cost"]["standard_error"]
        .as_f64()
        .unwrap();
    assert!((error - (of(0) - of(1)).abs() / 2.0).abs() < 1e-9);
}

const STORAGE: &str = "\
kind = \"consolidation\"
days = 1
history_days = 2
";

#[test]
fn a_consolidation_has_a_row_per_scheme() {
    let dir = tempfile::tempdir().unwrap();
    let path = document(dir.path(), "disks.toml", STORAGE);
    let (code, stdout, stderr) = simulate(&[&path]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "disks: 40 instances on 40 nodes, 48 intervals, seed 1",
        "one-each",
        "bloc",
        "oracle",
    ] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    let once = json_of(&[&path, "--json", "--seed", "3"]);
    assert_eq!(
        once,
        json_of(&[&path, "--json", "--seed", "3", "--jobs", "1"])
    );
    assert_eq!(once["schemes"][0]["energy_factor"]["mean"], 1.0);
    assert_eq!(once["seeds"], serde_json::json!([3]));
}

#[test]
fn other_kinds_have_no_policies_and_check_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    for (toml, kind) in [(CLOUD, "cloud"), (STORAGE, "consolidation")] {
        let path = document(dir.path(), "other.toml", toml);
        for (flag, value) in [
            ("--policy", "random"),
            ("--admission", "arq"),
            ("--windows", "w.csv"),
        ] {
            let (code, stdout, stderr) = simulate(&[&path, flag, value]);
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
            assert!(stderr.contains(flag) && stderr.contains(kind), "{stderr}");
        }
    }
    for (toml, expected) in [
        (
            CLOUD.replace("[0, 40]", "[0, -40]"),
            "bad.toml, line 3: key `load`: is -40; write a number",
        ),
        (
            format!("{CLOUD}qos = 2\n"),
            "bad.toml, line 5: key `qos`: is 2",
        ),
        (
            format!("{CLOUD}days = 2\n"),
            "bad.toml, line 5: unknown field `days`",
        ),
        (
            STORAGE.replace("days = 1", "days = 0"),
            "bad.toml, line 2: key `days`: 0 is not within 1",
        ),
        (
            format!("{STORAGE}idle_power = nan\n"),
            "bad.toml, line 4: key `idle_power`: NaN is not within 0",
        ),
        (
            format!(
                "{STORAGE}[[nodes]]\nname = \"n\"\ncount = 99999999999\nbandwidth_mb_per_s = 1.0\ncapacity_gb = 1.0\n"
            ),
            "bad.toml, line 6: key `nodes[0].count`: 99999999999 is above",
        ),
        (
            format!("{STORAGE}schemes = [\"best\"]\n"),
            "bad.toml, line 4: unknown variant `best`",
        ),
    ] {
        let path = document(dir.path(), "bad.toml", &toml);
        let (code, stdout, stderr) = simulate(&[&path]);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(expected), "{expected} in {stderr}");
    }
}

/// The order that the papers and we claim, by gaps of several points where
/// another few seeds differ by tenths. The seeds are none that anything was
/// tuned on.
#[test]
fn who_knows_more_places_better() {
    let scenario = "scripts/scenarios/paragon-small-high.toml";
    let (code, stdout, stderr) = simulate(&[
        scenario,
        "--json",
        "--seed",
        "301",
        "--seeds",
        "6",
        "--policy",
        "least-loaded",
        "--policy",
        "interference-only",
        "--policy",
        "paragon",
        "--policy",
        "jostle",
    ]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let mean = |policy: &str| {
        let all = document["policies"].as_array().unwrap();
        let its = all.iter().find(|it| it["policy"] == policy).unwrap();
        its["mean"]["mean_performance"].as_f64().unwrap()
    };
    let order = ["least-loaded", "interference-only", "paragon", "jostle"].map(mean);
    assert!(
        order.windows(2).all(|pair| pair[0] + 0.01 < pair[1]),
        "{order:?}"
    );
}
