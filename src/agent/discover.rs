//! Which workloads there are: cgroups and processes that match a rule.

use super::rules::Match;
use super::rules::Rule;
use super::tree::Cgroup;
use super::tree::Tree;
use jostle_host::os::cgroup;
use jostle_host::os::cgroup::Hierarchies;
use jostle_host::os::cgroup::Population;
use jostle_host::os::cgroup::population;
use jostle_host::os::proc;
use jostle_host::os::text;
use jostle_measure::workload::cgroup::container;
use jostle_measure::workload::cgroup::container::ContainerFacts;
use jostle_measure::workload::tree::descendants;
use jostle_measure::workload::tree::self_and_ancestors;
use jostle_profile::node::WorkloadKind;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

/// Most processes that a rule may find.
const MOST_PROCESSES: usize = 256;

/// What a workload is, apart from how it does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) key: Key,
    /// Several may have the same.
    pub(super) name: String,
    pub(super) kind: WorkloadKind,
    /// Index into the rules.
    pub(super) rule: usize,
    pub(super) labels: BTreeMap<String, String>,
    /// Whether this program runs inside of it, so that it must not be stopped.
    pub(super) holds_us: bool,
    /// Whether no other cgroup lies inside.
    pub(super) is_leaf: bool,
}

/// What stays the same as long as it is the same workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// Directory and inode.
    Cgroup(PathBuf, u64),
    /// Process id and start time.
    Process(i32, u64),
}

/// Looks for workloads again and again.
pub(super) struct Discovery {
    root: PathBuf,
    rules: Vec<Rule>,
    tree: Result<Tree, String>,
    /// All cgroups as of the last look, and what each is.
    cgroups: Rc<Vec<Cgroup>>,
    looked_at: Vec<Look>,
    containers: BTreeMap<String, ContainerFacts>,
    pods: Pods,
    /// Warnings that were given already.
    warned: BTreeSet<String>,
    fresh: Vec<String>,
    looks: usize,
    /// What was found last: in cgroups, and all.
    in_cgroups: Vec<Found>,
    found: Rc<Vec<Found>>,
}

/// Looks after which it is asked again whether a cgroup still holds somebody.
const LIVES_FOR: usize = 10;

/// What is known of a cgroup.
#[derive(Default)]
enum Look {
    /// Nothing: it is new, or lies inside of a workload.
    #[default]
    NotYet,
    NoRule,
    Candidate(Candidate),
}

impl Look {
    fn state(&self) -> Option<State> {
        match self {
            Look::Candidate(candidate) => Some(candidate.state),
            _ => None,
        }
    }
}

/// A cgroup that a rule matches.
struct Candidate {
    rule: usize,
    name: String,
    kind: WorkloadKind,
    labels: BTreeMap<String, String>,
    state: State,
}

/// What is known of who lives in a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Lives,
    /// And this program is among them.
    HoldsUs,
    /// Init is among them: no workload.
    HoldsInit,
}

impl Candidate {
    /// Whether it is a workload now.
    fn lives(&self) -> bool {
        matches!(self.state, State::Lives | State::HoldsUs)
    }
}

impl Discovery {
    pub(super) fn new(root: &Path, rules: &[Rule]) -> Discovery {
        let hierarchies = Hierarchies::below(root).map_err(|error| error.to_string());
        Discovery {
            root: root.into(),
            rules: rules.to_vec(),
            tree: hierarchies.map(|it| Tree::new(&it)),
            cgroups: Rc::default(),
            looked_at: Vec::new(),
            containers: BTreeMap::new(),
            pods: Pods::default(),
            warned: BTreeSet::new(),
            fresh: Vec::new(),
            looks: 0,
            in_cgroups: Vec::new(),
            found: Rc::default(),
        }
    }

    /// Other rules from now on.
    pub(super) fn set_rules(&mut self, rules: &[Rule]) {
        self.rules = rules.to_vec();
        self.cgroups = Rc::default();
        self.looked_at.clear();
        self.in_cgroups.clear();
        self.warned.clear();
    }

