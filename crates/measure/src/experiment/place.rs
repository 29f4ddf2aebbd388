//! Which CPUs the target has, and why these.
//!
//! A command that was given none has one quiet CPU if one of its threads runs
//! at a time, and else as many CPUs as threads run at once; a trial run tells.
//! Quiet is a CPU that others hold least in a look of a fraction of a second,
//! and of equals the one that devices interrupt least.
//! What was running before us stays where it is: the CPUs that its busiest
//! threads run on are taken for its own.

use crate::error::Error;
use crate::error::Result;
use crate::workload::Scope;
use crate::workload::TargetSpec;
use crate::workload::activity;
use crate::workload::activity::Activity;
use jostle_host::machine::Machine;
use jostle_host::machine::quieter;
use jostle_host::machine::quieter::Held;
use jostle_host::os::here;
use jostle_host::os::stat;
use jostle_host::sys::cpus;
use jostle_profile::cpulist::format_list;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use std::time::Duration;

/// How long a command is watched in a trial run, and what runs already.
pub(super) const WATCHED: Duration = Duration::from_millis(500);
/// Most CPUs that sources follow an unpinned target to.
const MOST_REACH: usize = 8;

/// CPUs taken for the target's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCpus {
    /// Ascending.
    pub cpus: Vec<usize>,
    pub choice: CpuChoice,
}

/// How the target's CPUs were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuChoice {
    /// Why these, in words.
    pub because: String,
    /// Whether somebody named them.
    pub asked: bool,
    /// Whether a trial run of the command is still to decide.
    pub trial: bool,
    /// CPUs that would do as well: a look at how much others hold them is still
    /// to decide. Empty where it is decided.
    pub open: Vec<usize>,
    /// Whether such a look changed the choice.
    pub looked: bool,
    /// Threads that were seen to run at once; `None` where nobody looked.
    pub at_once: Option<usize>,
    /// Where the scheduler may move the target, its CPUs included; empty where
    /// it keeps to them.
    pub reach: Vec<usize>,
    /// How to keep a target where it is that may be moved.
    pub advice: Option<String>,
}

impl CpuChoice {
    pub(super) fn because(because: impl Into<String>) -> CpuChoice {
        CpuChoice {
            because: because.into(),
            asked: false,
            trial: false,
            open: Vec::new(),
            looked: false,
            at_once: None,
            reach: Vec::new(),
            advice: None,
        }
    }

    /// Of the CPUs that a measurement began on.
    pub(super) fn resumed() -> CpuChoice {
        CpuChoice::because("those of the first part")
    }

    /// Keeps sources from following the target to `cpus`, where the load comes
    /// from: requests that leave late would read as answered late.
    pub fn leave(&mut self, cpus: &[usize]) {
        self.reach.retain(|cpu| !cpus.contains(cpu));
    }

    /// Of CPUs that somebody named, with `flag`.
    pub fn asked(flag: &str) -> CpuChoice {
        CpuChoice {
            asked: true,
            ..CpuChoice::because(format!("asked for with {flag}"))
        }
    }
}

/// One quiet CPU of those allowed, because of `reason`; [`look`] may know a
/// better one.
///
/// # Errors
/// An environment error when no CPU is allowed.
pub fn quiet_cpu(machine: &Machine, reason: &str) -> Result<TargetCpus> {
    let cpu = machine
        .quietest_cpu()
        .ok_or_else(|| Error::environment("no CPU is allowed to this process"))?;
    let mut choice = CpuChoice::because(match machine.allowed_cpus.len() {
        1 => "the only one allowed".to_string(),
        _ => format!("{reason}; devices interrupt it least"),
    });
    if machine.allowed_cpus.len() > 1 {
        choice.open = machine.allowed_cpus.clone();
    }
    Ok(TargetCpus {
        cpus: vec![cpu],
        choice,
    })
}

