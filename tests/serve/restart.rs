//! The state file: what a scheduler was told survives the server.

use crate::common::program::jostle;
use crate::server::Server;
use crate::server::arrive;
use crate::server::depart;
use serde_json::Value;
use serde_json::json;
use std::fs;

const STATE: &str = r#"{"event":"state"}"#;

#[test]
fn the_state_survives_a_kill_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    let more = ["--state", file.to_str().unwrap(), "--policy", "random"];
    let server = Server::start(dir.path(), &more);
    let mut client = server.client();
    let profile: Value =
        serde_json::from_str(&fs::read_to_string("profiles/xz.json").unwrap()).unwrap();
    let described = json!({"event": "arrive", "id": "own", "profile": profile, "cpus": 1, "at": 5});
    assert_eq!(client.ask(&described.to_string())["answer"], "placed");
    client.ask(r#"{"event":"node-up","name":"n9","cpus":64,"memory":"64GiB","platform":"P"}"#);
    for index in 0..6 {
        client.ask(&arrive(&format!("web-{index}"), "web", 1));
    }
    client.ask(&arrive("too-big", "web", 10_000));
    // A job of the nodes file ends, and a node goes.
    let initial = client.ask(STATE)["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|node| node["residents"].as_array().unwrap().clone())
        .find_map(|it| {
            it["id"]
                .as_str()
                .filter(|id| id.contains('/'))
                .map(String::from)
        });
    if let Some(id) = initial {
        assert_eq!(client.ask(&depart(&id))["answer"], "departed");
    }
    client.ask(&depart("web-3"));
    let down = client.ask(r#"{"event":"node-down","name":"n1"}"#);
    for _ in 0..down["displaced"].as_u64().unwrap() {
        client.read();
    }
    let before = client.ask(STATE);
    server.kill();

    // A line that was being written when it was killed.
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str(r#"{"event":{"event":"dep"#);
    fs::write(&file, text).unwrap();
    let server = Server::start(dir.path(), &more);
    let mut client = server.client();
    let sorted = |state: &Value| {
        let mut state = state.clone();
        for node in state["nodes"].as_array_mut().unwrap() {
            let residents = node["residents"].as_array_mut().unwrap();
            residents.sort_by_key(|it| it["id"].to_string());
        }
        state
    };
    assert_eq!(sorted(&client.ask(STATE)), sorted(&before));
    // Time goes on where it was.
    let early = client.ask(r#"{"event":"depart","id":"own","at":1}"#);
    assert!(
        early["message"]
            .as_str()
            .unwrap()
            .contains("time does not run back"),
        "{early}"
    );
    assert_eq!(client.ask(&depart("own"))["answer"], "departed");
    let errors = server.stop();
    assert!(
        errors.contains("left out: line") && errors.contains("is incomplete"),
        "{errors}"
    );

    let server = Server::start(dir.path(), &more);
    assert!(!server.client().ask(STATE).to_string().contains(r#""own""#));
    assert_eq!(server.stop(), "");
}

#[test]
fn the_state_file_does_not_grow_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    let server = Server::start(dir.path(), &["--state", file.to_str().unwrap()]);
    let mut client = server.client();
    for index in 0..2000 {
        let id = format!("job-{index}");
        client.ask(&arrive(&id, "web", 1));
        client.ask(&depart(&id));
    }
    client.ask(&arrive("last", "web", 1));
    server.kill();
    let lines = fs::read_to_string(&file).unwrap().lines().count();
    assert!(lines < 2000, "{lines} lines");
    let server = Server::start(dir.path(), &["--state", file.to_str().unwrap()]);
    assert!(server.client().ask(STATE).to_string().contains(r#""last""#));
    server.stop();
}

#[test]
fn another_file_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "do not lose this\n").unwrap();
    let socket = dir.path().join("socket");
    let args = [
        "serve",
        "--socket",
        socket.to_str().unwrap(),
        "--state",
        file.to_str().unwrap(),
    ];
    jostle(&args).says(2, &["--state", "not a state file"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "do not lose this\n");
}
