//! What docs/serve.md shows is what one gets.

use crate::common::program::command;
use crate::common::root;
use crate::server::Client;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// The text of the blocks in `language`, in order.
fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/serve.md")).unwrap();
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line.strip_prefix("```")) {
            (false, Some(named)) if named == language => {
                inside = true;
                blocks.push(String::new());
            }
            (true, Some(_)) => inside = false,
            (true, None) => *blocks.last_mut().unwrap() += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// The page's server, with its files in `dir`.
struct Served(Child);

impl Served {
    fn start(dir: &Path) -> Served {
        let shown = blocks("console").remove(0);
        let (first, printed) = shown.split_once('\n').unwrap();
        let words = first.strip_prefix("$ jostle ").unwrap();
        let mut args: Vec<String> = words
            .split(' ')
            .map(|word| word.replace("/var/lib/jostle", &dir.display().to_string()))
            .collect();
        // The default is the path that the page shows.
        let socket = printed.trim_end().strip_prefix("listening on ").unwrap();
        let help = crate::common::program::jostle(&["serve", "--help"]).stdout;
        assert!(help.contains(&format!("[default: {socket}]")), "{help}");
        args.extend([
            "--socket".into(),
            dir.join("schedule.sock").display().to_string(),
        ]);
        let mut child = command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Served(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether `answer` is what is `shown`, in which `{…}` stands for anything.
fn fits(answer: &Value, shown: &str) -> bool {
    let shown: Value = serde_json::from_str(&shown.replace("{…}", "\"…\"")).unwrap();
    let shown = shown.as_object().unwrap();
    let answer = answer.as_object().unwrap();
    answer.keys().eq(shown.keys())
        && shown
            .iter()
            .all(|(key, value)| value == "…" || answer[key] == *value)
}

#[test]
fn lines_are_answered_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let _served = Served::start(dir.path());
    let stream = UnixStream::connect(dir.path().join("schedule.sock")).unwrap();
    stream
        .set_read_timeout(Some(crate::common::PATIENCE))
        .unwrap();
    let mut client = Client::new(stream.try_clone().unwrap(), stream);
    let mut compared = 0;
    for line in blocks("text").remove(0).lines() {
        match line.split_once(' ').unwrap() {
            (">", event) => client.send(event),
            (_, shown) => {
                let answer = client.read();
                assert!(fits(&answer, shown), "{answer}\nis not {shown}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 2);
}

#[test]
fn the_python_client_does_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let _served = Served::start(dir.path());
    let socket = dir.path().join("schedule.sock").display().to_string();
    let program = blocks("python").remove(0);
    let done = Command::new("python3")
        .args(["-c", &program.replace("/run/jostle/schedule.sock", &socket)])
        .env("PYTHONPATH", root().join("examples"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 is there");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "placed n1\n");
}
