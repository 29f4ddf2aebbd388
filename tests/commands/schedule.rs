//! `jostle schedule`: placements, explanations, and what bad input earns.

use crate::common::program::jostle;
use assert_cmd::Command;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const NODES: &str = "tests/fixtures/nodes.toml";
const APPS: &str = "tests/fixtures/profiles";

fn schedule(args: &[&str]) -> (Option<i32>, String, String) {
    jostle(&[&["schedule"], args].concat()).parts()
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
fn paragon_keeps_everybody_within_tolerance_and_says_why() {
    let args = ["--nodes", NODES, "--apps", APPS, "--policy", "paragon"];
    let (code, stdout, stderr) = schedule(&[&args[..], &["--explain"]].concat());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "policy paragon",
        "analytics → n2",
        "kv-store → n3",
        "web → n1",
        "its residents tolerate 35 of memory-bandwidth, the newcomer causes 66 (D1 −31)",
        "not counted cpu-time",
        "storage-bandwidth for web",
    ] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    assert!(!stdout.contains("expect harm"), "{stdout}");
    assert!(!stdout.contains('\u{1b}'));
    // Without it, a line for each.
    let (_, short, _) = schedule(&args);
    assert!(
        short.contains("analytics → n2") && short.contains("web → n1"),
        "{short}"
    );
    assert!(short.lines().count() < 20, "{short}");
}

#[test]
fn the_closest_fit_puts_two_streams_together_and_the_output_warns() {
    let args = ["--nodes", NODES, "--apps", APPS, "--policy", "ibench-l1"];
    let (code, stdout, _) = schedule(&args);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("analytics → n1"), "{stdout}");
    assert!(stdout.contains("expect harm"), "{stdout}");
    let (_, stdout, _) = schedule(&[&args[..], &["--explain"]].concat());
    assert!(stdout.contains("expect harm to residents on memory-bandwidth (D1 −31)"));
}

