//! `progress:uprobe:…` and `progress:tracepoint:…`: how often something happens
//! in the target per second of wall time. Needs no PMU.

use super::Context;
use super::Metric;
use super::Moments;
use super::Run;
use super::TurnSource;
use super::auto;
use super::auto::Call;
use super::auto::Found;
use super::begun;
use super::binary::Binary;
use super::counted::Counted;
use super::counted::Counters;
use super::error::Reason;
use super::facts;
use super::pace;
use super::pace::Pace;
use super::per_run::PerRun;
use super::symbols;
use super::tracepoint;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::Target;
use jostle_host::os::here;
use jostle_host::os::proc;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::handover;
use jostle_host::sys::handover::Layout;
use jostle_host::sys::handover::Readable;
use jostle_host::sys::probe;
use jostle_host::sys::probe::Event;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

pub(super) struct Events {
    /// As it was asked for.
    name: String,
    /// `call of f in /bin/x`, `event sched:sched_switch`.
    what: String,
    context: Context,
    counters: Counters,
    /// The leader counted; a restarted command has another.
    pid: i32,
    /// CPUs that the target may run on, where that is known.
    cpus: Vec<usize>,
    /// Changes with the open counters.
    version: u64,
    pace: Pace,
    gap: Option<Duration>,
    /// What counting one costs the target, or why that is not known.
    each: Result<Duration, Reason>,
    start: Option<(u64, u64)>,
    windows: u64,
    /// Windows in which threads were started that were not counted at once.
    windows_with_new: u64,
    /// Whether a command that has ended is started again.
    restarts: bool,
    per_run: PerRun,
    run: Option<Run>,
    /// What a worker read when the last run had ended.
    base: Option<u64>,
    /// See [`Metric::whole_runs`].
    whole_runs: Vec<Vec<f64>>,
    /// Processes of the target so far, and others that passed what is counted.
    own: BTreeSet<i32>,
    others: BTreeMap<i32, String>,
}

impl Events {
    /// Counts calls of a function that was found automatically.
    ///
    /// # Errors
    /// Those of the target. The inner one says why it does not serve after all.
    pub(super) fn found(
        found: &Found,
        context: &Context,
        target: &mut Target,
    ) -> Result<Result<Events, Reason>> {
        let events: Vec<Event> = found.calls.iter().map(Call::event).collect();
        let all =
            |what: fn(&Call) -> String| -> Vec<String> { found.calls.iter().map(what).collect() };
        let counters =
            match Counters::open_in(target, events, context.options.moments, found.alone)? {
                Ok(counters) => counters,
                Err(reason) => return Ok(Err(reason)),
            };
        counters.open_early(target);
        let mut metric = Events {
            name: format!("progress:uprobe:{}", all(Call::name).join(",")),
            what: format!("call of {}", all(Call::words).join(" or ")),
            context: context.clone(),
            counters,
            pid: target.pid(),
            cpus: target.cpus().unwrap_or_default(),
            version: handover::version(),
            pace: Pace::default(),
            gap: Duration::try_from_secs_f64(found.gap).ok(),
            each: Ok(found.each),
            start: None,
            windows: 0,
            windows_with_new: 0,
            restarts: target.is_ours(),
            per_run: PerRun::default(),
            run: None,
            base: None,
            whole_runs: found.whole_runs.clone(),
            own: BTreeSet::new(),
            others: BTreeMap::new(),
        };
        let noise = format!("with a noise of {:.0} % in 4 ms", found.noise * 100.0);
        let how = match (found.repeated, found.whole_runs.first()) {
            (Some(_), Some(calls)) => {
                format!("in bursts, but {} times in every run, {noise}", calls.len())
            }
            _ => noise,
        };
        metric.is_chosen(found, &how);
        if !metric.whole_runs.is_empty() {
            // Where the run under way has got to is not known.
            target.restart_after(|| metric.before_restart())?;
            metric.follow_run(target)?;
        }
        Ok(Ok(metric))
    }

    /// Says why it was chosen; `how` it is called.
    fn is_chosen(&mut self, found: &Found, how: &str) {
        let per_second = found.look.per_second;
        (self.windows, self.windows_with_new) = (0, 0);
        self.pace.per_second = per_second;
        let symbols: Vec<&str> = found.calls.iter().map(|call| &call.symbol[..]).collect();
        let several = symbols.len() > 1;
        self.context.because = format!(
            "{}: of {} functions tried, {} {} called {per_second:.0} times per second{}, {how}, at a cost of {:.2} % of a CPU",
            self.context.because,
            found.tried,
            symbols.join(" and "),
            if several { "are" } else { "is" },
            if several { " together" } else { "" },
            per_second * found.each.as_secs_f64() * 100.0
        );
    }

