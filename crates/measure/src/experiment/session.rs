//! A measurement from its request to its profile: hooks, sources, the target
//! and its metric are started in this order, and taken down again.

use super::bounds;
use super::checkpoint::Checkpointer;
use super::demos;
use super::departures;
use super::live::LiveExecutor;
use super::outcome::Measured;
use super::place;
use super::plan::Plan;
pub use super::plan::Request;
use super::record;
use super::record::RunMetadata;
use super::resume;
use super::run::go_on;
use super::settings::Halves;
use super::settings::Observer;
use super::settings::Settings;
use super::sources::Sources;
use super::sources::begin_sources;
use super::thread_watch;
use super::thread_watch::Planned;
use super::thread_watch::ThreadWatch;
use super::trial::Trial;
use crate::counters::Counters;
use crate::error::Error;
use crate::error::Result;
use crate::metric;
use crate::metric::Metric;
use crate::usage::Meter;
use crate::usage::Peaks;
use crate::warning::Warning;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::hooks::ActiveHooks;
use crate::workload::redact;
use jostle_host::inject::stall::StallGuard;
use jostle_host::inject::toll;
use jostle_host::machine::Machine;
use jostle_host::machine::block_device_of;
use jostle_host::machine::last_cache;
use jostle_host::machine::last_cache::LastCache;
use jostle_host::machine::private::PrivateCache;
use jostle_host::os;
use jostle_host::os::disks;
use jostle_host::sys::clock::rfc3339;
use jostle_load::Drive;
use jostle_load::Pace;
use jostle_profile::Conditions;
use jostle_profile::Estimate;
use jostle_profile::FORMAT;
use jostle_profile::LastLevelCache;
use jostle_profile::Profile;
use jostle_profile::Qos;
use jostle_profile::Workload;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

/// Measures and returns the profile; everything started is gone then.
///
/// # Errors
/// When the target cannot be started or read, or when no resource can be
/// stressed. What goes wrong later ends up in the profile.
pub fn profile(
    machine: &Machine,
    mut request: Request,
    observer: &mut dyn Observer,
) -> Result<Profile> {
    let began = Instant::now();
    let hooks = set_up(&request, observer)?;
    let avoided = place::serves_devices(&request.resources);
    if request.cpu_choice.trial {
        observer.preparing("watching the command's threads");
        let trial = Trial {
            machine,
            spec: &request.spec,
            workers: &request.limits.cpus,
            load: request.load.as_ref(),
            avoided,
            interrupt: &request.interrupt,
        };
        let found = trial.run()?;
        request.target_cpus = found.cpus;
        request.cpu_choice = found.choice;
    } else {
        let (cpus, choice) = (&mut request.target_cpus, &mut request.cpu_choice);
        place::look(machine, avoided, cpus, choice);
    }
    place::stay_away(machine, &request.target_cpus);
    let mut looks = look_at_last_cache(machine, &request);
    observer.preparing("calibrating the slices");
    let plan = Plan::new(machine, request)?;
    for warning in &plan.warnings {
        if let Warning::MachineFilePartIgnored { .. } = warning {
            observer.warn(&warning.to_string());
        }
    }
    observer.plan(&departures::lines(machine, &plan.request, &plan.workers));
    let prepared = Prepared::start(&plan, hooks, began, observer)?;
    let (measured, mut metadata) = prepared.measure(observer)?;
    if let Some(cache) = &mut looks
        && measured.partial.is_none()
    {
        cache.look();
    }
    let found = looks.and_then(|cache| cache.found());
    metadata.warnings.extend(found.and_then(used_by_others));
    metadata.profile.conditions.last_level_cache = found;
    let mut profile = record::profile(&measured, metadata);
    thread_watch::discount(&mut profile);
    resume::join(&mut profile, plan.request.past.as_ref());
    Ok(profile)
}

