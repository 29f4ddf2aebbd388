//! The walls: what may import what, where `unsafe` and printing are allowed.
//!
//! Files are the nodes, imports the edges: `use`, and paths written out. A name
//! counts as imported from the file that declares it, however many `pub use`
//! lie between; `pub use` itself is no import, and neither are a `mod` line,
//! a method call and what only tests need.
//!
//! One import is left out: that of an item of a file that contains the module
//! (`mod.rs`, `lib.rs`, or `x.rs` beside `x/`). A parent declares what its
//! children share and calls them; the two are read together. So a circle is
//! one between siblings, or between files further apart.
mod graph;
mod source;

use graph::Package;
use std::collections::BTreeSet;
use std::path::Path;

/// Root modules of each package from the top floor to the ground: each may import from those
/// further down only.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "jostle",
        &["fuzzing", "cli", "agent", "serve", "report", "sink", "http"],
    ),
    (
        "jostle-measure",
        &[
            "validate",
            "blame",
            "scaling",
            "builds",
            "pairs",
            "experiment",
            "calibrate",
            "metric",
            "usage",
            "counters",
            "workload",
            "error",
            "near",
            "warning",
            "console",
        ],
    ),
    ("jostle-host", &["inject", "machine", "sys", "os"]),
];

/// Imports that floors would allow and the design does not: what calibration
/// finds reaches the experiment as data of `machine`.
const FORBIDDEN: &[(&str, &str)] = &[("experiment", "calibrate")];

/// Which package of the workspace may depend on which others.
const WALLS: &[(&str, &[&str])] = &[
    ("jostle-profile", &[]),
    ("jostle-statistics", &[]),
    ("jostle-progress", &[]),
    ("jostle-compare", &["jostle-profile", "jostle-statistics"]),
    ("jostle-schedule", &["jostle-profile", "jostle-statistics"]),
    (
        "jostle-simulate",
        &["jostle-profile", "jostle-schedule", "jostle-statistics"],
    ),
    ("jostle-load", &["jostle-profile"]),
    ("jostle-kernels", &["jostle-profile"]),
    (
        "jostle-host",
        &["jostle-kernels", "jostle-profile", "jostle-statistics"],
    ),
    (
        "jostle-measure",
        &[
            "jostle-compare",
            "jostle-host",
            "jostle-kernels",
            "jostle-load",
            "jostle-profile",
            "jostle-schedule",
            "jostle-statistics",
        ],
    ),
    (
        "jostle",
        &[
            "jostle-compare",
            "jostle-host",
            "jostle-kernels",
            "jostle-load",
            "jostle-measure",
            "jostle-profile",
            "jostle-schedule",
            "jostle-simulate",
            "jostle-statistics",
        ],
    ),
];

/// Packages that a scheduler's author compiles, and what none of them needs:
/// what reads or loads a machine, and what draws.
const PURE: &[&str] = &[
    "jostle-compare",
    "jostle-profile",
    "jostle-schedule",
    "jostle-simulate",
    "jostle-statistics",
];
const MEASURING: &[&str] = &[
    "core_affinity",
    "io-uring",
    "libc",
    "nix",
    "perf-event2",
    "plotters",
    "procfs-core",
    "raw-cpuid",
    "rustix",
    "socket2",
];

/// The files that may print: results, and the rest.
const WRITERS: &[&str] = &["src/cli/output.rs", "crates/measure/src/console.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library of every package of the workspace.
fn packages() -> Vec<Package> {
    let libraries = WALLS.iter().map(|(name, _)| {
        let entry = format!("{}src/lib.rs", folder(name));
        Package::read(root(), &name.replace('-', "_"), &entry)
    });
    libraries.collect()
}

/// Where a package lies, with a slash at its end.
fn folder(package: &str) -> String {
    match package {
        "jostle" => String::new(),
        "jostle-kernels" => "kernels/".to_string(),
        name => format!("crates/{}/", name.trim_start_matches("jostle-")),
    }
}

fn manifest(package: &str) -> toml::Table {
    let path = root().join(folder(package)).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).expect("every package has a manifest");
    text.parse().expect("TOML")
}

