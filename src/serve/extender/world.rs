//! What the extender knows: nodes, what runs on them, what agents said. It follows
//! from the API server, the agents and the profiles alone, so that replicas agree and
//! a restart loses nothing.

use super::live::Live;
use super::profiles::Profiles;
use super::protocol::Pod;
use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::Ranking;
use jostle_schedule::ResidentId;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

/// How long a pod is taken to be on its way to the node that was scored best.
const LONGEST_BINDING: Duration = Duration::from_secs(10);

/// A node, as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub name: String,
    pub cpus: u32,
    pub shares_cpus: bool,
}

/// A pod on a node.
struct Placed {
    title: String,
    node: String,
    profile: String,
    cpus: u32,
    created: String,
    /// Absent where its profile or its node is not known.
    resident: Option<ResidentId>,
    /// `None` once the API server has it there.
    until: Option<Instant>,
}

/// What runs on a node outside of pods.
struct Outside {
    profiles: Vec<String>,
    residents: Vec<ResidentId>,
}

/// Everything that decisions read.
#[derive(Default)]
pub struct World {
    pub(super) cluster: Cluster,
    pub(super) ranking: Ranking,
    pub(super) profiles: Arc<Profiles>,
    nodes: HashMap<String, NodeId>,
    /// By uid.
    pods: HashMap<String, Placed>,
    /// By the name of a node: keys of the pods on it.
    pods_on: HashMap<String, HashSet<String>>,
    /// Pods with a known profile by age, oldest first.
    by_age: BTreeMap<(String, String), Arc<App>>,
    live: HashMap<String, Live>,
    outside: HashMap<String, Outside>,
    /// When the API server was last heard of.
    pub informed: Option<Instant>,
    /// Nodes that came back with other CPUs, for names that were not used before.
    renamed: u64,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub nodes: usize,
    pub residents: usize,
    pub pods: usize,
    pub agents: usize,
    pub stale_agents: usize,
}

