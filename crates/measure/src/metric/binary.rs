//! Which file `BINARY` of a uprobe is, as the target sees it.

use super::error::Reason;
use crate::near;
use crate::workload::Scope;
use jostle_host::os::in_root;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

/// `path/to/file`, `name` or `lib:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    /// Contains a slash: relative to us, or absolute and as the target sees it.
    Path(PathBuf),
    /// A program: one the target runs, or the first of that name in PATH.
    Name(String),
    /// A file that the target has mapped: `libc` finds `libc.so.6`.
    Library(String),
}

impl Binary {
    /// Takes BINARY off `BINARY:SYMBOL`; what is left is the symbol.
    pub(super) fn split(text: &str) -> Option<(Binary, &str)> {
        let (library, rest) = match text.strip_prefix("lib:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, symbol) = rest.split_once(':')?;
        if name.is_empty() || symbol.is_empty() {
            return None;
        }
        let binary = match (library, name.contains('/')) {
            (true, _) => Binary::Library(name.into()),
            (false, true) => Binary::Path(name.into()),
            (false, false) => Binary::Name(name.into()),
        };
        Some((binary, symbol))
    }

    /// The file itself, reachable from here.
    pub(super) fn resolve(&self, target: &Scope) -> Result<PathBuf, Reason> {
        let processes = target.processes();
        match self {
            Binary::Path(path) => {
                let inside = processes.iter().find_map(|pid| inside(*pid, path));
                let found = inside.or_else(|| path.canonicalize().ok());
                found.ok_or_else(|| Reason::NoBinary(path.clone()))
            }
            Binary::Name(name) => {
                let run = processes.iter().find_map(|pid| program(*pid, name));
                run.or_else(|| in_path(name))
                    .ok_or_else(|| Reason::NoProgram(name.clone()))
            }
            Binary::Library(name) => {
                let mapped = mapped(&processes);
                let hit = mapped.iter().find(|(_, path)| is_library(path, name));
                if let Some((pid, path)) = hit {
                    return inside(*pid, path).ok_or_else(|| Reason::Gone(path.clone()));
                }
                let names: Vec<&str> = mapped.iter().filter_map(|(_, path)| file(path)).collect();
                let all = match names.len() {
                    0 => "; its files cannot be read (not our process?)".into(),
                    _ => format!("; it has {}", names[..names.len().min(8)].join(", ")),
                };
                Err(Reason::NotMapped {
                    name: name.clone(),
                    hint: near::hint(name, &names, &all),
                })
            }
        }
    }
}

/// `path` as process `pid` sees it, when it exists there.
pub(super) fn inside(pid: i32, path: &Path) -> Option<PathBuf> {
    // Links inside lead to files inside, and never to ours of the same name.
    let seen = in_root::path(pid, path)?;
    let (there, here) = (fs::metadata(&seen).ok()?, fs::metadata(path).ok());
    // Outside of containers both are the same, and the plain name reads better.
    let same = here.is_some_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()));
    match same {
        true => path.canonicalize().ok(),
        false => Some(seen),
    }
}

fn file(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// The program of `pid`, if it is called `name`.
fn program(pid: i32, name: &str) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let own = file(&path)?;
    // python3 is a link to python3.11.
    let versioned = own
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with(['.', '-']));
    (own == name || versioned).then(|| inside(pid, &path))?
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .and_then(|file| file.canonicalize().ok())
}

fn is_library(path: &Path, name: &str) -> bool {
    let Some(file) = file(path) else { return false };
    [name.to_string(), format!("lib{name}")].iter().any(|name| {
        file.strip_prefix(name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    })
}

/// Files that can be executed, by the first process that has each mapped.
pub(super) fn mapped(processes: &[i32]) -> Vec<(i32, PathBuf)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for &pid in processes {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for path in String::from_utf8_lossy(&maps).lines().filter_map(code_file) {
            if seen.insert(path.to_string()) {
                found.push((pid, PathBuf::from(path)));
            }
        }
    }
    found
}

/// The file that a line of `/proc/PID/maps` runs code from.
fn code_file(line: &str) -> Option<&str> {
    let permissions = line.split_ascii_whitespace().nth(1)?;
    let path = &line[line.find('/')?..];
    (permissions.contains('x') && !path.ends_with(" (deleted)")).then_some(path)
}

/// Addresses that `pid` runs code of files at, with the offset of the first in
/// its file.
pub(super) fn executable_areas(pid: i32) -> Vec<(Range<u64>, u64, PathBuf)> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    maps.lines().filter_map(area).collect()
}

/// The area that a line of `/proc/PID/maps` describes, if code of a file lies there.
pub(super) fn area(line: &str) -> Option<(Range<u64>, u64, PathBuf)> {
    let path = code_file(line)?;
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some((from..to, number(offset)?, path.into()))
}

