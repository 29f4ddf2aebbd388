//! `jostle schedule`: placements, explanations, and what bad input earns.

use assert_cmd::Command;
use std::fs;
use std::path::Path;

const NODES: &str = "tests/fixtures/nodes.toml";
const APPS: &str = "tests/fixtures/profiles";

fn schedule(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("jostle"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("schedule")
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

fn with_nodes(toml: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nodes.toml");
    fs::write(&path, toml).unwrap();
    let mut args = vec!["--nodes", path.to_str().unwrap(), "--apps", APPS];
    args.extend(more);
    schedule(&args)
}

fn node(more: &str) -> String {
    format!("[[node]]\nname = \"n1\"\ncpus = 8\nmemory = \"32GiB\"\n{more}")
}

#[test]
fn the_default_keeps_everybody_within_tolerance_and_says_why() {
    let (code, stdout, stderr) = schedule(&["--nodes", NODES, "--apps", APPS]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "policy headroom",
        "analytics → n2",
        "kv-store → n3",
        "web → n1",
        "its residents cause 66 of memory-bandwidth, the newcomer tolerates 35 (D2 −31)",
        "not counted cpu-time",
        "storage-bandwidth for web",
    ] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    assert!(!stdout.contains("expect harm"), "{stdout}");
    assert!(!stdout.contains('\u{1b}'));
}

#[test]
fn the_closest_fit_puts_two_streams_together_and_the_output_warns() {
    let args = ["--nodes", NODES, "--apps", APPS, "--policy", "ibench-l1"];
    let (code, stdout, _) = schedule(&args);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("analytics → n1"), "{stdout}");
    assert!(stdout.contains("expect harm to residents on memory-bandwidth (D1 −31)"));
}

#[test]
fn json_is_one_document() {
    let (code, stdout, _) = schedule(&["--nodes", NODES, "--apps", APPS, "--json"]);
    assert_eq!(code, Some(0));
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["policy"], "headroom");
    assert_eq!(document["placed"][1]["app"], "kv-store");
    assert_eq!(document["placed"][1]["node"], "n3");
    assert_eq!(document["not_placed"], serde_json::json!([]));
    let llc = document["placed"][0]["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .find(|comparison| comparison["resource"] == "llc-capacity")
        .unwrap();
    assert_eq!(llc["d1"], 3.0, "64 tolerated by web − 61 caused");
    assert_eq!(llc["d2"], 71.0, "86 tolerated − 15 caused by web");
}

#[test]
fn what_does_not_fit_is_told_and_fails_the_gate() {
    let toml = "[[node]]\nname = \"small\"\ncpus = 2\nmemory = \"1GiB\"\n\
                [[app]]\nname = \"web\"\ncpus = 3\n\
                [[app]]\nname = \"analytics\"\nmemory = \"2GiB\"\n";
    let (code, stdout, stderr) = with_nodes(toml, &[]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("kv-store → small"), "{stdout}");
    assert!(stdout.contains("web → not placed"), "{stdout}");
    assert!(
        stdout.contains("small: 1 of 2 CPUs free, 3 needed"),
        "{stdout}"
    );
    assert!(
        stdout.contains("1.0 GiB free of 1.0 GiB memory, 2.0 GiB needed"),
        "{stdout}"
    );
    assert!(
        stderr.contains("2 of 3 applications could not be placed"),
        "{stderr}"
    );
}

#[test]
fn strict_places_nothing_that_hurts() {
    let toml = node("runs = [\"analytics\"]");
    let (code, stdout, _) = with_nodes(&toml, &["--app", "kv-store"]);
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("expect harm to the newcomer on llc-capacity (D2 −17)"),
        "{stdout}"
    );
    assert!(
        stdout.contains("relaxed     D2 ≥ 0 on llc-capacity"),
        "{stdout}"
    );
    let (code, stdout, _) = with_nodes(&toml, &["--app", "kv-store", "--strict"]);
    assert_eq!(code, Some(1));
    assert!(stdout.contains("kv-store → not placed"), "{stdout}");
    assert!(stdout.contains("of llc-capacity"), "{stdout}");
}

#[test]
fn shared_cpus_make_cpu_time_count() {
    let toml = node("shares_cpus = true\nruns = [\"analytics\"]");
    let (_, stdout, _) = with_nodes(&toml, &["--app", "web", "--explain"]);
    assert!(!stdout.contains("not counted"), "{stdout}");
    let row = stdout
        .lines()
        .find(|line| line.trim().starts_with("cpu-time"))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["cpu-time", "9", "25", "−16", "30", "52", "−22"]);
}

