//! What the target's cgroup uses and how it is held back, in v2 or v1.

use super::Kind;
use super::Owner;
use super::cgroups;
use super::files;
use super::files::Text;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::row;
use crate::workload::Scope;
use crate::workload::tree;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

/// Where the target's own cgroup is, in each hierarchy.
pub(super) struct Home {
    root: PathBuf,
    scope: Option<Scope>,
    /// Processes of a target that is given by its processes.
    members: Vec<i32>,
    /// What was found, by controller.
    known: RefCell<HashMap<String, Result<PathBuf, String>>>,
}

impl Home {
    pub fn find(root: &Path, scope: Option<&Scope>) -> Home {
        let mut members = match scope {
            Some(Scope::Processes(pids)) => pids.clone(),
            _ => Vec::new(),
        };
        for pid in members.clone() {
            members.extend(tree::descendants(pid));
        }
        Home {
            root: root.into(),
            scope: scope.cloned(),
            members,
            known: RefCell::default(),
        }
    }

    /// Its directory in v2.
    ///
    /// # Errors
    /// Why no cgroup there is the target's alone.
    pub fn v2(&self) -> Result<PathBuf, String> {
        self.of("")
    }

    /// Its directory in the v1 hierarchy with `controller`, in v2 where that is
    /// empty.
    ///
    /// # Errors
    /// Why no cgroup there is the target's alone.
    pub fn of(&self, controller: &str) -> Result<PathBuf, String> {
        if let Some(found) = self.known.borrow().get(controller) {
            return found.clone();
        }
        let found = self.look(controller);
        let mut known = self.known.borrow_mut();
        known.insert(controller.into(), found.clone());
        found
    }

    fn look(&self, controller: &str) -> Result<PathBuf, String> {
        let kind = match controller {
            "" => "cgroup v2".to_string(),
            _ => format!("cgroup v1 {controller}"),
        };
        match &self.scope {
            None => Err("there is no target".into()),
            Some(Scope::Processes(pids)) => {
                let pid = pids.first().ok_or("the target has no process")?;
                let directory = cgroups::of_process(&self.root, *pid, controller)
                    .ok_or_else(|| format!("no {kind} hierarchy holds the target"))?;
                self.alone(&directory)?;
                Ok(directory)
            }
            Some(Scope::Cgroup(directory)) => self.twin(directory, controller, &kind),
        }
    }

    /// Whether nobody else is in the cgroup.
    fn alone(&self, directory: &Path) -> Result<(), String> {
        // The root holds everything, the kernel's threads and us included, and
        // takes milliseconds to list.
        let hierarchies = cgroups::hierarchies(&self.root);
        let root = hierarchies.iter().any(|one| {
            directory
                .strip_prefix(&one.mount)
                .is_ok_and(|path| path.as_os_str().is_empty())
        });
        let alone = || -> Result<bool, String> {
            let all = cgroups::processes(&self.root, directory)?;
            Ok(all.iter().all(|&pid| self.belongs(pid)))
        };
        match !root && alone()? {
            true => Ok(()),
            // The same words for every hierarchy: the reason is one.
            false => Err(
                "the target shares its cgroup with other processes; start it in one of its own \
                 (systemd-run --scope CMD), or count a whole cgroup with --cgroup"
                    .into(),
            ),
        }
    }

    /// Whether a process is the target's, or gone by now.
    fn belongs(&self, pid: i32) -> bool {
        let mut at = pid;
        while !self.members.contains(&at) {
            match tree::stat(at) {
                None => return at == pid,
                Some(stat) if stat.parent <= 1 => return false,
                // It may have begun after the members were listed.
                Some(stat) => at = stat.parent,
            }
        }
        true
    }

    fn twin(&self, directory: &Path, controller: &str, kind: &str) -> Result<PathBuf, String> {
        let all = cgroups::hierarchies(&self.root);
        let (own, path) = cgroups::locate(&all, directory)
            .ok_or_else(|| format!("{} lies in no cgroup mount", directory.display()))?;
        let fits = |one: &cgroups::Hierarchy| match controller {
            "" => one.v2,
            _ => !one.v2 && one.controllers.iter().any(|name| name == controller),
        };
        if fits(own) {
            return Ok(directory.to_path_buf());
        }
        let other = all
            .iter()
            .find(|one| fits(one))
            .ok_or_else(|| format!("no {kind} hierarchy is mounted"))?;
        let twin = other.mount.join(path);
        cgroups::same(&self.root, directory, &twin)
            .map(|()| twin)
            .map_err(|why| format!("{kind}: {why}"))
    }
}

type Parse = fn(&str) -> Result<f64, String>;

/// One quantity: where it stands in v2 and in v1, in order of preference.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    places: &'static [Place],
}

struct Place {
    /// Empty for v2.
    controller: &'static str,
    file: &'static str,
    parse: Parse,
    scale: f64,
}

