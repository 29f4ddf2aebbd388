//! From a victim and candidates to a document.

use super::clocks::Clocks;
use super::live::LiveBench;
use super::measure;
use super::measure::Measured;
use super::measure::Settings;
use super::observe;
use super::observe::Observed;
use super::protect::Protect;
use super::protect::Protected;
use super::shared;
use super::suspects;
use super::suspects::Survey;
use super::suspects::Suspect;
use super::warning::BlameWarning;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::place::stay_away;
use crate::metric;
use crate::metric::MetricOptions;
use crate::metric::Start;
use crate::pairs::Member;
use crate::workload::Bystander;
use crate::workload::Scope;
use crate::workload::Target;
use crate::workload::TargetSpec;
use jostle_host::machine::Machine;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::clock::rfc3339;
use jostle_host::sys::perf;
use jostle_host::sys::process::set_timer_slack;
use jostle_profile::blame;
use jostle_profile::blame::Blame;
use jostle_profile::blame::Candidate;
use jostle_profile::blame::CandidateUse;
use jostle_profile::blame::Excluded;
use jostle_profile::blame::Experiment;
use jostle_profile::blame::Verdict;
use jostle_profile::blame::Victim;
use jostle_profile::pairs::MemberMetric;
use jostle_profile::pairs::MemberTarget;
use jostle_profile::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::SystemTime;

/// Whom to try.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidates {
    /// Nobody is paused; who could be is listed.
    Observe,
    These(Vec<Suspect>),
    /// Everybody who uses the machine noticeably and may be paused.
    Auto,
}

/// What is to be found out.
#[derive(Clone, Debug)]
pub struct Request {
    pub victim: TargetSpec,
    /// The best available where absent.
    pub metric: Option<String>,
    pub options: MetricOptions,
    /// CPUs of a victim that is started.
    pub cpus: Option<Vec<usize>>,
    pub candidates: Candidates,
    pub protect: Protect,
    /// Time to watch everybody before anybody is paused.
    pub look: Duration,
    pub settings: Settings,
    pub interrupt: Arc<AtomicBool>,
}

/// Whom one would try, and whom not, without starting or pausing anybody.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub suspects: Vec<Suspect>,
    pub excluded: Vec<Excluded>,
}

/// Time in which who is busy is found out.
const SURVEY: Duration = Duration::from_millis(700);

/// Who would be tried, and nothing else.
///
/// # Errors
/// When a candidate that was named may not be paused.
pub fn list(machine: &Machine, request: &Request) -> Result<Listed> {
    let scope = request
        .victim
        .scope()
        .unwrap_or(Scope::Processes(Vec::new()));
    let protected = Protected::of(&scope, &request.protect);
    listed(machine, request, &protected)
}

fn listed(machine: &Machine, request: &Request, protected: &Protected) -> Result<Listed> {
    match &request.candidates {
        Candidates::These(suspects) => {
            for suspect in suspects {
                if let Some(reason) = suspects::refused(suspect, protected) {
                    return Err(Error::request(format!(
                        "--candidate {}: it is never paused: {reason}",
                        shown(suspect)
                    )));
                }
                suspect.spec.check().map_err(|error| {
                    Error::request(format!("--candidate {}: {error}", shown(suspect)))
                })?;
            }
            Ok(Listed {
                suspects: suspects.clone(),
                excluded: Vec::new(),
            })
        }
        Candidates::Observe | Candidates::Auto => {
            let survey = Survey::take(SURVEY);
            let memory = machine.memory.total_bytes as f64;
            let (suspects, excluded) = suspects::find(&survey, protected, memory);
            Ok(Listed { suspects, excluded })
        }
    }
}

/// A candidate as it is given to `--candidate`.
pub fn shown(suspect: &Suspect) -> String {
    match &suspect.spec {
        TargetSpec::Pid(pid) => format!("pid:{pid}"),
        TargetSpec::Cgroup(spec) => format!("cgroup:{}", spec.directory.display()),
        TargetSpec::Command(_) | TargetSpec::Demo { .. } => suspect.name.clone(),
    }
}

