//! `jostle compare --run`: two builds measured in one session.

use super::duration::parse_duration;
use super::interrupt;
use super::metric::MetricArgs;
use super::output;
use super::select;
use crate::report;
use crate::report::Style;
use jostle_compare::builds::Builds;
use jostle_compare::builds::MARGIN_PERCENT;
use jostle_compare::builds::SpeedCondition;
use jostle_compare::builds::Word;
use jostle_compare::gate::Judgement;
use jostle_host::machine::Machine;
use jostle_measure::builds;
use jostle_measure::builds::Request;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::metric::MetricOptions;
use jostle_measure::workload::CommandSpec;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Two builds (--run)")]
pub struct RunArgs {
    /// Measure two builds instead of reading two profiles: OLD and NEW are commands,
    /// each in quotes. Both are started many times on one CPU, where they alternate
    /// every few milliseconds
    #[arg(long)]
    pub run: bool,
    /// Time for all of it
    #[arg(long, requires = "run", value_parser = parse_duration, value_name = "TIME", default_value = "20s")]
    budget: Duration,
    /// CPUs that both have, like 2 or 2-3 [default: the quietest one]
    #[arg(long, requires = "run", value_name = "LIST")]
    cpu: Option<String>,
    /// Length of a turn [default: 4ms where a count is read, longer where it grows
    /// slowly, 100ms for whole runs]
    #[arg(long, requires = "run", value_parser = parse_duration, value_name = "TIME")]
    turn: Option<Duration>,
    /// Time that does not count after the first progress of a start
    #[arg(long, requires = "run", value_parser = parse_duration, value_name = "TIME", default_value = "30ms")]
    warm_up: Duration,
    /// Directory the commands run in [default: here]
    #[arg(long, requires = "run", value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Leave the commands out of the result
    #[arg(long, requires = "run")]
    no_command: bool,
    /// Pass on what the commands print, to standard error
    #[arg(long, requires = "run")]
    show_output: bool,
    /// Decides the order of the turns
    #[arg(long, requires = "run", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    metric: MetricArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Format {
    Terminal,
    /// For a comment on a pull request
    Markdown,
    Json,
    /// For the test report of a CI system
    Junit,
}

/// What a comparison of builds shares with one of profiles.
pub struct Shared<'a> {
    pub old: &'a Path,
    pub new: &'a Path,
    pub conditions: Vec<SpeedCondition>,
    /// Percent; the usual one where absent.
    pub margin: Option<f64>,
    pub strict: bool,
    pub format: Format,
    pub style: Style,
}

/// Shortest time in which two builds could be started often enough.
const SHORTEST: Duration = Duration::from_secs(2);

pub fn run(args: &RunArgs, shared: Shared) -> Result<()> {
    let machine = Machine::detect();
    let interrupt = interrupt::flag()?;
    if args.budget < SHORTEST {
        return Err(Error::request(
            "--budget: less than 2 s is not enough to start both builds often; 20s is the default",
        ));
    }
    let cpus = match &args.cpu {
        Some(list) => select::allowed("--cpu", list, &machine)?,
        None => machine.quietest_cpu().into_iter().collect(),
    };
    if cpus.is_empty() {
        return Err(Error::environment("no CPU is allowed to this process"));
    }
    let request = Request {
        commands: [
            command(args, "OLD", shared.old)?,
            command(args, "NEW", shared.new)?,
        ],
        metric: args.metric.metric.clone(),
        options: MetricOptions {
            choice: args.budget / 4,
            ..args.metric.options()?
        },
        cpus,
        budget: args.budget,
        turn: args.turn,
        warm_up: args.warm_up,
        margin_percent: shared.margin.unwrap_or(MARGIN_PERCENT),
        conditions: shared.conditions,
        seed: args.seed,
        interrupt,
    };
    let budget = args.budget.as_secs_f64();
    let mut tell = |because: &str| note!("measuring for {budget:.0} s: {because}");
    let (mut builds, interrupted) = builds::run(&machine, &request, &mut tell)?;
    if args.no_command {
        builds.old.clear();
        builds.new.clear();
    }
    match shared.format {
        Format::Terminal => output::text(&report::builds_page(&builds, shared.style)),
        Format::Markdown => output::text(&report::builds_markdown(&builds)),
        Format::Json => output::json(&builds),
        Format::Junit => output::text(&report::builds_junit(&builds, shared.strict)),
    }?;
    match interrupted {
        true => Err(Error::Interrupted(
            "; what was measured until then is above".into(),
        )),
        false => judge(&builds, shared.strict),
    }
}

/// # Errors
/// A gate error where the build is to fail.
fn judge(builds: &Builds, strict: bool) -> Result<()> {
    let of = |outcome: Judgement| {
        builds
            .gate
            .iter()
            .filter(|it| it.outcome == outcome)
            .count()
    };
    let word = builds.verdict.word;
    let (failed, open) = match builds.gate.is_empty() {
        true => (
            usize::from(word == Word::Slower),
            usize::from(word == Word::CannotTell),
        ),
        false => (of(Judgement::Failed), of(Judgement::CannotTell)),
    };
    match (failed, open) {
        (0, 0) => Ok(()),
        (0, _) if !strict => Ok(()),
        (0, _) => Err(Error::Gate(
            "--strict: a change of speed cannot be told from noise".into(),
        )),
        _ if builds.gate.is_empty() => Err(Error::Gate("NEW is slower".into())),
        (failed, _) => Err(Error::Gate(format!("{failed} conditions failed"))),
    }
}

/// Words that mean something to a shell only.
const SHELL: [&str; 12] = [
    "|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>", "<<",
];

/// The words of a command, as a shell splits them; `NAME=VALUE` before the program is
/// added to its environment.
fn command(args: &RunArgs, side: &str, text: &Path) -> Result<CommandSpec> {
    let text = text.to_string_lossy();
    let words = shlex::split(&text).ok_or_else(|| {
        Error::request(format!(
            "{side}: a quote in '{text}' is not closed; quote the whole command once more for your \
             shell, for example './app --name \"a b\"'"
        ))
    })?;
    let is_variable = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(plain)
        })
    };
    let variables = words.iter().take_while(is_variable).count();
    let argv = words[variables..].to_vec();
    if argv.is_empty() {
        return Err(Error::request(format!(
            "{side}: '{text}' names no program; give a command in quotes, for example './app --bench'"
        )));
    }
    if let Some(word) = argv.iter().find(|word| SHELL.contains(&word.as_str())) {
        return Err(Error::request(format!(
            "{side}: '{word}' needs a shell, and the command is started without one; write sh -c \
             \"…\" around it"
        )));
    }
    let environment = words[..variables].iter().filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    });
    Ok(CommandSpec {
        directory: args.cwd.clone(),
        environment: environment.collect(),
        show_output: args.show_output,
        ..CommandSpec::new(argv)
    })
}
