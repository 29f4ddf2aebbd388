//! Names of containers, from the files in which the engines keep their state.
//! Read without any engine's help, so every file may be missing, unreadable or
//! of a shape not known here; what was looked at is told.

use super::Hierarchies;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::path::PathBuf;

/// Larger files are not what is looked for.
const MOST_BYTES: u64 = 16 << 20;

/// A container that an engine knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) engine: &'static str,
    pub(super) id: String,
    pub(super) name: String,
    /// Pod and its namespace, with Kubernetes.
    pod: Option<(String, String)>,
    /// `linux.cgroupsPath` of the runtime's specification.
    cgroups_path: Option<String>,
    /// Labels, and the annotations of the runtime's specification.
    pub(super) labels: BTreeMap<String, String>,
}

impl Known {
    fn new(engine: &'static str, id: &str, name: &str) -> Known {
        Known {
            engine,
            id: id.into(),
            name: name.into(),
            pod: None,
            cgroups_path: None,
            labels: BTreeMap::new(),
        }
    }

    /// Namespace and name of its pod, with Kubernetes.
    pub(super) fn pod(&self) -> Option<(&str, &str)> {
        let (pod, namespace) = self.pod.as_ref()?;
        Some((namespace, pod))
    }

    /// Whether `given` is its name, `POD/NAME` or `NAMESPACE/POD/NAME`, or an
    /// id that is not like the usual ones.
    pub(super) fn is(&self, given: &str) -> bool {
        let name = &self.name;
        given == *name
            || given == self.id
            || self.pod.as_ref().is_some_and(|(pod, namespace)| {
                given == format!("{pod}/{name}") || given == format!("{namespace}/{pod}/{name}")
            })
    }

    /// Its cgroup by the path that the runtime was told, for ids of any shape.
    pub(super) fn cgroup(&self, hierarchies: &Hierarchies) -> Option<PathBuf> {
        let path = self.cgroups_path.as_ref()?;
        let below = match path.split(':').collect::<Vec<_>>().as_slice() {
            [slice, prefix, id] => slice_path(slice).join(format!("{prefix}-{id}.scope")),
            _ => PathBuf::from(path.trim_matches('/')),
        };
        let places: Vec<PathBuf> = hierarchies
            .iter()
            .map(|hierarchy| hierarchy.directory.join(&below))
            .filter(|directory| directory.is_dir())
            .collect();
        match below.as_os_str().is_empty() {
            true => None,
            false => hierarchies.best(places),
        }
    }
}

/// `a-b.slice` lies in `a.slice/a-b.slice`.
fn slice_path(slice: &str) -> PathBuf {
    let bare = slice.strip_suffix(".slice").unwrap_or(slice);
    let mut path = PathBuf::new();
    for (end, _) in bare.match_indices('-') {
        path.push(format!("{}.slice", &bare[..end]));
    }
    path.push(format!("{bare}.slice"));
    path
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id: String = self.id.chars().take(12).collect();
        match &self.pod {
            Some((pod, namespace)) => {
                write!(f, "{namespace}/{pod}/{} ({} {id})", self.name, self.engine)
            }
            None => write!(f, "{} ({} {id})", self.name, self.engine),
        }
    }
}

/// What the engines' files tell.
pub(super) struct Looked {
    pub(super) known: Vec<Known>,
    /// Each place, with what was found there.
    pub(super) places: Vec<String>,
}

/// Reads the state of every engine below `root`, and of those without root
/// below `root`/`home`.
pub(super) fn look(root: &Path, home: Option<&Path>) -> Looked {
    let mut looked = Looked {
        known: Vec::new(),
        places: Vec::new(),
    };
    let home = home.map(|home| home.strip_prefix("/").unwrap_or(home));
    let shared = [
        Some(PathBuf::from("var/lib")),
        home.map(|home| home.join(".local/share")),
    ];
    for base in shared.into_iter().flatten() {
        looked.place(root, "docker", &base.join("docker/containers"), docker);
        looked.place(root, "podman", &base.join("containers/storage"), podman);
    }
    // Places that only some machines have are told of only there.
    if let Some(moved) = docker_data_root(root) {
        looked.place(root, "docker", &moved.join("containers"), docker);
    }
    let task = "io.containerd.runtime.v2.task";
    for base in ["run/containerd", "run/k3s/containerd"] {
        let path = Path::new(base).join(task);
        if base == "run/containerd" || root.join(&path).exists() {
            looked.place(root, "containerd", &path, containerd);
        }
    }
    for base in ["run/containers/storage", "var/lib/containers/storage"] {
        looked.place(root, "cri-o", Path::new(base), crio);
    }
    looked.known.dedup_by(|one, other| one == other);
    looked
}

/// Where Docker was told to keep its state, relative to the root.
fn docker_data_root(root: &Path) -> Option<PathBuf> {
    let configuration = json(&root.join("etc/docker/daemon.json"))?;
    let moved = Path::new(configuration["data-root"].as_str()?);
    Some(moved.strip_prefix("/").ok()?.to_path_buf())
}

