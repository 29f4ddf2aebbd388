//! `stdout:REGEX`: a number that the target prints.
//!
//! Lines are stamped as they arrive. A program that buffers its output when it
//! writes to a pipe prints late and in bursts: make it flush, or start it with
//! `stdbuf -oL`.

use super::Metric;
use super::MetricOptions;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::profile::Direction;
use crate::profile::MetricFacts;
use crate::sys::clock::monotonic_ns;
use crate::target::OutputSink;
use crate::target::State;
use crate::target::Target;
use crate::target::printable;
use regex::bytes::Regex;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

const EXAMPLE: &str = r"for example --metric 'stdout:([0-9.]+) req/s'";

/// What a printed number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdoutKind {
    /// The level since the last print: a window's reading is the mean.
    Value,
    /// A running total: a window's reading is its growth per second.
    Rate,
}

/// Longest line looked at; what is beyond is skipped.
const LONGEST_LINE: usize = 4096;

/// Bytes per second that are searched for numbers. A target that prints faster
/// is sampled: all of it is drained, so that it never waits for us.
const SEARCHED_PER_SECOND: f64 = 4e6;

/// What has arrived since the window was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    count: u64,
    first: (u64, f64),
    last: (u64, f64),
    /// Of all but the first, which also covers time before the window.
    sum: f64,
}

impl Window {
    fn push(&mut self, at_ns: u64, value: f64) {
        match self.count {
            0 => self.first = (at_ns, value),
            _ => self.sum += value,
        }
        self.last = (at_ns, value);
        self.count += 1;
    }

    fn value(&self) -> f64 {
        self.sum / self.count.saturating_sub(1).max(1) as f64
    }

    /// `None` when the prints arrived all at once.
    fn rate(&self) -> Option<f64> {
        let elapsed = self.last.0.saturating_sub(self.first.0);
        (elapsed > 0).then(|| (self.last.1 - self.first.1) * 1e9 / elapsed as f64)
    }
}

#[derive(Default)]
struct Seen {
    partial: Vec<u8>,
    /// In the middle of a part that is not looked at, up to the next newline.
    skipping: bool,
    budget: f64,
    budget_at_ns: u64,
    window: Window,
    lines: u64,
    matched: u64,
    numbers: u64,
    last_line: Vec<u8>,
    previous_ns: Option<u64>,
    interval_ns: f64,
}

/// Where the target's output goes when this metric was asked for.
pub(super) struct Feed {
    regex: Regex,
    seen: Mutex<Seen>,
    arrived: Condvar,
}

