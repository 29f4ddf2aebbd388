//! `jostle profiles export`: one row per profile, resource and direction.

use super::scan;
use crate::cli::output;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use jostle_profile::rows::Row;
use jostle_profile::rows::rows;
use jostle_profile::summary;
use jostle_profile::summary::Document;
use rayon::prelude::*;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
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
    /// A Parquet file with the same columns
    #[cfg(feature = "parquet")]
    #[arg(long, conflicts_with = "csv", requires = "out")]
    parquet: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Why rows could not be written.
enum Stopped {
    /// The reader had enough, which is not an error.
    PipeClosed,
    Failed(String),
}

/// Where rows go.
enum Table {
    Csv(csv::Writer<Box<dyn Write>>),
    #[cfg(feature = "parquet")]
    Parquet(super::parquet::Table),
}

pub fn run(args: Args) -> Result<()> {
    let files = scan::files(&args.from)?;
    let mut table = Table::open(&args)?;
    let mut count = Count::default();
    let copied = copy(&files, &mut table, &mut count);
    let closed = copied.and_then(|()| table.close());
    let finished = match (closed, args.out.as_deref()) {
        (Ok(()), Some(out)) => finish(out).map_err(Stopped::from),
        (Err(stopped), Some(out)) => {
            give_up(out);
            Err(stopped)
        }
        (closed, None) => closed,
    };
    match finished {
        Ok(()) | Err(Stopped::PipeClosed) => {}
        Err(Stopped::Failed(problem)) => {
            let out = args
                .out
                .as_deref()
                .map_or("standard output".into(), Path::to_string_lossy);
            return Err(Error::environment(format!("cannot write {out}: {problem}")));
        }
    }
    if let Some(out) = &args.out {
        let (rows, profiles) = (count.rows, count.profiles);
        output::text(&format!(
            "{rows} rows of {profiles} profiles in {}.\n",
            out.display()
        ))?;
    }
    match count.refused {
        0 => Ok(()),
        refused => Err(Error::Gate(format!("{refused} files were left out"))),
    }
}

#[derive(Default)]
struct Count {
    rows: usize,
    profiles: usize,
    refused: usize,
}

fn copy(files: &[PathBuf], table: &mut Table, count: &mut Count) -> Result<(), Stopped> {
    for files in files.chunks(CHUNK) {
        let read: Vec<Result<Vec<Row>, String>> = files.par_iter().map(|file| read(file)).collect();
        let mut rows = Vec::new();
        for (path, found) in files.iter().zip(read) {
            match found {
                Ok(found) => {
                    count.profiles += usize::from(!found.is_empty());
                    rows.extend(found);
                }
                Err(problem) => {
                    count.refused += 1;
                    warning!("{}: {problem}", path.display());
                }
            }
        }
        count.rows += rows.len();
        table.write(&rows)?;
    }
    Ok(())
}

/// The rows of a file; none of another document of Jostle.
fn read(path: &Path) -> Result<Vec<Row>, String> {
    let bytes = regular::read(path, LONGEST_DOCUMENT).map_err(|error| error.to_string())?;
    if let Document::Other(_) = summary::read(&bytes) {
        return Ok(Vec::new());
    }
    let document = profile::parse(&bytes).map_err(|error| error.to_string())?;
    profile::check(&document).map_err(|error| error.to_string())?;
    Ok(rows(&path.display().to_string(), &document))
}

/// Where a file is written until it is whole. A device or a pipe is written to itself.
fn unfinished(path: &Path) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return path;
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Puts the whole file in place of the old one.
fn finish(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let whole = unfinished(&path);
    match whole == path {
        true => Ok(()),
        false => fs::rename(whole, path),
    }
}

fn give_up(path: &Path) {
    let begun = unfinished(path);
    if begun.is_file() {
        // Nothing better can be done: why it failed is reported.
        let _ = fs::remove_file(begun);
    }
}

impl Table {
    fn open(args: &Args) -> Result<Table> {
        let create = |path: &Path| {
            File::create(unfinished(path)).map_err(|error| {
                Error::request(format!("--out {}: cannot be made: {error}", path.display()))
            })
        };
        #[cfg(feature = "parquet")]
        if let (true, Some(path)) = (args.parquet, &args.out) {
            let table = super::parquet::Table::new(create(path)?);
            return table.map(Table::Parquet).map_err(Error::environment);
        }
        let out: Box<dyn Write> = match &args.out {
            None => Box::new(io::stdout().lock()),
            Some(path) => Box::new(create(path)?),
        };
        Ok(Table::Csv(csv::Writer::from_writer(out)))
    }

    fn write(&mut self, rows: &[Row]) -> Result<(), Stopped> {
        match self {
            Table::Csv(table) => rows.iter().try_for_each(|row| Ok(table.serialize(row)?)),
            #[cfg(feature = "parquet")]
            Table::Parquet(table) => table.write(rows).map_err(Stopped::because),
        }
    }

    fn close(self) -> Result<(), Stopped> {
        match self {
            Table::Csv(mut table) => Ok(table.flush()?),
            #[cfg(feature = "parquet")]
            Table::Parquet(table) => table.close().map_err(Stopped::because),
        }
    }
}

impl Stopped {
    #[cfg(feature = "parquet")]
    fn because(error: impl std::fmt::Display) -> Stopped {
        Stopped::Failed(error.to_string())
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stopped::PipeClosed,
            _ => Stopped::Failed(error.to_string()),
        }
    }
}

impl From<csv::Error> for Stopped {
    fn from(error: csv::Error) -> Stopped {
        match error.into_kind() {
            csv::ErrorKind::Io(error) => error.into(),
            other => Stopped::Failed(format!("{other:?}")),
        }
    }
}