impl World {
    pub fn counts(&self, now: Instant) -> Counts {
        let fresh = self.live.values().filter(|it| it.is_fresh(now)).count();
        Counts {
            nodes: self.nodes.len(),
            residents: self.cluster.running(),
            pods: self.pods.len(),
            agents: self.live.len(),
            stale_agents: self.live.len() - fresh,
        }
    }

    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).copied()
    }

    /// Names of all nodes, sorted.
    pub fn node_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    pub fn live(&self, node: &str) -> Option<&Live> {
        self.live.get(node)
    }

    /// Names of the profiles of what runs on `node`, sorted.
    pub fn residents(&self, node: NodeId) -> Vec<&str> {
        let residents = self.cluster.residents(node);
        let mut names: Vec<&str> = residents.map(|(_, it)| it.app.name()).collect();
        names.sort_unstable();
        names
    }

    /// From now on other profiles are in force.
    pub fn set_profiles(&mut self, profiles: Arc<Profiles>) {
        self.profiles = profiles;
        let keys: Vec<String> = self.pods.keys().cloned().collect();
        for key in keys {
            self.attach_again(key);
        }
        let nodes: Vec<String> = self.outside.keys().cloned().collect();
        for node in nodes {
            self.settle_outside(&node, true);
        }
    }

    pub fn replace_nodes(&mut self, sites: Vec<Site>) {
        let named: HashSet<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        let gone = self.nodes.keys().filter(|it| !named.contains(it.as_str()));
        let gone: Vec<String> = gone.cloned().collect();
        for name in gone {
            self.remove_node(&name);
        }
        for site in sites {
            self.set_node(site);
        }
    }

    pub fn set_node(&mut self, site: Site) {
        if let Some(id) = self.nodes.get(&site.name) {
            let node = self.cluster.node(*id);
            if node.cpus == site.cpus && node.shares_cpus == site.shares_cpus {
                return;
            }
            self.remove_node(&site.name);
        }
        let mut name = site.name.clone();
        while self.cluster.id(&name).is_some() {
            self.renamed += 1;
            name = format!("{} ({})", site.name, self.renamed);
        }
        let added = self.cluster.add_node(Node {
            name,
            cpus: site.cpus.max(1),
            memory_bytes: 0,
            platform: None,
            shares_cpus: site.shares_cpus,
        });
        if let Ok(id) = added {
            self.nodes.insert(site.name.clone(), id);
            self.attach_all(&site.name);
        }
    }

    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.nodes.remove(name) else {
            return;
        };
        self.cluster.take_down(id);
        for key in self.pods_on.get(name).into_iter().flatten() {
            if let Some(placed) = self.pods.get_mut(key) {
                placed.resident = None;
            }
        }
        if let Some(outside) = self.outside.get_mut(name) {
            outside.residents.clear();
        }
    }

    pub fn replace_pods(&mut self, pods: &[Pod]) {
        let named: HashSet<String> = pods.iter().map(Pod::key).collect();
        let gone = self.pods.iter();
        let gone = gone.filter(|(key, placed)| placed.until.is_none() && !named.contains(*key));
        let gone: Vec<String> = gone.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.take(&key);
        }
        for pod in pods {
            self.set_pod(pod);
        }
    }

    /// `pod`, as the API server has it.
    pub fn set_pod(&mut self, pod: &Pod) {
        let key = pod.key();
        let ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        let node = pod.spec.node_name.as_deref().filter(|it| !it.is_empty());
        match (node, pod.profile()) {
            (Some(node), Ok(Some(profile))) if !ended => self.place(pod, node, profile, None),
            (None, _) if !ended => {}
            _ => {
                self.take(&key);
            }
        }
    }

    pub fn remove_pod(&mut self, pod: &Pod) {
        self.take(&pod.key());
    }

    /// `pod` is taken to be on its way to `node`, until the API server says more.
    pub fn assume(&mut self, pod: &Pod, node: &str, now: Instant) {
        if let Ok(Some(profile)) = pod.profile() {
            self.place(pod, node, profile, Some(now + LONGEST_BINDING));
        }
    }

    /// Forgets that `pod` was taken to be on its way: it is asked about again.
    pub fn forget_assumed(&mut self, pod: &Pod) {
        let key = pod.key();
        if self.pods.get(&key).is_some_and(|it| it.until.is_some()) {
            self.take(&key);
        }
    }

    /// What agents said of a node.
    pub fn set_live(&mut self, name: &str, live: Live) {
        let before = self.outside.get(name).map(|it| &it.profiles);
        let same = match before {
            Some(profiles) => *profiles == live.outside,
            None => live.outside.is_empty(),
        };
        self.live.insert(name.into(), live);
        if !same {
            self.settle_outside(name, true);
        }
    }

    /// Removes pods that were assumed for too long, and forgets agents that have been
    /// silent. Called once a second.
    pub fn tick(&mut self, now: Instant) {
        let late = self.pods.iter();
        let late = late.filter(|(_, it)| it.until.is_some_and(|until| until < now));
        let late: Vec<String> = late.map(|(key, _)| key.clone()).collect();
        for key in late {
            self.take(&key);
        }
        let stale = self.live.iter().filter(|(_, it)| !it.is_fresh(now));
        let stale = stale.filter(|(name, _)| self.outside.contains_key(*name));
        let stale: Vec<String> = stale.map(|(name, _)| name.clone()).collect();
        for name in stale {
            self.settle_outside(&name, false);
        }
    }

    /// Who else might want the places, `newcomer` among them.
    pub(super) fn refresh_newcomers(&mut self, newcomer: &Arc<App>) {
        let count = self.by_age.len();
        let sample = Ranking::sample(count + 1);
        // All of them are near the end.
        let places: Vec<usize> = sample.collect();
        let mut tail: Vec<&Arc<App>> = Vec::new();
        if let Some(first) = places.first() {
            let length = count.saturating_sub(*first);
            tail.extend(self.by_age.values().rev().take(length));
            tail.reverse();
        }
        let first = places.first().copied().unwrap_or(0);
        let apps = places
            .iter()
            .map(|at| tail.get(at - first).map_or(newcomer, |app| app));
        let apps: Vec<Arc<App>> = apps.cloned().collect();
        self.ranking.set_newcomers(apps);
    }

    fn place(&mut self, pod: &Pod, node: &str, profile: &str, until: Option<Instant>) {
        let key = pod.key();
        let cpus = pod.cpus();
        if let Some(known) = self.pods.get_mut(&key) {
            if known.node == node && known.profile == profile && known.cpus == cpus {
                known.until = until;
                return;
            }
            self.take(&key);
        }
        let created = pod.metadata.creation_timestamp.clone();
        let mut placed = Placed {
            title: pod.title(),
            node: node.into(),
            profile: profile.into(),
            cpus,
            created: created.unwrap_or_default(),
            resident: None,
            until,
        };
        self.attach(&mut placed);
        self.keep(key, placed);
    }

    fn keep(&mut self, key: String, placed: Placed) {
        let there = self.pods_on.entry(placed.node.clone()).or_default();
        there.insert(key.clone());
        self.pods.insert(key, placed);
    }

    /// Its node or its profile may be known by now.
    fn attach_again(&mut self, key: String) {
        if let Some(mut placed) = self.take(&key) {
            self.attach(&mut placed);
            self.keep(key, placed);
        }
    }

    /// Makes `placed` a resident, if its node and its profile are known.
    fn attach(&mut self, placed: &mut Placed) {
        let Some(app) = self.profiles.apps.get(&placed.profile) else {
            return;
        };
        let age = (placed.created.clone(), placed.title.clone());
        self.by_age.insert(age, app.clone());
        if let Some(node) = self.nodes.get(&placed.node) {
            let demand = Demand {
                cpus: placed.cpus,
                memory_bytes: 0,
            };
            placed.resident = Some(self.cluster.record(*node, app.clone(), demand));
        }
    }

    /// A node came: what was said to run there becomes resident.
    fn attach_all(&mut self, node: &str) {
        let there = self.pods_on.get(node).into_iter().flatten();
        let there: Vec<String> = there.cloned().collect();
        for key in there {
            self.attach_again(key);
        }
        self.settle_outside(node, true);
    }

    fn take(&mut self, key: &str) -> Option<Placed> {
        let mut placed = self.pods.remove(key)?;
        if let Some(resident) = placed.resident.take() {
            self.cluster.remove(resident);
        }
        let age = (placed.created.clone(), placed.title.clone());
        self.by_age.remove(&age);
        if let Some(there) = self.pods_on.get_mut(&placed.node) {
            there.remove(key);
            if there.is_empty() {
                self.pods_on.remove(&placed.node);
            }
        }
        Some(placed)
    }

    /// Brings what runs on `node` outside of pods in line with what its agent said;
    /// nothing runs there where that is not `fresh`.
    fn settle_outside(&mut self, node: &str, fresh: bool) {
        if let Some(before) = self.outside.remove(node) {
            for resident in before.residents {
                self.cluster.remove(resident);
            }
        }
        let profiles = match self.live.get(node) {
            Some(live) if fresh && !live.outside.is_empty() => live.outside.clone(),
            _ => return,
        };
        let mut residents = Vec::new();
        if let Some(id) = self.nodes.get(node) {
            let known = profiles.iter().filter_map(|it| self.profiles.apps.get(it));
            for app in known {
                residents.push(self.cluster.record(*id, app.clone(), app.demand()));
            }
        }
        let outside = Outside {
            profiles,
            residents,
        };
        self.outside.insert(node.into(), outside);
    }
}
