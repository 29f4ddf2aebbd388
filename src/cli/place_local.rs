//! `jostle place-local`: which programs of this machine should share a CPU.

use super::duration::parse_duration;
use super::interrupt;
use super::output;
use super::pairs;
use super::pairs::How;
use super::population::population;
use super::select;
use crate::report;
use crate::report::LocalPlan;
use crate::report::LocalProgram;
use crate::report::LocalShare;
use crate::report::Style;
use jostle_host::machine::Machine;
use jostle_host::machine::allocation::Allocation;
use jostle_host::machine::allocation::Group;
use jostle_host::machine::allocation::Share;
use jostle_host::sys::cpus::set_affinity;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::metric::MetricOptions;
use jostle_measure::pairs as beside;
use jostle_measure::pairs::GroupRequest;
use jostle_measure::pairs::MemberRequest;
use jostle_measure::pairs::Settings;
use jostle_measure::pairs::allot::allot;
use jostle_measure::pairs::place;
use jostle_measure::workload::Target;
use jostle_measure::workload::TargetSpec;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::GroupPlacement;
use jostle_profile::reading::Reading;
use jostle_schedule::App;
use jostle_schedule::local;
use jostle_schedule::local::Member;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Below which the kernel's files are.
const ROOT: &str = "/";
/// How often it is looked whether commands have ended.
const LOOK: Duration = Duration::from_millis(200);
/// Passes over the threads of a process, so that those that start meanwhile are seen.
const PASSES: usize = 4;

/// Divide the CPUs of this machine among programs so that they lose least
///
/// Compares, by what the profiles of the programs predict, which of them should share
/// a CPU and which should not, and prints the best division. Nothing is started or
/// moved without --apply.
///
/// Example: jostle place-local --apply xz.json 'web.json=pid:1234'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Two or more programs: PROFILE, for the command that it was recorded with, or
    /// PROFILE=TARGET with a command, pid:PID, cgroup:PATH, container:ID or unit:NAME
    #[arg(required = true, num_args = 1.., value_name = "PROGRAM")]
    programs: Vec<String>,
    /// CPUs to divide, like 0-2,5 [default: all that may be used]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Start the commands on their CPUs and wait until all have ended, and move what
    /// runs already to its CPUs
    #[arg(long)]
    apply: bool,
    /// Measure how much of its speed each program keeps there; commands are started
    /// for that and ended again
    #[arg(long)]
    verify: bool,
    /// Longest time for --verify
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "10s")]
    budget: Duration,
    /// Directory the commands run in [default: here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    population: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

struct Program {
    profile: Profile,
    app: App,
    member: MemberRequest,
}

pub fn run(args: Args) -> Result<()> {
    if args.budget < Duration::from_secs(1) {
        return Err(Error::request(
            "--budget: less than 1 s is not enough to measure anything",
        ));
    }
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    let programs = programs(&args)?;
    let running = |program: &&Program| !is_started(program);
    if args.verify
        && !args.apply
        && let Some(program) = programs.iter().find(running)
    {
        return Err(Error::request(format!(
            "--verify: {} runs already and is not moved without --apply; add --apply",
            program.member.name
        )));
    }
    let asked = args.cpus.as_deref();
    let asked = asked.map(|list| select::allowed("--cpus", list, &machine));
    let asked = asked.transpose()?;
    let cpus = asked.as_ref().unwrap_or(&machine.allowed_cpus).len();
    let members: Vec<Member> = programs
        .iter()
        .map(|program| Member {
            app: &program.app,
            cpus: program.profile.conditions.target_cpus.len().max(1),
        })
        .collect();
    let found = local::search(&members, cpus).ok_or_else(|| {
        let widest = programs
            .iter()
            .zip(&members)
            .max_by_key(|(_, member)| member.cpus);
        let widest = widest.map(|(program, member)| {
            format!(
                "{} was profiled on {} CPUs",
                program.member.name, member.cpus
            )
        });
        Error::request(format!(
            "{}, and there are {cpus} to divide",
            widest.unwrap_or_default()
        ))
    })?;
    let sizes = local::sizes(&members, &found.best.groups);
    let dealt = place::divided(&machine, &sizes, asked.as_deref());
    let dealt = dealt.map_err(Error::environment)?;
    let mut of_program = vec![Vec::new(); programs.len()];
    for (group, cpus) in found.best.groups.iter().zip(&dealt) {
        for index in group {
            of_program[*index].clone_from(cpus);
        }
    }
    let names: Vec<&str> = programs.iter().map(|it| it.member.name.as_str()).collect();
    let mut plan = LocalPlan::of(&names, &of_program, &found, cpus);
    plan.notes = notes(&programs, &machine);
    let shares = shares(&members, &found.best.groups, &dealt, &mut plan);
    let mut kept = Groups::default();
    if args.apply {
        kept = Groups::make(&programs, &found.best.groups, &shares)?;
        for (index, (program, cpus)) in programs.iter().zip(&of_program).enumerate() {
            if !is_started(program) {
                move_there(program, cpus, kept.of(index))?;
            }
        }
    }
    let mut cut = false;
    if args.verify {
        let divided = |program: &LocalProgram| !program.shares.is_empty();
        if plan.programs.iter().any(divided) && programs.iter().any(is_started) {
            let note = "measured without a division of the cache for commands that --verify starts";
            plan.notes.push(note.into());
        }
        cut = verify(
            &args,
            &machine,
            &programs,
            &of_program,
            interrupt.clone(),
            &mut plan,
        )?;
    }
    match args.json {
        true => output::json(&plan)?,
        false => output::text(&report::local_page(&plan, Style::for_stdout()))?,
    }
    if cut {
        return Err(Error::Interrupted(
            "; what was measured until then is above".into(),
        ));
    }
    let done = match args.apply && !args.verify {
        true => run_commands(&programs, &of_program, &kept, &interrupt),
        false => Ok(()),
    };
    kept.end(&programs);
    done
}

