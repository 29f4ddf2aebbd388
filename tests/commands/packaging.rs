//! What a package holds beside the program: completions and manual pages.

use crate::common::JOSTLE;
use crate::common::program::jostle;
use crate::common::skip::skip;
use std::path::Path;
use std::process::Command;

fn there(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|found| found.status.success())
}

/// What `complete` of bash finds for a line: its words, the last to be completed.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    const DRIVER: &str = r#"
        source "$1"; shift
        [[ $(complete -p jostle) =~ -F\ ([^ ]+) ]] || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        "${BASH_REMATCH[1]}" jostle "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", DRIVER, "bash"]).arg(script);
    let ended = bash.arg("jostle").args(words).output().unwrap();
    assert!(ended.status.success(), "{words:?}");
    let words = String::from_utf8(ended.stdout).unwrap();
    let words = words.lines().filter(|word| !word.is_empty());
    words.map(String::from).collect()
}

#[test]
fn bash_completes_commands_flags_and_names() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("jostle");
    std::fs::write(&script, jostle(&["completions", "bash"]).stdout).unwrap();
    for (words, expected) in [
        (&["prof"][..], &["profile", "profiles"][..]),
        (&["profile", "--budg"], &["--budget"]),
        (&["profile", "--demo", "k"], &["kv"]),
        (
            &["profile", "--resources", "l2"],
            &["l2-capacity", "l2-bandwidth"],
        ),
        (&["explain", "kv.json", "tl"], &["tlb"]),
        (&["schedule", "--policy", "round"], &["round-robin"]),
        (&["man", "blam"], &["blame"]),
        (&["profiles", "pru"], &["prune"]),
        (&["completions", ""], &["bash", "zsh", "fish"]),
        // Files, by the default of bash.
        (&["show", ""], &[]),
        // A command of the target's, not a flag of ours.
        (&["profile", "--", "xz", "--verb"], &[]),
        // What jostle starts itself.
        (&["work"], &[]),
        (&["guar"], &[]),
    ] {
        let mut found = completed(&script, words);
        let mut expected = expected.to_vec();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
    let commands = completed(&script, &["profile", "--", "mkdi"]);
    assert!(
        commands.iter().any(|name| name == "mkdir"),
        "commands: {commands:?}"
    );
}

#[test]
fn fish_completes_commands_flags_and_names() {
    if !there("fish") {
        return skip("fish", "it is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("jostle.fish");
    std::fs::write(&script, jostle(&["completions", "fish"]).stdout).unwrap();
    for (line, expected) in [
        ("prof", &["profile", "profiles"][..]),
        ("profile --budg", &["--budget"]),
        ("profile --resources l2", &["l2-bandwidth", "l2-capacity"]),
        ("completions ", &["bash", "fish", "zsh"]),
        ("man blam", &["blame"]),
        ("explain kv.json tl", &["tlb"]),
        ("work", &[]),
    ] {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        fish.arg(&script).arg(format!("jostle {line}"));
        let ended = fish.env("HOME", directory.path()).current_dir(&directory);
        let words = String::from_utf8(ended.output().unwrap().stdout).unwrap();
        let names = words.lines().filter_map(|line| line.split('\t').next());
        let mut found: Vec<&str> = names.collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{line:?}");
    }
}

#[test]
fn shells_accept_their_completions() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = jostle(&["completions", shell]).stdout;
        assert!(!script.contains("guard"), "{shell} knows hidden commands");
        let path = directory.path().join(shell);
        std::fs::write(&path, script).unwrap();
        if !there(shell) {
            skip(shell, "it is not installed");
            continue;
        }
        let checked = Command::new(shell).arg("-n").arg(&path).output().unwrap();
        let complaint = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{shell}: {complaint}");
        assert!(complaint.is_empty(), "{shell}: {complaint}");
    }
}

#[test]
fn readers_of_manual_pages_have_nothing_to_say_of_ours() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man1");
    jostle(&["man", "--directory", pages.to_str().unwrap()]);
    let pages: Vec<_> = std::fs::read_dir(&pages).unwrap().collect();
    assert!(pages.len() > 35, "{} pages", pages.len());
    let readers: [(&str, &[&str]); 2] = [
        ("groff", &["-man", "-ww", "-z", "-Tutf8"]),
        ("mandoc", &["-T", "lint", "-W", "warning"]),
    ];
    for (reader, arguments) in readers {
        if !there(reader) {
            skip(reader, "it is not installed");
            continue;
        }
        for page in &pages {
            let page = page.as_ref().unwrap().path();
            let read = Command::new(reader).args(arguments).arg(&page).output();
            let read = read.unwrap();
            let said = [read.stdout, read.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            // A date would make the same version's pages differ.
            let other = said.lines().find(|line| !line.contains("missing date"));
            assert_eq!(other, None, "{reader}");
        }
    }
}

#[test]
fn one_manual_page_is_printed() {
    let printed = jostle(&["man", "profiles", "list"]).stdout;
    assert!(printed.contains("jostle\\-profiles\\-list \\- "));
    let wrong = Command::new(JOSTLE).args(["man", "worker"]).output();
    let wrong = wrong.unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("worker"));
}
