//! Plays the API server of Kubernetes: lists and watches of nodes and pods, and one
//! ConfigMap. Can be stopped and started at the same address.

use serde_json::Value;
use serde_json::json;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

pub struct ApiServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    version: u64,
    objects: Vec<Value>,
    /// Version, kind of event, object.
    events: Vec<(u64, &'static str, Value)>,
    config_map: Option<Value>,
    /// Targets of all requests.
    asked: Vec<String>,
    connections: Vec<TcpStream>,
}

/// A node with `cpus`, in pool `pool`.
pub fn node(name: &str, cpus: u32, pool: &str) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": pool}},
        "status": {"allocatable": {"cpu": cpus.to_string()}},
    })
}

/// A pod with a profile, on a node or not yet.
pub fn pod(name: &str, profile: &str, on: Option<&str>) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"jostle.dev/profile": profile},
        },
        "spec": {
            "nodeName": on,
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Running"},
    })
}

impl ApiServer {
    pub fn start(objects: Vec<Value>) -> ApiServer {
        let mut server = ApiServer {
            address: ([127, 0, 0, 1], 0).into(),
            shared: Arc::default(),
            thread: None,
        };
        for object in objects {
            server.put("ADDED", object);
        }
        server.listen();
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `what` is ADDED, MODIFIED or DELETED.
    pub fn put(&self, what: &'static str, mut object: Value) {
        let mut state = self.shared.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let same = |it: &Value| {
            it["kind"] == object["kind"] && it["metadata"]["name"] == object["metadata"]["name"]
        };
        state.objects.retain(|it| !same(it));
        if what != "DELETED" {
            state.objects.push(object.clone());
        }
        state.events.push((version, what, object));
        self.shared.changed.notify_all();
    }

    /// Profiles by the names of their files.
    pub fn set_config_map(&self, data: Value) {
        let mut state = self.shared.state.lock().unwrap();
        state.version += 1;
        let version = state.version.to_string();
        state.config_map = Some(json!({"metadata": {"resourceVersion": version}, "data": data}));
    }

    pub fn asked(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().asked.clone()
    }

    /// Closes all connections; what was missed can only be listed later.
    pub fn stop(&mut self) {
        let mut state = self.shared.state.lock().unwrap();
        state.stopped = true;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the API server does not panic");
        }
        self.shared.state.lock().unwrap().events.clear();
    }

    /// At the same address as before.
    pub fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).expect("an address is free");
        self.address = listener.local_addr().unwrap();
        self.shared.state.lock().unwrap().stopped = false;
        let shared = self.shared.clone();
        self.thread = Some(std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let mut state = shared.state.lock().unwrap();
                if state.stopped {
                    return;
                }
                state.connections.push(connection.try_clone().unwrap());
                drop(state);
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(connection));
            }
        }));
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

impl Shared {
    fn serve(&self, connection: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(connection.try_clone().ok()?);
        loop {
            let mut line = String::new();
            let mut target = None;
            while reader.read_line(&mut line).ok()? > 2 {
                if target.is_none() {
                    target = line.split(' ').nth(1).map(str::to_string);
                }
                line.clear();
            }
            let target = target?;
            self.state.lock().unwrap().asked.push(target.clone());
            if target.contains("watch=1") {
                return self.watch(connection, &target);
            }
            let (status, body) = self.answer(&target);
            let text = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n",
                text.len()
            );
            (&connection).write_all((head + &text).as_bytes()).ok()?;
        }
    }

    fn answer(&self, target: &str) -> (u16, Value) {
        let state = self.state.lock().unwrap();
        if target.contains("/configmaps/") {
            return match &state.config_map {
                Some(map) => (200, map.clone()),
                None => (404, json!({"kind": "Status"})),
            };
        }
        let items = state.objects.iter().filter(|it| belongs(it, target));
        let items: Vec<&Value> = items.collect();
        let version = state.version.to_string();
        (
            200,
            json!({"metadata": {"resourceVersion": version}, "items": items}),
        )
    }

    fn watch(&self, mut connection: TcpStream, target: &str) -> Option<()> {
        let from = target.split("resourceVersion=").nth(1)?;
        let mut from: u64 = from.split('&').next()?.parse().ok()?;
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        connection.write_all(head.as_bytes()).ok()?;
        let mut state = self.state.lock().unwrap();
        loop {
            if state.stopped {
                return None;
            }
            let newer = state.events.iter().filter(|(version, ..)| *version > from);
            let mut text = String::new();
            for (_, kind, object) in newer.filter(|(.., object)| belongs(object, target)) {
                text += &format!("{}\n", json!({"type": kind, "object": object}));
            }
            from = state.version;
            connection.write_all(text.as_bytes()).ok()?;
            let waited = self.changed.wait_timeout(state, Duration::from_millis(500));
            state = waited.unwrap().0;
        }
    }
}

/// Whether a list or watch of `target` has `object`.
fn belongs(object: &Value, target: &str) -> bool {
    match object["kind"].as_str() {
        Some("Node") => {
            let pool = object["metadata"]["labels"]["pool"].as_str().unwrap_or("");
            let any = !target.contains("labelSelector=pool");
            let named = target.contains(&format!("labelSelector=pool%3D{pool}&"));
            target.starts_with("/api/v1/nodes") && (any || named)
        }
        _ => target.starts_with("/api/v1/pods") && object["spec"]["nodeName"].is_string(),
    }
}

/// A server that answers every request with `body`.
pub fn serve_document(body: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = connection.read(&mut head);
            let length = body.len();
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = connection.write_all(text.as_bytes());
        }
    });
    address
}