/// What others have of the target's last-level cache, looked at once; `None` where no source
/// is to use that cache or may use only a part of it, and where the target runs already and
/// has a part of it itself.
fn look_at_last_cache(machine: &Machine, request: &Request) -> Option<LastCache> {
    let cpu = request.target_cpus.first()?;
    let calibration = request.calibration.as_ref();
    let evicts = |resource: &Resource| resource.evicts_from_last_level();
    let looked = machine.hypervisor.is_some()
        && request.resources.iter().any(evicts)
        && !request.settings.is_limited()
        && !request.spec.is_attached();
    let mut cache = looked
        .then(|| LastCache::of(machine, *cpu, calibration, request.limits.memory_bytes))??;
    cache.look();
    Some(cache)
}

fn used_by_others(cache: LastLevelCache) -> Option<Warning> {
    if let Some(kept_percent) = cache
        .kept_percent
        .filter(|_| last_cache::is_replaced(&cache))
    {
        return Some(Warning::LastCacheReplaced { kept_percent });
    }
    let free_ns = cache.free_ns.filter(|_| last_cache::is_held(&cache))?;
    Some(Warning::LastCacheHeld {
        access_ns: cache.access_ns,
        free_ns,
    })
}

/// Longest window that is played as a block of a sequence.
const LONGEST_PLAYED: Duration = Duration::from_millis(150);
/// The same of a whole run of the command, in parts of the budget: fewer runs are not
/// enough for all sources.
const RUNS_OF_BUDGET: u32 = 100;
/// Kept back from the budget for the final fit and for cleaning up.
const FINISH: Duration = Duration::from_millis(500);

/// Checks the request and sets up; dropping the result tears down.
fn set_up(request: &Request, observer: &mut dyn Observer) -> Result<ActiveHooks> {
    metric::check(&request.spec, request.metric.as_deref())?;
    match request.hooks.setup {
        None => request.spec.check()?,
        Some(_) => observer.preparing("setting up"),
    }
    let hooks = request
        .hooks
        .begin(request.spec.pid(), &request.interrupt)?;
    // The set-up may be what makes the program.
    request.spec.check()?;
    Ok(hooks)
}

/// Everything is running; fields end in this order.
struct Prepared<'a> {
    metric: Box<dyn Metric>,
    target: Target,
    sources: Sources,
    hooks: ActiveHooks,
    plan: &'a Plan<'a>,
    settings: Settings,
    metadata: RunMetadata,
    began: Instant,
}

