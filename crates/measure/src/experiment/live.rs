//! Windows on the real machine: real workers beside a real target.

mod floor;
mod nearness;
mod play;
mod quiet;
mod revive;
mod turns;
mod watch;

use super::counting::Counting;
use super::executor::Arm;
use super::executor::Block;
use super::executor::BlockRequest;
use super::executor::Executor;
use super::executor::Subject;
use super::executor::TargetState;
use super::executor::WindowError;
use super::executor::WindowReading;
use super::executor::WindowRequest;
use crate::counters::Counters;
use crate::error::Error;
use crate::metric::Metric;
use crate::warning::Warning;
use crate::workload::Target;
use jostle_host::inject::Snapshot;
use jostle_host::inject::WorkerError;
use jostle_host::inject::WorkerGroup;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::stall::StallGuard;
use jostle_host::machine::private::Look;
use jostle_host::machine::private::PrivateCache;
use jostle_host::os;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::process_cpu_ns;
use jostle_host::sys::control_page::Order;
use jostle_kernels::Waiting;
use jostle_profile::CounterFacts;
use jostle_profile::cpulist::format_list;
use jostle_profile::reading::Reading;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::Duration;

/// Longest wait for an arm to be in force, beyond what the switch should cost.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a switch may take at worst, as a multiple of what was measured:
/// pages that the host has not backed yet come far slower than others.
const SLOWEST_SWITCH: u32 = 12;
/// Longest sleep between two looks at the interrupt flag and the target.
const NAP: Duration = Duration::from_millis(20);
/// How often a look is taken at whether the target lives: it costs a walk
/// through its processes.
const LOOK: Duration = Duration::from_millis(200);

/// The workers of each subject, the target and its metric.
pub struct LiveExecutor<'a> {
    subjects: &'a [Subject],
    groups: Vec<WorkerGroup>,
    target: &'a mut Target,
    metric: &'a mut dyn Metric,
    /// CPUs whose stolen time counts.
    cpus: Vec<usize>,
    interrupt: Arc<AtomicBool>,
    guard: RefCell<StallGuard>,
    start_ns: u64,
    start_cpu_ns: u64,
    counting: Option<Counting>,
    current: Option<usize>,
    stopped: bool,
    /// When the target was last seen alive.
    looked_ns: u64,
    playing: play::Playing,
    quiet: Option<quiet::Quiet>,
    nearness: nearness::Nearness,
    private_cache: Option<PrivateCache>,
    /// Highest intensity of any source, percent: what is asked for is a part of it.
    ceiling: f64,
    floor: Option<floor::Guard>,
}

impl<'a> LiveExecutor<'a> {
    /// `groups[i]` is the source of `subjects[i]`; the clock starts now.
    pub fn new(
        subjects: &'a [Subject],
        groups: Vec<WorkerGroup>,
        target: &'a mut Target,
        metric: &'a mut dyn Metric,
        interrupt: Arc<AtomicBool>,
        guard: StallGuard,
        counters: Option<Counters>,
    ) -> Self {
        let counting = counters.map(|counters| Counting::new(counters, target.scope()));
        let mut cpus = target.cpus().unwrap_or_default();
        cpus.extend(groups.iter().flat_map(|group| &group.plan.placement.cpus));
        cpus.sort_unstable();
        cpus.dedup();
        LiveExecutor {
            subjects,
            groups,
            target,
            metric,
            cpus,
            interrupt,
            guard: RefCell::new(guard),
            start_ns: monotonic_ns(),
            start_cpu_ns: process_cpu_ns(),
            counting,
            current: None,
            stopped: false,
            looked_ns: 0,
            playing: play::Playing::default(),
            quiet: None,
            nearness: nearness::Nearness::default(),
            private_cache: None,
            ceiling: 100.0,
            floor: None,
        }
    }

    /// Lets no source go above `percent`, which stands for 100 from now on.
    pub fn keep_below(&mut self, percent: f64) {
        self.ceiling = percent;
    }

    /// Looks, now and then, at `cache`, that of the target's core.
    pub fn watch_private_cache(&mut self, cache: Option<PrivateCache>) {
        self.private_cache = cache;
    }

