//! `progress` and `progress:shm`: operations that the target itself counts, on a
//! page that it shares or in a file that `JOSTLE_PROGRESS` names.

use super::Context;
use super::Metric;
use super::TurnSource;
use super::begun;
use super::error::Reason;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Progress;
use crate::workload::Published;
use crate::workload::Target;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::handover;
use jostle_host::sys::handover::Layout;
use jostle_host::sys::handover::Readable;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::time::Duration;
use std::time::Instant;

/// Longest wait for a progress page: a demo first fills its memory or file.
const PAGE_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for a target to get any CPU time at all.
const STARVED: Duration = Duration::from_secs(5);

/// Where a target publishes.
pub(super) enum Page {
    Shared(Progress),
    File(Published),
}

impl Page {
    /// What the target publishes now, one way or the other.
    ///
    /// # Errors
    /// What is wrong with a page that was found.
    pub(super) fn find(target: &Target) -> Result<Option<Page>, Reason> {
        let wrong = |problem: &dyn std::fmt::Display| Reason::BadPage(problem.to_string());
        let shared = match target.is_ours() {
            true => Progress::find(target.pid()),
            false => Progress::find_in(&target.scope()),
        };
        if let Some(page) = shared.map_err(|problem| wrong(&problem))? {
            return Ok(Some(Page::Shared(page)));
        }
        Self::find_file(target)
    }

    fn find_file(target: &Target) -> Result<Option<Page>, Reason> {
        let file = Published::find_in(&target.scope());
        let file = file.map_err(|problem| Reason::BadPage(problem.to_string()))?;
        Ok(file.map(Page::File))
    }

    fn name(&self) -> &'static str {
        match self {
            Page::Shared(_) => "progress",
            Page::File(_) => "progress:shm",
        }
    }

    fn by_cpu_time(&self) -> bool {
        match self {
            Page::Shared(page) => page.by_cpu_time(),
            Page::File(page) => page.by_cpu_time(),
        }
    }

    fn read(&self) -> Result<(u64, u64), Reason> {
        match self {
            Page::Shared(page) => Ok(page.read()),
            Page::File(page) => {
                let read = page.read();
                read.map_err(|problem| Reason::BadPage(problem.to_string()))
            }
        }
    }
}

pub(super) struct ProgressMetric {
    page: Page,
    /// Operations when it was read last.
    last: u64,
    /// Operations on the pages of earlier runs.
    earlier: u64,
    /// The leader whose page it is; a restarted one has another.
    pid: i32,
    /// Changes with it.
    version: u64,
    unit: String,
    /// Whether a command that has ended is started again.
    restarts: bool,
    context: Context,
    start: Option<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    at_ns: u64,
    operations: u64,
    busy_ns: u64,
}

impl ProgressMetric {
    pub(super) fn boxed(
        page: Page,
        target: &Target,
        operation: &str,
        context: Context,
    ) -> Box<dyn Metric> {
        let per = match page.by_cpu_time() {
            true => "CPU second",
            false => "second",
        };
        Box::new(ProgressMetric {
            unit: format!("{operation} per {per}"),
            last: page.read().map_or(0, |(operations, _)| operations),
            earlier: 0,
            page,
            restarts: target.is_ours(),
            pid: target.pid(),
            version: handover::version(),
            context,
            start: None,
        })
    }

    /// # Errors
    /// When the page became unreadable or went backwards.
    fn sample(&mut self) -> Result<Sample> {
        let name = self.page.name();
        let (operations, busy_ns) = self.page.read().map_err(|reason| reason.failed(name))?;
        let from = std::mem::replace(&mut self.last, operations);
        // Beyond half of all numbers it is one that went down.
        if operations.wrapping_sub(from) > u64::MAX / 2 {
            let to = operations;
            return Err(Reason::Backwards { from, to }.failed(name));
        }
        Ok(Sample {
            at_ns: monotonic_ns(),
            operations,
            busy_ns,
        })
    }

    /// The target runs, if need be again, and its page is open.
    fn keep_alive(&mut self, target: &mut Target) -> Result<()> {
        match self.restarts {
            true => target.keep_running()?,
            false => target.check_alive()?,
        }
        if target.pid() != self.pid {
            let ended = self.page.read();
            let ended = ended.map_or(self.last, |(operations, _)| operations);
            self.earlier = self.earlier.wrapping_add(ended);
            self.page = wait_for_page(target, &self.context, self.page.name())?;
            self.pid = target.pid();
            self.version = handover::version();
            // Another run may begin at 0.
            self.last = 0;
        }
        Ok(())
    }
}