#[test]
fn json_is_one_document() {
    let args = ["--nodes", NODES, "--apps", APPS, "--json", "--policy"];
    let (code, stdout, _) = schedule(&[&args[..], &["ibench-l1"]].concat());
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["policy"], "ibench-l1");
    assert_eq!(document["placed"][1]["app"], "kv-store");
    assert_eq!(document["not_placed"], json!([]));
    let (_, stdout, _) = schedule(&[&args[..], &["least-loaded", "--app", "kv-store"]].concat());
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["placed"][0]["node"], "n3");
    let only_web = "[[node]]\nname = \"n2\"\ncpus = 8\nmemory = \"8GiB\"\nruns = [\"web\"]\n";
    let (_, stdout, _) = with_nodes(only_web, &["--app", "analytics", "--json"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
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
    let paragon = ["--app", "kv-store", "--policy", "paragon", "--explain"];
    let (code, stdout, _) = with_nodes(&toml, &paragon);
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("expect harm to the newcomer on llc-capacity (D2 −17)"),
        "{stdout}"
    );
    assert!(
        stdout.contains("relaxed     D2 ≥ 0 on llc-capacity"),
        "{stdout}"
    );
    let (code, stdout, _) = with_nodes(&toml, &[&paragon[..], &["--strict"]].concat());
    assert_eq!(code, Some(1));
    assert!(stdout.contains("kv-store → not placed"), "{stdout}");
    assert!(stdout.contains("of llc-capacity"), "{stdout}");
    let (code, _, stderr) = with_nodes(&toml, &["--policy", "least-loaded", "--strict"]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("least-loaded does not look for harm"),
        "{stderr}"
    );
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
        (
            node("[[app]]\nname = \"web\"\nqos = 2.0\n"),
            vec!["line 7", "`qos`", "at most 1"],
        ),
        (
            node("[[app]]\nname = \"web\"\nplatforms = { x = 0.0 }\n"),
            vec!["line 7", "`platforms.x`", "above 0"],
        ),
        (
            node("").replace("cpus = 8", "cpus = 4000000000"),
            vec!["line 3", "`cpus`", "at most 16384"],
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
            with(&["--policy", "least-loded"]),
            vec![
                "least-loaded",
                "ibench-l1",
                "similar value exists: 'least-loaded'",
            ],
        ),
        (with(&["--app", "redis"]), vec!["--app redis", "`web`"]),
        (with(&["--seed", "many"]), vec!["--seed", "many"]),
        (with(&["--stdin", "--json"]), vec!["--stdin", "--json"]),
        (with(&["--stdin", "--app", "web"]), vec!["--stdin", "--app"]),
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
        (vec!["--apps", APPS], vec!["--nodes"]),
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

#[test]
fn a_speed_on_a_platform_that_no_node_has_is_pointed_out() {
    let toml = node("[[app]]\nname = \"web\"\nplatforms = { \"Other CPU\" = 0.5 }\n");
    let (code, _, stderr) = with_nodes(&toml, &["--app", "web"]);
    assert_eq!(code, Some(0));
    let expected = "app `web` has a speed on platform `Other CPU`, which no node has";
    assert!(stderr.contains(expected), "{stderr}");
}

/// The answers to `input`, line by line.
/// A directory with the profile of `web` and a curve by CPUs.
fn scaled(cpus: &[(u32, f64)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(Path::new(APPS).join("web.json")).unwrap();
    let mut profile: Value = serde_json::from_str(&text).unwrap();
    let points = cpus.iter().map(|(size, speedup)| {
        json!({"size": size, "speedup": {
            "value": speedup, "ci95": [speedup - 0.1, speedup + 0.1],
            "status": "measured", "blocks": 40,
        }})
    });
    profile["scaling"] = json!({"cpus": {
        "recorded_at": "2026-11-20T09:30:00Z", "seconds": 15.0, "metric": "runs",
        "cpus": [0, 1, 2, 3], "points": points.collect::<Vec<_>>(),
    }});
    fs::write(directory.path().join("web.json"), profile.to_string()).unwrap();
    directory
}

const SIZERS: [&str; 3] = ["quasar-sizing", "bazaar", "jostle"];

#[test]
fn a_speed_that_is_wanted_chooses_the_size_by_the_profiles_curve() {
    let apps = scaled(&[(1, 1.0), (2, 1.8), (4, 2.5)]);
    let nodes = apps.path().join("nodes.toml");
    let place = |policy: &str, target: f64, apps: &str| {
        fs::write(
            &nodes,
            node(&format!("[[app]]\nname = \"web\"\ntarget = {target}\n")),
        )
        .unwrap();
        let nodes = nodes.to_str().unwrap();
        let args = [
            "--nodes", nodes, "--apps", apps, "--app", "web", "--json", "--policy", policy,
        ];
        let (code, stdout, stderr) = schedule(&args);
        assert_eq!(code, Some(0), "{stderr}");
        let document: Value = serde_json::from_str(&stdout).unwrap();
        document["placed"][0]["size"].clone()
    };
    let curve = apps.path().to_str().unwrap();
    for policy in SIZERS {
        let size = place(policy, 1.5, curve);
        assert_eq!(size["cpus"], 2, "{policy}: {size}");
        assert_eq!(size["speedup"], 1.8);
        let why = size["why"].as_str().unwrap();
        let expected = "2 CPUs give 1.80 times the speed of one (95 % interval 1.70 to 1.90); 1.50 \
                        is wanted, and 1 CPU gives 1.00";
        assert_eq!(why, expected, "{policy}");
        assert_eq!(place(policy, 0.8, curve)["cpus"], 1, "{policy}");
        // The fixtures have no curve.
        let size = place(policy, 1.5, APPS);
        assert_eq!(
            size["why"],
            "no scaling curve: placed at the size asked for, 1 CPU"
        );
        assert_eq!((&size["cpus"], &size["speedup"]), (&json!(1), &Value::Null));
    }
    let size = place("quasar-sizing", 3.0, curve);
    assert_eq!(size["cpus"], 4);
    let why = size["why"].as_str().unwrap();
    assert!(
        why.ends_with("the curve ends at 4 CPUs, and does not reach it"),
        "{why}"
    );
    let why = place("quasar-sizing", 1.75, curve)["why"].to_string();
    assert!(
        why.contains("the lower end of the interval is below that"),
        "{why}"
    );
    let size = place("least-loaded", 1.5, curve);
    assert_eq!(
        size["why"],
        "least-loaded does not choose sizes: placed at the size asked for, 1 CPU"
    );
}

#[test]
fn the_stream_sizes_by_the_target_of_the_event_or_of_the_nodes_file() {
    let apps = scaled(&[(1, 1.0), (2, 1.8)]);
    let nodes = apps.path().join("nodes.toml");
    fs::write(&nodes, node("[[app]]\nname = \"web\"\ntarget = 1.6\n")).unwrap();
    let (nodes, apps) = (nodes.to_str().unwrap(), apps.path().to_str().unwrap());
    for policy in SIZERS {
        let args = ["--nodes", nodes, "--apps", apps, "--policy", policy];
        let input = [
            json!({"event": "arrive", "id": "a", "app": "web"}),
            json!({"event": "arrive", "id": "b", "app": "web", "target": 0.5}),
        ];
        let input = input.map(|event| event.to_string()).join("\n");
        let (_, answers, stderr) = stream(&args, input.as_bytes());
        assert_eq!(stderr, "");
        let size = |at: usize| answers[at]["decision"]["size"].clone();
        assert_eq!(
            (&size(0)["cpus"], &size(0)["target"]),
            (&json!(2), &json!(1.6)),
            "{policy}"
        );
        assert_eq!(
            (&size(1)["cpus"], &size(1)["target"]),
            (&json!(1), &json!(0.5)),
            "{policy}"
        );
    }
}

fn stream(args: &[&str], input: &[u8]) -> (Option<i32>, Vec<Value>, String) {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("jostle"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["schedule", "--stdin"])
        .args(args)
        .write_stdin(input)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panicked"), "{stderr}");
    let answers = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (output.status.code(), answers, stderr)
}

#[test]
fn a_stream_of_events_goes_on_past_garbage() {
    let mut input = Vec::new();
    for line in [
        &br#"{"event":"arrive","id":"j1","app":"web","cpus":8}"#[..],
        b"\xff\xff",
        b"not JSON",
        br#"{"event":"depart","id":"nobody"}"#,
        br#"{"event":"depart","id":"n1/analytics/1"}"#,
        br#"{"event":"node-down","name":"n2"}"#,
    ] {
        input.extend_from_slice(line);
        input.push(b'\n');
    }
    let (code, answers, stderr) = stream(&["--nodes", NODES, "--apps", APPS], &input);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let kinds: Vec<&str> = answers
        .iter()
        .map(|answer| answer["answer"].as_str().unwrap())
        .collect();
    // No node has 8 CPUs free before analytics leaves n1; the web of n2 then
    // goes to n3.
    assert_eq!(
        kinds,
        [
            "waiting",
            "error",
            "error",
            "error",
            "departed",
            "placed",
            "node-down",
            "placed"
        ]
    );
    assert_eq!(answers[2]["line"], 3);
    assert_eq!(
        (&answers[5]["id"], &answers[5]["node"]),
        (&json!("j1"), &json!("n1"))
    );
    assert_eq!(
        (&answers[7]["id"], &answers[7]["node"], &answers[7]["from"]),
        (&json!("n2/web/1"), &json!("n3"), &json!("n2"))
    );
}

#[test]
fn a_stream_needs_neither_nodes_nor_profiles_beforehand() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(APPS)
        .join("web.json");
    let profile: Value = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    let arrive = json!({"event": "arrive", "id": "j1", "profile": profile});
    let up = json!({"event": "node-up", "name": "n1", "cpus": 2, "memory": "1GiB"});
    let input = format!("{arrive}\n{up}\n");
    let (code, answers, _) = stream(&["--explain"], input.as_bytes());
    assert_eq!(code, Some(0));
    assert_eq!(answers[0]["answer"], "waiting");
    assert!(
        answers[0]["why"]
            .as_str()
            .unwrap()
            .contains("there are no nodes")
    );
    assert_eq!(answers[2]["node"], "n1");
    assert!(answers[2]["decision"]["comparisons"].is_array());
}

#[test]
fn every_answer_is_out_before_the_next_event_is_in() {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("jostle"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["schedule", "--stdin", "--nodes", NODES, "--apps", APPS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for id in ["a", "b", "c"] {
        writeln!(stdin, r#"{{"event":"arrive","id":"{id}","app":"web"}}"#).unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            (&answer["answer"], &answer["id"]),
            (&json!("placed"), &json!(id))
        );
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// An agent's state of node n1 with so much of its CPUs in use.
fn node_state(cpu_percent: Option<f64>) -> Value {
    let reading = |value: Option<f64>| match value {
        Some(value) => json!(value),
        None => json!({"unavailable": "not read"}),
    };
    json!({
        "format": "jostle-node/1", "tool_version": "0", "name": "n1",
        "recorded_at": "2026-01-01T00:00:00Z", "interval_seconds": 1.0, "refresh": 2,
        "machine": {
            "fingerprint": "f", "model": "m", "cpus": 8, "caches": [], "smt": false,
            "virtualized": null, "kernel": "k", "memory_bytes": 1
        },
        "agent": {
            "uptime_seconds": 1.0, "cpu_percent": 0.1, "resident_bytes": 1,
            "refresh_cpu_seconds": 0.1
        },
        // As an agent wrote it before it read disks and network devices.
        "load": {
            "cpu_percent": reading(cpu_percent), "steal_percent": 0.0,
            "memory_available_bytes": 1, "psi_cpu_some_percent": 0.0,
            "psi_memory_some_percent": 0.0, "psi_io_some_percent": 0.0
        },
        "resources": {}, "workloads": []
    })
}

#[test]
fn windows_of_an_agent_gate_a_placement() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let mut windows = format!(
        "# {}\ntime,node,machine,workload,node_cpu_percent,workload_cpu_percent,slow\n",
        jostle_profile::windows::FORMAT
    );
    for second in 0..300 {
        let others = second * 37 % 100;
        let slow = u8::from(others > 60);
        windows += &format!("t{second:03},n1,f,web,{},50,{slow}\n", others + 50);
    }
    // A crash cut the last line.
    fs::write(at("windows.csv"), windows + "t300,n1,f").unwrap();
    let trained = jostle(&["train", &at("windows.csv"), "-o", &at("model.json")]);
    let (code, stdout, stderr) = trained.parts();
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for expected in [
        "300 windows of 1 pair;",
        "n1    web       separate",
        "always \"not slow\"",
        "cpu 100 % (cpu_percent)",
        "its last line is cut off",
    ] {
        assert!(stdout.contains(expected), "{expected} in\n{stdout}");
    }
    fs::write(at("nodes.toml"), node("")).unwrap();
    let admission = format!("wrangler:{}", at("model.json"));
    let place = |state: Option<Value>| {
        let mut args = vec![
            "schedule".to_string(),
            "--nodes".into(),
            at("nodes.toml"),
            "--apps".into(),
            APPS.into(),
            "--app".into(),
            "web".into(),
            "--admission".into(),
            admission.clone(),
            "--explain".into(),
        ];
        if let Some(state) = state {
            fs::write(at("state.json"), state.to_string()).unwrap();
            args.extend(["--node-state".into(), at("state.json")]);
        }
        jostle(&args).parts()
    };
    let (code, stdout, _) = place(Some(node_state(Some(95.0))));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("because of cpu (cpu_percent)"), "{stdout}");
    let (code, stdout, _) = place(Some(node_state(Some(5.0))));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("likely to be slow there now"), "{stdout}");
    let (code, stdout, _) = place(Some(node_state(None)));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("no reading of cpu_percent"), "{stdout}");
    let (code, stdout, _) = place(None);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("unknown, admitted"), "{stdout}");
    let mut elsewhere = node_state(Some(5.0));
    elsewhere["name"] = json!("other");
    let (code, _, stderr) = place(Some(elsewhere));
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("node `other`, which --nodes does not have"),
        "{stderr}"
    );
}