    /// The intensity that a source is given.
    fn allowed(&self, percent: f64) -> f64 {
        percent * self.ceiling / 100.0
    }

    /// What was counted beside the metric, by name in the order of a window's
    /// readings: the facts, or why it could not be read.
    pub fn counters(&self) -> Vec<(String, Reading<CounterFacts>)> {
        self.counting
            .as_ref()
            .map_or_else(Vec::new, Counting::facts)
    }

    /// What a reader must know of how it was read.
    pub fn warnings(&self) -> Vec<Warning> {
        let counting = self.counting.as_ref();
        let mut warnings = counting.map_or_else(Vec::new, Counting::warnings);
        let turns = self.playing.lost;
        warnings.extend((turns > 0).then_some(Warning::TurnsLost { turns }));
        warnings.extend(self.floor_warning());
        warnings
    }

    /// CPU time of this process since the clock started, percent of one CPU.
    pub fn own_cpu_percent(&self) -> f64 {
        let wall = (monotonic_ns() - self.start_ns).max(1) as f64;
        (process_cpu_ns() - self.start_cpu_ns) as f64 / wall * 100.0
    }

    fn interrupted(&self) -> bool {
        self.interrupt.load(Relaxed)
    }

    fn pause(&mut self, length: Duration, keep: bool) -> Result<(), WindowError> {
        let deadline = monotonic_ns() + length.as_nanos() as u64;
        loop {
            if self.interrupted() {
                return Err(WindowError::Interrupted);
            }
            self.check_floor()?;
            let left = deadline.saturating_sub(monotonic_ns());
            if left == 0 {
                return Ok(());
            }
            sleep(NAP.min(Duration::from_nanos(left)));
            if keep {
                self.keep_running()?;
            }
        }
    }

    /// A finite command is started again whenever it has ended, if the metric
    /// can follow it; any other target must not end.
    fn keep_running(&mut self) -> Result<(), WindowError> {
        let now = monotonic_ns();
        let restarts = self.metric.restarts();
        if !restarts && now - self.looked_ns < LOOK.as_nanos() as u64 {
            return Ok(());
        }
        self.looked_ns = now;
        let kept = match restarts {
            true if self.target.wait(Duration::ZERO).is_some() => {
                self.metric.before_restart();
                let again = self.target.keep_running();
                // Its counters are to see all of it.
                again.and_then(|()| self.metric.follow(self.target))
            }
            true => Ok(()),
            false => self.target.check_alive(),
        };
        kept.map_err(target_error)
    }