    /// Counts calls of one function or several; `request` is
    /// `BINARY:SYMBOL[,BINARY:SYMBOL…]`.
    pub(super) fn uprobe(request: &str, context: Context, target: &mut Target) -> Result<Events> {
        let name = format!("progress:uprobe:{request}");
        let wrong = |reason: Reason| reason.wrong(&name);
        let (mut calls, mut dearest) = (Vec::new(), Ok(Duration::ZERO));
        for part in request.split(',') {
            let (binary, symbol) =
                Binary::split(part).ok_or_else(|| wrong(Reason::UprobeSyntax))?;
            let file = resolve(&binary, &context, target)?.map_err(wrong)?;
            let function = symbols::find(&file, symbol).map_err(wrong)?;
            if function.unproven {
                let executes = auto::executes((&file, function.offset), target, &context)?;
                if !executes.map_err(wrong)? {
                    return Err(wrong(Reason::NotExecuted(function.symbol)));
                }
            }
            let each = probe::uprobe_cost(&function.code).map_err(Reason::Probe);
            dearest = match (dearest, each) {
                (Ok(known), Ok(each)) => Ok(Duration::max(known, each)),
                (Err(reason), _) | (_, Err(reason)) => Err(reason),
            };
            calls.push(Call {
                file,
                symbol: symbol.to_string(),
                offset: function.offset,
            });
        }
        let all = |what: fn(&Call) -> String| -> Vec<String> { calls.iter().map(what).collect() };
        let what = format!("call of {}", all(Call::words).join(" or "));
        let nothing = format!(
            "is the target under load, does it run {}, and is {} compiled as a function of its own (not inlined)?",
            all(|call| call.file.display().to_string()).join(" and "),
            all(|call| call.symbol.clone()).join(" or "),
        );
        let events = calls.iter().map(Call::event).collect();
        Events::open((name, what), events, dearest, &nothing, context, target)
    }

    /// Counts a tracepoint; `request` is `CATEGORY:NAME`.
    pub(super) fn tracepoint(
        request: &str,
        context: Context,
        target: &mut Target,
    ) -> Result<Events> {
        let id = tracepoint::id(request)?;
        let names = (
            format!("{}{request}", tracepoint::PREFIX),
            format!("event {request}"),
        );
        let nothing = format!("the target never passed {request}; name an event of what it does");
        let event = Event::Tracepoint { id };
        let cost = tracepoint::cost();
        Events::open(names, vec![event], cost, &nothing, context, target)
    }

    /// Learns its pace too; `nothing` is said where it never happens.
    fn open(
        (name, what): (String, String),
        events: Vec<Event>,
        each: Result<Duration, Reason>,
        nothing: &str,
        context: Context,
        target: &mut Target,
    ) -> Result<Events> {
        let counters = Counters::open_in(target, events, context.options.moments, false)?;
        let counters = counters.map_err(|reason| refused(&name, reason, target))?;
        counters.open_early(target);
        let mut metric = Events {
            name,
            what,
            context: context.clone(),
            counters,
            pid: target.pid(),
            cpus: target.cpus().unwrap_or_default(),
            version: handover::version(),
            pace: Pace::default(),
            gap: None,
            each,
            start: None,
            windows: 0,
            windows_with_new: 0,
            restarts: target.is_ours(),
            per_run: PerRun::default(),
            run: None,
            base: None,
            whole_runs: Vec::new(),
            own: BTreeSet::new(),
            others: BTreeMap::new(),
        };
        metric.pace = pace::watch(target, &context, |target| {
            metric.keep_alive(target)?;
            metric.follow_run(target)?;
            metric.look(target)?;
            Ok(metric.total()? as f64)
        })?;
        match metric.pace.per_second <= 0.0 {
            false => Ok(metric),
            true => Err(Error::request(format!(
                "--metric {}: no {} within {} s: {nothing}",
                metric.name,
                metric.what,
                context.options.trial.as_secs_f64(),
            ))),
        }
    }

    /// Counts another run of a command that was started again.
    fn follow_run(&mut self, target: &mut Target) -> Result<()> {
        if target.pid() == self.pid {
            return Ok(());
        }
        self.pid = target.pid();
        let was_logged = self.counters.is_logged();
        if self.counters.counted == Counted::InThreads {
            self.version = handover::version();
            let old = std::mem::take(&mut self.counters.open);
            self.counters.retire(old);
            // Opening takes up to 20 ms, in which calls would be missed.
            let early = self.counters.is_opened_early(self.pid);
            let held = self.restarts && !early && target.stop().is_ok();
            let looked = self.look(target);
            if held {
                target.cont()?;
            }
            looked?;
        }
        let number = target.ended_runs() as u32;
        self.run = self.base.take().map(|base| Run { number, base });
        let total = self.total()?;
        self.per_run.next(target.ended_runs(), total);
        self.after_log(was_logged);
        Ok(())
    }

