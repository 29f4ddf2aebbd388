//! `--admission`: who is vetoed waits, and where jobs are survives a restart.

use crate::common::program::jostle;
use crate::server::Server;
use crate::server::arrive;
use crate::server::depart;
use serde_json::Value;
use serde_json::json;
use std::fs;

const STATE: &str = r#"{"event":"state"}"#;

fn reading(node: &str, cpu_percent: f64) -> String {
    json!({"event": "node-reading", "name": node, "readings": {"node_cpu_percent": cpu_percent}})
        .to_string()
}

/// A model by which `web` is slow on n3 when others use more than 60 % of a CPU there.
fn model(dir: &std::path::Path) -> String {
    let mut windows = format!(
        "# {}\ntime,node,machine,workload,node_cpu_percent,workload_cpu_percent,slow\n",
        jostle_profile::windows::FORMAT
    );
    for second in 0..300 {
        let others = second * 37 % 100;
        let slow = u8::from(others > 60);
        windows += &format!("t{second:03},n3,f,web,{},50,{slow}\n", others + 50);
    }
    let at = |name: &str| dir.join(name).display().to_string();
    fs::write(at("windows.csv"), windows).unwrap();
    jostle(&["train", &at("windows.csv"), "-o", &at("model.json")]).says(0, &[]);
    at("model.json")
}

fn job<'a>(state: &'a Value, id: &str) -> Option<(&'a str, u64)> {
    let nodes = state["nodes"].as_array().unwrap();
    nodes.iter().find_map(|node| {
        let residents = node["residents"].as_array().unwrap();
        let found = residents.iter().find(|it| it["id"] == id)?;
        Some((node["name"].as_str().unwrap(), found["cpus"].as_u64()?))
    })
}

#[test]
fn a_busy_node_is_vetoed_until_it_reads_calm() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state").display().to_string();
    let wrangler = format!("wrangler:{}", model(dir.path()));
    let more = ["--state", &file, "--admission", &wrangler];
    let server = Server::start(dir.path(), &more);
    let mut client = server.client();
    for (node, job) in [("n1", "n1/analytics/1"), ("n2", "n2/web/1")] {
        assert_eq!(client.ask(&depart(job))["answer"], "departed");
        client.ask(&json!({"event": "node-down", "name": node}).to_string());
    }
    client.ask(&reading("n3", 145.0));
    let vetoed = client.ask(&arrive("job", "web", 1));
    assert_eq!(vetoed["answer"], "waiting", "{vetoed}");
    let why = vetoed["why"].as_str().unwrap();
    assert!(
        why.contains("n3: ") && why.contains("likely to be slow"),
        "{why}"
    );
    client.send(&reading("n3", 55.0));
    let mut answers = vec![client.read()];
    client.send(r#"{"event":"ping"}"#);
    while answers.last().unwrap()["answer"] != "pong" {
        answers.push(client.read());
    }
    let placed = answers.iter().find(|it| it["id"] == "job").unwrap();
    assert_eq!(placed["answer"], "placed", "{answers:?}");

    // Busy again, and killed: what was told stands, readings are forgotten.
    client.ask(&reading("n3", 145.0));
    let before = client.ask(STATE);
    server.kill();
    let kept = fs::read_to_string(&file).unwrap();
    assert_eq!(kept.matches("node-reading").count(), 1, "{kept}");
    let server = Server::start(dir.path(), &more);
    let after = server.client().ask(STATE);
    assert!(job(&before, "job").is_some(), "{before}");
    assert_eq!(job(&after, "job"), job(&before, "job"));
    assert_eq!(server.stop(), "");
}

#[test]
fn classes_of_a_queue_are_where_they_were_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state").display().to_string();
    let more = ["--state", &file, "--admission", "arq"];
    let server = Server::start(dir.path(), &more);
    let mut client = server.client();
    let mut answers = Vec::new();
    for index in 0..12 {
        client.send(&arrive(
            &format!("job-{index}"),
            ["web", "kv-store"][index % 2],
            2,
        ));
        client.send(r#"{"event":"ping"}"#);
        loop {
            let answer = client.read();
            match answer["answer"].as_str() {
                Some("pong") => break,
                _ => answers.push(answer),
            }
        }
    }
    let told = |kind: &str| answers.iter().filter(|it| it["answer"] == kind).count();
    assert!(told("placed") > 0 && told("waiting") > 0, "{answers:?}");
    let before = client.ask(STATE);
    server.kill();
    for _ in 0..2 {
        // The second time from the file that the first restart has shortened.
        let server = Server::start(dir.path(), &more);
        let mut client = server.client();
        let after = client.ask(STATE);
        for index in 0..12 {
            let id = format!("job-{index}");
            assert_eq!(job(&after, &id), job(&before, &id), "{id}");
        }
        assert_eq!(after["waiting"], before["waiting"]);
        assert_eq!(server.stop(), "");
    }
}

#[test]
fn wrong_admissions_are_refused_by_name() {
    let args = ["serve", "--admission", "first"];
    jostle(&args).says(2, &["--admission first", "there are none, arq, wrangler"]);
    let missing = ["serve", "--node-state", "/no/such.json"];
    jostle(&missing).says(2, &["--node-state /no/such.json"]);
}