/// As [`quiet_cpu`], until a trial run knows better. Where the load comes
/// from the only other CPU there is nothing to find out.
///
/// # Errors
/// As [`quiet_cpu`].
pub fn before_trial(machine: &Machine, loaded: bool) -> Result<TargetCpus> {
    let fewest = if loaded { 3 } else { 2 };
    let trial = machine.allowed_cpus.len() >= fewest;
    let reason = match trial {
        true => "unless a trial run shows several busy threads",
        false => "the load comes from the other",
    };
    let mut found = quiet_cpu(machine, reason)?;
    found.choice.trial = trial;
    // The trial run looks itself.
    found.choice.open.clear();
    Ok(found)
}

/// The CPU that takes the interrupts of devices, if `resources` include one of a device.
pub(super) fn serves_devices(resources: &[Resource]) -> Option<usize> {
    let device = |resource: &Resource| {
        let domain = resource.row().domain;
        domain == Domain::BlockDevice || domain == Domain::NetworkDevice
    };
    let measured = resources.iter().any(device);
    measured
        .then(|| quieter::serves_devices(&stat::interrupts(here())))
        .flatten()
}

/// Looks which CPU of `choice.open` others hold least, and takes that one where
/// `cpus` is held clearly more; never the CPU `avoided` instead of another.
pub(super) fn look(
    machine: &Machine,
    avoided: Option<usize>,
    cpus: &mut Vec<usize>,
    choice: &mut CpuChoice,
) {
    let mut open = std::mem::take(&mut choice.open);
    open.retain(|cpu| avoided != Some(*cpu));
    decide(&quieter::held(machine, &open), cpus, choice);
}

fn decide(found: &[Held], cpus: &mut Vec<usize>, choice: &mut CpuChoice) {
    let noisier = quieter::noisier(found);
    let share = |cpu: usize| found.iter().find(|held| held.cpu == cpu);
    let [chosen] = cpus[..] else { return };
    let Some(held) = share(chosen).filter(|_| noisier.contains(&chosen)) else {
        return;
    };
    let Some(best) = found.iter().min_by(|a, b| a.share.total_cmp(&b.share)) else {
        return;
    };
    choice.because = because_freer(best, held);
    choice.looked = true;
    *cpus = vec![best.cpu];
}

/// Why `best` and not `held`.
pub(super) fn because_freer(best: &Held, held: &Held) -> String {
    format!(
        "others used it or its caches in {:.0} % of the looks at it, and CPU {} in {:.0} %",
        100.0 * best.share,
        held.cpu,
        100.0 * held.share
    )
}

/// CPUs of what runs already: watches its threads for a moment. `within` are
/// those that it and we may run on.
pub fn watched(
    machine: &Machine,
    spec: &TargetSpec,
    scope: &Scope,
    within: Vec<usize>,
) -> TargetCpus {
    if within.len() == 1 {
        return TargetCpus {
            cpus: within,
            choice: CpuChoice::because("the only one that it and jostle may run on"),
        };
    }
    let processes = || Ok::<_, Error>(scope.processes());
    let activity = Activity::watch(WATCHED, processes).unwrap_or_default();
    let last = activity::last_cpus(here(), &scope.processes());
    let pin = |cpus: &[usize]| how_to_pin(spec, cpus);
    of_running(machine, &activity, &last, within, pin)
}

/// What a user does to keep the target on `cpus`.
pub(super) fn how_to_pin(spec: &TargetSpec, cpus: &[usize]) -> String {
    let list = format_list(cpus);
    let spec = match spec {
        TargetSpec::Pid(pid) => return format!("taskset -acp {list} {pid}"),
        TargetSpec::Command(_) | TargetSpec::Demo { .. } => return format!("--cpus {list}"),
        TargetSpec::Cgroup(spec) => spec,
    };
    match spec.asked.split_once(' ') {
        Some(("--unit", unit)) => {
            format!("systemctl set-property --runtime {unit} AllowedCPUs={list}")
        }
        Some(("--container", container)) => {
            format!("docker update --cpuset-cpus {list} {container}, or what your engine has")
        }
        _ => format!("write {list} to cpuset.cpus of {}", spec.name),
    }
}

