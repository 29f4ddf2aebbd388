//! `jostle blame`: who slows a program, by experiment.

use super::duration::parse_duration;
use super::interrupt;
use super::metric::MetricArgs;
use super::output;
use super::select;
use super::target::TargetArgs;
use crate::report;
use crate::report::Style;
use jostle_host::machine::Machine;
use jostle_host::sys::only_one::OnlyOne;
use jostle_measure::blame;
use jostle_measure::blame::Candidates;
use jostle_measure::blame::Listed;
use jostle_measure::blame::Protect;
use jostle_measure::blame::Request;
use jostle_measure::blame::Settings;
use jostle_measure::blame::Suspect;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::TargetSpec;
use jostle_measure::workload::cgroup;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_profile as profile;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CANDIDATES: &str = "Candidates";
const MEASUREMENT: &str = "Measurement";
const RESULT: &str = "Result";

/// Find out who slows a program, by pausing the others for milliseconds
///
/// Without --candidate nobody is paused: everybody is watched for a moment, and
/// those who could be tried are listed. With it, candidates are paused for a few
/// milliseconds at a time, in random order, while the program's progress is read;
/// what it gains is what they cost it.
///
/// Examples:
///   jostle blame --pid 4711
///   jostle blame --pid 4711 --candidate pid:4712 --candidate cgroup:/batch
///   jostle blame --candidate auto --protect postgres -- gzip -c FILE
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,

    /// Who may be paused: pid:PID, cgroup:PATH, container:ID, unit:NAME, or auto
    /// for everybody who uses the machine noticeably; may be repeated
    /// [default: nobody]
    #[arg(help_heading = CANDIDATES, long = "candidate", alias = "candidates", value_name = "WHO")]
    candidates: Vec<String>,
    /// Never paused, besides what keeps the machine going: the name of a process,
    /// pid:PID, cgroup:PATH, container:ID or unit:NAME; may be repeated
    #[arg(help_heading = CANDIDATES, long, value_name = "WHO")]
    protect: Vec<String>,
    /// Most of its time that a candidate may stand still, percent
    #[arg(help_heading = CANDIDATES, long, value_name = "PERCENT", default_value_t = 1.0)]
    max_pause: f64,
    /// Length of a pause, 1ms to 100ms
    #[arg(help_heading = CANDIDATES, long, value_parser = parse_duration, value_name = "TIME", default_value = "5ms")]
    pause: Duration,

    #[command(flatten)]
    metric: MetricArgs,

    /// Longest time for the pauses
    #[arg(help_heading = MEASUREMENT, long, value_parser = parse_duration, value_name = "TIME", default_value = "60s")]
    budget: Duration,
    /// Time to watch everybody before anybody is paused
    #[arg(help_heading = MEASUREMENT, long, value_parser = parse_duration, value_name = "TIME", default_value = "3s")]
    look: Duration,
    /// Slowdown that counts as none, percent
    #[arg(help_heading = MEASUREMENT, long, value_name = "PERCENT", default_value_t = 1.0)]
    least: f64,
    /// Percentage points of the 95 % intervals' half-width that end it early
    #[arg(help_heading = MEASUREMENT, long, value_name = "POINTS", default_value_t = 2.0)]
    half_width: f64,
    /// Decides the order of the pauses and the resampling
    #[arg(help_heading = MEASUREMENT, long, default_value_t = 1)]
    seed: u64,

    /// Where to write the result [default: it is only printed]
    #[arg(help_heading = RESULT, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the result as JSON instead of the table
    #[arg(help_heading = RESULT, long)]
    json: bool,
    /// Show who would be paused and who not, and stop
    #[arg(help_heading = RESULT, long)]
    dry_run: bool,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    let request = request(&args, &machine, interrupt)?;
    if args.dry_run {
        request.victim.check()?;
        let listed = blame::list(&machine, &request)?;
        return output::text(&plan(&request, &listed));
    }
    let out = args.out.as_deref();
    let out = out.map(|path| output::Destination::named("--out", path));
    let out = out.transpose()?;
    let _others_wait = OnlyOne::join();
    let document = blame::run(&machine, &request, &mut |text| note!("{text}"))?;
    if let Some(out) = out {
        let text = profile::layout::json(&document).map_err(Error::environment)?;
        out.replace(text.as_bytes())?;
    }
    match args.json {
        true => output::json(&document)?,
        false => output::text(&report::blame_page(&document, Style::for_stdout()))?,
    }
    if let Some(path) = &args.out {
        note!("wrote {}", path.display());
    }
    match document.partial {
        true => Err(Error::Interrupted(
            "; what was measured until then is above".into(),
        )),
        false => Ok(()),
    }
}

