//! What became of the requests that were due within a time.

use crate::amount::Latency;
use crate::amount::Percentile;
use crate::failure::Failure;
use crate::failure::Failures;
use crate::protocol::Reply;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Finest difference kept, and the longest latency: 64 ns and 100 s.
const LOWEST_NS: u64 = 64;
const HIGHEST_NS: u64 = 100_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

/// The requests whose intended time lies within a time. Failed ones count as
/// slower than all others.
#[derive(Clone, Debug)]
pub struct Window {
    pub from_ns: u64,
    /// Its end; `from_ns` while it is open.
    pub to_ns: u64,
    /// From the intended time to the answer, of successes, nanoseconds.
    latency: Histogram<u64>,
    /// From the intended time (or that of a free connection, if later) to
    /// the sending, nanoseconds.
    lateness: Histogram<u64>,
    /// Requests that were due.
    pub due: u64,
    /// Successes among them, whenever their answers came.
    pub answered: u64,
    /// Successes whose answer came within the window, whenever they were due.
    pub finished: u64,
    /// Successes that asked for a key which is not there.
    pub missing: u64,
    pub failures: Failures,
    /// What an unanswered request counts as.
    timeout_ns: u64,
    /// Due, and neither answered nor failed yet.
    pending: u64,
}

fn histogram() -> Histogram<u64> {
    let mut histogram =
        Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS).expect("the bounds are valid");
    histogram.auto(false);
    histogram
}

fn latency(ns: f64, at_least: bool) -> Latency {
    let seconds = ns / 1e9;
    Latency { seconds, at_least }
}

impl Window {
    pub fn new(from_ns: u64, timeout: Duration) -> Window {
        Window {
            from_ns,
            to_ns: from_ns,
            latency: histogram(),
            lateness: histogram(),
            due: 0,
            answered: 0,
            finished: 0,
            missing: 0,
            failures: Failures::default(),
            timeout_ns: timeout.as_nanos() as u64,
            pending: 0,
        }
    }

    pub fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns).max(1) as f64 / 1e9
    }

    /// Successes per second, by the time of their answers.
    pub fn throughput(&self) -> f64 {
        self.finished as f64 / self.seconds()
    }

    /// Latency at `percentile` over successes and failures; `None` when there
    /// was no request.
    pub fn percentile(&self, percentile: Percentile) -> Option<Latency> {
        let all = self.answered + self.failures.total();
        // 0.99 × 100 must not become the 100th.
        let rank = (percentile.share() * all as f64 - 1e-9).ceil().max(1.0);
        let share = rank / self.answered as f64;
        (all > 0).then(|| match rank <= self.answered as f64 {
            true => latency(self.latency.value_at_quantile(share.min(1.0)) as f64, false),
            false => latency(self.timeout_ns as f64, true),
        })
    }

    /// Mean latency, where every failure counts as the time-out.
    pub fn mean(&self) -> Option<Latency> {
        let failed = self.failures.total();
        let all = self.answered + failed;
        let sum = self.latency.mean() * self.answered as f64 + (failed * self.timeout_ns) as f64;
        (all > 0).then(|| latency(sum / all as f64, failed > 0))
    }

    /// The longest latency of a success; the time-out when any request failed.
    pub fn max(&self) -> Option<Latency> {
        let max = self.latency.max();
        match (self.failures.total(), self.answered) {
            (0, 0) => None,
            (0, _) => Some(latency(max as f64, false)),
            _ => Some(latency(self.timeout_ns.max(max) as f64, true)),
        }
    }

    /// Successes answered within `bound` of their intended time.
    pub fn within(&self, bound: Duration) -> u64 {
        let bound = (bound.as_nanos() as u64).min(HIGHEST_NS);
        self.latency.count_between(0, bound).min(self.answered)
    }

    /// How late requests were sent through the generator's own fault, seconds;
    /// `None` in a closed loop.
    pub fn lateness(&self, percentile: Percentile) -> Option<f64> {
        (!self.lateness.is_empty())
            .then(|| self.lateness.value_at_quantile(percentile.share()) as f64 / 1e9)
    }

    pub fn worst_lateness(&self) -> Option<f64> {
        (!self.lateness.is_empty()).then(|| self.lateness.max() as f64 / 1e9)
    }

    /// Adds a window that follows this one.
    pub fn merge(&mut self, other: &Window) {
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.latency.add(&other.latency).expect("same bounds");
        self.lateness.add(&other.lateness).expect("same bounds");
        self.due += other.due;
        self.answered += other.answered;
        self.finished += other.finished;
        self.missing += other.missing;
        self.failures.merge(&other.failures);
    }
}

/// Names a window; 0 is none.
pub(super) type WindowId = u64;

/// The window that is open, and those that wait for answers.
pub(super) struct Windows {
    timeout: Duration,
    /// Id of the first in `list`.
    first: WindowId,
    list: VecDeque<Entry>,
    open: bool,
}

struct Entry {
    window: Window,
    /// Set when it is closed.
    reply: Option<Sender<Window>>,
}

impl Windows {
    pub(super) fn new(timeout: Duration) -> Windows {
        Windows {
            timeout,
            first: 1,
            list: VecDeque::new(),
            open: false,
        }
    }

    pub(super) fn open(&mut self, now_ns: u64) {
        // One that nobody closed is of no use to anybody.
        self.close(now_ns, channel().0);
        self.list.push_back(Entry {
            window: Window::new(now_ns, self.timeout),
            reply: None,
        });
        self.open = true;
    }

