//! Which metric fits a target.

use super::Context;
use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
use super::auto;
use super::error::Reason;
use super::events::Events;
use super::exec::Exec;
use super::io::Io;
use super::ips::Ips;
use super::ips::What;
use super::load;
use super::load::LoadMetric;
use super::load::UnderLoad;
use super::names::Request;
use super::names::parse;
use super::printed::Printed;
use super::printed::Source;
use super::progress::Page;
use super::progress::ProgressMetric;
use super::progress::wait_for_page;
use super::prometheus::Prometheus;
use super::runs::Runs;
use super::suggest;
use crate::error::Error;
use crate::error::Result;
use crate::workload::State;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::demo;
use jostle_host::sys::perf;
use jostle_load::LoadPlan;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::Instant;

const ASKED: &str = "asked for with --metric";

/// How a target and its metric are started.
#[derive(Clone, Debug, Default)]
pub struct Start<'a> {
    /// `--metric`; the best available when absent.
    pub metric: Option<&'a str>,
    pub options: MetricOptions,
    /// `--load`: what is sent to the target meanwhile.
    pub load: Option<&'a LoadPlan>,
    /// CPUs the target is given.
    pub cpus: Option<&'a [usize]>,
    /// Raised to abandon whatever is being waited for.
    pub interrupt: Arc<AtomicBool>,
}

/// Starts the target of `spec` and the metric that was `requested`, or the best
/// one available; see [`choose`]. No load is sent to it.
///
/// # Errors
/// Those of [`Target::start`] and [`choose`].
pub fn start(
    spec: &TargetSpec,
    requested: Option<&str>,
    options: &MetricOptions,
    cpus: Option<&[usize]>,
) -> Result<(Target, Box<dyn Metric>)> {
    let start = Start {
        metric: requested,
        options: options.clone(),
        cpus,
        ..Start::default()
    };
    start_warm(spec, start, |_| Ok(()))
}

/// As [`start`]; `warm_up` is called between the target and the metric.
///
/// # Errors
/// Those of [`start`] and of `warm_up`.
pub fn start_warm(
    spec: &TargetSpec,
    start: Start,
    warm_up: impl FnOnce(&mut Target) -> Result<()>,
) -> Result<(Target, Box<dyn Metric>)> {
    let context = &Context {
        options: start.options,
        interrupt: start.interrupt,
        because: String::new(),
    };
    let request = understood(spec, start.metric)?;
    if let (
        TargetSpec::Command(command),
        Some(Request::Printed(Source::Stdout, ..)),
        StdoutKind::Rate,
    ) = (spec, &request, context.options.kind)
        && command.instances.get() > 1
    {
        return Err(Error::request(
            "--kind rate: the running totals of several --instances cannot be told apart in what they print; let each print its rate and use --kind value",
        ));
    }
    let read = match &request {
        Some(Request::Load(read)) => Some(read),
        _ => None,
    };
    load::check(read, start.load)?;
    // Before the target, so that all it writes counts.
    let sink = match &request {
        Some(Request::Printed(source, _, feed)) => source.follow(feed)?,
        _ => None,
    };
    let mut target = Target::start(spec, start.cpus, sink)?;
    warm_up(&mut target)?;
    let generator = match start.load {
        Some(plan) => {
            let mut alive = || target.check_alive().map_err(Into::into);
            Some(plan.start(&context.interrupt, &mut alive)?)
        }
        None => None,
    };
    let metric: Box<dyn Metric> = match (generator, request) {
        (Some(generator), None) => Box::new(LoadMetric::usual(generator)),
        (Some(generator), Some(Request::Load(read))) => {
            Box::new(LoadMetric::new(generator, read, ASKED))
        }
        (Some(generator), Some(request)) => {
            let inner = requested_metric(request, spec, &mut target, context)?;
            Box::new(UnderLoad::new(inner, generator))
        }
        (None, Some(request)) => requested_metric(request, spec, &mut target, context)?,
        (None, None) => choose(spec, &mut target, context)?,
    };
    Ok((target, metric))
}

