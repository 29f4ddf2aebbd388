//! `ips` and `cpi`: instructions per second of wall time, and cycles per
//! instruction, in user mode, by the CPU's own counters.
//!
//! They count whatever belongs to the target at the start and what that starts
//! later. Spinning counts as progress: prefer a metric of the target's own.

use super::Metric;
use super::TurnSource;
use super::begun;
use super::facts;
use super::suggest;
use crate::counters::CoreCounts;
use crate::counters::CoreReading;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Scope;
use crate::workload::Target;
use jostle_host::sys::handover;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    InstructionsPerSecond,
    CyclesPerInstruction,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::InstructionsPerSecond => "ips",
            What::CyclesPerInstruction => "cpi",
        }
    }
}

pub(super) struct Ips {
    what: What,
    counter: CoreCounts,
    scope: Scope,
    because: String,
    /// Changes when the counters are opened anew.
    version: u64,
    start: Option<CoreReading>,
}

impl Ips {
    pub(super) fn new(target: &Target, what: What, because: &str) -> Result<Ips> {
        Ok(Ips {
            what,
            counter: open(target, what)?,
            scope: target.scope(),
            because: because.into(),
            version: handover::version(),
            start: None,
        })
    }
}

fn open(target: &Target, what: What) -> Result<CoreCounts> {
    let cpus = target.cpus().unwrap_or_default();
    let counted = match what {
        What::InstructionsPerSecond => "instructions",
        What::CyclesPerInstruction => "cycles and instructions",
    };
    CoreCounts::open(&target.scope(), &cpus).map_err(|reason| {
        Error::environment(format!(
            "--metric {}: {counted} cannot be counted: {reason}; for {} there are\n{}",
            what.name(),
            target.name(),
            suggest::lines(target)
        ))
    })
}

impl Metric for Ips {
    fn facts(&self) -> MetricFacts {
        let (unit, direction) = match self.what {
            What::InstructionsPerSecond => ("instructions per second", Direction::Higher),
            What::CyclesPerInstruction => ("cycles per instruction", Direction::Lower),
        };
        facts(self.what.name(), unit, direction, &self.because)
    }

    fn window_rule(&self) -> String {
        match self.what {
            What::InstructionsPerSecond => "instructions in user mode per second of wall time",
            What::CyclesPerInstruction => {
                "cycles ÷ instructions in user mode, of the same instants"
            }
        }
        .into()
    }

    fn resolution(&self) -> Resolution {
        Resolution::Turn
    }

    fn cost(&self) -> String {
        "nothing while the target runs; one read of a counter per thread at each end of a window"
            .into()
    }

    fn turns(&self) -> Option<TurnSource<'_>> {
        // Cycles per instruction are no rate over a time.
        let rate = self.what == What::InstructionsPerSecond;
        let readable = rate.then(|| self.counter.instructions()).flatten()?;
        Some(TurnSource {
            readable,
            version: self.version,
            by_cpu_time: false,
            logged: false,
        })
    }

    fn follow(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        let scope = target.scope();
        if scope != self.scope {
            self.counter = open(target, self.what)?;
            self.scope = scope;
            self.version = handover::version();
        }
        Ok(())
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        self.follow(target)?;
        self.start = Some(self.counter.read());
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let name = self.what.name();
        let before = begun(&mut self.start, name)?;
        let after = self.counter.read();
        target.check_alive()?;
        let did = after.since(&before);
        if did.enabled_ns > 0.0 && did.running_ns == 0.0 {
            return Err(Error::environment(format!(
                "--metric {name}: the counters got no turn on the CPU's registers during the \
                 whole window: something else holds them; end other profilers"
            )));
        }
        match self.what {
            What::InstructionsPerSecond => Ok(did.instructions / did.seconds.max(1e-9)),
            // Higher is better in here: instructions per cycle.
            What::CyclesPerInstruction if did.cycles > 0.0 => Ok(did.instructions / did.cycles),
            What::CyclesPerInstruction => Err(Error::environment(format!(
                "--metric cpi: {} ran no cycle during the window: it sleeps; use ips, or a metric \
                 that counts its work",
                target.name()
            ))),
        }
    }
}