const fn place(controller: &'static str, file: &'static str, parse: Parse, scale: f64) -> Place {
    Place {
        controller,
        file,
        parse,
        scale,
    }
}

const QUANTITIES: [Quantity; 8] = [
    Quantity {
        name: "cgroup-cpu",
        unit: "CPU s/s",
        kind: Kind::Rate,
        places: &[
            place("cpuacct", "cpuacct.usage", files::number, 1e-9),
            place(
                "",
                "cpu.stat",
                |text| files::keyed(text, "usage_usec"),
                1e-6,
            ),
        ],
    },
    Quantity {
        name: "cgroup-throttled",
        unit: "us/s",
        kind: Kind::Rate,
        places: &[
            place(
                "",
                "cpu.stat",
                |text| files::keyed(text, "throttled_usec"),
                1.0,
            ),
            place(
                "cpu",
                "cpu.stat",
                |text| files::keyed(text, "throttled_time"),
                1e-3,
            ),
        ],
    },
    Quantity {
        name: "cgroup-memory",
        unit: "B",
        kind: Kind::Level,
        places: &[
            place("", "memory.current", files::number, 1.0),
            place("memory", "memory.usage_in_bytes", files::number, 1.0),
        ],
    },
    Quantity {
        name: "cgroup-refaults",
        unit: "pages/s",
        kind: Kind::Rate,
        places: &[
            place("", "memory.stat", refaults_v2, 1.0),
            place("memory", "memory.stat", refaults_v1, 1.0),
        ],
    },
    Quantity {
        name: "cgroup-major-faults",
        unit: "faults/s",
        kind: Kind::Rate,
        places: &[
            place(
                "",
                "memory.stat",
                |text| files::keyed(text, "pgmajfault"),
                1.0,
            ),
            place(
                "memory",
                "memory.stat",
                |text| files::keyed(text, "total_pgmajfault"),
                1.0,
            ),
        ],
    },
    Quantity {
        name: "cgroup-memory-high",
        unit: "events/s",
        kind: Kind::Rate,
        places: &[
            place("", "memory.events", |text| files::keyed(text, "high"), 1.0),
            place("memory", "memory.failcnt", files::number, 1.0),
        ],
    },
    Quantity {
        name: "cgroup-io-read",
        unit: "B/s",
        kind: Kind::Rate,
        places: &[
            place("", "io.stat", |text| fields(text, "rbytes="), 1.0),
            place(
                "blkio",
                "blkio.throttle.io_service_bytes_recursive",
                reads_v1,
                1.0,
            ),
        ],
    },
    Quantity {
        name: "cgroup-io-written",
        unit: "B/s",
        kind: Kind::Rate,
        places: &[
            place("", "io.stat", |text| fields(text, "wbytes="), 1.0),
            place(
                "blkio",
                "blkio.throttle.io_service_bytes_recursive",
                writes_v1,
                1.0,
            ),
        ],
    },
];

fn refaults_v2(text: &str) -> Result<f64, String> {
    Ok(files::keyed(text, "workingset_refault_anon")?
        + files::keyed(text, "workingset_refault_file")?)
}

fn refaults_v1(text: &str) -> Result<f64, String> {
    Ok(files::keyed(text, "total_workingset_refault_anon")?
        + files::keyed(text, "total_workingset_refault_file")?)
}

/// Sum over the devices; a cgroup that did no I/O has an empty file.
fn fields(text: &str, key: &str) -> Result<f64, String> {
    text.split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix(key))
        .map(files::number)
        .sum()
}

fn reads_v1(text: &str) -> Result<f64, String> {
    direction(text, "Read")
}

fn writes_v1(text: &str) -> Result<f64, String> {
    direction(text, "Write")
}

fn direction(text: &str, name: &str) -> Result<f64, String> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                [_, word, number] if word == name => Some(files::number(number)),
                _ => None,
            }
        })
        .sum()
}

pub(super) fn cgroup(context: &Context) -> Built {
    let mut stats = Stats::default();
    let mut rows = Vec::new();
    for (cell, quantity) in QUANTITIES.iter().enumerate() {
        rows.push(stats.add(context, quantity, cell));
    }
    Built {
        rows,
        cells: QUANTITIES.len(),
        source: (!stats.files.is_empty()).then(|| Box::new(stats) as Box<dyn Source>),
        notes: Vec::new(),
    }
}

/// Each file once, with what is read out of it.
#[derive(Default)]
struct Stats {
    files: Vec<(Text, Vec<(usize, Parse)>)>,
}

impl Stats {
    fn add(&mut self, context: &Context, quantity: &Quantity, cell: usize) -> Row {
        let line = |source| {
            row(
                quantity.name,
                quantity.unit,
                quantity.kind,
                Owner::Target,
                source,
            )
        };
        let mut reasons: Vec<String> = Vec::new();
        for place in quantity.places {
            match self.try_place(context, place, cell) {
                Ok(()) => {
                    let scale = place.scale;
                    return line(match place.controller {
                        "" => "cgroup v2",
                        _ => "cgroup v1",
                    })
                    .at(match quantity.kind {
                        Kind::Level => Formula::Level { cell, scale },
                        _ => Formula::Rate { cell, scale },
                    });
                }
                Err(reason) if reasons.contains(&reason) => {}
                Err(reason) => reasons.push(reason),
            }
        }
        line("cgroup").unavailable(reasons.join("; "))
    }

