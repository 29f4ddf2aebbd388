//! What is measured, where and within which limits, decided before anything of
//! the measurement is started.

use super::bounds;
use super::bounds::Bounded;
use super::place::CpuChoice;
use super::settings::Settings;
use crate::counters::CounterOptions;
use crate::error::Error;
use crate::error::Result;
use crate::metric::MetricOptions;
use crate::warning::Warning;
use crate::workload::TargetSpec;
use crate::workload::hooks::Hooks;
use jostle_host::inject::WorkerPlan;
use jostle_host::inject::peak::remove_stale;
use jostle_host::inject::placement::Refusal;
use jostle_host::inject::placement::place;
use jostle_host::inject::plan::Limits;
use jostle_host::inject::plan::plan;
use jostle_host::inject::slice;
use jostle_host::inject::slice::SliceChoice;
use jostle_host::inject::turns;
use jostle_host::inject::worker::Slices;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_load::LoadPlan;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::SchedulerFacts;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use jostle_profile::resource::SwitchCost;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Slice period where it cannot be tried out.
const SPARING_PERIOD: Duration = Duration::from_millis(1);

/// What to measure and within which limits.
pub struct Request {
    pub spec: TargetSpec,
    /// Name in the profile; the target's own when absent.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Whether the profile holds the command line.
    pub keep_command: bool,
    pub resources: Vec<Resource>,
    /// Whether nobody chose them: then those that cannot matter here are not pressed on.
    pub any_resources: bool,
    /// CPUs of the target.
    pub target_cpus: Vec<usize>,
    /// Why these.
    pub cpu_choice: CpuChoice,
    pub limits: Limits,
    /// Slice period; calibrated when absent.
    pub slice_period: Option<Duration>,
    /// Share of the CPU that a same-CPU worker takes, 0–1.
    pub share: f64,
    pub metric: Option<String>,
    pub metric_options: MetricOptions,
    /// What is sent to the target meanwhile.
    pub load: Option<LoadPlan>,
    /// Raised to end the measurement.
    pub interrupt: Arc<AtomicBool>,
    /// What to count beside the metric; nothing when absent.
    pub counters: Option<CounterOptions>,
    /// What was calibrated on this machine, if it is to be used.
    pub calibration: Option<Calibration>,
    /// Why there is a machine file that is not used.
    pub calibration_ignored: Option<String>,
    /// Commands around the measurement; their time is not the budget's.
    pub hooks: Hooks,
    /// The budget includes the preparations.
    pub settings: Settings,
    /// The first part of this measurement, which was cut short.
    pub past: Option<Profile>,
    /// Where to keep what was read while measuring; the caller's to remove once
    /// the profile is safe.
    pub checkpoint: Option<PathBuf>,
}

/// Plans for every resource asked for, or why there is none.
pub struct Plans {
    pub ready: Vec<(Resource, WorkerPlan)>,
    /// What needs no measuring.
    pub bounded: Vec<Bounded>,
    pub unavailable: Vec<(&'static str, Refusal)>,
}

impl Request {
    /// Plans without starting anything.
    pub fn plans(&self, machine: &Machine, period: Duration) -> Plans {
        let slices = self.slices(period);
        let mut plans = Plans {
            ready: Vec::new(),
            bounded: Vec::new(),
            unavailable: Vec::new(),
        };
        for &resource in &self.resources {
            let beside = self.beside(resource.row().domain);
            let planned = match self.away_from_load(machine, resource) {
                Err(reason) => Err(reason),
                Ok(limits) => plan(machine, resource, beside, &limits, slices),
            };
            match planned {
                Ok(mut ready) => {
                    ready.config.gives_way = self.meets_the_load(&ready);
                    plans.ready.push((resource, ready));
                }
                Err(reason) => plans.unavailable.push((resource.id(), reason)),
            }
        }
        plans
    }

    /// CPUs that a source is to share a `domain` with: all that the target may be
    /// moved to where the domain is a core's own.
    fn beside(&self, domain: Domain) -> &[usize] {
        let reach = &self.cpu_choice.reach;
        match domain {
            Domain::LogicalCpu | Domain::PhysicalCore | Domain::L2Group if !reach.is_empty() => {
                reach
            }
            _ => &self.target_cpus,
        }
    }

    /// CPUs that requests are sent from.
    pub(super) fn generator(&self) -> &[usize] {
        let load = self.load.as_ref();
        load.map_or(&[], |load| &load.spec.placement.cpus)
    }

