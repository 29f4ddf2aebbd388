//! Groups one after another: started, measured, ended.

use super::bench::BenchError;
use super::live::Foreign;
use super::live::LiveBench;
use super::measure;
use super::measure::Measured;
use super::measure::Settings;
use super::member::Member;
use super::place;
use super::warning::PairWarning;
use crate::error::Error;
use crate::error::Result;
use crate::experiment::place::stay_away;
use crate::metric;
use crate::metric::Metric;
use crate::metric::MetricOptions;
use crate::metric::Start;
use crate::workload::Target;
use crate::workload::TargetSpec;
use jostle_host::inject::turns;
use jostle_host::machine::Machine;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::last_cache;
use jostle_host::machine::last_cache::LastCache;
use jostle_host::os;
use jostle_host::os::cpulist;
use jostle_host::os::interrupts;
use jostle_host::sys::clock::rfc3339;
use jostle_profile::LastLevelCache;
use jostle_profile::pairs;
use jostle_profile::pairs::Group;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::pairs::MemberMetric;
use jostle_profile::pairs::MemberTarget;
use jostle_profile::pairs::Pairs;
use jostle_profile::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::time::SystemTime;

/// One application.
#[derive(Clone, Debug)]
pub struct MemberRequest {
    pub name: String,
    pub spec: TargetSpec,
    /// The best available where absent.
    pub metric: Option<String>,
    /// Whether nobody asked for it, but an earlier group found it.
    pub found: bool,
}

/// Members that run together, by their index.
#[derive(Clone, Debug)]
pub struct GroupRequest {
    pub placement: GroupPlacement,
    pub members: Vec<usize>,
    /// Of each member; or why the placement is not possible.
    pub cpus: Result<Vec<Vec<usize>>, String>,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub members: Vec<MemberRequest>,
    pub groups: Vec<GroupRequest>,
    pub options: MetricOptions,
    pub settings: Settings,
    /// Of this machine, where there is one.
    pub calibration: Option<Calibration>,
    pub interrupt: Arc<AtomicBool>,
}

/// Turn of the scheduler where it cannot be measured.
const TURN: Duration = Duration::from_millis(4);
/// Longer turns do not make blocks longer.
const LONGEST_TURN: Duration = Duration::from_millis(20);

