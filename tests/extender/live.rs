//! An extender that runs, and requests to it.

use crate::common::JOSTLE;
use crate::common::eventually;
use crate::common::root;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Ended when dropped.
pub struct Extender {
    pub address: SocketAddr,
    child: Child,
    log: Arc<Mutex<String>>,
}

/// Status and body of an answer.
#[derive(Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }
}

impl Extender {
    /// With the recorded profiles, ready.
    pub fn start(api_server: &str) -> Extender {
        let profiles = root().join("profiles");
        let profiles = profiles.to_str().unwrap();
        let extender = Extender::with("127.0.0.1:0", &["--profiles", profiles], api_server);
        extender.is_ready();
        extender
    }

    pub fn with(listen: &str, more: &[&str], api_server: &str) -> Extender {
        let mut command = Command::new(JOSTLE);
        let mut child = command
            .args(["extender", "--listen", listen, "--api-server", api_server])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the extender starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::<Mutex<String>>::default();
        let mut address = None;
        while address.is_none() {
            let line = lines.next().expect("it says where it listens").unwrap();
            let said = line.split("listening on ").nth(1);
            address = said.and_then(|it| it.split(';').next()?.parse().ok());
            *log.lock().unwrap() += &(line + "\n");
        }
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *kept.lock().unwrap() += &(line + "\n");
            }
        });
        Extender {
            address: address.unwrap(),
            child,
            log,
        }
    }

    #[track_caller]
    pub fn is_ready(&self) {
        eventually("the extender is ready", || {
            self.get("/readyz").status == 200
        });
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "")
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, &body.to_string())
    }

    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.send(text.as_bytes())
    }

    /// What is answered to `bytes`.
    #[track_caller]
    pub fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).expect("the extender accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // It may answer before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).expect("a status");
        Reply {
            status: status.parse().unwrap(),
            body: body.into(),
        }
    }

    /// `/v1/nodes`, one of them.
    #[track_caller]
    pub fn node(&self, name: &str) -> Value {
        let all = self.get("/v1/nodes").json();
        let mut nodes = all["nodes"].as_array().unwrap().iter();
        nodes
            .find(|it| it["name"] == name)
            .cloned()
            .unwrap_or_default()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Extender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log.lock().unwrap();
        if !std::thread::panicking() {
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}
