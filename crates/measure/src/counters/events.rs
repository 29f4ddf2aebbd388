//! Events by the names people know from `perf list`.

use super::error::Error;
use super::pmu;
use super::pmu::Pmu;
use super::pmu::PmuEvent;
use super::tracefs::tracepoint_id;
use jostle_host::sys::perf_group::EventConfig;
use std::path::Path;

/// An event someone asked for: what to open, on which CPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub event: PmuEvent,
    /// For events that belong to no CPU: one list for each unit that has it.
    pub units: Vec<(EventConfig, Vec<usize>)>,
}

/// Why an event cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EventError {
    /// It is not written as an event is.
    #[error("{0}")]
    Syntax(String),
    /// There is no such event on this machine.
    #[error("{0}")]
    Absent(String),
}

const NAMES: [(&str, EventConfig); 21] = [
    ("cycles", EventConfig::hardware(0)),
    ("cpu-cycles", EventConfig::hardware(0)),
    ("instructions", EventConfig::hardware(1)),
    ("cache-references", EventConfig::hardware(2)),
    ("cache-misses", EventConfig::hardware(3)),
    ("branches", EventConfig::hardware(4)),
    ("branch-misses", EventConfig::hardware(5)),
    ("bus-cycles", EventConfig::hardware(6)),
    ("ref-cycles", EventConfig::hardware(9)),
    ("L1-dcache-load-misses", EventConfig::read_misses(0)),
    ("LLC-load-misses", EventConfig::read_misses(2)),
    ("dTLB-load-misses", EventConfig::read_misses(3)),
    ("cpu-clock", EventConfig::software(0)),
    ("task-clock", EventConfig::software(1)),
    ("page-faults", EventConfig::software(2)),
    ("context-switches", EventConfig::software(3)),
    ("cpu-migrations", EventConfig::software(4)),
    ("minor-faults", EventConfig::software(5)),
    ("major-faults", EventConfig::software(6)),
    ("alignment-faults", EventConfig::software(7)),
    ("cgroup-switches", EventConfig::software(11)),
];

/// Splits a list at its commas, those between slashes excepted.
pub fn split_list(list: &str) -> Result<Vec<String>, EventError> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for letter in list.chars() {
        match letter {
            '/' => inside = !inside,
            ',' if !inside => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("never empty").push(letter);
    }
    let parts: Vec<String> = parts.iter().map(|part| part.trim().to_string()).collect();
    match parts.iter().any(String::is_empty) {
        true => Err(EventError::Syntax(format!("'{list}' has an empty place"))),
        false => Ok(parts),
    }
}

/// What `text` stands for on the machine below `root`.
pub(super) fn parse(root: &Path, text: &str) -> Result<Asked, EventError> {
    if let Some((unit, rest)) = text.split_once('/') {
        let Some(terms) = rest.strip_suffix('/') else {
            return Err(EventError::Syntax(format!(
                "'{text}' should end with a slash, as in cpu/event=0x3c,umask=0x1/"
            )));
        };
        return of_units(root, unit, terms).map_err(|error| EventError::Absent(error.to_string()));
    }
    if let Some((_, config)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(alone(*config));
    }
    if let Some((category, name)) = text.split_once(':') {
        return match tracepoint_id(root, category, name) {
            Ok(id) => Ok(alone(EventConfig::tracepoint(id))),
            Err(error) => Err(EventError::Absent(format!(
                "tracepoint {category}:{name}: {error}"
            ))),
        };
    }
    if let Some(hex) = text.strip_prefix('r')
        && let Ok(config) = u64::from_str_radix(hex, 16)
    {
        return Ok(alone(EventConfig::raw(config)));
    }
    Err(EventError::Syntax(format!(
        "'{text}' is no event; write r01c2, cpu/event=0x3c,umask=0x1/, PMU/EVENT/, CATEGORY:NAME \
         of a tracepoint, or one of {}",
        NAMES.map(|(name, _)| name).join(", ")
    )))
}

fn alone(config: EventConfig) -> Asked {
    Asked {
        event: PmuEvent {
            config,
            scale: 1.0,
            unit: String::new(),
        },
        units: Vec::new(),
    }
}

/// The event in the unit of this name, or in all that are numbered so:
/// `uncore_imc` stands for `uncore_imc_0`, `uncore_imc_1`, …
fn of_units(root: &Path, name: &str, terms: &str) -> Result<Asked, Error> {
    let names: Vec<String> = match numbered(root, name) {
        several if several.is_empty() => vec![name.to_string()],
        several => several,
    };
    let mut asked: Option<Asked> = None;
    for name in names {
        let pmu = Pmu::open(root, &name)?;
        let event = pmu.event(terms)?;
        let config = event.config;
        let asked = asked.get_or_insert(Asked {
            event,
            units: Vec::new(),
        });
        if let Some(cpus) = pmu.cpus {
            asked.units.push((config, cpus));
        }
    }
    asked.ok_or_else(|| Error::NoPmu {
        name: name.into(),
        units: Vec::new(),
    })
}

/// Units called `name` or `name_N`; none when `name` is one by itself.
pub(super) fn numbered(root: &Path, name: &str) -> Vec<String> {
    let all = pmu::units(root);
    if all.iter().any(|other| other == name) {
        return vec![name.into()];
    }
    all.into_iter()
        .filter(|other| {
            other
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('_'))
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::cpu_and_memory;
    use super::*;
    use jostle_host::os::fake::tree;

    #[test]
    fn lists_are_split_outside_of_slashes() {
        let list = split_list("r01c2, cpu/event=1,umask=2/,sched:sched_switch").unwrap();
        assert_eq!(
            list,
            ["r01c2", "cpu/event=1,umask=2/", "sched:sched_switch"]
        );
        assert!(split_list("a,,b").is_err());
        assert!(split_list("").is_err());
    }

    #[test]
    fn every_way_to_write_an_event() {
        let root = cpu_and_memory();
        let config = |text: &str| parse(root.path(), text).unwrap().event.config;
        assert_eq!(config("r01c2"), EventConfig::raw(0x1c2));
        assert_eq!(config("task-clock"), EventConfig::software(1));
        assert_eq!(config("cpu/event=0x3c,umask=0x1/").config, 0x13c);
        // The name without its number stands for all of them.
        let memory = parse(root.path(), "uncore_imc/cas_count_read/").unwrap();
        assert_eq!(memory.units.len(), 1);
        assert_eq!(memory.units[0].1, [0, 4]);
        let problem = |text: &str| parse(root.path(), text).unwrap_err();
        assert!(matches!(problem("cpu/event=1"), EventError::Syntax(_)));
        assert!(matches!(problem("speed"), EventError::Syntax(_)));
        assert!(matches!(problem("gpu/x/"), EventError::Absent(_)));
        assert!(problem("a:b").to_string().contains("mount -t tracefs"));
    }

    #[test]
    fn tracepoints_are_looked_up_and_near_ones_named() {
        let root = tree(&[
            ("sys/kernel/tracing/events/sched/sched_switch/id", "316\n"),
            ("sys/kernel/tracing/events/sched/broken/id", "many\n"),
        ]);
        let found = parse(root.path(), "sched:sched_switch").unwrap();
        assert_eq!(found.event.config, EventConfig::tracepoint(316));
        let problem = parse(root.path(), "sched:sched_swich").unwrap_err();
        assert!(
            problem.to_string().contains("near names: sched_switch"),
            "{problem:?}"
        );
        assert!(parse(root.path(), "sched:broken").is_err());
    }
}