#[test]
fn wrong_admissions_and_windows_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("w.csv").display().to_string();
    fs::write(&csv, "# jostle-windows/2\n").unwrap();
    let model = format!("wrangler:{csv}");
    let args = ["schedule", "--nodes", NODES, "--apps", APPS, "--admission"];
    for (admission, words) in [
        ("first", "there are none, arq, wrangler"),
        ("arq:x", "arq takes no model"),
        ("wrangler:", "name a model"),
        ("wrangler:/no/such", "cannot read /no/such"),
        (model.as_str(), "newer jostle"),
    ] {
        let asked = format!("--admission {admission}");
        jostle(&[&args[..], &[admission]].concat()).says(2, &[&asked, words]);
    }
    let node_state = ["none", "--node-state", NODES];
    jostle(&[&args[..], &node_state].concat()).says(2, &["--node-state", "not what an agent"]);
    jostle(&["train", "/no/such.csv"]).says(2, &["cannot read /no/such.csv"]);
    jostle(&["train", &csv]).says(2, &["newer jostle"]);
    jostle(&["train", &csv, "--confidence", "2"]).says(2, &["--confidence", "below 1"]);
    fs::write(&csv, "node,load,straggler\nn,1,0\n").unwrap();
    jostle(&["train", &csv]).says(2, &["1 window is too few"]);
}

#[test]
fn arq_places_a_directory_of_applications() {
    let args = [
        "--nodes",
        NODES,
        "--apps",
        APPS,
        "--admission",
        "arq",
        "--json",
    ];
    let (code, stdout, stderr) = schedule(&args);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json["placed"].as_array().unwrap().len(), 3);
}
