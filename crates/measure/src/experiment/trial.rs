//! A run of a command before it is measured: how many CPUs it keeps busy.

use super::place;
use super::place::CpuChoice;
use super::place::TargetCpus;
use super::place::WATCHED;
use crate::error::Error;
use crate::error::Result;
use crate::workload::Target;
use crate::workload::TargetSpec;
use crate::workload::activity::Activity;
use jostle_host::machine::Machine;
use jostle_host::machine::quieter;
use jostle_host::machine::quieter::Held;
use jostle_host::os::here;
use jostle_host::os::stat;
use jostle_load::LoadPlan;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Fewest CPUs of which one is left to the sources.
const ENOUGH_CPUS: usize = 3;

/// What a trial run needs.
pub(super) struct Trial<'a> {
    pub machine: &'a Machine,
    pub spec: &'a TargetSpec,
    /// CPUs of the sources.
    pub workers: &'a [usize],
    pub load: Option<&'a LoadPlan>,
    /// The CPU that takes the interrupts of devices, if a device is to be measured.
    pub avoided: Option<usize>,
    pub interrupt: &'a AtomicBool,
}

impl Trial<'_> {
    /// Starts the command, sends the load, watches for a moment and ends both;
    /// the CPUs for as many threads as ran at once.
    ///
    /// # Errors
    /// When the command cannot be started or fails, or does not answer; an
    /// interrupted error.
    pub(super) fn run(&self) -> Result<TargetCpus> {
        let candidates = self.candidates();
        let mut spec = self.spec.clone();
        if let TargetSpec::Command(command) = &mut spec {
            // What it prints is shown when it is measured.
            command.show_output = false;
        }
        let mut target = Target::start(&spec, Some(&candidates), None)?;
        let mut alive = || target.check_alive().map_err(Into::into);
        let load = self.load.map(LoadPlan::for_trial);
        let load = load.map(|load| load.start(self.interrupt, &mut alive));
        let load = load.transpose()?;
        let activity = Activity::watch(WATCHED, || {
            if self.interrupt.load(Relaxed) {
                return Err(Error::Interrupted(" before anything was measured".into()));
            }
            target.keep_running()?;
            Ok(target.scope().processes())
        })?;
        drop(load);
        target.finish();
        let workers = match self.workers == self.machine.allowed_cpus {
            true => &[][..],
            false => self.workers,
        };
        let quiet = Quiet {
            avoided: self.avoided,
            interrupts: stat::interrupts(here()),
            held: quieter::held(self.machine, &candidates),
        };
        let at_once = activity.at_once();
        Ok(self.choose(&candidates, at_once, workers, &quiet))
    }

    /// CPUs that the target may be given: not those that the load comes from.
    fn candidates(&self) -> Vec<usize> {
        let generator = self.load.map_or(&[][..], |load| &load.spec.placement.cpus);
        let allowed = &self.machine.allowed_cpus;
        let mut others = allowed.clone();
        others.retain(|cpu| !generator.contains(cpu));
        match others.is_empty() {
            false => others,
            true => allowed.clone(),
        }
    }

    /// Of `candidates`, for a command of which `at_once` threads ran at once.
    /// `workers` are the CPUs that the sources were given, if they were given
    /// any.
    fn choose(
        &self,
        candidates: &[usize],
        at_once: Option<usize>,
        workers: &[usize],
        quiet: &Quiet,
    ) -> TargetCpus {
        let threads = at_once.unwrap_or(1);
        let all = candidates.len();
        let leaves_one = threads >= all && all >= ENOUGH_CPUS;
        let count = threads.min(if leaves_one { all - 1 } else { all });
        let seen = match at_once {
            Some(1) => "one of its threads ran at a time in a trial run".to_string(),
            Some(threads) => format!("{threads} of its threads ran at once in a trial run"),
            None => "it hardly ran in a trial run".to_string(),
        };
        let why = match (leaves_one, threads > 1 && count == all) {
            _ if threads == 1 => "; devices interrupt it least",
            (true, _) => ", and one CPU is left to the sources",
            (false, true) if self.load.is_some() => ", and the others are left to its load",
            (false, true) => ", and there are no more CPUs",
            _ => "",
        };
        let avoided = if count == 1 { &[][..] } else { workers };
        let without = Quiet {
            avoided: quiet.avoided,
            interrupts: quiet.interrupts.clone(),
            held: Vec::new(),
        };
        let cpus = spread(self.machine, candidates, count, avoided, quiet);
        let usual = spread(self.machine, candidates, count, avoided, &without);
        let looked = count == 1 && cpus != usual;
        let of = |cpu: usize| quiet.held.iter().find(|held| held.cpu == cpu);
        let because = match (of(cpus[0]), of(usual[0])) {
            (Some(best), Some(held)) if looked => {
                format!("{seen}; {}", place::because_freer(best, held))
            }
            _ => format!("{seen}{why}"),
        };
        TargetCpus {
            cpus,
            choice: CpuChoice {
                at_once,
                looked,
                ..CpuChoice::because(because)
            },
        }
    }
}