/// Measures all groups; `tell` is told before each, and given each when it is done.
/// The flag says whether it was interrupted.
///
/// # Errors
/// When a target cannot be started at all.
pub fn run(
    machine: &Machine,
    mut request: Request,
    tell: &mut dyn FnMut(&str),
) -> Result<(Pairs, bool)> {
    for member in &request.members {
        metric::check(&member.spec, member.metric.as_deref())?;
        member.spec.check()?;
    }
    let mut groups = Vec::new();
    let mut interrupted = false;
    for group in request.groups.clone() {
        if interrupted {
            break;
        }
        let Ok(cpus) = &group.cpus else {
            continue;
        };
        let names: Vec<&str> = group
            .members
            .iter()
            .map(|index| request.members[*index].name.as_str())
            .collect();
        tell(&format!("{}, {}", names.join(" + "), group.placement));
        match measure_group(machine, &mut request, &group, cpus) {
            Ok((group, cut)) => {
                groups.push(group);
                interrupted = cut;
            }
            Err(Error::Interrupted(_)) => interrupted = true,
            Err(error) => return Err(error),
        }
    }
    let document = Pairs {
        format: pairs::FORMAT.into(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
        recorded_at: rfc3339(SystemTime::now()),
        machine: machine.facts(),
        seed: request.settings.seed,
        settings: pairs::Settings {
            budget_seconds: request.settings.budget.as_secs_f64(),
            half_width: request.settings.half_width,
            unknown: Default::default(),
        },
        groups,
        unknown: Default::default(),
    };
    Ok((document, interrupted))
}

fn measure_group(
    machine: &Machine,
    request: &mut Request,
    group: &GroupRequest,
    cpus: &[Vec<usize>],
) -> Result<(Group, bool)> {
    let all: Vec<usize> = cpus.iter().flatten().copied().collect();
    stay_away(machine, &all);
    let same = group.placement == GroupPlacement::SameCpu;
    let turn = match (same, all.first()) {
        (true, Some(cpu)) => turn_of(machine, *cpu),
        _ => TURN,
    };
    // Those that run already have a part of that cache themselves.
    let mut specs = group.members.iter().map(|&at| &request.members[at].spec);
    let looked = machine.hypervisor.is_some() && !specs.any(TargetSpec::is_attached);
    let mut last_cache = match (looked, all.first()) {
        (true, Some(cpu)) => {
            let (headroom, _) = machine.memory_headroom_bytes();
            LastCache::of(machine, *cpu, request.calibration.as_ref(), headroom)
        }
        _ => None,
    };
    last_cache.iter_mut().for_each(LastCache::look);
    let mut starter = Starter {
        request,
        group,
        cpus,
        readable: Vec::new(),
    };
    let mut members = starter.start_all()?;
    let mut warnings = Vec::new();
    if same && cpus.first().is_some_and(|cpus| cpus.len() > 1) {
        warnings.extend(shared_widely(cpus));
    }
    let names: Vec<String> = starter.names();
    let budget = starter.request.settings.budget;
    let mut foreign_before = false;
    let measured = loop {
        let mut bench = LiveBench::new(
            &mut members,
            group.placement,
            turn,
            starter.request.options.run_timeout,
            starter.request.interrupt.clone(),
        );
        if let (true, [Some(one), Some(other)]) = (
            machine.hypervisor.is_some() && cpus.len() == 2,
            [0, 1].map(|at| cpus.get(at).and_then(|cpus| cpus.first()).copied()),
        ) && machine.shares_last_cache(one, other)
        {
            bench.watch_nearness([one, other]);
        }
        let shares = if same { names.len() } else { 1 };
        match bench.fit(&names, budget, shares) {
            Ok((Foreign(foreign), _)) if !foreign.is_empty() && !foreign_before => {
                foreign_before = true;
                starter.start_again(&mut members, &foreign)?;
            }
            Ok((_, coarse)) => {
                warnings.extend(coarse);
                let settings = &starter.request.settings;
                break measure::measure(&mut bench, &names, &starter.readable, settings);
            }
            Err(BenchError::Interrupted) => return Err(Error::Interrupted(String::new())),
            // It will end again, and be told.
            Err(_) => {
                let settings = &starter.request.settings;
                break measure::measure(&mut bench, &names, &starter.readable, settings);
            }
        }
    };
    let interrupted = measured.interrupted;
    let mut group = starter.document(&members, measured, warnings);
    if !interrupted {
        members.clear();
        last_cache.iter_mut().for_each(LastCache::look);
    }
    group.last_level_cache = last_cache.and_then(|cache| cache.found());
    let held = group.last_level_cache.as_ref().and_then(used_by_others);
    group.warnings.extend(held.iter().map(PairWarning::facts));
    Ok((group, interrupted))
}

fn used_by_others(cache: &LastLevelCache) -> Option<PairWarning> {
    if let Some(kept_percent) = cache
        .kept_percent
        .filter(|_| last_cache::is_replaced(cache))
    {
        return Some(PairWarning::LastCacheReplaced { kept_percent });
    }
    let free_ns = cache.free_ns.filter(|_| last_cache::is_held(cache))?;
    Some(PairWarning::LastCacheHeld {
        access_ns: cache.access_ns,
        free_ns,
    })
}

fn shared_widely(cpus: &[Vec<usize>]) -> Option<PairWarning> {
    let count = cpus.first()?.len();
    (cpus.len() > count).then_some(PairWarning::MoreMembersThanCpus {
        members: cpus.len(),
        cpus: count,
    })
}

fn turn_of(machine: &Machine, cpu: usize) -> Duration {
    let facts = turns::measure(cpu, machine.cpus.len());
    let turn = facts.turn_seconds.value().map(|turn| turn.value);
    turn.map_or(TURN, Duration::from_secs_f64).min(LONGEST_TURN)
}

/// A metric, or why there is none.
type Found = Result<Box<dyn Metric>, String>;

/// Starts the members of a group.
struct Starter<'a> {
    request: &'a mut Request,
    group: &'a GroupRequest,
    cpus: &'a [Vec<usize>],
    /// Of each member that it has a metric, or why not.
    readable: Vec<Result<(), String>>,
}

