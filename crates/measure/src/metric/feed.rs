//! Numbers found in lines of text as they arrive.

use super::error::Reason;
use super::growth::Growth;
use crate::error::Result;
use crate::workload::OutputSink;
use regex_lite::Regex;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

/// What a printed number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdoutKind {
    /// The level since the last print: a window's reading is the mean.
    Value,
    /// A running total: a window's reading is its growth per second.
    Rate,
}

impl StdoutKind {
    /// Of a metric that reads such numbers.
    pub(super) fn unit(self) -> &'static str {
        match self {
            StdoutKind::Value => "as printed",
            StdoutKind::Rate => "as printed, per second",
        }
    }
}

/// Longest line looked at; what is beyond is skipped.
const LONGEST_LINE: usize = 4096;

/// Bytes per second that are searched for numbers. A target that prints faster
/// is sampled: all of it is drained, so that it never waits for us.
const SEARCHED_PER_SECOND: f64 = 4e6;

/// What has arrived since the window was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) count: u64,
    /// The last number that was read first.
    pub(super) first: (u64, f64),
    pub(super) last: (u64, f64),
    /// Numbers that were read later, and their sum: what was read first also covers time
    /// before the window.
    later: u64,
    sum: f64,
}

impl Window {
    pub(super) fn push(&mut self, at_ns: u64, value: f64) {
        if self.count == 0 || at_ns == self.first.0 {
            self.first = (at_ns, value);
        } else {
            self.sum += value;
            self.later += 1;
        }
        self.last = (at_ns, value);
        self.count += 1;
    }

    /// `None` when the prints arrived all at once.
    pub(super) fn value(&self) -> Option<f64> {
        (self.later > 0).then(|| self.sum / self.later as f64)
    }

    /// `None` when the prints arrived all at once.
    pub(super) fn rate(&self) -> Option<f64> {
        let elapsed = self.last.0.saturating_sub(self.first.0);
        (elapsed > 0).then(|| (self.last.1 - self.first.1) * 1e9 / elapsed as f64)
    }
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) partial: Vec<u8>,
    /// In the middle of a part that is not looked at, up to the next newline.
    skipping: bool,
    budget: f64,
    budget_at_ns: u64,
    pub(super) window: Window,
    pub(super) growth: Growth,
    pub(super) lines: u64,
    pub(super) matched: u64,
    pub(super) numbers: u64,
    pub(super) last_line: Vec<u8>,
    pub(super) previous_ns: Option<u64>,
    /// From one read to the next that brought numbers.
    pub(super) interval_ns: f64,
}

/// Where the target's output goes when this metric was asked for.
pub(super) struct Feed {
    regex: Regex,
    seen: Mutex<Seen>,
    pub(super) arrived: Condvar,
}

impl Feed {
    /// # Errors
    /// A request error for the metric `name` when `pattern` is not a regular
    /// expression with a group.
    pub(super) fn new(name: &str, pattern: &str) -> Result<Arc<Feed>> {
        let regex = Regex::new(pattern).map_err(|error| Reason::NoRegex(error).wrong(name))?;
        if regex.captures_len() < 2 {
            return Err(Reason::NoGroup.wrong(name));
        }
        Ok(Arc::new(Feed {
            regex,
            seen: Mutex::default(),
            arrived: Condvar::new(),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, seen: &mut Seen, at_ns: u64) {
        if seen.partial.is_empty() {
            return;
        }
        seen.lines += 1;
        std::mem::swap(&mut seen.partial, &mut seen.last_line);
        seen.partial.clear();
        let line = String::from_utf8_lossy(&seen.last_line);
        let found = self.regex.captures(&line);
        let Some(group) = found.and_then(|found| found.get(1)) else {
            return;
        };
        seen.matched += 1;
        let text: String = group
            .as_str()
            .chars()
            .filter(|&character| character != ',')
            .collect();
        let Some(value) = text.trim().parse::<f64>().ok().filter(|v| v.is_finite()) else {
            return;
        };
        seen.numbers += 1;
        seen.window.push(at_ns, value);
        seen.growth.push(value);
        if let Some(previous) = seen.previous_ns.filter(|previous| *previous != at_ns) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_without_a_number_are_refused() {
        for pattern in ["abc", "(", ""] {
            let Err(error) = Feed::new("stdout", pattern) else {
                panic!("{pattern} was accepted");
            };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("for example"), "{error}");
        }
    }

    #[test]
    fn lines_are_put_together_and_numbers_found() {
        let feed = Feed::new("stdout", r"v=(\S+)").unwrap();
        for piece in ["v=1\nv", "=2,000.5\rnothing\n\n", "\u{fffd}v=x\nv=nan\nv=3"] {
            feed.chunk(piece.as_bytes(), 1_000_000_000);
        }
        let seen = feed.lock();
        assert_eq!((seen.lines, seen.matched, seen.numbers), (5, 4, 2));
        assert_eq!(seen.window.last.1, 2000.5);
        assert_eq!((seen.window.value(), seen.window.rate()), (None, None));
    }

    #[test]
    fn a_flood_is_sampled_in_bounded_memory() {
        let feed = Feed::new("stdout", r"^(\d+)$").unwrap();
        let flood = b"12\n".repeat(20_000);
        for millisecond in 1..2000 {
            feed.chunk(&flood, millisecond * 1_000_000);
        }
        feed.chunk(&vec![b'9'; 100_000], 60_000_000_000);
        let seen = feed.lock();
        assert!(seen.numbers > 100_000 && seen.numbers < 5_000_000);
        assert!(seen.partial.len() <= LONGEST_LINE);
        assert_eq!(seen.window.value(), Some(12.0));
    }

    #[test]
    fn totals_become_rates() {
        let mut window = Window::default();
        for second in 1..=4u64 {
            window.push(second * 1_000_000_000, 100.0 + 5.0 * second as f64);
        }
        assert_eq!(window.rate(), Some(5.0));
        assert_eq!(window.value(), Some((110.0 + 115.0 + 120.0) / 3.0));
    }

    #[test]
    fn of_what_is_read_first_the_last_number_begins_the_window() {
        let mut window = Window::default();
        for total in [100.0, 110.0, 120.0] {
            window.push(2_000_000, total);
        }
        assert_eq!((window.value(), window.rate()), (None, None));
        for total in [130.0, 140.0] {
            window.push(4_000_000, total);
        }
        assert_eq!((window.value(), window.rate()), (Some(135.0), Some(1e4)));
    }
}
