//! `stdout:REGEX` and `file:PATH:REGEX`: a number that the target prints.
//!
//! Lines are stamped as they arrive. A program that buffers its output when it
//! writes to a pipe prints late and in bursts: make it flush, or start it with
//! `stdbuf -oL`.

use super::Context;
use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
use super::begun;
use super::facts;
use super::feed::Feed;
use super::feed::Seen;
use super::feed::Window;
use super::file::Tail;
use super::oriented;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::OutputSink;
use crate::workload::State;
use crate::workload::Target;
use crate::workload::printable;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

/// Where the lines come from.
pub(super) enum Source {
    /// The standard output of a target that we started.
    Stdout,
    /// A file that somebody writes.
    File(Tail),
}

impl Source {
    /// As in the name of the metric, before the expression.
    fn name(&self) -> String {
        match self {
            Source::Stdout => "stdout".into(),
            Source::File(tail) => format!("file:{}", tail.path.display()),
        }
    }

    /// Passes what is printed from now on to `feed`, or returns the sink of the
    /// target's output that does.
    pub(super) fn follow(&self, feed: &Arc<Feed>) -> Result<Option<Arc<dyn OutputSink>>> {
        match self {
            Source::Stdout => Ok(Some(feed.clone())),
            Source::File(tail) => tail.start(feed.clone()).map(|()| None),
        }
    }

    /// What to say when nothing at all arrived.
    fn silent(&self, seconds: f64) -> String {
        match self {
            Source::Stdout => format!(
                "the target printed nothing on standard output within {seconds:.0} s (does it buffer? try `stdbuf -oL` before the command)"
            ),
            Source::File(tail) => tail
                .problem()
                .unwrap_or_else(|| format!("nothing was added to the file within {seconds:.0} s")),
        }
    }
}

pub(super) struct Printed {
    source: Source,
    feed: Arc<Feed>,
    pattern: String,
    context: Context,
    open: Option<()>,
}

impl Printed {
    /// Waits until `target` has printed enough to know its interval.
    pub(super) fn new(
        source: Source,
        feed: Arc<Feed>,
        pattern: &str,
        context: Context,
        target: &mut Target,
    ) -> Result<Printed> {
        let metric = Printed {
            source,
            feed,
            pattern: pattern.into(),
            context,
            open: None,
        };
        metric.wait(target, 2)?;
        Ok(metric)
    }

    /// Waits until the window holds `wanted` numbers.
    fn wait(&self, target: &mut Target, wanted: u64) -> Result<Window> {
        let start = Instant::now();
        let (mut counted, mut since) = (0, start);
        loop {
            let (window, interval) = {
                let seen = self.feed.lock();
                let tick = Duration::from_millis(20);
                let lacks = |seen: &mut Seen| seen.window.count < wanted;
                let waited = self.feed.arrived.wait_timeout_while(seen, tick, lacks);
                let (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
                (seen.window, seen.interval_ns)
            };
            if window.count >= wanted {
                return Ok(window);
            }
            if window.count > counted {
                (counted, since) = (window.count, Instant::now());
            }
            self.context.check_interrupt()?;
            if let State::Exited(exit) = target.state() {
                // Its last words may still be on their way.
                std::thread::sleep(Duration::from_millis(100));
                let window = self.feed.lock().window;
                return match window.count >= wanted {
                    true => Ok(window),
                    false => Err(target.gone(exit)),
                };
            }
            let usual = Duration::from_nanos((interval * 20.0).min(1e18) as u64);
            let limit = self.context.options.print_timeout.max(usual);
            // Counted from the last print: slow printers get their time.
            if since.elapsed() >= limit {
                return Err(self.nothing_came(limit));
            }
        }
    }

    fn name(&self) -> String {
        format!("{}:{}", self.source.name(), self.pattern)
    }

    fn nothing_came(&self, limit: Duration) -> Error {
        let seen = self.feed.lock();
        let seconds = limit.as_secs_f64();
        let partial = words(&seen.partial);
        let last = words(&seen.last_line);
        let problem = match (seen.lines, seen.matched, seen.numbers) {
            (0, ..) if partial.is_empty() => self.source.silent(seconds),
            (0, ..) => format!("no whole line came within {seconds:.0} s, only '{partial}'"),
            (_, 0, _) => format!(
                "no line matched; the last one printed was '{last}'; for example '([0-9.]+) req/s'"
            ),
            (_, _, 0) => format!(
                "the group never held a number; the last line printed was '{last}'; for example '([0-9.]+) req/s'"
            ),
            _ => format!(
                "no further number within {seconds:.0} s; the last line printed was '{last}'"
            ),
        };
        Error::request(format!("--metric {}: {problem}", self.name()))
    }
}

fn words(line: &[u8]) -> String {
    printable(&line[..line.len().min(200)])
}

impl Metric for Printed {
    fn facts(&self) -> MetricFacts {
        let MetricOptions {
            kind, direction, ..
        } = self.context.options;
        facts(&self.name(), kind.unit(), direction, &self.context.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        let interval = self.feed.lock().interval_ns;
        let prints = f64::from(self.context.options.prints) + 1.0;
        (interval > 0.0).then(|| Duration::from_nanos((interval * prints) as u64))
    }

    fn window_rule(&self) -> String {
        let prints = self.context.options.prints.max(1) + 1;
        match self.context.options.kind {
            StdoutKind::Value => {
                format!(
                    "mean of the numbers after the window's first, at least {prints} in a window"
                )
            }
            StdoutKind::Rate => format!(
                "growth from the window's first number to its last per second of wall time, at least {prints} in a window"
            ),
        }
    }

    fn resolution(&self) -> Resolution {
        Resolution::Print
    }

    fn cost(&self) -> String {
        let interval = self.feed.lock().interval_ns / 1e9;
        let reading = match &self.source {
            Source::Stdout => "the target writes to a pipe instead of its usual output".to_string(),
            Source::File(_) => format!(
                "nothing in the target; one look at the file every {} ms",
                super::file::LOOK.as_millis()
            ),
        };
        format!("{reading}; numbers are searched every {interval:.3} s (as seen last)")
    }

    fn warnings(&self) -> Vec<Warning> {
        match self.context.options.kind {
            StdoutKind::Value => Vec::from_iter(self.feed.lock().growth.warning()),
            StdoutKind::Rate => Vec::new(),
        }
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        let mut seen = self.feed.lock();
        seen.window = Window::default();
        // A pause before the window is not an interval of the target's.
        seen.previous_ns = None;
        self.open = Some(());
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let name = self.name();
        begun(&mut self.open, &name)?;
        let opened = monotonic_ns();
        let mut wanted = u64::from(self.context.options.prints.max(1)) + 1;
        let performance = loop {
            let window = self.wait(target, wanted)?;
            match self.context.options.kind {
                StdoutKind::Value => match window.value() {
                    Some(value) => break value,
                    None => wanted = window.count + 1,
                },
                StdoutKind::Rate => match window.rate() {
                    Some(rate) if rate < 0.0 => {
                        return Err(Error::request(format!(
                            "--kind rate: the printed total went down from {} to {}; use --kind value for a level",
                            window.first.1, window.last.1
                        )));
                    }
                    Some(rate) => break rate,
                    None if monotonic_ns() - opened > 10_000_000_000 => {
                        return Err(Error::environment(
                            "--kind rate: the prints arrive all at once; make the target flush each line",
                        ));
                    }
                    None => wanted = window.count + 1,
                },
            }
        };
        oriented(performance, self.context.options.direction, &name)
    }
}
