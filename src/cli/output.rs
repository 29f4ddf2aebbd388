//! Writing results to stdout without a panic when the reader has gone.

use jostle_measure::console;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::document;
use jostle_profile::layout;
use serde::Serialize;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

/// What we let a terminal do: clear itself, bold, dim, green, yellow.
const OWN: &[&str] = &[
    "\u{1b}[H\u{1b}[2J",
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
];

/// Prints `text`; nothing in it steers the terminal but what is ours.
///
/// # Errors
///
/// When stdout cannot be written. A closed pipe (`jostle show … | head`) is not
/// an error: the reader had enough.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(console::harmless(text, OWN).as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::environment(
            format!("cannot write to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints one JSON document and a newline.
///
/// # Errors
///
/// As [`text`], and when `value` has no JSON form.
pub fn json(value: &impl Serialize) -> Result<()> {
    let document = layout::json(value)
        .map_err(|error| Error::environment(format!("cannot write the result as JSON: {error}")))?;
    text(&document)
}

/// Where a result goes; known to be writable before anything is measured.
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// The file given, or `STEM.profile.json` here; when that exists, the first
    /// free `STEM-2.profile.json`, so that no earlier measurement is lost.
    ///
    /// # Errors
    /// A request error when the file cannot be made there.
    pub fn check(given: Option<PathBuf>, stem: &str) -> Result<Self> {
        let path = given.unwrap_or_else(|| first_free(stem));
        Destination::named("--out", &path)
    }

    /// The file `path`, as given with `flag`.
    ///
    /// # Errors
    /// A request error naming the flag when the file cannot be made there.
    pub fn named(flag: &str, path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::request(format!(
                "{flag} {}: this is a directory; name a file",
                path.display()
            )));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let probe = directory.join(format!(".jostle-probe-{}", std::process::id()));
        // A new file: nobody's link is followed, and nobody's file is emptied.
        std::fs::File::create_new(&probe)
            .and_then(|_| std::fs::remove_file(&probe))
            .map_err(|error| {
                Error::request(format!(
                    "{flag} {}: cannot write there: {error}; name another file",
                    path.display()
                ))
            })?;
        Ok(Destination {
            path: path.to_path_buf(),
        })
    }

    /// The file next to it with `ending` after its name.
    pub fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// Writes `bytes` in one step.
    ///
    /// # Errors
    /// An environment error naming the file.
    pub fn replace(&self, bytes: &[u8]) -> Result<()> {
        document::replace(&self.path, bytes).map_err(|error| {
            Error::environment(format!("cannot write {}: {error}", self.path.display()))
        })
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// An environment error naming the file.
    pub fn write(&self, profile: &Profile) -> Result<&Path> {
        profile::save(profile, &self.path).map_err(|error| {
            Error::environment(format!("cannot write {}: {error}", self.path.display()))
        })?;
        Ok(&self.path)
    }
}

fn first_free(stem: &str) -> PathBuf {
    let stem: String = stem
        .chars()
        .map(|c| match c {
            c if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') => c,
            _ => '-',
        })
        .collect();
    let names = std::iter::once(format!("{stem}.profile.json"))
        .chain((2..).map(|number| format!("{stem}-{number}.profile.json")));
    names
        .map(PathBuf::from)
        .find(|path| !path.exists())
        .expect("an endless list has a free name")
}
