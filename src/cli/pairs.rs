//! `jostle pairs`: what programs cost each other side by side.

use super::duration::parse_duration;
use super::interrupt;
use super::metric::MetricArgs;
use super::output;
use super::select;
use crate::report;
use crate::report::Style;
use jostle_host::machine::Machine;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::metric::MetricOptions;
use jostle_measure::pairs;
use jostle_measure::pairs::GroupRequest;
use jostle_measure::pairs::MemberRequest;
use jostle_measure::pairs::PairWarning;
use jostle_measure::pairs::Request;
use jostle_measure::pairs::Settings;
use jostle_measure::pairs::place;
use jostle_measure::workload::CommandSpec;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_measure::workload::demo;
use jostle_measure::workload::redact;
use jostle_profile as profile;
use jostle_profile::cpulist::format_list;
use jostle_profile::pairs::GroupPlacement;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const PLACEMENT: &str = "Placement";
const MEASUREMENT: &str = "Measurement";
const RESULT: &str = "Result";

/// Measure how much of its speed each program keeps beside the others
///
/// All programs run in short blocks, together and one at a time, in random order.
/// The performance of a program is its speed together as a fraction of its speed
/// alone.
///
/// Example: jostle pairs 'zip=gzip -c FILE' 'xz -2 -T1 -c FILE'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Two or more programs: [NAME=]COMMAND, pid:PID, cgroup:PATH, container:ID,
    /// unit:NAME, demo:NAME, or profile:FILE for the command and the metric of a
    /// profile. A command that ends is started again
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    targets: Vec<String>,

    /// All on the same CPU, one by default
    #[arg(help_heading = PLACEMENT, long)]
    same_cpu: bool,
    /// Each with a CPU of its own, under one last-level cache
    #[arg(help_heading = PLACEMENT, long)]
    same_llc: bool,
    /// Each with a CPU of its own, as far apart as there are
    /// [default: --same-cpu, and what else differs on this machine]
    #[arg(help_heading = PLACEMENT, long)]
    own_cpus: bool,
    /// CPUs the programs are given, like 0-2,5: all of them to all, or dealt out
    #[arg(help_heading = PLACEMENT, long, value_name = "LIST")]
    cpus: Option<String>,

    #[command(flatten)]
    metric: MetricArgs,
    /// The metric of one program; may be repeated
    #[arg(help_heading = "Metric", long, value_name = "NAME=METRIC")]
    metric_of: Vec<String>,

    /// Longest time for the blocks of a placement
    #[arg(help_heading = MEASUREMENT, long, value_parser = parse_duration, value_name = "TIME", default_value = "10s")]
    budget: Duration,
    /// Percentage points of the 95 % intervals' half-width that end it early
    #[arg(help_heading = MEASUREMENT, long, value_name = "POINTS", default_value_t = 1.5)]
    half_width: f64,
    /// Decides the order of the blocks and the resampling
    #[arg(help_heading = MEASUREMENT, long, default_value_t = 1)]
    seed: u64,
    /// Directory the commands run in [default: here]
    #[arg(help_heading = MEASUREMENT, long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Pass on what the commands print, to standard error
    #[arg(help_heading = MEASUREMENT, long)]
    show_output: bool,

    /// Where to write the result [default: it is only printed]
    #[arg(help_heading = RESULT, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the result as JSON instead of the table
    #[arg(help_heading = RESULT, long)]
    json: bool,
    /// Show what would run where, and stop
    #[arg(help_heading = RESULT, long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    let request = request(&args, &machine, interrupt)?;
    if args.dry_run {
        return output::text(&plan(&request));
    }
    let out = args.out.as_deref();
    let out = out.map(|path| output::Destination::named("--out", path));
    let out = out.transpose()?;
    for group in &request.groups {
        if let Err(reason) = &group.cpus {
            let reason = reason.clone();
            let placement = group.placement;
            warning!("{}", PairWarning::PlacementImpossible { placement, reason });
        }
    }
    let budget = request.settings.budget.as_secs_f64();
    let mut tell = |group: &str| note!("{group}, {budget:.0} s at most");
    let (document, interrupted) = pairs::run(&machine, request, &mut tell)?;
    if let Some(out) = out {
        let text = profile::layout::json(&document).map_err(Error::environment)?;
        out.replace(text.as_bytes())?;
    }
    match args.json {
        true => output::json(&document)?,
        false => output::text(&report::pairs_table(&document, Style::for_stdout()))?,
    }
    if let Some(path) = &args.out {
        note!("wrote {}", path.display());
    }
    match interrupted {
        true => Err(Error::Interrupted(
            "; what was measured until then is above".into(),
        )),
        false => Ok(()),
    }
}

