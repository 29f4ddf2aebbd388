//! Everything that happens around a measurement on the real machine: plans,
//! calibration of the slices, workers, target; and taking it all down again.

use super::live::LiveExecutor;
use super::record;
use super::record::Circumstances;
use super::resume;
use super::resume::Keeper;
use super::run::Observer;
use super::run::Settings;
use super::run::go_on;
use super::sources::start_sources;
use crate::counters::CounterOptions;
use crate::counters::Counters;
use crate::error::Error;
use crate::error::Result;
use crate::inject::WorkerPlan;
use crate::inject::placement::Refusal;
use crate::inject::plan::Limits;
use crate::inject::plan::plan;
use crate::inject::slice;
use crate::inject::slice::SliceChoice;
use crate::inject::stall::StallGuard;
use crate::inject::worker::Slices;
use crate::machine::Machine;
use crate::machine::calibration::Calibration;
use crate::metric;
use crate::metric::Metric;
use crate::metric::MetricOptions;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::hooks::ActiveHooks;
use crate::workload::hooks::Hooks;
use jostle_load::Drive;
use jostle_load::LoadPlan;
use jostle_profile::Profile;
use jostle_profile::Workload;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

/// What to measure and within which limits.
pub struct Request {
    pub spec: TargetSpec,
    /// Name in the profile; the target's own when absent.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub resources: Vec<Resource>,
    /// CPUs of the target.
    pub target_cpus: Vec<usize>,
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
    pub unavailable: Vec<(&'static str, Refusal)>,
}

impl Request {
    /// Plans without starting anything.
    pub fn plans(&self, machine: &Machine, period: Duration) -> Plans {
        let slices = self.slices(period);
        let mut plans = Plans {
            ready: Vec::new(),
            unavailable: Vec::new(),
        };
        for &resource in &self.resources {
            match plan(machine, resource, &self.target_cpus, &self.limits, slices) {
                Ok(mut ready) => {
                    ready.config.gives_way = self.meets_the_load(&ready);
                    plans.ready.push((resource, ready));
                }
                Err(reason) => plans.unavailable.push((resource.id(), reason)),
            }
        }
        plans
    }

    /// Whether a source would keep the load generator from its CPU: a request
    /// that leaves late for that would read as one that was answered late.
    fn meets_the_load(&self, plan: &WorkerPlan) -> bool {
        let generator = self.load.as_ref();
        let generator = generator.map_or(&[][..], |load| &load.spec.placement.cpus);
        let meets = plan
            .placement
            .cpus
            .iter()
            .any(|cpu| generator.contains(cpu));
        meets && plan.config.slices.is_none()
    }

    fn slices(&self, period: Duration) -> Slices {
        Slices {
            period_ns: period.as_nanos() as u64,
            share: self.share,
        }
    }

    pub(super) fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.load(Relaxed) {
            true => Err(Error::Interrupted(" before anything was measured".into())),
            false => Ok(()),
        }
    }
}

/// Kept back from the budget for the final fit and for cleaning up.
const FINISH: Duration = Duration::from_millis(500);

