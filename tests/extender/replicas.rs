//! Several extenders that watch the same cluster.

use crate::api_server::ApiServer;
use crate::api_server::node;
use crate::api_server::pod;
use crate::common::eventually;
use crate::live::Extender;
use serde_json::Value;
use serde_json::json;

const PROFILES: [&str; 4] = ["redis-closed", "numpy-stream", "gcc", "demo-llc-capacity"];

/// A replica that decided all the time and one that was started just now give the same
/// answers to the same requests.
#[test]
fn replicas_agree_however_long_they_have_run() {
    let names: Vec<String> = (0..12).map(|at| format!("n{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let objects = names.iter().map(|name| node(name, 8, "a"));
    let api = ApiServer::start(objects.collect());
    let old = Extender::start(&api.url());
    for step in 0..40 {
        let profile = PROFILES[(step * step + step / 3) % PROFILES.len()];
        let name = format!("p{step:02}");
        let request = json!({"Pod": pod(&name, profile, None), "NodeNames": names});
        let best = best(&old.post("/prioritize", &request).json());
        api.put("ADDED", pod(&name, profile, Some(&best)));
    }
    let count = |extender: &Extender| {
        let all = extender.get("/v1/nodes").json();
        let nodes = all["nodes"].as_array().unwrap().iter();
        let counts = nodes.map(|it| it["residents"].as_array().unwrap().len());
        counts.sum::<usize>()
    };
    let new = Extender::start(&api.url());
    eventually("both know all pods", || {
        count(&old) == 40 && count(&new) == 40
    });
    let nodes = |extender: &Extender| extender.get("/v1/nodes").json();
    assert_eq!(nodes(&old), nodes(&new));
    for profile in PROFILES {
        let request = json!({"Pod": pod("next", profile, None), "NodeNames": names});
        for verb in ["/filter", "/prioritize"] {
            assert_eq!(
                old.post(verb, &request),
                new.post(verb, &request),
                "{profile}"
            );
        }
    }
}

fn best(scores: &Value) -> String {
    let list = scores.as_array().unwrap().iter();
    let best = list.max_by_key(|it| it["Score"].as_u64()).unwrap();
    best["Host"].as_str().unwrap().into()
}
