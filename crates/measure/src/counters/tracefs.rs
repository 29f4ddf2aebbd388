//! Tracepoints by category and name, as tracefs lists them.

use crate::near;
use std::fs;
use std::io;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;
use thiserror::Error;

/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Why a tracepoint cannot be looked up.
#[derive(Debug, Error)]
pub enum TracefsError {
    #[error("{} may be read by root only: run jostle with sudo", .0.display())]
    RootOnly(PathBuf),
    #[error("tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    #[error("there is no {what} {name}{hint}")]
    Unknown {
        /// `category` or `event`.
        what: &'static str,
        name: String,
        hint: String,
    },
    #[error("{} holds no number: '{text}'", file.display())]
    NoNumber { file: PathBuf, text: String },
    #[error("cannot read {}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
}

/// Where tracefs is mounted below `root` and readable.
///
/// # Errors
/// When it is not, with how to change that.
pub fn tracefs(root: &Path) -> Result<PathBuf, TracefsError> {
    let mut forbidden = None;
    for place in PLACES {
        let place = root.join(place);
        match fs::read_dir(place.join("events")) {
            Ok(_) => return Ok(place),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden = Some(place),
            Err(_) => {}
        }
    }
    Err(forbidden.map_or(TracefsError::NotMounted, TracefsError::RootOnly))
}

/// The number of the event.
///
/// # Errors
/// Those of [`tracefs`], and [`TracefsError::Unknown`] with near names when
/// there is no such event.
pub fn tracepoint_id(root: &Path, category: &str, name: &str) -> Result<u64, TracefsError> {
    let events = tracefs(root)?.join("events");
    let inside = events.join(category);
    let file = inside.join(name).join("id");
    let unknown = |what, name: &str, directory: &Path| TracefsError::Unknown {
        what,
        name: name.into(),
        hint: near::hint(
            name,
            directories(directory),
            &format!("; {} lists them", directory.display()),
        ),
    };
    match fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().map_err(|_| TracefsError::NoNumber {
            text: text.trim().into(),
            file,
        }),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(TracefsError::Unreadable { file, error })
        }
        Err(_) if inside.is_dir() => Err(unknown("event", name, &inside)),
        Err(_) => Err(unknown("category", category, &events)),
    }
}

fn directories(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, id) in [("sched_switch", "314\n"), ("sched_wakeup", "none")] {
            let event = root.path().join(PLACES[0]).join("events/sched").join(name);
            fs::create_dir_all(&event).unwrap();
            fs::write(event.join("id"), id).unwrap();
        }
        root
    }

    #[test]
    fn events_are_found_and_near_names_listed() {
        let root = fake();
        let id = |category, name| tracepoint_id(root.path(), category, name);
        assert_eq!(id("sched", "sched_switch").unwrap(), 314);
        let error = id("sched", "sched_swich").unwrap_err().to_string();
        assert!(error.contains("near names: sched_switch"), "{error}");
        let error = id("shed", "x").unwrap_err().to_string();
        assert_eq!(error, "there is no category shed; near names: sched");
        let error = id("sched", "sched_wakeup").unwrap_err();
        assert!(matches!(error, TracefsError::NoNumber { .. }), "{error}");
    }

    #[test]
    fn an_unmounted_tracefs_is_reported() {
        let root = fake();
        assert_eq!(tracefs(root.path()).unwrap(), root.path().join(PLACES[0]));
        let reason = tracefs(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(reason.contains("mount -t tracefs"), "{reason}");
    }
}