    /// The target runs, if need be again.
    fn keep_alive(&mut self, target: &mut Target) -> Result<()> {
        match self.restarts {
            true => {
                if target.wait(Duration::ZERO).is_some() {
                    self.before_restart();
                }
                target.keep_running()
            }
            false => target.check_alive(),
        }
    }

    /// Looks whether somebody else passes what only the target was seen to pass.
    fn look_for_others(&mut self, target: &Target) {
        if self.counters.counted != Counted::Beside {
            return;
        }
        let known = |pid: &i32| self.own.contains(pid) || self.others.contains_key(pid);
        if self.counters.callers().all(|pid| known(&pid)) {
            return;
        }
        self.own.extend(target.scope().processes());
        for pid in self.counters.callers() {
            let command = proc::command_line(here(), pid);
            // What has ended may have been one that the target started.
            if !self.own.contains(&pid)
                && let Some(program) = command.first()
            {
                self.others.insert(pid, program.clone());
            }
        }
    }

    fn look(&mut self, target: &mut Target) -> Result<usize> {
        self.look_for_others(target);
        let before = self.counters.open.len();
        let looked = self.counters.look(&target.scope());
        let new = looked.map_err(|reason| refused(&self.name, reason, target))?;
        // A thread may have come for one that went.
        if new > 0 || self.counters.open.len() != before {
            self.version = handover::version();
            self.run = None;
        }
        Ok(new)
    }

    /// What a worker would read now.
    fn readable_total(&mut self) -> Option<u64> {
        let in_threads = self.counters.counted == Counted::InThreads;
        let mut total = Some(0);
        for (place, counter) in &mut self.counters.open {
            if in_threads || may_run(&self.cpus, *place) {
                let more = counter.read().ok();
                total = total.zip(more).map(|(sum, more)| sum + more);
            }
        }
        total
    }

    /// After the log may have ended, which `was` there before.
    fn after_log(&mut self, was: bool) {
        if was && !self.counters.is_logged() {
            self.version = handover::version();
            self.run = None;
        }
    }

    fn total(&mut self) -> Result<u64> {
        let total = self.counters.total();
        total.map_err(|error| Reason::Reading(error).failed(&self.name))
    }
}

/// Longest wait for a program that was just started to load its libraries.
const LOADING: Duration = Duration::from_secs(2);

