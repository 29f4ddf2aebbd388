//! Which cgroup a container has. Its id stands in the cgroup's own name,
//! whatever engine made it, so that an id needs no engine's socket; a name is
//! looked up in what the engines keep on disk.

use super::CgroupSpec;
use super::Hierarchies;
use super::engines;
use super::engines::Known;
use crate::error::Error;
use crate::error::Result;
use crate::near;
use jostle_host::os;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

/// Length of a full id.
const ID: usize = 64;
/// What is shown of it.
const SHORT: usize = 12;

/// What the engines put before an id, and who they are.
const PREFIXES: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("containerd", "containerd"),
    ("nerdctl", "nerdctl"),
    ("crio", "cri-o"),
    ("libpod", "podman"),
];

/// Whose container `name` is the cgroup directory of, and its id.
///
/// The systemd driver makes `docker-ID.scope`, the cgroupfs driver a bare `ID`
/// or `crio-ID`; a runtime that was told the wrong driver makes
/// `…slice:cri-containerd:ID`. The monitor beside a container
/// (`crio-conmon-ID.scope`) is not it.
fn id_of(name: &str) -> Option<(&'static str, &str)> {
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    let known = |prefix: &str| PREFIXES.iter().find(|(known, _)| *known == prefix);
    if let Some((before, id)) = bare.rsplit_once(':') {
        let prefix = before.rsplit(':').next().unwrap_or_default();
        return is_full(id).then_some((known(prefix)?.1, id));
    }
    match bare.rsplit_once('-') {
        Some((prefix, id)) if is_full(id) => Some((known(prefix)?.1, id)),
        None if is_full(bare) => Some(("", bare)),
        _ => None,
    }
}

/// The engine, told from what stands above a bare id.
fn engine_above(path: &Path) -> &'static str {
    let text = path.to_string_lossy();
    match () {
        _ if text.contains("/docker/") || text.starts_with("docker/") => "docker",
        _ if text.contains("libpod_parent") => "podman",
        _ if text.contains("kubepods") => "kubernetes",
        _ => "container",
    }
}

fn is_full(text: &str) -> bool {
    text.len() == ID && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The id of the container that a cgroup directory called `name` is of.
pub fn container_id(name: &str) -> Option<&str> {
    id_of(name).map(|(_, id)| id)
}

/// What an engine keeps about a container on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    pub name: String,
    /// Namespace and name of its pod, with Kubernetes.
    pub pod: Option<(String, String)>,
    /// Labels, and annotations of the runtime's specification.
    pub labels: BTreeMap<String, String>,
}

/// All containers that the engines' files below `root` tell of, by id.
pub fn containers(root: &Path, home: Option<&Path>) -> BTreeMap<String, ContainerFacts> {
    let known = engines::look(root, home).known.into_iter();
    let facts = known.map(|known| {
        let pod = known.pod().map(|(a, b)| (a.to_string(), b.to_string()));
        let facts = ContainerFacts {
            pod,
            name: known.name,
            labels: known.labels,
        };
        (known.id, facts)
    });
    facts.collect()
}

/// A container with a cgroup.
struct Running {
    engine: &'static str,
    /// Its path in one of the hierarchies, for messages.
    path: PathBuf,
    directories: Vec<PathBuf>,
}

fn running(hierarchies: &Hierarchies) -> std::result::Result<BTreeMap<String, Running>, os::Error> {
    let mut found: BTreeMap<String, Running> = BTreeMap::new();
    hierarchies.walk(|hierarchy, directory| {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let Some((engine, id)) = id_of(&name) else {
            return;
        };
        let below = directory.strip_prefix(&hierarchy.directory);
        let below = below.unwrap_or(directory).to_path_buf();
        let entry = found.entry(id.to_string()).or_insert_with(|| Running {
            engine: match engine {
                "" => engine_above(&below),
                known => known,
            },
            path: below,
            directories: Vec::new(),
        });
        // Parents come first: what lies inside is part of the container.
        if !entry
            .directories
            .iter()
            .any(|known| directory.starts_with(known))
        {
            entry.directories.push(directory.to_path_buf());
        }
    })?;
    Ok(found)
}

