//! `jostle classify`: entries that were not measured, from other applications.

use super::output;
use super::output::Destination;
use super::select;
use super::training;
use crate::report::Style;
use crate::report::classification;
use crate::report::classification::Scored;
use jostle_measure::console::note;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_schedule::classify;
use jostle_schedule::classify::Applications;
use jostle_schedule::classify::Column;
use jostle_schedule::classify::FEWEST_APPLICATIONS;
use jostle_schedule::classify::Filled;
use jostle_schedule::classify::Kind;
use jostle_schedule::classify::Method;
use jostle_schedule::classify::evaluate;
use jostle_schedule::classify::evaluate::Accuracy;
use jostle_schedule::classify::evaluate::Bundles;
use jostle_schedule::classify::evaluate::Judged;
use jostle_schedule::classify::evaluate::Reveal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

/// Fills the entries of a profile that were not measured, from the profiles of
/// other applications: what was measured says which of them it resembles. Filled
/// entries have the status `inferred` and an interval that was validated on
/// entries of the other applications.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The profile to complete
    #[arg(value_name = "FILE", required_unless_present = "evaluate")]
    file: Option<PathBuf>,
    /// Directory with profiles of other applications [default: that of FILE]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Resources to complete, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    resources: Vec<String>,
    /// How entries are inferred: means, neighbours, svd, factors or mixture
    #[arg(long, default_value = "mixture", value_parser = method, value_name = "METHOD")]
    method: Method,
    /// Learn from profiles of several machines, and of another one than FILE's
    #[arg(long)]
    mix_machines: bool,
    /// Instead of completing a profile: hide entries of each application of DIR,
    /// infer them from the others, and print how far off every method is
    #[arg(long, requires = "from", conflicts_with_all = ["file", "out", "resources"])]
    evaluate: bool,
    /// Decides which entries are hidden in validation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the completed profile to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the completed profile as one JSON document
    #[arg(long)]
    json: bool,
}

fn method(text: &str) -> std::result::Result<Method, String> {
    let known = Method::ALL.into_iter().find(|method| method.id() == text);
    known.ok_or_else(|| {
        let ids: Vec<&str> = Method::ALL.iter().map(|method| method.id()).collect();
        format!("there are {}", ids.join(", "))
    })
}

pub fn run(args: Args) -> Result<()> {
    let Some(file) = &args.file else {
        return judge(&args);
    };
    let out = args.out.as_deref();
    let out = out
        .map(|path| Destination::named("--out", path))
        .transpose()?;
    let wanted = select::resources(&args.resources)?;
    let wanted = if args.resources.is_empty() {
        Vec::new()
    } else {
        wanted
    };
    let mut profile = profile::load(file).map_err(Error::request)?;
    let beside = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let from = args.from.as_deref().or(beside).unwrap_or(Path::new("."));
    let all = training::read("--from", from, Some(file))?;
    let training = training::comparable(&all, training::is_latency(&profile));
    let namesakes = training
        .iter()
        .filter(|other| other.workload.name == profile.workload.name);
    if namesakes.count() > 0 {
        note!(
            "{}: another profile of a workload of this name is among those learned from",
            profile.workload.name
        );
    }
    let mix = args.mix_machines;
    let filled = classify::fill(
        &mut profile,
        &training,
        args.method,
        &wanted,
        mix,
        args.seed,
    )
    .map_err(|error| {
        Error::request(format!(
            "{}, from {}: {error}",
            file.display(),
            from.display()
        ))
    })?;
    let written = out.as_ref().map(|out| out.write(&profile)).transpose()?;
    match args.json {
        true => output::json(&profile)?,
        false => show(&profile, &filled)?,
    }
    if let Some(path) = written {
        note!("wrote {}", path.display());
    }
    Ok(())
}

/// Prints what was filled in.
pub fn show(profile: &Profile, filled: &Filled) -> Result<()> {
    output::text(&classification::filled(
        profile,
        filled,
        Style::for_stdout(),
    ))
}

/// How far off one method is.
#[derive(Debug, Serialize)]
pub struct Row {
    pub measured: Reveal,
    pub method: Method,
    #[serde(flatten)]
    pub accuracy: Accuracy,
    pub by_column: Vec<ByColumn>,
}

