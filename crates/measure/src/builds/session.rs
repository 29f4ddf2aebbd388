//! From two commands to what is known of them.

use super::awake::Awake;
use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Side;
use super::choose::Choice;
use super::choose::Watch;
use super::error::BuildError;
use super::live::Lengths;
use super::live::LiveBench;
use super::measure;
use super::measure::Measured;
use super::measure::Method;
use super::measure::Settings;
use super::side::Instance;
use super::warning::BuildWarning;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::place::stay_away;
use crate::metric;
use crate::metric::MetricOptions;
use crate::metric::Start;
use crate::workload::CommandSpec;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::redact;
use jostle_compare::builds;
use jostle_compare::builds::Builds;
use jostle_compare::builds::SpeedCondition;
use jostle_host::machine::Machine;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::rfc3339;
use jostle_statistics::stream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::SystemTime;

#[derive(Clone, Debug)]
pub struct Request {
    /// OLD and NEW.
    pub commands: [CommandSpec; 2],
    /// The best available where absent.
    pub metric: Option<String>,
    pub options: MetricOptions,
    /// Both have all of them.
    pub cpus: Vec<usize>,
    /// For everything.
    pub budget: Duration,
    /// The usual one where absent.
    pub turn: Option<Duration>,
    pub warm_up: Duration,
    pub margin_percent: f64,
    pub conditions: Vec<SpeedCondition>,
    pub seed: u64,
    pub interrupt: Arc<AtomicBool>,
}

/// A turn in which a count grows, and the time before in which caches are filled.
const TURN: Duration = Duration::from_millis(4);
const SKIP: Duration = Duration::from_millis(1);
/// A turn of whole runs. Those that take less alternate as a whole: pausing one of 30 ms
/// every 10 ms made its time vary twice as much.
const RUN_TURN: Duration = Duration::from_millis(100);
/// Operations that a turn holds, and what makes turns no longer.
const OPERATIONS: f64 = 20.0;
const LONGEST_TURN: Duration = Duration::from_millis(500);
/// The turn that shows how fast a build counts.
const FIRST_TURN: Duration = Duration::from_millis(100);

/// Measures both; `tell` is told what is measured when that is known. The flag says
/// whether it was interrupted.
///
/// # Errors
/// When a build cannot be started, fails before anything is known, or has nothing to
/// be compared by.
pub fn run(
    machine: &Machine,
    request: &Request,
    tell: &mut dyn FnMut(&str),
) -> Result<(Builds, bool)> {
    let began = monotonic_ns();
    for (side, command) in Side::BOTH.into_iter().zip(&request.commands) {
        let spec = TargetSpec::Command(command.clone());
        let fits = metric::check(&spec, request.metric.as_deref()).and_then(|()| spec.check());
        fits.map_err(|error| side.named(error))?;
    }
    stay_away(machine, &request.cpus);
    let [old, new] = &request.commands;
    let watch = Watch {
        commands: [old, new],
        cpus: &request.cpus,
        budget: request.budget,
        options: &request.options,
        interrupt: &request.interrupt,
    };
    let choice = watch.choose(request.metric.as_deref())?;
    let sides = sides(request, &choice)?;
    let unit = unit(&sides[0], &choice);
    let mut bench = LiveBench {
        sides,
        lengths: lengths(request, choice.method),
        awake: Awake::new(&request.cpus),
        commands: request.commands.clone(),
        rng: stream(request.seed, 1),
    };
    if choice.method == Method::Count && request.turn.is_none() {
        bench.lengths.turn = long_enough(&mut bench)?;
    }
    tell(&choice.because);
    let settings = Settings {
        method: choice.method,
        deadline: began as f64 / 1e9 + request.budget.as_secs_f64(),
        budget_seconds: request.budget.as_secs_f64(),
        seed: request.seed,
    };
    let measured = measure::measure(&mut bench, &settings);
    let seconds = monotonic_ns().saturating_sub(began) as f64 / 1e9;
    let turn = bench.lengths.turn;
    drop(bench);
    if measured.starts.is_empty() {
        return Err(nothing(measured, &choice));
    }
    let interrupted = measured.interrupted;
    Ok((
        document(request, choice, unit, measured, seconds, turn),
        interrupted,
    ))
}

