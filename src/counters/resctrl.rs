//! Resource control: how much of the last-level cache the target's monitoring
//! group holds, and how much memory traffic it causes. Groups are found, never
//! made or changed.

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
use std::path::Path;

const MOUNT: &str = "sys/fs/resctrl";
const FILES: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

pub(super) fn group(context: &Context) -> Built {
    const SOURCE: &str = "resctrl";
    let rows = vec![
        row("llc-occupancy", "B", Kind::Level, Owner::Target, SOURCE),
        row(
            "memory-bandwidth-total",
            "B/s",
            Kind::Rate,
            Owner::Target,
            SOURCE,
        ),
        row(
            "memory-bandwidth-local",
            "B/s",
            Kind::Rate,
            Owner::Target,
            SOURCE,
        ),
    ];
    let root = &context.options.root;
    let threads = threads(root, context.scope.as_ref());
    match find(root, &threads) {
        Err(reason) => Built::unavailable(rows, &reason),
        Ok((group, others)) => {
            let mut built = open(root, &group, rows);
            if others > 0 && built.source.is_some() {
                built.notes.push(format!(
                    "llc-occupancy, memory-bandwidth-*: the resctrl group /{group} also holds \
                     {others} tasks that are not the target's"
                ));
            }
            built
        }
    }
}

fn threads(root: &Path, scope: Option<&Scope>) -> Vec<i32> {
    let processes = match scope {
        None => Vec::new(),
        Some(Scope::Cgroup(directory)) => cgroups::processes(root, directory).unwrap_or_default(),
        Some(Scope::Processes(pids)) => {
            let mut all = pids.clone();
            for &pid in pids {
                all.extend(tree::descendants(pid));
            }
            all
        }
    };
    processes
        .iter()
        .flat_map(|&pid| tree::threads(pid))
        .collect()
}

/// The group that holds the target, and how many tasks of others it holds.
fn find(root: &Path, threads: &[i32]) -> Result<(String, usize), String> {
    if files::text(root, &format!("{MOUNT}/tasks")).is_err() {
        return Err(
            "no resctrl here: the CPU lacks monitoring (Intel RDT, AMD QoS, Arm MPAM), the \
             kernel was built without it, or it is not mounted (mount -t resctrl resctrl \
             /sys/fs/resctrl)"
                .into(),
        );
    }
    let mut groups = Vec::new();
    let tops = files::names(root, MOUNT)
        .into_iter()
        .filter(|name| !["info", "mon_groups", "mon_data"].contains(&name.as_str()))
        .map(|name| format!("{MOUNT}/{name}"))
        .chain([MOUNT.to_string()]);
    for top in tops {
        for inner in files::names(root, &format!("{top}/mon_groups")) {
            groups.push(format!("{top}/mon_groups/{inner}"));
        }
        if top != MOUNT {
            groups.push(top);
        }
    }
    let mut partly = None;
    for group in groups {
        let Ok(text) = files::text(root, &format!("{group}/tasks")) else {
            continue;
        };
        let tasks: Vec<i32> = text
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let inside = threads.iter().filter(|tid| tasks.contains(tid)).count();
        if inside == threads.len() && inside > 0 {
            return Ok((group, tasks.len() - inside));
        }
        if inside > 0 {
            partly = Some(format!(
                "only {inside} of the target's {} threads are in the resctrl group /{group}",
                threads.len()
            ));
        }
    }
    Err(partly.unwrap_or_else(|| {
        "the target is in the resctrl group of everything else; make one for it: mkdir \
         /sys/fs/resctrl/mon_groups/NAME and write its threads to the file tasks there"
            .into()
    }))
}

