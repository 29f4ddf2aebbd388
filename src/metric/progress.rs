//! `progress`: operations that the target itself counts on a shared page.

use super::Context;
use super::Metric;
use super::TurnSource;
use super::begun;
use super::facts;
use crate::error::Error;
use crate::error::Result;
use crate::sys::clock::monotonic_ns;
use crate::sys::handover;
use crate::sys::handover::Layout;
use crate::sys::handover::Readable;
use crate::workload::Progress as Page;
use crate::workload::Target;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::time::Duration;
use std::time::Instant;

/// Longest wait for a progress page: a demo first fills its memory or file.
const PAGE_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for a target to get any CPU time at all.
const STARVED: Duration = Duration::from_secs(5);

pub(super) struct ProgressMetric {
    page: Page,
    /// The leader whose page it is; a restarted one has another.
    pid: i32,
    /// Changes with it.
    version: u64,
    unit: String,
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
            page,
            pid: target.pid(),
            version: handover::version(),
            context,
            start: None,
        })
    }

    fn sample(&self) -> Sample {
        let (operations, busy_ns) = self.page.read();
        Sample {
            at_ns: monotonic_ns(),
            operations,
            busy_ns,
        }
    }
}

/// Waits until `target` publishes its progress.
pub(super) fn wait_for_page(target: &mut Target, context: &Context) -> Result<Page> {
    // Only what jostle itself wrote is sure to publish sooner or later.
    let limit = match target.name().starts_with("demo ") {
        true => PAGE_LIMIT,
        false => context.options.trial,
    };
    let deadline = Instant::now() + limit;
    loop {
        // A page that is being made may look wrong for a moment.
        let found = Page::find(target.pid());
        if let Ok(Some(page)) = found {
            return Ok(page);
        }
        target.check_alive()?;
        context.check_interrupt()?;
        if Instant::now() >= deadline {
            return Err(Error::environment(match found {
                Err(problem) => format!("--metric progress: {problem}"),
                Ok(_) => format!(
                    "--metric progress: {} published no progress page (a memfd named \
                     jostle-progress) within {} s",
                    target.name(),
                    limit.as_secs()
                ),
            }));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Metric for ProgressMetric {
    fn facts(&self) -> MetricFacts {
        facts(
            "progress",
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
        "nothing beyond what the target publishes by itself; one read of 32 bytes of shared memory at each end of a window"
            .into()
    }

    fn turns(&self) -> Option<TurnSource<'_>> {
        let descriptors = self.page.pages();
        (descriptors.len() <= handover::MOST).then(|| TurnSource {
            readable: Readable {
                layout: Layout::Page,
                descriptors,
            },
            version: self.version,
            by_cpu_time: self.page.by_cpu_time(),
        })
    }

    fn follow(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        if target.pid() != self.pid {
            self.page = wait_for_page(target, &self.context)?;
            self.pid = target.pid();
            self.version = handover::version();
        }
        Ok(())
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        self.follow(target)?;
        self.start = Some(self.sample());
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let start = begun(&mut self.start, "progress")?;
        let deadline = Instant::now() + STARVED;
        let cpu = self.page.by_cpu_time();
        loop {
            let now = self.sample();
            let operations = now.operations.wrapping_sub(start.operations);
            let time = match cpu {
                true => now.busy_ns.wrapping_sub(start.busy_ns),
                false => now.at_ns - start.at_ns,
            };
            if operations > u64::MAX / 2 || time > u64::MAX / 2 {
                return Err(Error::environment(format!(
                    "the progress page of {} went backwards",
                    target.name()
                )));
            }
            // By wall time no operation is a reading (0); by CPU time a target
            // that got none says nothing about its speed.
            if time > 0 && !(cpu && operations == 0) {
                return Ok(operations as f64 * 1e9 / time as f64);
            }
            target.check_alive()?;
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