impl Feed {
    /// # Errors
    /// A request error when `pattern` is not a regular expression with a group.
    pub(super) fn new(pattern: &str) -> Result<Arc<Feed>> {
        let regex = Regex::new(pattern).map_err(|error| {
            Error::request(format!(
                "--metric stdout:{pattern}: not a regular expression: {error}; {EXAMPLE}"
            ))
        })?;
        if regex.captures_len() < 2 {
            return Err(Error::request(format!(
                "--metric stdout:{pattern}: the expression needs a group (…) around the number; {EXAMPLE}"
            )));
        }
        Ok(Arc::new(Feed {
            regex,
            seen: Mutex::default(),
            arrived: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, seen: &mut Seen, at_ns: u64) {
        if seen.partial.is_empty() {
            return;
        }
        seen.lines += 1;
        std::mem::swap(&mut seen.partial, &mut seen.last_line);
        seen.partial.clear();
        let Some(group) = self
            .regex
            .captures(&seen.last_line)
            .and_then(|found| found.get(1))
        else {
            return;
        };
        seen.matched += 1;
        let text: String = String::from_utf8_lossy(group.as_bytes())
            .chars()
            .filter(|&character| character != ',')
            .collect();
        let Some(value) = text.trim().parse::<f64>().ok().filter(|v| v.is_finite()) else {
            return;
        };
        seen.numbers += 1;
        seen.window.push(at_ns, value);
        if let Some(previous) = seen.previous_ns {
            let gap = at_ns.saturating_sub(previous) as f64;
            seen.interval_ns = match seen.interval_ns {
                0.0 => gap,
                usual => 0.8 * usual + 0.2 * gap,
            };
        }
        seen.previous_ns = Some(at_ns);
        self.arrived.notify_all();
    }
}

impl OutputSink for Feed {
    fn chunk(&self, bytes: &[u8], at_ns: u64) {
        let mut seen = self.lock();
        let seen = &mut *seen;
        let passed = at_ns.saturating_sub(seen.budget_at_ns) as f64 / 1e9;
        seen.budget_at_ns = at_ns;
        seen.budget = (seen.budget + passed * SEARCHED_PER_SECOND).min(SEARCHED_PER_SECOND / 4.0);
        if seen.budget < bytes.len() as f64 {
            seen.partial.clear();
            seen.skipping = true;
            return;
        }
        seen.budget -= bytes.len() as f64;
        let pieces = bytes.split_inclusive(|&byte| byte == b'\n' || byte == b'\r');
        for piece in pieces {
            let ends = matches!(piece.last(), Some(b'\n' | b'\r'));
            let text = if ends {
                &piece[..piece.len() - 1]
            } else {
                piece
            };
            if !seen.skipping {
                let room = LONGEST_LINE.saturating_sub(seen.partial.len());
                seen.partial.extend(&text[..text.len().min(room)]);
            }
            if ends {
                if !seen.skipping {
                    self.line(seen, at_ns);
                }
                seen.skipping = false;
            }
        }
    }
}

pub(super) struct Stdout {
    feed: Arc<Feed>,
    pattern: String,
    because: String,
    options: MetricOptions,
    open: bool,
}

impl Stdout {
    /// Waits until `target` has printed enough to know its interval.
    pub(super) fn new(
        feed: Arc<Feed>,
        pattern: &str,
        because: &str,
        options: MetricOptions,
        target: &mut Target,
    ) -> Result<Stdout> {
        let metric = Stdout {
            feed,
            pattern: pattern.into(),
            because: because.into(),
            options,
            open: false,
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
            self.options.check_interrupt()?;
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
            let limit = self.options.print_timeout.max(usual);
            // Counted from the last print: slow printers get their time.
            if since.elapsed() >= limit {
                return Err(self.nothing_came(limit));
            }
        }
    }

    fn nothing_came(&self, limit: Duration) -> Error {
        let seen = self.feed.lock();
        let head = format!("--metric stdout:{}", self.pattern);
        let seconds = limit.as_secs_f64();
        let last = match seen.lines {
            0 if seen.partial.is_empty() => String::new(),
            0 => words(&seen.partial),
            _ => words(&seen.last_line),
        };
        Error::request(if seen.lines == 0 && seen.partial.is_empty() {
            format!(
                "{head}: the target printed nothing on standard output within {seconds:.0} s (does it buffer? try `stdbuf -oL` before the command)"
            )
        } else if seen.lines == 0 {
            format!("{head}: the target printed no whole line within {seconds:.0} s, only '{last}'")
        } else if seen.matched == 0 {
            format!("{head}: no line matched; the last one printed was '{last}'; {EXAMPLE}")
        } else if seen.numbers == 0 {
            format!(
                "{head}: the group never held a number; the last line printed was '{last}'; {EXAMPLE}"
            )
        } else {
            format!(
                "{head}: no further number within {seconds:.0} s; the last line printed was '{last}'"
            )
        })
    }
}

fn words(line: &[u8]) -> String {
    printable(&line[..line.len().min(200)])
}

impl Metric for Stdout {
    fn facts(&self) -> MetricFacts {
        let name = format!("stdout:{}", self.pattern);
        let unit = match self.options.kind {
            StdoutKind::Value => "as printed",
            StdoutKind::Rate => "as printed, per second",
        };
        facts(&name, unit, self.options.direction, &self.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        let interval = self.feed.lock().interval_ns;
        let prints = f64::from(self.options.prints) + 1.0;
        (interval > 0.0).then(|| Duration::from_nanos((interval * prints) as u64))
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        let mut seen = self.feed.lock();
        seen.window = Window::default();
        // A pause before the window is not an interval of the target's.
        seen.previous_ns = None;
        self.open = true;
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        if !std::mem::take(&mut self.open) {
            return Err(Error::environment("stdout: the window was never begun"));
        }
        let opened = monotonic_ns();
        let mut wanted = u64::from(self.options.prints.max(1)) + 1;
        let performance = loop {
            let window = self.wait(target, wanted)?;
            match self.options.kind {
                StdoutKind::Value => break window.value(),
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
        match self.options.direction {
            Direction::Higher if performance >= 0.0 => Ok(performance),
            Direction::Lower if performance > 0.0 => Ok(1.0 / performance),
            _ => Err(Error::request(format!(
                "--metric stdout:{}: {performance} cannot be compared as a {}; performance must be positive",
                self.pattern,
                match self.options.direction {
                    Direction::Higher => "rate",
                    Direction::Lower => "latency",
                }
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_without_a_number_are_refused() {
        for pattern in ["abc", "(", ""] {
            let Err(error) = Feed::new(pattern) else {
                panic!("{pattern} was accepted");
            };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("for example"), "{error}");
        }
    }

    #[test]
    fn lines_are_put_together_and_numbers_found() {
        let feed = Feed::new(r"v=(\S+)").unwrap();
        for piece in ["v=1\nv", "=2,000.5\rnothing\n\n", "\u{fffd}v=x\nv=nan\nv=3"] {
            feed.chunk(piece.as_bytes(), 1_000_000_000);
        }
        let seen = feed.lock();
        assert_eq!((seen.lines, seen.matched, seen.numbers), (5, 4, 2));
        assert_eq!(seen.window.last.1, 2000.5);
        assert_eq!(seen.window.value(), 2000.5);
        assert_eq!(seen.window.rate(), None);
    }

    #[test]
    fn a_flood_is_sampled_in_bounded_memory() {
        let feed = Feed::new(r"^(\d+)$").unwrap();
        let flood = b"12\n".repeat(20_000);
        for millisecond in 1..2000 {
            feed.chunk(&flood, millisecond * 1_000_000);
        }
        feed.chunk(&vec![b'9'; 100_000], 60_000_000_000);
        let seen = feed.lock();
        assert!(seen.numbers > 100_000 && seen.numbers < 5_000_000);
        assert!(seen.partial.len() <= LONGEST_LINE);
        assert_eq!(seen.window.value(), 12.0);
    }

    #[test]
    fn totals_become_rates() {
        let mut window = Window::default();
        for second in 1..=4u64 {
            window.push(second * 1_000_000_000, 100.0 + 5.0 * second as f64);
        }
        assert_eq!(window.rate(), Some(5.0));
        assert_eq!(window.value(), (110.0 + 115.0 + 120.0) / 3.0);
    }
}