/// Finds out who slows the victim; `tell` is told what is being done.
///
/// # Errors
/// When the victim cannot be started or ends, when nobody named may be paused, or
/// when the victim's progress cannot be read often enough to pause anybody.
pub fn run(machine: &Machine, request: &Request, tell: &mut dyn FnMut(&str)) -> Result<Blame> {
    metric::check(&request.victim, request.metric.as_deref())?;
    request.victim.check()?;
    let mut warnings = Vec::new();
    let (mut victim, unread) = start_victim(request)?;
    let cpus = victim.target().cpus().unwrap_or_default();
    stay_away(machine, &cpus);
    set_timer_slack(1);
    let protected = Protected::of(&victim.target().scope(), &request.protect);
    if let Some(reason) = &protected.blind {
        warnings.push(BlameWarning::DependenciesUnknown {
            victim: victim.target().name().to_string(),
            reason: reason.clone(),
        });
    }
    let Listed {
        mut suspects,
        excluded,
    } = listed(machine, request, &protected)?;
    if suspects.len() > suspects::MOST {
        suspects.truncate(suspects::MOST);
        let most = suspects::MOST;
        warnings.push(BlameWarning::TooManyCandidates { most });
    }
    let seconds = request.look.as_secs_f64();
    tell(&format!("watching for {seconds:.0} s"));
    let observed = observe::watch(&mut victim, &suspects, request.look, &request.interrupt)?;
    let tried = match request.candidates {
        Candidates::Observe => Err("only observed: no --candidate was given".to_string()),
        _ if suspects.is_empty() => Err("nobody uses the machine that may be paused".to_string()),
        _ => {
            if let Some(reason) = &unread {
                return Err(Error::environment(reason));
            }
            if !matches!(victim.count(), Ok(Some(_))) {
                return Err(Error::environment(coarse(&victim)));
            }
            let budget = request.settings.budget.as_secs_f64();
            tell(&format!(
                "pausing {} for {budget:.0} s at most",
                count(suspects.len())
            ));
            Ok(experiment(&mut victim, &suspects, request)?)
        }
    };
    if let Some(reason) = unread {
        warnings.push(BlameWarning::VictimUnread {
            victim: victim.target().name().to_string(),
            reason,
        });
    }
    let parts = Parts {
        victim: &victim,
        suspects: &suspects,
        observed,
        tried,
        excluded,
        warnings,
    };
    Ok(document(machine, request, parts))
}

fn count(candidates: usize) -> String {
    match candidates {
        1 => "1 candidate".into(),
        many => format!("{many} candidates in turn"),
    }
}

/// The victim with its metric; or, where nobody is to be paused, the reason why it
/// has none.
fn start_victim(request: &Request) -> Result<(Member, Option<String>)> {
    // Counts can be read at any instant; instructions per second are no count.
    let usual = match (&request.metric, &request.victim) {
        (Some(asked), _) => Some(asked.as_str()),
        (None, TargetSpec::Demo { .. }) => None,
        (None, _) if perf::why_no_instructions().is_none() => Some("progress:auto"),
        (None, _) => None,
    };
    let attached = request.victim.is_attached();
    let start = Start {
        metric: usual,
        options: request.options.clone(),
        load: None,
        cpus: request.cpus.as_deref().filter(|_| !attached),
        interrupt: request.interrupt.clone(),
    };
    let cpus = start.cpus;
    match metric::start_warm(&request.victim, start, |_| Ok(())) {
        Ok((target, metric)) => Ok((Member::new(0, target, Some(metric)), None)),
        Err(Error::Environment(reason)) if request.candidates == Candidates::Observe => {
            let target = Target::start(&request.victim, cpus, None)?;
            Ok((Member::new(0, target, None), Some(reason)))
        }
        Err(error) => Err(error),
    }
}

fn coarse(victim: &Member) -> String {
    let name = victim
        .metric()
        .map_or_else(String::new, |metric| metric.facts().name);
    format!(
        "--metric {name}: it cannot be read at any instant, and pauses last milliseconds; \
         progress:auto, progress:uprobe:…, progress:tracepoint:… or a published count can \
         (`jostle metrics`)"
    )
}

