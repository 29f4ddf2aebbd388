//! Where profiles and nodes come from.

use crate::api_server::ApiServer;
use crate::api_server::node;
use crate::api_server::serve_document;
use crate::common::eventually;
use crate::common::root;
use crate::live::Extender;
use serde_json::Value;
use serde_json::json;
use std::fs;

fn profile(name: &str) -> String {
    fs::read_to_string(root().join(format!("profiles/{name}.json"))).unwrap()
}

fn names(extender: &Extender) -> Value {
    extender.get("/v1/nodes").json()["profiles"].clone()
}

fn version(extender: &Extender) -> Value {
    extender.get("/v1/nodes").json()["profiles_version"].clone()
}

#[test]
fn a_config_map_is_read_and_followed_and_a_directory_of_the_same_files_is_the_same_version() {
    let api = ApiServer::start(vec![node("n1", 8, "a")]);
    api.set_config_map(json!({"redis.json": profile("redis-closed"), "note.txt": "x"}));
    let flags = ["--profiles", "configmap:jostle/profiles"];
    let extender = Extender::with("127.0.0.1:0", &flags, &api.url());
    extender.is_ready();
    assert_eq!(names(&extender), json!(["redis"]));
    let asked = api.asked();
    let map = "/api/v1/namespaces/jostle/configmaps/profiles";
    assert!(asked.iter().any(|it| it == map), "{asked:?}");

    api.set_config_map(json!({
        "redis.json": profile("redis-closed"), "gcc.json": profile("gcc"), "broken.json": "{",
    }));
    eventually("the other profiles are in force", || {
        names(&extender) == json!(["gcc", "redis"])
    });
    let broken = &extender.get("/v1/nodes").json()["broken_profiles"];
    assert!(broken["broken.json"].is_string(), "{broken}");

    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("redis.json", profile("redis-closed")),
        ("gcc.json", profile("gcc")),
        ("broken.json", "{".into()),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let flags = ["--profiles", directory.path().to_str().unwrap()];
    let other = Extender::with("127.0.0.1:0", &flags, &api.url());
    assert_eq!(version(&extender), version(&other));
}

#[test]
fn a_document_at_a_url_is_read() {
    let api = ApiServer::start(vec![node("n1", 8, "a")]);
    let redis: Value = serde_json::from_str(&profile("redis-closed")).unwrap();
    let address = serve_document(json!({"redis": redis}).to_string());
    let url = format!("http://{address}/profiles");
    let extender = Extender::with("127.0.0.1:0", &["--profiles", &url], &api.url());
    extender.is_ready();
    assert_eq!(names(&extender), json!(["redis"]));
}

#[test]
fn sources_without_profiles_are_refused_by_name() {
    let api = ApiServer::start(Vec::new());
    let nothing = serve_document("[]".into());
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (source, words) in [
        ("configmap:jostle/profiles", "404"),
        ("configmap:jostle", "configmap:NAMESPACE/NAME"),
        ("configmap:../a/b", "configmap:NAMESPACE/NAME"),
        ("https://example.org/p", "--profiles-ca"),
        (
            &format!("http://{nothing}/p"),
            "no object of profiles by name",
        ),
        (empty, "holds no profile"),
        ("/nonexistent", "/nonexistent"),
    ] {
        let url = api.url();
        let listen = ["--listen", "127.0.0.1:0"];
        let arguments = ["extender", "--api-server", &url, "--profiles", source];
        let arguments: Vec<&str> = arguments.iter().chain(&listen).copied().collect();
        crate::common::program::jostle(&arguments).says(2, &["--profiles", words]);
    }
}

#[test]
fn only_selected_nodes_are_known() {
    let api = ApiServer::start(vec![node("n1", 8, "a"), node("n2", 8, "b")]);
    let profiles = root().join("profiles");
    let flags = [
        "--profiles",
        profiles.to_str().unwrap(),
        "--node-selector",
        "pool=a",
    ];
    let extender = Extender::with("127.0.0.1:0", &flags, &api.url());
    extender.is_ready();
    let nodes = extender.get("/v1/nodes").json()["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 1);
    assert_eq!(nodes[0]["name"], "n1");
    // A node that comes later is selected too, or not.
    api.put("ADDED", node("n3", 8, "b"));
    api.put("ADDED", node("n4", 8, "a"));
    eventually("the node is known", || extender.node("n4")["name"] == "n4");
    assert_eq!(extender.node("n3"), Value::Null);
}