fn request(args: &Args, machine: &Machine, interrupt: Arc<AtomicBool>) -> Result<Request> {
    if args.budget < Duration::from_secs(1) {
        return Err(Error::request(
            "--budget: less than 1 s is not enough to measure anything; 10s is the default",
        ));
    }
    let half_width = select::percent("--half-width", args.half_width, 0.05, 50.0)? / 100.0;
    let mut members = Vec::new();
    let how = How {
        metric: args.metric.metric.clone(),
        directory: args.cwd.clone(),
        show_output: args.show_output,
    };
    for target in &args.targets {
        members.push(member(&how, target)?);
    }
    if members.len() < 2 {
        return Err(Error::request(
            "one program has no neighbour: name two or more, each in quotes, for example \
             `jostle pairs 'xz -c FILE' 'gzip -c FILE'`",
        ));
    }
    name_apart(&mut members);
    for entry in &args.metric_of {
        let (name, metric) = select::key_value("--metric-of", entry, "xz=progress:io")?;
        let mut named = members.iter_mut().filter(|member| member.name == name);
        match named.next() {
            Some(member) => member.metric = Some(metric),
            None => {
                let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
                return Err(Error::request(format!(
                    "--metric-of {entry}: no program is called {name}; there are {}",
                    names.join(", ")
                )));
            }
        }
    }
    let asked = args.cpus.as_deref();
    let asked = asked.map(|list| select::allowed("--cpus", list, machine));
    let asked = asked.transpose()?;
    let placements = placements(args);
    let given = !placements.is_empty();
    let placements = match given {
        true => placements,
        false => place::usual(machine),
    };
    let groups = pairs::groups(machine, &members, &placements, asked.as_deref())?;
    let refused = groups.iter().filter_map(|group| {
        let reason = group.cpus.as_ref().err()?;
        Some(format!("--{}: {reason}", group.placement))
    });
    let refused: Vec<String> = refused.collect();
    if given && !refused.is_empty() || refused.len() == groups.len() {
        return Err(Error::request(refused.join("; ")));
    }
    Ok(Request {
        members,
        groups,
        options: MetricOptions {
            choice: args.budget / 2,
            ..args.metric.options()?
        },
        settings: Settings {
            budget: args.budget,
            seed: args.seed,
            half_width,
        },
        calibration: select::calibration(machine, false).0,
        interrupt,
    })
}

fn placements(args: &Args) -> Vec<GroupPlacement> {
    let given = [
        (args.same_cpu, GroupPlacement::SameCpu),
        (args.same_llc, GroupPlacement::SameLlc),
        (args.own_cpus, GroupPlacement::OwnCpus),
    ];
    let given = given.iter().filter(|(given, _)| *given);
    given.map(|(_, placement)| *placement).collect()
}

/// How targets are started and read.
#[derive(Clone, Debug, Default)]
pub(super) struct How {
    pub metric: Option<String>,
    pub directory: Option<PathBuf>,
    pub show_output: bool,
}