/// Measures and returns the profile; everything started is gone then. `note`
/// is told what is being prepared.
///
/// # Errors
/// When the target cannot be started or read, or when no resource can be
/// pressed on. What goes wrong later ends up in the profile.
pub fn profile(
    machine: &Machine,
    mut request: Request,
    observer: &mut dyn Observer,
    note: &mut dyn FnMut(&str),
) -> Result<Profile> {
    let began = Instant::now();
    let started = SystemTime::now();
    let mut doubts = Vec::new();
    let asked = request.settings.budget;
    metric::check(&request.spec, request.metric.as_deref())?;
    if request.hooks.setup.is_none() {
        request.spec.check()?;
    } else {
        note("setting up");
    }
    let interrupt = request.interrupt.clone();
    let mut hooks = request.hooks.begin(request.spec.pid(), &interrupt)?;
    // The set-up may be what makes the program.
    request.spec.check()?;

    note("calibrating the slices");
    let choice = choose_slice(machine, &request, &mut doubts)?;
    let period = choice.map_or(slice::PERIODS[0], |choice| choice.period);

    note("starting the sources");
    let mut sources = start_sources(machine, &request, period)?;

    note(match &request.load {
        None => "starting the target",
        Some(plan) if matches!(plan.drive, Drive::ShareOfCapacity { .. }) => {
            "starting the target and searching its capacity"
        }
        Some(_) => "starting the target and its load",
    });
    request.check_interrupt()?;
    let (mut target, mut metric) = start_target(&request, &mut hooks)?;
    let mut facts = metric.facts();
    facts.window_rule = Some(metric.window_rule());
    facts.cost = Some(metric.cost());
    let command = match &request.spec {
        // What a reader can repeat, wherever this binary lies.
        TargetSpec::Demo { name, .. } => vec!["jostle".into(), "demo".into(), name.clone()],
        _ => target.command(),
    };
    resume::check_same(request.past.as_ref(), &command, &facts)?;
    let unstoppable = target.unstoppable();
    if let Some(reason) = &unstoppable {
        for subject in &mut sources.subjects {
            subject.stoppable = false;
        }
        doubts.push(format!("the target cannot be stopped: {reason}"));
    }
    if let Some(natural) = metric.natural_window() {
        for subject in &mut sources.subjects {
            subject.window = subject.window.max(natural);
        }
    }
    let mut around = Circumstances {
        workload: Workload {
            name: request
                .name
                .clone()
                .unwrap_or_else(|| target.name().to_string()),
            command,
            labels: request.labels.clone(),
            unknown: Default::default(),
        },
        machine: machine.facts(),
        metric: facts,
        target_cpus: request.target_cpus.clone(),
        slice_period_seconds: choice.map(|choice| choice.period.as_secs_f64()),
        slice_share_percent: choice.map(|_| request.share * 100.0),
        placements: sources.placements(),
        full_scales: sources.full_scales(),
        peaks_from: sources.peaks_from(request.calibration.as_ref()),
        reporters: request
            .calibration
            .as_ref()
            .map_or_else(BTreeMap::new, |known| known.reporters()),
        source_doubts: sources.doubts,
        bounds: sources.bounds,
        unavailable: sources.unavailable,
        doubts,
        profiler_cpu_percent: None,
        counters: Vec::new(),
        started,
        duration_seconds: 0.0,
        budget_seconds: asked.as_secs_f64(),
    };
    // The search for the capacity comes on top of the budget.
    let search = metric.load().and_then(|load| load.capacity.as_ref());
    let search = search.map_or(0.0, |found| found.search_seconds);
    let beyond = hooks.took() + Duration::from_secs_f64(search);
    request.settings.preparation = began.elapsed().saturating_sub(beyond) + FINISH;
    request.settings.budget = asked
        .saturating_sub(request.settings.preparation)
        .max(Duration::from_secs(1));

    let counters = request
        .counters
        .as_ref()
        .map(|options| Counters::open(&target.scope(), &request.target_cpus, options));
    let load_from = (Instant::now(), load_cpu_ns(metric.as_ref()));
    let subjects = sources.subjects;
    let mut executor = LiveExecutor::new(
        &subjects,
        sources.groups,
        &mut target,
        metric.as_mut(),
        request.interrupt.clone(),
        StallGuard::new(request.limits.max_stall_percent),
        counters,
    );
    let past = resume::relevant(request.past.as_ref(), &subjects);
    let mut keeper = Keeper {
        inner: observer,
        path: request.checkpoint.clone(),
        around: around.clone(),
        settings: request.settings,
        last: Instant::now(),
    };
    let mut measured = go_on(
        &mut executor,
        &subjects,
        &request.settings,
        &past,
        &mut keeper,
    );
    let own = executor.own_cpu_percent();
    around.counters = executor.counters();
    around.doubts.extend(executor.counter_notes());
    drop(executor);
    let load_ns = load_cpu_ns(metric.as_ref()) - load_from.1;
    let load_percent = load_ns as f64 / load_from.0.elapsed().as_nanos().max(1) as f64 * 100.0;
    around.profiler_cpu_percent = Some((own - load_percent).max(0.0));
    let load = metric.load().map(|load| (load.facts(), load.warnings()));
    around.doubts.extend(metric.doubts());
    if let Some(baseline) = &mut measured.baseline {
        let [low, high] = baseline.ci95.map(|end| metric.in_unit(end));
        baseline.value = metric.in_unit(baseline.value);
        baseline.ci95 = [low.min(high), low.max(high)];
    }
    // No requests to a target that is being ended.
    drop(metric);
    target.finish();
    drop(hooks);
    around.duration_seconds = began.elapsed().as_secs_f64();
    let (facts, warnings) = load.unzip();
    let warnings = warnings.into_iter().flatten();
    around
        .doubts
        .extend(warnings.map(|warning| warning.to_string()));
    let mut profile = record::profile(&measured, &request.settings, around);
    profile.metric.load = facts;
    if let Some(past) = &request.past {
        resume::join(&mut profile, past);
    }
    Ok(profile)
}

