//! Clients that share a cluster, and clients that misbehave.

use crate::common::program::jostle;
use crate::common::root;
use crate::common::skip::skip;
use crate::server::Client;
use crate::server::Server;
use crate::server::arrive;
use crate::server::depart;
use serde_json::Value;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

const STATE: &str = r#"{"event":"state"}"#;

fn residents(state: &Value) -> Vec<String> {
    let nodes = state["nodes"].as_array().unwrap().iter();
    let residents = nodes.flat_map(|node| node["residents"].as_array().unwrap());
    residents
        .map(|it| it["id"].as_str().unwrap().into())
        .collect()
}

#[test]
fn clients_share_a_cluster_and_each_has_its_own_answers() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mode = std::fs::metadata(&server.socket).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o660);
    let (mut one, mut two, mut listener) = (server.client(), server.client(), server.client());
    assert_eq!(
        listener.ask(r#"{"event":"subscribe"}"#),
        json!({"answer": "subscribed"})
    );

    let placed = one.ask(&arrive("a", "kv-store", 1));
    assert_eq!(
        (&placed["answer"], &placed["id"]),
        (&json!("placed"), &json!("a"))
    );
    assert_eq!(listener.read(), placed);
    let refused = two.ask(&arrive("a", "kv-store", 1));
    assert_eq!(
        (&refused["answer"], &refused["line"]),
        (&json!("error"), &json!(1))
    );
    assert!(residents(&two.ask(STATE)).contains(&"a".to_string()));

    // The answer of one client that another waits for: the sender and subscribers
    // have it.
    let big = two.ask(&arrive("big", "web", 10_000));
    assert_eq!(big["answer"], "waiting");
    assert_eq!(listener.read()["id"], "big");
    let up = r#"{"event":"node-up","name":"huge","cpus":10000,"memory":"900GiB"}"#;
    assert_eq!(one.ask(up)["answer"], "node-up");
    assert_eq!(one.read()["node"], "huge");
    assert_eq!(listener.read()["answer"], "node-up");
    assert_eq!(listener.read()["node"], "huge");
    // `two` was sent nothing that it did not ask for.
    assert_eq!(two.ask(&depart("big"))["answer"], "departed");
    assert_eq!(listener.read()["answer"], "departed");
    assert_eq!(server.stop(), "");
    assert!(!dir.path().join("schedule.sock").exists());
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_line_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    client
        .stream
        .write_all(arrive("half", "web", 1).as_bytes())
        .unwrap();
    drop(client);
    let mut client = server.client();
    for _ in 0..1000 {
        client.send(STATE);
    }
    drop(client);
    assert!(!residents(&server.client().ask(STATE)).contains(&"half".to_string()));
    server.stop();
}

#[test]
fn bad_lines_earn_an_error_with_the_line_of_that_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    server.client().ask("unrelated");
    let mut client = server.client();
    for (bad, says) in [
        ("{", "EOF while parsing"),
        ("[1]", "not a JSON object"),
        (r#"{"event":"dance"}"#, "no event is called `dance`"),
        (
            r#"{"event":"arrive","id":"x","app":"web","nice":1}"#,
            "nice",
        ),
        ("\u{0}", "not a JSON object"),
    ] {
        let answer = client.ask(bad);
        assert_eq!(answer["answer"], "error", "{bad}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(says),
            "{bad}: {answer}"
        );
    }
    client.stream.write_all(b"{\"event\":\"\xff\"}\n").unwrap();
    let answer = client.read();
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("not UTF-8 text after 10 bytes")
    );
    assert_eq!(answer["line"], 6);
    client.send(&"x".repeat(5 << 20));
    let answer = client.read();
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("longer than 4194304 bytes"),
        "{answer}"
    );
    assert_eq!(client.ask(STATE)["answer"], "state");
    // Depth must not exhaust the stack of the reader's thread.
    let deep = format!(
        r#"{{"event":"arrive","id":"d","profile":{}"#,
        "[".repeat(1 << 20)
    );
    assert_eq!(client.ask(&deep)["answer"], "error");
    server.stop();
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut deaf = server.client();
    deaf.ask(r#"{"event":"subscribe"}"#);
    let mut full = server.client();
    full.stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    while full
        .stream
        .write_all(format!("{STATE}\n").as_bytes())
        .is_ok()
    {}

    let mut client = server.client();
    let (mut slowest, mut closed) = (Duration::ZERO, false);
    for index in 0..20_000 {
        let start = Instant::now();
        let id = format!("job-{index}");
        assert_eq!(client.ask(&arrive(&id, "web", 1))["answer"], "placed");
        assert_eq!(client.ask(&depart(&id))["answer"], "departed");
        slowest = slowest.max(start.elapsed());
        // What cannot be sent to it any more closes it.
        closed = index % 500 == 499 && deaf.stream.write_all(b"\n").is_err();
        if closed {
            break;
        }
    }
    assert!(closed, "a subscriber that does not read is disconnected");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    server.stop();
}