fn experiment(victim: &mut Member, suspects: &[Suspect], request: &Request) -> Result<Measured> {
    let bystander = Bystander::start()?;
    let attach = |spec: &TargetSpec| Target::start(spec, None, None);
    let placebo = attach(&TargetSpec::Pid(bystander.pid()))?;
    let mut placebo = Member::new(0, placebo, None);
    let mut candidates = Vec::new();
    for suspect in suspects {
        let target = attach(&suspect.spec);
        match target {
            Ok(target) => candidates.push(Member::new(candidates.len(), target, None)),
            Err(error) => {
                let shown = shown(suspect);
                return Err(Error::environment(format!("--candidate {shown}: {error}")));
            }
        }
    }
    let clocks = Clocks::of(victim.target());
    let mut bench = LiveBench {
        victim,
        candidates: &mut candidates,
        placebo: &mut placebo,
        clocks,
        interrupt: request.interrupt.clone(),
        resumed_ns: monotonic_ns(),
    };
    let names: Vec<String> = suspects.iter().map(|it| it.name.clone()).collect();
    Ok(measure::measure(&mut bench, &names, &request.settings))
}

/// What makes a document.
struct Parts<'a> {
    victim: &'a Member,
    suspects: &'a [Suspect],
    observed: Observed,
    tried: std::result::Result<Measured, String>,
    excluded: Vec<Excluded>,
    warnings: Vec<BlameWarning>,
}

fn document(machine: &Machine, request: &Request, parts: Parts) -> Blame {
    let Parts {
        victim,
        suspects,
        observed,
        tried,
        excluded,
        mut warnings,
    } = parts;
    let settings = &request.settings;
    let mut partial = false;
    let (experiment, effects) = match tried {
        Err(reason) => {
            let effect = Reading::unavailable(reason.clone());
            let effects = vec![(Verdict::NotTried, effect); suspects.len()];
            (Reading::unavailable(reason), effects)
        }
        Ok(measured) => {
            warnings.extend(measured.warnings);
            partial = measured.interrupted;
            let experiment = Experiment {
                budget_seconds: settings.budget.as_secs_f64(),
                seconds: measured.seconds,
                pause_seconds: settings.pause.as_secs_f64(),
                max_pause_percent: 100.0 * settings.max_pause,
                least_percent: 100.0 * settings.least,
                correction: "holm".into(),
                placebo: measured.placebo,
                unknown: Default::default(),
            };
            (Reading::Value(experiment), measured.effects)
        }
    };
    let seen = observed.suspects.into_iter().zip(effects);
    let candidates = suspects.iter().zip(seen).map(|(suspect, (seen, effect))| {
        let (used, correlation) = seen;
        let shares = shared::between(machine, &observed.victim.used, &used, &observed.disks);
        Candidate {
            name: suspect.name.clone(),
            target: target_of(&suspect.spec, Vec::new),
            processes: suspect.processes().len() as u64,
            verdict: effect.0,
            effect: effect.1,
            observed: CandidateUse {
                used,
                shares,
                correlation,
            },
            unknown: Default::default(),
        }
    });
    let mut candidates: Vec<Candidate> = candidates.collect();
    let cost = |it: &Candidate| it.effect.value().map_or(-1e3, |it| it.slowed_percent.value);
    let guilt = |it: &Candidate| u8::from(it.verdict == Verdict::Slows);
    candidates.sort_by(|a, b| {
        let verdicts = guilt(b).cmp(&guilt(a));
        verdicts.then(cost(b).total_cmp(&cost(a)))
    });
    Blame {
        format: blame::FORMAT.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        recorded_at: rfc3339(SystemTime::now()),
        machine: machine.facts(),
        seed: settings.seed,
        victim: Victim {
            name: victim.target().name().to_string(),
            target: target_of(&request.victim, || victim.target().command()),
            metric: metric_of(victim),
            observed: observed.victim,
            unknown: Default::default(),
        },
        experiment,
        candidates,
        excluded,
        warnings: warnings.iter().map(BlameWarning::facts).collect(),
        partial,
        unknown: Default::default(),
    }
}

fn target_of(spec: &TargetSpec, command: impl Fn() -> Vec<String>) -> MemberTarget {
    match spec {
        TargetSpec::Pid(pid) => MemberTarget::Pid(*pid),
        TargetSpec::Cgroup(spec) => MemberTarget::Cgroup(spec.directory.display().to_string()),
        TargetSpec::Command(_) | TargetSpec::Demo { .. } => MemberTarget::Command(command()),
    }
}

fn metric_of(victim: &Member) -> Reading<MemberMetric> {
    let Some(metric) = victim.metric() else {
        return Reading::unavailable("its progress could not be read");
    };
    let facts = metric.facts();
    Reading::Value(MemberMetric {
        name: facts.name,
        // Here it is always wall time.
        unit: facts.unit.replace("per CPU second", "per second"),
        better: facts.direction,
    })
}