#[test]
fn bad_nodes_files_are_refused_with_line_and_key() {
    let twice = format!("{}{}", node(""), node(""));
    let cases: Vec<(String, Vec<&str>)> = vec![
        (String::new(), vec!["no node"]),
        ("[[node]\n".into(), vec!["line 1"]),
        ("node = 3\n".into(), vec!["line 1", "node = 3"]),
        (node("cpu = 4\n"), vec!["line 5", "unknown field `cpu`"]),
        (twice, vec!["line 6", "`n1`", "already used on line 2"]),
        (
            node("").replace("cpus = 8", "cpus = 0"),
            vec!["line 3", "`cpus`", "1 or more"],
        ),
        (
            node("").replace("cpus = 8", "cpus = -2"),
            vec!["line 3", "`cpus`", "-2"],
        ),
        (
            node("").replace("cpus = 8", "cpus = \"many\""),
            vec!["line 3", "cpus = \"many\""],
        ),
        (
            node("").replace("cpus = 8", "cpus = 99999999999"),
            vec!["line 3", "`cpus`"],
        ),
        (
            node("").replace("cpus = 8\n", ""),
            vec!["missing field `cpus`"],
        ),
        (
            node("").replace("32GiB", "-32GiB"),
            vec!["line 4", "`memory`", "negative"],
        ),
        (
            node("").replace("32GiB", "32"),
            vec!["line 4", "`memory`", "no unit"],
        ),
        (
            node("").replace("32GiB", "32GiX"),
            vec!["line 4", "not a unit"],
        ),
        (
            node("runs = [\"redis\"]\n"),
            vec!["line 5", "`runs`", "`redis`", "`kv-store`"],
        ),
        (
            node("[[app]]\nname = \"redis\"\n"),
            vec!["line 6", "`redis`"],
        ),
        (
            node("[[app]]\nname = \"web\"\ncpus = 0\n"),
            vec!["line 7", "`cpus`"],
        ),
    ];
    for (toml, says) in cases {
        let (code, stdout, stderr) = with_nodes(&toml, &[]);
        assert_eq!(code, Some(2), "{toml}\n{stderr}");
        assert!(stdout.is_empty());
        for expected in says.into_iter().chain(["--nodes", "nodes.toml"]) {
            assert!(stderr.contains(expected), "{toml}\n{expected} in {stderr}");
        }
    }
}

#[test]
fn bad_flags_are_refused_with_the_fix() {
    let with = |more: &[&'static str]| {
        let mut args = vec!["--nodes", NODES, "--apps", APPS];
        args.extend(more);
        args
    };
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (
            with(&["--policy", "headrom"]),
            vec![
                "least-loaded, ibench-l1, headroom",
                "similar value exists: 'headroom'",
            ],
        ),
        (with(&["--app", "redis"]), vec!["--app redis", "`web`"]),
        (
            with(&["--policy", "least-loaded", "--strict"]),
            vec!["--strict needs --policy headroom"],
        ),
        (
            with(&["--profiles", "no/such"]),
            vec!["--profiles no/such", "no such directory"],
        ),
        (
            vec!["--nodes", "no.toml", "--apps", APPS],
            vec!["--nodes no.toml", "no such file"],
        ),
        (
            vec!["--nodes", NODES, "--apps", "no"],
            vec!["--apps no", "no such directory"],
        ),
        (
            vec!["--nodes", NODES, "--apps", NODES],
            vec!["--apps", "is not a directory"],
        ),
        (
            vec!["--nodes", NODES, "--apps", "src"],
            vec!["--apps src", "holds no profile"],
        ),
        (vec!["--nodes", NODES], vec!["--apps"]),
    ];
    for (args, says) in cases {
        let (code, stdout, stderr) = schedule(&args);
        assert_eq!(code, Some(2), "{args:?} {stderr}");
        assert!(stdout.is_empty());
        for expected in says {
            assert!(stderr.contains(expected), "{expected} in {stderr}");
        }
    }
}

#[test]
fn bad_profiles_are_refused_by_name() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(APPS)
        .join("web.json");
    let text = fs::read_to_string(fixture).unwrap();
    let cases = [
        (text.clone(), vec!["`web`", "web.json", "other.json"]),
        (
            text.replace("profile/1", "profile/2"),
            vec!["other.json", "needs a newer jostle"],
        ),
        (
            text[..text.len() / 2].to_string(),
            vec!["other.json", "cut short", "line"],
        ),
    ];
    for (other, says) in cases {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("web.json"), &text).unwrap();
        fs::write(dir.path().join("other.json"), other).unwrap();
        let (code, _, stderr) =
            schedule(&["--nodes", NODES, "--apps", dir.path().to_str().unwrap()]);
        assert_eq!(code, Some(2));
        for expected in says {
            assert!(stderr.contains(expected), "{expected} in {stderr}");
        }
    }
}

#[test]
fn a_full_node_is_kept_out_with_a_warning() {
    let toml = format!(
        "{}[[node]]\nname = \"free\"\ncpus = 8\nmemory = \"1GiB\"\n",
        node("").replace("cpus = 8", "cpus = 1\nruns = [\"web\", \"web\"]")
    );
    let (code, stdout, stderr) = with_nodes(&toml, &["--app", "kv-store"]);
    assert_eq!(code, Some(0));
    assert!(
        stderr.contains("warning: node `n1` already runs more"),
        "{stderr}"
    );
    assert!(stdout.contains("kv-store → free"), "{stdout}");
}
