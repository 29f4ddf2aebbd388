//! `jostle show` and `jostle schema`: what a reader gets, and what bad input earns.

use assert_cmd::Command;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const SAMPLE: &str = "tests/fixtures/profiles/kv-store.json";

fn jostle() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("jostle"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn sample() -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Shows a file that holds `text`; returns the exit code and stderr.
fn refusal(text: &[u8]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    fs::write(&path, text).unwrap();
    let output = jostle().arg("show").arg(&path).output().unwrap();
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("p.json"), "names the file: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code(), stderr)
}

#[test]
fn a_profile_takes_one_screen_and_ends_in_a_conclusion() {
    let (code, text, stderr) = shown(&sample(), &["--width", "80"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(text.lines().count() <= 40, "{text}");
    for expected in [
        "128,400 operations/s without interference (±0.3894 %)",
        "\ncpu-time         █▉     38 (34–42)",
        "29 (28–30)",
        "≤ 1.0",
        "Not measured here: storage-bandwidth.",
        "Most sensitive to llc-capacity: loses 17 % at full",
        "also to l2-capacity (8.8 %), memory-bandwidth (6.9 %)",
        "Open: l2-bandwidth; a longer --budget decides more.",
    ] {
        let flat = |text: &str| text.replace('\n', " ");
        let found = text.contains(expected) || flat(&text).contains(&flat(expected));
        assert!(found, "{expected} in\n{text}");
    }
    // What was not measured here says so.
    let mut inferred = sample();
    inferred["resources"]["l1d"]["status"] = "inferred".into();
    let (_, marked, _) = shown(&inferred, &["--width", "120"]);
    let row = marked.lines().find(|line| line.starts_with("l1d")).unwrap();
    assert!(row.ends_with("insensitive ~"), "{marked}");
    assert!(marked.contains("~: in part inferred"), "{marked}");
    // Too narrow for bars, then for intervals; nothing is cut off.
    let (_, narrow, _) = shown(&sample(), &["--width", "60"]);
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 60),
        "{narrow}"
    );
    assert!(
        !narrow.contains('█') && narrow.contains("cpu-time"),
        "{narrow}"
    );
}

#[test]
fn one_resource_is_explained_with_its_curve() {
    let explained = |resource: &str| {
        let ended = jostle()
            .args(["explain", SAMPLE, resource])
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code(), text(ended.stdout), text(ended.stderr))
    };
    let (code, text, _) = explained("llc-capacity");
    assert_eq!(code, Some(0));
    for expected in [
        "tolerates   44 (40–48): up to there it keeps 95 % of its speed",
        "The target beside the source",
        "the source reached 88 % of the LLC",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    assert!(!text.contains("l2-capacity"), "{text}");
    let (code, _, stderr) = explained("llc");
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("no resource 'llc'; it has cpu-time"),
        "{stderr}"
    );
}

