//! Which cgroup a systemd unit has: the directory that bears its name.

use super::CgroupSpec;
use super::Hierarchies;
use crate::error::Error;
use crate::error::Result;
use crate::near;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

const KINDS: [&str; 3] = [".service", ".scope", ".slice"];

/// The cgroup of unit `given`: `nginx`, `nginx.service`, `session-1.scope`, or,
/// where several managers have such a unit, with parts of the path in front:
/// `user-1000.slice/app.service`.
///
/// # Errors
/// A request error when there is none (with near names) or more than one.
pub fn resolve(hierarchies: &Hierarchies, given: &str) -> Result<CgroupSpec> {
    let refused = |text: String| Error::request(format!("--unit {given}: {text}"));
    let mut wanted: Vec<&str> = given.split('/').filter(|part| !part.is_empty()).collect();
    let Some(last) = wanted.pop() else {
        return Err(refused(
            "give a unit's name, for example nginx.service".into(),
        ));
    };
    let known_kind = KINDS.iter().any(|kind| last.ends_with(kind));
    let name = match known_kind {
        true => last.to_string(),
        false => format!("{last}.service"),
    };
    // systemd puts an underscore before names that cgroup files could have.
    let escaped = format!("_{name}");
    let mut found: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let mut others = Vec::new();
    hierarchies
        .walk(|hierarchy, directory| {
            let (Ok(below), Some(last)) = (
                directory.strip_prefix(&hierarchy.directory),
                directory.file_name().map(|name| name.to_string_lossy()),
            ) else {
                return;
            };
            if (last == name || last == escaped) && leads_through(below, &wanted) {
                let places = found.entry(below.to_path_buf()).or_default();
                places.push(directory.to_path_buf());
            } else if KINDS[..2].iter().any(|kind| last.ends_with(kind)) {
                others.push(last.into_owned());
            }
        })
        .map_err(|error| refused(error.to_string()))?;
    let systems: Vec<PathBuf> = found
        .keys()
        .filter(|path| by_slices(path))
        .cloned()
        .collect();
    let chosen = match (found.len(), systems.as_slice()) {
        (1, _) => found.pop_first(),
        // The system's own comes before those of users and containers.
        (_, [system]) if wanted.is_empty() => found.remove_entry(system),
        _ => None,
    };
    if let Some((_, places)) = chosen {
        return Ok(CgroupSpec {
            directory: hierarchies.best(places).expect("one place at least"),
            name,
            asked: format!("--unit {given}"),
        });
    }
    if found.is_empty() {
        others.sort_unstable();
        others.dedup();
        let any = match others.is_empty() {
            true => "; no unit has a cgroup here (is systemd running?)".to_string(),
            false => near::hint(&name, others, ""),
        };
        return Err(refused(format!(
            "no unit {name} runs here; `systemctl status {name}` tells its state{any}"
        )));
    }
    let list: Vec<String> = found
        .keys()
        .map(|path| format!("/{}", path.display()))
        .collect();
    Err(refused(format!(
        "{} units are called so: {}; put a part of the path before the name, or give one with \
         --cgroup",
        list.len(),
        list.join(", ")
    )))
}

/// Whether the parts of `wanted` come in this order in the path.
fn leads_through(path: &Path, wanted: &[&str]) -> bool {
    let mut parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    wanted
        .iter()
        .all(|wanted| parts.any(|part| part == *wanted))
}

/// Whether only slices stand above: such a unit belongs to the system's manager.
fn by_slices(path: &Path) -> bool {
    let mut above = path.parent().into_iter().flat_map(Path::components);
    above.all(|part| part.as_os_str().to_string_lossy().ends_with(".slice"))
}