/// CPU time of the load generator so far, if there is one: not the profiler's.
fn load_cpu_ns(metric: &dyn Metric) -> u64 {
    metric.load().map_or(0, |load| load.cpu_ns())
}

fn start_target(request: &Request, hooks: &mut ActiveHooks) -> Result<(Target, Box<dyn Metric>)> {
    let start = metric::Start {
        metric: request.metric.as_deref(),
        options: request.metric_options.clone(),
        load: request.load.as_ref(),
        cpus: (!request.spec.is_attached()).then_some(&request.target_cpus),
        interrupt: request.interrupt.clone(),
    };
    metric::start_warm(&request.spec, start, |target| hooks.warm_up(target))
}

/// The slice period to use; `None` when no worker shares a CPU with the target.
fn choose_slice(
    machine: &Machine,
    request: &Request,
    doubts: &mut Vec<String>,
) -> Result<Option<SliceChoice>> {
    let trial = request.plans(machine, slice::PERIODS[0]);
    let sliced = |(_, plan): &&(Resource, WorkerPlan)| plan.config.slices.is_some();
    let Some((_, plan_of_one)) = trial.ready.iter().find(sliced) else {
        return Ok(None);
    };
    let Some(&cpu) = plan_of_one.placement.cpus.first() else {
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
        let choice = SliceChoice {
            period: Duration::from_secs_f64(slices.period_seconds),
            victim_share: slices.victim_percent / 100.0,
            within_tolerance: slices.within_tolerance,
        };
        doubts.extend(tolerance_doubt(&choice, request.share));
        return Ok(Some(choice));
    }
    // Any source that takes turns will do: the placebo is the same.
    let mut limits = request.limits.clone();
    limits.cpus = vec![cpu];
    let choice = slice::calibrate(cpu, request.share, |period| {
        plan(
            machine,
            Resource::L1d,
            &[cpu],
            &limits,
            request.slices(period),
        )
        .map_err(|refusal| refusal.to_string())
    })
    .map_err(|reason| Error::environment(format!("calibrating the slices: {reason}")))?;
    doubts.extend(tolerance_doubt(&choice, request.share));
    Ok(Some(choice))
}

fn tolerance_doubt(choice: &SliceChoice, share: f64) -> Option<String> {
    (!choice.within_tolerance).then(|| {
        format!(
            "no slice period kept the placebo within {:.0} points of its share: at {:.1} ms a \
             spinning thread kept {:.0} % of the CPU instead of {:.0} %",
            slice::TOLERANCE * 100.0,
            choice.period.as_secs_f64() * 1e3,
            choice.victim_share * 100.0,
            (1.0 - share) * 100.0
        )
    })
}
