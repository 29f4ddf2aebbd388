//! The OpenAPI document says what the server does.

use crate::live::Live;
use crate::live::Reply;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeSet;

/// Every path, by hand: one that gets lost is missed here.
const PATHS: &[&str] = &[
    "/",
    "/dashboard.css",
    "/dashboard.js",
    "/dashboard.svg",
    "/healthz",
    "/metrics",
    "/readyz",
    "/v1/culprits",
    "/v1/events",
    "/v1/node",
    "/v1/openapi.json",
    "/v1/place",
    "/v1/predict",
    "/v1/profiles",
    "/v1/profiles/{name}",
    "/v1/workloads",
    "/v1/workloads/{name}",
];

fn document(live: &Live) -> Value {
    live.get("/v1/openapi.json").ok()
}

/// A path that is there, for one of the table.
fn example(path: &str) -> String {
    match path {
        "/v1/workloads/{name}" => "/v1/workloads/redis.service".into(),
        "/v1/profiles/{name}" => "/v1/profiles/redis".into(),
        "/v1/place" => "/v1/place?profile=redis".into(),
        "/v1/predict" => "/v1/predict?profile=redis".into(),
        path => path.into(),
    }
}

fn ask(live: &Live, method: &str, path: &str) -> Reply {
    match method {
        "get" => live.get(&example(path)),
        _ => {
            let profile = live.get("/v1/profiles/gzip").body;
            live.post(path, "application/json", &profile)
        }
    }
}

/// `value` against `schema`, which refers to the components of `document`.
fn problems(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "components": document["components"],
        "allOf": [schema]
    });
    let validator = jsonschema::validator_for(&whole).expect("a schema");
    let errors = validator.iter_errors(value);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn every_path_is_described_and_answers_as_described() {
    let live = Live::start();
    let document = document(&live);
    let described: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(described, PATHS.iter().copied().collect());
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is there twice");
            assert!(!operation["summary"].as_str().unwrap().is_empty());
            let reply = ask(&live, method, path);
            assert_eq!(reply.status, 200, "{method} {path}: {}", reply.head);
            let content = &operation["responses"]["200"]["content"];
            let media = reply.header("content-type").unwrap();
            let described = &content[media];
            assert!(
                described.is_object(),
                "{method} {path}: {media} is not in {content}"
            );
            if media == "application/json" {
                let wrong = problems(&document, &described["schema"], &reply.json());
                assert!(wrong.is_empty(), "{method} {path}: {wrong:?}");
            }
            for (code, response) in operation["responses"].as_object().unwrap() {
                let content = &response["content"];
                let schema = &content["application/json"]["schema"];
                let body = json!({"error": "text"});
                assert!(code == "200" || problems(&document, schema, &body).is_empty());
            }
        }
    }
}

#[test]
fn what_is_not_described_is_not_there() {
    let live = Live::start();
    let document = document(&live);
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap();
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let path = example(path);
            let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n");
            let reply = live.send(&format!("{head}connection: close\r\n\r\n"));
            let there = methods.contains_key(&method.to_lowercase());
            assert_eq!(
                reply.status != 405,
                there,
                "{method} {path}: {}",
                reply.head
            );
        }
    }
}

#[test]
fn errors_look_as_described() {
    let live = Live::start();
    let document = document(&live);
    let schema = json!({"$ref": "#/components/schemas/ErrorBody"});
    for reply in [
        live.get("/nowhere"),
        live.get("/v1/node?x=1"),
        live.post("/v1/node", "x", b""),
    ] {
        assert!(reply.status >= 400);
        assert_eq!(
            problems(&document, &schema, &reply.json()),
            Vec::<String>::new()
        );
    }
}

#[test]
fn the_schemas_refuse_what_is_wrong() {
    let live = Live::start();
    let document = document(&live);
    let schema = json!({"$ref": "#/components/schemas/NodeState"});
    let good = live.get("/v1/node").ok();
    assert!(problems(&document, &schema, &good).is_empty());
    let mut nameless = good.clone();
    nameless.as_object_mut().unwrap().remove("name");
    assert!(!problems(&document, &schema, &nameless).is_empty());
    let mut negative = good.clone();
    negative["refresh"] = (-1).into();
    assert!(!problems(&document, &schema, &negative).is_empty());
    let mut foreign = good;
    foreign["format"] = "jostle-profile/1".into();
    assert!(!problems(&document, &schema, &foreign).is_empty());
}

#[test]
fn names_of_schemas_are_those_that_clients_can_use() {
    let live = Live::start();
    let document = document(&live);
    assert_eq!(document["openapi"], "3.1.0");
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(name.chars().all(plain), "{name}");
    }
    // Every reference leads somewhere.
    let text = document.to_string();
    for rest in text.split("\"$ref\":\"").skip(1) {
        let target = rest.split('"').next().unwrap();
        let name = target.strip_prefix("#/components/schemas/").expect(target);
        assert!(schemas.contains_key(name), "{name}");
    }
}
