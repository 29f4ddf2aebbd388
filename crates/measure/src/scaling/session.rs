//! Starts the target, measures the curves, ends it.

use super::live::Out;
use super::live::Up;
use super::measure;
use super::measure::Measured;
use super::measure::Settings;
use super::plan::Plan;
use super::plan::Sizes;
use super::threads;
use super::warning::ScalingWarning;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::place::stay_away;
use crate::metric;
use crate::metric::Metric;
use crate::metric::MetricOptions;
use crate::metric::Start;
use crate::pairs::BenchError;
use crate::pairs::Foreign;
use crate::pairs::LiveBench;
use crate::pairs::Member;
use crate::pairs::PairWarning;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::hooks::ActiveHooks;
use crate::workload::hooks::Hooks;
use jostle_host::machine::Machine;
use jostle_host::sys::clock::rfc3339;
use jostle_load::Drive;
use jostle_load::LoadPlan;
use jostle_load::Pace;
use jostle_profile::ScalingCurve;
use jostle_profile::ScalingFacts;
use jostle_profile::ScalingPoint;
use jostle_profile::Speedup;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::SystemTime;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Request {
    pub spec: TargetSpec,
    pub sizes: Sizes,
    pub plan: Plan,
    /// The best available where absent.
    pub metric: Option<String>,
    pub options: MetricOptions,
    pub load: Option<LoadPlan>,
    pub hooks: Hooks,
    pub settings: Settings,
    pub interrupt: Arc<AtomicBool>,
}

/// Time at the begin of a block that does not count: the scheduler spreads threads
/// over CPUs that they just got within some of its ticks.
const SKIP: Duration = Duration::from_millis(40);
const READ: Duration = Duration::from_millis(120);
/// Turn of the scheduler; members have CPUs of their own.
const TURN: Duration = Duration::from_millis(4);

/// Measures every curve that was asked for; `tell` is told before each. The flag says
/// whether it was interrupted.
///
/// # Errors
/// When the target cannot be started at all, or the hooks fail.
pub fn run(
    machine: &Machine,
    request: &Request,
    tell: &mut dyn FnMut(&str),
) -> Result<(ScalingFacts, bool)> {
    metric::check(&request.spec, request.metric.as_deref())?;
    let mut hooks = request
        .hooks
        .begin(request.spec.pid(), &request.interrupt)?;
    request.spec.check()?;
    let mut facts = ScalingFacts::default();
    let mut interrupted = false;
    let curves: [(&[u32], Kind, &mut Option<ScalingCurve>); 2] = [
        (&request.sizes.cpus, Kind::Up, &mut facts.cpus),
        (&request.sizes.instances, Kind::Out, &mut facts.instances),
    ];
    for (sizes, kind, place) in curves {
        if sizes.is_empty() || interrupted {
            continue;
        }
        tell(match kind {
            Kind::Up => "measuring performance by CPUs",
            Kind::Out => "measuring performance by copies",
        });
        let curve = Curve {
            machine,
            request,
            sizes,
            kind,
        };
        match curve.measure(&mut hooks) {
            Ok((curve, cut)) => {
                *place = Some(curve);
                interrupted = cut;
            }
            Err(Error::Interrupted(_)) => interrupted = true,
            Err(error) => return Err(error),
        }
    }
    Ok((facts, interrupted))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Up,
    Out,
}

/// One curve to be measured.
struct Curve<'a> {
    machine: &'a Machine,
    request: &'a Request,
    sizes: &'a [u32],
    kind: Kind,
}

