//! Running sources, each alone or several at once.

use super::super::interrupt;
use super::outcome;
use super::outcome::Device;
use super::outcome::Outcome;
use jostle_host::inject::Snapshot;
use jostle_host::inject::WorkerError;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::group::spawn_together;
use jostle_host::inject::peak::FoundPeak;
use jostle_host::inject::peak::find_peak;
use jostle_host::inject::stall::StallGuard;
use jostle_host::machine::calibration::Calibration;
use jostle_host::sys::control_page::Order;
use jostle_measure::console;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::warning::Warning;
use jostle_profile::resource::Resource;
use std::cell::RefCell;
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// With nothing else to do, every peak is watched at least this long.
const LEAST_PEAK: Duration = Duration::from_millis(250);
/// Longest wait for workers to be ready.
const READY: Duration = Duration::from_secs(60);
/// Longest wait for an intensity to be in force.
const APPLIED: Duration = Duration::from_secs(300);
/// Between two looks at workers and memory.
const LOOK: Duration = Duration::from_millis(200);

/// A source that is ready to press.
pub struct Source {
    pub resource: Resource,
    pub group: WorkerGroup,
    pub peak: FoundPeak,
    /// The pressure that 100 % stands for.
    pub full: Option<f64>,
}

/// Sources that press at the same time, and what may end that early.
pub struct Sources<'a> {
    pub all: Vec<Source>,
    guard: RefCell<StallGuard>,
    interrupted: &'a AtomicBool,
}

