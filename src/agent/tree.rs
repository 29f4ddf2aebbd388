//! The directories of the cgroup hierarchies, kept from one look to the next. Those
//! with others inside are listed again, which tells who came and went; those that hold
//! processes and have been without any for some time are asked now and then.

use jostle_host::os::cgroup::Hierarchies;
use jostle_host::os::cgroup::Hierarchy;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirEntryExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

/// Most cgroups that are followed.
pub(super) const MOST: usize = 20_000;
/// Deepest nesting.
const DEEPEST: usize = 32;
/// A cgroup with processes and none inside is asked again in every tenth look, once it
/// was met so many looks ago. One without processes is there for others to come.
const SETTLED: usize = 3;
const ASKED_EVERY: usize = 10;

/// One hierarchy, or two on machines that have both versions.
pub(super) struct Tree {
    hierarchies: Vec<Root>,
    /// As of the last look.
    cgroups: Rc<Vec<Cgroup>>,
}

struct Root {
    directory: PathBuf,
    /// By path below `directory`, the empty path being the root itself.
    nodes: BTreeMap<PathBuf, Node>,
    /// Directories that the last look met for the first time.
    fresh: usize,
    looks: usize,
}

/// Directories inside of one, with their inodes.
type Children = BTreeMap<String, u64>;

struct Node {
    directory: PathBuf,
    /// Changes when a child comes or goes; the time of the last change does not.
    links: u64,
    inode: u64,
    children: Children,
    /// The look that found it.
    since: usize,
    /// Whether it held processes when it was asked last.
    holds: Cell<bool>,
}

impl Node {
    /// Whether it has the same children as before.
    fn is_as_before(&self, index: usize, looks: usize) -> bool {
        if !self.children.is_empty() {
            return children(&self.directory) == self.children;
        }
        // That it is still there tells the listing of its parent.
        let settled = self.holds.get() && looks - self.since > SETTLED;
        if settled && !(index + looks).is_multiple_of(ASKED_EVERY) {
            return true;
        }
        self.holds.set(holds_processes(&self.directory));
        let facts = fs::metadata(&self.directory);
        facts.is_ok_and(|it| it.nlink() == self.links && it.ino() == self.inode)
    }
}

/// A cgroup that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cgroup {
    /// Below its hierarchy, without a slash in front.
    pub(super) path: PathBuf,
    pub(super) directory: PathBuf,
    /// Differs when one of the same path was removed and made again.
    pub(super) inode: u64,
    /// Whether no other lies inside.
    pub(super) is_leaf: bool,
}

impl Tree {
    /// Of the hierarchies that workloads are looked for in.
    pub(super) fn new(hierarchies: &Hierarchies) -> Tree {
        let root = |hierarchy: &Hierarchy| Root {
            directory: hierarchy.directory.clone(),
            nodes: BTreeMap::new(),
            fresh: 0,
            looks: 0,
        };
        let unified = hierarchies.iter().find(|it| it.unified());
        // Processes that no v1 controller was told of are in the root of all.
        let old = ["freezer", "cpuacct", "memory", "pids"];
        let old = old.iter().find_map(|name| hierarchies.with(name));
        let found = unified.into_iter().chain(old);
        Tree {
            hierarchies: found.map(root).collect(),
            cgroups: Rc::default(),
        }
    }

    /// Looks again; true when something came or went.
    pub(super) fn refresh(&mut self) -> bool {
        let mut left = MOST;
        let mut changed = false;
        for root in &mut self.hierarchies {
            changed |= root.refresh(&mut left);
        }
        if changed {
            self.cgroups = Rc::new(self.listed());
        }
        changed
    }

    /// Every cgroup but the roots, parents first; one that is in both hierarchies
    /// comes with the directory in the first.
    pub(super) fn cgroups(&self) -> Rc<Vec<Cgroup>> {
        self.cgroups.clone()
    }

    fn listed(&self) -> Vec<Cgroup> {
        let mut found: BTreeMap<&Path, Cgroup> = BTreeMap::new();
        for root in &self.hierarchies {
            for (path, node) in &root.nodes {
                found.entry(path).or_insert_with(|| Cgroup {
                    path: path.clone(),
                    directory: node.directory.clone(),
                    inode: node.inode,
                    is_leaf: node.children.is_empty(),
                });
            }
        }
        found.remove(Path::new(""));
        found.into_values().collect()
    }

    /// Whether there are more than are followed.
    pub(super) fn is_full(&self) -> bool {
        let nodes = self.hierarchies.iter().map(|root| root.nodes.len());
        nodes.sum::<usize>() >= MOST
    }
}