    /// Warnings that are new since the last call.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.fresh)
    }

    fn warn(&mut self, text: String) {
        if self.warned.insert(text.clone()) {
            self.fresh.push(text);
        }
    }

    /// All workloads there are now, by name. The same pointer as before where nobody
    /// came, went or changed.
    pub(super) fn look(&mut self) -> Rc<Vec<Found>> {
        let changed = self.look_at_cgroups();
        if changed {
            self.in_cgroups = self.living();
        }
        let processes = self.processes();
        if changed || self.found.len() != self.in_cgroups.len() || !processes.is_empty() {
            let mut found = self.in_cgroups.clone();
            found.extend(processes);
            found.sort_by(|a, b| (&a.name, &a.key).cmp(&(&b.name, &b.key)));
            if found != *self.found {
                self.found = Rc::new(found);
            }
        }
        self.found.clone()
    }

    /// Finds out what each cgroup is; true when one came, went or changed.
    fn look_at_cgroups(&mut self) -> bool {
        let by_cgroup = |rule: &Rule| !matches!(rule.matches, Match::Process(_));
        if !self.rules.iter().any(by_cgroup) {
            return false;
        }
        let cgroups = match &mut self.tree {
            Err(reason) => {
                let text = format!("no cgroup can be watched: {reason}");
                self.warn(text);
                return false;
            }
            Ok(tree) => {
                tree.refresh();
                let cgroups = tree.cgroups();
                if tree.is_full() {
                    let most = super::tree::MOST;
                    self.warn(format!(
                        "there are more than {most} cgroups; the rest is not watched"
                    ));
                }
                cgroups
            }
        };
        let mut changed = !Rc::ptr_eq(&cgroups, &self.cgroups);
        if changed {
            self.take_over(cgroups.clone());
        }
        self.looks += 1;
        // What lies inside of a workload belongs to it; parents come first.
        let mut inside: Option<&Path> = None;
        for (index, cgroup) in cgroups.iter().enumerate() {
            if inside.is_some_and(|above| cgroup.path.starts_with(above)) {
                continue;
            }
            let mut look = std::mem::take(&mut self.looked_at[index]);
            let before = look.state();
            if matches!(look, Look::NotYet) {
                let candidate = self.candidate(cgroup);
                look = candidate.map_or(Look::NoRule, Look::Candidate);
            }
            if let Look::Candidate(candidate) = &mut look {
                let is_due = (index + self.looks).is_multiple_of(LIVES_FOR);
                match candidate.state {
                    State::Empty => candidate.state = self.state(cgroup, candidate.rule),
                    _ if is_due && population(&cgroup.directory) != Population::Living => {
                        candidate.state = State::Empty;
                    }
                    _ => {}
                }
                if candidate.lives() {
                    inside = Some(&cgroup.path);
                }
            }
            changed |= look.state() != before;
            self.looked_at[index] = look;
        }
        changed
    }

    /// Another list of cgroups from now on; what is known of those of the last stays.
    fn take_over(&mut self, cgroups: Rc<Vec<Cgroup>>) {
        let old = std::mem::replace(&mut self.cgroups, cgroups);
        let key = |it: &Cgroup| (it.path.clone(), it.inode);
        let known = old.iter().map(key).zip(self.looked_at.drain(..));
        let mut known: HashMap<_, Look> = known.collect();
        let looks = self.cgroups.iter().map(|it| known.remove(&key(it)));
        self.looked_at = looks.map(Option::unwrap_or_default).collect();
    }

    /// Cgroups with workloads.
    fn living(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut inside: Option<&Path> = None;
        for (cgroup, look) in self.cgroups.iter().zip(&self.looked_at) {
            if inside.is_some_and(|above| cgroup.path.starts_with(above)) {
                continue;
            }
            let Look::Candidate(candidate) = look else {
                continue;
            };
            if candidate.lives() {
                inside = Some(&cgroup.path);
                found.push(Found {
                    key: Key::Cgroup(cgroup.directory.clone(), cgroup.inode),
                    name: candidate.name.clone(),
                    kind: candidate.kind,
                    rule: candidate.rule,
                    labels: candidate.labels.clone(),
                    holds_us: candidate.state == State::HoldsUs,
                    is_leaf: cgroup.is_leaf,
                });
            }
        }
        found
    }

    fn state(&mut self, cgroup: &Cgroup, rule: usize) -> State {
        if population(&cgroup.directory) != Population::Living {
            return State::Empty;
        }
        let processes = cgroup::processes(&cgroup.directory).unwrap_or_default();
        if processes.contains(&1) {
            self.warn(format!(
                "workload {} (counted from 1) matches /{}, which holds init and is left out",
                rule + 1,
                cgroup.path.display()
            ));
            return State::HoldsInit;
        }
        match processes.contains(&(std::process::id() as i32)) {
            true => State::HoldsUs,
            false => State::Lives,
        }
    }

    /// Which rule a cgroup matches.
    fn candidate(&mut self, cgroup: &Cgroup) -> Option<Candidate> {
        let name = cgroup.path.file_name()?.to_str()?.to_string();
        let container = container::container_id(&name).map(str::to_string);
        let pod = pod_uid(&name);
        let facts = container.as_ref().and_then(|id| self.facts(id));
        let pod_name = pod.and_then(|uid| self.pods.name(&self.root, &uid));
        let shown = format!("/{}", cgroup.path.display());
        let is_unit = [".service", ".scope"].iter().any(|end| name.ends_with(end));
        for (index, rule) in self.rules.iter().enumerate() {
            let (own_name, kind) = match &rule.matches {
                Match::Cgroup(pattern) if pattern.is_match(&shown) => {
                    (name.clone(), WorkloadKind::Cgroup)
                }
                Match::Unit(pattern) if is_unit && container.is_none() => {
                    let bare = name
                        .rsplit_once('.')
                        .map_or(name.as_str(), |(bare, _)| bare);
                    if !pattern.is_match(&name) && !pattern.is_match(bare) {
                        continue;
                    }
                    (bare.to_string(), WorkloadKind::Unit)
                }
                Match::Container(pattern) => {
                    let Some(id) = &container else { continue };
                    let own = facts.as_ref().map_or("", |it| it.name.as_str());
                    let short: String = id.chars().take(12).collect();
                    if ![own, id, &short]
                        .iter()
                        .any(|it| !it.is_empty() && pattern.is_match(it))
                    {
                        continue;
                    }
                    let own = if own.is_empty() {
                        short
                    } else {
                        own.to_string()
                    };
                    (own, WorkloadKind::Container)
                }
                Match::Pod(pattern) => match (&pod_name, &facts) {
                    (Some(name), _) if pattern.is_match(name) => (name.clone(), WorkloadKind::Pod),
                    (_, Some(facts)) => {
                        let Some((namespace, pod)) = &facts.pod else {
                            continue;
                        };
                        let name = format!("{namespace}/{pod}/{}", facts.name);
                        if !pattern.is_match(&name) {
                            continue;
                        }
                        (name, WorkloadKind::Pod)
                    }
                    _ => continue,
                },
                Match::Labels(wanted) => {
                    let Some(facts) = &facts else { continue };
                    let has = |key: &String| facts.labels.get(key);
                    if !wanted
                        .iter()
                        .all(|(key, it)| has(key).is_some_and(|text| it.is_match(text)))
                    {
                        continue;
                    }
                    (facts.name.clone(), WorkloadKind::Container)
                }
                Match::Cgroup(_) | Match::Unit(_) | Match::Process(_) => continue,
            };
            return Some(Candidate {
                rule: index,
                name: rule.name.clone().unwrap_or(own_name),
                kind,
                labels: facts.map(|it| it.labels).unwrap_or_default(),
                state: State::Empty,
            });
        }
        None
    }

    /// What the engines tell of a container; their files are read again when one is
    /// not known yet.
    fn facts(&mut self, id: &str) -> Option<ContainerFacts> {
        if !self.containers.contains_key(id) {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            self.containers = container::containers(&self.root, home.as_deref());
        }
        self.containers.get(id).cloned()
    }

    /// Processes by name: the first of a family, which the rest belongs to. What is
    /// in a cgroup with a workload belongs to that.
    fn processes(&mut self) -> Vec<Found> {
        let patterns = self.rules.iter().enumerate();
        let patterns = patterns.filter_map(|(index, rule)| match &rule.matches {
            Match::Process(pattern) => Some((index, pattern.clone(), rule.name.clone())),
            _ => None,
        });
        let patterns: Vec<_> = patterns.collect();
        if patterns.is_empty() {
            return Vec::new();
        }
        let cgroups = self.cgroups.iter().zip(&self.looked_at);
        let taken: Vec<PathBuf> = cgroups
            .filter(|(_, look)| matches!(look, Look::Candidate(it) if it.lives()))
            .map(|(cgroup, _)| cgroup.path.clone())
            .collect();
        // What the agent starts is its own as well: guards of targets, experiments.
        let mut us = self_and_ancestors();
        us.extend(descendants(std::process::id() as i32));
        let mut matched: BTreeMap<i32, (usize, String, proc::Stat)> = BTreeMap::new();
        for pid in proc::processes(&self.root) {
            let comm = text::text(&self.root, format!("proc/{pid}/comm")).unwrap_or_default();
            let rule = patterns
                .iter()
                .find(|(_, pattern, _)| pattern.is_match(&comm));
            let Some((rule, pattern, name)) = rule else {
                continue;
            };
            let Some(stat) = proc::stat(&self.root, pid).filter(|stat| !stat.ended()) else {
                continue;
            };
            if pid == 1 || pid == 2 || stat.is_kernel_thread() {
                let what = if pid == 1 { "init" } else { "a kernel thread" };
                self.warn(format!(
                    "match = {{ process = \"{}\" }} is also true of {what} ({comm}, pid {pid}), \
                     which is left out",
                    pattern.as_str()
                ));
                continue;
            }
            if us.contains(&pid) || self.is_inside(pid, &taken) {
                continue;
            }
            let name = name.clone().unwrap_or(comm);
            matched.insert(pid, (*rule, name, stat));
            if matched.len() > MOST_PROCESSES {
                self.warn(format!(
                    "match = {{ process = \"{}\" }} is true of more than {MOST_PROCESSES} \
                     processes; the rest is left out",
                    pattern.as_str()
                ));
                break;
            }
        }
        let child = |stat: &proc::Stat, rule: usize| {
            matched
                .get(&stat.parent)
                .is_some_and(|(above, ..)| *above == rule)
        };
        let found = matched
            .iter()
            .filter(|(_, (rule, _, stat))| !child(stat, *rule));
        let found = found.map(|(pid, (rule, name, stat))| Found {
            key: Key::Process(*pid, stat.start),
            name: name.clone(),
            kind: WorkloadKind::Process,
            rule: *rule,
            labels: BTreeMap::new(),
            holds_us: false,
            is_leaf: true,
        });
        found.collect()
    }
}

