//! `jostle compare`: what changed from one profile to another, or from one build to
//! another.

use super::compare_run;
use super::compare_run::Format;
use super::compare_run::RunArgs;
use super::compare_run::Shared;
use super::output;
use crate::report::Style;
use crate::report::comparison_junit;
use crate::report::comparison_markdown;
use crate::report::comparison_page;
use jostle_compare::Comparison;
use jostle_compare::MARGIN;
use jostle_compare::Settings;
use jostle_compare::Word;
use jostle_compare::builds::SpeedCondition;
use jostle_compare::compare;
use jostle_compare::gate::Condition;
use jostle_compare::gate::Gate;
use jostle_compare::gate::Judgement;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use std::path::PathBuf;
use std::str::FromStr;

/// Compare two profiles or, with --run, two builds, and fail where the new one is worse
///
/// Exit code 1 means a regression that noise does not explain, 0 none or that
/// more measuring is needed to tell (with --strict: 1). Two single profiles tell
/// large changes only; merge several runs of each to see smaller ones.
///
/// Example: jostle compare --run './old --bench' './new --bench'
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profile of the program as it was; with --run its command
    old: PathBuf,
    /// Profile of the program as it is; with --run its command
    new: PathBuf,
    /// Fail only on this; may be repeated. With a sign a change: 'l2-capacity.loss > +5',
    /// without one the new number: '*.tolerated < 20'. There are loss, tolerated,
    /// caused and use; with --run there is 'speed < -1', in percent
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Fail when any resource is tolerated by more than so many points less; with --run
    /// when NEW is more than so many percent slower
    #[arg(long, value_name = "POINTS", value_parser = points)]
    fail_below: Option<f64>,
    /// Fail also when a regression can neither be shown nor ruled out
    #[arg(long)]
    strict: bool,
    /// Changes of up to so many points count as none; percent with --run
    /// [default: 5; 0.5 with --run]
    #[arg(long, value_name = "POINTS", value_parser = points)]
    margin: Option<f64>,
    /// Compare although machine, metric or load differ
    #[arg(long)]
    anyway: bool,
    /// How to print
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,

    #[command(flatten)]
    builds: RunArgs,
}

pub fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if points > 0.0 && points <= 100.0 => Ok(points),
        _ => Err("give points above 0 and up to 100".into()),
    }
}

pub fn run(args: Args) -> Result<()> {
    if args.builds.run {
        return of_builds(&args);
    }
    let mut conditions: Vec<Condition> = parsed(&args.fail_if)?;
    conditions.extend(args.fail_below.map(Condition::falls_below));
    let settings = Settings {
        margin: args.margin.unwrap_or(MARGIN),
        anyway: args.anyway,
        gate: Gate { conditions },
    };
    let comparison = of_files(&args.old, &args.new, &settings)?;
    print(&comparison, args.format, args.width, args.strict)?;
    judge(&comparison, args.strict)
}

fn of_builds(args: &Args) -> Result<()> {
    let mut conditions: Vec<SpeedCondition> = parsed(&args.fail_if)?;
    conditions.extend(args.fail_below.map(SpeedCondition::falls_below));
    let style = Style::for_stdout();
    let shared = Shared {
        old: &args.old,
        new: &args.new,
        conditions,
        margin: args.margin,
        strict: args.strict,
        format: args.format,
        style: args.width.map_or(style, |width| style.with_width(width)),
    };
    compare_run::run(&args.builds, shared)
}

fn parsed<T: FromStr<Err = String>>(conditions: &[String]) -> Result<Vec<T>> {
    let parse = |text: &String| {
        let parsed = text.parse();
        parsed.map_err(|reason| Error::request(format!("--fail-if: {reason}")))
    };
    conditions.iter().map(parse).collect()
}

/// # Errors
/// A request error where a file is no profile or the two cannot be compared.
pub fn of_files(old: &PathBuf, new: &PathBuf, settings: &Settings) -> Result<Comparison> {
    let [old, new] = [old, new].map(|path| profile::load(path).map_err(Error::request));
    compare(&old?, &new?, settings).map_err(Error::request)
}

pub fn print(
    comparison: &Comparison,
    format: Format,
    width: Option<u16>,
    strict: bool,
) -> Result<()> {
    let style = Style::for_stdout();
    let style = width.map_or(style, |width| style.with_width(width));
    match format {
        Format::Terminal => output::text(&comparison_page(comparison, style)),
        Format::Markdown => output::text(&comparison_markdown(comparison)),
        Format::Json => output::json(comparison),
        Format::Junit => output::text(&comparison_junit(comparison, strict)),
    }
}

/// # Errors
/// A gate error where the build is to fail.
fn judge(comparison: &Comparison, strict: bool) -> Result<()> {
    let gate = &comparison.gate;
    let verdict = &comparison.verdict;
    let (failed, open) = match gate.judged.is_empty() {
        true => (
            usize::from(matches!(verdict.word, Word::Worse | Word::Mixed)),
            verdict.open.len() + usize::from(verdict.word == Word::SameMeasurement),
        ),
        false => (
            gate.count(Judgement::Failed),
            gate.count(Judgement::CannotTell),
        ),
    };
    match (failed, open) {
        (0, 0) => Ok(()),
        (0, _) if !strict => Ok(()),
        (0, open) => Err(Error::Gate(format!(
            "--strict: {open} of what was asked cannot be told from noise"
        ))),
        (_, _) if gate.judged.is_empty() => Err(Error::Gate("the new profile is worse".into())),
        (failed, _) => Err(Error::Gate(format!("{failed} conditions failed"))),
    }
}