/// The cgroup of the container with id `given` (or the beginning of one), or of
/// that name. `root` is where the engines' files are looked for, `/` but in
/// tests; `home` is for engines without root.
///
/// # Errors
/// A request error when there is none, telling where was looked, or when
/// several match, with the list.
pub fn resolve(
    hierarchies: &Hierarchies,
    root: &Path,
    home: Option<&Path>,
    given: &str,
) -> Result<CgroupSpec> {
    let refused = |text: String| Error::request(format!("--container {given}: {text}"));
    if given.is_empty() {
        return Err(refused(
            "give an id, the beginning of one, or a name".into(),
        ));
    }
    let running = running(hierarchies).map_err(|error| refused(error.to_string()))?;
    let spec = |directory, name| CgroupSpec {
        directory,
        name,
        asked: format!("--container {given}"),
    };
    let directory = |entry: &Running| {
        let best = hierarchies.best(entry.directories.clone());
        best.expect("one directory at least")
    };
    if let Some(entry) = running.get(given) {
        return Ok(spec(directory(entry), short(given)));
    }
    // As Docker does it: a whole name goes before the beginning of an id.
    let looked = engines::look(root, home);
    let all = looked.known.iter();
    let named: Vec<&Known> = all.filter(|known| known.is(given)).collect();
    let mut living: Vec<(&Known, PathBuf)> = Vec::new();
    for known in &named {
        let found = running.get(&known.id).map(directory);
        let found = found.or_else(|| known.cgroup(hierarchies));
        living.extend(found.map(|directory| (*known, directory)));
    }
    living.dedup_by(|(_, one), (_, other)| one == other);
    match living.as_slice() {
        [(known, directory)] => return Ok(spec(directory.clone(), known.name.clone())),
        [] => {}
        several => {
            let list: Vec<String> = several.iter().map(|(known, _)| known.to_string()).collect();
            return Err(refused(format!(
                "{} running containers have that name: {}; give the id",
                list.len(),
                list.join(", ")
            )));
        }
    }
    let begins = |(id, _): &(&String, &Running)| is_hex(given) && id.starts_with(given);
    let matching: Vec<(&String, &Running)> = running.iter().filter(begins).collect();
    let describe = |(id, entry): (&String, &Running)| describe(id, entry, &looked.known);
    match matching.as_slice() {
        [(id, entry)] => return Ok(spec(directory(entry), short(id))),
        [] => {}
        several => {
            let list: Vec<String> = several.iter().copied().map(describe).collect();
            return Err(refused(format!(
                "{} containers have an id that begins so: {}; give more of it",
                list.len(),
                list.join(", ")
            )));
        }
    }
    if let Some(known) = named.first() {
        return Err(refused(format!(
            "{known} has no cgroup: it does not run; start it first"
        )));
    }
    let list: Vec<String> = running.iter().map(describe).take(8).collect();
    let here = match list.is_empty() {
        true => "no container runs here".to_string(),
        false => format!("running: {}", list.join(", ")),
    };
    let names = looked.known.iter().map(|known| &known.name);
    let near = near::hint(given, names, "");
    Err(refused(format!(
        "no running container has that id, and none that name: looked at {}; an id, or the \
         beginning of one, works without any of these; {here}{near}",
        looked.places.join(", ")
    )))
}

fn short(id: &str) -> String {
    id.chars().take(SHORT).collect()
}

fn describe(id: &str, running: &Running, known: &[Known]) -> String {
    let name = known.iter().find(|known| known.id == id);
    let name = name.map_or(String::new(), |known| format!(" {}", known.name));
    format!(
        "{}{name} ({}, /{})",
        short(id),
        running.engine,
        running.path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_every_known_shape() {
        let id = "0123456789abcdef".repeat(4);
        for (name, engine) in [
            (format!("docker-{id}.scope"), "docker"),
            (id.clone(), ""),
            (format!("cri-containerd-{id}.scope"), "containerd"),
            (format!("nerdctl-{id}.scope"), "nerdctl"),
            (format!("crio-{id}.scope"), "cri-o"),
            (format!("crio-{id}"), "cri-o"),
            (format!("libpod-{id}.scope"), "podman"),
            (format!("libpod-{id}"), "podman"),
            (
                format!("kubepods-burstable-pod1.slice:cri-containerd:{id}"),
                "containerd",
            ),
            (format!("system.slice:docker:{id}"), "docker"),
        ] {
            assert_eq!(id_of(&name), Some((engine, id.as_str())), "{name}");
        }
        for name in [
            format!("crio-conmon-{id}.scope"),
            format!("libpod-conmon-{id}.scope"),
            format!("other-{id}.scope"),
            format!("docker-{}.scope", &id[..63]),
            format!("docker-{}.scope", id.to_uppercase()),
            "system.slice".into(),
            String::new(),
        ] {
            assert_eq!(id_of(&name), None, "{name}");
        }
    }
}