    fn set_target(&mut self, state: TargetState) -> Result<(), WindowError> {
        match (state, self.stopped) {
            (TargetState::Stopped, false) => {
                self.keep_running()?;
                self.metric.suspend();
                self.stopped = true;
                if let Err(error) = self.target.stop() {
                    // A run may end between the look and the stop.
                    self.keep_running()?;
                    self.target.stop().map_err(|_| target_error(error))?;
                }
            }
            (TargetState::Running, true) => {
                self.target.cont().map_err(target_error)?;
                self.metric.resume();
                self.stopped = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn set_arm(
        &mut self,
        subject: usize,
        arm: Arm,
        target: TargetState,
    ) -> Result<(), WindowError> {
        if self.current != Some(subject) {
            self.put_down()?;
        }
        self.current = Some(subject);
        self.order(
            subject,
            match arm {
                Arm::Idle => Order::Idle,
                Arm::Control => Order::Control,
                Arm::Treat(intensity) if target == TargetState::Stopped => {
                    Order::TreatAlone(self.allowed(intensity))
                }
                Arm::Treat(intensity) => Order::Treat(self.allowed(intensity)),
                Arm::Probe(intensity) => Order::Probe(self.allowed(intensity)),
            },
        )
    }

    /// Parks the source of the last window.
    fn put_down(&mut self) -> Result<(), WindowError> {
        let Some(last) = self.current.take() else {
            return Ok(());
        };
        match self.order(last, Order::Park) {
            // The loss is its own, not the next subject's; what cannot be parked
            // must not go on pressing.
            Err(WindowError::Subject(_)) => {
                self.groups[last].end();
                Ok(())
            }
            parked => parked,
        }
    }

    fn order(&mut self, subject: usize, order: Order) -> Result<(), WindowError> {
        let patience = PATIENCE + self.subjects[subject].switch_cost * SLOWEST_SWITCH;
        let interrupt = self.interrupt.clone();
        let group = &mut self.groups[subject];
        group.check_exits()?;
        let command = group.set(order);
        let presses = order.intensity().is_some();
        let stalled = RefCell::new(None);
        let stop = || {
            if presses && stalled.borrow().is_none() {
                stalled.replace(self.guard.borrow_mut().look());
            }
            stalled.borrow().is_some() || interrupt.load(Relaxed)
        };
        let outcome = group.wait_applied(command, patience, &stop);
        let stalled = stalled.take();
        if stalled.is_some() {
            group.set(Order::Park);
        }
        match (outcome, stalled) {
            (Ok(()), None) => Ok(()),
            (_, Some(reason)) => Err(WindowError::Subject(reason)),
            (Err(error), None) => Err(error.into()),
        }
    }

    fn read(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError> {
        let read_target = request.read_target && request.target == TargetState::Running;
        let runs = self.metric.one_run_per_window();
        let undisturbed = read_target && request.arm == Arm::Idle;
        if let Some(quiet) = self.quiet.as_mut().filter(|_| undisturbed) {
            quiet.begin(self.target);
        }
        if read_target {
            self.metric.begin(self.target).map_err(target_error)?;
        }
        let counted = match &mut self.counting {
            Some(counting) if read_target => Some(counting.begin(self.target.scope())),
            _ => None,
        };
        let stolen = StealReading::now(&self.cpus);
        let from = self.groups[request.subject].snapshot();
        if !(read_target && runs) {
            let keep = request.target == TargetState::Running && !read_target;
            self.pause(request.length, keep)?;
        }
        let performance = match read_target {
            true => Some(self.metric.end(self.target).map_err(target_error)?),
            false => None,
        };
        let counters = match (&mut self.counting, counted) {
            (Some(counting), Some(from)) => counting.end(&from),
            _ => Vec::new(),
        };
        let to: Snapshot = self.groups[request.subject].snapshot();
        let steal = StealReading::now(&self.cpus).share_since(&stolen);
        if let Some(quiet) = self.quiet.as_mut().filter(|_| undisturbed) {
            quiet.reached(self.target);
            if let Some(counting) = &self.counting {
                let length = Duration::from_nanos(to.at_ns.saturating_sub(from.at_ns));
                quiet.count(counting, &counters, length);
            }
        }
        self.groups[request.subject].check_exits()?;
        let group = &self.groups[request.subject];
        let treated = request.arm.intensity().is_some();
        Ok(WindowReading {
            performance,
            probe: treated.then(|| group.probe(&from, &to)).flatten(),
            pressure: treated.then(|| group.pressure(&from, &to)),
            steal,
            counters,
        })
    }

    fn try_window(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError> {
        if self.interrupted() {
            return Err(WindowError::Interrupted);
        }
        if let Some(quiet) = self.quiet.as_mut().filter(|_| request.arm != Arm::Idle) {
            quiet.interrupt();
        }
        self.set_target(request.target)?;
        self.before_window(request.subject, request.arm)?;
        self.set_arm(request.subject, request.arm, request.target)?;
        if request.arm.intensity().is_some()
            && let Some(reason) = self.guard.get_mut().look()
        {
            self.order(request.subject, Order::Park)?;
            return Err(WindowError::Subject(reason));
        }
        let keep = request.target == TargetState::Running && !self.metric.one_run_per_window();
        self.pause(request.settle, keep)?;
        let reading = self.read(request)?;
        self.after_window(request.arm, reading.performance, request.length)?;
        Ok(reading)
    }
}

impl From<WorkerError> for WindowError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Stopped => WindowError::Interrupted,
            error => WindowError::Subject(error.to_string()),
        }
    }
}

impl Executor for LiveExecutor<'_> {
    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic_ns() - self.start_ns)
    }

    fn window(&mut self, request: &WindowRequest) -> Result<WindowReading, WindowError> {
        let read = self.try_window(request);
        let pressing = request.arm.intensity().is_some();
        match &read {
            Err(WindowError::Subject(_)) if self.revive_after(request.subject, pressing) => {
                self.try_window(request)
            }
            _ => read,
        }
    }

    fn plays(&self) -> bool {
        true
    }

    fn whole_runs(&self) -> bool {
        self.metric.one_run_per_window()
    }

    fn runs_watched(&self) -> &[Vec<f64>] {
        self.metric.whole_runs()
    }

    fn gap(&self) -> Option<Duration> {
        self.metric.gap()
    }

    fn counts(&self) -> bool {
        self.counting.is_some()
    }

    fn touched_within(&self, time: Duration) -> Option<f64> {
        self.touched(time)
    }

    fn cache_line_ns(&mut self, subject: usize) -> Option<f64> {
        self.line_ns(subject)
    }

    fn private_cache(&mut self) -> Option<Look> {
        self.private_cache.as_ref()?.look()
    }

    fn at_once(&self, one: usize, other: usize) -> Result<(), String> {
        if self.metric.turns().is_none() {
            return Err(format!(
                "it takes a metric that can be read at any instant, and this one cannot ({})",
                self.metric.facts().name
            ));
        }
        let (one, other) = (&self.groups[one].plan, &self.groups[other].plan);
        let spins = |plan: &WorkerPlan| plan.spec.waiting == Waiting::Spin;
        let cpus = one.placement.cpus.iter();
        let shared = cpus.filter(|cpu| other.placement.cpus.contains(cpu));
        let shared: Vec<usize> = shared.copied().collect();
        match spins(one) && spins(other) && !shared.is_empty() {
            true => Err(format!(
                "both press from CPU {}, where only one of them can run at a time",
                format_list(&shared)
            )),
            false => Ok(()),
        }
    }

    fn play(&mut self, blocks: &[BlockRequest]) -> Result<Vec<Block>, WindowError> {
        self.pause_for_use()?;
        self.arm_floor()?;
        match self.metric.turns().is_some() {
            true => self.play_blocks(blocks),
            false => self.play_windows(blocks),
        }
    }
}