/// What `package` is built with: its dependencies on every target, and those
/// of its build script, but not those of its tests.
fn dependencies(package: &str) -> BTreeSet<String> {
    let manifest = manifest(package);
    let everywhere = std::iter::once(&manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flatten();
    let targets = targets.filter_map(|(_, target)| target.as_table());
    everywhere
        .chain(targets)
        .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
        .filter_map(|table| table?.as_table())
        .flat_map(|table| table.keys().cloned())
        .collect()
}

#[test]
fn every_package_stands_in_the_table() {
    let crates = std::fs::read_dir(root().join("crates")).expect("the folder of crates");
    let found = crates.map(|entry| entry.expect("an entry").file_name());
    let found = found.map(|name| format!("jostle-{}", name.to_string_lossy()));
    let found: BTreeSet<String> = found
        .chain(["jostle".to_string(), "jostle-kernels".to_string()])
        .collect();
    let named: BTreeSet<String> = WALLS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(found, named, "name it in WALLS, with what it may depend on");
}

#[test]
fn packages_depend_only_on_what_they_may() {
    for (package, allowed) in WALLS {
        for dependency in dependencies(package) {
            assert!(
                !dependency.starts_with("jostle") || allowed.contains(&dependency.as_str()),
                "{package} depends on {dependency}"
            );
            assert!(
                !PURE.contains(package) || !MEASURING.contains(&dependency.as_str()),
                "{package} knows nothing of measuring, and depends on {dependency}"
            );
        }
    }
}

#[test]
fn no_files_import_one_another() {
    let mut faults = Vec::new();
    for package in packages() {
        let edges = package.edges();
        let circles = graph::circles(&edges);
        faults.extend(circles.iter().map(|group| graph::described(group, &edges)));
    }
    assert!(
        faults.is_empty(),
        "files import one another:\n{}",
        faults.join("\n\n")
    );
}

#[test]
fn imports_run_downwards() {
    for (name, floors) in FLOORS {
        let source = format!("{}src/", folder(name));
        let package = Package::read(root(), &name.replace('-', "_"), &format!("{source}lib.rs"));
        for module in package.top() {
            assert!(
                floors.contains(&module.as_str()),
                "which floor of {name} is {module} on? name it in FLOORS"
            );
        }
        let top = |file: &str| {
            let inside = file.trim_start_matches(&source).trim_end_matches(".rs");
            inside.split('/').next().unwrap_or_default().to_string()
        };
        let floor = |module: &str| floors.iter().position(|name| *name == module);
        for ((from, to), names) in package.edges() {
            let (upper, lower) = (top(&from), top(&to));
            let downwards = upper == lower || floor(&upper) < floor(&lower);
            let forbidden = FORBIDDEN.contains(&(upper.as_str(), lower.as_str()));
            assert!(downwards && !forbidden, "{from} imports {names:?} of {to}");
        }
    }
}

#[test]
fn unsafe_stands_in_kernels_and_sys_only() {
    for package in packages() {
        for file in package.files_where(|module| module.has_unsafe) {
            let allowed = ["kernels/src/", "crates/host/src/sys/"];
            let allowed = allowed.iter().any(|folder| file.starts_with(folder));
            assert!(
                allowed,
                "{file}: unsafe belongs into kernels/ or crates/host/src/sys/"
            );
        }
    }
}

#[test]
fn printing_goes_through_the_writers() {
    const PRINT: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
    for package in packages() {
        let prints = |module: &source::Module| {
            module
                .macros
                .iter()
                .any(|name| PRINT.contains(&name.as_str()))
        };
        for file in package.files_where(prints) {
            assert!(WRITERS.contains(&file.as_str()), "{file} prints by itself");
        }
    }
}

#[test]
fn the_scanner_sees_what_it_must() {
    let text = r##"
        //! use crate::no;
        use crate::a::{self, B, c::D as E};
        pub(crate) use x::*;
        /* mod no; /* nested */ */
        mod file;
        #[cfg(test)]
        mod tests;
        mod inside { fn f<'a>(x: &'a str) -> char { super::g(); 'x' } }
        const TEXT: &str = r#"use crate::no; " "#;
        pub static mut COUNT: u8 = b'"';
        struct Pair(u8, u8);
        macro_rules! twice { ($x:expr) => { $x; $x } }
        pub async fn g() { use crate::h::Deep; eprintln!("\" use crate::no;"); <T as k::L>::m(); }
        #[cfg(test)]
        fn no() { println!(); unsafe {} }
    "##;
    let module = source::module(&source::words(text));
    assert_eq!(module.files, ["file"]);
    assert_eq!(module.items, ["TEXT", "COUNT", "Pair", "twice", "g"]);
    let imports: Vec<String> = module
        .imports
        .iter()
        .map(|import| {
            format!(
                "{} {} {}",
                import.path.join("::"),
                import.name,
                import.passed_on
            )
        })
        .collect();
    assert_eq!(
        imports,
        [
            "crate::a a false",
            "crate::a::B B false",
            "crate::a::c::D E false",
            "x::* * true",
            "crate::h::Deep Deep false",
        ]
    );
    assert_eq!(module.paths, [["k", "L"]]);
    assert_eq!(module.macros, ["eprintln"]);
    assert!(!module.has_unsafe);
    let (name, inside) = &module.inline[0];
    assert_eq!(
        (name.as_str(), &inside.paths),
        ("inside", &vec![vec!["super".to_string(), "g".to_string()]])
    );
}

#[test]
fn files_that_the_docs_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path =
        regex_lite::Regex::new(r"`((?:src|crates|kernels|tests|scripts|asm)/[\w./-]+)`").unwrap();
    let mut pages = vec![root.join("README.md")];
    pages.extend(
        std::fs::read_dir(root.join("docs"))
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    let mut named = 0;
    let mut missing = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for found in path.captures_iter(&text) {
            named += 1;
            if !root.join(&found[1]).exists() {
                missing.push(format!("{}: {}", page.display(), &found[1]));
            }
        }
    }
    assert!(named > 20, "only {named} files are named");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