/// What each group of programs gets of the caches and the memory of its CPUs, also put
/// into `plan`; empty where nothing is divided.
fn shares(
    members: &[Member],
    groups: &[Vec<usize>],
    dealt: &[Vec<usize>],
    plan: &mut LocalPlan,
) -> Vec<Vec<Share>> {
    let root = Path::new(ROOT);
    let found = Allocation::read(root).and_then(|allocation| {
        let shares = allot(&allocation, members, groups, dealt)?;
        Ok((allocation.ways, shares))
    });
    let (ways, shares) = match found {
        Ok(found) => found,
        Err(reason) => {
            plan.cache_ways = Reading::unavailable(reason);
            return Vec::new();
        }
    };
    plan.cache_ways = Reading::Value(ways);
    let told = |share: &Share| LocalShare {
        cache: share.cache,
        ways: share.ways.map(|mask| mask.count_ones() as usize),
        mask: share.ways.map(|mask| format!("{mask:x}")),
        bandwidth_percent: share.bandwidth,
    };
    for (group, shares) in groups.iter().zip(&shares) {
        for index in group {
            plan.programs[*index].shares = shares.iter().map(told).collect();
        }
    }
    shares
}

/// The kernel's groups that hold the programs to their shares.
#[derive(Default)]
struct Groups {
    /// Each with the programs in it, by index.
    made: Vec<(Group, Vec<usize>)>,
}

impl Groups {
    fn make(programs: &[Program], groups: &[Vec<usize>], shares: &[Vec<Share>]) -> Result<Groups> {
        let mut kept = Groups::default();
        for (group, shares) in groups.iter().zip(shares) {
            if shares.is_empty() {
                continue;
            }
            let names: Vec<&str> = group
                .iter()
                .map(|index| programs[*index].member.name.as_str())
                .collect();
            match Group::make(Path::new(ROOT), &names.join("+"), shares) {
                Ok(made) => kept.made.push((made, group.clone())),
                Err(problem) => {
                    kept.end(&[]);
                    return Err(Error::environment(problem));
                }
            }
        }
        Ok(kept)
    }

    fn of(&self, index: usize) -> Option<&Group> {
        let mut made = self.made.iter();
        let found = made.find(|(_, members)| members.contains(&index));
        found.map(|(group, _)| group)
    }

    /// Removes the groups, but for those with programs in them that run on.
    fn end(self, programs: &[Program]) {
        for (group, members) in self.made {
            let stays = |index: &usize| programs.get(*index).is_some_and(|it| !is_started(it));
            if members.iter().any(stays) {
                let path = group.path().display();
                note!("{path} holds them to their share; rmdir {path} ends that");
                continue;
            }
            let path = group.path().to_path_buf();
            if let Err(error) = group.remove() {
                warning!("{} cannot be removed: {error}", path.display());
            }
        }
    }
}

/// Whether it is for us to start it.
fn is_started(program: &Program) -> bool {
    let spec = &program.member.spec;
    matches!(spec, TargetSpec::Command(_) | TargetSpec::Demo { .. })
}

fn programs(args: &Args) -> Result<Vec<Program>> {
    let population = population(args.population.as_deref())?;
    let how = How {
        metric: None,
        directory: args.cwd.clone(),
        show_output: args.apply && !args.verify,
    };
    let mut programs = Vec::new();
    for text in &args.programs {
        let (file, target) = match text.split_once('=') {
            Some((file, target)) if !Path::new(text).exists() => (file, Some(target)),
            _ => (text.as_str(), None),
        };
        let profile = profile::load(Path::new(file)).map_err(Error::request)?;
        let app = App::completed(&profile, &population);
        let mut member = match target {
            Some(target) => pairs::member(&how, target)?,
            None => pairs::member(&how, &format!("profile:{file}"))?,
        };
        let stem = Path::new(file).file_stem().unwrap_or_default();
        member.name = stem.to_string_lossy().into_owned();
        programs.push(Program {
            profile,
            app,
            member,
        });
    }
    let mut members: Vec<MemberRequest> = programs.iter().map(|it| it.member.clone()).collect();
    pairs::name_apart(&mut members);
    for (program, member) in programs.iter_mut().zip(members) {
        program.member = member;
    }
    if programs.len() < 2 {
        return Err(Error::request(
            "one program has nobody to share CPUs with: name two or more profiles",
        ));
    }
    Ok(programs)
}

