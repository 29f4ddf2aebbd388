//! Who is due for an experiment. Pure decisions: what is known, and what follows.

use super::hours;
use super::memory::DAY;
use super::memory::Memory;
use super::memory::Past;
use super::memory::seconds;
use crate::agent::config::Config;
use jostle_profile::node::ExperimentKind;
use jostle_profile::node::NodeLoad;
use jostle_profile::node::NodeState;
use jostle_profile::node::WorkloadState;
use std::collections::BTreeMap;
use std::time::Duration;
use std::time::SystemTime;

/// Refreshes in a row in which a workload misses its QoS, or does something else than
/// was profiled, before it is acted on.
const LASTING: u32 = 3;
/// Part of a new reading in the usual use of all others.
const SMOOTHING: f64 = 0.1;
/// All others together used more CPU time by this share, and by so many percent of one
/// CPU, where they explain a loss.
const MORE: f64 = 0.25;
const MORE_PERCENT: f64 = 10.0;
/// After an experiment that failed the next one may come sooner than after one that
/// did not, but not at once.
const AFTER_FAILURE: Duration = Duration::from_secs(3600);

/// An experiment that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub kind: ExperimentKind,
    pub workload: String,
    pub budget: Duration,
    /// Of a profile.
    pub ceiling: Option<f64>,
    /// Workloads that may be paused.
    pub candidates: Vec<String>,
    pub because: String,
    /// Whether the profile that there is still describes the workload.
    pub old_holds: bool,
}

/// A workload from refresh to refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    missing: u32,
    drifted: u32,
    /// CPU time of all others while it met its QoS, 100 for one CPU.
    others_usual: Option<f64>,
    others: Option<f64>,
}

impl Watched {
    pub fn see(&mut self, workload: &WorkloadState, load: &NodeLoad) {
        let all = load.cpu_percent.value();
        let own = workload.readings.cpu_percent.value();
        self.others = all.zip(own).map(|(all, own)| (all - own).max(0.0));
        let meets = workload.performance.value();
        let meets = meets.and_then(|it| it.meets_qos.value().copied());
        self.missing = match meets {
            Some(false) => self.missing + 1,
            _ => 0,
        };
        if let (Some(true), Some(others)) = (meets, self.others) {
            let usual = self.others_usual.unwrap_or(others);
            self.others_usual = Some(usual + SMOOTHING * (others - usual));
        }
        let drifted = workload.drift.value().is_some_and(|it| it.drifted);
        self.drifted = if drifted { self.drifted + 1 } else { 0 };
    }

    /// Whether somebody else's use rose since all was well.
    fn others_rose(&self) -> bool {
        match (self.others, self.others_usual) {
            (Some(now), Some(usual)) => now > usual * (1.0 + MORE) + MORE_PERCENT,
            // Nothing excuses it.
            _ => false,
        }
    }
}

/// The experiment that is to be started now.
pub(super) fn next(
    config: &Config,
    memory: &Memory,
    watched: &BTreeMap<String, Watched>,
    state: &NodeState,
    now: SystemTime,
    minute: Option<u32>,
) -> Option<Plan> {
    let blame = state.workloads.iter().filter_map(|workload| {
        let seen = watched.get(&workload.name)?;
        blame_plan(
            config,
            memory.of(&workload.name),
            seen,
            workload,
            state,
            now,
        )
    });
    // Who misses its QoS comes first, and of several who waited longest.
    let longest = |plan: &Plan| {
        let past = memory.of(&plan.workload);
        let last = |past: &Past| match plan.kind {
            ExperimentKind::Profile => past.profiled_at,
            ExperimentKind::Blame => past.blamed_at,
        };
        past.and_then(last).unwrap_or(0.0)
    };
    let earliest = |a: &Plan, b: &Plan| longest(a).total_cmp(&longest(b));
    if let Some(plan) = blame.min_by(earliest) {
        return Some(plan);
    }
    if !may_profile_now(config, state, minute) {
        return None;
    }
    let profiles = state.workloads.iter().filter_map(|workload| {
        let seen = watched.get(&workload.name)?;
        profile_plan(config, memory.of(&workload.name), seen, workload, now)
    });
    profiles.min_by(earliest)
}

