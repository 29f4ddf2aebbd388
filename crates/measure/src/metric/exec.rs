//! `exec:CMD`: a shell command that prints one number.

use super::Context;
use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
use super::begun;
use super::error::Reason;
use super::facts;
use super::oriented;
use super::poller;
use super::poller::Poller;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::Target;
use crate::workload::printable;
use jostle_host::sys::process;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use nix::sys::signal::Signal;
use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitid;
use nix::unistd::Pid;
use std::io::Read;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// Most that one number may take.
const LONGEST_OUTPUT: usize = 64 * 1024;

/// The target, for the probe command.
const TARGET_PID: &str = "JOSTLE_PID";

/// What a probe prints on one of its streams, as far as it is kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<u8>, bool)>>);

impl Kept {
    /// Reads `stream` to its end from a thread of its own; keeps the beginning.
    fn of(mut stream: impl Read + Send + 'static) -> std::io::Result<Kept> {
        let kept = Kept::default();
        let ours = kept.clone();
        let thread = std::thread::Builder::new().name("probe-output".into());
        thread.spawn(move || {
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                let kept = &mut ours.lock().0;
                let room = (LONGEST_OUTPUT + 1).saturating_sub(kept.len());
                kept.extend(&buffer[..read.min(room)]);
            }
            ours.lock().1 = true;
        })?;
        Ok(kept)
    }

    /// The beginning, and whether that is all.
    fn lock(&self) -> MutexGuard<'_, (Vec<u8>, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `command` once. Whatever it started in its group is gone afterwards.
///
/// # Errors
/// When it could not be started, failed (with its last words), took longer
/// than `limit`, printed too much or no number, or `unwanted` became true.
fn probe(
    command: &str,
    target: i32,
    limit: Duration,
    unwanted: &dyn Fn() -> bool,
) -> Result<f64, Reason> {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", command])
        .env(TARGET_PID, target.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    process::prepare(&mut shell, process::ChildSetup::default());
    let begin = Instant::now();
    let mut child = shell.spawn().map_err(Reason::Shell)?;
    let id = child.id() as i32;
    let output = child.stdout.take().map(Kept::of).transpose();
    let errors = child.stderr.take().map(Kept::of).transpose();
    let (output, errors, ended) = match (output, errors) {
        (Ok(Some(output)), Ok(Some(errors))) => {
            let ended = await_end(id, begin, limit, &output, unwanted);
            (output, errors, ended)
        }
        _ => (Kept::default(), Kept::default(), Err(Reason::ShellOutput)),
    };
    // It is not reaped yet, so the number still names its own group.
    let _ = process::signal_group(id, Signal::SIGKILL);
    let status = child.wait().map_err(Reason::Shell)?;
    ended?;
    let deadline = Instant::now() + Duration::from_millis(500);
    while !(output.lock().1 && errors.lock().1) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(200));
    }
    if !status.success() {
        let words = printable(&errors.lock().0);
        let words = words.trim();
        let tail = words.char_indices().rev().nth(399);
        let tail = &words[tail.map_or(0, |(at, _)| at)..];
        let said = match tail.is_empty() {
            true => " and wrote nothing to standard error".into(),
            false => format!("; on standard error it wrote: {tail}"),
        };
        return Err(Reason::ProbeFailed { status, said });
    }
    number(&output.lock().0)
}

