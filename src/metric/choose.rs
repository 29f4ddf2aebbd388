//! Which metric fits a target.

use super::Context;
use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
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
use super::progress::ProgressMetric;
use super::progress::wait_for_page;
use super::prometheus::Prometheus;
use super::runs::Runs;
use super::suggest;
use crate::error::Error;
use crate::error::Result;
use crate::sys::perf;
use crate::workload::Progress;
use crate::workload::State;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::demo;
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
        Request::Progress => progress(spec, target, context)?,
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

/// The best metric for `target`: the progress it publishes; for a command that
/// ends by itself soon, its run time; else instructions.
///
/// # Errors
/// An environment error with advice when there is none, or when the target
/// fails meanwhile.
fn choose(spec: &TargetSpec, target: &mut Target, context: &Context) -> Result<Box<dyn Metric>> {
    match spec {
        TargetSpec::Demo { .. } => {
            progress(spec, target, context.chosen("demos publish their progress"))
        }
        TargetSpec::Command(_) => try_out(target, context),
        // Whatever was running before us.
        _ => {
            let found = Progress::find_in(&target.scope());
            if let Some(page) = found.map_err(|error| Error::environment(error.to_string()))? {
                let context = context.chosen("the process publishes its progress");
                return Ok(ProgressMetric::boxed(page, target, "operations", context));
            }
            fallback(target, "the process publishes no progress")
        }
    }
}

fn progress(spec: &TargetSpec, target: &mut Target, context: Context) -> Result<Box<dyn Metric>> {
    let operation = match spec {
        TargetSpec::Demo { name, .. } => demo::find(name)?.unit,
        _ => "operations",
    };
    let page = wait_for_page(target, &context)?;
    Ok(ProgressMetric::boxed(page, target, operation, context))
}

fn try_out(target: &mut Target, context: &Context) -> Result<Box<dyn Metric>> {
    let length = context.options.trial.min(context.options.choice);
    let deadline = Instant::now() + length;
    while Instant::now() < deadline {
        context.check_interrupt()?;
        match target.wait(Duration::from_millis(20)) {
            Some(exit) if exit.success() => {
                let context = context.chosen("the command ends by itself");
                return Ok(Box::new(Runs::new(target.ran_for(), context)));
            }
            Some(exit) => return Err(target.gone(exit)),
            None => {}
        }
        if let State::Running = target.state()
            && let Ok(Some(page)) = Progress::find(target.pid())
        {
            let context = context.chosen("the command publishes its progress");
            return Ok(ProgressMetric::boxed(page, target, "operations", context));
        }
    }
    let tried = format!(
        "the command publishes no progress and was still running after {:.1} s",
        length.as_secs_f64()
    );
    fallback(target, &tried)
}

fn fallback(target: &Target, tried: &str) -> Result<Box<dyn Metric>> {
    match perf::why_no_instructions() {
        None => {
            let because = format!("{tried}; the CPU counts instructions");
            Ok(Box::new(Ips::new(
                target,
                What::InstructionsPerSecond,
                &because,
            )?))
        }
        Some(reason) => Err(Error::environment(format!(
            "no way was found by itself to read the performance of {}: {tried}, and instructions cannot be counted: {reason}. Say how with --metric; for this target there are\n{}",
            target.name(),
            suggest::lines(target)
        ))),
    }
}