/// Both builds, paused, with what reads them.
fn sides(request: &Request, choice: &Choice) -> Result<[Instance; 2]> {
    let specs = request.commands.clone().map(TargetSpec::Command);
    let interrupt = &request.interrupt;
    let target = |side: Side, spec: &TargetSpec| -> Result<Target> {
        let mut target =
            Target::start(spec, Some(&request.cpus), None).map_err(|error| side.named(error))?;
        let _ = target.stop();
        Ok(target)
    };
    if choice.method == Method::Runs {
        let [old, new] = [target(Side::Old, &specs[0])?, target(Side::New, &specs[1])?];
        return Ok([
            Instance::new(Side::Old, old, None, interrupt.clone()),
            Instance::new(Side::New, new, None, interrupt.clone()),
        ]);
    }
    let counted = |side: Side| -> Result<Instance> {
        let at = usize::from(side == Side::New);
        let start = Start {
            metric: Some(&choice.metrics[at]),
            options: request.options.clone(),
            load: None,
            cpus: Some(&request.cpus),
            interrupt: interrupt.clone(),
        };
        let started = metric::start_warm(&specs[at], start, |_| Ok(()));
        let (mut target, mut metric) = started.map_err(|error| side.named(error))?;
        if metric.counted().is_none() {
            return Err(BuildError::NoCount(metric.facts().name).into());
        }
        let _ = target.stop();
        Ok(Instance::new(side, target, Some(metric), interrupt.clone()))
    };
    // A function in a file that the other one uses too is counted in another way, which
    // costs something else; so both are there when counting begins.
    let other = target(Side::New, &specs[1])?;
    let old = counted(Side::Old)?;
    drop(other);
    Ok([old, counted(Side::New)?])
}

fn unit(old: &Instance, choice: &Choice) -> String {
    match (&old.metric, choice.method) {
        (Some(metric), Method::Count) => metric.facts().unit,
        _ => "runs per second".into(),
    }
}

fn lengths(request: &Request, method: Method) -> Lengths {
    let (turn, skip) = match method {
        Method::Count => (TURN, SKIP),
        Method::Runs => (RUN_TURN, Duration::ZERO),
    };
    Lengths {
        warm_up: request.warm_up,
        skip,
        turn: request.turn.unwrap_or(turn),
    }
}

/// A turn in which the slower of both counts enough.
fn long_enough(bench: &mut LiveBench) -> Result<Duration> {
    let of = |error: BenchError| match error {
        BenchError::Interrupted => Error::Interrupted(String::new()),
        failed => Error::environment(failed),
    };
    bench.start(Side::Old).map_err(of)?;
    let usual = std::mem::replace(&mut bench.lengths.turn, FIRST_TURN);
    let mut slowest = f64::INFINITY;
    for side in Side::BOTH {
        let turn = bench.turn(side).map_err(of)?;
        if turn.work > 0.0 {
            slowest = slowest.min(turn.work / turn.seconds);
        }
    }
    let needed = OPERATIONS / slowest;
    Ok(usual.max(Duration::from_secs_f64(needed).min(LONGEST_TURN)))
}

/// Why there is no result at all.
fn nothing(measured: Measured, choice: &Choice) -> Error {
    match measured.failed {
        _ if measured.interrupted => Error::Interrupted(String::new()),
        Some(failed) => Error::environment(failed),
        None if measured.ended_at_once > 0 => BuildError::EndsAtOnce.into(),
        None => BuildError::NoTime(choice.method == Method::Runs).into(),
    }
}

fn document(
    request: &Request,
    choice: Choice,
    unit: String,
    measured: Measured,
    seconds: f64,
    turn: Duration,
) -> Builds {
    let starts = builds::starts(&measured.starts);
    let speed = builds::change(&starts);
    let mut verdict = builds::verdict(&speed, request.margin_percent, seconds);
    let mut warnings = Vec::new();
    if let Some(failed) = &measured.failed {
        warnings.push(BuildWarning::Failed(failed.to_string()));
    }
    if request.commands[0] == request.commands[1] {
        warnings.push(BuildWarning::SameCommand);
    }
    if let Some(more) = verdict.more_seconds {
        let whole = request.budget.as_secs_f64() + more;
        verdict.sentence += &format!(
            " To tell a change of {} %, measure {more:.0} s longer (--budget {whole:.0}s).",
            request.margin_percent
        );
    }
    let [old, new] = request
        .commands
        .clone()
        .map(|command| redact::command(command.argv));
    let [old_metric, new_metric] = choice.metrics;
    Builds {
        format: builds::FORMAT.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        recorded_at: rfc3339(SystemTime::now()),
        old,
        new,
        metric: builds::Metric {
            old: old_metric,
            new: new_metric,
            unit,
            about: choice.because,
        },
        cpus: request.cpus.clone(),
        seed: request.seed,
        seconds,
        turn_seconds: turn.as_secs_f64(),
        gate: request
            .conditions
            .iter()
            .map(|it| it.judge(&speed))
            .collect(),
        speed,
        verdict,
        starts,
        warnings: warnings.iter().map(BuildWarning::facts).collect(),
    }
}
