//! Pressure stall information: how long somebody, or everybody, waited for
//! CPU, memory or I/O.

use super::Kind;
use super::Owner;
use super::files;
use super::files::Text;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::row;
use std::path::Path;

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];
const DEGREES: [&str; 2] = ["some", "full"];

/// Of everything that runs on the machine.
pub(super) fn machine(context: &Context) -> Built {
    let rows = rows("machine-psi", Owner::Machine, "/proc/pressure");
    let file = |resource: &str| format!("proc/pressure/{resource}");
    let mut built = build(&context.options.root, rows, &file);
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
    match context.home.v2() {
        Ok(directory) => {
            let directory = files::relative(&directory);
            let file = |resource: &str| format!("{directory}/{resource}.pressure");
            build(&context.options.root, rows, &file)
        }
        Err(reason) => Built::unavailable(rows, &reason),
    }
}

fn rows(prefix: &str, owner: Owner, source: &'static str) -> Vec<Row> {
    RESOURCES
        .iter()
        .flat_map(|resource| {
            DEGREES.map(|degree| {
                let name = format!("{prefix}-{resource}-{degree}");
                row(name, "us/s", Kind::Rate, owner, source)
            })
        })
        .collect()
}

fn build(root: &Path, rows: Vec<Row>, file: &dyn Fn(&str) -> String) -> Built {
    let mut texts = Vec::new();
    let mut answers = Vec::new();
    for resource in RESOURCES {
        let opened = Text::open(root, &file(resource));
        match opened.and_then(|mut text| Ok((total(text.read()?), text))) {
            Ok((totals, text)) => {
                answers.extend(
                    totals.map(|total| {
                        total.map_err(|problem| format!("{}: {problem}", text.path()))
                    }),
                );
                texts.push(Some(text));
            }
            Err(reason) => {
                let reason = format!("{reason} (no CONFIG_PSI, or booted with psi=0)");
                answers.extend([Err(reason.clone()), Err(reason)]);
                texts.push(None);
            }
        }
    }
    let rows = rows
        .into_iter()
        .zip(answers)
        .enumerate()
        .map(|(cell, (row, answer))| row.or(answer.map(|_| Formula::Rate { cell, scale: 1.0 })))
        .collect();
    Built {
        rows,
        cells: 2 * RESOURCES.len(),
        source: Some(Box::new(Pressure { texts })),
        notes: Vec::new(),
    }
}

/// Microseconds of `some` and `full`.
fn total(text: &str) -> [Result<f64, String>; 2] {
    DEGREES.map(|degree| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(degree)?.strip_prefix(' '))
            .ok_or_else(|| format!("no line {degree}"))?;
        let total = line
            .split(' ')
            .find_map(|word| word.strip_prefix("total="))
            .ok_or_else(|| format!("no total in '{line}'"))?;
        files::number(total)
    })
}

struct Pressure {
    texts: Vec<Option<Text>>,
}

impl Source for Pressure {
    fn sample(&mut self, cells: &mut [f64]) {
        for (text, cells) in self.texts.iter_mut().zip(cells.chunks_exact_mut(2)) {
            let Some(Ok(text)) = text.as_mut().map(Text::read) else {
                continue;
            };
            for (cell, total) in cells.iter_mut().zip(total(text)) {
                *cell = total.unwrap_or(f64::NAN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::tree;
    use super::*;

    const LINES: &str = "some avg10=0.01 avg60=0.14 avg300=0.63 total=13247927\n\
                         full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

    fn at(root: &Path) -> Built {
        build(root, rows("psi", Owner::Target, "x"), &|resource| {
            format!("proc/pressure/{resource}")
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
        let mut cells = [f64::NAN; 6];
        built.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells[..2], [13_247_927.0, 5.0]);
        assert!(cells[2..].iter().all(|cell| cell.is_nan()));
    }
}
