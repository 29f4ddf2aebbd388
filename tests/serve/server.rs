//! A running `jostle serve` and clients of it.

use crate::common::PATIENCE;
use crate::common::eventually;
use crate::common::program::command;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Stdio;

pub const NODES: &str = "tests/fixtures/nodes.toml";
pub const APPS: &str = "tests/fixtures/profiles";

pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
    /// What it says it listens on.
    pub address: String,
}

impl Server {
    /// On a socket in `directory`.
    pub fn start(directory: &Path, more: &[&str]) -> Server {
        let socket = directory.join("schedule.sock");
        let mut args = vec!["serve", "--nodes", NODES, "--apps", APPS];
        if !more.contains(&"--tcp") {
            args.extend(["--socket", socket.to_str().unwrap()]);
        }
        args.extend(more);
        let mut command = command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("jostle starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let Some(address) = line.trim_end().strip_prefix("listening on ") else {
            let mut errors = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("{line}{errors}");
        };
        Server {
            address: address.into(),
            child,
            socket,
        }
    }

    pub fn client(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(&self.socket).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::new(stream.try_clone().unwrap(), stream)
    }

    /// Asks it to end, and what it wrote on standard error.
    pub fn stop(mut self) -> String {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
        let mut errors = String::new();
        let stderr = self.child.stderr.take();
        stderr.unwrap().read_to_string(&mut errors).unwrap();
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0), "{errors}");
        errors
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client<W> {
    pub lines: BufReader<W>,
    pub stream: W,
}

impl<W: Read + Write> Client<W> {
    pub fn new(reads: W, stream: W) -> Self {
        let lines = BufReader::new(reads);
        Client { lines, stream }
    }

    pub fn send(&mut self, line: &str) {
        self.stream.write_all(line.as_bytes()).unwrap();
        self.stream.write_all(b"\n").unwrap();
    }

    pub fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("an answer in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Whether the server closed the connection.
    pub fn closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends `line` and takes one answer.
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        self.read()
    }
}

/// An arrival of `app` as `id` that asks for `cpus`.
pub fn arrive(id: &str, app: &str, cpus: u32) -> String {
    format!(r#"{{"event":"arrive","id":"{id}","app":"{app}","cpus":{cpus}}}"#)
}

pub fn depart(id: &str) -> String {
    format!(r#"{{"event":"depart","id":"{id}"}}"#)
}
