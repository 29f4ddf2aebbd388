//! What the tests of the network source share.

use crate::common::JOSTLE;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::process::Child;
use std::process::ChildStderr;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;

/// A sink that is gone must be noticed within this time.
pub const NOTICED: Duration = Duration::from_secs(10);

/// A command, inside a network namespace where one is named.
pub fn command(namespace: Option<&str>, program: &str, arguments: &[&str]) -> Command {
    let mut command = match namespace {
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name, program]);
            command
        }
        None => Command::new(program),
    };
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `jostle sink` on a free port, ended with the test.
pub struct Sink {
    pub child: Child,
    pub address: SocketAddr,
}

impl Sink {
    pub fn start(namespace: Option<&str>, ip: &str, options: &[&str]) -> Sink {
        let listen = match ip.contains(':') {
            true => format!("[{ip}]:0"),
            false => format!("{ip}:0"),
        };
        let arguments = [&["sink", "--listen", &listen], options].concat();
        let (sink, mut said) = Self::unread(command(namespace, JOSTLE, &arguments));
        // Whatever it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        sink
    }

    /// A sink, and its standard error after the first line.
    pub fn unread(mut command: Command) -> (Sink, BufReader<ChildStderr>) {
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the sink starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line
            .split_once("listening on ")
            .and_then(|(_, rest)| rest.split([',', '\n']).next())
            .unwrap_or_else(|| panic!("where does it listen? {line}"));
        let address = address.parse().unwrap();
        (Sink { child, address }, said)
    }

    pub fn here(ip: &str) -> Sink {
        Sink::start(None, ip, &[])
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jostle run network-bandwidth` against `peer`.
pub fn source(namespace: Option<&str>, peer: SocketAddr, arguments: &[&str]) -> Command {
    let peer = peer.to_string();
    let all = [&["run", "network-bandwidth", "--peer", &peer], arguments].concat();
    command(namespace, JOSTLE, &all)
}

pub fn output(mut command: Command) -> Output {
    command.output().expect("jostle starts")
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub fn refused(output: &Output, code: i32, words: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

/// What a run achieved: bytes per second, and percent of its peak.
#[track_caller]
pub fn achieved(mut command: Command) -> (f64, f64) {
    command.arg("--json");
    let output = output(command);
    assert!(output.status.success(), "{}", said(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["pressure_unit"], "bytes_per_second");
    (
        outcome["achieved_pressure"].as_f64().unwrap(),
        outcome["achieved_percent"].as_f64().unwrap(),
    )
}
