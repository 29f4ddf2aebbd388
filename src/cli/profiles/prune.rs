//! `jostle profiles prune`: what can go from a directory of profiles.

use super::list::parse_day;
use super::scan;
use crate::cli::output;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::prune::Reason;
use jostle_profile::prune::Rules;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of profiles
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// All but the first file of one measurement: same name, machine, moment and seed
    #[arg(long)]
    duplicates: bool,
    /// Files that are no profiles of a format this version reads
    #[arg(long)]
    other_formats: bool,
    /// Profiles recorded before this day, like 2026-01-31
    #[arg(long, value_name = "DAY", value_parser = parse_day)]
    older_than: Option<String>,
    /// Profiles of other machines than those with these fingerprints
    #[arg(long, value_name = "FINGERPRINTS", value_delimiter = ',')]
    machines_left: Vec<String>,
    /// Delete; without this flag the files are only named
    #[arg(long, conflicts_with = "dry_run")]
    delete: bool,
    /// Only name the files (the default)
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    let machines = args.machines_left.iter().cloned().collect();
    let rules = Rules {
        duplicates: args.duplicates,
        other_formats: args.other_formats,
        before: args.older_than,
        machines: (!args.machines_left.is_empty()).then_some(machines),
    };
    if rules.is_empty() {
        return Err(Error::request(
            "say what can go: --duplicates, --other-formats, --older-than DAY or --machines-left \
             FINGERPRINTS",
        ));
    }
    if !args.directory.is_dir() {
        return Err(Error::request(format!(
            "{}: is not a directory; name the directory that holds the profiles",
            args.directory.display()
        )));
    }
    let documents = scan::documents(scan::files(std::slice::from_ref(&args.directory))?)?;
    let gone = rules.apply(&documents);
    let mut failed = 0;
    let mut rows = Vec::new();
    let mut page = String::new();
    for (index, reason) in &gone {
        let path = &documents[*index].0;
        if args.delete
            && let Err(error) = fs::remove_file(path)
        {
            warning!("{}: cannot delete it: {error}", path.display());
            failed += 1;
            continue;
        }
        let why = words(reason);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{}: {why}", shown(path));
        rows.push(serde_json::json!({"file": path, "reason": why}));
    }
    if args.json {
        output::json(&serde_json::json!({
            "deleted": args.delete, "files": rows, "kept": documents.len() - rows.len(),
        }))?;
    } else {
        let (count, of) = (rows.len(), documents.len());
        page += &match args.delete {
            true => format!("{count} of {of} files deleted.\n"),
            false => format!("{count} of {of} files would go; --delete deletes them.\n"),
        };
        output::text(&page)?;
    }
    match failed {
        0 => Ok(()),
        failed => Err(Error::environment(format!(
            "{failed} files could not be deleted"
        ))),
    }
}

fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn words(reason: &Reason) -> String {
    match reason {
        Reason::DuplicateOf(first) => format!("the same measurement as {}", shown(first)),
        Reason::OtherFormat(problem) => format!("not a profile: {problem}"),
        Reason::Old(recorded_at) => format!("recorded {recorded_at}"),
        Reason::OtherMachine(machine) => format!("of machine {machine}"),
    }
}
