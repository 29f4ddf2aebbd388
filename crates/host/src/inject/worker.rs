//! What runs inside a worker process.

use crate::sys::clock::monotonic_ns;
use crate::sys::clock::sleep_until;
use crate::sys::clock::thread_cpu_ns;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::process::set_timer_slack;
use crate::sys::sched::request_slice;
use crate::sys::sched::yield_cpu;
use crate::sys::sched::yield_disk;
use jostle_kernels::Environment;
use jostle_kernels::Failure;
use jostle_kernels::Kernel;
use jostle_kernels::KernelSpec;
use jostle_kernels::Waiting;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use serde::Deserialize;
use serde::Serialize;
use std::time::Duration;

/// A worker asks the scheduler for this many times the slice that it takes.
const SPARE_SLICE: f64 = 2.0;
/// How often an idle worker on a CPU of its own looks at its page.
const IDLE_NS: u64 = 80_000;
/// Longest sleep of a worker that waits between operations.
const NAP_NS: u64 = 80_000;
/// Length of one turn of the placebo, in spins of about 50 ns.
const SPIN: u32 = 100;
/// A paced kernel that fell behind catches up at most this much: about what a
/// scheduler takes a CPU away for.
const DEBT_NS: u64 = 10_000_000;
/// The same for one that waits for a device: longer than other threads of the
/// CPU may hold it up for.
const DEVICE_DEBT_NS: u64 = 20_000_000;

/// Least time from one slice of a source that takes CPU time to the next. It is to show what
/// the time is worth, not what switches cost: every 0.5 ms they took 4 to 7 % of the speed of
/// a program that lives in the second-level cache, every 4 ms at most 2.
const LEAST_PERIOD_OF_TIME_NS: u64 = 4_000_000;

/// Turns taken on a CPU that the target uses too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slices {
    pub period_ns: u64,
    /// Share of the CPU taken, 0–1.
    pub share: f64,
}

impl Slices {
    /// Where the share of a same-CPU worker starts, 0–1.
    pub const DEFAULT_SHARE: f64 = 0.2;

    pub fn of(period: Duration, share: f64) -> Self {
        Slices {
            period_ns: period.as_nanos() as u64,
            share,
        }
    }

    /// Turns of `period` with the share that is the default.
    pub fn usual(period: Duration) -> Self {
        Slices::of(period, Slices::DEFAULT_SHARE)
    }

    /// The same for `resource`: what takes CPU time has longer turns.
    pub(super) fn of_resource(self, resource: Resource) -> Self {
        let least = match resource.row().intensity {
            Intensity::Share => LEAST_PERIOD_OF_TIME_NS,
            _ => 0,
        };
        Slices {
            period_ns: self.period_ns.max(least),
            ..self
        }
    }
}

/// Everything a worker is told at its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerConfig {
    pub resource: Resource,
    /// `None` when the worker has its CPU for itself.
    pub slices: Option<Slices>,
    /// Whether it takes its CPU only while nobody else wants it.
    #[serde(default)]
    pub gives_way: bool,
    pub environment: Environment,
}

/// Builds the kernel.
///
/// # Errors
/// Why it cannot run here.
pub(super) fn start<'a>(
    config: &WorkerConfig,
    page: &'a ControlPage,
) -> Result<Worker<'a>, Failure> {
    let spec = jostle_kernels::source(config.resource);
    let intensity = config.resource.row().intensity;
    set_timer_slack(1);
    if config.gives_way {
        yield_cpu()
            .map_err(|error| Failure::new(format!("cannot give way on its CPU: {error}")))?;
    }
    if config.environment.scratch_directory.is_none() {
        // Whatever it reads or pages must not compete for the disk. A refusal
        // changes nothing for sources that do not use it.
        let _ = yield_disk();
    }
    if let Some(slices) = config.slices.filter(|_| intensity != Intensity::Share) {
        ask_for(slices);
    }
    let kernel = (spec.build)(&Environment {
        available_bytes: Some(|| crate::machine::available_memory_bytes().ok()),
        ..config.environment.clone()
    })?;
    if let Some(engine) = kernel.engine() {
        page.set_engine(engine);
    }
    page.holds_at_most.set(kernel.holds_at_most());
    page.own_peak.set(kernel.peak().unwrap_or(0.0));
    Ok(Worker {
        page,
        spec,
        intensity,
        kernel,
        slices: config.slices,
        command: None,
        paces_itself: false,
        due_ns: 0,
        active_ns: 0,
        counted_ns: 0,
        next_slice_ns: 0,
        owed_ns: 0,
    })
}

/// What is left of a period at most when its work is done, where a source never rests.
const BETWEEN_PERIODS_NS: u64 = 100_000;

/// Asks the scheduler for what `slices` take.
fn ask_for(slices: Slices) {
    // Refused by kernels that do not know it; the calibration of the period then
    // finds a longer one. A worker that asked for just what it takes would be
    // interrupted by the target at the end of most slices.
    let taken = slices.period_ns as f64 * slices.share * SPARE_SLICE;
    let _ = request_slice((taken as u64).max(100_000));
}