    /// The limits of a source of `resource`: one that presses with a CPU of its own
    /// all the time stays away from the load generator's, where it would press
    /// only while no request is sent.
    ///
    /// # Errors
    /// Where no CPU is left for it.
    fn away_from_load(
        &self,
        machine: &Machine,
        resource: Resource,
    ) -> std::result::Result<Cow<'_, Limits>, Refusal> {
        let (limits, generator) = (&self.limits, self.generator());
        let row = resource.row();
        let apart = matches!(
            row.domain,
            Domain::LlcGroup | Domain::NumaNode | Domain::Machine
        );
        let presses = apart && row.switch_cost == SwitchCost::None;
        let usual = || place(machine, resource, &self.target_cpus, &limits.cpus);
        let meets = |placement: Placement| placement.cpus.iter().any(|cpu| generator.contains(cpu));
        if !presses || generator.is_empty() || !usual().is_ok_and(meets) {
            return Ok(Cow::Borrowed(limits));
        }
        let mut limits = limits.clone();
        limits.cpus.retain(|cpu| !generator.contains(cpu));
        let found = place(machine, resource, &self.target_cpus, &limits.cpus)?;
        match found.mode {
            PlacementMode::SameCpu => Err(Refusal::NotShared(format!(
                "it takes a CPU beside the target's and the load generator's (CPU {}), and there \
                 is none",
                format_list(generator)
            ))),
            _ => Ok(Cow::Owned(limits)),
        }
    }

    /// Whether a source would keep the load generator from its CPU: a request
    /// that leaves late for that would read as one that was answered late.
    fn meets_the_load(&self, plan: &WorkerPlan) -> bool {
        let generator = self.generator();
        let mut cpus = plan.placement.cpus.iter();
        let meets = cpus.any(|cpu| generator.contains(cpu));
        meets && plan.config.slices.is_none()
    }

    /// How long the source and the target are on the CPU that they share in each
    /// `period`.
    pub(super) fn turns(&self, period: Duration) -> (Duration, Duration) {
        let slice = period.mul_f64(self.share);
        (slice, period - slice)
    }

    fn slices(&self, period: Duration) -> Slices {
        Slices::of(period, self.share)
    }

    /// Whether the target runs already and is to be spared from the beginning: then
    /// nothing is tried out beside it.
    pub fn spares_target(&self) -> bool {
        self.spec.is_attached() && self.settings.is_limited()
    }

    pub(super) fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.load(Relaxed) {
            true => Err(Error::Interrupted(" before anything was measured".into())),
            false => Ok(()),
        }
    }
}

/// A request together with everything that is decided once: the slices, and which
/// workers press where.
pub struct Plan<'a> {
    pub machine: &'a Machine,
    pub request: Request,
    /// `None` when no worker shares a CPU with the target.
    pub slices: Option<SliceChoice>,
    /// How the scheduler shares the CPU of the slices.
    pub scheduler: Option<SchedulerFacts>,
    pub workers: Plans,
    pub warnings: Vec<Warning>,
}

