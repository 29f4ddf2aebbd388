//! The workers of one resource, steered as one.

use crate::inject::error::WorkerError;
use crate::inject::process;
use crate::inject::process::Host;
use crate::inject::worker::WorkerConfig;
use crate::sys::clock::monotonic_ns;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::shared::SharedPage;
use jostle_kernels::DeviceTraffic;
use jostle_kernels::KernelSpec;
use jostle_kernels::Waiting;
use jostle_profile::Placement;
use jostle_profile::resource::Intensity;
use jostle_statistics::ByNumber;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// In how many parts the time at full strength is looked at.
const PEAK_PARTS: u32 = 6;
/// A worker that shows no sign of life for this long hangs.
const HANG: Duration = Duration::from_secs(5);

/// What a group needs beside its placement.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    pub spec: &'static KernelSpec,
    pub placement: Placement,
    /// `slices`, sizes and limits; `cpus` is set from the placement.
    pub config: WorkerConfig,
}

/// One source in one process.
struct Worker {
    host: Rc<Host>,
    /// Which of the process's sources it is.
    source: usize,
    page: SharedPage<ControlPage>,
    /// The last sign of life seen, and when.
    last_beat: Cell<(u64, u64)>,
}

impl Worker {
    /// Whether it showed a sign of life since the last look.
    fn went_on(&self) -> bool {
        let beat = self.page.heartbeat.get();
        let went_on = beat != self.last_beat.get().0;
        if went_on {
            self.last_beat.set((beat, monotonic_ns()));
        }
        went_on
    }
}

/// Counters of a worker at one moment, or of a group, summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub at_ns: u64,
    pub operations: u64,
    pub active_ns: u64,
    pub held: u64,
    pub traffic: DeviceTraffic,
}

/// Running workers that press on one resource together. They end with the last
/// group of their process.
pub struct WorkerGroup {
    pub plan: WorkerPlan,
    workers: Vec<Worker>,
    sequence: u32,
}

impl WorkerGroup {
    /// Starts one worker per CPU of the placement and waits until all are
    /// ready, parked.
    pub fn spawn(plan: WorkerPlan, patience: Duration) -> Result<Self, WorkerError> {
        let mut groups = spawn_together(vec![(0, plan)]);
        let mut group = groups.pop().expect("one group for each plan")?;
        group.wait_ready(patience)?;
        Ok(group)
    }

    /// The processes of the workers, and which of their sources this is.
    pub fn hosts(&self) -> impl Iterator<Item = (&Rc<Host>, usize)> {
        let workers = self.workers.iter();
        workers.map(|worker| (&worker.host, worker.source))
    }

    /// What steers each worker.
    pub fn pages(&self) -> impl Iterator<Item = &SharedPage<ControlPage>> {
        self.workers.iter().map(|worker| &worker.page)
    }

