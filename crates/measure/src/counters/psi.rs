//! Pressure stall information: how long somebody, or everybody, waited for
//! CPU, memory or I/O.

use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::part::Built;
use super::part::Context;
use super::part::row;
use super::read::Files;
use jostle_host::os::psi::total_us;
use jostle_host::os::text::Text;
use std::path::Path;
use std::path::PathBuf;

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];
const DEGREES: [&str; 2] = ["some", "full"];

/// Of everything that runs on the machine.
pub(super) fn machine(context: &Context) -> Built {
    let about = ("machine-psi", Owner::Machine, "/proc/pressure");
    let directory = Path::new("proc/pressure");
    let file = |resource: &str| Ok(directory.join(resource));
    let mut built = build(&context.options.root, about, file);
    // The kernel writes zeros here: a machine whose every task waits for a CPU
    // makes no sense.
    let reason = "the kernel does not count it for the machine as a whole";
    built.rows[1] = built.rows[1].clone().unavailable(reason);
    built
}

/// Of the target's cgroup.
pub(super) fn target(context: &Context) -> Built {
    let about = ("psi", Owner::Target, "cgroup v2 *.pressure");
    let file = |resource: &str| Ok(context.cgroup.of("")?.join(format!("{resource}.pressure")));
    build(&context.options.root, about, file)
}

/// From the file of each resource, or the reason why there is none.
fn build(
    root: &Path,
    (prefix, owner, source): (&str, Owner, &'static str),
    file: impl Fn(&str) -> Result<PathBuf, Error>,
) -> Built {
    let mut files = Files::default();
    let mut rows = Vec::new();
    for (resource, degree) in RESOURCES
        .iter()
        .flat_map(|one| DEGREES.map(|degree| (one, degree)))
    {
        let cell = rows.len();
        let name = format!("{prefix}-{resource}-{degree}");
        let row = row(name, "us/s", Kind::Rate, owner, source);
        rows.push(match file(resource).map(|path| Text::open(root, path)) {
            Ok(Ok(text)) => {
                let opened = files.add_one(vec![text], cell, move |text| total_us(text, degree));
                row.of_cell(cell, 1.0, &opened)
            }
            Ok(Err(reason)) => {
                row.unavailable(format!("{reason} (no CONFIG_PSI, or booted with psi=0)"))
            }
            Err(reason) => row.unavailable(reason),
        });
    }
    files.built(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

    const LINES: &str = "some avg10=0.01 avg60=0.14 avg300=0.63 total=13247927\n\
                         full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

    fn at(root: &Path) -> Built {
        let directory = Path::new("proc/pressure");
        build(root, ("psi", Owner::Target, "x"), |resource| {
            Ok(directory.join(resource))
        })
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
