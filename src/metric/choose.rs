//! Which metric fits a target.

use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
use super::events::Events;
use super::exec::Exec;
use super::file::Tail;
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
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

const ASKED: &str = "asked for with --metric";

/// Longest wait for a progress page: a demo first fills its memory or file.
const PAGE_LIMIT: Duration = Duration::from_secs(120);

/// Starts the target of `spec` and the metric that was `requested`, or the best
/// one available; see [`choose`].
///
/// # Errors
/// Those of [`Target::start`] and [`choose`].
pub fn start(
    spec: &TargetSpec,
    requested: Option<&str>,
    options: &MetricOptions,
    cpus: Option<&[usize]>,
) -> Result<(Target, Box<dyn Metric>)> {
    start_warm(spec, requested, options, cpus, |_| Ok(()))
}

/// As [`start`]; `warm_up` is called between the target and the metric.
///
/// # Errors
/// Those of [`start`] and of `warm_up`.
pub fn start_warm(
    spec: &TargetSpec,
    requested: Option<&str>,
    options: &MetricOptions,
    cpus: Option<&[usize]>,
    warm_up: impl FnOnce(&mut Target) -> Result<()>,
) -> Result<(Target, Box<dyn Metric>)> {
    let request = understood(spec, requested)?;
    if let (TargetSpec::Command(command), Some(Request::Stdout(..)), StdoutKind::Rate) =
        (spec, &request, options.kind)
        && command.instances.get() > 1
    {
        return Err(Error::request(
            "--kind rate: the running totals of several --instances cannot be told apart in what they print; let each print its rate and use --kind value",
        ));
    }
    load::check(request.as_ref().and_then(Request::reads_load), options)?;
    let sink = match &request {
        Some(Request::Stdout(_, feed)) => {
            Some(feed.clone() as Arc<dyn crate::workload::OutputSink>)
        }
        _ => None,
    };
    // Before the target, so that all it writes counts.
    let tail = match &request {
        Some(Request::File(path, _, feed)) => Some(Tail::start(path, feed.clone())?),
        _ => None,
    };
    let mut target = Target::start(spec, cpus, sink)?;
    warm_up(&mut target)?;
    let generator = match &options.load {
        Some(plan) => {
            let mut alive = || target.check_alive().map_err(Into::into);
            Some(plan.start(&options.interrupt, &mut alive)?)
        }
        None => None,
    };
    let metric: Box<dyn Metric> = match (generator, request) {
        (Some(generator), None) => Box::new(LoadMetric::usual(generator)),
        (Some(generator), Some(Request::Load(read))) => {
            Box::new(LoadMetric::new(generator, read, ASKED))
        }
        (Some(generator), Some(request)) => {
            let inner = requested_metric(request, tail, spec, &mut target, options)?;
            Box::new(UnderLoad::new(inner, generator))
        }
        (None, Some(request)) => requested_metric(request, tail, spec, &mut target, options)?,
        (None, None) => choose(spec, &mut target, options)?,
    };
    Ok((target, metric))
}