impl<'a> Plan<'a> {
    /// Plans; calibrates the slices where they are not known.
    ///
    /// # Errors
    /// An environment error when the slices cannot be calibrated.
    pub fn new(machine: &'a Machine, mut request: Request) -> Result<Plan<'a>> {
        let slices = choose_slice(machine, &request)?;
        let period = slices.map_or(slice::PERIODS[0], |choice| choice.period);
        let missed = slices.filter(|choice| !choice.within_tolerance);
        let missed = missed.map(|choice| Warning::SliceTolerance {
            tolerance_points: slice::TOLERANCE * 100.0,
            period_seconds: choice.period.as_secs_f64(),
            victim_percent: choice.victim_share * 100.0,
            expected_percent: (1.0 - request.share) * 100.0,
        });
        let mut workers = request.plans(machine, period);
        let online = machine.cpus.len();
        let limited = request.settings.is_limited();
        let ask = |cpu| match limited {
            true => turns::unmeasured(
                online,
                "it takes a source that never rests, which --floor and --max-intensity do not \
                 allow",
            ),
            false => turns::measure(cpu, online),
        };
        let own = slices.and(request.target_cpus.first()).copied();
        let scheduler = std::thread::scope(|scope| {
            // All CPUs have the same scheduler.
            let meanwhile = own.and(another_cpu(&request));
            let asking = meanwhile.map(|other| scope.spawn(move || ask(other)));
            settle(&mut workers, machine, &request, period);
            match asking {
                Some(asking) => Some(asking.join().expect("asking does not panic")),
                None => own.map(ask),
            }
        });
        let warnings = [machine_file(&mut request, &workers), missed];
        Ok(Plan {
            scheduler,
            workers,
            machine,
            request,
            slices,
            warnings: warnings.into_iter().flatten().collect(),
        })
    }

    /// As [`Request::turns`] with the period of this plan.
    pub(super) fn turns(&self) -> (Duration, Duration) {
        self.request.turns(self.period())
    }

    /// Entries of what needs no measuring, by resource.
    pub(super) fn bounded(&self) -> Vec<(&'static str, ResourceEntry)> {
        let scheduler = self.scheduler.as_ref();
        let turn = scheduler.and_then(|facts| Some(facts.turn_seconds.value()?.value));
        let bounded = self.workers.bounded.iter();
        let halves = self.request.settings.halves;
        bounded
            .map(|known| (known.resource.id(), known.entry(halves, turn)))
            .collect()
    }

    /// The slice period.
    pub fn period(&self) -> Duration {
        self.slices
            .map_or(slice::PERIODS[0], |choice| choice.period)
    }
}

/// A CPU on which something may be tried while the target's is looked at.
fn another_cpu(request: &Request) -> Option<usize> {
    let mut allowed = request.limits.cpus.iter();
    let free = |cpu: &&usize| {
        !request.target_cpus.contains(cpu)
            && !request.cpu_choice.reach.contains(cpu)
            && !request.generator().contains(cpu)
    };
    allowed.find(free).copied()
}

/// Finds out which of `workers` need no measuring.
fn settle(workers: &mut Plans, machine: &Machine, request: &Request, period: Duration) {
    if !request.any_resources || request.spares_target() {
        return;
    }
    workers.bounded = bounds::settle(
        &mut workers.ready,
        request.turns(period),
        1.0 - request.settings.qos,
        request.settings.halves,
        machine.hypervisor.is_some(),
    );
}

/// Removes from the calibration what does not hold for `workers`; what is to be said
/// about the machine file.
fn machine_file(request: &mut Request, workers: &Plans) -> Option<Warning> {
    let ignored = request.calibration_ignored.clone();
    let ignored = ignored.map(|reason| Warning::MachineFileIgnored { reason });
    let ready = workers.ready.iter();
    let wanted = ready.map(|(resource, plan)| (resource.id(), plan.settings()));
    ignored.or_else(|| remove_stale(request.calibration.as_mut(), wanted).map(Warning::from))
}

/// The slice period to use; `None` when no worker shares a CPU with the target.
fn choose_slice(machine: &Machine, request: &Request) -> Result<Option<SliceChoice>> {
    let trial = request.plans(machine, slice::PERIODS[0]);
    let mut plans = trial.ready.iter().map(|(_, plan)| plan);
    let sliced = plans.find(|plan| plan.config.slices.is_some());
    let Some(&cpu) = sliced.and_then(|plan| plan.placement.cpus.first()) else {
        return Ok(None);
    };
    if let Some(period) = request.slice_period {
        return Ok(Some(SliceChoice {
            period,
            victim_share: f64::NAN,
            within_tolerance: true,
        }));
    }
    let known = request.calibration.as_ref();
    if let Some(slices) = known.and_then(|known| known.slices(request.share)) {
        return Ok(Some(SliceChoice {
            period: Duration::from_secs_f64(slices.period_seconds),
            victim_share: slices.victim_percent / 100.0,
            within_tolerance: slices.within_tolerance,
        }));
    }
    if request.spares_target() {
        return Ok(Some(SliceChoice {
            period: SPARING_PERIOD,
            victim_share: f64::NAN,
            within_tolerance: true,
        }));
    }
    slice::calibrate(machine, cpu, request.share, &request.limits)
        .map(Some)
        .map_err(|reason| Error::environment(format!("calibrating the slices: {reason}")))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::experiment::settings::Halves;
    use crate::workload::CommandSpec;
    use jostle_host::inject::pattern;
    use jostle_host::machine::fake;
    use jostle_load::Drive;
    use jostle_load::LoadSpec;
    use jostle_load::Pace;

    /// For a command on `target_cpus` of `machine`, with everything else as
    /// usual.
    pub fn request(machine: &Machine, target_cpus: &[usize]) -> Request {
        Request {
            spec: TargetSpec::Command(CommandSpec::new(["x"])),
            name: None,
            labels: BTreeMap::new(),
            keep_command: true,
            resources: Resource::ALL.to_vec(),
            any_resources: true,
            target_cpus: target_cpus.to_vec(),
            cpu_choice: CpuChoice::asked("--cpus"),
            limits: Limits {
                cpus: machine.allowed_cpus.clone(),
                memory_bytes: 4 << 30,
                most_filled_bytes: None,
                memory_reserve_bytes: 1 << 30,
                scratch: Ok("/tmp".into()),
                scratch_bytes: 1 << 20,
                storage_pattern: pattern::load("sequential").unwrap(),
                llc_bytes: None,
                access: Default::default(),
                max_stall_percent: 80.0,
                network: None,
            },
            slice_period: None,
            share: 0.2,
            metric: None,
            metric_options: MetricOptions::default(),
            load: None,
            interrupt: Arc::default(),
            counters: None,
            calibration: None,
            calibration_ignored: None,
            hooks: Hooks::default(),
            settings: Settings::default(),
            past: None,
            checkpoint: None,
        }
    }

    fn cpus(plans: &Plans, id: &str) -> Vec<usize> {
        let found = plans.ready.iter().find(|(resource, _)| resource.id() == id);
        found.unwrap().1.placement.cpus.clone()
    }

    #[test]
    fn core_private_sources_follow_a_target_that_may_be_moved() {
        let machine = fake::cores(4, 1);
        let mut request = request(&machine, &[2]);
        let plans = request.plans(&machine, slice::PERIODS[0]);
        assert_eq!(cpus(&plans, "l1d"), [2]);
        request.cpu_choice.reach = vec![1, 2, 3];
        let plans = request.plans(&machine, slice::PERIODS[0]);
        for id in ["cpu-time", "l1d", "l2-capacity"] {
            assert_eq!(cpus(&plans, id), [1, 2, 3], "{id}");
        }
        assert_eq!(cpus(&plans, "memory-bandwidth"), [0, 1, 3]);
        // Not to where the load comes from.
        request.cpu_choice.leave(&[3]);
        let plans = request.plans(&machine, slice::PERIODS[0]);
        assert_eq!(cpus(&plans, "l1d"), [1, 2]);
    }

    #[test]
    fn only_what_shares_a_cpu_in_turns_needs_no_measuring() {
        let period = Duration::from_micros(500);
        // An SMT sibling shares units at every moment.
        let machine = fake::cores(2, 2);
        let request = request(&machine, &[0]);
        let mut ready = request.plans(&machine, period).ready;
        let all = ready.len();
        let turns = request.turns(period);
        assert_eq!(
            turns,
            (Duration::from_micros(100), Duration::from_micros(400))
        );
        let settled = bounds::settle(&mut ready, turns, 0.05, Halves::Both, false);
        assert_eq!((settled.len(), ready.len()), (0, all));
    }

    fn loaded(machine: &Machine, target: usize, generator: usize) -> Plans {
        let mut request = request(machine, &[target]);
        request.load = Some(load_from(generator));
        request.plans(machine, slice::PERIODS[0])
    }

    fn load_from(generator: usize) -> LoadPlan {
        let mut spec = LoadSpec::new("http://127.0.0.1:1/".parse().unwrap());
        spec.placement.cpus = vec![generator];
        LoadPlan {
            spec,
            drive: Drive::Pace(Pace::Closed),
        }
    }

    #[test]
    fn the_scheduler_is_asked_where_neither_the_target_nor_its_load_is() {
        let machine = fake::cores(4, 1);
        let mut request = request(&machine, &[0]);
        assert_eq!(another_cpu(&request), Some(1));
        request.load = Some(load_from(1));
        assert_eq!(another_cpu(&request), Some(2));
        request.cpu_choice.reach = vec![0, 2];
        assert_eq!(another_cpu(&request), Some(3));
        request.limits.cpus = vec![0, 1, 2];
        assert_eq!(another_cpu(&request), None);
    }

    #[test]
    fn sources_that_need_a_cpu_of_their_own_stay_away_from_the_load() {
        let four = loaded(&fake::cores(4, 1), 0, 2);
        assert_eq!(cpus(&four, "memory-bandwidth"), [1, 3]);
        assert_eq!(cpus(&four, "l1d"), [0]);
        let two = loaded(&fake::cores(2, 1), 0, 1);
        for id in ["memory-bandwidth", "llc-bandwidth", "llc-capacity"] {
            let found = two.unavailable.iter().find(|(resource, _)| *resource == id);
            let Some((_, Refusal::NotShared(reason))) = found else {
                panic!("{id}: {found:?}");
            };
            assert!(reason.contains("load generator's (CPU 1)"), "{reason}");
        }
        // What is held needs no CPU, and what takes turns has the target's.
        assert_eq!(cpus(&two, "memory-capacity"), [1]);
        assert_eq!(cpus(&two, "l2-capacity"), [0]);
    }
}
