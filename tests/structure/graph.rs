//! Who imports whom: modules, names resolved to the file that declares them,
//! and circles of files.

use crate::source;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// Files by their path from the root of the repository, with `/`.
pub type File = String;

/// What one file imports of another: names by the file that declares them.
pub type Edges = BTreeMap<(File, File), BTreeSet<String>>;

/// The modules of one package.
pub struct Package {
    /// As other packages write it: `jostle_profile`.
    pub name: String,
    modules: Vec<Module>,
}

struct Module {
    file: File,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    said: source::Module,
}

impl Package {
    /// All modules reached from `entry` (`lib.rs` or `main.rs`) below `root`.
    pub fn read(root: &Path, name: &str, entry: &str) -> Package {
        let mut package = Package {
            name: name.to_string(),
            modules: Vec::new(),
        };
        let directory = Path::new(entry).parent().expect("a file").to_path_buf();
        package.file(root, PathBuf::from(entry), &directory, None);
        package
    }

    fn file(&mut self, root: &Path, file: PathBuf, below: &Path, parent: Option<usize>) -> usize {
        let text = std::fs::read_to_string(root.join(&file))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let said = source::module(&source::words(&text));
        self.module(root, file, below, parent, said)
    }

    fn module(
        &mut self,
        root: &Path,
        file: PathBuf,
        below: &Path,
        parent: Option<usize>,
        mut said: source::Module,
    ) -> usize {
        let (files, inline) = (
            std::mem::take(&mut said.files),
            std::mem::take(&mut said.inline),
        );
        let index = self.modules.len();
        self.modules.push(Module {
            file: file.to_string_lossy().into_owned(),
            parent,
            children: BTreeMap::new(),
            said,
        });
        for name in files {
            let alone = below.join(format!("{name}.rs"));
            let file = match root.join(&alone).exists() {
                true => alone,
                false => below.join(&name).join("mod.rs"),
            };
            let child = self.file(root, file, &below.join(&name), Some(index));
            self.modules[index].children.insert(name, child);
        }
        for (name, inside) in inline {
            let below = below.join(&name);
            let child = self.module(root, file.clone(), &below, Some(index), inside);
            self.modules[index].children.insert(name, child);
        }
        index
    }

    /// Names of the modules directly below `lib.rs`.
    pub fn top(&self) -> Vec<String> {
        self.modules[0].children.keys().cloned().collect()
    }

    /// Files in which `holds` for a module.
    pub fn files_where(&self, holds: impl Fn(&source::Module) -> bool) -> BTreeSet<File> {
        let found = self.modules.iter().filter(|module| holds(&module.said));
        found.map(|module| module.file.clone()).collect()
    }

    /// What each file of this package imports of another of it.
    pub fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (index, module) in self.modules.iter().enumerate() {
            let used = module
                .said
                .imports
                .iter()
                .filter(|import| !import.passed_on);
            let paths = used.map(|import| &import.path).chain(&module.said.paths);
            for path in paths {
                let Some((declared, name)) = self.resolve(index, path, 0) else {
                    continue;
                };
                let to = &self.modules[declared].file;
                if *to != module.file && !self.contains(declared, index) {
                    let edge = edges.entry((module.file.clone(), to.clone()));
                    edge.or_default().insert(name);
                }
            }
        }
        edges
    }

    /// Whether `inner` lies in `outer`.
    fn contains(&self, outer: usize, inner: usize) -> bool {
        let mut above = self.modules[inner].parent;
        while let Some(module) = above {
            if module == outer {
                return true;
            }
            above = self.modules[module].parent;
        }
        false
    }

    /// The module that declares what `path` names in module `from`, and the
    /// name; `None` for what is of another package.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<(usize, String)> {
        if depth > 20 {
            return None;
        }
        let (mut module, mut rest) = match path[0].as_str() {
            "crate" => (0, &path[1..]),
            "self" => (from, &path[1..]),
            "super" => (self.modules[from].parent?, &path[1..]),
            name if name == self.name => (0, &path[1..]),
            name => {
                let known = self.modules[from].children.contains_key(name)
                    || self.alias(from, name).is_some_and(|found| found != path);
                match known {
                    true => (from, path),
                    false => return None,
                }
            }
        };
        while let Some((name, after)) = rest.split_first() {
            let here = &self.modules[module];
            if name == "super" {
                module = here.parent?;
            } else if name == "*" {
                return Some((module, "*".to_string()));
            } else if let Some(&child) = here.children.get(name) {
                module = child;
            } else if here.said.items.contains(name) {
                return Some((module, name.clone()));
            } else if let Some(alias) = self.alias(module, name) {
                let whole = [alias, after].concat();
                return self.resolve(module, &whole, depth + 1);
            } else {
                return self.passed_on_whole(module, name, depth);
            }
            rest = after;
        }
        // A module itself: naming it imports nothing, what is named in it does.
        None
    }

    fn alias(&self, module: usize, name: &str) -> Option<&[String]> {
        let imports = self.modules[module].said.imports.iter();
        let mut named = imports.filter(|import| import.name == name && import.name != "*");
        named.next().map(|import| import.path.as_slice())
    }

    /// `name` out of what `pub use x::*` passes on; what is found nowhere (an
    /// item that a macro makes) counts as declared in `module`.
    fn passed_on_whole(&self, module: usize, name: &str, depth: usize) -> Option<(usize, String)> {
        for import in &self.modules[module].said.imports {
            if let ([before @ .., star], true) = (&import.path[..], import.passed_on)
                && star == "*"
            {
                let path = [before, &[name.to_string()]].concat();
                let found = self.resolve(module, &path, depth + 1);
                if found
                    .as_ref()
                    .is_some_and(|(at, name)| self.modules[*at].said.items.contains(name))
                {
                    return found;
                }
            }
        }
        Some((module, name.to_string()))
    }
}

/// Groups of files that all reach one another by imports; each is at least one
/// circle.
pub fn circles(edges: &Edges) -> Vec<BTreeSet<File>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next
        .keys()
        .map(|&start| {
            let mut seen = BTreeSet::new();
            let mut open = vec![start];
            while let Some(file) = open.pop() {
                for &to in next.get(file).into_iter().flatten() {
                    if seen.insert(to) {
                        open.push(to);
                    }
                }
            }
            (start, seen)
        })
        .collect();
    let back = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let mut groups: Vec<BTreeSet<File>> = Vec::new();
    for &file in reached.keys().filter(|file| back(file, file)) {
        if groups.iter().any(|group| group.contains(file)) {
            continue;
        }
        let group = reached[file].iter().filter(|other| back(other, file));
        groups.push(group.map(|file| file.to_string()).collect());
    }
    groups
}

/// The imports inside of `group`, one a line.
pub fn described(group: &BTreeSet<File>, edges: &Edges) -> String {
    let inside = edges
        .iter()
        .filter(|((from, to), _)| group.contains(from) && group.contains(to));
    let lines = inside.map(|((from, to), names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("    {from} -> {to} ({})", names.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}
