//! What a fuzzer calls: requests of schedulers and agents, and objects of the API
//! server, to an extender with two nodes and a profile.

use super::decisions::Decisions;
use super::guard;
use super::profiles::Files;
use super::profiles::Profiles;
use super::protocol::Pod;
use super::routes;
use super::shared::Counters;
use super::shared::Shared;
use super::watch::Kind;
use super::watch::NodeObject;
use super::watch::SharedWorld;
use crate::http::access::AccessControl;
use crate::http::requests::Requests;
use axum::Router;
use axum::body::Body;
use axum::http::Method;
use axum::http::Request;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// Largest body that is answered.
const MOST_BODY_BYTES: usize = 1 << 20;

/// An extender that fuzzing asks.
pub struct Asked {
    shared: Arc<Shared>,
    router: Router,
}

fn profiles() -> Arc<Profiles> {
    static PROFILES: OnceLock<Arc<Profiles>> = OnceLock::new();
    let read = || {
        let text = include_bytes!("../../../profiles/demo-quiet.json");
        let files = Files::from([("quiet.json".to_string(), text.to_vec())]);
        Arc::new(Profiles::of(&files))
    };
    PROFILES.get_or_init(read).clone()
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    RUNTIME.get_or_init(|| start().expect("a runtime"))
}

impl Asked {
    pub fn new() -> Asked {
        let world = SharedWorld::default();
        world.lock().set_profiles(profiles());
        let shared = Arc::new(Shared {
            world,
            decisions: Mutex::new(Decisions::default()),
            requests: Requests::default(),
            counters: Counters::default(),
            nodes_listed: AtomicBool::new(true),
            pods_listed: AtomicBool::new(true),
            strict: false,
            most_body_bytes: MOST_BODY_BYTES,
        });
        let access = AccessControl {
            token: None,
            only_loopback_names: false,
            server: "extender",
        };
        let router = guard::behind(shared.clone(), access, routes::router(&shared));
        let asked = Asked { shared, router };
        for name in ["n1", "n2"] {
            asked.object(
                true,
                true,
                &format!(
                    r#"{{"metadata":{{"name":"{name}"}},"status":{{"capacity":{{"cpu":"4"}}}}}}"#
                ),
            );
        }
        asked
    }

    /// Status and body of the answer; `None` where it is no request.
    pub fn answer(&self, method: &str, path: &str, body: &[u8]) -> Option<(StatusCode, Vec<u8>)> {
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.to_vec())).ok()?;
        let router = self.router.clone();
        runtime().block_on(async {
            let response = router.oneshot(request).await.ok()?;
            let status = response.status();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX)
                .await
                .ok()?;
            Some((status, body.to_vec()))
        })
    }

    /// A node (or a pod) that the API server has set or removed.
    pub fn object(&self, node: bool, set: bool, text: &str) {
        fn change<K: Kind>(asked: &Asked, set: bool, text: &str) {
            let Ok(object) = serde_json::from_str::<K>(text) else {
                return;
            };
            let mut world = asked.shared.world.lock();
            match set {
                true => K::set(&mut world, object),
                false => K::remove(&mut world, object),
            }
        }
        match node {
            true => change::<NodeObject>(self, set, text),
            false => change::<Pod>(self, set, text),
        }
    }
}

impl Default for Asked {
    fn default() -> Self {
        Asked::new()
    }
}
