//! Real servers.

use crate::common::skip::have;
use crate::support::free_port;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// A real server, ended with the test.
pub struct Server {
    child: Child,
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `program` (with arguments that know port and directory), or says by
/// name why the test is skipped.
pub fn server(
    program: &str,
    package: &str,
    arguments: impl Fn(u16, &std::path::Path) -> Vec<String>,
) -> Option<Server> {
    let directory = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let child = Command::new(program)
        .args(arguments(port, directory.path()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = child.map_err(|error| format!("{program}, Debian package {package}: {error}"));
    have(program.trim_end_matches("-server"), child).map(|child| Server {
        child,
        port,
        _directory: directory,
    })
}

pub fn redis() -> Option<Server> {
    server("redis-server", "redis-server", |port, directory| {
        let words = format!(
            "--port {port} --bind 127.0.0.1 --save  --appendonly no --unixsocket {0}/s --dir {0}",
            directory.display()
        );
        words.split(' ').map(String::from).collect()
    })
}
