//! `jostle profiles import`: valid profiles into one directory, by name.

use super::scan;
use crate::cli::output;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::document;
use jostle_profile::layout;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use jostle_profile::summary::Document;
use rayon::prelude::*;
use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Longest file name without its ending, bytes: file systems allow 255.
const LONGEST_STEM: usize = 200;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, or directories whose *.json are taken
    #[arg(required = true, value_name = "FROM")]
    from: Vec<PathBuf>,
    /// Directory that they are copied to; made where there is none
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Give a profile whose name is taken the first free one: NAME-2, NAME-3 …
    #[arg(long)]
    rename: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What became of one file.
enum Outcome {
    Imported {
        name: String,
        to: PathBuf,
    },
    /// The same bytes are there already.
    Present(PathBuf),
    /// Another document of Jostle.
    Other(String),
    Refused(String),
}

/// A source that was read and checked.
enum Source {
    Profile(Box<Profile>, Vec<u8>),
    Other(String),
    Refused(String),
}

pub fn run(args: Args) -> Result<()> {
    let sources = scan::files(&args.from)?;
    if sources.is_empty() {
        return Err(Error::request(
            "FROM: there is no *.json; name files or directories that hold profiles",
        ));
    }
    if !args.dry_run {
        fs::create_dir_all(&args.into).map_err(|error| {
            Error::request(format!(
                "--into {}: cannot be made: {error}",
                args.into.display()
            ))
        })?;
    }
    let mut target = Target::read(&args.into)?;
    let read: Vec<(PathBuf, Source)> = sources
        .into_par_iter()
        .map(|path| {
            let source = read(&path);
            (path, source)
        })
        .collect();
    let mut outcomes = Vec::with_capacity(read.len());
    for (path, source) in read {
        let outcome = match source {
            Source::Profile(profile, bytes) => target.take(*profile, bytes, &args)?,
            Source::Other(format) => Outcome::Other(format),
            Source::Refused(problem) => Outcome::Refused(problem),
        };
        outcomes.push((path, outcome));
    }
    if !args.dry_run {
        document::sync(&args.into).map_err(|error| cannot_write(&args.into, &error))?;
    }
    tell(&outcomes, &args)
}

fn read(path: &Path) -> Source {
    let bytes = match regular::read(path, LONGEST_DOCUMENT) {
        Ok(bytes) => bytes,
        Err(error) => return Source::Refused(error.to_string()),
    };
    if let Document::Other(format) = profile::summary::read(&bytes) {
        return Source::Other(format);
    }
    let checked = profile::parse(&bytes)
        .map_err(|error| error.to_string())
        .and_then(|parsed| {
            let checked = profile::check(&parsed).map_err(|error| error.to_string());
            checked.map(|()| parsed)
        });
    match checked {
        Ok(parsed) => Source::Profile(Box::new(parsed), bytes),
        Err(problem) => Source::Refused(problem),
    }
}

/// The directory that takes them.
struct Target {
    directory: PathBuf,
    /// Files by the name of their workload.
    names: HashMap<String, PathBuf>,
    /// File names in use, whatever they hold.
    files: HashSet<PathBuf>,
}

impl Target {
    fn read(directory: &Path) -> Result<Target> {
        let mut target = Target {
            directory: directory.to_path_buf(),
            names: HashMap::new(),
            files: HashSet::new(),
        };
        if !directory.exists() {
            return Ok(target);
        }
        let documents = scan::documents(scan::files(&[directory.to_path_buf()])?)?;
        for (path, document) in documents {
            if let Document::Profile(summary) = document {
                target.names.insert(summary.name, path.clone());
            }
            target.files.insert(path);
        }
        Ok(target)
    }

    /// # Errors
    /// An environment error where the directory cannot be written to.
    fn take(&mut self, mut profile: Profile, mut bytes: Vec<u8>, args: &Args) -> Result<Outcome> {
        let asked = profile.workload.name.clone();
        let mut name = asked.clone();
        if let Some(there) = self.names.get(&name) {
            if regular::read(there, LONGEST_DOCUMENT).is_ok_and(|theirs| theirs == bytes) {
                return Ok(Outcome::Present(there.clone()));
            }
            if !args.rename {
                return Ok(Outcome::Refused(format!(
                    "the name `{name}` is taken by {}; --rename gives it a free one",
                    there.display()
                )));
            }
        }
        let mut number = 1;
        let mut to = self.file(&name);
        while self.names.contains_key(&name) || self.is_taken(&to) {
            // A file of another name may have the place that this name would get.
            if !args.rename {
                return Ok(Outcome::Refused(format!(
                    "{} exists and is of another workload; --rename chooses a free name",
                    to.display()
                )));
            }
            number += 1;
            name = format!("{asked}-{number}");
            to = self.file(&name);
        }
        if name != asked {
            profile.workload.name.clone_from(&name);
            bytes = layout::json(&profile)
                .map_err(Error::environment)?
                .into_bytes();
        }
        if !args.dry_run {
            match document::create(&to, &bytes) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(Outcome::Refused(format!(
                        "{} was made meanwhile",
                        to.display()
                    )));
                }
                made => made.map_err(|error| cannot_write(&to, &error))?,
            }
        }
        self.names.insert(name.clone(), to.clone());
        self.files.insert(to.clone());
        Ok(Outcome::Imported { name, to })
    }

    fn is_taken(&self, path: &Path) -> bool {
        self.files.contains(path) || path.symlink_metadata().is_ok()
    }

    fn file(&self, name: &str) -> PathBuf {
        let allowed = |c: char| match c.is_alphanumeric() || matches!(c, '-' | '_' | '.') {
            true => c,
            false => '-',
        };
        let mut stem = String::new();
        for c in name.chars().map(allowed) {
            if stem.len() + c.len_utf8() > LONGEST_STEM {
                break;
            }
            stem.push(c);
        }
        // Hidden files and schemas are no profiles.
        let stem = stem.trim_start_matches('.').trim_end_matches(".schema");
        let stem = if stem.is_empty() { "profile" } else { stem };
        self.directory.join(format!("{stem}.json"))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!("cannot write {}: {error}", path.display()))
}

fn tell(outcomes: &[(PathBuf, Outcome)], args: &Args) -> Result<()> {
    let (mut imported, mut present, mut other, mut refused) = (0, 0, 0, 0);
    let mut page = String::new();
    let mut rows = Vec::new();
    for (from, outcome) in outcomes {
        let row = match outcome {
            Outcome::Imported { name, to } => {
                imported += 1;
                // Writing to a string cannot fail.
                let _ = writeln!(page, "{} → {}", from.display(), to.display());
                serde_json::json!({"file": from, "imported": name, "to": to})
            }
            Outcome::Present(to) => {
                present += 1;
                serde_json::json!({"file": from, "already_at": to})
            }
            Outcome::Other(format) => {
                other += 1;
                serde_json::json!({"file": from, "other_document": format})
            }
            Outcome::Refused(problem) => {
                refused += 1;
                warning!("{}: {problem}", from.display());
                serde_json::json!({"file": from, "refused": problem})
            }
        };
        rows.push(row);
    }
    if args.json {
        output::json(&serde_json::json!({"dry_run": args.dry_run, "files": rows}))?;
    } else {
        let verb = if args.dry_run {
            "would be imported"
        } else {
            "imported"
        };
        page += &format!(
            "{imported} {verb}, {present} there already, {refused} refused; other documents: {other}.\n"
        );
        output::text(&page)?;
    }
    match refused {
        0 => Ok(()),
        refused => Err(Error::Gate(format!(
            "{refused} of {} files were not imported",
            outcomes.len()
        ))),
    }
}
