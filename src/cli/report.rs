//! `jostle report`: profiles, validations and simulations as a page for a browser.

use super::output;
use super::population::population;
use crate::report::html;
use crate::report::html::Matrix;
use crate::report::html::Simulation;
use crate::report::html::Subjects;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_measure::validate::FORMAT as VALIDATION;
use jostle_measure::validate::Validation;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::document;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_DOCUMENT;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// More make a page that no browser likes to open.
const MOST: usize = 500;

/// Write profiles as one page for a browser
///
/// The page needs nothing else: no network, no other file. It begins with the
/// conclusion, and shows several profiles side by side with the predicted performance
/// of each beside each other one. Also for what `validate --json` and `simulate
/// --json` print.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles, or directories of profiles; results of `validate --json` and
    /// `simulate --json`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the page to this file; - is standard output
    #[arg(long, value_name = "FILE", required_unless_present = "svg")]
    html: Option<PathBuf>,
    /// Write the vector of each profile, and the predicted co-locations of several,
    /// as SVG files into this directory, made when it is not there
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Directory with profiles; what they have in common stands in for what a
    /// profile leaves open [default: the profiles recorded with this version]
    #[arg(long, value_name = "DIR")]
    population: Option<PathBuf>,
}

/// What was read: the subjects of the page, and the names of the profiles' files.
#[derive(Default)]
struct Read {
    subjects: Subjects,
    stems: Vec<String>,
}

pub fn run(args: Args) -> Result<()> {
    let page = args.html.as_deref().filter(|path| *path != Path::new("-"));
    let page = page.map(|path| output::Destination::named("--html", path));
    let page = page.transpose()?;
    not_over_input(&args)?;
    let mut read = Read::default();
    for path in &args.files {
        match path.is_dir() {
            true => read.directory(path)?,
            false => read.file(path)?,
        }
    }
    let Read { subjects, stems } = read;
    let count = subjects.profiles.len();
    let matrices: Option<[Matrix; 2]> = match (2..=html::MOST_PAIRED).contains(&count) {
        true => {
            let population = population(args.population.as_deref())?;
            Some(html::matrices(&subjects.profiles, &population))
        }
        false => None,
    };
    if let Some(dir) = &args.svg {
        export(dir, &subjects.profiles, &stems, matrices.as_ref())?;
    }
    if args.html.is_none() {
        return Ok(());
    }
    let text = html::report(&subjects, matrices.as_ref());
    match page {
        Some(page) => page.replace(text.as_bytes()),
        None => output::text(&text),
    }
}

/// The page must not take the place of what it is about.
fn not_over_input(args: &Args) -> Result<()> {
    let place = args.html.as_ref().and_then(|path| path.canonicalize().ok());
    let over = |file: &&PathBuf| place.is_some() && file.canonicalize().ok() == place;
    match args.files.iter().find(over) {
        None => Ok(()),
        Some(file) => Err(Error::request(format!(
            "--html {}: this is one of the files to show; name another",
            file.display()
        ))),
    }
}

impl Read {
    /// # Errors
    /// A request error where the file is none of what a page can show.
    fn file(&mut self, path: &Path) -> Result<()> {
        /// What tells the kinds of documents apart.
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
            scenario: Option<String>,
        }
        let bytes = regular::read(path, LONGEST_DOCUMENT).unwrap_or_default();
        let head = serde_json::from_slice::<Head>(&bytes).ok();
        let format = head.as_ref().and_then(|head| head.format.as_deref());
        let named = |problem: String| Error::request(format!("{}: {problem}", path.display()));
        if format.is_some_and(|it| it.starts_with("jostle-validation/")) {
            let parsed = document::parse::<Validation>(&bytes, VALIDATION, "jostle validation");
            let parsed = parsed.map_err(|error| named(error.to_string()))?;
            self.subjects.validations.push(parsed);
        } else if format.is_none() && head.is_some_and(|head| head.scenario.is_some()) {
            let parsed: Option<Value> = serde_json::from_slice(&bytes).ok();
            let simulation = parsed.and_then(Simulation::of).ok_or_else(|| {
                named(
                    "has a scenario, but no results; give what `jostle simulate --json` prints"
                        .into(),
                )
            })?;
            self.subjects.simulations.push(simulation);
        } else {
            let profile = profile::load(path).map_err(Error::request)?;
            self.profile(path, profile);
        }
        self.checked()
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        // Known before all of them are read.
        too_many(std::fs::read_dir(path).map_or(0, |entries| {
            let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
            let names = names.map(|name| name.to_string_lossy().into_owned());
            names
                .filter(|name| name.ends_with(".json") && !name.ends_with(".schema.json"))
                .count()
        }))?;
        let profiles = profile::load_dir(path).map_err(Error::request)?;
        if profiles.is_empty() {
            return Err(Error::request(format!(
                "{}: holds no profile (*.json)",
                path.display()
            )));
        }
        for (path, profile) in profiles {
            self.profile(&path, profile);
        }
        self.checked()
    }

    fn profile(&mut self, path: &Path, profile: Profile) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let stem = stem.trim_end_matches(".profile").to_string();
        self.stems.push(stem);
        self.subjects.profiles.push(profile);
    }

    fn checked(&self) -> Result<()> {
        too_many(self.subjects.len())
    }
}

fn too_many(count: usize) -> Result<()> {
    match count {
        0..=MOST => Ok(()),
        many => Err(Error::request(format!(
            "{many} documents: a page shows up to {MOST}; name fewer files"
        ))),
    }
}

/// Writes `vector-STEM.svg` for each profile, and two maps where there are several.
fn export(
    dir: &Path,
    profiles: &[Profile],
    stems: &[String],
    matrices: Option<&[Matrix; 2]>,
) -> Result<()> {
    let shown = dir.display();
    if profiles.is_empty() {
        return Err(Error::request(format!(
            "--svg {shown}: only profiles have a vector to draw; name at least one"
        )));
    }
    std::fs::create_dir_all(dir).map_err(|error| {
        Error::request(format!(
            "--svg {shown}: cannot be made: {error}; name another directory"
        ))
    })?;
    let write = |name: String, svg: String| {
        let path = dir.join(name);
        document::replace(&path, svg.as_bytes()).map_err(|error| {
            Error::environment(format!("cannot write {}: {error}", path.display()))
        })
    };
    let mut used = BTreeSet::new();
    for (profile, stem) in profiles.iter().zip(stems) {
        // Files of one name may come from several directories.
        let names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}-{n}")));
        let free = names.map(|name| format!("vector-{name}.svg"));
        let name = free.into_iter().find(|name| used.insert(name.clone()));
        write(
            name.expect("an endless list has a free name"),
            html::vector_svg(profile),
        )?;
    }
    for matrix in matrices.into_iter().flatten() {
        let name = match matrix.shares_cpus {
            true => "co-location-shared-cpus.svg",
            false => "co-location.svg",
        };
        write(name.into(), html::matrix_svg(matrix))?;
    }
    Ok(())
}
