//! `jostle report`: a page that needs nothing else, what it is refused for, and the
//! page in a browser.

use crate::common::program::jostle;
use crate::common::root;
use crate::common::skip::lacks;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

const SAMPLE: &str = "tests/fixtures/profiles/kv-store.json";
const DIRECTORY: &str = "tests/fixtures/profiles";

fn report(files: &[&str], html: &Path) -> crate::common::program::Ended {
    let mut arguments = vec!["report"];
    arguments.extend(files);
    arguments.extend(["--html", html.to_str().unwrap()]);
    jostle(&arguments)
}

/// A profile with names that are markup and steer terminals.
fn hostile(dir: &Path) -> String {
    let text = fs::read_to_string(root().join(SAMPLE)).unwrap();
    let mut profile: Value = serde_json::from_str(&text).unwrap();
    profile["workload"]["name"] = json!("<img src=x onerror=alert(1)>\u{1b}]0;owned\u{7}\u{202e}");
    profile["workload"]["command"] = json!(["</script><script>alert(2)</script>"]);
    let entry = profile["resources"]["l1d"].clone();
    profile["resources"]["<b onclick=x>'\""] = entry;
    let path = dir.join("hostile.json");
    fs::write(&path, profile.to_string()).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn the_page_needs_nothing_else_and_escapes_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let (page, hostile) = (dir.path().join("page.html"), hostile(dir.path()));
    let ended = report(&[SAMPLE, &hostile], &page);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let text = fs::read_to_string(&page).unwrap();
    for never in [
        "<img",
        "<b onclick",
        "</script><script>",
        "http://",
        "https://",
        "\u{1b}",
        "\u{7}",
        "\u{202e}",
    ] {
        assert!(!text.contains(never), "{never}");
    }
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert!(
        text.contains("default-src 'none'"),
        "nothing may be fetched"
    );
    assert!(text.contains("Predicted co-location"));
}

#[test]
fn a_directory_is_all_its_profiles_and_standard_output_is_a_file() {
    let ended = jostle(&["report", DIRECTORY, "--html", "-"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("<!doctype html>"));
    assert!(ended.stdout.contains("<h1>Sensitivity of 3 programs</h1>"));
}

#[test]
fn drawings_are_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("drawings");
    let ended = jostle(&["report", SAMPLE, SAMPLE, "--svg", out.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", ended.stderr);
    for name in [
        "vector-kv-store.svg",
        "vector-kv-store-2.svg",
        "co-location.svg",
        "co-location-shared-cpus.svg",
    ] {
        let svg = fs::read_to_string(out.join(name)).unwrap();
        assert!(svg.starts_with("<svg xmlns="), "{name}");
    }
}

#[test]
fn what_is_no_profile_is_refused_by_name_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let half = fs::read_to_string(root().join(SAMPLE)).unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for (bad, says) in [
        (file("half.json", &half[..half.len() / 2]), "cut short"),
        (
            file("other.json", r#"{"format": "jostle-pairs/1"}"#),
            "not \"jostle-profile/1\"",
        ),
        (
            file("newer.json", r#"{"format": "jostle-profile/7"}"#),
            "jostle-profile/7",
        ),
        (
            file("scenario.json", r#"{"scenario": "x"}"#),
            "jostle simulate --json",
        ),
        (
            file("validation.json", r#"{"format": "jostle-validation/1"}"#),
            "missing field",
        ),
        (empty.to_str().unwrap().to_string(), "holds no profile"),
        ("/nonexistent/p.json".into(), "no such file"),
    ] {
        let ended = report(&[SAMPLE, &bad], &page);
        ended.says(2, &[&bad, says]);
        assert!(!page.exists(), "{bad}");
    }
    report(&[SAMPLE], Path::new("/nonexistent/p.html")).says(2, &["--html /nonexistent/p.html"]);
    jostle(&["report", SAMPLE]).says(2, &["--html"]);
    let copy = file("copy.json", &half);
    report(&[&copy], Path::new(&copy)).says(2, &["--html", "name another"]);
    assert_eq!(fs::read_to_string(&copy).unwrap(), half);
}

#[test]
fn thousands_of_profiles_are_refused_before_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..600 {
        fs::write(dir.path().join(format!("{number}.json")), "no profile").unwrap();
    }
    let ended = report(
        &[dir.path().to_str().unwrap()],
        &dir.path().join("page.html"),
    );
    ended.says(2, &["600 documents", "up to 500"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let jostle = crate::common::JOSTLE;
    let line = format!("{jostle} report {SAMPLE} --html - | head -c 10; exit ${{PIPESTATUS[0]}}");
    let ran = Command::new("bash")
        .args(["-c", &line])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(ran.stdout, b"<!doctype ");
}

#[test]
#[ignore = "needs Chromium"]
fn pages_work_in_a_browser() {
    for program in ["chromium", "python3"] {
        let there = Command::new(program).arg("--version").output().is_ok();
        if lacks(program, (!there).then_some("it is not installed")) {
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (one, many) = (dir.path().join("one.html"), dir.path().join("many.html"));
    let hostile = hostile(dir.path());
    assert!(report(&[&hostile], &one).status.success());
    assert!(report(&["profiles", &hostile], &many).status.success());
    let ran = Command::new("python3")
        .arg(root().join("scripts/report-in-browser"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report"))
        .args([&one, &many])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let why = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{why}");
}