#[derive(Debug, Serialize)]
pub struct ByColumn {
    pub column: Column,
    #[serde(flatten)]
    pub accuracy: Accuracy,
}

/// Of the applications of a directory.
#[derive(Debug, Serialize)]
pub struct Evaluated {
    pub profiles: usize,
    pub applications: usize,
    pub rows: Vec<Row>,
}

/// What is measured before the rest is inferred.
const REVEALED: [Reveal; 3] = [Reveal::Random(2), Reveal::Telling(2), Reveal::AllButOne];

fn judge(args: &Args) -> Result<()> {
    let from = args.from.as_deref().unwrap_or(Path::new("."));
    let all = training::read("--from", from, None)?;
    // The sort of metric that more profiles have.
    let latencies = all.iter().filter(|profile| training::is_latency(profile));
    let profiles = training::comparable(&all, 2 * latencies.count() > all.len());
    let refuse = |problem: String| Error::request(format!("--from {}: {problem}", from.display()));
    let applications = Applications::new(&profiles, args.mix_machines)
        .map_err(|error| refuse(error.to_string()))?;
    let mut names: Vec<&String> = applications.names().iter().collect();
    names.sort_unstable();
    names.dedup();
    if names.len() <= FEWEST_APPLICATIONS {
        return Err(refuse(format!(
            "{} applications; one is left out at a time, and at least {FEWEST_APPLICATIONS} others are needed",
            names.len()
        )));
    }
    let bundles = bundles(&applications);
    let mut rows = Vec::new();
    for measured in REVEALED {
        for method in Method::ALL {
            let judged = evaluate::leave_one_out(
                applications.table(),
                applications.names(),
                &bundles,
                measured,
                method,
                args.seed,
            );
            rows.push(Row {
                measured,
                method,
                accuracy: Accuracy::of(&judged),
                by_column: by_column(&applications, &judged),
            });
        }
    }
    let evaluated = Evaluated {
        profiles: profiles.len(),
        applications: names.len(),
        rows,
    };
    match args.json {
        true => output::json(&evaluated),
        false => output::text(&page(&evaluated, args.method, Style::for_stdout())),
    }
}

fn page(evaluated: &Evaluated, method: Method, style: Style) -> String {
    let mut page = format!(
        "{} profiles of {} applications; one application is left out at a time. Errors in points,\n\
         by how many resources of it were measured before the rest was inferred.\n\n",
        evaluated.profiles, evaluated.applications
    );
    let scored = evaluated.rows.iter().map(|row| Scored {
        measured: row.measured,
        method: row.method,
        accuracy: &row.accuracy,
    });
    page += &classification::accuracies(scored, style);
    let chosen = |row: &&Row| row.method == method && row.measured == Reveal::Telling(2);
    if let Some(row) = evaluated.rows.iter().find(chosen) {
        page += &format!("\nBy column: {method}, from the two most telling resources.\n\n");
        let columns = row.by_column.iter();
        let columns = columns.map(|of| (of.column.to_string(), &of.accuracy));
        page += &classification::columns(columns, style);
    }
    page
}

/// A resource is measured as a whole; what the application uses is read anyway.
fn bundles(applications: &Applications) -> Bundles {
    let mut measured: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut free = Vec::new();
    for (at, column) in applications.columns().iter().enumerate() {
        match column.kind {
            Kind::Use => free.push(at),
            _ => measured.entry(&column.resource).or_default().push(at),
        }
    }
    Bundles {
        measured: measured.into_values().collect(),
        free,
    }
}

fn by_column(applications: &Applications, judged: &[Judged]) -> Vec<ByColumn> {
    let mut columns: BTreeMap<usize, Vec<Judged>> = BTreeMap::new();
    for one in judged {
        columns.entry(one.column).or_default().push(*one);
    }
    let of = |(at, judged): (usize, Vec<Judged>)| ByColumn {
        column: applications.columns()[at].clone(),
        accuracy: Accuracy::of(&judged),
    };
    columns.into_iter().map(of).collect()
}
