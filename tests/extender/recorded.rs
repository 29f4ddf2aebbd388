//! What kube-scheduler 1.20 really sent (`scripts/kubernetes record`), answered again.

use crate::api_server::ApiServer;
use crate::common::root;
use crate::live::Extender;
use serde_json::Value;
use std::fs;

fn recorded() -> Value {
    let path = root().join("tests/fixtures/extender/recorded.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Scores follow from the recorded profiles and the model, which change; what is checked
/// is what the scheduler relies on.
#[test]
fn recorded_requests_are_answered_as_then() {
    let recorded = recorded();
    let nodes = recorded["nodes"].as_array().unwrap().clone();
    let api = ApiServer::start(nodes.clone());
    let extender = Extender::start(&api.url());
    let (mut with_names, mut with_nodes) = (0, 0);
    for exchange in recorded["exchanges"].as_array().unwrap() {
        let path = exchange["path"].as_str().unwrap();
        let request = &exchange["request"];
        match request["NodeNames"].is_array() || request["nodenames"].is_array() {
            true => with_names += 1,
            false => with_nodes += 1,
        }
        let answer = extender.post(path, request).json();
        let then = &exchange["answer"];
        match path {
            "/filter" => assert_eq!(&answer, then),
            _ => assert_eq!(hosts(&answer), hosts(then)),
        }
    }
    assert!(
        with_names >= 4 && with_nodes >= 4,
        "{with_names} {with_nodes}"
    );
    let known = extender.get("/v1/decisions").json().to_string();
    assert!(!known.contains("no profile is called"), "{known}");
    assert!(!known.contains("\"unknown_nodes\":1"), "{known}");
}

/// In their order; one of them is the best.
fn hosts(answer: &Value) -> Vec<&str> {
    let list = answer.as_array().expect("a list");
    let best = list.iter().filter(|it| it["Score"] == 10).count();
    assert_eq!(best, 1, "{answer}");
    let host = |it: &Value| it["Host"].as_str().map(str::len).is_some();
    assert!(list.iter().all(host), "{answer}");
    list.iter().filter_map(|it| it["Host"].as_str()).collect()
}

/// The scheduler bound every pod where the answer was best.
#[test]
fn recorded_pods_were_bound_where_they_were_scored_best() {
    let recorded = recorded();
    let mut seen = 0;
    for exchange in recorded["exchanges"].as_array().unwrap() {
        let pod = &exchange["request"]["Pod"]["metadata"]["name"];
        if exchange["path"] == "/prioritize" {
            let mut scores = exchange["answer"].as_array().unwrap().iter();
            let best = scores.find(|it| it["Score"] == 10).expect("one is best");
            assert_eq!(recorded["bound"][pod.as_str().unwrap()], best["Host"]);
            seen += 1;
        }
    }
    assert_eq!(seen, recorded["bound"].as_object().unwrap().len());
}
