//! Agents send their states, whatever happens to the extender.

use crate::agent::Agent;
use crate::api_server::ApiServer;
use crate::api_server::node;
use crate::common::eventually;
use crate::common::root;
use crate::live::Extender;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::time::Duration;

/// A process called `name` for a minute.
fn process(name: &Path) -> Child {
    fs::copy("/bin/sleep", name).expect("sleep can be copied");
    Command::new(name).arg("60").spawn().expect("it starts")
}

fn outside() -> Value {
    // By the name in the store of the agent, which the extender has too.
    json!(["redis-closed"])
}

#[test]
fn states_come_back_after_the_extender_was_killed() {
    let api = ApiServer::start(vec![node("n1", 8, "a")]);
    let profiles = tempfile::tempdir().unwrap();
    let redis = root().join("profiles/redis-closed.json");
    fs::copy(redis, profiles.path().join("jostle-outside.json")).unwrap();
    let flags = ["--profiles", profiles.path().to_str().unwrap()];
    let extender = Extender::with("127.0.0.1:0", &flags, &api.url());
    extender.is_ready();
    let address = extender.address;
    // The interval alone would not tell soon what comes and goes.
    let agent = Agent::start(&format!("url = \"http://{address}\"\ninterval = \"20s\""));
    eventually("the state arrives", || {
        extender.node("n1")["agent"]["stale"] == false
    });
    assert_eq!(extender.node("n1")["residents"], json!([]));
    let mut started = process(&agent.at("jostle-outside"));
    eventually("what runs outside of pods is a resident", || {
        extender.node("n1")["residents"] == outside()
    });
    extender.kill();
    eventually("the agent says so once", || {
        agent.log().contains("states cannot be sent to") || agent.refreshes() == 0
    });
    let extender = Extender::with(&address.to_string(), &flags, &api.url());
    eventually("the state arrives at the new one", || {
        extender.node("n1")["residents"] == outside()
    });
    let age = extender.node("n1")["agent"]["age_seconds"].as_f64();
    assert!(age.is_some_and(|it| it < 30.0), "{age:?}");
    started.kill().unwrap();
    started.wait().unwrap();
    eventually("it is gone", || {
        extender.node("n1")["residents"] == json!([])
    });
    let warned = agent.log().matches("states cannot be sent").count();
    assert!(warned <= 1, "{}", agent.log());
}

#[test]
fn an_extender_that_never_answers_does_not_delay_a_refresh() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let agent = Agent::start(&format!("url = \"http://{address}\"\ninterval = \"200ms\""));
    let (mut connection, _) = silent.accept().unwrap();
    let mut request = [0; 4096];
    let length = connection.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..length]).to_string();
    assert!(request.starts_with("PUT /v1/nodes/n1 "), "{request}");
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let body: Value = serde_json::from_str(body).expect("the whole state");
    assert_eq!(body["format"], "jostle-node-report/1");
    assert!(body["age_seconds"].as_f64().unwrap() < 1.0);
    assert_eq!(body["workloads"], json!([]));
    let before = agent.refreshes();
    std::thread::sleep(Duration::from_secs(3));
    // Fifteen are due; the machine may be busy.
    let done = agent.refreshes() - before;
    assert!(done >= 8, "{done}");
}

#[test]
fn refusals_are_told_with_the_reason() {
    let api = ApiServer::start(vec![node("other", 8, "a")]);
    let extender = Extender::start(&api.url());
    let url = format!("url = \"http://{}\"", extender.address);
    let agent = Agent::start(&url);
    eventually("the agent tells", || {
        agent.log().contains("the API server has no node")
    });
    assert!(agent.refreshes() > 0);
}

#[test]
fn wrong_addresses_are_refused_by_name() {
    for (keys, words) in [
        ("url = \"extender\"", "report.url"),
        ("url = \"https://extender\"", "report.ca"),
        (
            "url = \"https://extender\"\nca = \"/nonexistent\"",
            "/nonexistent",
        ),
        (
            "url = \"http://extender\"\ntoken_file = \"t\"",
            "over https only",
        ),
        (
            "url = \"http://localhost\"\ntoken_file = \"/nonexistent\"",
            "report.token_file",
        ),
        ("interval = \"1ms\"", "report.interval"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("agent.toml");
        fs::write(&file, format!("[report]\n{keys}\n")).unwrap();
        let arguments = ["agent", "--check", "--config", file.to_str().unwrap()];
        crate::common::program::jostle(&arguments).says(2, &[words]);
    }
}

#[test]
fn the_manifest_of_the_agent_holds_a_configuration() {
    let text = fs::read_to_string(root().join("deploy/kubernetes/agent.yaml")).unwrap();
    let (_, rest) = text
        .split_once("  agent.toml: |\n")
        .expect("it is in a ConfigMap");
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let lines: Vec<&str> = lines.map(str::trim_start).collect();
    let config = jostle::agent::Config::parse(&lines.join("\n")).expect("a configuration");
    assert_eq!(config.workloads.len(), 2);
    let url = config.report.url.expect("states are sent");
    let service = "https://jostle-extender-replicas.jostle.svc:8771";
    assert_eq!(url, service);
}
