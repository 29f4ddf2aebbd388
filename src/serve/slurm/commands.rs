//! Slurm's commands, never through a shell, each with a time limit.

use std::env;
use std::io::Read;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Most of an output that is read, bytes.
const MOST_OUTPUT: u64 = 1 << 30;

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What `program` wrote, if it ended well within `limit`.
///
/// # Errors
/// In words, with what it wrote to standard error.
pub fn run(program: &str, arguments: &[&str], limit: Duration) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Defaults of whoever started this would change what is printed.
    for (name, _) in env::vars_os() {
        let own = name.to_str().is_some_and(|name| {
            ["SQUEUE_", "SINFO_", "SCONTROL_"]
                .iter()
                .any(|it| name.starts_with(it))
        });
        if own {
            command.env_remove(&name);
        }
    }
    // Lists of tasks in full.
    command.env("SLURM_BITSTR_LEN", "0");
    let child = command.spawn();
    let mut child = child.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let output = reader(child.stdout.take());
    let complaint = reader(child.stderr.take());
    let ended = wait(&mut child, limit);
    let failed = match ended {
        Some(true) => return output.join().map_err(|_| format!("{program}: no output")),
        Some(false) => "failed",
        None => "took too long",
    };
    let complaint = complaint.join().unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    Err(format!("{program} {failed}: {}", complaint.trim()))
}

fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(MOST_OUTPUT).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Whether it ended well; `None` where it had to be ended.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Err(_) => return Some(false),
            Ok(None) if start.elapsed() >= limit => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            Ok(None) => thread::sleep(LOOK_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_failure_and_slowness_are_told_apart() {
        let second = Duration::from_secs(1);
        let big = run("head", &["-c", "300000", "/dev/zero"], second);
        assert_eq!(big.map(|it| it.len()), Ok(300_000));
        let error = run("ls", &["/does/not/exist"], second).unwrap_err();
        assert!(
            error.starts_with("ls failed: ") && error.contains("exist"),
            "{error}"
        );
        let error = run("sleep", &["60"], Duration::from_millis(20)).unwrap_err();
        assert!(error.starts_with("sleep took too long"), "{error}");
        let error = run("no-such-program", &[], second).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
