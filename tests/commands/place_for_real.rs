//! `scripts/place-for-real` and `scripts/fits-for-real` without a measurement: their
//! arithmetic, and what policies do with the recorded profiles.

use crate::common::JOSTLE;
use crate::common::root;
use assert_cmd::Command;

fn script(args: &[&str]) -> Command {
    script_of("place-for-real", args)
}

fn script_of(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(format!("scripts/{name}"))
        .args(args)
        .env("JOSTLE", JOSTLE)
        .current_dir(root());
    command
}

#[test]
fn its_arithmetic_holds() {
    script(&["--self-test"]).assert().success();
    script_of("fits-for-real", &["--self-test"])
        .assert()
        .success();
}

#[test]
fn every_policy_places_every_program_of_a_batch() {
    let plan = |pool: &[&str]| {
        let args = ["--dry-run", "--batches", "2"];
        let output = script(&[&args[..], pool].concat()).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let (usual, mixed) = (plan(&[]), plan(&["--mixed"]));
    for text in [&usual, &mixed] {
        let policies = text.lines().filter(|line| line.starts_with("  "));
        assert_eq!(policies.clone().count(), 16, "{text}");
        assert!(policies.clone().all(|line| line.contains('(')), "{text}");
    }
    assert!(usual.contains("\n  place-local "), "{usual}");
    assert_ne!(usual, mixed);
}

#[test]
fn slips_are_refused() {
    for (args, expected) in [
        (["--cpus", "0,0"], "two CPUs are needed"),
        (["--cpus", "a,b"], "give two numbers"),
        (["--only", "nothing"], "no profile in"),
    ] {
        for name in ["place-for-real", "fits-for-real"] {
            let output = script_of(name, &args).assert().code(2);
            let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
            assert!(text.contains(expected), "{text}");
        }
    }
    let output = script(&["--mixed", "--only", "xz"]).assert().code(2);
    let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(text.contains("give one of them"), "{text}");
}