impl Curve<'_> {
    /// The sizes that there are CPUs for.
    fn possible(&self) -> Vec<u32> {
        let sizes = self.sizes.iter().copied();
        sizes
            .filter(|size| self.request.plan.of(*size).is_ok())
            .collect()
    }

    fn measure(&self, hooks: &mut ActiveHooks) -> Result<(ScalingCurve, bool)> {
        let possible = self.possible();
        let Some(&largest) = possible.last().filter(|_| possible.len() > 1) else {
            let limit = &self.request.plan.limit;
            let why = format!("there is no other size to compare with: {limit}");
            let nothing = Measured::none(&why);
            return Ok((
                self.document(Reading::unavailable(why), &[], nothing),
                false,
            ));
        };
        let cpus = self.request.plan.of(largest).unwrap_or_default();
        stay_away(self.machine, cpus);
        let mut warnings = self.before(largest)?;
        let mut members = self.start(cpus, hooks)?;
        let metric = members[0].metric().map(|metric| metric.facts().name);
        let metric = match metric {
            Some(name) => Reading::Value(name),
            None => Reading::unavailable("its speed cannot be read"),
        };
        if let Some(found) = self.too_few_threads(&members[0], &metric, largest) {
            warnings.push(found.facts());
        }
        let mut measured = match &metric {
            Reading::Value(_) => self.played(&mut members, &possible, hooks, &mut warnings)?,
            Reading::Unavailable { unavailable } => Measured::none(unavailable),
        };
        if let (Some(metric), Some(Reading::Value(first))) =
            (members[0].metric(), measured.speedups.first_mut())
            && let Some(alone) = &mut first.alone
        {
            let [low, high] = alone.ci95.map(|end| metric.in_unit(end));
            alone.value = metric.in_unit(alone.value);
            alone.ci95 = [low.min(high), low.max(high)];
        }
        let interrupted = measured.interrupted;
        let mut curve = self.document(metric, &possible, measured);
        warnings.append(&mut curve.warnings);
        if let Some(metric) = members[0].metric() {
            warnings.extend(metric.warnings().iter().map(|it| it.facts()));
        }
        curve.warnings = warnings;
        Ok((curve, interrupted))
    }

    /// What is known before anything is measured.
    fn before(&self, largest: u32) -> Result<Vec<jostle_profile::WarningFacts>> {
        let request = self.request;
        let mut warnings = Vec::new();
        let by_runs = request.metric.as_deref() == Some("runs");
        if self.kind == Kind::Up
            && !by_runs
            && !request.spec.is_attached()
            && request.load.is_none()
        {
            let plan = &request.plan;
            let chosen =
                threads::chosen_at_start(&request.spec, plan, largest, &request.interrupt)?;
            warnings.extend(chosen.map(|warning| warning.facts()));
        }
        let drive = request.load.as_ref().map(|load| &load.drive);
        if drive.is_some_and(|drive| !matches!(drive, Drive::Pace(Pace::Closed))) {
            warnings.push(ScalingWarning::FixedRate.facts());
        }
        Ok(warnings)
    }

    /// What runs already chose its threads before we came.
    fn too_few_threads(
        &self,
        member: &Member,
        metric: &Reading<String>,
        largest: u32,
    ) -> Option<ScalingWarning> {
        let threads = member.target().scope().threads().len();
        let cpus = largest as usize;
        let attached = self.request.spec.is_attached() && metric.value().is_some();
        (self.kind == Kind::Up && attached && threads < cpus)
            .then_some(ScalingWarning::FewerThreadsThanCpus { threads, cpus })
    }

    /// The target, or its copies, started and stopped again.
    fn start(&self, cpus: &[usize], hooks: &mut ActiveHooks) -> Result<Vec<Member>> {
        if self.kind == Kind::Up {
            return Ok(vec![self.member(0, cpus, hooks)?]);
        }
        let mut members = Vec::new();
        for (at, cpu) in cpus.iter().enumerate() {
            let copy = self.member(at, &[*cpu], hooks);
            members.push(copy.map_err(|error| numbered(at, error))?);
        }
        Ok(members)
    }

    fn member(&self, at: usize, cpus: &[usize], hooks: &mut ActiveHooks) -> Result<Member> {
        let request = self.request;
        let start = Start {
            metric: request.metric.as_deref(),
            options: request.options.clone(),
            load: request.load.as_ref(),
            cpus: (!request.spec.is_attached()).then_some(cpus),
            interrupt: request.interrupt.clone(),
        };
        let started = metric::start_warm(&request.spec, start, |target| hooks.warm_up(target));
        let (target, metric): (Target, Box<dyn Metric>) = started?;
        let mut member = Member::new(at, target, Some(metric));
        // What cannot be stopped is found out again by the blocks.
        let _ = member.set(false);
        Ok(member)
    }

    fn played(
        &self,
        members: &mut Vec<Member>,
        sizes: &[u32],
        hooks: &mut ActiveHooks,
        warnings: &mut Vec<jostle_profile::WarningFacts>,
    ) -> Result<Measured> {
        let names: Vec<String> = (1..=members.len()).map(|n| format!("copy {n}")).collect();
        let budget = self.request.settings.budget;
        let plan = &self.request.plan;
        let mut started_again = false;
        loop {
            let fitted = self.bench(members).and_then(|mut bench| {
                if self.kind == Kind::Up {
                    bench.members()[0].confine(plan.of(1).unwrap_or_default())?;
                }
                bench.fit(&names, budget, 1).map(|found| (bench, found))
            });
            let (bench, (Foreign(foreign), coarse)) = match fitted {
                Ok(fitted) => fitted,
                Err(BenchError::Interrupted) => return Err(Error::Interrupted(String::new())),
                Err(BenchError::Ended { reason, .. } | BenchError::NotPaused { reason, .. }) => {
                    return Err(Error::environment(reason));
                }
            };
            if !foreign.is_empty() && !started_again {
                // Their counters saw other copies; now that these run, each is counted
                // by itself.
                started_again = true;
                for at in foreign {
                    let cpu = &plan.cpus[at..=at];
                    members[at] = self.member(at, cpu, hooks).map_err(|it| numbered(at, it))?;
                }
                continue;
            }
            warnings.extend(coarsest(coarse).map(|it| it.facts()));
            let settings = &self.request.settings;
            return Ok(match self.kind {
                Kind::Up => {
                    let cpus = sizes.iter().map(|size| plan.of(*size).unwrap_or_default());
                    let cpus = cpus.map(<[usize]>::to_vec).collect();
                    measure::measure(&mut Up { bench, cpus }, sizes, settings)
                }
                Kind::Out => {
                    let counts = sizes.iter().map(|size| *size as usize).collect();
                    let mut bench = Out {
                        bench,
                        sizes: counts,
                    };
                    measure::measure(&mut bench, sizes, settings)
                }
            });
        }
    }

    fn bench<'m>(&self, members: &'m mut Vec<Member>) -> Result<LiveBench<'m>, BenchError> {
        let request = self.request;
        let bench = LiveBench::new(
            members,
            GroupPlacement::OwnCpus,
            TURN,
            request.options.run_timeout,
            request.interrupt.clone(),
        );
        // What a run does by one thread at its begin and end takes a larger part of the
        // time the more CPUs there are.
        Ok(bench.with_blocks(SKIP, READ).with_whole_runs())
    }

    fn document(
        &self,
        metric: Reading<String>,
        possible: &[u32],
        measured: Measured,
    ) -> ScalingCurve {
        let plan = &self.request.plan;
        let points = self.sizes.iter().map(|size| {
            let at = possible.iter().position(|known| known == size);
            let speedup: Reading<Speedup> = match (at, plan.of(*size)) {
                (Some(at), _) => measured.of(at),
                (None, Err(reason)) => Reading::unavailable(reason),
                (None, Ok(_)) => measured.of(0),
            };
            ScalingPoint {
                size: *size,
                speedup,
                unknown: Default::default(),
            }
        });
        let largest = possible.last().copied().unwrap_or(1);
        ScalingCurve {
            recorded_at: rfc3339(SystemTime::now()),
            seconds: measured.seconds,
            metric,
            cpus: plan.of(largest).unwrap_or_default().to_vec(),
            points: points.collect(),
            warnings: measured
                .warnings
                .iter()
                .map(ScalingWarning::facts)
                .collect(),
            unknown: Default::default(),
        }
    }
}

/// Of copies that are read alike, the one that takes longest.
fn coarsest(warnings: Vec<PairWarning>) -> Option<ScalingWarning> {
    let coarse = warnings.into_iter().filter_map(|warning| match warning {
        PairWarning::MetricCoarse {
            metric, seconds, ..
        } => Some((metric, seconds)),
        _ => None,
    });
    let longest = coarse.max_by(|a, b| a.1.total_cmp(&b.1));
    longest.map(|(metric, seconds)| ScalingWarning::MetricCoarse { metric, seconds })
}

/// The error of one of several copies.
fn numbered(at: usize, error: Error) -> Error {
    let text = |text: String| format!("--scale instances: copy {}: {text}", at + 1);
    match error {
        Error::Environment(reason) => Error::Environment(text(reason)),
        Error::Request(reason) => Error::Request(text(reason)),
        other => other,
    }
}