impl Discovery {
    /// Whether a process is in one of the cgroups `taken`, in any hierarchy.
    fn is_inside(&self, pid: i32, taken: &[PathBuf]) -> bool {
        if taken.is_empty() {
            return false;
        }
        let text = text::text(&self.root, format!("proc/{pid}/cgroup")).unwrap_or_default();
        let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.any(|path| {
            let path = Path::new(path.trim_start_matches('/'));
            taken.iter().any(|above| path.starts_with(above))
        })
    }
}

/// The UID of the pod that a cgroup directory called `name` is of: `podUID` with the
/// cgroupfs driver, `kubepods-burstable-podUID.slice` with dashes as underscores with
/// systemd's.
fn pod_uid(name: &str) -> Option<String> {
    let bare = name.strip_suffix(".slice").unwrap_or(name);
    let uid = bare
        .rsplit_once("pod")
        .map(|(_, uid)| uid.replace('_', "-"))?;
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    (uid.len() == 36 && uid.chars().all(hex)).then_some(uid)
}

/// Names of pods by UID, from the directories of the kubelet's logs:
/// `/var/log/pods/NAMESPACE_NAME_UID`.
#[derive(Default)]
struct Pods {
    names: HashMap<String, String>,
}

impl Pods {
    fn name(&mut self, root: &Path, uid: &str) -> Option<String> {
        if !self.names.contains_key(uid) {
            let listed = text::names(root, "var/log/pods").unwrap_or_default();
            let parts = listed.iter().filter_map(|name| {
                let mut parts = name.splitn(3, '_');
                let (namespace, pod) = (parts.next()?, parts.next()?);
                Some((parts.next()?.to_string(), format!("{namespace}/{pod}")))
            });
            self.names = parts.collect();
        }
        self.names.get(uid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::*;
    use jostle_host::os::fake::tree;

    const MOUNT: &str = "28 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n";
    const LIVES: &str = "populated 1\n";
    const UID: &str = "0a1b2c3d-0000-1111-2222-333344445555";

    fn found(root: &Path, rules: &str) -> (Vec<(String, WorkloadKind)>, Vec<String>) {
        let rules = Config::parse(rules).unwrap().workloads;
        let mut discovery = Discovery::new(root, &rules);
        let found = discovery.look();
        // Nothing new: the same again.
        assert!(Rc::ptr_eq(&discovery.look(), &found));
        let found = found.iter().map(|it| (it.name.clone(), it.kind)).collect();
        (found, discovery.warnings())
    }

    #[test]
    fn units_containers_and_pods_by_their_names() {
        let id = "0123456789abcdef".repeat(4);
        let pod = format!("kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_"));
        let at = |path: &str| format!("cg/{path}/cgroup.events");
        let procs = |path: &str| format!("cg/{path}/cgroup.procs");
        let docker = format!("system.slice/docker-{id}.scope");
        let log = format!("var/log/pods/shop_cart-7_{UID}/app/0.log");
        let state = format!("var/lib/docker/containers/{id}/config.v2.json");
        let config = format!(
            r#"{{"ID": "{id}", "Name": "/web", "Config": {{"Labels": {{"tier": "front"}}}}}}"#
        );
        let inner = format!("{pod}/inner");
        let files: Vec<(String, &str)> = [
            ("proc/self/mountinfo".to_string(), MOUNT),
            (at("system.slice/nginx.service"), LIVES),
            (procs("system.slice/nginx.service"), "12\n"),
            (at("system.slice/idle.service"), "populated 0\n"),
            (at("init.scope"), LIVES),
            (procs("init.scope"), "1\n"),
            (at(&docker), LIVES),
            (procs(&docker), "13\n"),
            (at(&pod), LIVES),
            (procs(&pod), ""),
            (at(&inner), LIVES),
            (procs(&inner), "14\n"),
            (log, ""),
            (state, &config),
        ]
        .into();
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        let root = tree(&files);
        let rule = |text: &str| format!("[[workload]]\nmatch = {{ {text} }}\n");
        let one = |name: &str, kind| vec![(name.to_string(), kind)];
        for (text, expected) in [
            (r#"unit = "nginx""#, one("nginx", WorkloadKind::Unit)),
            (r#"unit = "n*.service""#, one("nginx", WorkloadKind::Unit)),
            (r#"unit = "idle""#, vec![]),
            (r#"container = "web""#, one("web", WorkloadKind::Container)),
            (
                r#"container = "0123*""#,
                one("web", WorkloadKind::Container),
            ),
            (r#"container = "db""#, vec![]),
            (
                r#"labels = { tier = "f*" }"#,
                one("web", WorkloadKind::Container),
            ),
            (r#"labels = { tier = "back" }"#, vec![]),
            (r#"pod = "shop/*""#, one("shop/cart-7", WorkloadKind::Pod)),
            (r#"pod = "bank/*""#, vec![]),
            // The whole pod is one, with what lies inside.
            (r#"cgroup = "/kubepods.slice/*""#, {
                let name = pod.split_once('/').unwrap().1;
                one(name, WorkloadKind::Cgroup)
            }),
        ] {
            let (found, warnings) = found(root.path(), &rule(text));
            assert_eq!(found, expected, "{text}");
            assert!(warnings.is_empty(), "{text}: {warnings:?}");
        }
        let (found, warnings) = found(root.path(), &rule(r#"unit = "*""#));
        assert_eq!(found, one("nginx", WorkloadKind::Unit));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("holds init"), "{warnings:?}");
    }

    #[test]
    fn the_first_rule_decides() {
        let root = tree(&[
            ("proc/self/mountinfo", MOUNT),
            ("cg/a/w/cgroup.events", LIVES),
            ("cg/a/w/cgroup.procs", "12\n"),
            ("cg/b/w/cgroup.events", LIVES),
            ("cg/b/w/cgroup.procs", "13\n"),
            ("cg/c/w/cgroup.events", LIVES),
            ("cg/c/w/cgroup.procs", "14\n"),
        ]);
        let rules = "[[workload]]\nmatch = { cgroup = \"/b/*\" }\nname = \"first\"\n\
                     [[workload]]\nmatch = { cgroup = \"/*/w\" }\n";
        let (found, _) = found(root.path(), rules);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["first", "w", "w"]);
    }
}
