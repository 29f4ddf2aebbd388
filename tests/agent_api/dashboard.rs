//! The dashboard in Chromium, driven by scripts/dashboard/drive.py.

use crate::live::Live;
use crate::made;
use crate::skip::lacks;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Whether `program` cannot be started, which is said.
fn missing(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    lacks(program, (!there).then_some("it is not installed"))
}

/// Drives a live server; the node is refreshed meanwhile.
fn drive(live: &Live, more: &[&str]) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/dashboard/drive.py");
    let done = Arc::new(AtomicBool::new(false));
    let (board, until) = (live.board.clone(), done.clone());
    let refreshing = std::thread::spawn(move || {
        for refresh in 6.. {
            if until.load(Ordering::Relaxed) {
                return;
            }
            board.publish(made::node(6, refresh));
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let url = format!("http://{}/", live.tcp());
    let ran = Command::new("python3")
        .arg(script)
        .arg(url)
        .arg(out)
        .args(more)
        .output();
    done.store(true, Ordering::Relaxed);
    refreshing.join().unwrap();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let why = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{why}");
}

#[test]
#[ignore = "needs Chromium"]
fn the_dashboard_works_in_a_browser() {
    if missing("chromium") || missing("python3") {
        return;
    }
    let live = Live::with(|config, _| config.tcp = Some("127.0.0.1:0".into()));
    drive(&live, &[]);
}

#[test]
#[ignore = "needs Chromium"]
fn the_dashboard_asks_for_a_token() {
    if missing("chromium") || missing("python3") {
        return;
    }
    let token = "0123456789abcdef";
    let live = Live::with(|config, directory| {
        let path = directory.join("token");
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        config.tcp = Some("127.0.0.1:0".into());
        config.token_file = Some(path);
    });
    drive(&live, &["--token", token]);
}

#[test]
fn the_page_keeps_to_its_policy() {
    let live = Live::start();
    for (path, media) in [
        ("/", "text/html; charset=utf-8"),
        ("/dashboard.js", "text/javascript; charset=utf-8"),
        ("/dashboard.css", "text/css; charset=utf-8"),
        ("/dashboard.svg", "image/svg+xml"),
    ] {
        let reply = live.get(path);
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some(media))
        );
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"));
        let text = String::from_utf8(reply.body).unwrap();
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "eval(",
            "document.write",
        ] {
            assert!(!text.contains(forbidden), "{path}: {forbidden}");
        }
        // Nothing inline, nothing from elsewhere but the name of a format.
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("://"), "{path}");
        assert!(
            !text.contains("style=\"") && !text.contains(" onclick"),
            "{path}"
        );
    }
}
