//! Tracepoints by category and name, as tracefs lists them.

use crate::near;
use crate::error::Error;
use crate::error::Result;
use crate::sys::probe::Event;
use crate::sys::probe::Place;
use crate::sys::probe::explain;
use crate::sys::probe::fastest;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Where tracefs may be mounted.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracepoint {
    category: String,
    name: String,
}

impl Tracepoint {
    /// # Errors
    /// A request error when `text` is not `CATEGORY:NAME`.
    pub(super) fn parse(text: &str) -> Result<Tracepoint> {
        let word = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            !text.is_empty() && text.chars().all(allowed)
        };
        match text.split_once(':') {
            Some((category, name)) if word(category) && word(name) => Ok(Tracepoint {
                category: category.into(),
                name: name.into(),
            }),
            _ => Err(Error::request(format!(
                "--metric progress:tracepoint:{text}: give progress:tracepoint:CATEGORY:NAME, for example progress:tracepoint:syscalls:sys_enter_sendto"
            ))),
        }
    }

    /// The number of the event.
    ///
    /// # Errors
    /// A request error that lists near names, or an environment error saying how
    /// tracefs is mounted.
    pub(super) fn id(&self) -> Result<u64> {
        let root = tracefs().map_err(|reason| self.unavailable(&reason))?;
        self.id_below(&root)
    }

    fn unavailable(&self, reason: &str) -> Error {
        Error::environment(format!("--metric {}: {reason}", self.request()))
    }

    fn request(&self) -> String {
        format!("progress:tracepoint:{}:{}", self.category, self.name)
    }

    fn id_below(&self, root: &Path) -> Result<u64> {
        let events = root.join("events");
        let category = events.join(&self.category);
        let file = category.join(&self.name).join("id");
        let unknown = |what: &str, wanted: &str, directory: &Path| {
            let names = directories(directory);
            let hint = near::hint(
                wanted,
                names.iter().map(String::as_str),
                &format!("; {} lists them", directory.display()),
            );
            Error::request(format!(
                "--metric {}: there is no {what} {wanted}{hint}",
                self.request()
            ))
        };
        match fs::read_to_string(&file) {
            Ok(text) => text.trim().parse().map_err(|_| {
                self.unavailable(&format!(
                    "{} holds no number: '{}'",
                    file.display(),
                    text.trim()
                ))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(match category.is_dir() {
                true => unknown("event", &self.name, &category),
                false => unknown("category", &self.category, &events),
            }),
            Err(error) => {
                Err(self.unavailable(&format!("cannot read {}: {error}", file.display())))
            }
        }
    }
}

fn directories(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Where tracefs is mounted and readable.
///
/// # Errors
/// Why not, in words, and how to change that.
pub(super) fn tracefs() -> std::result::Result<PathBuf, String> {
    tracefs_of(&ROOTS.map(Path::new))
}

fn tracefs_of(roots: &[&Path]) -> std::result::Result<PathBuf, String> {
    let mut forbidden = None;
    for root in roots {
        match fs::read_dir(root.join("events")) {
            Ok(_) => return Ok(root.to_path_buf()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden = Some(root),
            Err(_) => {}
        }
    }
    Err(match forbidden {
        Some(root) => format!(
            "{} may be read by root only: run jostle with sudo",
            root.display()
        ),
        None => "tracefs is not mounted: sudo mount -t tracefs nodev /sys/kernel/tracing".into(),
    })
}

/// System calls that are timed.
const CALLS: u32 = 2000;

/// What counting one event costs here: a cheap system call of our own thread,
/// with and without being counted. Other events cost less, since they do not
/// send system calls the slow way.
///
/// # Errors
/// Why it cannot be measured.
pub(super) fn cost() -> std::result::Result<Duration, String> {
    let event = Tracepoint::parse("syscalls:sys_enter_getppid").and_then(|point| point.id());
    let id = event.map_err(|_| "this kernel has no tracepoints of system calls".to_string())?;
    let event = Event::Tracepoint { id };
    let round = || {
        for _ in 0..CALLS {
            std::hint::black_box(nix::unistd::getppid());
        }
    };
    let without = fastest(round);
    let here = Place::Thread {
        id: 0,
        inherit: false,
    };
    let counter = event.count(here);
    let counter = counter.map_err(|error| explain(&event, &error))?;
    let with = fastest(round);
    drop(counter);
    Ok(with.saturating_sub(without) / CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, id) in [("sched_switch", "314\n"), ("sched_wakeup", "none")] {
            let event = root.path().join("events/sched").join(name);
            fs::create_dir_all(&event).unwrap();
            fs::write(event.join("id"), id).unwrap();
        }
        root
    }

    #[test]
    fn events_are_found_and_near_names_listed() {
        let root = fake();
        let id = |text| Tracepoint::parse(text).unwrap().id_below(root.path());
        assert_eq!(id("sched:sched_switch").unwrap(), 314);
        let error = id("sched:sched_swich").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("sched_switch"), "{error}");
        let error = id("shed:x").unwrap_err().to_string();
        assert!(
            error.contains("no category shed; near names: sched"),
            "{error}"
        );
        let error = id("sched:sched_wakeup").unwrap_err();
        assert_eq!(error.exit_code(), 3);
        for wrong in ["", "sched", "a:", ":b", "../x:y", "a:b:c"] {
            assert_eq!(Tracepoint::parse(wrong).unwrap_err().exit_code(), 2);
        }
    }

    #[test]
    fn an_unmounted_tracefs_is_said() {
        let root = fake();
        assert_eq!(tracefs_of(&[root.path()]).unwrap(), root.path());
        let reason = tracefs_of(&[Path::new("/nonexistent")]).unwrap_err();
        assert!(reason.contains("mount -t tracefs"), "{reason}");
    }
}