/// One file per cache, that is per `mon_data/mon_L3_*`.
fn open(root: &Path, group: &str, rows: Vec<Row>) -> Built {
    let caches = files::names(root, &format!("{group}/mon_data"));
    let mut texts: Vec<Vec<Text>> = Vec::new();
    let mut answers = Vec::new();
    for file in FILES {
        let opened: Result<Vec<Text>, String> = caches
            .iter()
            .filter(|cache| cache.starts_with("mon_L3"))
            .map(|cache| {
                let mut text = Text::open(root, &format!("{group}/mon_data/{cache}/{file}"))?;
                value(text.read()?).map_err(|why| format!("{}: {why}", text.path()))?;
                Ok(text)
            })
            .collect();
        answers.push(match opened {
            Ok(found) if found.is_empty() => Err(format!("/{group}/mon_data holds no L3 cache")),
            Ok(found) => {
                texts.push(found);
                Ok(texts.len() - 1)
            }
            Err(reason) => Err(reason),
        });
    }
    let rows = rows
        .into_iter()
        .zip(answers)
        .map(|(row, answer)| {
            let kind = row.counter.kind;
            row.or(answer.map(|cell| match kind {
                Kind::Level => Formula::Level { cell, scale: 1.0 },
                _ => Formula::Rate { cell, scale: 1.0 },
            }))
        })
        .collect();
    Built {
        rows,
        cells: texts.len(),
        source: (!texts.is_empty()).then(|| Box::new(Caches { texts }) as Box<dyn Source>),
        notes: Vec::new(),
    }
}

fn value(text: &str) -> Result<f64, String> {
    match text.trim() {
        "Unavailable" => Err("the hardware has no value for it now".into()),
        "Error" => Err("the hardware reports an error".into()),
        "Unassigned" => Err("no hardware counter is assigned to the group".into()),
        text => files::number(text),
    }
}

struct Caches {
    texts: Vec<Vec<Text>>,
}

impl Source for Caches {
    fn sample(&mut self, cells: &mut [f64]) {
        for (texts, cell) in self.texts.iter_mut().zip(cells) {
            let sum: Option<f64> = texts
                .iter_mut()
                .map(|text| value(text.read().ok()?).ok())
                .sum();
            *cell = sum.unwrap_or(f64::NAN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::tree;
    use super::*;

    fn rows() -> Vec<Row> {
        FILES
            .iter()
            .map(|name| row(*name, "B", Kind::Level, Owner::Target, "resctrl"))
            .collect()
    }

    #[test]
    fn the_group_with_all_threads_is_the_targets() {
        let root = tree(&[
            ("sys/fs/resctrl/tasks", "1\n2\n"),
            ("sys/fs/resctrl/info/L3_MON/num_rmids", "64\n"),
            ("sys/fs/resctrl/mon_groups/web/tasks", "7\n8\n99\n"),
            ("sys/fs/resctrl/batch/tasks", "20\n"),
            ("sys/fs/resctrl/batch/mon_groups/inner/tasks", "20\n"),
        ]);
        let at = |threads: &[i32]| find(root.path(), threads);
        assert_eq!(at(&[7, 8]), Ok(("sys/fs/resctrl/mon_groups/web".into(), 1)));
        let inner = "sys/fs/resctrl/batch/mon_groups/inner";
        assert_eq!(at(&[20]), Ok((inner.into(), 0)));
        assert!(
            at(&[7, 50])
                .unwrap_err()
                .contains("only 1 of the target's 2")
        );
        assert!(at(&[1]).unwrap_err().contains("mkdir"));
        let none = tree(&[("proc/x", "")]);
        assert!(
            find(none.path(), &[7])
                .unwrap_err()
                .contains("mount -t resctrl")
        );
    }

    #[test]
    fn caches_add_up_and_what_they_refuse_is_said() {
        let g = "sys/fs/resctrl/mon_groups/web";
        let at = |path: &str| format!("{g}/mon_data/{path}");
        let root = tree(&[
            (&at("mon_L3_00/llc_occupancy"), "1000\n"),
            (&at("mon_L3_01/llc_occupancy"), "24\n"),
            (&at("mon_L3_00/mbm_total_bytes"), "Unavailable\n"),
            (&at("mon_L3_01/mbm_total_bytes"), "5\n"),
        ]);
        let mut built = open(root.path(), g, rows());
        let why: Vec<_> = built
            .rows
            .iter()
            .map(|row| row.counter.unavailable.clone().unwrap_or_default())
            .collect();
        assert_eq!(why[0], "");
        assert!(why[1].contains("no value for it now"), "{why:?}");
        assert!(why[2].contains("does not exist"), "{why:?}");
        let mut cells = [f64::NAN];
        built.source.as_mut().unwrap().sample(&mut cells);
        assert_eq!(cells, [1024.0]);
    }
}