impl<'a> Prepared<'a> {
    /// Starts the sources, the target and its metric.
    ///
    /// # Errors
    /// When the target cannot be started or read, or when no resource can be
    /// stressed.
    fn start(
        plan: &'a Plan<'a>,
        mut hooks: ActiveHooks,
        began: Instant,
        observer: &mut dyn Observer,
    ) -> Result<Prepared<'a>> {
        let request = &plan.request;
        observer.preparing("starting the sources");
        let mut starting = begin_sources(plan)?;
        let starting_target = match &request.load {
            None => "starting the target",
            Some(load) if matches!(load.drive, Drive::ShareOfCapacity { .. }) => {
                "starting the target and searching its capacity"
            }
            Some(_) => "starting the target and its load",
        };
        // What runs by itself does so anyway, no load is to wait for a target, and one
        // that may not fall below a limit is not held.
        let beside =
            !request.spec.is_attached() && request.load.is_none() && !request.settings.is_limited();
        let (mut sources, target, metric) = if beside {
            observer.preparing(starting_target);
            let (mut target, metric) = start_target(request, &mut hooks)?;
            observer.preparing("checking the sources");
            starting.wait();
            // It may end in this moment; then nothing runs anyway.
            let held = target.stop().is_ok();
            let sources = starting.finish()?;
            if held {
                target.cont()?;
            }
            (sources, target, metric)
        } else {
            let sources = starting.finish()?;
            observer.preparing(starting_target);
            request.check_interrupt()?;
            let (target, metric) = start_target(request, &mut hooks)?;
            (sources, target, metric)
        };
        let mut metadata = metadata(plan, &target, metric.as_ref(), &sources, began);
        resume::check_same(request.past.as_ref(), &metadata.profile)?;
        if let Some(floor) = request.settings.floor {
            floor.check(&metric.facts()).map_err(Error::request)?;
        }
        let kept = request.settings.floor.map(|floor| {
            format!("it would fall below --floor {floor}, so what it causes is not measured")
        });
        if let Some(reason) = target.unstoppable().or(kept) {
            for subject in &mut sources.subjects {
                subject.stoppable = false;
            }
            metadata
                .warnings
                .push(Warning::TargetNotStoppable { reason });
        }
        for subject in &mut sources.subjects {
            let natural = metric.natural_window().unwrap_or_default();
            subject.window = subject.window.max(natural);
            let Some(sequence) = &mut subject.sequence else {
                continue;
            };
            let window = subject.settle + subject.window;
            let turns = metric.turns().is_some();
            let whole_runs = metric.one_run_per_window();
            let (window, longest) = match whole_runs {
                true => (
                    subject.settle + natural,
                    request.settings.budget / RUNS_OF_BUDGET,
                ),
                false => (window, LONGEST_PLAYED),
            };
            if !turns && window > longest || whole_runs && natural.is_zero() {
                // Too few for whole curves.
                subject.sequence = None;
            } else if !turns {
                *sequence = sequence.in_windows(window);
            }
        }
        // The search for the capacity comes on top of the budget.
        let search = metric.load().and_then(|load| load.capacity.as_ref());
        let search = search.map_or(0.0, |found| found.search_seconds);
        let beyond = hooks.took() + Duration::from_secs_f64(search);
        let preparation = began.elapsed().saturating_sub(beyond) + FINISH;
        let budget = request.settings.budget.saturating_sub(preparation);
        Ok(Prepared {
            metric,
            target,
            sources,
            hooks,
            plan,
            settings: Settings {
                preparation,
                halves: match request.settings.floor {
                    Some(_) => Halves::Tolerated,
                    None => request.settings.halves,
                },
                budget: budget.max(Duration::from_secs(1)),
                turn: turn(plan),
                ..request.settings
            },
            metadata,
            began,
        })
    }

    /// Measures, and takes everything down.
    ///
    /// # Errors
    /// When the floor cannot be watched.
    fn measure(mut self, observer: &mut dyn Observer) -> Result<(Measured, RunMetadata)> {
        let request = &self.plan.request;
        let metric = self.metric.as_mut();
        let metadata = &mut self.metadata;
        let counters = request.counters.as_ref();
        let counters = counters
            .map(|options| Counters::open(&self.target.scope(), &request.target_cpus, options));
        let threads = ThreadWatch::begin(&self.target);
        // What ends meanwhile we have waited for.
        let waited_for = self.target.is_ours() && metric.restarts();
        let meter = Meter::new(os::here(), &self.target.scope(), waited_for);
        let load_from = (Instant::now(), load_cpu_ns(metric));
        let subjects = self.sources.subjects;
        let mut executor = LiveExecutor::new(
            &subjects,
            self.sources.groups,
            &mut self.target,
            metric,
            request.interrupt.clone(),
            StallGuard::new(request.limits.max_stall_percent),
            counters,
        );
        executor.watch_use(meter);
        if self.plan.machine.hypervisor.is_some() {
            executor.watch_nearness();
            let on_core = subjects.iter().any(|subject| {
                subject.resource == Resource::L2Capacity.id()
                    && subject.sequence.is_some_and(|sequence| sequence.slices)
            });
            let cpu = request.target_cpus.first().filter(|_| on_core);
            let cache = cpu.and_then(|cpu| PrivateCache::of(self.plan.machine, *cpu));
            executor.watch_private_cache(cache);
        }
        executor.keep_below(self.settings.max_intensity);
        if let Some(floor) = self.settings.floor {
            executor.keep_above(floor).map_err(Error::environment)?;
        }
        let past = resume::relevant(request.past.as_ref(), &subjects);
        let path = request.checkpoint.clone();
        let mut observer = Checkpointer::new(observer, path, metadata.clone());
        let mut measured = go_on(
            &mut executor,
            &subjects,
            &self.settings,
            &past,
            &mut observer,
        );
        let own = executor.own_cpu_percent();
        metadata.used = executor.usage();
        metadata.counters = executor.counters();
        metadata.warnings.extend(executor.warnings());
        metadata.profile.conditions.floor = executor.floor();
        drop(executor);
        metadata.warnings.extend(threads.end(&Planned {
            cpus: &request.target_cpus,
            choice: &request.cpu_choice,
            allowed: self.plan.machine.allowed_cpus.len(),
            spec: &request.spec,
            restarted: metric.restarts(),
        }));
        let load_ns = load_cpu_ns(metric) - load_from.1;
        let load_percent = load_ns as f64 / load_from.0.elapsed().as_nanos().max(1) as f64 * 100.0;
        metadata.profile.conditions.profiler_cpu_percent = Some((own - load_percent).max(0.0));
        metadata.warnings.extend(metric.warnings());
        // It has seen whole runs by now.
        metadata.profile.metric.chosen_because = metric.facts().chosen_because;
        if let Some(load) = metric.load() {
            metadata.profile.metric.load = Some(load.facts());
            let warnings = load.warnings().into_iter();
            metadata.warnings.extend(warnings.map(Warning::Load));
        }
        if let Some(baseline) = &mut measured.baseline {
            let [low, high] = baseline.ci95.map(|end| metric.in_unit(end));
            baseline.value = metric.in_unit(baseline.value);
            baseline.ci95 = [low.min(high), low.max(high)];
        }
        // No requests to a target that is being ended.
        drop(self.metric);
        let over = self.target.is_ours() && measured.partial.is_none();
        self.target.finish();
        drop(self.hooks);
        if over {
            self.metadata.toll = toll_of(self.plan, &measured);
        }
        self.metadata.profile.conditions.duration_seconds = self.began.elapsed().as_secs_f64();
        Ok((measured, self.metadata))
    }
}

