//! What the target's cgroup uses and how it is held back, in v2 or v1.

use super::counter::Kind;
use super::counter::Owner;
use super::part::Built;
use super::part::Context;
use super::part::row;
use super::read::Files;
use jostle_host::os::ParseError;
use jostle_host::os::text::Text;
use jostle_host::os::text::count;
use jostle_host::os::text::keyed;

use self::Value::Direction;
use self::Value::Fields;
use self::Value::Keys;
use self::Value::Whole;

/// Where a quantity stands.
struct Place {
    quantity: &'static str,
    /// Empty for v2.
    controller: &'static str,
    file: &'static str,
    value: Value,
    scale: f64,
}

/// Where in a file the number is.
#[derive(Clone, Copy)]
enum Value {
    Whole,
    /// The sum of lines `key number`.
    Keys(&'static [&'static str]),
    /// The sum of words `key=number`, one per device; a cgroup that did no I/O
    /// has an empty file.
    Fields(&'static str),
    /// The sum of lines `device word number`.
    Direction(&'static str),
}

impl Value {
    fn read(self, text: &str) -> Result<f64, ParseError> {
        match self {
            Whole => count(text),
            Keys(keys) => keys.iter().map(|key| keyed(text, key)).sum(),
            Fields(key) => text
                .split_ascii_whitespace()
                .filter_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                .map(count)
                .sum(),
            Direction(name) => text
                .lines()
                .filter_map(|line| {
                    let words: Vec<&str> = line.split_ascii_whitespace().collect();
                    matches!(words[..], [_, word, _] if word == name).then(|| count(words[2]))
                })
                .sum(),
        }
    }
}

const fn v1(
    quantity: &'static str,
    controller: &'static str,
    file: &'static str,
    value: Value,
    scale: f64,
) -> Place {
    Place {
        quantity,
        controller,
        file,
        value,
        scale,
    }
}

const fn v2(quantity: &'static str, file: &'static str, value: Value, scale: f64) -> Place {
    v1(quantity, "", file, value, scale)
}

const QUANTITIES: [(&str, &str, Kind); 8] = [
    ("cgroup-cpu", "CPU s/s", Kind::Rate),
    ("cgroup-throttled", "us/s", Kind::Rate),
    ("cgroup-memory", "B", Kind::Level),
    ("cgroup-refaults", "pages/s", Kind::Rate),
    ("cgroup-major-faults", "faults/s", Kind::Rate),
    ("cgroup-memory-high", "events/s", Kind::Rate),
    ("cgroup-io-read", "B/s", Kind::Rate),
    ("cgroup-io-written", "B/s", Kind::Rate),
];

/// Bytes by device and direction.
const BLKIO: &str = "blkio.throttle.io_service_bytes_recursive";
const REFAULTS: Value = Keys(&["workingset_refault_anon", "workingset_refault_file"]);
const TOTAL_REFAULTS: Value = Keys(&[
    "total_workingset_refault_anon",
    "total_workingset_refault_file",
]);
const FAULTS: Value = Keys(&["pgmajfault"]);
const TOTAL_FAULTS: Value = Keys(&["total_pgmajfault"]);
const THROTTLED: Value = Keys(&["throttled_time"]);

/// Of each quantity in order of preference.
const PLACES: [Place; 16] = [
    v1("cgroup-cpu", "cpuacct", "cpuacct.usage", Whole, 1e-9),
    v2("cgroup-cpu", "cpu.stat", Keys(&["usage_usec"]), 1e-6),
    v2(
        "cgroup-throttled",
        "cpu.stat",
        Keys(&["throttled_usec"]),
        1.0,
    ),
    v1("cgroup-throttled", "cpu", "cpu.stat", THROTTLED, 1e-3),
    v2("cgroup-memory", "memory.current", Whole, 1.0),
    v1(
        "cgroup-memory",
        "memory",
        "memory.usage_in_bytes",
        Whole,
        1.0,
    ),
    v2("cgroup-refaults", "memory.stat", REFAULTS, 1.0),
    v1(
        "cgroup-refaults",
        "memory",
        "memory.stat",
        TOTAL_REFAULTS,
        1.0,
    ),
    v2("cgroup-major-faults", "memory.stat", FAULTS, 1.0),
    v1(
        "cgroup-major-faults",
        "memory",
        "memory.stat",
        TOTAL_FAULTS,
        1.0,
    ),
    v2("cgroup-memory-high", "memory.events", Keys(&["high"]), 1.0),
    v1("cgroup-memory-high", "memory", "memory.failcnt", Whole, 1.0),
    v2("cgroup-io-read", "io.stat", Fields("rbytes"), 1.0),
    v1("cgroup-io-read", "blkio", BLKIO, Direction("Read"), 1.0),
    v2("cgroup-io-written", "io.stat", Fields("wbytes"), 1.0),
    v1("cgroup-io-written", "blkio", BLKIO, Direction("Write"), 1.0),
];

pub(super) fn cgroup(context: &Context) -> Built {
    let mut files = Files::default();
    let mut rows = Vec::new();
    for (cell, (name, unit, kind)) in QUANTITIES.into_iter().enumerate() {
        let line = |source| row(name, unit, kind, Owner::Target, source);
        let mut reasons: Vec<String> = Vec::new();
        let places = PLACES.iter().filter(|place| place.quantity == name);
        let found = places.into_iter().find_map(|place| {
            let opened = context.cgroup.of(place.controller).and_then(|directory| {
                let text = Text::open(&context.options.root, directory.join(place.file))?;
                let value = place.value;
                Ok(files.add_one(vec![text], cell, move |text| value.read(text))?)
            });
            reasons.extend(opened.as_ref().err().map(ToString::to_string));
            opened.ok().map(|()| place)
        });
        reasons.dedup();
        rows.push(match found {
            Some(place) => line(match place.controller {
                "" => "cgroup v2",
                _ => "cgroup v1",
            })
            .of_cell(cell, place.scale, &Ok(())),
            None => line("cgroup").unavailable(reasons.join("; ")),
        });
    }
    files.built(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Scope;
    use jostle_host::os::fake::tree;
    use std::path::Path;

    const MOUNTS: &str = "\
        26 24 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        27 24 0:25 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
        28 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let mut all = vec![("proc/self/mountinfo", MOUNTS)];
        all.extend(files);
        tree(&all)
    }

    fn open(root: &Path, scope: Scope) -> Built {
        cgroup(&super::super::part::tests::context(root, Some(scope)))
    }

    fn reason<'a>(built: &'a Built, name: &str) -> Option<&'a str> {
        let row = built.rows.iter().find(|row| row.counter.name == name);
        row.unwrap().counter.unavailable.as_deref()
    }

    #[test]
    fn v2_first_then_v1() {
        const V2: &str = "sys/fs/cgroup/unified/web";
        const V1: &str = "sys/fs/cgroup/memory/web";
        let root = root(&[
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
        ]);
        let mut built = open(root.path(), Scope::Cgroup(root.path().join(V2)));
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
        let root = root(&[
            (&format!("proc/{us}/cgroup"), "0::/all\n"),
            (
                "sys/fs/cgroup/unified/all/cgroup.procs",
                &format!("{us}\n1\n"),
            ),
            ("sys/fs/cgroup/unified/all/cpu.stat", "usage_usec 2\n"),
        ]);
        let built = open(root.path(), Scope::Processes(vec![us]));
        let why = reason(&built, "cgroup-cpu").unwrap();
        assert!(why.contains("with other processes"), "{why}");
        assert!(built.source.is_none());
    }

    #[test]
    fn v1_block_io_by_direction() {
        let text = "8:0 Read 10\n8:0 Write 4\n8:16 Read 1\nTotal 15\n";
        let sum = |direction: &'static str| Direction(direction).read(text);
        assert_eq!((sum("Read"), sum("Write")), (Ok(11.0), Ok(4.0)));
        assert!(Direction("Read").read("8:0 Read x\n").is_err());
    }
}