/// As [`watched`], from what was seen; `pin` tells how to keep it on some CPUs.
fn of_running(
    machine: &Machine,
    activity: &Activity,
    last: &[(usize, f64)],
    within: Vec<usize>,
    pin: impl Fn(&[usize]) -> String,
) -> TargetCpus {
    let at_once = activity.at_once();
    let mut seen = activity.cpus();
    let asleep = seen.is_empty();
    if asleep {
        seen = last.to_vec();
    }
    seen.retain(|(cpu, _)| within.contains(cpu));
    let count = at_once.unwrap_or(if asleep { seen.len() } else { 1 });
    if seen.is_empty() || count >= within.len() {
        let because = match at_once {
            Some(count) if count > 1 => {
                format!("{count} of its threads ran at once on all that it may run on")
            }
            _ => "all that it may run on".to_string(),
        };
        return TargetCpus {
            cpus: within,
            choice: CpuChoice {
                at_once,
                ..CpuChoice::because(because)
            },
        };
    }
    let share: f64 = seen.iter().take(count).map(|(_, share)| share).sum();
    let mut cpus: Vec<usize> = seen.iter().take(count).map(|(cpu, _)| *cpu).collect();
    cpus.sort_unstable();
    let threads = match count {
        1 => "its busiest thread".to_string(),
        _ => format!("its {count} busiest threads"),
    };
    let because = match asleep {
        true => format!("{threads} ran there last; it hardly ran while it was watched"),
        false => format!("{threads} ran there {:.0} % of the time", share * 100.0),
    };
    // The scheduler looks for an idle CPU among those that share the cache.
    let near: Vec<usize> = cpus
        .iter()
        .flat_map(|&cpu| machine.llc_group(cpu))
        .collect();
    let mut reach = within;
    reach.retain(|cpu| near.contains(cpu) || cpus.contains(cpu));
    let follows = reach.len() <= MOST_REACH;
    let advice = format!(
        "the scheduler may move it {}; to keep it there: {}",
        match follows {
            true => format!("among CPUs {}, which makes it noisier", format_list(&reach)),
            false => "away from the sources beside it, which then look harmless".to_string(),
        },
        pin(&cpus)
    );
    TargetCpus {
        choice: CpuChoice {
            at_once,
            reach: if follows { reach } else { Vec::new() },
            advice: Some(advice),
            ..CpuChoice::because(because)
        },
        cpus,
    }
}

