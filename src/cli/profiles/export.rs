//! `jostle profiles export`: one row per profile, resource and direction.

use super::scan;
use crate::cli::output;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use jostle_profile as profile;
use jostle_profile::rows::Row;
use jostle_profile::rows::rows;
use jostle_profile::summary;
use jostle_profile::summary::Document;
use rayon::prelude::*;
use std::fs;
use std::io;
use std::io::Write;
use std::path::PathBuf;

/// Files read before their rows are written: so many are in memory at once.
const CHUNK: usize = 256;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directories or files
    #[arg(default_value = ".", value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Comma-separated values with a line of column names (the default)
    #[arg(long)]
    csv: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<()> {
    let files = scan::files(&args.from)?;
    let mut refused = 0;
    let mut profiles = 0;
    let mut count = 0;
    let (out, name): (Box<dyn Write>, String) = match &args.out {
        None => (Box::new(io::stdout().lock()), "standard output".into()),
        Some(path) => {
            let file = fs::File::create(path).map_err(|error| {
                Error::request(format!("--out {}: cannot be made: {error}", path.display()))
            })?;
            (Box::new(file), path.display().to_string())
        }
    };
    let mut table = csv::Writer::from_writer(out);
    for files in files.chunks(CHUNK) {
        let read: Vec<(&PathBuf, Result<Vec<Row>, String>)> =
            files.par_iter().map(|path| (path, read(path))).collect();
        for (path, found) in read {
            match found {
                Ok(rows) => {
                    profiles += usize::from(!rows.is_empty());
                    count += rows.len();
                    for row in rows {
                        if let Err(error) = table.serialize(row) {
                            return ended(&name, io_error(error));
                        }
                    }
                }
                Err(problem) => {
                    refused += 1;
                    warning!("{}: {problem}", path.display());
                }
            }
        }
    }
    if let Err(error) = table.flush() {
        return ended(&name, error);
    }
    if args.out.is_some() {
        output::text(&format!("{count} rows of {profiles} profiles in {name}.\n"))?;
    }
    match refused {
        0 => Ok(()),
        refused => Err(Error::Gate(format!("{refused} files were left out"))),
    }
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A closed pipe is not an error: the reader had enough.
fn ended(name: &str, error: io::Error) -> Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Error::environment(format!("cannot write {name}: {error}"))),
    }
}

/// The rows of a file; none of another document of Jostle.
fn read(path: &PathBuf) -> Result<Vec<Row>, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    if let Document::Other(_) = summary::read(&bytes) {
        return Ok(Vec::new());
    }
    let document = profile::document::parse(&bytes, profile::FORMAT, "jostle profile");
    let document = document.map_err(|error| error.to_string())?;
    profile::check(&document).map_err(|error| error.to_string())?;
    Ok(rows(&path.display().to_string(), &document))
}