/// Waits for the end of child `id` without reaping it.
fn await_end(
    id: i32,
    begin: Instant,
    limit: Duration,
    output: &Kept,
    unwanted: &dyn Fn() -> bool,
) -> Result<(), Reason> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let mut pause = Duration::from_micros(200);
    loop {
        match waitid(Id::Pid(Pid::from_raw(id)), flags) {
            Ok(WaitStatus::StillAlive) => {}
            _ => return Ok(()),
        }
        if unwanted() {
            return Err(Reason::Abandoned);
        }
        if output.lock().0.len() > LONGEST_OUTPUT {
            return Err(Reason::Floods(LONGEST_OUTPUT >> 10));
        }
        if begin.elapsed() >= limit {
            return Err(Reason::ProbeTimeout(limit));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// The one number in `output`.
fn number(output: &[u8]) -> Result<f64, Reason> {
    let text = String::from_utf8_lossy(output);
    let text = text.trim();
    let start: String = text.chars().take(80).collect();
    let start = printable(start.as_bytes());
    match text.parse::<f64>() {
        _ if text.is_empty() => Err(Reason::PrintedNothing),
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(Reason::NotFinite(start)),
        Err(_) => Err(Reason::NotANumber(start)),
    }
}

pub(super) struct Exec {
    command: String,
    context: Context,
    /// Time the last runs took at most.
    took: Duration,
    target: Arc<AtomicI32>,
    poller: Poller,
    open: Option<()>,
}

impl Exec {
    /// Runs the probe once, to see whether it works and how long it takes.
    pub(super) fn new(command: &str, context: Context, target: &mut Target) -> Result<Exec> {
        let id = Arc::new(AtomicI32::new(target.pid()));
        let (text, pid, limit) = (
            command.to_string(),
            id.clone(),
            context.options.probe_timeout,
        );
        let poller = Poller::start(
            &format!("exec:{command}"),
            context.options.probe_interval,
            Box::new(move |unwanted| probe(&text, pid.load(Relaxed), limit, unwanted)),
        )?;
        let mut metric = Exec {
            command: command.into(),
            context,
            took: Duration::ZERO,
            target: id,
            poller,
            open: None,
        };
        let begin = Instant::now();
        metric.begin(target)?;
        let name = metric.name();
        let alive = &mut || target.check_alive();
        let tried = metric.poller.finish(1, alive, &metric.context, &name);
        metric.took = begin.elapsed();
        metric.open = None;
        // A probe that does not work is the request's fault at first.
        match tried {
            Err(Error::Environment(reason)) if target.check_alive().is_ok() => {
                Err(Error::Request(reason))
            }
            Err(other) => Err(other),
            Ok(_) => Ok(metric),
        }
    }

    fn name(&self) -> String {
        format!("exec:{}", self.command)
    }

    fn runs(&self) -> usize {
        match self.context.options.kind {
            StdoutKind::Value => 1,
            StdoutKind::Rate => 2,
        }
    }
}

impl Metric for Exec {
    fn facts(&self) -> MetricFacts {
        let MetricOptions {
            kind, direction, ..
        } = self.context.options;
        facts(&self.name(), kind.unit(), direction, &self.context.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        let each = self.took.max(self.context.options.probe_interval);
        Some(match self.context.options.kind {
            StdoutKind::Value => self.took.max(Duration::from_millis(1)),
            StdoutKind::Rate => each + self.took,
        })
    }

    fn window_rule(&self) -> String {
        match self.context.options.kind {
            StdoutKind::Value => "mean over the runs of the probe within the window, at least one",
            StdoutKind::Rate => {
                "growth from the window's first run of the probe to its last per second of wall time, at least two runs"
            }
        }
        .into()
    }

    fn resolution(&self) -> Resolution {
        Resolution::Print
    }

    fn cost(&self) -> String {
        format!(
            "one run of the command after another while a window is open, one every {} ms at most; one took {:.1} ms at the start, on the CPUs jostle may use; what it asks of the target is its own",
            self.context.options.probe_interval.as_millis(),
            self.took.as_secs_f64() * 1e3
        )
    }

    fn warnings(&self) -> Vec<Warning> {
        match self.context.options.kind {
            StdoutKind::Value => Vec::from_iter(self.poller.warning()),
            StdoutKind::Rate => Vec::new(),
        }
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        self.target.store(target.pid(), Relaxed);
        self.poller.open();
        self.open = Some(());
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let name = self.name();
        begun(&mut self.open, &name)?;
        let alive = &mut || target.check_alive();
        let readings = self
            .poller
            .finish(self.runs(), alive, &self.context, &name)?;
        let value = poller::summary(&readings, self.context.options.kind, &name)?;
        oriented(value, self.context.options.direction, &name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, limit: Duration) -> Result<f64, String> {
        probe(command, 77, limit, &|| false).map_err(|reason| reason.to_string())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_number_is_read() {
        assert_eq!(run("echo ' 12.5 '", LONG), Ok(12.5));
        assert_eq!(run("printf '7\\r\\n'", LONG), Ok(7.0));
        assert_eq!(run("echo $JOSTLE_PID; echo noise >&2", LONG), Ok(77.0));
    }

    #[test]
    fn other_output_is_named() {
        let text = |command| run(command, LONG).unwrap_err();
        assert!(text("echo abc def").contains("'abc def', which is not one number"));
        assert!(text("echo nan").contains("finite"));
        assert!(text("echo inf").contains("finite"));
        assert!(text("true").contains("printed nothing"));
        assert!(text("echo 1; echo 2").contains("not one number"));
        let failed = text("echo my last words >&2; exit 3");
        assert!(
            failed.contains("my last words") && failed.contains('3'),
            "{failed}"
        );
        assert!(text("no-such-command-1").contains("not found"));
        assert!(text("yes").contains("more than 64 KiB"));
    }

    #[test]
    fn a_hanging_probe_is_killed_with_its_group() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", note.display());
        let text = run(&command, Duration::from_secs(1)).unwrap_err();
        assert!(text.contains("--probe-timeout"), "{text}");
        let child: i32 = std::fs::read_to_string(note)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let gone = || crate::workload::tree::stat(child).is_none_or(|stat| stat.ended());
        let deadline = Instant::now() + LONG;
        while !gone() {
            assert!(Instant::now() < deadline, "sleep {child} lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that leaves something behind ends it too, and still answers.
        assert_eq!(run("sleep 1000 & echo 5", LONG), Ok(5.0));
    }
}