fn request(args: &Args, machine: &Machine, interrupt: Arc<AtomicBool>) -> Result<Request> {
    let between = |flag: &str, given: Duration, low: Duration, high: Duration| match (low..=high)
        .contains(&given)
    {
        true => Ok(given),
        false => Err(Error::request(format!(
            "{flag} {given:?}: give a time from {low:?} to {high:?}"
        ))),
    };
    let ms = Duration::from_millis;
    let pause = between("--pause", args.pause, ms(1), ms(100))?;
    let budget = between("--budget", args.budget, ms(1000), ms(86_400_000))?;
    let look = between("--look", args.look, ms(1000), ms(600_000))?;
    let victim = args
        .target
        .spec(&select::LimitArgs::default().resolve(machine, None)?)?;
    let cpus = match victim.is_attached() {
        true => None,
        false => Some(args.target.cpus(machine, &victim, false)?.cpus),
    };
    Ok(Request {
        victim,
        metric: args.metric.metric.clone(),
        options: MetricOptions {
            choice: budget / 2,
            ..args.metric.options()?
        },
        cpus,
        candidates: candidates(&args.candidates)?,
        protect: protect(&args.protect)?,
        look,
        settings: Settings {
            budget,
            seed: args.seed,
            pause,
            max_pause: select::percent("--max-pause", args.max_pause, 0.01, 50.0)? / 100.0,
            half_width: select::percent("--half-width", args.half_width, 0.05, 50.0)? / 100.0,
            least: select::percent("--least", args.least, 0.0, 90.0)? / 100.0,
        },
        interrupt,
    })
}

fn candidates(given: &[String]) -> Result<Candidates> {
    if given.is_empty() {
        return Ok(Candidates::Observe);
    }
    if given.iter().any(|it| it == "auto") {
        return match given.len() {
            1 => Ok(Candidates::Auto),
            _ => Err(Error::request(
                "--candidate auto: it finds the candidates by itself; leave the others out",
            )),
        };
    }
    let mut found: Vec<Suspect> = Vec::new();
    for text in given {
        let spec = attached("--candidate", text)?;
        let Some(spec) = spec else {
            return Err(Error::request(format!(
                "--candidate {text}: give pid:PID, cgroup:PATH, container:ID, unit:NAME or auto"
            )));
        };
        if found.iter().any(|other| other.spec == spec) {
            return Err(Error::request(format!(
                "--candidate {text}: it is named twice"
            )));
        }
        let name = match &spec {
            TargetSpec::Pid(pid) => blame::process_name(*pid),
            TargetSpec::Cgroup(cgroup) => cgroup.name.clone(),
            TargetSpec::Command(_) | TargetSpec::Demo { .. } => text.clone(),
        };
        found.push(Suspect { name, spec });
    }
    Ok(Candidates::These(found))
}

fn protect(given: &[String]) -> Result<Protect> {
    let mut protect = Protect::default();
    for text in given {
        match attached("--protect", text)? {
            Some(TargetSpec::Pid(pid)) => protect.processes.push(pid),
            Some(TargetSpec::Cgroup(spec)) => protect.cgroups.push(spec.directory),
            _ => protect.names.push(text.clone()),
        }
    }
    Ok(protect)
}

/// What `KIND:REST` names; `None` for a text without a kind.
fn attached(flag: &str, text: &str) -> Result<Option<TargetSpec>> {
    let Some((kind, rest)) = text.split_once(':') else {
        return Ok(None);
    };
    if kind == "pid" {
        let pid = rest.parse::<i32>().ok().filter(|pid| *pid > 0);
        return pid.map(TargetSpec::Pid).map(Some).ok_or_else(|| {
            Error::request(format!(
                "{flag} {text}: give the number of a process, like pid:1234"
            ))
        });
    }
    if !matches!(kind, "cgroup" | "container" | "unit") {
        return Ok(None);
    }
    let here = Hierarchies::here();
    let here = here.map_err(|reason| Error::environment(format!("{flag} {text}: {reason}")))?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let spec = match kind {
        "cgroup" => cgroup::resolve(&here, rest),
        "unit" => cgroup::unit::resolve(&here, rest),
        _ => cgroup::container::resolve(&here, Path::new("/"), home.as_deref(), rest),
    };
    let spec = spec.map_err(|error| Error::request(format!("{flag} {text}: {error}")))?;
    Ok(Some(TargetSpec::Cgroup(spec)))
}

fn plan(request: &Request, listed: &Listed) -> String {
    let settings = &request.settings;
    let mut text = match request.candidates {
        Candidates::Observe => "nobody would be paused; these could be tried\n".to_string(),
        _ => format!(
            "each paused for {:?} at a time, {} % of its time at most, for {:.0} s at most\n",
            settings.pause,
            100.0 * settings.max_pause,
            settings.budget.as_secs_f64()
        ),
    };
    for suspect in &listed.suspects {
        text += &format!("  {} ({})", suspect.name, blame::shown(suspect));
        if let Some(how) = suspect.spec.describe() {
            text += &format!(": {how}");
        }
        text += "\n";
    }
    if listed.suspects.is_empty() {
        text += "  nobody\n";
    }
    if !listed.excluded.is_empty() {
        text += "never paused\n";
    }
    for it in &listed.excluded {
        text += &format!("  {} (pid {}): {}\n", it.name, it.pid, it.reason);
    }
    text
}