/// Keeps this process off the target's CPUs where there are others.
pub fn stay_away(machine: &Machine, target_cpus: &[usize]) {
    let mut others = machine.allowed_cpus.clone();
    others.retain(|cpu| !target_cpus.contains(cpu));
    let own = match others.is_empty() {
        false => &others,
        true => &machine.allowed_cpus,
    };
    // Refused only when the CPUs just went away; then nothing is lost.
    let _ = cpus::set_affinity(0, own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::activity::Look;
    use crate::workload::cgroup::CgroupSpec;
    use jostle_host::machine::fake;

    fn running(cpus: &[&[usize]]) -> Activity {
        let look = |cpus: &&[usize]| Look {
            threads: 3,
            running: cpus.to_vec(),
            ..Look::default()
        };
        cpus.iter().map(look).collect()
    }

    fn attached(seen: &[&[usize]], last: &[(usize, f64)], within: &[usize]) -> TargetCpus {
        on(&fake::cores(8, 1), seen, last, within)
    }

    fn on(
        machine: &Machine,
        seen: &[&[usize]],
        last: &[(usize, f64)],
        within: &[usize],
    ) -> TargetCpus {
        of_running(machine, &running(seen), last, within.to_vec(), |cpus| {
            format!("taskset -acp {} 7", format_list(cpus))
        })
    }

    #[test]
    fn a_look_decides_where_one_is_clearly_freer() {
        let of = |share: f64, other: f64| {
            let shares = [(0, other), (3, share)];
            let held = shares.map(|(cpu, share)| Held { cpu, share });
            let mut cpus = vec![3];
            let mut choice = CpuChoice::because("devices");
            decide(&held, &mut cpus, &mut choice);
            (cpus, choice)
        };
        let (cpus, choice) = of(0.4, 0.1);
        assert_eq!((cpus, choice.looked), (vec![0], true));
        assert!(choice.because.contains("CPU 3 in 40 %"), "{choice:?}");
        // Not clearly, or the other way round.
        for (share, other) in [(0.4, 0.3), (0.1, 0.9), (0.0, 0.0)] {
            let (cpus, choice) = of(share, other);
            assert_eq!((cpus, choice.looked), (vec![3], false));
            assert_eq!(choice.because, "devices");
        }
    }

    #[test]
    fn what_runs_already_is_met_where_it_runs() {
        let all: Vec<usize> = (0..8).collect();
        let one: &[usize] = &[5];
        let found = attached(&[one; 20], &[(2, 1.0)], &all);
        assert_eq!(found.cpus, [5]);
        assert!(found.choice.because.contains("100 % of the time"));
        let two: &[usize] = &[6, 1];
        let found = attached(&[two; 20], &[], &all);
        assert_eq!((found.cpus, found.choice.at_once), (vec![1, 6], Some(2)));
        let (here, there): (&[usize], &[usize]) = (&[5], &[2]);
        let seen = [[here; 12].as_slice(), &[there; 8]].concat();
        assert_eq!(attached(&seen, &[], &[0, 2, 5, 7]).cpus, [5]);
    }

    #[test]
    fn sources_follow_an_unpinned_target_where_it_may_be_moved() {
        let one: &[usize] = &[5];
        let found = attached(&[one; 20], &[], &[0, 2, 5, 7]);
        assert_eq!(found.choice.reach, [0, 2, 5, 7]);
        let advice = found.choice.advice.unwrap();
        assert!(advice.contains("taskset -acp 5 7"), "{advice}");
        // Too many to press on all of them.
        let many = fake::cores(32, 1);
        let all: Vec<usize> = (0..32).collect();
        let found = on(&many, &[one; 20], &[], &all);
        assert_eq!((found.cpus, found.choice.reach), (vec![5], vec![]));
        assert!(found.choice.advice.unwrap().contains("harmless"));
    }

    #[test]
    fn one_that_sleeps_is_met_where_it_ran_last() {
        let found = attached(&[], &[(4, 0.7), (1, 0.3)], &[0, 1, 4]);
        assert_eq!(found.cpus, [1, 4]);
        assert!(found.choice.because.contains("last"));
        // Nothing is known, or all are busy: what its mask says.
        assert_eq!(attached(&[], &[], &[0, 1]).cpus, [0, 1]);
        let three: &[usize] = &[0, 1, 1];
        assert_eq!(attached(&[three; 20], &[], &[0, 1]).cpus, [0, 1]);
        // Seen where we may not go.
        let nine: &[usize] = &[9];
        assert_eq!(attached(&[nine; 20], &[], &[0, 1]).cpus, [0, 1]);
    }
    #[test]
    fn how_a_target_is_pinned_depends_on_what_it_is() {
        let cgroup = |asked: &str| {
            TargetSpec::Cgroup(CgroupSpec {
                directory: "/sys/fs/cgroup/a".into(),
                name: "a".into(),
                asked: asked.into(),
            })
        };
        let cases = [
            (TargetSpec::Pid(7), "taskset -acp 1,3 7"),
            (cgroup("--unit a.service"), "a.service AllowedCPUs=1,3"),
            (cgroup("--container web"), "--cpuset-cpus 1,3 web"),
            (cgroup("--cgroup /a"), "1,3 to cpuset.cpus of a"),
        ];
        for (spec, part) in cases {
            let text = how_to_pin(&spec, &[1, 3]);
            assert!(text.contains(part), "{text}");
        }
    }
}