/// One source in a worker process.
pub(super) struct Worker<'a> {
    pub(super) page: &'a ControlPage,
    spec: &'static KernelSpec,
    intensity: Intensity,
    kernel: Box<dyn Kernel>,
    pub(super) slices: Option<Slices>,
    command: Option<Command>,
    /// Whether the kernel keeps to the rate of this treatment itself.
    paces_itself: bool,
    /// When the next paced operation is due, on [`Worker::pacing_clock`].
    due_ns: u64,
    /// CPU time used while treating, and this thread's when it was counted last.
    active_ns: u64,
    counted_ns: u64,
    next_slice_ns: u64,
    /// CPU time by which the slices so far fell short of their share, or (if
    /// negative) went beyond it.
    owed_ns: i64,
}

impl Worker<'_> {
    /// Follows the page for one turn, one slice, or a rest; nothing while it is
    /// parked. Whether it was parked.
    pub(super) fn step(&mut self) -> Result<bool, Failure> {
        let command = self.page.command.get();
        if self.command != Some(command) {
            self.switch(command);
        }
        self.page.heartbeat.add(1);
        match (command.order(), self.slices) {
            (Order::Park, _) => {
                self.page.applied.set(command);
                return Ok(true);
            }
            (Order::Idle, None) => self.rest(command, IDLE_NS),
            // A little less than a period, so that a switch out of idling
            // takes effect within one.
            (Order::Idle, Some(slices)) => self.rest(command, slices.period_ns / 5 * 4),
            (order, None) => self.turn(command, order)?,
            (_, Some(slices)) => self.slice(command, slices)?,
        }
        Ok(false)
    }

    /// Takes up `command`.
    pub(super) fn switch(&mut self, command: Command) {
        let order = command.order();
        let presses = |order: Order| order.intensity().is_some();
        let last = self.command.map_or(Order::Park, Command::order);
        let (pressed, pretended) = (presses(last), last == Order::Control);
        if pressed && !presses(order) || pretended && order != Order::Control {
            self.kernel.release();
        }
        match order.intensity() {
            Some(percent) => {
                self.kernel.set_probing(matches!(order, Order::Probe(_)));
                self.kernel.set_intensity(percent);
                let rate = self.page.peak.get() * percent / 100.0;
                let held_back = self.holds_back(percent).then_some(rate);
                self.paces_itself = self.kernel.set_rate(held_back);
                self.due_ns = self.pacing_clock();
                self.counted_ns = thread_cpu_ns();
            }
            None if order == Order::Control => self.kernel.placebo(),
            None => {}
        }
        self.command = Some(command);
        self.owed_ns = 0;
        let held = order.intensity().map_or(0, |_| self.kernel.held());
        self.page.held.set(held);
        self.ask(false);
    }

    /// Whether the source takes all the CPU time that it gets. Then it does not go to sleep
    /// at the end of a period only to interrupt the target some microseconds later.
    fn never_rests(&self, order: Order) -> bool {
        self.intensity == Intensity::Share && order.intensity().is_some_and(|all| all >= 100.0)
    }

    fn rest(&self, command: Command, nanoseconds: u64) {
        self.page.applied.set(command);
        sleep_until(monotonic_ns() + nanoseconds);
    }

    /// Paced operations follow the CPU time of treatment in slices, wall time
    /// otherwise: the clocks their peak was measured with.
    fn pacing_clock(&self) -> u64 {
        match self.slices {
            Some(_) => self.active_ns,
            None => monotonic_ns(),
        }
    }

    /// Waits for the next period and takes its share of it.
    fn slice(&mut self, command: Command, slices: Slices) -> Result<(), Failure> {
        let now = monotonic_ns();
        if self.next_slice_ns + slices.period_ns < now
            || self.next_slice_ns > now + slices.period_ns
        {
            self.next_slice_ns = now;
        }
        let begin = self.next_slice_ns;
        self.next_slice_ns = begin + slices.period_ns;
        self.wait_for_slice(command, begin);
        self.take(command, slices, self.next_slice_ns)
    }

    /// Asks the scheduler for the turns that it gives to any process, or else for
    /// its own slices again. What takes CPU time is like any process.
    pub(super) fn ask(&self, usual: bool) {
        let usual = usual || self.intensity == Intensity::Share;
        match (usual, self.slices) {
            (true, _) => _ = request_slice(0),
            (false, Some(slices)) => ask_for(slices),
            (false, None) => {}
        }
    }

    /// Gets ready to work without rests.
    pub(super) fn begin(&mut self, command: Command) {
        self.counted_ns = thread_cpu_ns();
        self.page.applied.set(command);
    }

    /// Sleeps until `begin_ns`, or keeps the CPU busy until then.
    pub(super) fn wait_for_slice(&self, command: Command, begin_ns: u64) {
        let order = command.order();
        let alone = matches!(order, Order::TreatAlone(_)) && self.intensity != Intensity::Share;
        let between = self.never_rests(order) && begin_ns < monotonic_ns() + BETWEEN_PERIODS_NS;
        match alone || between {
            true => self.spin_until(begin_ns, command),
            false => sleep_until(begin_ns),
        }
    }

    /// Takes the share of a period that ends at `end_ns`.
    pub(super) fn take(
        &mut self,
        command: Command,
        slices: Slices,
        end_ns: u64,
    ) -> Result<(), Failure> {
        let order = command.order();
        let share = match (self.intensity, order) {
            (Intensity::Share, order) => order.intensity().unwrap_or(0.0) / 100.0,
            _ => slices.share,
        };
        let fair = (slices.period_ns as f64 * share) as i64;
        let budget = match fair {
            0 => 0,
            _ => (fair + self.owed_ns).max(0) as u64,
        };
        // A share is of everything that the thread uses: its way to sleep and back takes
        // CPU time from the target as well.
        if self.intensity != Intensity::Share || order.intensity().is_none() {
            self.counted_ns = thread_cpu_ns();
        }
        let start = self.counted_ns;
        self.page.applied.set(command);
        while budget > 0 && self.page.command.get() == command {
            self.turn(command, order)?;
            let now = match order.intensity() {
                Some(_) => self.counted_ns,
                None => thread_cpu_ns(),
            };
            if now - start >= budget || monotonic_ns() >= end_ns {
                break;
            }
        }
        // Turns do not end on the nanosecond, and a neighbour may take the CPU:
        // the next slices make up for it, as far as a period reaches.
        let used = match self.intensity {
            Intensity::Share => self.counted_ns,
            _ => thread_cpu_ns(),
        };
        let used = (used - start) as i64;
        let most = slices.period_ns as i64 / 2;
        self.owed_ns = (self.owed_ns + fair - used).clamp(-most, most);
        Ok(())
    }

    /// Works without turns until `end_ns`.
    pub(super) fn work_until(&mut self, command: Command, end_ns: u64) -> Result<(), Failure> {
        while monotonic_ns() < end_ns && self.page.command.get() == command {
            self.turn(command, command.order())?;
        }
        Ok(())
    }

    /// Passes the time until `deadline_ns` in registers, unless switched.
    fn spin_until(&self, deadline_ns: u64, command: Command) {
        while monotonic_ns() < deadline_ns && self.page.command.get() == command {
            jostle_kernels::spin::spin(SPIN / 5);
            self.page.heartbeat.add(1);
        }
    }

    /// A few microseconds of treatment or placebo.
    pub(super) fn turn(&mut self, command: Command, order: Order) -> Result<(), Failure> {
        let Some(percent) = order.intensity() else {
            self.page.applied.set(command);
            match self.spec.waiting {
                Waiting::Spin => jostle_kernels::spin::spin(SPIN),
                Waiting::Sleep => sleep_until(monotonic_ns() + NAP_NS),
            }
            return Ok(());
        };
        let held_back = self.holds_back(percent) && !self.paces_itself;
        let operations = if held_back && self.pacing_clock() < self.due_ns || percent == 0.0 {
            self.wait(percent);
            0
        } else {
            self.kernel.work()?
        };
        let now = thread_cpu_ns();
        let used = now - self.counted_ns;
        self.counted_ns = now;
        self.active_ns += used;
        self.page.active_ns.add(used);
        match self.kernel.confirmed() {
            Some(total) => self.page.operations.set(total),
            None => self.page.operations.add(operations),
        }
        if let Some(traffic) = self.kernel.traffic() {
            self.page.set_traffic(traffic);
        }
        if held_back {
            self.pace(operations, percent);
        }
        self.page.held.set(self.kernel.held());
        if self.kernel.applied() {
            self.page.applied.set(command);
            if self.spec.pause_ns > 0 {
                sleep_until(monotonic_ns() + self.spec.pause_ns);
            }
        }
        self.page.heartbeat.add(1);
        Ok(())
    }

    /// Whether the intensity is a rate to keep to.
    fn holds_back(&self, percent: f64) -> bool {
        self.intensity == Intensity::Rate && (percent < 100.0 || self.page.held_at_peak.get())
    }

    /// Waits until the next operation is due, but only a little at a time.
    fn wait(&self, percent: f64) {
        match self.spec.waiting {
            Waiting::Spin => jostle_kernels::spin::spin(SPIN / 2),
            Waiting::Sleep => {
                let now = monotonic_ns();
                let due = if percent > 0.0 { self.due_ns } else { u64::MAX };
                sleep_until(due.clamp(now + 1_000, now + NAP_NS));
            }
        }
    }

    /// Moves the due time on by what `operations` may take at `percent` of the
    /// peak. Open loop: lateness is made up for, up to [`DEBT_NS`] or
    /// [`DEVICE_DEBT_NS`].
    fn pace(&mut self, operations: u64, percent: f64) {
        let rate = self.page.peak.get() * percent / 100.0;
        if operations == 0 || rate <= 0.0 {
            return;
        }
        let cost = (operations as f64 / rate * 1e9) as u64;
        let debt = match self.spec.waiting {
            Waiting::Spin => DEBT_NS,
            Waiting::Sleep => DEVICE_DEBT_NS,
        };
        let debt = debt.max(4 * cost);
        let earliest = self.pacing_clock().saturating_sub(debt);
        self.due_ns = self.due_ns.max(earliest) + cost;
    }
}