impl Root {
    fn refresh(&mut self, left: &mut usize) -> bool {
        self.looks += 1;
        let mut nodes = self.nodes.values().enumerate();
        let looks = self.looks;
        if !self.nodes.is_empty() && nodes.all(|(index, node)| node.is_as_before(index, looks)) {
            *left = left.saturating_sub(self.nodes.len());
            return false;
        }
        let mut old = std::mem::take(&mut self.nodes);
        let before = old.len();
        self.fresh = 0;
        self.look(PathBuf::new(), 0, &mut old, left);
        self.fresh > 0 || self.nodes.len() != before
    }

    /// Takes over `path` and what lies below, unless it is gone.
    fn look(
        &mut self,
        path: PathBuf,
        depth: usize,
        old: &mut BTreeMap<PathBuf, Node>,
        left: &mut usize,
    ) {
        let directory = self.directory.join(&path);
        let Ok(facts) = fs::metadata(&directory) else {
            return;
        };
        if *left == 0 || depth > DEEPEST {
            return;
        }
        *left -= 1;
        let (links, inode) = (facts.nlink(), facts.ino());
        let known = old.remove(&path);
        let known = known.filter(|node| node.inode == inode);
        self.fresh += usize::from(known.is_none());
        let changed = |node: &Node| node.links != links || !node.children.is_empty();
        let listed = known.as_ref().is_none_or(changed);
        let mut node = known.unwrap_or_else(|| Node {
            links,
            inode,
            children: Children::new(),
            directory: directory.clone(),
            since: self.looks,
            holds: Cell::new(false),
        });
        node.links = links;
        if listed {
            node.children = children(&directory);
        }
        for name in node.children.keys() {
            self.look(path.join(name), depth + 1, old, left);
        }
        self.nodes.insert(path, node);
    }
}

fn holds_processes(directory: &Path) -> bool {
    let listed = File::open(directory.join("cgroup.procs"));
    listed.is_ok_and(|mut file| file.read(&mut [0; 16]).is_ok_and(|count| count > 0))
}

fn children(directory: &Path) -> Children {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    let named = directories.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, entry.ino()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_seen() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |path: &str| temporary.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        let mut tree = Tree {
            hierarchies: vec![Root {
                directory: temporary.path().into(),
                nodes: BTreeMap::new(),
                fresh: 0,
                looks: 0,
            }],
            cgroups: Rc::default(),
        };
        let paths = |tree: &Tree| -> Vec<String> {
            let cgroups = tree.cgroups();
            cgroups
                .iter()
                .map(|it| it.path.display().to_string())
                .collect()
        };
        assert!(tree.refresh());
        assert_eq!(paths(&tree), ["a", "a/b"]);
        assert!(!tree.refresh());
        fs::create_dir(at("a/c")).unwrap();
        assert!(tree.refresh());
        assert_eq!(paths(&tree), ["a", "a/b", "a/c"]);
        // As many links as before.
        fs::rename(at("a/c"), at("a/d")).unwrap();
        assert!(tree.refresh());
        assert_eq!(paths(&tree), ["a", "a/b", "a/d"]);
        // Removed and made again: the same name, another cgroup.
        let inode = |tree: &Tree| tree.cgroups()[2].inode;
        let before = inode(&tree);
        fs::create_dir(at("a/e")).unwrap();
        fs::remove_dir(at("a/d")).unwrap();
        fs::rename(at("a/e"), at("a/d")).unwrap();
        assert!(tree.refresh());
        assert_eq!(paths(&tree), ["a", "a/b", "a/d"]);
        assert_ne!(inode(&tree), before);
        // One with processes and long without any is seen to have one after some looks, one
        // without processes at once.
        fs::write(at("a/b/cgroup.procs"), "12\n").unwrap();
        for _ in 0..2 * ASKED_EVERY {
            assert!(!tree.refresh());
        }
        fs::create_dir(at("a/b/x")).unwrap();
        let looks = (1..).find(|_| tree.refresh()).unwrap();
        assert!(looks <= ASKED_EVERY, "{looks}");
        assert_eq!(paths(&tree), ["a", "a/b", "a/b/x", "a/d"]);
        // And the next at once.
        fs::create_dir(at("a/b/y")).unwrap();
        assert!(tree.refresh());
        fs::create_dir(at("a/d/z")).unwrap();
        assert!(tree.refresh());
        fs::remove_dir_all(at("a")).unwrap();
        assert!(tree.refresh());
        assert!(paths(&tree).is_empty());
    }
}
