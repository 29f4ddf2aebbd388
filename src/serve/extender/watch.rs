//! Nodes and pods, listed once and watched from then on.

use super::api_server::ApiServer;
use super::api_server::Fault;
use super::protocol::Metadata;
use super::protocol::Pod;
use super::protocol::quantity;
use super::world::Site;
use super::world::World;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;

/// After this the API server ends a watch, and another is begun.
const WATCH_SECONDS: u64 = 50;
/// Longest silence on a watch; more means that the connection is dead.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 15);
/// Pauses after a failure, from the first to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Largest event, bytes.
const MOST_EVENT: usize = 16 << 20;

/// The label by which a node says that its programs share CPUs.
const SHARES_CPUS: &str = "jostle.dev/shares-cpus";

/// Shared between the watches and the handlers.
#[derive(Clone, Default)]
pub struct SharedWorld(Arc<Mutex<World>>);

impl SharedWorld {
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kind of object that is watched.
pub trait Kind: DeserializeOwned + Send + 'static {
    /// In messages.
    const NAME: &'static str;

    fn metadata(&self) -> &Metadata;
    fn replace_all(world: &mut World, objects: Vec<Self>);
    fn set(world: &mut World, object: Self);
    fn remove(world: &mut World, object: Self);
}

impl Kind for Pod {
    const NAME: &'static str = "pods";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn replace_all(world: &mut World, objects: Vec<Self>) {
        world.replace_pods(&objects);
    }

    fn set(world: &mut World, object: Self) {
        world.set_pod(&object);
    }

    fn remove(world: &mut World, object: Self) {
        world.remove_pod(&object);
    }
}

/// What is read of a node.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct NodeObject {
    metadata: Metadata,
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<BTreeMap<String, Value>>,
    capacity: Option<BTreeMap<String, Value>>,
}

impl NodeObject {
    fn site(self) -> Site {
        let of = |list: &Option<BTreeMap<String, Value>>| quantity(list.as_ref()?.get("cpu")?);
        let cpus = of(&self.status.allocatable).or_else(|| of(&self.status.capacity));
        let labels = self.metadata.labels.unwrap_or_default();
        Site {
            name: self.metadata.name,
            cpus: cpus.unwrap_or(1.0).clamp(1.0, 4096.0) as u32,
            shares_cpus: labels.get(SHARES_CPUS).is_some_and(|it| it == "true"),
        }
    }
}

impl Kind for NodeObject {
    const NAME: &'static str = "nodes";

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn replace_all(world: &mut World, objects: Vec<Self>) {
        let sites = objects.into_iter().map(NodeObject::site);
        world.replace_nodes(sites.collect());
    }

    fn set(world: &mut World, object: Self) {
        world.set_node(object.site());
    }

    fn remove(world: &mut World, object: Self) {
        world.remove_node(&object.metadata.name);
    }
}

/// Pods that are bound and have not ended, of all namespaces.
pub fn pods_path() -> String {
    let selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
    let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
    format!("/api/v1/pods?fieldSelector={selector}")
}

/// Nodes with all of `labels`, as `pool=a`; all nodes without.
pub fn nodes_path(labels: Option<&str>) -> String {
    let labels = labels.unwrap_or_default();
    let labels: String = form_urlencoded::byte_serialize(labels.as_bytes()).collect();
    format!("/api/v1/nodes?labelSelector={labels}")
}

/// Keeps `world` in line with the objects at `path`, until the runtime ends.
/// `listed` is called after every complete list.
pub async fn follow<K: Kind>(
    server: ApiServer,
    path: String,
    world: SharedWorld,
    listed: impl Fn(),
) {
    let mut version: Option<String> = None;
    let mut failed = 0u32;
    loop {
        let begun = match version.take() {
            Some(version) => Ok(version),
            None => {
                let all = list::<K>(&server, &path, &world).await;
                if all.is_ok() {
                    listed();
                }
                all
            }
        };
        let went = match begun {
            Ok(from) => {
                if failed > 0 {
                    tracing::info!("{} are watched again", K::NAME);
                    failed = 0;
                }
                watch::<K>(&server, &path, &world, from).await
            }
            Err(fault) => Err((None, fault)),
        };
        match went {
            Ok(next) => version = Some(next),
            Err((_, Fault::Expired)) => {}
            Err((next, fault)) => {
                if failed == 0 {
                    tracing::warn!("{} cannot be watched: {fault}; trying again", K::NAME);
                }
                failed += 1;
                version = next;
                let pause = PAUSE.0 * 2u32.saturating_pow(failed.min(10) - 1);
                sleep(pause.min(PAUSE.1)).await;
            }
        }
    }
}

#[derive(Deserialize)]
struct Page<K> {
    metadata: PageMetadata,
    items: Option<Vec<K>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

async fn list<K: Kind>(
    server: &ApiServer,
    path: &str,
    world: &SharedWorld,
) -> Result<String, Fault> {
    let mut client = server.client();
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let from: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let page = format!("{path}&limit=500&continue={from}");
        let page: Page<K> = server.read(&mut client, &page).await?;
        objects.extend(page.items.into_iter().flatten());
        next = page.metadata.next.unwrap_or_default();
        if next.is_empty() {
            let mut world = world.lock();
            K::replace_all(&mut world, objects);
            world.informed = Some(Instant::now());
            return Ok(page.metadata.resource_version);
        }
    }
}

/// Where to go on from, if that is known, and what happened.
type Broken = (Option<String>, Fault);

/// Until the API server ends it, which is no failure; gives the version to go on from.
async fn watch<K: Kind>(
    server: &ApiServer,
    path: &str,
    world: &SharedWorld,
    mut version: String,
) -> Result<String, Broken> {
    let path = format!(
        "{path}&watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
    );
    let mut client = server.client();
    let answer = match server.get(&mut client, &path).await {
        Ok(answer) => answer,
        // Refused for its version, or for a reason that a list will meet too.
        Err(Fault::Status(_)) => return Err((None, Fault::Expired)),
        Err(fault) => return Err((Some(version), fault)),
    };
    world.lock().informed = Some(Instant::now());
    let mut body = answer.into_body();
    let mut text: Vec<u8> = Vec::new();
    loop {
        let frame = match timeout(LONGEST_SILENCE, body.frame()).await {
            Ok(None) => return Ok(version),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                return Err((Some(version), Fault::Io(io::Error::other(error))));
            }
            Err(_) => {
                let silent = io::Error::new(io::ErrorKind::TimedOut, "the watch is silent");
                return Err((Some(version), Fault::Io(silent)));
            }
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        text.extend_from_slice(data);
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
            if text.len() > MOST_EVENT {
                return Err((None, Fault::Expired));
            }
            continue;
        };
        let mut world = world.lock();
        world.informed = Some(Instant::now());
        for line in text[..end].split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                version = apply::<K>(&mut world, line).map_err(|fault| (None, fault))?;
            }
        }
        drop(world);
        text.drain(..=end);
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The version after the event on `line`.
fn apply<K: Kind>(world: &mut World, line: &[u8]) -> Result<String, Fault> {
    // What cannot be read is listed again.
    let event: Event = serde_json::from_slice(line).map_err(|_| Fault::Expired)?;
    if event.kind == "ERROR" {
        return Err(Fault::Expired);
    }
    let object: K = serde_json::from_str(event.object.get()).map_err(|_| Fault::Expired)?;
    let version = object.metadata().resource_version.clone();
    match event.kind {
        "ADDED" | "MODIFIED" => K::set(world, object),
        "DELETED" => K::remove(world, object),
        // BOOKMARK says how far it is.
        _ => {}
    }
    Ok(version)
}