impl Starter<'_> {
    fn names(&self) -> Vec<String> {
        let members = self.group.members.iter();
        members
            .map(|index| self.request.members[*index].name.clone())
            .collect()
    }

    /// One after another; those that were started before are stopped meanwhile, so
    /// that each metric is chosen by what its target does alone.
    fn start_all(&mut self) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for at in 0..self.group.members.len() {
            self.readable.push(Ok(()));
            members.push(self.member(at)?);
        }
        Ok(members)
    }

    /// Starts those anew whose counters saw others of the same program: now that these
    /// run, each is counted by itself.
    fn start_again(&mut self, members: &mut [Member], foreign: &[usize]) -> Result<()> {
        for member in members.iter_mut() {
            let _ = member.set(false);
        }
        for &at in foreign {
            members[at] = self.member(at)?;
        }
        Ok(())
    }

    /// Member `at`, started and stopped again.
    fn member(&mut self, at: usize) -> Result<Member> {
        let (target, found) = self.start(at)?;
        let (metric, readable) = match found {
            Ok(metric) => (Some(metric), Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        self.readable[at] = readable;
        let mut member = Member::new(at, target, metric);
        // What cannot be stopped is found out again, and told, by the rounds.
        let _ = member.set(false);
        Ok(member)
    }

    /// The target of member `at`, and its metric or why there is none.
    fn start(&mut self, at: usize) -> Result<(Target, Found)> {
        let member = &self.request.members[self.group.members[at]];
        let cpus = (!member.spec.is_attached()).then_some(&self.cpus[at][..]);
        let start = Start {
            metric: member.metric.as_deref(),
            options: self.request.options.clone(),
            load: None,
            cpus,
            interrupt: self.request.interrupt.clone(),
        };
        let started = metric::start_warm(&member.spec, start.clone(), |_| Ok(()));
        let started = match started {
            // What was found before may need a longer run than there is now.
            Err(Error::Environment(_) | Error::Request(_)) if member.found => {
                let anew = Start {
                    metric: None,
                    ..start
                };
                metric::start_warm(&member.spec, anew, |_| Ok(()))
            }
            started => started,
        };
        match started {
            Ok((target, metric)) => {
                // The other placements need not search for it again.
                let found = metric.facts().name;
                let member = &mut self.request.members[self.group.members[at]];
                if matches!(member.spec, TargetSpec::Command(_)) && is_repeatable(&found) {
                    member.found |= member.metric.is_none();
                    member.metric = Some(found);
                }
                Ok((target, Ok(metric)))
            }
            Err(Error::Environment(reason)) => {
                let target = Target::start(&member.spec, cpus, None)?;
                Ok((target, Err(reason)))
            }
            Err(Error::Request(reason)) => {
                let name = &member.name;
                Err(Error::request(format!("{name}: {reason}")))
            }
            Err(other) => Err(other),
        }
    }

    fn document(
        &self,
        members: &[Member],
        measured: Measured,
        mut warnings: Vec<PairWarning>,
    ) -> Group {
        warnings.extend(measured.warnings);
        for (member, name) in members.iter().zip(self.names()) {
            warnings.extend(member.warnings(&name));
        }
        let performances = measured.performances.into_iter();
        let members = members.iter().zip(performances).enumerate();
        let members = members.map(|(at, (member, mut performance))| {
            let request = &self.request.members[self.group.members[at]];
            let target = member.target();
            let metric = match (member.metric(), &self.readable[at]) {
                (Some(metric), _) => {
                    let facts = metric.facts();
                    if let Reading::Value(found) = &mut performance
                        && let Some(apart) = &mut found.apart
                    {
                        let [low, high] = apart.ci95.map(|end| metric.in_unit(end));
                        apart.value = metric.in_unit(apart.value);
                        apart.ci95 = [low.min(high), low.max(high)];
                    }
                    Reading::Value(MemberMetric {
                        name: facts.name,
                        // Here it is always wall time.
                        unit: facts.unit.replace("per CPU second", "per second"),
                        better: facts.direction,
                    })
                }
                (None, Err(reason)) => Reading::unavailable(reason.clone()),
                (None, Ok(())) => Reading::unavailable("it was never read"),
            };
            pairs::Member {
                app: request.name.clone(),
                target: match &request.spec {
                    TargetSpec::Pid(pid) => MemberTarget::Pid(*pid),
                    TargetSpec::Cgroup(spec) => {
                        MemberTarget::Cgroup(spec.directory.display().to_string())
                    }
                    TargetSpec::Command(_) | TargetSpec::Demo { .. } => {
                        MemberTarget::Command(target.command())
                    }
                },
                metric,
                cpus: match request.spec.is_attached() {
                    true => target.cpus().unwrap_or_else(|_| self.cpus[at].clone()),
                    false => self.cpus[at].clone(),
                },
                performance,
                unknown: Default::default(),
            }
        });
        Group {
            placement: self.group.placement,
            members: members.collect(),
            disk_interrupt_cpus: cpulist::online(os::here())
                .ok()
                .and_then(|online| interrupts::of_disks(os::here(), &online)),
            seconds: measured.seconds,
            cache_sharing: measured.cache_sharing,
            last_level_cache: None,
            warnings: warnings.iter().map(PairWarning::facts).collect(),
            recorded_at: None,
            unknown: Default::default(),
        }
    }
}

/// Whether a metric can be asked for by the name that it gives itself.
fn is_repeatable(name: &str) -> bool {
    name.starts_with("progress:uprobe:") || matches!(name, "runs" | "ips" | "progress")
}

/// Groups for each placement of `placements`: all members together.
pub fn groups(
    machine: &Machine,
    members: &[MemberRequest],
    placements: &[GroupPlacement],
    asked: Option<&[usize]>,
) -> Result<Vec<GroupRequest>> {
    let fixed = members.iter().map(|member| member.spec.own_cpus());
    let fixed: Vec<Option<Vec<usize>>> = fixed.collect::<Result<_>>()?;
    let group = |placement: &GroupPlacement| GroupRequest {
        placement: *placement,
        members: (0..members.len()).collect(),
        cpus: place::cpus(machine, *placement, &fixed, asked),
    };
    Ok(placements.iter().map(group).collect())
}