/// The metric that was asked for, of what the target itself tells.
fn requested_metric(
    request: Request,
    tail: Option<Tail>,
    spec: &TargetSpec,
    target: &mut Target,
    options: &MetricOptions,
) -> Result<Box<dyn Metric>> {
    let options = options.clone();
    Ok(match request {
        Request::Progress => progress(spec, target, &options, ASKED)?,
        Request::Uprobe(what) => Box::new(Events::uprobe(&what, ASKED, options, target)?),
        Request::Tracepoint(what) => Box::new(Events::tracepoint(&what, ASKED, options, target)?),
        Request::Io(bytes) => Box::new(Io::new(bytes, ASKED, &options, target)?),
        Request::Stdout(pattern, feed) => {
            let source = Source::Stdout;
            Box::new(Printed::new(
                source, feed, &pattern, ASKED, options, target,
            )?)
        }
        Request::File(path, pattern, feed) => {
            let tail = tail.map_or_else(|| Tail::start(&path, feed.clone()), Ok)?;
            let source = Source::File(tail);
            Box::new(Printed::new(
                source, feed, &pattern, ASKED, options, target,
            )?)
        }
        Request::Prometheus(what) => Box::new(Prometheus::new(&what, ASKED, options, target)?),
        Request::Exec(command) => Box::new(Exec::new(&command, ASKED, options, target)?),
        Request::Ips => Box::new(Ips::new(target, What::InstructionsPerSecond, ASKED)?),
        Request::Cpi => Box::new(Ips::new(target, What::CyclesPerInstruction, ASKED)?),
        Request::Runs => Box::new(Runs::new(ASKED, None, options)),
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
        (Some(Request::Stdout(..)), TargetSpec::Demo { .. }) => {
            return Err(Error::request(
                "--metric stdout: demos print nothing; leave --metric out to read their progress",
            ));
        }
        (_, TargetSpec::Command(_)) => {}
        (Some(Request::Stdout(..)), _) => {
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
pub fn choose(
    spec: &TargetSpec,
    target: &mut Target,
    options: &MetricOptions,
) -> Result<Box<dyn Metric>> {
    match spec {
        TargetSpec::Demo { .. } => progress(spec, target, options, "demos publish their progress"),
        TargetSpec::Command(_) => try_out(target, options),
        // Whatever was running before us.
        _ => {
            if let Some(page) = Progress::find_in(&target.scope()).map_err(Error::environment)? {
                let because = "the process publishes its progress";
                let options = options.clone();
                let metric = ProgressMetric::new(page, target, "operations", because, options);
                return Ok(Box::new(metric));
            }
            fallback(target, "the process publishes no progress")
        }
    }
}

fn progress(
    spec: &TargetSpec,
    target: &mut Target,
    options: &MetricOptions,
    because: &str,
) -> Result<Box<dyn Metric>> {
    let operation = match spec {
        TargetSpec::Demo { name, .. } => demo::find(name)?.unit,
        _ => "operations",
    };
    let page = wait_for_page(target, options)?;
    let options = options.clone();
    let metric = ProgressMetric::new(page, target, operation, because, options);
    Ok(Box::new(metric))
}

/// Waits until `target` publishes its progress.
pub(super) fn wait_for_page(target: &mut Target, options: &MetricOptions) -> Result<Progress> {
    // Only what jostle itself wrote is sure to publish sooner or later.
    let limit = match target.name().starts_with("demo ") {
        true => PAGE_LIMIT,
        false => options.trial,
    };
    let deadline = Instant::now() + limit;
    loop {
        // A page that is being made may look wrong for a moment.
        let problem = match Progress::find(target.pid()) {
            Ok(Some(page)) => return Ok(page),
            Ok(None) => None,
            Err(problem) => Some(problem),
        };
        target.check_alive()?;
        options.check_interrupt()?;
        if Instant::now() >= deadline {
            let problem = problem.unwrap_or_else(|| {
                format!(
                    "{} published no progress page (a memfd named jostle-progress) within {} s",
                    target.name(),
                    limit.as_secs()
                )
            });
            return Err(Error::environment(format!("--metric progress: {problem}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Watches a command until it publishes, ends, or has shown that it stays.
fn try_out(target: &mut Target, options: &MetricOptions) -> Result<Box<dyn Metric>> {
    let deadline = Instant::now() + options.trial;
    while Instant::now() < deadline {
        options.check_interrupt()?;
        match target.wait(Duration::from_millis(20)) {
            Some(exit) if exit.success() => {
                let because = "the command ends by itself";
                let usual = target.ran_for();
                return Ok(Box::new(Runs::new(because, usual, options.clone())));
            }
            Some(exit) => return Err(target.gone(exit)),
            None => {}
        }
        if let State::Running = target.state()
            && let Ok(Some(page)) = Progress::find(target.pid())
        {
            let because = "the command publishes its progress";
            let options = options.clone();
            let metric = ProgressMetric::new(page, target, "operations", because, options);
            return Ok(Box::new(metric));
        }
    }
    let tried = format!(
        "the command publishes no progress and was still running after {} s",
        options.trial.as_secs_f64()
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