#[test]
fn idle_clients_are_disconnected_and_make_room_but_subscribers_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--idle", "1s", "--connections", "3"]);
    let mut listener = server.client();
    listener.ask(r#"{"event":"subscribe"}"#);
    let mut idle = server.client();
    idle.ask(STATE);
    let mut later = server.client();
    later.ask(STATE);
    // A fourth takes the place of the one that was idle longest.
    let mut fourth = server.client();
    assert_eq!(fourth.ask(STATE)["answer"], "state");
    assert!(idle.closed());
    assert!(
        later.read()["message"]
            .as_str()
            .unwrap()
            .contains("no line for 1 s")
    );
    assert!(later.closed());
    let mut client = server.client();
    client.ask(&arrive("a", "web", 1));
    assert_eq!(listener.read()["id"], "a");
    server.stop();
}

#[test]
fn tcp_is_for_loopback_and_for_those_who_ask() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--tcp", "127.0.0.1:0"]);
    let stream = TcpStream::connect(&server.address).unwrap();
    let mut client = Client::new(stream.try_clone().unwrap(), stream);
    assert_eq!(client.ask(&arrive("a", "web", 1))["answer"], "placed");
    server.stop();
    jostle(&["serve", "--tcp", "0.0.0.0:7071"]).says(2, &["--tcp 0.0.0.0:7071", "loopback"]);
}

#[test]
fn a_socket_in_use_is_not_taken_and_one_left_behind_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let socket = server.socket.to_str().unwrap().to_string();
    let second = jostle(&["serve", "--socket", &socket]);
    second.says(2, &["--socket", "another server listens here"]);
    server.kill();
    assert!(dir.path().join("schedule.sock").exists());
    Server::start(dir.path(), &[]).stop();
    let file = dir.path().join("plain");
    std::fs::write(&file, "").unwrap();
    let refused = jostle(&["serve", "--socket", file.to_str().unwrap()]);
    refused.says(2, &["--socket", "not a socket"]);
}

#[test]
fn the_python_client_places_jobs() {
    if let Err(error) = Command::new("python3").arg("-V").output() {
        return skip("python3", error);
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let script = r#"
import sys
from serve_client import Jostle, Refused
with Jostle(sys.argv[1]) as jostle, Jostle(sys.argv[1]) as listener:
    listener.subscribe()
    assert jostle.node_up("huge", cpus=1000, memory="900GiB")[0]["answer"] == "node-up"
    first = jostle.arrive("a", app="web", cpus=900)
    assert (first["answer"], first["node"]) == ("placed", "huge"), first
    second = jostle.arrive("b", app="web", cpus=900)
    assert second["answer"] == "waiting" and "CPUs free" in second["why"], second
    answers = jostle.depart("a")
    assert [(it["answer"], it["id"]) for it in answers] == [("departed", "a"), ("placed", "b")]
    heard = [listener.read() for _ in range(5)]
    assert [it["answer"] for it in heard] == ["node-up", "placed", "waiting", "departed", "placed"]
    try:
        jostle.depart("nobody")
    except Refused as refused:
        assert "nobody" in str(refused)
    else:
        assert False
    assert any(node["name"] == "huge" for node in jostle.state()["nodes"])
"#;
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(&server.socket)
        .env("PYTHONPATH", root().join("examples"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut by_hand = Command::new("python3")
        .arg(root().join("examples/serve_client.py"))
        .arg(&server.socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = by_hand.stdin.take().unwrap();
    writeln!(stdin, "{}\n{}", depart("b"), depart("b")).unwrap();
    drop(stdin);
    let output = by_hand.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("no job is called `b`"), "{text}");
    server.stop();
}