/// Waits until `target` publishes its progress, for the metric called `name`.
pub(super) fn wait_for_page(target: &mut Target, context: &Context, name: &str) -> Result<Page> {
    // Only what jostle itself wrote is sure to publish sooner or later.
    let limit = match target.name().starts_with("demo ") {
        true => PAGE_LIMIT,
        false => context.options.trial,
    };
    let deadline = Instant::now() + limit;
    loop {
        // A page that is being made may look wrong for a moment.
        let found = match name {
            "progress:shm" => Page::find_file(target),
            _ => Page::find(target),
        };
        if let Ok(Some(page)) = found {
            return Ok(page);
        }
        target.check_alive()?;
        context.check_interrupt()?;
        if Instant::now() >= deadline {
            let (target, limit) = (target.name().to_string(), limit);
            let reason = found.err().unwrap_or(match name {
                "progress:shm" => Reason::NothingPublished { target, limit },
                _ => Reason::NoPage { target, limit },
            });
            return Err(reason.failed(name));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Metric for ProgressMetric {
    fn facts(&self) -> MetricFacts {
        facts(
            self.page.name(),
            &self.unit,
            Direction::Higher,
            &self.context.because,
        )
    }

    fn window_rule(&self) -> String {
        match self.page.by_cpu_time() {
            true => "growth of the target's own count per second of its CPU time",
            false => "growth of the target's own count per second of wall time",
        }
        .into()
    }

    fn resolution(&self) -> Resolution {
        Resolution::Turn
    }

    fn cost(&self) -> String {
        match self.page {
            Page::Shared(_) => "nothing beyond what the target publishes by itself; one read of 32 bytes of shared memory at each end of a window",
            Page::File(_) => "nothing beyond what the target publishes by itself; one read of 64 bytes of a file at each end of a window",
        }
        .into()
    }

    fn turns(&self) -> Option<TurnSource<'_>> {
        let (layout, descriptors) = match &self.page {
            Page::Shared(page) => (Layout::Page, page.pages()),
            Page::File(page) => (Layout::File, page.descriptors()),
        };
        (descriptors.len() <= handover::MOST).then(|| TurnSource {
            readable: Readable {
                layout,
                descriptors,
            },
            version: self.version,
            by_cpu_time: self.page.by_cpu_time(),
            logged: false,
        })
    }

    fn counted(&mut self) -> Option<Result<u64>> {
        let read = self.sample();
        Some(read.map(|now| self.earlier.wrapping_add(now.operations)))
    }

    fn restarts(&self) -> bool {
        self.restarts
    }

    fn follow(&mut self, target: &mut Target) -> Result<()> {
        self.keep_alive(target)?;
        self.sample().map(|_| ())
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        self.keep_alive(target)?;
        self.start = Some(self.sample()?);
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let name = self.page.name();
        let start = begun(&mut self.start, name)?;
        let deadline = Instant::now() + STARVED;
        let cpu = self.page.by_cpu_time();
        loop {
            let now = self.sample()?;
            // What ended meanwhile did nothing since.
            let ended = target.ended_for().filter(|_| self.restarts);
            let idle_ns = ended.unwrap_or_default().as_nanos() as u64;
            let operations = now.operations.wrapping_sub(start.operations);
            let time = match cpu {
                true => now.busy_ns.wrapping_sub(start.busy_ns),
                false => (now.at_ns - start.at_ns).saturating_sub(idle_ns),
            };
            if time > u64::MAX / 2 {
                let (from, to) = (start.busy_ns, now.busy_ns);
                return Err(Reason::Backwards { from, to }.failed(name));
            }
            // By wall time no operation is a reading (0); by CPU time a target
            // that got none says nothing about its speed.
            if time > 0 && !(cpu && operations == 0) {
                self.keep_alive(target)?;
                return Ok(operations as f64 * 1e9 / time as f64);
            }
            self.keep_alive(target)?;
            self.context.check_interrupt()?;
            if Instant::now() >= deadline {
                return Err(Error::environment(format!(
                    "{} made no progress for {} s",
                    target.name(),
                    STARVED.as_secs()
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