fn may_profile_now(config: &Config, state: &NodeState, minute: Option<u32>) -> bool {
    let profiling = &config.profiling;
    let cpus = state.machine.cpus.max(1) as f64;
    let used = state.load.cpu_percent.value();
    // What is not known may be too much.
    let idle = used.is_some_and(|used| used / cpus <= profiling.below_cpu_percent);
    profiling.enabled && idle && hours::allow(&profiling.hours, minute)
}

fn since(then: Option<f64>, now: SystemTime) -> f64 {
    then.map_or(f64::INFINITY, |then| seconds(now) - then)
}

fn profile_plan(
    config: &Config,
    past: Option<&Past>,
    seen: &Watched,
    workload: &WorkloadState,
    now: SystemTime,
) -> Option<Plan> {
    let profiling = &config.profiling;
    if !workload.may_be_profiled {
        return None;
    }
    let none = Past {
        ceiling: profiling.first_intensity,
        ..Past::default()
    };
    let past = past.unwrap_or(&none);
    let every = match past.failed {
        true => profiling.every.min(AFTER_FAILURE),
        false => profiling.every,
    };
    let budget = profiling.budget.as_secs_f64();
    let allowed = profiling.share_percent / 100.0 * DAY;
    if since(past.profiled_at, now) < every.as_secs_f64() || past.spent(now) + budget > allowed {
        return None;
    }
    let ceiling = past.ceiling.min(profiling.max_intensity);
    let (because, old_holds) = reason(seen, workload, past, ceiling)?;
    Some(Plan {
        kind: ExperimentKind::Profile,
        workload: workload.name.clone(),
        budget: profiling.budget,
        ceiling: Some(ceiling),
        candidates: Vec::new(),
        because,
        old_holds,
    })
}

/// Why a profile is due, and whether the old one still holds.
fn reason(
    seen: &Watched,
    workload: &WorkloadState,
    past: &Past,
    ceiling: f64,
) -> Option<(String, bool)> {
    let Some(profile) = workload.profile.value() else {
        return Some(("there is no profile".into(), false));
    };
    if !profile.of_this_machine {
        return Some(("its profile is of another machine".into(), false));
    }
    if seen.drifted >= LASTING {
        let drift = workload.drift.value().map(|it| it.reason.clone());
        return Some((drift.unwrap_or_default(), false));
    }
    if seen.missing >= LASTING && !seen.others_rose() {
        let why = "it misses its QoS although nobody else uses more than usual";
        return Some((why.into(), false));
    }
    let highest = profile.tolerated.values().copied().fold(0.0, f64::max);
    if past.profiled_at.is_some() && !past.reached_floor && highest + 0.5 < ceiling {
        let why = format!("its profile reaches up to {highest:.0} % intensity only");
        return Some((why, true));
    }
    None
}

fn blame_plan(
    config: &Config,
    past: Option<&Past>,
    seen: &Watched,
    workload: &WorkloadState,
    state: &NodeState,
    now: SystemTime,
) -> Option<Plan> {
    let blame = &config.blame;
    let last = past.and_then(|past| past.blamed_at);
    if !blame.enabled || seen.missing < LASTING || since(last, now) < blame.every.as_secs_f64() {
        return None;
    }
    let others = state.workloads.iter().filter(|it| it.name != workload.name);
    let candidates: Vec<String> = others
        .filter(|it| it.may_be_paused && !contains(&it.target, &workload.target))
        .map(|it| it.name.clone())
        .collect();
    Some(Plan {
        kind: ExperimentKind::Blame,
        workload: workload.name.clone(),
        budget: blame.budget,
        ceiling: None,
        candidates,
        because: "it misses its QoS".into(),
        old_holds: true,
    })
}

/// Whether pausing the cgroup `outer` would pause `inner` too, or the reverse.
fn contains(outer: &str, inner: &str) -> bool {
    let below = |a: &str, b: &str| {
        b.strip_prefix(a.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    !outer.starts_with("pid:") && (below(outer, inner) || below(inner, outer))
}
