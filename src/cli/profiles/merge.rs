//! `jostle profiles merge`: the repeated runs in directories, program by program.

use super::scan;
use crate::cli::output;
use jostle_compare::merge;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::document;
use jostle_profile::layout;
use jostle_profile::summary::Document;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories or files; the runs of one program may be in several
    #[arg(required = true, value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Directory for the merged profiles, named after the first file of each
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// Runs of one program on one machine.
type Groups = BTreeMap<(String, String), Vec<PathBuf>>;

pub fn run(args: Args) -> Result<()> {
    let documents = scan::documents(scan::files(&args.from)?)?;
    scan::warn_of_refused(&documents);
    let mut groups = Groups::new();
    for (path, document) in documents {
        if let Document::Profile(summary) = document {
            let program = (summary.name, summary.machine);
            groups.entry(program).or_default().push(path);
        }
    }
    let single = groups.values().filter(|files| files.len() < 2).count();
    groups.retain(|_, files| files.len() > 1);
    fs::create_dir_all(&args.into).map_err(|error| {
        Error::request(format!(
            "--into {}: cannot be made: {error}",
            args.into.display()
        ))
    })?;
    let made: Vec<(String, Result<PathBuf, String>)> = groups
        .into_par_iter()
        .map(|((name, _), files)| (name, one(&files, &args.into)))
        .collect();
    let mut page = String::new();
    let (mut merged, mut failed) = (0, 0);
    for (name, outcome) in made {
        match outcome {
            Ok(path) => {
                merged += 1;
                // Writing to a string cannot fail.
                let _ = writeln!(page, "{}", path.display());
            }
            Err(problem) => {
                failed += 1;
                warning!("{name}: {problem}");
            }
        }
    }
    page += &format!(
        "{merged} programs merged, {single} with a single run left out, {failed} refused.\n"
    );
    output::text(&page)?;
    match failed {
        0 => Ok(()),
        failed => Err(Error::Gate(format!(
            "the runs of {failed} programs were not merged"
        ))),
    }
}

fn one(files: &[PathBuf], into: &Path) -> Result<PathBuf, String> {
    let loaded = files
        .iter()
        .map(|path| profile::load(path).map_err(|error| error.to_string()));
    let runs: Vec<Profile> = loaded.collect::<Result<_, _>>()?;
    let merged = merge(&runs).map_err(|error| {
        let names: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        format!("{error} (in this order: {})", names.join(", "))
    })?;
    let name = files[0].file_name().ok_or("the first file has no name")?;
    let path = into.join(name);
    let text = layout::json(&merged).map_err(|error| error.to_string())?;
    document::create(&path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}
