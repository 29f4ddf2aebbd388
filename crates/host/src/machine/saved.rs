//! The machine file: where the calibration of this machine is kept.

use super::Machine;
use super::calibration::Calibration;
use super::calibration::FORMAT;
use jostle_profile::document;
use jostle_profile::layout;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Larger than any calibration; what is larger is something else.
const MOST_BYTES: u64 = 16 << 20;

/// What is kept for a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    Found(Box<Calibration>),
    /// Nothing, or nowhere to look: why, in words.
    Nothing(String),
    /// Something that must not be used: the file, the problem and the fix.
    Ignored(String),
}

/// The machine file of `fingerprint`: `$XDG_STATE_HOME/jostle/machine-….json`.
///
/// # Errors
/// In words, when the environment names no place for state.
pub fn path(fingerprint: &str) -> Result<PathBuf, String> {
    path_in(
        |name| std::env::var_os(name).map(PathBuf::from),
        fingerprint,
    )
}

/// `variable` looks up an environment variable. A relative path counts as none,
/// as the XDG base directory specification asks.
fn path_in(
    variable: impl Fn(&str) -> Option<PathBuf>,
    fingerprint: &str,
) -> Result<PathBuf, String> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let state = match (absolute("XDG_STATE_HOME"), absolute("HOME")) {
        (Some(state), _) => state,
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(
                "there is no place for the machine file: set XDG_STATE_HOME to a directory \
                 (an absolute path), or HOME"
                    .to_string(),
            );
        }
    };
    Ok(state
        .join("jostle")
        .join(format!("machine-{fingerprint}.json")))
}

/// Reads what is kept for `machine`. Never fails: what cannot be used is
/// ignored with the reason.
pub fn load(machine: &Machine) -> Saved {
    let fingerprint = machine.fingerprint();
    match path(&fingerprint) {
        Ok(path) => load_or_other(&path, &fingerprint, &machine.model),
        Err(reason) => Saved::Nothing(reason),
    }
}

/// As [`load_from`]; where there is no such file, one beside it that holds the
/// same CPU `model` is named: the machine changed since.
pub fn load_or_other(path: &Path, fingerprint: &str, model: &str) -> Saved {
    let saved = load_from(path, fingerprint);
    match (&saved, newest_of(path.parent(), model)) {
        (Saved::Nothing(_), Some((other, recorded_at))) => Saved::Ignored(format!(
            "{}: was recorded {recorded_at} on this CPU model with other allowed CPUs, kernel, \
             caches or hypervisor (this machine's fingerprint is {fingerprint}); this file is \
             not used: run `jostle machine --calibrate` to make one for the machine as it is now",
            other.display()
        )),
        _ => saved,
    }
}

/// The newest machine file in `directory` of this CPU `model`, and its time.
fn newest_of(directory: Option<&Path>, model: &str) -> Option<(PathBuf, String)> {
    let entries = fs::read_dir(directory?).ok()?;
    let found = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?;
        if !name.starts_with("machine-") || !name.ends_with(".json") {
            return None;
        }
        let bytes = read(&path).ok()?;
        let file: Calibration = document::parse(&bytes, FORMAT, "jostle machine file").ok()?;
        (file.model == model).then_some((path, file.recorded_at))
    });
    found.max_by(|(_, one), (_, other)| one.cmp(other))
}

/// Reads `path` for the machine of `fingerprint`, as [`load`].
pub fn load_from(path: &Path, fingerprint: &str) -> Saved {
    let ignored = |problem: String| {
        Saved::Ignored(format!(
            "{}: {problem}; this file is not used: run `jostle machine --calibrate` to make it anew",
            path.display()
        ))
    };
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Saved::Nothing(
                "this machine was not calibrated; run `jostle machine --calibrate`".to_string(),
            );
        }
        Err(error) => return ignored(format!("cannot be read: {error}")),
    };
    let parsed = document::parse(&bytes, FORMAT, "jostle machine file")
        .map_err(|error| error.to_string())
        .and_then(|calibration: Calibration| calibration.check().map(|()| calibration));
    match parsed {
        Ok(calibration) if calibration.fingerprint != fingerprint => ignored(format!(
            "holds another machine's calibration (fingerprint {}, this machine's is {fingerprint})",
            calibration.fingerprint
        )),
        Ok(calibration) => Saved::Found(Box::new(calibration)),
        Err(problem) => ignored(problem),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let facts = fs::metadata(path)?;
    if !facts.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if facts.len() > MOST_BYTES {
        return Err(io::Error::other(format!("{} bytes long", facts.len())));
    }
    fs::read(path)
}

/// Makes the directory of `path` and finds out whether files can be made there,
/// before time is spent on what they will hold.
///
/// # Errors
/// In words, naming the directory.
pub fn prepare(path: &Path) -> Result<(), String> {
    use nix::unistd::AccessFlags;
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .and_then(|()| {
            nix::unistd::access(directory, AccessFlags::W_OK | AccessFlags::X_OK)
                .map_err(io::Error::from)
        })
        .map_err(|error| {
            format!(
                "the machine file cannot be kept in {}: {error}; set XDG_STATE_HOME to a \
                 directory that can be written to",
                directory.display()
            )
        })
}

/// Writes `calibration` to `path`, in one step: an older file stays until the
/// new one is complete.
///
/// # Errors
/// In words, naming the file.
pub fn save(calibration: &Calibration, path: &Path) -> Result<(), String> {
    let failed = |problem: String| format!("cannot write {}: {problem}", path.display());
    calibration.check().map_err(failed)?;
    let text = layout::json(calibration).map_err(|error| failed(error.to_string()))?;
    document::replace(path, text.as_bytes()).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_the_place() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            path_in(
                |name| {
                    let found = pairs.iter().find(|(key, _)| *key == name);
                    found.map(|(_, value)| PathBuf::from(value))
                },
                "0123",
            )
        };
        let state = with(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]).unwrap();
        assert_eq!(state, Path::new("/s/jostle/machine-0123.json"));
        for home in [
            with(&[("HOME", "/h")]),
            with(&[("XDG_STATE_HOME", ""), ("HOME", "/h")]),
            with(&[("XDG_STATE_HOME", "not/absolute"), ("HOME", "/h")]),
        ] {
            let expected = Path::new("/h/.local/state/jostle/machine-0123.json");
            assert_eq!(home.unwrap(), expected);
        }
        let reason = with(&[]).unwrap_err();
        assert!(reason.contains("XDG_STATE_HOME"), "{reason}");
    }
}
