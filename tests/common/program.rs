//! The program, run to its end.

use crate::common::JOSTLE;
use crate::common::PATIENCE;
use crate::common::root;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;
use std::process::ExitStatus;
use std::time::Duration;

/// How a run of the program ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// `jostle` with `arguments` in the root of the repository, with nobody's
/// machine file.
pub fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(JOSTLE);
    command
        .args(arguments)
        .current_dir(root())
        .env("XDG_STATE_HOME", "/nonexistent");
    command
}

pub fn jostle<S: AsRef<OsStr>>(arguments: &[S]) -> Ended {
    Ended::of(command(arguments), PATIENCE)
}

impl Ended {
    /// Runs `command` for at most `limit`.
    pub fn of(command: Command, limit: Duration) -> Ended {
        let output = assert_cmd::Command::from_std(command)
            .timeout(limit)
            .output()
            .expect("jostle starts");
        let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
        let ended = Ended {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    }

    /// Exit code, what is on standard output, and on standard error.
    pub fn parts(self) -> (Option<i32>, String, String) {
        (self.status.code(), self.stdout, self.stderr)
    }

    /// Expects `code`, and words of `texts` on standard error.
    #[track_caller]
    pub fn says(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.status.code(), Some(code), "{}", self.stderr);
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "no '{text}' in: {}",
                self.stderr
            );
        }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.status.success(), "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("one document")
    }
}