/// What the reader should know before believing the numbers.
fn notes(programs: &[Program], machine: &Machine) -> Vec<String> {
    let here = machine.facts().fingerprint;
    let elsewhere = programs
        .iter()
        .filter(|program| program.profile.machine.fingerprint != here)
        .map(|program| program.member.name.as_str());
    let elsewhere: Vec<&str> = elsewhere.collect();
    if elsewhere.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "profiled on another machine than this one: {}; what they lose here may differ",
        elsewhere.join(", ")
    )]
}

/// Lets a running program use `cpus` alone, with all its threads.
fn move_there(program: &Program, cpus: &[usize], group: Option<&Group>) -> Result<()> {
    let target = Target::start(&program.member.spec, None, None)?;
    let before = target.cpus()?;
    let mut moved = 0;
    for _ in 0..PASSES {
        moved = 0;
        for thread in target.scope().threads() {
            held_to(group, thread)?;
            match set_affinity(thread, cpus) {
                Ok(()) => moved += 1,
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
                Err(error) => {
                    return Err(Error::environment(format!(
                        "{}: thread {thread} cannot be moved to CPU {}: {error}",
                        program.member.name,
                        format_list(cpus)
                    )));
                }
            }
        }
    }
    note!(
        "{}: {moved} threads moved to CPU {} (before: {})",
        program.member.name,
        format_list(cpus),
        format_list(&before)
    );
    Ok(())
}

/// Puts a thread into the `group` that its program belongs to, if there is one.
fn held_to(group: Option<&Group>, thread: i32) -> Result<()> {
    let taken = group.map_or(Ok(()), |group| group.take(thread));
    taken.map_err(Error::environment)
}

/// Measures the programs where they are placed; whether that was interrupted.
fn verify(
    args: &Args,
    machine: &Machine,
    programs: &[Program],
    cpus: &[Vec<usize>],
    interrupt: Arc<AtomicBool>,
    plan: &mut LocalPlan,
) -> Result<bool> {
    let shared = plan
        .programs
        .iter()
        .any(|program| !program.shares_with.is_empty());
    let request = beside::Request {
        members: programs.iter().map(|it| it.member.clone()).collect(),
        groups: vec![GroupRequest {
            placement: match shared {
                true => GroupPlacement::SameCpu,
                false => GroupPlacement::OwnCpus,
            },
            members: (0..programs.len()).collect(),
            cpus: Ok(cpus.to_vec()),
        }],
        options: MetricOptions {
            choice: args.budget / 2,
            ..MetricOptions::default()
        },
        settings: Settings {
            budget: args.budget,
            seed: 1,
            half_width: 0.015,
        },
        calibration: None,
        interrupt,
    };
    let budget = args.budget.as_secs_f64();
    let mut tell = |_: &str| note!("measuring them there, {budget:.0} s at most");
    let (measured, cut) = beside::run(machine, request, &mut tell)?;
    if let Some(group) = measured.groups.first() {
        for it in &group.warnings {
            warning!("{}", it.message);
        }
        for (program, member) in plan.programs.iter_mut().zip(&group.members) {
            program.measured = Some(member.performance.clone());
        }
    }
    Ok(cut)
}

/// Runs the commands on their CPUs until all have ended.
fn run_commands(
    programs: &[Program],
    cpus: &[Vec<usize>],
    groups: &Groups,
    interrupt: &AtomicBool,
) -> Result<()> {
    let mut going: Vec<(&str, Target)> = Vec::new();
    for (index, (program, cpus)) in programs.iter().zip(cpus).enumerate() {
        if is_started(program) {
            let target = Target::start(&program.member.spec, Some(cpus), None)?;
            for thread in target.scope().threads() {
                held_to(groups.of(index), thread)?;
            }
            going.push((&program.member.name, target));
        }
    }
    let mut failed = Vec::new();
    while !going.is_empty() {
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted("; the commands were ended".into()));
        }
        going.retain_mut(|(name, target)| {
            let Some(exit) = target.wait(Duration::ZERO) else {
                return true;
            };
            note!("{name}: {exit}");
            if !exit.success() {
                failed.push(format!("{name}: {exit}"));
            }
            false
        });
        std::thread::sleep(LOOK);
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::Gate(failed.join("; "))),
    }
}