/// How quiet CPUs are.
struct Quiet {
    /// As in [`Trial`].
    avoided: Option<usize>,
    /// How often devices interrupted each.
    interrupts: Vec<(usize, u64)>,
    /// How much others hold them; those not in here were not looked at.
    held: Vec<Held>,
}

/// `count` of `candidates`, ascending: those that others hold least and devices
/// interrupt least, near each other, on cores of their own, and not on
/// `workers` where others are left.
fn spread(
    machine: &Machine,
    candidates: &[usize],
    count: usize,
    workers: &[usize],
    quiet: &Quiet,
) -> Vec<usize> {
    let noisier = quieter::noisier(&quiet.held);
    let interrupted = |cpu: usize| {
        let found = quiet.interrupts.iter().find(|(id, _)| *id == cpu);
        found.map_or(0, |(_, count)| *count)
    };
    let mut left = candidates.to_vec();
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count && !left.is_empty() {
        let group = chosen.first().map(|&first| machine.llc_group(first));
        let cost = |&cpu: &usize| {
            let siblings = machine.core_siblings(cpu);
            (
                workers.contains(&cpu),
                group.as_ref().is_some_and(|group| !group.contains(&cpu)),
                chosen.iter().any(|other| siblings.contains(other)),
                quiet.avoided == Some(cpu),
                noisier.contains(&cpu),
                interrupted(cpu),
                std::cmp::Reverse(cpu),
            )
        };
        let best = left.iter().copied().min_by_key(cost);
        left.retain(|&cpu| Some(cpu) != best);
        chosen.extend(best);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::place::before_trial;
    use super::*;
    use jostle_host::machine::fake;
    use jostle_load::Drive;
    use jostle_load::LoadSpec;
    use jostle_load::Pace;

    fn chosen(
        machine: &Machine,
        at_once: Option<usize>,
        workers: &[usize],
        load: Option<&LoadPlan>,
    ) -> (Vec<usize>, String) {
        beside(machine, at_once, workers, load, &[])
    }

    fn beside(
        machine: &Machine,
        at_once: Option<usize>,
        workers: &[usize],
        load: Option<&LoadPlan>,
        held: &[Held],
    ) -> (Vec<usize>, String) {
        within(machine, at_once, (workers, load), held, None)
    }

    fn within(
        machine: &Machine,
        at_once: Option<usize>,
        (workers, load): (&[usize], Option<&LoadPlan>),
        held: &[Held],
        avoided: Option<usize>,
    ) -> (Vec<usize>, String) {
        let trial = Trial {
            machine,
            spec: &TargetSpec::Pid(1),
            workers,
            load,
            avoided,
            interrupt: &AtomicBool::new(false),
        };
        let quiet = Quiet {
            avoided,
            interrupts: vec![(0, 900), (1, 10)],
            held: held.to_vec(),
        };
        let found = trial.choose(&trial.candidates(), at_once, workers, &quiet);
        (found.cpus, found.choice.because)
    }

    fn command(machine: &Machine, threads: usize, workers: &[usize]) -> (Vec<usize>, String) {
        chosen(machine, Some(threads), workers, None)
    }

    #[test]
    fn one_busy_thread_has_one_quiet_cpu() {
        let machine = fake::cores(2, 1);
        let (cpus, because) = command(&machine, 1, &[]);
        assert_eq!(cpus, [1]);
        assert!(because.contains("one of its threads"), "{because}");
        // Whatever is left to the sources.
        assert_eq!(command(&machine, 1, &[1]).0, [1]);
        let (cpus, because) = chosen(&machine, None, &[], None);
        assert_eq!(cpus, [1]);
        assert!(because.contains("hardly ran"), "{because}");
    }

    #[test]
    fn a_cpu_that_others_hold_is_left_to_the_sources() {
        let machine = fake::cores(4, 1);
        let held = [(0, 0.0), (1, 0.6), (2, 0.1), (3, 0.5)];
        let held = held.map(|(cpu, share)| Held { cpu, share });
        let (cpus, because) = beside(&machine, Some(1), &[], None, &held);
        assert_eq!(cpus, [2]);
        assert!(because.contains("CPU 3 in 50 %"), "{because}");
        let (cpus, because) = beside(&machine, Some(2), &[], None, &held);
        assert_eq!(cpus, [0, 2]);
        assert!(!because.contains("looks"), "{because}");
        // Of four busy threads, one leaves its CPU, the noisiest, to the sources.
        assert_eq!(beside(&machine, Some(4), &[], None, &held).0, [0, 2, 3]);
        // The least used CPU takes the interrupts of the disk that is to be measured.
        let found = |avoided| within(&machine, Some(1), (&[], None), &held, avoided).0;
        assert_eq!((found(None), found(Some(2))), (vec![2], vec![0]));
        let free = held.map(|held| Held { share: 0.2, ..held });
        let (cpus, because) = beside(&machine, Some(1), &[], None, &free);
        assert_eq!(cpus, [3]);
        assert!(because.contains("interrupt"), "{because}");
    }

    #[test]
    fn the_load_keeps_its_cpu() {
        let load = |cpu| {
            let mut spec = LoadSpec::new("http://127.0.0.1:1/".parse().unwrap());
            spec.placement.cpus = vec![cpu];
            LoadPlan {
                spec,
                drive: Drive::Pace(Pace::Closed),
            }
        };
        let four = fake::cores(4, 1);
        let loaded = |threads| chosen(&four, Some(threads), &[], Some(&load(3)));
        assert_eq!(loaded(1).0, [2]);
        assert_eq!(loaded(2).0, [1, 2]);
        // One for the load, one for the sources.
        assert_eq!(loaded(4).0, [1, 2]);
        let three = fake::cores(3, 1);
        let (cpus, because) = chosen(&three, Some(4), &[], Some(&load(2)));
        assert_eq!(cpus, [0, 1]);
        assert!(because.contains("its load"), "{because}");
        assert!(!before_trial(&fake::cores(2, 1), true).unwrap().choice.trial);
        assert!(before_trial(&three, true).unwrap().choice.trial);
    }

    #[test]
    fn several_have_as_many_and_leave_one_where_two_remain() {
        let four = fake::cores(4, 1);
        // CPU 0 takes most interrupts.
        assert_eq!(command(&four, 2, &[]).0, [2, 3]);
        assert_eq!(command(&four, 3, &[]).0, [1, 2, 3]);
        let (cpus, because) = command(&four, 9, &[]);
        assert_eq!(cpus, [1, 2, 3]);
        assert!(because.contains("9 of its threads") && because.contains("left to the sources"));
        assert_eq!(command(&fake::cores(3, 1), 3, &[]).0, [1, 2]);
        let (cpus, because) = command(&fake::cores(2, 1), 2, &[]);
        assert_eq!(cpus, [0, 1]);
        assert!(because.contains("no more CPUs"), "{because}");
        assert_eq!(command(&fake::cores(1, 1), 5, &[]).0, [0]);
    }

    #[test]
    fn threads_have_cores_of_their_own_as_long_as_there_are_any() {
        // CPUs n and n + 4 share a core.
        let machine = fake::cores(4, 2);
        assert_eq!(command(&machine, 2, &[]).0, [6, 7]);
        assert_eq!(command(&machine, 4, &[]).0, [4, 5, 6, 7]);
        assert_eq!(command(&machine, 5, &[]).0, [3, 4, 5, 6, 7]);
        assert_eq!(
            command(&machine, 2, &[6, 7]).0,
            [4, 5],
            "kept for the sources"
        );
    }
}