/// What `target` names, as in the help of this command.
pub(super) fn member(how: &How, target: &str) -> Result<MemberRequest> {
    let (name, target) = named(target);
    let mut metric = how.metric.clone();
    let (kind, rest) = target.split_once(':').unwrap_or(("", target));
    let (usual, spec) = match kind {
        "pid" => {
            let pid = rest.parse::<i32>().map_err(|_| {
                Error::request(format!(
                    "{target}: give the number of a process, like pid:1234"
                ))
            })?;
            (format!("pid-{pid}"), TargetSpec::Pid(pid))
        }
        "cgroup" | "container" | "unit" => {
            let here = Hierarchies::here();
            let here = here.map_err(|reason| Error::environment(format!("{target}: {reason}")))?;
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let spec = match kind {
                "cgroup" => cgroup::resolve(&here, rest),
                "unit" => cgroup::unit::resolve(&here, rest),
                _ => cgroup::container::resolve(&here, Path::new("/"), home.as_deref(), rest),
            }?;
            (spec.name.clone(), TargetSpec::Cgroup(spec))
        }
        "demo" => {
            let options = Vec::new();
            let name = demo::find(rest)?.name.to_string();
            (format!("demo-{name}"), TargetSpec::Demo { name, options })
        }
        "profile" => {
            let path = Path::new(rest);
            let profile =
                profile::load(path).map_err(|error| Error::request(format!("profile:{error}")))?;
            if profile.workload.command.is_empty() {
                return Err(Error::request(format!(
                    "{target}: it holds no command; name the running process with pid:PID"
                )));
            }
            let secret = |word: &String| word.contains(redact::REDACTED);
            if profile.workload.command.iter().any(secret) {
                return Err(Error::request(format!(
                    "{target}: the secrets of its command were not recorded; give the command \
                     itself"
                )));
            }
            metric.get_or_insert(profile.metric.name);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            (stem.into_owned(), command(how, profile.workload.command))
        }
        _ => {
            let words = words(target)?;
            let program = target.split_whitespace().next().unwrap_or_default();
            let program = Path::new(program).file_name().unwrap_or_default();
            (program.to_string_lossy().into_owned(), command(how, words))
        }
    };
    Ok(MemberRequest {
        name: name.map_or(usual, String::from),
        spec,
        metric,
        found: false,
    })
}

fn command(how: &How, argv: Vec<String>) -> TargetSpec {
    TargetSpec::Command(CommandSpec {
        directory: how.directory.clone(),
        show_output: how.show_output,
        ..CommandSpec::new(argv)
    })
}

/// `NAME=` before a target. A name has a letter in lower case or a digit first:
/// variables that a shell is given rarely have.
fn named(target: &str) -> (Option<&str>, &str) {
    let Some((name, rest)) = target.split_once('=') else {
        return (None, target);
    };
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    match first && name.chars().all(plain) {
        true => (Some(name), rest),
        false => (None, target),
    }
}

/// Characters that a shell reads as something else than themselves.
const SHELL: &str = "|&;<>()$`\\\"'*?[]#~!{}\n";

/// The words of a command; what needs a shell is given to one.
fn words(command: &str) -> Result<Vec<String>> {
    if command.trim().is_empty() {
        return Err(Error::request(
            "an empty target; give a command like 'gzip -c FILE'",
        ));
    }
    // A variable before the program is a matter of shells, too.
    let first = command.split_whitespace().next().unwrap_or_default();
    let shell = command.contains(|c: char| SHELL.contains(c)) || first.contains('=');
    Ok(match shell {
        true => vec!["sh".into(), "-c".into(), command.into()],
        false => command.split_whitespace().map(String::from).collect(),
    })
}

/// Numbers members that have the same name.
pub(super) fn name_apart(members: &mut [MemberRequest]) {
    let names: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    for (at, member) in members.iter_mut().enumerate() {
        let before = names[..at]
            .iter()
            .filter(|name| **name == names[at])
            .count();
        if before > 0 {
            member.name = format!("{}-{}", names[at], before + 1);
        }
    }
}

fn plan(request: &Request) -> String {
    let mut text = String::new();
    for GroupRequest {
        placement,
        members,
        cpus,
    } in &request.groups
    {
        let cpus = match cpus {
            Ok(cpus) => cpus,
            Err(reason) => {
                text += &format!("{placement}: not possible: {reason}\n");
                continue;
            }
        };
        text += &format!(
            "{placement}, {:.0} s at most\n",
            request.settings.budget.as_secs_f64()
        );
        for (index, cpus) in members.iter().zip(cpus) {
            let member = &request.members[*index];
            let what = match &member.spec {
                TargetSpec::Command(command) => command.argv.join(" "),
                TargetSpec::Pid(pid) => format!("process {pid}"),
                TargetSpec::Cgroup(spec) => spec.directory.display().to_string(),
                TargetSpec::Demo { name, .. } => format!("demo {name}"),
            };
            let metric = member.metric.as_deref().unwrap_or("the best available");
            text += &format!(
                "  {} on CPU {}: {what}\n    metric: {metric}\n",
                member.name,
                format_list(cpus)
            );
        }
    }
    text
}