impl Looked {
    fn place(&mut self, root: &Path, engine: &str, path: &Path, read: fn(&Path) -> Vec<Known>) {
        let found = match std::fs::read_dir(root.join(path)) {
            Ok(_) => {
                let known = read(&root.join(path));
                let count = known.len();
                self.known.extend(known);
                format!("{count} there")
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "not there".into(),
            Err(error) => error.to_string(),
        };
        let place = format!("{engine} (/{}: {found})", path.display());
        self.places.push(place);
    }
}

fn docker(directory: &Path) -> Vec<Known> {
    let states = entries(directory).filter_map(|container| json(&container.join("config.v2.json")));
    states
        .filter_map(|state| {
            let name = state["Name"].as_str()?.trim_start_matches('/');
            Some(Known {
                labels: texts(&state["Config"]["Labels"]),
                ..Known::new("docker", state["ID"].as_str()?, name)
            })
        })
        .collect()
}

/// `<driver>-containers/containers.json`, which CRI-O has too: its containers
/// are called `k8s_NAME_POD_NAMESPACE_UID_ATTEMPT` there and told by their
/// annotations instead.
fn podman(directory: &Path) -> Vec<Known> {
    let mut known = Vec::new();
    for storage in stores(directory) {
        let list = json(&storage.join("containers.json"));
        for container in list.iter().filter_map(Value::as_array).flatten() {
            let Some(id) = container["id"].as_str() else {
                continue;
            };
            let names = container["names"].as_array().into_iter().flatten();
            let names = names.filter_map(Value::as_str);
            let file = storage.join(id).join("userdata/config.json");
            // Its labels are in a data base; annotations are in this file.
            let specification = json(&file).unwrap_or_default();
            let labels = texts(&specification["annotations"]);
            known.extend(names.map(|name| Known {
                labels: labels.clone(),
                ..Known::new("podman", id, name)
            }));
        }
    }
    known
}

/// `NAMESPACE/ID/config.json`: of Kubernetes by annotation, of nerdctl too; of
/// ctr the id is the name.
fn containerd(directory: &Path) -> Vec<Known> {
    const ANNOTATIONS: Annotations = Annotations {
        kind: "io.kubernetes.cri.container-type",
        names: &["io.kubernetes.cri.container-name", "nerdctl/name"],
        pod: "io.kubernetes.cri.sandbox-name",
        namespace: "io.kubernetes.cri.sandbox-namespace",
    };
    let containers = entries(directory).flat_map(|namespace| entries(&namespace));
    let found = containers.filter_map(|container| {
        let (mut known, name) = specified(&container, "config.json", &ANNOTATIONS)?;
        known.engine = "containerd";
        known.name = name.unwrap_or_else(|| known.id.clone());
        Some(known)
    });
    found.collect()
}

/// `<driver>-containers/ID/userdata/config.json`.
fn crio(directory: &Path) -> Vec<Known> {
    const ANNOTATIONS: Annotations = Annotations {
        kind: "io.kubernetes.cri-o.ContainerType",
        names: &["io.kubernetes.container.name"],
        pod: "io.kubernetes.pod.name",
        namespace: "io.kubernetes.pod.namespace",
    };
    let containers = stores(directory).flat_map(|storage| entries(&storage));
    let found = containers.filter_map(|container| {
        let (mut known, name) = specified(&container, "userdata/config.json", &ANNOTATIONS)?;
        known.engine = "cri-o";
        known.name = name?;
        Some(known)
    });
    found.collect()
}

/// The annotations by which an engine tells what a container is.
struct Annotations {
    kind: &'static str,
    names: &'static [&'static str],
    pod: &'static str,
    namespace: &'static str,
}

/// What the runtime's specification in the directory of a container tells, and
/// its name if it has one; nothing of the sandbox of a pod.
fn specified(container: &Path, file: &str, keys: &Annotations) -> Option<(Known, Option<String>)> {
    let id = container.file_name()?.to_string_lossy();
    let specification = json(&container.join(file))?;
    let annotation = |key: &str| {
        let value = specification.get("annotations")?.get(key)?.as_str()?;
        Some(value.to_string())
    };
    if annotation(keys.kind).as_deref() == Some("sandbox") {
        return None;
    }
    let path = specification.pointer("/linux/cgroupsPath");
    let mut labels = texts(&specification["annotations"]);
    // CRI-O keeps the labels as JSON in an annotation.
    if let Some(text) = labels.get("io.kubernetes.cri-o.Labels")
        && let Ok(inside) = serde_json::from_str::<Value>(text)
    {
        labels.extend(texts(&inside));
    }
    let known = Known {
        labels,
        pod: annotation(keys.pod).map(|pod| (pod, annotation(keys.namespace).unwrap_or_default())),
        cgroups_path: path.and_then(Value::as_str).map(str::to_string),
        ..Known::new("", &id, "")
    };
    Some((known, keys.names.iter().find_map(|key| annotation(key))))
}

/// `overlay-containers`, `vfs-containers`, …
fn stores(directory: &Path) -> impl Iterator<Item = PathBuf> {
    entries(directory).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with("-containers")
    })
}

/// The members of an object that are texts.
fn texts(object: &Value) -> BTreeMap<String, String> {
    let members = object.as_object().into_iter().flatten();
    let texts = members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())));
    texts.collect()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable();
    found.into_iter()
}

fn json(file: &Path) -> Option<Value> {
    let size = std::fs::metadata(file).ok()?.len();
    if size > MOST_BYTES {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_in_slices() {
        assert_eq!(
            slice_path("kubepods-burstable-pod1.slice"),
            Path::new("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice")
        );
        assert_eq!(slice_path("system.slice"), Path::new("system.slice"));
    }
}
