//! A live server over a made board, and a client that sends what it is told.

use crate::made;
use jostle::agent::api;
use jostle::agent::api::ApiHandle;
use jostle::agent::board::Board;
use jostle::agent::config::ApiSection;
use jostle::agent::store::Store;
use jostle_profile::node::EventKind;
use serde_json::Value;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any limit of the server.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Live {
    pub handle: Option<ApiHandle>,
    pub board: Arc<Board>,
    pub store: Arc<Store>,
    pub config: ApiSection,
    pub directory: TempDir,
}

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Live {
    /// With four workloads, three profiles and two events.
    pub fn start() -> Live {
        Live::with(|_, _| {})
    }

    /// The same, with another configuration; files can be put into the directory.
    pub fn with(change: impl FnOnce(&mut ApiSection, &Path)) -> Live {
        let live = Live::idle(change);
        live.board.tell(EventKind::AgentStarted, None, "started");
        let text = "keeps 84 % of its performance";
        live.board.tell(EventKind::QosMissed, Some("gzip"), text);
        for refresh in 1..=5 {
            live.board.publish(made::node(4, refresh));
        }
        live
    }

    /// Before the first refresh.
    pub fn idle(change: impl FnOnce(&mut ApiSection, &Path)) -> Live {
        let directory = tempfile::tempdir().unwrap();
        let mut config = ApiSection {
            socket: directory.path().join("run/agent.sock"),
            ..ApiSection::default()
        };
        change(&mut config, directory.path());
        let store = store(directory.path());
        let board = Arc::new(Board::default());
        let handle = api::serve(&config, board.clone(), store.clone()).unwrap();
        Live {
            handle: Some(handle),
            board,
            store,
            config,
            directory,
        }
    }

    pub fn tcp(&self) -> SocketAddr {
        let handle = self.handle.as_ref().unwrap();
        handle.tcp_address().expect("TCP is configured")
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.config.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn connect_tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))
    }

    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Reply {
        let mut bytes = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
             {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        exchange(self.connect(), &bytes)
    }

    pub fn send(&self, text: &str) -> Reply {
        exchange(self.connect(), text.as_bytes())
    }
}

fn store(directory: &Path) -> Arc<Store> {
    let profiles = directory.join("profiles");
    std::fs::create_dir(&profiles).unwrap();
    let recorded: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    for (from, to) in [
        ("redis-closed", "redis"),
        ("gzip", "gzip"),
        ("sqlite3", "sqlite"),
    ] {
        let from = recorded.join(format!("{from}.json"));
        std::fs::copy(from, profiles.join(format!("{to}.json"))).unwrap();
    }
    std::fs::write(profiles.join("broken.json"), "{").unwrap();
    Arc::new(Store::open(&profiles, 2).unwrap())
}

/// Sends `bytes` and reads to the end of the connection.
pub fn exchange<S: Read + Write>(mut stream: S, bytes: &[u8]) -> Reply {
    // A server that has heard enough may end the connection early.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let mut part = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        all.extend_from_slice(&part[..count]);
    }
    Reply::parse(&all)
}

impl Reply {
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Reply {
        let shown = || String::from_utf8_lossy(bytes).into_owned();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            panic!("no answer: {:?}", shown());
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Reply {
            status: status.unwrap_or_else(|| panic!("no status: {head}")),
            head: head.to_ascii_lowercase(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The text of an error of this status.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{}\n{text}", self.head);
        assert!(
            self.head.contains("content-type: application/json"),
            "{}",
            self.head
        );
        let json = self.json();
        json["error"].as_str().expect("an error is a text").into()
    }

    #[track_caller]
    pub fn ok(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, 200, "{}\n{text}", self.head);
        self.json()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