/// The file of `binary`, or why there is none.
fn resolve(
    binary: &Binary,
    context: &Context,
    target: &mut Target,
) -> Result<Result<PathBuf, Reason>> {
    let deadline = Instant::now() + LOADING.min(context.options.trial);
    loop {
        let found = binary.resolve(&target.scope());
        let may_come = matches!(binary, Binary::Library(_)) && target.is_ours();
        if found.is_ok() || !may_come || Instant::now() >= deadline {
            return Ok(found);
        }
        target.keep_running()?;
        context.check_interrupt()?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a target that may run on `cpus` (anywhere if there are none) is counted by
/// a counter of `cpu`.
fn may_run(cpus: &[usize], cpu: i32) -> bool {
    cpus.is_empty() || cpus.contains(&(cpu as usize))
}

/// Counting failed: the target ended, or the environment does not allow it.
fn refused(name: &str, reason: Reason, target: &mut Target) -> Error {
    match target.check_alive() {
        Err(gone) => gone,
        Ok(()) => reason.failed(name),
    }
}

impl Metric for Events {
    fn facts(&self) -> MetricFacts {
        let unit = match self.counters.events[0] {
            Event::Uprobe { .. } => "calls per second",
            Event::Tracepoint { .. } => "events per second",
        };
        let runs = self.per_run.words().unwrap_or_default();
        let because = format!("{}{runs}", self.context.because);
        facts(&self.name, unit, Direction::Higher, &because)
    }

    fn natural_window(&self) -> Option<Duration> {
        self.pace.window()
    }

    fn window_rule(&self) -> String {
        let new = match (self.counters.counted, self.counters.misses_new_threads()) {
            (_, true) => {
                "; threads that the target starts within a window count from the next one on"
            }
            (Counted::Everywhere, _) => "; on every CPU, since no other process runs this file",
            (Counted::Beside, _) => {
                "; on the CPUs of the target, since no other process was seen to pass it there"
            }
            _ => "",
        };
        format!(
            "{} per second of wall time, at least {} in a window{new}",
            self.what,
            pace::ENOUGH
        )
    }

    fn resolution(&self) -> Resolution {
        Resolution::Turn
    }

    fn cost(&self) -> String {
        let each = match &self.each {
            Ok(each) => {
                let share = each.as_secs_f64() * self.pace.per_second * 100.0;
                format!(
                    "about {:.2} µs per {}, as measured here on a like one of jostle's own: {share:.1} % of one CPU at the {:.0} per second seen at the start",
                    each.as_secs_f64() * 1e6,
                    self.what,
                    self.pace.per_second
                )
            }
            Err(reason) => format!(
                "not measured ({reason}); {:.0} per second were seen at the start",
                self.pace.per_second
            ),
        };
        format!(
            "{each}; one read of {} counters at each end of a window",
            self.counters.open.len()
        )
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.windows_with_new > 0 {
            warnings.push(Warning::ThreadsNotCounted {
                windows: self.windows,
                windows_with_new: self.windows_with_new,
                counted: self.what.to_string(),
            });
        }
        if !self.others.is_empty() {
            let others = self.others.iter();
            let others = others.map(|(pid, name)| format!("{pid} ({name})"));
            warnings.push(Warning::OthersCounted {
                processes: others.collect::<Vec<String>>().join(", "),
                counted: self.what.to_string(),
            });
        }
        warnings
    }

    fn before_restart(&mut self) {
        // Threads are counted anew from their begin.
        if self.counters.is_logged() {
            self.base = self.counters.logged();
            return;
        }
        self.base = match self.counters.counted {
            Counted::InThreads => Some(0),
            Counted::Everywhere | Counted::Beside | Counted::InCgroup => self.readable_total(),
        };
    }

    fn run(&self) -> Option<Run> {
        self.run
    }

    fn turns(&self) -> Option<TurnSource<'_>> {
        // Reading what is counted on another CPU interrupts that CPU: 9 µs
        // instead of 0.8 in a 2-vCPU VM.
        let in_threads = self.counters.counted == Counted::InThreads;
        let read = self.counters.open.iter();
        let read = read.filter(|(place, _)| in_threads || may_run(&self.cpus, *place));
        let descriptors: Vec<BorrowedFd> = read.map(|(_, open)| open.descriptor()).collect();
        (descriptors.len() <= handover::MOST).then_some(TurnSource {
            readable: Readable {
                layout: Layout::Counter {
                    words: 3,
                    count: 0,
                    time: None,
                },
                descriptors,
            },
            version: self.version,
            by_cpu_time: false,
            logged: self.counters.is_logged(),
        })
    }

    fn forget_moments(&mut self) {
        if self.counters.forget_log() {
            // How far the run under way has come is not known any more.
            (self.run, self.base) = (None, None);
        }
    }

    fn moments(&mut self) -> Option<Moments> {
        let was = self.counters.is_logged();
        let moments = self.counters.moments();
        self.after_log(was);
        moments
    }

    fn whole_runs(&self) -> &[Vec<f64>] {
        &self.whole_runs
    }

    fn gap(&self) -> Option<Duration> {
        self.gap.filter(|_| self.counters.is_logged())
    }

    fn keep_moments(&mut self) {
        self.counters.take_log();
    }

    fn counted(&mut self) -> Option<Result<u64>> {
        Some(self.total())
    }

    fn restarts(&self) -> bool {
        self.restarts
    }

    fn follow(&mut self, target: &mut Target) -> Result<()> {
        self.keep_alive(target)?;
        self.follow_run(target)?;
        let cpus = target.cpus().unwrap_or_default();
        if cpus != self.cpus && !cpus.is_empty() {
            self.version = handover::version();
            self.cpus = cpus;
            self.run = None;
        }
        self.windows += 1;
        self.windows_with_new += u64::from(self.look(target)? > 0);
        Ok(())
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        self.keep_alive(target)?;
        self.follow_run(target)?;
        self.look(target)?;
        self.start = Some((monotonic_ns(), self.total()?));
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let (since, before) = begun(&mut self.start, &self.name)?;
        let (now, after) = (monotonic_ns(), self.total()?);
        // What ended meanwhile did nothing since.
        let ended = target.ended_for().filter(|_| self.restarts);
        let now = now - ended.unwrap_or_default().as_nanos() as u64;
        self.keep_alive(target)?;
        self.follow_run(target)?;
        self.windows += 1;
        self.windows_with_new += u64::from(self.look(target)? > 0);
        let seconds = now.saturating_sub(since).max(1) as f64 / 1e9;
        Ok(after.saturating_sub(before) as f64 / seconds)
    }
}
