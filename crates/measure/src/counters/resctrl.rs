//! Resource control: how much of the last-level cache the target's monitoring
//! group holds, and how much memory traffic it causes. Groups are found, never
//! made or changed.

use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::part::Built;
use super::part::Context;
use super::part::Row;
use super::part::row;
use super::read;
use super::read::Files;
use crate::workload::Scope;
use jostle_host::os::ParseError;
use jostle_host::os::text;
use std::path::Path;

const MOUNT: &str = "sys/fs/resctrl";
const FILES: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

pub(super) fn group(context: &Context) -> Built {
    const SOURCE: &str = "resctrl";
    let line = |name, unit, kind| row(name, unit, kind, Owner::Target, SOURCE);
    let rows = vec![
        line("llc-occupancy", "B", Kind::Level),
        line("memory-bandwidth-total", "B/s", Kind::Rate),
        line("memory-bandwidth-local", "B/s", Kind::Rate),
    ];
    let root = &context.options.root;
    let threads = context.scope.as_ref().map_or_else(Vec::new, Scope::threads);
    match find(root, &threads) {
        Err(reason) => Built::unavailable(rows, reason),
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

/// The group that holds the target, and how many tasks of others it holds.
fn find(root: &Path, threads: &[i32]) -> Result<(String, usize), Error> {
    if text::text(root, format!("{MOUNT}/tasks")).is_err() {
        return Err(Error::NoResctrl);
    }
    let mut groups = Vec::new();
    let tops = text::names(root, MOUNT)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| !["info", "mon_groups", "mon_data"].contains(&name.as_str()))
        .map(|name| format!("{MOUNT}/{name}"))
        .chain([MOUNT.to_string()]);
    for top in tops {
        for inner in text::names(root, format!("{top}/mon_groups")).unwrap_or_default() {
            groups.push(format!("{top}/mon_groups/{inner}"));
        }
        if top != MOUNT {
            groups.push(top);
        }
    }
    let mut partly = None;
    for group in groups {
        let Ok(text) = text::text(root, format!("{group}/tasks")) else {
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
            partly = Some(Error::PartlyInGroup {
                inside,
                threads: threads.len(),
                group,
            });
        }
    }
    Err(partly.unwrap_or(Error::NoGroup))
}

/// One file per cache, that is per `mon_data/mon_L3_*`.
fn open(root: &Path, group: &str, rows: Vec<Row>) -> Built {
    let mut files = Files::default();
    let caches = text::names(root, format!("{group}/mon_data")).unwrap_or_default();
    let mut cells = 0..;
    let mut read = |(row, file): (Row, &str)| {
        let caches = caches.iter().filter(|cache| cache.starts_with("mon_L3"));
        let paths = caches.map(|cache| format!("{group}/mon_data/{cache}/{file}"));
        match read::open(root, paths) {
            Ok(texts) if texts.is_empty() => {
                row.unavailable(format!("/{group}/mon_data holds no L3 cache"))
            }
            Ok(texts) => {
                let cell = cells.start;
                let opened = files.add_one(texts, cell, value);
                cells.start += usize::from(opened.is_ok());
                row.of_cell(cell, 1.0, &opened)
            }
            Err(reason) => row.unavailable(reason),
        }
    };
    let rows: Vec<Row> = rows.into_iter().zip(FILES).map(&mut read).collect();
    files.built(rows)
}

fn value(text: &str) -> Result<f64, ParseError> {
    let problem = match text.trim() {
        "Unavailable" => "the hardware has no value for it now",
        "Error" => "the hardware reports an error",
        "Unassigned" => "no hardware counter is assigned to the group",
        text => return text::count(text),
    };
    Err(ParseError::Other(problem.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::os::fake::tree;

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
                .to_string()
                .contains("only 1 of the target's 2")
        );
        assert!(at(&[1]).unwrap_err().to_string().contains("mkdir"));
        let none = tree(&[("proc/x", "")]);
        assert!(
            find(none.path(), &[7])
                .unwrap_err()
                .to_string()
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