/// The metric that was asked for, of what the target itself tells.
fn requested_metric(
    request: Request,
    spec: &TargetSpec,
    target: &mut Target,
    context: &Context,
) -> Result<Box<dyn Metric>> {
    let context = context.chosen(ASKED);
    Ok(match request {
        Request::Progress => progress(spec, target, context, "progress")?,
        Request::Published => progress(spec, target, context, "progress:shm")?,
        Request::Auto => {
            let context = context.chosen("asked for with --metric progress:auto");
            match automatic(target, &context)? {
                Ok(metric) => metric,
                Err(reason) => fallback(target, &context, &reason)?,
            }
        }
        Request::Uprobe(what) => Box::new(Events::uprobe(&what, context, target)?),
        Request::Tracepoint(what) => Box::new(Events::tracepoint(&what, context, target)?),
        Request::Io(bytes) => Box::new(Io::new(bytes, ASKED, &context, target)?),
        Request::Printed(source, pattern, feed) => {
            Box::new(Printed::new(source, feed, &pattern, context, target)?)
        }
        Request::Prometheus(what) => Box::new(Prometheus::new(&what, context, target)?),
        Request::Exec(command) => Box::new(Exec::new(&command, context, target)?),
        Request::Ips => Box::new(Ips::new(target, What::InstructionsPerSecond, ASKED)?),
        Request::Cpi => Box::new(Ips::new(target, What::CyclesPerInstruction, ASKED)?),
        Request::Runs => Box::new(Runs::new(None, context)),
        Request::Load(_) => unreachable!("refused above without a load"),
    })
}

/// Whether `requested` is a metric that `spec` can have, before anything is
/// started.
///
/// # Errors
/// A request error for an unknown metric, a bad pattern, or one that does not
/// fit the target.
pub fn check(spec: &TargetSpec, requested: Option<&str>) -> Result<()> {
    understood(spec, requested).map(|_| ())
}

fn understood(spec: &TargetSpec, requested: Option<&str>) -> Result<Option<Request>> {
    let request = requested.map(parse).transpose()?;
    match (&request, spec) {
        (Some(Request::Printed(Source::Stdout, ..)), TargetSpec::Demo { .. }) => {
            return Err(Error::request(
                "--metric stdout: demos print nothing; leave --metric out to read their progress",
            ));
        }
        (_, TargetSpec::Command(_)) => {}
        (Some(Request::Printed(Source::Stdout, ..)), _) => {
            return Err(Error::request(
                "--metric stdout: the output of a running process cannot be read; start the command after -- instead of using --pid, or use file:PATH:REGEX for what it logs",
            ));
        }
        (Some(Request::Runs), _) => {
            return Err(Error::request(
                "--metric runs: only for a command given after --, which jostle can start again and again",
            ));
        }
        _ => {}
    }
    Ok(request)
}

/// The best metric for `target`: the progress it publishes; instructions, or,
/// without a PMU, calls of a function that is found automatically; for a command
/// that ends by itself its run time.
///
/// # Errors
/// An environment error with advice when there is none, or when the target
/// fails meanwhile.
fn choose(spec: &TargetSpec, target: &mut Target, context: &Context) -> Result<Box<dyn Metric>> {
    match spec {
        TargetSpec::Demo { .. } => {
            let context = context.chosen("demos publish their progress");
            progress(spec, target, context, "progress")
        }
        TargetSpec::Command(_) => try_out(target, context),
        // Whatever was running before us.
        _ => {
            let found = Page::find(target);
            if let Some(page) = found.map_err(|reason| reason.failed("progress"))? {
                let context = context.chosen("the process publishes its progress");
                return Ok(ProgressMetric::boxed(page, target, "operations", context));
            }
            last_resort(target, context, "the process publishes no progress")
        }
    }
}

fn progress(
    spec: &TargetSpec,
    target: &mut Target,
    context: Context,
    name: &str,
) -> Result<Box<dyn Metric>> {
    let operation = match spec {
        TargetSpec::Demo { name, .. } => demo::find(name)?.unit,
        _ => "operations",
    };
    let page = wait_for_page(target, &context, name)?;
    Ok(ProgressMetric::boxed(page, target, operation, context))
}

fn try_out(target: &mut Target, context: &Context) -> Result<Box<dyn Metric>> {
    let no_counter = perf::why_no_instructions().is_some();
    let length = match no_counter {
        // It is looked into before long, and may end meanwhile.
        true => PAGE_APPEARS.min(longest(context)),
        false => longest(context),
    };
    let tried = "the command publishes no progress";
    match wait_for_end(target, context, length)? {
        Some(Waited::Ended(took)) if !no_counter || took < auto::SHORTEST_RUN => {
            let context = context.chosen("the command ends by itself");
            Ok(Box::new(Runs::new(Some(took), context)))
        }
        Some(Waited::Page(page)) => {
            let context = context.chosen("the command publishes its progress");
            Ok(ProgressMetric::boxed(page, target, "operations", context))
        }
        _ => last_resort(target, context, tried),
    }
}