    /// Waits until all workers are ready, parked.
    ///
    /// # Errors
    /// In words, why one cannot run, or that it takes too long.
    pub fn wait_ready(&mut self, patience: Duration) -> Result<(), WorkerError> {
        let deadline = Instant::now() + patience;
        while !self.workers.iter().all(|worker| worker.page.ready.get()) {
            self.check_exits()?;
            if Instant::now() > deadline {
                let seconds = patience.as_secs_f64();
                return Err(format!("its worker was not ready after {seconds:.0} s").into());
            }
            sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// Switches every worker, by one store each. Returns what to wait for.
    pub fn set(&mut self, order: Order) -> Command {
        self.sequence = self.sequence.wrapping_add(1);
        let command = Command::new(order, self.sequence);
        for worker in &self.workers {
            worker.page.command.set(command);
        }
        command
    }

    /// Whether `command` is fully in force in every worker.
    pub fn applied(&self, command: Command) -> bool {
        let mut pages = self.workers.iter().map(|worker| &worker.page);
        pages.all(|page| page.applied.get() == command)
    }

    /// Waits until `command` is fully in force.
    ///
    /// # Errors
    /// A worker ended or hangs, `patience` ran out, or `stop` said so.
    pub fn wait_applied(
        &self,
        command: Command,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), WorkerError> {
        let deadline = Instant::now() + patience;
        let mut nap = Duration::from_micros(50);
        while !self.applied(command) {
            self.check()?;
            if stop() {
                return Err(WorkerError::Stopped);
            }
            if Instant::now() > deadline {
                return Err(WorkerError::Late(patience));
            }
            sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot {
            at_ns: monotonic_ns(),
            ..Snapshot::default()
        };
        for each in self.each() {
            sum.operations += each.operations;
            sum.active_ns += each.active_ns;
            sum.held += each.held;
            sum.traffic.requests += each.traffic.requests;
            sum.traffic.behind_ns += each.traffic.behind_ns;
        }
        sum
    }

    /// The counters of each worker by itself.
    fn each(&self) -> Vec<Snapshot> {
        let of = |worker: &Worker| Snapshot {
            at_ns: monotonic_ns(),
            operations: worker.page.operations.get(),
            active_ns: worker.page.active_ns.get(),
            held: worker.page.held.get(),
            traffic: worker.page.traffic(),
        };
        self.workers.iter().map(of).collect()
    }

    /// Pressure at 100 %, in the resource's unit: what the workers can hold, or
    /// the peak that intensity refers to. `None` before there is a peak.
    pub fn full_scale(&self) -> Option<f64> {
        let sum = |of: fn(&ControlPage) -> f64| -> f64 {
            self.workers.iter().map(|worker| of(&worker.page)).sum()
        };
        let full = match self.plan.spec.intensity() {
            Intensity::Share => 100.0,
            Intensity::Footprint => sum(|page| page.holds_at_most.get() as f64),
            Intensity::Rate => {
                // The peak of a worker that takes turns holds while it runs.
                let share = self.plan.config.slices.map_or(1.0, |slices| slices.share);
                sum(|page| page.peak.get()) * self.plan.spec.units_per_operation as f64 * share
            }
        };
        (full > 0.0).then_some(full)
    }

    /// Pressure achieved between two snapshots, in the resource's unit.
    pub fn pressure(&self, from: &Snapshot, to: &Snapshot) -> f64 {
        let wall = (to.at_ns - from.at_ns).max(1) as f64;
        match self.plan.spec.intensity() {
            Intensity::Share => {
                let workers = self.workers.len().max(1) as f64;
                (to.active_ns - from.active_ns) as f64 / wall / workers * 100.0
            }
            Intensity::Footprint => to.held as f64,
            Intensity::Rate => {
                let operations = (to.operations - from.operations) as f64;
                operations * self.plan.spec.units_per_operation as f64 / wall * 1e9
            }
        }
    }

    /// The source's own performance between two snapshots, higher is better:
    /// the CPU share it got (`cpu-time`), its rate over wall time where it is
    /// held at a rate or waits for a device on a CPU of its own, else its speed
    /// while on the CPU.
    /// `None` when it did nothing.
    pub fn probe(&self, from: &Snapshot, to: &Snapshot) -> Option<f64> {
        let wall = (to.at_ns - from.at_ns) as f64;
        let operations = (to.operations - from.operations) as f64;
        let active = (to.active_ns - from.active_ns) as f64;
        let spec = self.plan.spec;
        // One that sleeps between calls is slow by choice; its speed is seen in them.
        let at_its_own_pace = spec.intensity() == Intensity::Rate
            || spec.waiting == Waiting::Sleep && spec.pause_ns == 0;
        let (numerator, denominator) = match spec.intensity() {
            Intensity::Share => (active, wall),
            _ if at_its_own_pace && self.plan.config.slices.is_none() => (operations, wall),
            _ => (operations, active),
        };
        (numerator > 0.0 && denominator > 0.0).then(|| numerator / denominator)
    }

    /// What carries the operations, and why, where machines differ in that.
    pub fn engine(&self) -> Option<String> {
        self.workers.first()?.page.engine()
    }

    /// Measures what all workers together reach at full strength for
    /// `length`, and makes it the peak that intensity refers to; sources to which
    /// their peak is given only show that they can press. Nothing to do for
    /// sources that are not held at a rate. Returns operations per second.
    pub fn calibrate_peak(&mut self, length: Duration) -> Result<Option<f64>, WorkerError> {
        if self.plan.spec.intensity() != Intensity::Rate {
            return Ok(None);
        }
        for worker in &self.workers {
            worker.page.held_at_peak.set(false);
        }
        let command = self.set(Order::Treat(100.0));
        self.wait_applied(command, HANG, &|| false)?;
        let own = |worker: &Worker| worker.page.own_peak.get();
        if self.workers.iter().all(|worker| own(worker) > 0.0) {
            self.set(Order::Park);
            for worker in &self.workers {
                worker.page.peak.set(own(worker));
            }
            return Ok(Some(self.workers.iter().map(own).sum()));
        }
        sleep(length / 4);
        let deadline = Instant::now() + HANG;
        let readings = loop {
            let mut readings = vec![self.each()];
            for _ in 0..PEAK_PARTS {
                sleep(length / PEAK_PARTS);
                readings.push(self.each());
            }
            let (first, last) = (&readings[0], &readings[readings.len() - 1]);
            let achieved = first
                .iter()
                .zip(last)
                .all(|(from, to)| to.operations > from.operations);
            // A disk may stand still for that long; then it gets another chance.
            if achieved || Instant::now() > deadline {
                break readings;
            }
            self.check_exits()?;
        };
        self.set(Order::Park);
        // Neighbours only ever take: of the parts of the time the best but one
        // is nearest to what the machine can do.
        let sum_of = |rates: &Vec<f64>| rates.iter().sum::<f64>();
        let mut rates: Vec<Vec<f64>> = readings
            .windows(2)
            .map(|ends| self.rates(&ends[0], &ends[1]))
            .collect();
        rates.sort_by_number(|it| -sum_of(it));
        let best = &rates[1];
        for (worker, peak) in self.workers.iter().zip(best) {
            if *peak <= 0.0 {
                let what = "its worker achieved nothing at full strength";
                return Err(what.to_string().into());
            }
            worker.page.peak.set(*peak);
        }
        Ok(Some(sum_of(best)))
    }

    /// Refers intensity to the peaks that are given to the workers, without a check
    /// whether they are reached. False where they have none.
    pub fn take_own_peaks(&self) -> bool {
        let own = |worker: &Worker| worker.page.own_peak.get();
        let given = self.workers.iter().all(|worker| own(worker) > 0.0);
        if given {
            for worker in &self.workers {
                worker.page.peak.set(own(worker));
            }
        }
        given
    }

    /// Per worker, operations per second between two readings, on the clock
    /// that its pacing follows.
    fn rates(&self, from: &[Snapshot], to: &[Snapshot]) -> Vec<f64> {
        let rate = |(from, to): (&Snapshot, &Snapshot)| {
            let clock = match self.plan.config.slices {
                Some(_) => to.active_ns - from.active_ns,
                None => to.at_ns - from.at_ns,
            };
            (to.operations - from.operations) as f64 / clock.max(1) as f64 * 1e9
        };
        from.iter().zip(to).map(rate).collect()
    }

    /// Makes `operations_per_second` of all workers together the peak that
    /// intensity refers to, shared out as their peaks were before, evenly when
    /// they had none. 100 % is held to it too: a machine that happens to give
    /// more now gives the same as when it was calibrated.
    pub fn set_peak(&mut self, operations_per_second: f64) {
        let before: f64 = self
            .workers
            .iter()
            .map(|worker| worker.page.peak.get())
            .sum();
        for worker in &self.workers {
            let share = match before > 0.0 {
                true => worker.page.peak.get() / before,
                false => 1.0 / self.workers.len() as f64,
            };
            worker.page.peak.set(operations_per_second * share);
            worker.page.held_at_peak.set(true);
        }
    }

    /// Refers intensity to the same peaks as `other`, which has as many workers.
    pub fn take_peaks_of(&self, other: &WorkerGroup) {
        for (own, other) in self.workers.iter().zip(&other.workers) {
            own.page.peak.set(other.page.peak.get());
            own.page.held_at_peak.set(other.page.held_at_peak.get());
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// # Errors
    /// In words, when a worker ended or hangs.
    pub fn check(&self) -> Result<(), WorkerError> {
        for worker in &self.workers {
            if let Some(reason) = worker.page.failure() {
                return Err(reason.into());
            }
            let (_, since) = worker.last_beat.get();
            if !worker.went_on() && monotonic_ns() - since > HANG.as_nanos() as u64 {
                worker.host.check()?;
                return Err(format!(
                    "its worker on CPU {} showed no sign of life for {} s",
                    worker.host.cpu,
                    HANG.as_secs()
                )
                .into());
            }
        }
        Ok(())
    }

    /// # Errors
    /// In words, when a worker ended: its own reason, or how it ended.
    pub fn check_exits(&mut self) -> Result<(), WorkerError> {
        for worker in &mut self.workers {
            // A worker that went on since the last look has not ended.
            if worker.page.failure().is_none() && worker.went_on() {
                continue;
            }
            let host = &worker.host;
            let ended = host.ended();
            if let Some(reason) = worker.page.failure() {
                return Err(reason.into());
            }
            if let Ok(Some(status)) = ended {
                return Err(format!("its worker on CPU {} ended: {status}", host.cpu).into());
            }
        }
        Ok(())
    }

    /// Kills the workers, with whatever else their processes hold.
    pub fn end(&mut self) {
        for worker in &self.workers {
            worker.host.end();
        }
    }

    /// Process ids of the workers.
    pub fn pids(&self) -> Vec<u32> {
        let ids = self.workers.iter().map(|worker| worker.host.pid());
        ids.collect()
    }
}

/// Starts the workers of all `plans`, those of one CPU with equal numbers in
/// one process, without waiting for them. One group for each plan.
///
/// # Errors
/// Per plan, in words, why its process cannot be started.
pub fn spawn_together(plans: Vec<(usize, WorkerPlan)>) -> Vec<Result<WorkerGroup, WorkerError>> {
    let mut wanted: BTreeMap<(usize, usize), Vec<(usize, WorkerConfig)>> = BTreeMap::new();
    for (index, (process, plan)) in plans.iter().enumerate() {
        let mut config = plan.config.clone();
        config.environment.cpus = plan.placement.cpus.clone();
        let homes = match plan.spec.spans_cpus {
            true => 1,
            false => plan.placement.cpus.len(),
        };
        for &cpu in plan.placement.cpus.iter().take(homes) {
            let on = wanted.entry((cpu, *process)).or_default();
            on.push((index, config.clone()));
        }
    }
    let mut groups: Vec<Result<WorkerGroup, WorkerError>> = plans
        .into_iter()
        .map(|(_, plan)| {
            Ok(WorkerGroup {
                plan,
                workers: Vec::new(),
                sequence: 0,
            })
        })
        .collect();
    for ((cpu, _), sources) in wanted {
        let configs: Vec<WorkerConfig> = sources.iter().map(|(_, config)| config.clone()).collect();
        match process::spawn(&configs, cpu) {
            Ok((host, pages)) => {
                for (source, ((index, _), page)) in sources.iter().zip(pages).enumerate() {
                    if let Ok(group) = &mut groups[*index] {
                        group.workers.push(Worker {
                            host: host.clone(),
                            source,
                            page,
                            last_beat: Cell::new((0, monotonic_ns())),
                        });
                    }
                }
            }
            Err(error) => {
                let reason = format!("cannot start a worker on CPU {cpu}: {error}");
                for (index, _) in sources {
                    groups[index] = Err(reason.clone().into());
                }
            }
        }
    }
    groups
}