impl<'a> Sources<'a> {
    /// Starts a group for each plan, parked, and finds each one's peak while the
    /// others rest.
    ///
    /// # Errors
    /// An environment error that names the source.
    pub fn start(
        plans: Vec<WorkerPlan>,
        calibration: Option<&Calibration>,
        max_stall: f64,
        interrupted: &'a AtomicBool,
    ) -> Result<Sources<'a>> {
        let several = plans.len() > 1;
        let plans: Vec<(usize, WorkerPlan)> = plans.into_iter().enumerate().collect();
        let resources: Vec<Resource> = plans.iter().map(|(_, it)| it.spec.resource).collect();
        let failed = |resource: Resource, error: WorkerError| match several {
            true => Error::environment(format!("{resource}: {error}")),
            false => Error::environment(error),
        };
        let mut all = Vec::new();
        // One process per source: sources in the same process would run alternately.
        for (resource, group) in resources.into_iter().zip(spawn_together(plans)) {
            let failed = |error| failed(resource, error);
            let mut group = group.map_err(failed)?;
            group.wait_ready(READY).map_err(failed)?;
            all.push((resource, group));
        }
        let mut sources = Vec::new();
        for (resource, mut group) in all {
            if interrupt::raised(interrupted) {
                return Err(Error::Interrupted(" before anything pressed".into()));
            }
            let watched = resource.row().timing.peak.max(LEAST_PEAK);
            let peak = find_peak(&mut group, calibration, watched)
                .map_err(|error| failed(resource, error))?;
            if let Some(doubt) = peak.change.clone().map(Warning::from) {
                warning!("{resource}: {doubt}");
            }
            sources.push(Source {
                resource,
                full: group.full_scale(),
                group,
                peak,
            });
        }
        Ok(Sources {
            all: sources,
            guard: RefCell::new(StallGuard::new(max_stall)),
            interrupted,
        })
    }

    pub fn interrupted(&self) -> bool {
        interrupt::raised(self.interrupted)
    }

    /// # Errors
    /// When a worker ended, or the machine waits for memory too much.
    pub fn check(&mut self) -> Result<()> {
        for source in &mut self.all {
            source.group.check_exits().map_err(Error::environment)?;
        }
        match self.guard.borrow_mut().look() {
            Some(reason) => Err(Error::environment(reason)),
            None => Ok(()),
        }
    }

    /// Presses with each source at its intensity for `length` once all are in
    /// force, or until interrupted. `live`: whether to show what arrives.
    ///
    /// # Errors
    /// As [`Sources::check`]; interrupted before all were in force.
    pub fn hold(
        &mut self,
        intensities: &[f64],
        length: Duration,
        live: bool,
    ) -> Result<Vec<Outcome>> {
        let orders: Vec<_> = self
            .all
            .iter_mut()
            .zip(intensities)
            .map(|(source, percent)| source.group.set(Order::Treat(*percent)))
            .collect();
        for (index, command) in orders.into_iter().enumerate() {
            let backed_off = RefCell::new(None);
            let stop = || {
                let reason = self.guard.borrow_mut().look();
                let stop = reason.is_some() || self.interrupted();
                backed_off.replace(reason);
                stop
            };
            let applied = self.all[index].group.wait_applied(command, APPLIED, &stop);
            if let Err(error) = applied {
                return Err(match (backed_off.take(), error) {
                    (Some(stalled), _) => Error::environment(stalled),
                    (None, WorkerError::Stopped) => {
                        Error::Interrupted(" before the intensity was reached".into())
                    }
                    (None, error) => Error::environment(error.to_string()),
                });
            }
        }
        let began = Instant::now();
        let first = self.snapshots();
        let mut last = first.clone();
        let live = live && std::io::stderr().is_terminal();
        while began.elapsed() < length && !self.interrupted() {
            sleep(length.saturating_sub(began.elapsed()).min(LOOK));
            self.check()?;
            if live {
                let now = self.snapshots();
                console::write(format_args!(
                    "\r{}   ",
                    self.lines(intensities, &last, &now)
                ));
                last = now;
            }
        }
        if live {
            note!("");
        }
        let (end, seconds) = (self.snapshots(), began.elapsed().as_secs_f64());
        let each = self.all.iter().zip(intensities).zip(first.iter().zip(&end));
        Ok(each
            .map(|((source, percent), (first, end))| source.outcome(*percent, first, end, seconds))
            .collect())
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let groups = self.all.iter().map(|source| &source.group);
        groups.map(WorkerGroup::snapshot).collect()
    }

    fn lines(&self, intensities: &[f64], from: &[Snapshot], to: &[Snapshot]) -> String {
        let each = self.all.iter().zip(intensities).zip(from.iter().zip(to));
        let line = |((source, percent), (from, to)): ((&Source, &f64), (&Snapshot, &Snapshot))| {
            let pressure = source.group.pressure(from, to);
            outcome::line(source.resource, *percent, pressure, source.full)
        };
        each.map(line).collect::<Vec<_>>().join("; ")
    }
}

impl Source {
    /// What arrived between two snapshots.
    fn outcome(&self, requested: f64, first: &Snapshot, end: &Snapshot, seconds: f64) -> Outcome {
        let achieved = self.group.pressure(first, end);
        let achieved_percent = self.full.map(|full| achieved / full * 100.0);
        let device = Device::between(&self.group, first, end);
        let wall = (end.at_ns - first.at_ns).max(1) as f64 / 1e9;
        let spec = self.group.plan.spec;
        Outcome {
            resource: self.resource.id(),
            placement: self.group.plan.placement.clone(),
            requested_percent: requested,
            achieved_pressure: achieved,
            pressure_unit: self.resource.row().pressure_unit,
            achieved_percent,
            full_scale_pressure: self.full,
            operation: spec.operation,
            operations_per_second: (end.operations - first.operations) as f64 / wall,
            units_per_operation: spec.units_per_operation,
            shortfall: achieved_percent
                .and_then(|it| outcome::shortfall(&self.group, requested, it, device)),
            peak_calibrated: self.peak.calibrated,
            doubt: (self.peak.change.clone()).map(|change| Warning::from(change).to_string()),
            engine: self.group.engine(),
            device,
            duration_seconds: seconds,
        }
    }
}
