//! An agent that runs.

use crate::common::JOSTLE;
use crate::common::root;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;

/// An agent of node `n1` that refreshes five times a second; ended when dropped.
pub struct Agent {
    child: Child,
    directory: tempfile::TempDir,
}

impl Agent {
    pub fn start(report: &str) -> Agent {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("state/profiles")).unwrap();
        let profile = root().join("profiles/redis-closed.json");
        fs::copy(profile, at("state/profiles/jostle-outside.json")).unwrap();
        let text = format!(
            "[agent]\nnode_name = \"n1\"\ninterval = \"200ms\"\nstate_directory = {:?}\n\
             [api]\nsocket = {:?}\n[report]\n{report}\n\
             [[workload]]\nmatch = {{ process = \"jostle-outside\" }}\n",
            at("state"),
            at("socket"),
        );
        fs::write(at("agent.toml"), text).unwrap();
        let mut command = Command::new(JOSTLE);
        command.arg("agent").arg("--config").arg(at("agent.toml"));
        let log = fs::File::create(at("log")).unwrap();
        let child = command.stderr(log).spawn().expect("the agent starts");
        Agent { child, directory }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap()
    }

    /// How often it has refreshed.
    pub fn refreshes(&self) -> u64 {
        let ask = |mut stream: UnixStream| {
            let request = "GET /v1/node HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            let (_, body) = answer.split_once("\r\n\r\n")?;
            serde_json::from_str::<Value>(body).ok()?["refresh"].as_u64()
        };
        let stream = UnixStream::connect(self.at("socket"));
        stream.ok().and_then(ask).unwrap_or(0)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