#[test]
fn the_details_read_from_most_to_least_sensitive() {
    let output = jostle().args(["explain", SAMPLE]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "no colour in a pipe");
    let order = [
        "\ncpu-time",
        "\nllc-capacity",
        "\nl2-capacity",
        "\nmemory-bandwidth",
        "\nl1d",
        "\nmemory-capacity",
        "\nl2-bandwidth",
        "\nstorage-bandwidth",
    ];
    let places: Vec<usize> = order.iter().map(|id| text.find(id).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    for expected in [
        "kv-server --threads 1",
        "128,400 operations/s (95 % interval 127,900–128,900)",
        "██████░░░░  44 (40–48)",
        "none, at most 1.0 %",
        "17.3 % (16.1–18.5)",
        "no block device accepts direct I/O here",
        "the source reached 88 % of the LLC",
        "a loss of at most 1.9 %",
        "llc-misses ×3.1 (2.8 to 3.4) [counted 50 % of the time], ipc −22 % (−25 to −19)",
        "llc-occupancy: resctrl is not mounted",
        "What this does not prove",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
}

#[test]
fn lines_keep_within_the_width() {
    for width in [80usize, 100, 120] {
        for verbose in [None, Some("--verbose")] {
            let columns = width.to_string();
            let arguments = ["show", SAMPLE, "--width", &columns];
            let output = jostle().args(arguments).args(verbose).output().unwrap();
            for line in String::from_utf8(output.stdout).unwrap().lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn json_is_the_profile() {
    let output = jostle().args(["show", SAMPLE, "--json"]).output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown, sample());
}

#[test]
fn bad_profiles_are_refused_with_the_place() {
    let text = serde_json::to_string_pretty(&sample()).unwrap();
    let half = &text.as_bytes()[..text.len() / 2];
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut profile = sample();
        change(&mut profile);
        serde_json::to_vec_pretty(&profile).unwrap()
    };
    let cases: Vec<(&str, Vec<u8>, Vec<&str>)> = vec![
        (
            "truncated",
            half.to_vec(),
            vec!["cut short", "line", "column"],
        ),
        ("empty", Vec::new(), vec!["empty"]),
        (
            "not JSON",
            b"{ \"format\": nope }".to_vec(),
            vec!["not valid JSON", "line 1"],
        ),
        (
            "not an object",
            b"[1]".to_vec(),
            vec!["not a jostle profile"],
        ),
        ("not text", vec![0xff, 0xfe, 0x00], vec!["not valid JSON"]),
        (
            "no format",
            b"{}".to_vec(),
            vec!["not a jostle profile", "no key `format`"],
        ),
        (
            "another format",
            changed(&|p| p["format"] = "other/1".into()),
            vec!["not a jostle profile", "other/1"],
        ),
        (
            "newer format",
            changed(&|p| {
                p["format"] = "jostle-profile/2".into();
                p["workload"] = 1.into();
            }),
            vec!["jostle-profile/2", "needs a newer jostle"],
        ),
        (
            "wrong type",
            changed(&|p| p["resources"]["l1d"]["tolerated"]["score"] = "high".into()),
            vec!["resources.l1d.tolerated.score", "line"],
        ),
        (
            "missing key",
            changed(&|p| {
                p["machine"].as_object_mut().unwrap().remove("kernel");
            }),
            vec!["machine", "kernel"],
        ),
        (
            "score off the scale",
            changed(&|p| p["resources"]["l1d"]["caused"]["score"] = 101.into()),
            vec!["resources.l1d.caused.score", "0 to 100"],
        ),
        (
            "interval reversed",
            changed(&|p| {
                p["resources"]["llc-capacity"]["curve"][1]["ci95"] = serde_json::json!([0.9, 0.8])
            }),
            vec!["resources.llc-capacity.curve[1].ci95", "lower end first"],
        ),
    ];
    let cases = cases.into_iter().chain([(
        "a resource twice",
        serde_json::to_string(&sample())
            .unwrap()
            .replace("\"l1d\"", "\"l2-capacity\"")
            .into_bytes(),
        vec!["resources", "`l2-capacity` stands here twice"],
    )]);
    for (case, bytes, says) in cases {
        let (code, stderr) = refusal(&bytes);
        assert_eq!(code, Some(2), "{case}: {stderr}");
        for expected in says {
            assert!(stderr.contains(expected), "{case}: {expected} in {stderr}");
        }
    }
}

#[test]
fn a_missing_file_and_a_directory_are_wrong_requests() {
    for (path, says) in [
        ("no/such.json", "no such file"),
        ("tests", "is a directory"),
    ] {
        let output = jostle().args(["show", path]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says) && stderr.contains(path), "{stderr}");
    }
}

#[test]
fn terminal_escapes_in_a_profile_are_not_printed() {
    let mut profile = sample();
    profile["workload"]["name"] = "\u{1b}[31mred".into();
    profile["resources"]["\u{1b}[2J"] = serde_json::json!({"status": "unavailable"});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    fs::write(&path, profile.to_string()).unwrap();
    for command in ["show", "explain"] {
        let output = jostle().arg(command).arg(&path).output().unwrap();
        assert!(output.status.success());
        assert!(!output.stdout.contains(&0x1b));
    }
}

#[test]
fn the_committed_schema_is_the_printed_one_and_the_samples_keep_to_it() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let output = jostle().arg("schema").output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let committed = fs::read_to_string(root.join("profiles/jostle-profile-1.schema.json")).unwrap();
    assert_eq!(printed, committed);
    let schema: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let validator = jsonschema::validator_for(&schema).unwrap();
    for entry in fs::read_dir(root.join("tests/fixtures/profiles")).unwrap() {
        let path = entry.unwrap().path();
        let profile = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let problems: Vec<String> = validator
            .iter_errors(&profile)
            .map(|error| error.to_string())
            .collect();
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
    }
    let mut wrong = sample();
    wrong["resources"]["l1d"]["tolerated"]["score"] = 300.into();
    assert!(!validator.is_valid(&wrong));
}

/// The sample with the cost of a switch of two resources.
fn with_switches() -> serde_json::Value {
    let mut profile = sample();
    let sourced = |value: f64, source: &str| serde_json::json!({"value": value, "source": source});
    profile["conditions"]["scheduler"] = serde_json::json!({
        "turn_seconds": sourced(0.004, "52 turns of two busy threads on CPU 1"),
        "base_slice_seconds": {"unavailable": "not readable here"},
        "tick_seconds": sourced(0.004, "resolution of CLOCK_MONOTONIC_COARSE"),
        "plain_switch_microseconds": {"value": 30.0, "ci95": [17.0, 42.0]},
    });
    let estimate = |value: f64, half: f64| serde_json::json!({"value": value, "ci95": [value - half, value + half]});
    profile["resources"]["l2-capacity"]["switch"] = serde_json::json!({
        "cost_microseconds": estimate(160.0, 40.0),
        "expected_loss_percent": estimate(4.0, 1.0),
        "turns": [
            {"turn_seconds": 0.0005, "cost_microseconds": estimate(60.0, 4.0), "windows": 40},
            {"turn_seconds": 0.004, "cost_microseconds": estimate(160.0, 40.0), "windows": 12},
        ],
    });
    profile["resources"]["l1d"]["switch"] = serde_json::json!({"unavailable": "too little time"});
    profile
}

/// What `show` prints of `profile`: code, stdout, stderr.
fn shown(profile: &serde_json::Value, arguments: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    fs::write(&path, profile.to_string()).unwrap();
    let output = jostle()
        .arg("show")
        .arg(&path)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_cost_of_a_switch_is_shown_at_any_length_of_turns() {
    let (code, text, stderr) = shown(&with_switches(), &["--verbose", "--width", "200"]);
    assert_eq!(code, Some(0), "{stderr}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "in turns of 4.0 ms (52 turns of two busy threads on CPU 1)",
        "base slice unknown (not readable here)",
        "l2-capacity: 160 (120 to 200) µs per switch, 4.0 (3.0 to 5.0) %",
        "l1d: unknown: too little time",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
    // Two thirds of the way from 0.5 to 4 ms, by the logarithm.
    let (code, text, _) = shown(&with_switches(), &["--slice", "2ms"]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("l2-capacity: 127 (99 to 155) µs per switch, 6.3 (4.9 to 7.7) %"),
        "{text}"
    );
    assert!(text.starts_with("in turns of 2.0 ms; "), "{text}");
    let (code, _, stderr) = shown(&sample(), &["--slice", "2ms"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no cost of a switch"), "{stderr}");
    let (code, _, stderr) = shown(&with_switches(), &["--slice", "0s"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--slice"), "{stderr}");
    let mut wrong = with_switches();
    wrong["resources"]["l2-capacity"]["switch"]["turns"][1]["turn_seconds"] = 0.0001.into();
    let (code, _, stderr) = shown(&wrong, &[]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("resources.l2-capacity.switch.turns[1].turn_seconds"),
        "{stderr}"
    );
}