/// Loss of a spinning thread to the source of `l2-capacity`, measured on the CPU of the
/// target, which has ended; `None` if it cannot change the verdict or cannot be measured.
fn toll_of(plan: &Plan, measured: &Measured) -> Option<Estimate> {
    let mut outcomes = measured.subjects.iter();
    let outcome = outcomes.find(|outcome| outcome.resource == Resource::L2Capacity.id())?;
    let doubtful = bounds::may_be_the_switch(&outcome.entry, plan.request.settings.qos);
    let mut ready = plan.workers.ready.iter();
    let (_, workers) = ready.find(|(resource, _)| *resource == Resource::L2Capacity)?;
    let found = doubtful.then(|| toll::measure(workers))?;
    found.ok().flatten()
}

/// The turns in which the cost of switches is measured.
fn turn(plan: &Plan) -> Option<Duration> {
    if plan.request.settings.is_limited() {
        return None;
    }
    let scheduler = plan.scheduler.as_ref()?;
    let turn = scheduler.turn_seconds.value()?.value;
    Some(Duration::from_secs_f64(turn))
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

/// What is known of a measurement before it begins.
fn metadata(
    plan: &Plan,
    target: &Target,
    metric: &dyn Metric,
    sources: &Sources,
    began: Instant,
) -> RunMetadata {
    let request = &plan.request;
    let calibration = request.calibration.as_ref();
    let mut facts = metric.facts();
    facts.name = redact::text(&facts.name);
    facts.window_rule = Some(metric.window_rule());
    facts.resolution = Some(metric.resolution());
    facts.cost = Some(metric.cost());
    let settings = &request.settings;
    let profile = Profile {
        format: FORMAT.to_string(),
        partial: false,
        workload: Workload {
            name: request
                .name
                .clone()
                .unwrap_or_else(|| target.name().to_string()),
            command: match &request.spec {
                _ if !request.keep_command => Vec::new(),
                TargetSpec::Demo { name, options } => demos::command(name, options),
                _ => target.command(),
            },
            labels: request.labels.clone(),
            unknown: Default::default(),
        },
        machine: plan.machine.facts(),
        metric: facts,
        qos: Qos {
            threshold: settings.qos,
        },
        conditions: Conditions {
            recorded_at: rfc3339(SystemTime::now() - began.elapsed()),
            duration_seconds: 0.0,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            seed: settings.seed,
            budget_seconds: settings.budget.as_secs_f64(),
            quick: settings.quick,
            noise_percent: None,
            steal_percent: Reading::unavailable("no window was measured"),
            windows_dropped: 0,
            windows_kept: 0,
            smallest_detectable_percent: None,
            max_intensity_percent: (settings.max_intensity < 100.0)
                .then_some(settings.max_intensity),
            floor: None,
            slice_period_seconds: plan.slices.map(|choice| choice.period.as_secs_f64()),
            slice_share_percent: plan.slices.map(|_| request.share * 100.0),
            scheduler: plan.scheduler.clone(),
            peaks_from: sources.peaks_from(calibration),
            target_cpus: request.target_cpus.clone(),
            target_cpus_because: Some(request.cpu_choice.because.clone()),
            profiler_cpu_percent: None,
            counters: Default::default(),
            phases: Vec::new(),
            unseen_neighbours: Vec::new(),
            cache_sharing: Vec::new(),
            private_cache: None,
            last_level_cache: None,
            doubts: Vec::new(),
            warnings: Vec::new(),
            unknown: Default::default(),
        },
        resources: Default::default(),
        together: Vec::new(),
        usage: None,
        scaling: None,
        merged: None,
        readings: None,
        unknown: Default::default(),
    };
    let max_percent = settings.max_intensity;
    let limited = (max_percent < 100.0).then_some(Warning::IntensityLimited { max_percent });
    RunMetadata {
        toll: None,
        profile,
        sources: sources.facts.clone(),
        reporters: calibration.map_or_else(Default::default, |known| known.reporters()),
        generator: request.generator().to_vec(),
        generator_waits: request
            .load
            .as_ref()
            .is_some_and(|load| matches!(load.drive, Drive::Pace(Pace::Closed))),
        counters: Vec::new(),
        used: None,
        peaks: peaks(plan),
        unavailable: sources.unavailable.clone(),
        bounded: plan.bounded(),
        warnings: plan.warnings.iter().cloned().chain(limited).collect(),
    }
}

/// What shares of use refer to, as far as it is known before anything was
/// measured.
fn peaks(plan: &Plan) -> Peaks {
    let request = &plan.request;
    let calibration = request.calibration.as_ref();
    let peaks = calibration.into_iter().flat_map(|known| {
        let from = format!("machine file of {}", known.recorded_at);
        let peaks = known.resources.iter().filter_map(move |(id, source)| {
            let peak = source.alone.value()?.peak.pressure;
            Some((id.clone(), (peak, from.clone())))
        });
        peaks.collect::<Vec<_>>()
    });
    let directory = request.limits.scratch.clone();
    let disk = directory.and_then(|directory| match block_device_of(&directory) {
        Reading::Value(device) => Ok(disks::stack(os::here(), &device.name)),
        Reading::Unavailable { unavailable } => Err(unavailable),
    });
    Peaks {
        cpus: request.target_cpus.len(),
        memory_bytes: plan.machine.memory.total_bytes,
        sources: peaks.collect(),
        probes: Default::default(),
        disk,
    }
}