/// How long a command may be watched to choose its metric.
fn longest(context: &Context) -> Duration {
    context.options.trial.min(context.options.choice)
}

/// How long a command that was just started may take to publish its progress
/// where something else could be counted.
const PAGE_APPEARS: Duration = Duration::from_millis(300);

/// What a command did.
enum Waited {
    Ended(Duration),
    Page(Page),
}

/// Watches a command until it ends or publishes its progress, at most `length`.
fn wait_for_end(
    target: &mut Target,
    context: &Context,
    length: Duration,
) -> Result<Option<Waited>> {
    let deadline = Instant::now() + length;
    while Instant::now() < deadline {
        context.check_interrupt()?;
        match target.wait(Duration::from_millis(20)) {
            Some(exit) if exit.success() => {
                let took = target.ran_for().unwrap_or_default();
                return Ok(Some(Waited::Ended(took)));
            }
            Some(exit) => return Err(target.gone(exit)),
            None => {}
        }
        if let State::Running = target.state()
            && let Ok(Some(page)) = Page::find(target)
        {
            return Ok(Some(Waited::Page(page)));
        }
    }
    Ok(None)
}

/// The metric of a target that publishes nothing; `tried` says so.
fn last_resort(target: &mut Target, context: &Context, tried: &str) -> Result<Box<dyn Metric>> {
    let Some(no_counter) = perf::why_no_instructions() else {
        let because = format!("{tried}; the CPU counts instructions");
        let what = What::InstructionsPerSecond;
        return Ok(Box::new(Ips::new(target, what, &because)?));
    };
    let because = format!("{tried}, and instructions cannot be counted here");
    match automatic(target, &context.chosen(&because))? {
        Ok(metric) => Ok(metric),
        Err(reason) => {
            let because = format!("{tried}; instructions cannot be counted: {no_counter}");
            fallback(target, &context.chosen(&because), &reason)
        }
    }
}

/// Calls of a function that is found automatically, or why there is none.
fn automatic(target: &mut Target, context: &Context) -> Result<Result<Box<dyn Metric>, Reason>> {
    let mut refused = Reason::NeverSeen;
    let began = Instant::now();
    for number in 0..SEARCHES {
        if number > 0 && began.elapsed() > longest(context) / 2 {
            break;
        }
        let choice = match auto::search(target, context)? {
            Ok(choice) => choice,
            Err(reason) => return Ok(Err(reason)),
        };
        for found in choice.found.iter().take(MOST_CHECKED) {
            match Events::found(found, context, target)? {
                Ok(metric) => return Ok(Ok(Box::new(metric))),
                Err(reason) => refused = reason,
            }
        }
    }
    Ok(Err(refused))
}

/// How often it is searched where all that was found fails when it is probed: a
/// program may have been looked at while it was still loading.
const SEARCHES: usize = 2;

/// Most functions of those found that are probed one after another.
const MOST_CHECKED: usize = 3;

/// The run time of a command in which nothing countable was found.
///
/// # Errors
/// An environment error with advice for one that does not end.
fn fallback(target: &mut Target, context: &Context, reason: &Reason) -> Result<Box<dyn Metric>> {
    let tried = format!(
        "{}; no function was found to count: {reason}",
        context.because
    );
    if target.is_ours() {
        let ended = wait_for_end(target, context, longest(context))?;
        if let Some(Waited::Ended(slowed)) = ended {
            // Counting functions in it may have made it several times as long.
            let again = slowed < longest(context) / 2;
            let took = match again {
                true => {
                    target.restart()?;
                    match wait_for_end(target, context, slowed)? {
                        Some(Waited::Ended(took)) => took.min(slowed),
                        _ => slowed,
                    }
                }
                false => slowed,
            };
            let context = context.chosen(&format!("{tried}; the command ends by itself"));
            return Ok(Box::new(Runs::new(Some(took), context)));
        }
    }
    let tried = match target.is_ours() {
        true => format!(
            "{tried}; and it was still running after {:.1} s",
            longest(context).as_secs_f64()
        ),
        false => tried,
    };
    Err(Error::environment(format!(
        "no way was found by itself to read the performance of {}: {tried}. Say how with --metric; for this target there are\n{}",
        target.name(),
        suggest::lines(target)
    )))
}