/// The end of the measurement must not leave a stopped target behind, and the
/// workers end with their groups.
impl Drop for LiveExecutor<'_> {
    fn drop(&mut self) {
        if self.stopped {
            let _ = self.target.cont();
        }
    }
}

fn target_error(error: Error) -> WindowError {
    match error {
        Error::Interrupted(_) => WindowError::Interrupted,
        other => WindowError::Target(other.to_string()),
    }
}

/// Stolen time and all time of some CPUs, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default)]
struct StealReading {
    stolen: f64,
    at_ns: u64,
    cpus: u64,
}

impl StealReading {
    fn now(cpus: &[usize]) -> Self {
        let ticks = os::text::parse(os::here(), "proc/stat", |text| os::stat::ticks(text, cpus));
        StealReading {
            stolen: ticks.map_or(0.0, |ticks| ticks.stolen),
            at_ns: monotonic_ns(),
            cpus: cpus.len().max(1) as u64,
        }
    }

    /// Share of the CPUs' time that was stolen since `earlier`, 0–1. The kernel
    /// counts in ticks of 10 ms: what one tick more shows may have been stolen
    /// in any window since the tick before, so a single one is no evidence
    /// about this window and counts as nothing.
    fn share_since(&self, earlier: &StealReading) -> f64 {
        let ticks = self.stolen - earlier.stolen;
        if ticks <= 1.0 {
            return 0.0;
        }
        let seconds = (self.at_ns - earlier.at_ns) as f64 / 1e9 * self.cpus as f64;
        (ticks / os::stat::ticks_per_second() / seconds.max(1e-9)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_tick_of_steal_is_no_evidence() {
        let earlier = StealReading {
            stolen: 10.0,
            at_ns: 0,
            cpus: 2,
        };
        let after = |stolen| StealReading {
            stolen,
            at_ns: 100_000_000,
            cpus: 2,
        };
        assert_eq!(after(11.0).share_since(&earlier), 0.0);
        assert!((after(14.0).share_since(&earlier) - 0.2).abs() < 1e-9);
    }
}
