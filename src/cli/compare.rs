//! `jostle compare`: what changed from one profile to another.

use super::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::comparison_junit;
use crate::report::comparison_markdown;
use crate::report::comparison_page;
use jostle_compare::Comparison;
use jostle_compare::MARGIN;
use jostle_compare::Settings;
use jostle_compare::Word;
use jostle_compare::compare;
use jostle_compare::gate::Condition;
use jostle_compare::gate::Gate;
use jostle_compare::gate::Judgement;
use jostle_profile as profile;
use std::path::PathBuf;

/// Compare two profiles, and fail where the new one is worse
///
/// Exit code 1 means a regression that noise does not explain, 0 none or that
/// more measuring is needed to tell (with --strict: 1). Two single profiles tell
/// large changes only; merge several runs of each to see smaller ones.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profile of the program as it was
    old: PathBuf,
    /// Profile of the program as it is
    new: PathBuf,
    /// Fail only on this; may be repeated. With a sign a change: 'l2-capacity.loss > +5',
    /// without one the new number: '*.tolerated < 20'. There are loss, tolerated,
    /// caused and use
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Fail when any resource is tolerated by more than so many points less
    #[arg(long, value_name = "POINTS", value_parser = points)]
    fail_below: Option<f64>,
    /// Fail also when a regression can neither be shown nor ruled out
    #[arg(long)]
    strict: bool,
    /// Changes of up to so many points count as none
    #[arg(long, value_name = "POINTS", default_value_t = MARGIN, value_parser = points)]
    margin: f64,
    /// Compare although machine, metric or load differ
    #[arg(long)]
    anyway: bool,
    /// How to print
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
    /// Lay out for this many columns instead of the terminal's (120 in a pipe)
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(60..))]
    width: Option<u16>,
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

pub fn points(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(points) if points > 0.0 && points <= 100.0 => Ok(points),
        _ => Err("give points above 0 and up to 100".into()),
    }
}

pub fn run(args: Args) -> Result<()> {
    let mut conditions = args.fail_if;
    conditions.extend(args.fail_below.map(Condition::falls_below));
    let settings = Settings {
        margin: args.margin,
        anyway: args.anyway,
        gate: Gate { conditions },
    };
    let comparison = of_files(&args.old, &args.new, &settings)?;
    print(&comparison, args.format, args.width, args.strict)?;
    judge(&comparison, args.strict)
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
