//! One service under several loads: files, the table, and what is refused.

use crate::common::program::jostle;
use serde_json::Value;
use serde_json::json;
use std::path::Path;
use std::path::PathBuf;

fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("profiles")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A recorded profile of redis as if it was made at `share` percent of its capacity,
/// and tolerated `score` of `cpu-time`.
fn at_share(directory: &Path, share: f64, score: f64) -> PathBuf {
    let mut profile = recorded("redis-closed.json");
    let load = &mut profile["metric"]["load"];
    load["rate_per_second"] = json!(1000.0 * share);
    load["capacity_per_second"] = json!(100_000.0);
    load["share_percent"] = json!(share);
    load["slo"] = json!("p99:1ms");
    load["arrivals"] = json!("poisson");
    let entry = &mut profile["resources"]["cpu-time"];
    entry["tolerated"] = json!({"score": score, "ci95": [score - 2.0, score + 3.0]});
    entry["sensitive"] = json!(true);
    entry["status"] = json!("measured");
    let path = directory.join(format!("redis-{share}.json"));
    std::fs::write(&path, profile.to_string()).unwrap();
    path
}

#[test]
fn what_is_tolerated_stands_side_by_side_lightest_load_first() {
    let place = tempfile::tempdir().unwrap();
    let heavy = at_share(place.path(), 90.0, 7.0);
    let light = at_share(place.path(), 30.0, 61.0);
    let files = [&heavy, &light].map(|path| path.to_str().unwrap());
    let ended = jostle(&[&["show"], &files[..]].concat());
    ended.says(0, &[]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let title = lines.iter().find(|line| line.starts_with("resource"));
    let words: Vec<&str> = title.expect("titles").split_whitespace().collect();
    assert_eq!(words, ["resource", "30", "%", "90", "%"]);
    let row = lines.iter().find(|line| line.starts_with("cpu-time"));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(row, ["cpu-time", "61", "(59–64)", "7", "(5–10)"]);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("percent of 100,000 requests/s"), "{words}");

    let ended = jostle(&[&["show", "--json"], &files[..]].concat());
    assert_eq!(ended.json().as_array().unwrap().len(), 2);
}

#[test]
fn other_services_and_programs_make_no_table() {
    let place = tempfile::tempdir().unwrap();
    let redis = at_share(place.path(), 30.0, 61.0);
    for (other, why) in [
        ("memcached-closed.json", "another service"),
        ("xz.json", "without a load"),
    ] {
        let path = place.path().join(other);
        std::fs::write(&path, recorded(other).to_string()).unwrap();
        let ended = jostle(&["show", redis.to_str().unwrap(), path.to_str().unwrap()]);
        ended.says(2, &[other, why]);
    }
    let redis = redis.to_str().unwrap();
    jostle(&["show", redis, redis, "--verbose"]).says(2, &["--verbose"]);
}

const LOAD: [&str; 7] = [
    "profile",
    "--load",
    "redis://127.0.0.1:1",
    "--find-capacity",
    "--slo",
    "p99:1ms",
    "--load-share",
];

#[test]
fn the_lightest_load_is_planned_first() {
    let dry = ["90,30", "--dry-run", "--", "sleep", "1"];
    let ended = jostle(&[&LOAD[..], &dry].concat());
    ended.says(0, &[]);
    assert!(
        ended
            .stdout
            .contains("30 % of the highest rate that meets p99:1ms, searched first"),
        "{}",
        ended.stdout
    );
}

#[test]
fn what_makes_no_sense_for_several_loads_is_refused() {
    for (flag, value) in [("--resume", "x.json"), ("--scale", "cpus=1,2")] {
        let ended = jostle(&[&LOAD[..], &["30,90", flag, value, "--", "sleep", "1"]].concat());
        ended.says(2, &[flag, "--load-share"]);
    }
    for wrong in ["0", "30,,60", "30,x", "30,101"] {
        let ended = jostle(&[&LOAD[..], &[wrong, "--", "sleep", "1"]].concat());
        ended.says(2, &["--load-share"]);
    }
}