    fn try_place(&mut self, context: &Context, place: &Place, cell: usize) -> Result<(), String> {
        let directory = context.home.of(place.controller)?;
        let path = format!("{}/{}", files::relative(&directory), place.file);
        let shown = format!("/{path}");
        let known = self.files.iter().position(|(text, _)| text.path() == shown);
        let at = match known {
            Some(at) => at,
            None => {
                let text = Text::open(&context.options.root, &path)?;
                self.files.push((text, Vec::new()));
                self.files.len() - 1
            }
        };
        let (text, wanted) = &mut self.files[at];
        let answer = text
            .read()
            .and_then(|text| (place.parse)(text).map_err(|why| format!("{shown}: {why}")));
        if answer.is_ok() {
            wanted.push((cell, place.parse));
        }
        // A file nothing is read out of costs nothing.
        self.files.retain(|(_, wanted)| !wanted.is_empty());
        answer.map(|_| ())
    }
}

impl Source for Stats {
    fn sample(&mut self, cells: &mut [f64]) {
        for (text, wanted) in &mut self.files {
            if let Ok(text) = text.read() {
                for (cell, parse) in wanted {
                    cells[*cell] = parse(text).unwrap_or(f64::NAN);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::tree;
    use super::*;

    const MOUNTS: &str = "\
        c /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
        c /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0\n\
        c /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    fn open(files: &[(&str, &str)], scope: Scope) -> (Built, tempfile::TempDir) {
        let mut all = vec![("proc/mounts", MOUNTS)];
        all.extend(files);
        let root = tree(&all);
        let context = super::super::part::tests::context(root.path(), Some(scope));
        (cgroup(&context), root)
    }

    fn reason<'a>(built: &'a Built, name: &str) -> Option<&'a str> {
        let row = built.rows.iter().find(|row| row.counter.name == name);
        row.unwrap().counter.unavailable.as_deref()
    }

    #[test]
    fn v2_first_then_v1() {
        const V2: &str = "sys/fs/cgroup/unified/web";
        const V1: &str = "sys/fs/cgroup/memory/web";
        let (mut built, _root) = open(
            &[
                (&format!("{V2}/cgroup.procs"), "7\n"),
                (
                    &format!("{V2}/cpu.stat"),
                    "usage_usec 2500000\nnr_throttled 1\n",
                ),
                (
                    &format!("{V2}/io.stat"),
                    "8:0 rbytes=5 wbytes=7 rios=1\n8:16 rbytes=6 wbytes=0\n",
                ),
                (&format!("{V1}/cgroup.procs"), "7\n"),
                (&format!("{V1}/memory.usage_in_bytes"), "4096\n"),
                (&format!("{V1}/memory.stat"), "total_pgmajfault x\n"),
            ],
            Scope::Cgroup("/sys/fs/cgroup/unified/web".into()),
        );
        assert_eq!(reason(&built, "cgroup-cpu"), None);
        assert_eq!(reason(&built, "cgroup-memory"), None);
        let why = reason(&built, "cgroup-throttled").unwrap();
        assert!(why.contains("no line throttled_usec"), "{why}");
        let why = reason(&built, "cgroup-major-faults").unwrap();
        assert!(why.contains("'x' is not a number"), "{why}");
        let mut cells = vec![f64::NAN; built.cells];
        built.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells[0], 2_500_000.0);
        assert_eq!(cells[2], 4096.0);
        assert_eq!(cells[6..], [11.0, 7.0]);
        assert!(cells[4].is_nan());
    }

    #[test]
    fn a_shared_cgroup_is_not_the_targets() {
        let us = std::process::id() as i32;
        let (built, _root) = open(
            &[
                (&format!("proc/{us}/cgroup"), "0::/all\n"),
                (
                    "sys/fs/cgroup/unified/all/cgroup.procs",
                    &format!("{us}\n1\n"),
                ),
                ("sys/fs/cgroup/unified/all/cpu.stat", "usage_usec 2\n"),
            ],
            Scope::Processes(vec![us]),
        );
        let why = reason(&built, "cgroup-cpu").unwrap();
        assert!(why.contains("with other processes"), "{why}");
        assert!(built.source.is_none());
    }

    #[test]
    fn v1_block_io_by_direction() {
        let text = "8:0 Read 10\n8:0 Write 4\n8:16 Read 1\nTotal 15\n";
        assert_eq!((reads_v1(text), writes_v1(text)), (Ok(11.0), Ok(4.0)));
        assert!(reads_v1("8:0 Read x\n").is_err());
    }
}