/// Processes outside of `own` that have `file` mapped; `None` when it cannot
/// be known because some may not be looked into.
///
/// Of a program, as opposed to a library, a process that may not be looked into is a user if
/// it is called like the file.
fn other_users(file: &Path, own: &[i32]) -> Option<usize> {
    let wanted = fs::metadata(file).ok()?;
    let same = |pid: &i32| {
        let program = fs::metadata(format!("/proc/{pid}/exe"));
        program.is_ok_and(|it| (it.dev(), it.ino()) == (wanted.dev(), wanted.ino()))
    };
    let name = file.file_name()?.to_str()?;
    // Of a command that starts programs one after another, none may run this one now.
    let looks_like_one = wanted.mode() & 0o111 != 0 && !name.contains(".so");
    let is_program = looks_like_one || own.iter().any(same);
    let mut count = 0;
    for pid in crate::workload::tree::processes() {
        if own.contains(&pid) {
            continue;
        }
        let maps = match fs::read(format!("/proc/{pid}/maps")) {
            Ok(maps) => maps,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let called = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                // The kernel keeps the first 15 bytes of a name.
                if !is_program || called.is_empty() || name.starts_with(called.trim_end()) {
                    return None;
                }
                continue;
            }
            // It has ended.
            Err(_) => continue,
        };
        let maps = String::from_utf8_lossy(&maps);
        let has = maps.lines().any(|line| {
            // The number of the inode is enough to be careful.
            line.split_ascii_whitespace().nth(4) == Some(&wanted.ino().to_string())
        });
        count += usize::from(has);
    }
    Some(count)
}

/// How often it is looked for others that have a file mapped.
const LOOKS: usize = 3;

/// Whether nobody but `target` is seen to have `file` mapped. What the target starts between
/// two of its steps is not taken for somebody else.
pub(super) fn is_own(file: &Path, target: &Scope) -> bool {
    (0..LOOKS).any(|_| other_users(file, &target.processes()) == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_told_apart() {
        let split = |text| Binary::split(text);
        let path = |text: &str| Binary::Path(text.into());
        assert_eq!(split("/bin/x:f"), Some((path("/bin/x"), "f")));
        assert_eq!(split("./x:a::b"), Some((path("./x"), "a::b")));
        assert_eq!(split("x:f"), Some((Binary::Name("x".into()), "f")));
        let libc = Binary::Library("libc".into());
        assert_eq!(split("lib:libc:malloc"), Some((libc, "malloc")));
        for wrong in ["", "x", "x:", ":f", "lib:libc", "lib:libc:"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn mapped_code_is_found_by_short_names() {
        let library = Path::new("/usr/lib/libc.so.6");
        assert!(is_library(library, "libc") && is_library(library, "c"));
        assert!(is_library(library, "libc.so.6") && !is_library(library, "lib"));
        assert_eq!(
            code_file("7f00-7f01 r-xp 00 fe:00 9   /a b/c"),
            Some("/a b/c")
        );
        assert_eq!(code_file("7f00-7f01 r--p 00 fe:00 9   /a"), None);
        assert_eq!(code_file("7f00-7f01 r-xp 00 fe:00 9   /a (deleted)"), None);
        assert!(area("7f00-7f01 r-xp 00 fe:00 9   /a").is_some());
        assert_eq!(area("7f01-7f00 r-xp 00 fe:00 9   /a"), None);
        let us = Scope::Processes(vec![std::process::id() as i32]);
        let missing = Binary::Library("libnone".into())
            .resolve(&us)
            .unwrap_err()
            .to_string();
        assert!(missing.contains("no file libnone mapped"), "{missing}");
        let own = std::env::current_exe().unwrap();
        assert!(Binary::Path(own).resolve(&us).is_ok());
    }

    #[test]
    fn a_file_is_its_own_while_nobody_else_runs_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("waits");
        std::fs::copy("/bin/sleep", &file).unwrap();
        let start = || std::process::Command::new(&file).arg("60").spawn().unwrap();
        let mut both = [start(), start()];
        let of = |pids: &[u32]| Scope::Processes(pids.iter().map(|pid| *pid as i32).collect());
        let pids = both.each_ref().map(std::process::Child::id);
        // A process that was just started has not mapped its program yet.
        let runs = |pid: &u32| mapped(&[*pid as i32]).iter().any(|(_, it)| it == &file);
        let begun = std::time::Instant::now();
        while !pids.iter().all(runs) && begun.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let seen = [is_own(&file, &of(&pids)), is_own(&file, &of(&pids[..1]))];
        both[1].kill().unwrap();
        both[1].wait().unwrap();
        let alone = is_own(&file, &of(&pids[..1]));
        both[0].kill().unwrap();
        both[0].wait().unwrap();
        assert_eq!(seen, [true, false]);
        assert!(alone);
    }
}
