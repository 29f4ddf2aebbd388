//! `jostle provision`: counts that can be checked by hand, the document by its schema,
//! and what bad input earns.

use crate::common::program::Ended;
use crate::common::program::jostle;
use crate::common::root;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

const EPYC: &str = "scripts/machines/epyc-2cpu.json";
const XEON: &str = "scripts/machines/xeon-2cpu.json";
const LARGE: &str = "scripts/machines/example-16cpu.json";
const MIX: &str = "scripts/machines/mix.toml";
/// Fixtures, of which nobody says anything in general.
const APPS: &str = "tests/fixtures/profiles";

fn provision(args: &[&str]) -> Ended {
    jostle(&[&["provision"], args].concat())
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn the_document_is_that_of_the_schema() {
    let printed = jostle(&["schema", "provision"]).stdout;
    let committed = root().join("profiles/jostle-provision-1.schema.json");
    assert_eq!(printed, fs::read_to_string(committed).unwrap());
    let schema: Value = serde_json::from_str(&printed).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for more in [&["--mix", MIX][..], &["--shares-cpus"]] {
        let args = [
            &["--apps", "profiles", "--json", "--machine", EPYC, LARGE],
            more,
        ]
        .concat();
        let ended = provision(&args);
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(
            validator.is_valid(&document),
            "{:?}",
            validator.validate(&document).err()
        );
    }
}

#[test]
fn a_mix_of_four_cpus_fits_four_times_on_sixteen() {
    let args = [
        "--apps",
        "profiles",
        "--mix",
        MIX,
        "--machine",
        XEON,
        LARGE,
        EPYC,
        "--json",
    ];
    let document = provision(&args).json();
    let machines = document["mixes"][0]["machines"].as_array().unwrap();
    assert_eq!(machines[0]["machine"], "example-16cpu");
    assert_eq!(machines[0]["copies"]["estimate"], 4);
    assert_eq!(machines[0]["limit"]["by"], "cpus");
    assert_eq!(machines[0]["saturation"][0]["resource"], "cpu-time");
    assert_eq!(machines[0]["steps"][0]["copies"], 5, "20 CPUs");
    for small in &machines[1..] {
        assert_eq!(
            (&small["copies"]["high"], &small["rank"]),
            (&json!(0), &json!(2))
        );
    }
    let basis = |document: &Value| {
        let machines = document["mixes"][0]["machines"].as_array().unwrap();
        let epyc = machines.iter().find(|it| it["machine"] == "epyc-2cpu");
        epyc.unwrap()["basis"].clone()
    };
    // The profiles are of another machine.
    assert_eq!(basis(&document), "scaled");
    let dir = tempfile::tempdir().unwrap();
    let fingerprint = |path: &str| {
        let text = fs::read_to_string(root().join(path)).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let of_profile = file["machine"]["fingerprint"].as_str();
        let of_machine = file["fingerprint"].as_str();
        of_profile.or(of_machine).unwrap().to_string()
    };
    for app in ["redis-closed", "nginx-closed", "gzip"] {
        let path = format!("profiles/{app}.json");
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let as_there = text.replace(&fingerprint(&path), &fingerprint(EPYC));
        write(dir.path(), &format!("{app}.json"), &as_there);
    }
    let apps = dir.path().to_str().unwrap();
    let args = [
        "--apps",
        apps,
        "--mix",
        MIX,
        "--machine",
        EPYC,
        LARGE,
        "--json",
    ];
    assert_eq!(basis(&provision(&args).json()), "recorded");
}

#[test]
fn what_a_program_loses_decides_where_cpus_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let mix = write(dir.path(), "two.toml", "[[app]]\nname = \"dd\"\ncpus = 1\n");
    let copies = |qos: &str| {
        let args = [
            "--apps",
            "profiles",
            "--mix",
            &mix,
            "--machine",
            LARGE,
            "--qos",
            qos,
            "--json",
        ];
        let document = provision(&args).json();
        let machine = document["mixes"][0]["machines"][0].clone();
        (
            machine["copies"]["estimate"].as_u64().unwrap(),
            machine["limit"].clone(),
        )
    };
    let (strict, limit) = copies("95%");
    let (loose, _) = copies("40");
    assert!(strict < loose, "{strict} {loose}");
    assert_eq!(limit["by"], "qos", "{limit}");
    assert!(
        limit["resource"].as_str().unwrap().starts_with("storage"),
        "{limit}"
    );
}

#[test]
fn a_mix_that_fits_nowhere_is_told_with_code_1() {
    let ended = provision(&["--apps", "profiles", "--mix", MIX, "--machine", EPYC]);
    ended.says(1, &["fits on none"]);
    assert!(
        ended
            .stdout
            .contains("No copy fits on epyc-2cpu, limited by CPUs"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_answer_takes_one_screen() {
    let ended = provision(&["--apps", "profiles", "--mix", MIX, "--machine", LARGE, XEON]);
    assert!(ended.stdout.lines().count() <= 40, "{}", ended.stdout);
    let conclusion = ended
        .stdout
        .find("fits most: 4 copies")
        .expect("a conclusion");
    assert!(conclusion < ended.stdout.find("rank").unwrap());
}

#[test]
fn bad_input_is_refused_with_the_file_and_the_fix() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join(LARGE)).unwrap();
    let half = write(dir.path(), "half.json", &text[..text.len() / 2]);
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let unknown = write(dir.path(), "mix.toml", "[[app]]\nname = \"xzz\"\n");
    let wrong = write(
        dir.path(),
        "wrong.toml",
        "[[app]]\nname = \"xz\"\ncount = 0\n",
    );
    let mut uncalibrated: Value = serde_json::from_str(&text).unwrap();
    uncalibrated["calibration"] = json!({"unavailable": "this machine was not calibrated"});
    let uncalibrated = write(dir.path(), "new.json", &uncalibrated.to_string());
    let file = "tests/fixtures/machine.json";
    for (args, says) in [
        (
            vec!["--machine", &half],
            vec!["--machine", "half.json", "cut short"],
        ),
        (
            vec!["--machine", "profiles/xz.json"],
            vec!["xz.json", "jostle-machine/1"],
        ),
        (
            vec!["--machine", file],
            vec!["machine.json", "jostle machine --json"],
        ),
        (
            vec!["--machine", &uncalibrated],
            vec!["new: not calibrated", "--calibrate"],
        ),
        (
            vec!["--machine", LARGE, "--mix", &unknown],
            vec!["mix.toml", "`xzz`", "near names: xz"],
        ),
        (
            vec!["--machine", LARGE, "--mix", &wrong],
            vec!["wrong.toml", "key `count`: is 0"],
        ),
        (
            vec!["--machine", LARGE, "--qos", "0.9"],
            vec!["--qos", "90%"],
        ),
    ] {
        let args = [&["--apps", "profiles"], &args[..]].concat();
        provision(&args).says(2, &says);
    }
    let empty = empty.to_str().unwrap();
    provision(&["--apps", empty, "--machine", LARGE]).says(2, &["holds no profile"]);
}

#[test]
fn names_do_not_steer_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join(APPS).join("web.json")).unwrap();
    let mut profile: Value = serde_json::from_str(&text).unwrap();
    profile["workload"]["name"] = json!("<b>\u{1b}[31mred\u{202e}");
    write(dir.path(), "a.json", &profile.to_string());
    let ended = provision(&["--apps", dir.path().to_str().unwrap(), "--machine", LARGE]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(
        !ended.stdout.contains(['\u{1b}', '\u{202e}']),
        "{}",
        ended.stdout
    );
}