    /// Closes the open one; it goes to `reply` when its last answer is there.
    pub(super) fn close(&mut self, now_ns: u64, reply: Sender<Window>) {
        if !self.open {
            return;
        }
        self.open = false;
        let entry = self.list.back_mut().expect("an open window is the last");
        entry.window.to_ns = now_ns;
        entry.reply = Some(reply);
    }

    /// Hands out the windows that are complete; true when there was one.
    pub(super) fn deliver(&mut self) -> bool {
        let mut delivered = false;
        while let Some(entry) = self.list.front()
            && entry.window.pending == 0
            && let Some(reply) = entry.reply.clone()
        {
            let entry = self.list.pop_front().expect("just seen");
            self.first += 1;
            delivered = true;
            // Where nobody listens any more nothing is lost.
            let _ = reply.send(entry.window);
        }
        delivered
    }

    /// The id requests that are due now belong to.
    pub(super) fn current(&self) -> WindowId {
        match self.open {
            true => self.first + self.list.len() as u64 - 1,
            false => 0,
        }
    }

    fn get(&mut self, id: WindowId) -> Option<&mut Window> {
        let index = id.checked_sub(self.first)?;
        Some(&mut self.list.get_mut(index as usize)?.window)
    }

    pub(super) fn due(&mut self, id: WindowId) {
        if let Some(window) = self.get(id) {
            window.due += 1;
            window.pending += 1;
        }
    }

    pub(super) fn sent(&mut self, id: WindowId, lateness_ns: u64) {
        if let Some(window) = self.get(id) {
            window.lateness.saturating_record(lateness_ns);
        }
    }

    pub(super) fn answered(&mut self, id: WindowId, latency_ns: u64, answer: &Reply) {
        if let Reply::Failed(failure, text) = answer {
            return self.failed(id, *failure, text);
        }
        let current = self.current();
        if let Some(window) = self.get(current) {
            window.finished += 1;
        }
        if let Some(window) = self.get(id) {
            window.latency.saturating_record(latency_ns);
            window.answered += 1;
            window.missing += u64::from(*answer == Reply::Missing);
            window.pending = window.pending.saturating_sub(1);
        }
    }

    pub(super) fn failed(&mut self, id: WindowId, failure: Failure, text: &str) {
        if let Some(window) = self.get(id) {
            window.failures.add(failure, text);
            window.pending = window.pending.saturating_sub(1);
        }
    }

    /// A request that will not be sent, or whose answer nobody waits for.
    pub(super) fn withdrawn(&mut self, id: WindowId) {
        if let Some(window) = self.get(id) {
            window.due = window.due.saturating_sub(1);
            window.pending = window.pending.saturating_sub(1);
        }
    }

    /// A connection that could not be made, where no request waits for it.
    pub(super) fn trouble(&mut self, failure: Failure, text: &str) {
        let current = self.current();
        if let Some(window) = self.get(current) {
            window.failures.add(failure, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn requests_belong_to_the_window_they_were_due_in() {
        let mut windows = Windows::new(Duration::from_secs(1));
        assert_eq!(windows.current(), 0);
        windows.due(0);
        windows.open(100);
        let first = windows.current();
        windows.due(first);
        windows.due(first);
        let (reply, result) = channel();
        windows.close(200, reply);
        windows.open(200);
        let second = windows.current();
        assert_ne!(first, second);
        windows.due(second);
        windows.answered(second, 3 * MS, &Reply::Success);
        windows.answered(first, MS, &Reply::Missing);
        assert!(!windows.deliver() && result.try_recv().is_err());
        windows.failed(first, Failure::Timeout, "");
        assert!(windows.deliver());
        let window = result.try_recv().unwrap();
        assert_eq!((window.due, window.answered, window.missing), (2, 1, 1));
        assert_eq!(window.failures.of(Failure::Timeout), 1);
        // Both answers came while the second was open.
        let (reply, result) = channel();
        windows.close(300, reply);
        windows.deliver();
        let window = result.try_recv().unwrap();
        assert_eq!((window.due, window.finished), (1, 2));
        // Late news of windows long gone is no news.
        windows.failed(first, Failure::Reset, "");
    }

    #[test]
    fn failures_count_as_slower_than_all_others() {
        let mut windows = Windows::new(Duration::from_secs(2));
        windows.open(0);
        let id = windows.current();
        for index in 1..=100 {
            windows.due(id);
            match index <= 98 {
                true => windows.answered(id, index * MS, &Reply::Success),
                false => windows.failed(id, Failure::Reset, "gone"),
            }
        }
        let (reply, result) = channel();
        windows.close(1_000 * MS, reply);
        windows.deliver();
        let window = result.try_recv().unwrap();
        let at = |text: &str| window.percentile(text.parse().unwrap()).unwrap();
        assert!((at("p50").seconds - 0.050).abs() < 1e-4 && !at("p50").at_least);
        assert!((at("p98").seconds - 0.098).abs() < 1e-4 && !at("p98").at_least);
        assert_eq!(
            at("p99"),
            Latency {
                seconds: 2.0,
                at_least: true
            }
        );
        assert_eq!(window.within(Duration::from_millis(10)), 10);
        let mean = window.mean().unwrap();
        assert!((mean.seconds - (98.0 * 0.0495 + 4.0) / 100.0).abs() < 1e-3);
        assert!(window.max().unwrap().at_least);
    }

    #[test]
    fn nothing_asked_is_no_latency() {
        let window = Window::new(0, Duration::from_secs(1));
        assert_eq!(window.percentile(Percentile::P99), None);
        assert_eq!((window.mean(), window.max()), (None, None));
        assert_eq!(window.lateness(Percentile::P99), None);
    }
}
