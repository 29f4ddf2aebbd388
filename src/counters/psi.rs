//! Pressure stall information: how long somebody, or everybody, waited for
//! CPU, memory or I/O.

use super::counter::Kind;
use super::counter::Owner;
use super::part::Built;
use super::part::Context;
use super::part::Row;
use super::part::row;
use super::read::Files;
use crate::os::psi::total_us;
use crate::os::text::Text;
use std::path::Path;
use std::path::PathBuf;

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];
const DEGREES: [&str; 2] = ["some", "full"];

/// Of everything that runs on the machine.
pub(super) fn machine(context: &Context) -> Built {
    let rows = rows("machine-psi", Owner::Machine, "/proc/pressure");
    let directory = Path::new("proc/pressure");
    let mut built = build(&context.options.root, rows, &|resource| {
        directory.join(resource)
    });
    // The kernel writes zeros here: a machine whose every task waits for a CPU
    // makes no sense.
    if let Some(row) = built.rows.get_mut(1) {
        *row = row
            .clone()
            .unavailable("the kernel does not count it for the machine as a whole");
    }
    built
}

/// Of the target's cgroup.
pub(super) fn target(context: &Context) -> Built {
    let rows = rows("psi", Owner::Target, "cgroup v2 *.pressure");
    match context.cgroup.of("") {
        Ok(directory) => build(&context.options.root, rows, &|resource| {
            directory.join(format!("{resource}.pressure"))
        }),
        Err(reason) => Built::unavailable(rows, reason),
    }
}

fn rows(prefix: &str, owner: Owner, source: &'static str) -> Vec<Row> {
    let names = RESOURCES
        .iter()
        .flat_map(|resource| DEGREES.map(|degree| format!("{prefix}-{resource}-{degree}")));
    names
        .map(|name| row(name, "us/s", Kind::Rate, owner, source))
        .collect()
}

fn build(root: &Path, rows: Vec<Row>, file: &dyn Fn(&str) -> PathBuf) -> Built {
    let mut files = Files::default();
    let mut read = |cell: usize, row: Row| {
        let degree = DEGREES[cell % DEGREES.len()];
        let resource = RESOURCES[cell / DEGREES.len()];
        let text = match Text::open(root, file(resource)) {
            Ok(text) => text,
            Err(reason) => {
                return row.unavailable(format!("{reason} (no CONFIG_PSI, or booted with psi=0)"));
            }
        };
        let opened = files.add_one(vec![text], cell, move |text| total_us(text, degree));
        row.of_cell(cell, 1.0, &opened)
    };
    let rows: Vec<Row> = rows
        .into_iter()
        .enumerate()
        .map(|(cell, row)| read(cell, row))
        .collect();
    files.built(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::text::tests::tree;

    const LINES: &str = "some avg10=0.01 avg60=0.14 avg300=0.63 total=13247927\n\
                         full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

    fn at(root: &Path) -> Built {
        let directory = Path::new("proc/pressure");
        let rows = rows("psi", Owner::Target, "x");
        build(root, rows, &|resource| directory.join(resource))
    }

    #[test]
    fn totals_per_resource_or_the_reason() {
        let root = tree(&[
            ("proc/pressure/cpu", LINES),
            ("proc/pressure/memory", "some total=lots\n"),
        ]);
        let mut built = at(root.path());
        let why: Vec<_> = built
            .rows
            .iter()
            .map(|row| row.counter.unavailable.clone())
            .collect();
        assert_eq!(why[..2], [None, None]);
        assert!(why[2].as_ref().unwrap().contains("'lots' is not a number"));
        assert!(why[3].as_ref().unwrap().contains("no line full"));
        assert!(
            why[4]
                .as_ref()
                .unwrap()
                .contains("/proc/pressure/io does not exist")
        );
        let mut cells = [f64::NAN; 2];
        assert_eq!(built.cells, cells.len());
        built.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells, [13_247_927.0, 5.0]);
    }
}
