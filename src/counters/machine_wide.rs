//! Energy and memory traffic of the machine, by units that belong to no CPU.

use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::events;
use super::groups::OnCpus;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::row;
use super::pmu;
use super::pmu::Pmu;
use super::pmu::PmuEvent;
use crate::sys::perf_group::EventConfig;
use std::path::Path;
use std::time::Duration;

const ENERGY: [(&str, &str); 5] = [
    ("energy-pkg", "power-package"),
    ("energy-cores", "power-cores"),
    ("energy-ram", "power-memory"),
    ("energy-gpu", "power-gpu"),
    ("energy-psys", "power-platform"),
];

/// The hardware adds up energy about once per millisecond; a machine that is on
/// uses some in this time.
const ENERGY_PROOF: Duration = Duration::from_millis(20);

pub(super) const NO_ENERGY: &str =
    "it can be opened and then counts nothing: a hypervisor keeps the energy to itself";

/// Whether none of some energy counters counts.
pub(super) fn stands_still(groups: &mut OnCpus) -> bool {
    std::thread::sleep(ENERGY_PROOF);
    groups.events_counted().iter().all(|count| *count == 0.0)
}

/// RAPL: joules into watts.
pub(super) fn energy(context: &Context) -> Built {
    let rows: Vec<Row> = ENERGY
        .iter()
        .map(|(_, name)| row(*name, "W", Kind::Rate, Owner::Machine, "perf power"))
        .collect();
    let pmu = match Pmu::open(&context.options.root, "power") {
        Ok(pmu) => pmu,
        Err(reason) => return Built::unavailable(rows, &reason.to_string()),
    };
    let cpus = pmu.cpus.clone().unwrap_or_else(|| vec![0]);
    let mut groups = OnCpus::new(ENERGY.len());
    let mut answers: Vec<Result<f64, String>> = Vec::new();
    for (cell, (event, _)) in ENERGY.iter().enumerate() {
        answers.push(match pmu.events().iter().any(|name| name == event) {
            false => Err(format!("this machine has no power/{event}/")),
            true => pmu.event(event).map_err(text).and_then(|event| {
                groups.add(context, &[event.config], &[cell], &cpus)?;
                Ok(event.scale)
            }),
        });
    }
    if answers.iter().any(Result::is_ok) {
        std::thread::sleep(ENERGY_PROOF);
    }
    let counted = groups.events_counted();
    let times = groups.times();
    let rows = rows
        .into_iter()
        .zip(answers)
        .enumerate()
        .map(|(cell, (row, answer))| match answer {
            Ok(_) if counted[cell] == 0.0 => row.unavailable(NO_ENERGY),
            Ok(scale) => Row {
                times: Some(times),
                ..row.at(Formula::Rate { cell, scale })
            },
            Err(reason) => row.unavailable(reason),
        })
        .collect();
    groups.built(rows)
}

/// Memory controllers by the names of their units, and the events that count
/// what is read and written there.
const CONTROLLERS: [(&str, &str, &str); 5] = [
    ("uncore_imc_free_running", "data_read", "data_write"),
    ("uncore_imc_free_running", "read", "write"),
    ("uncore_imc", "cas_count_read", "cas_count_write"),
    ("uncore_imc", "data_reads", "data_writes"),
    // Zen 4 and later have no event files for these: column commands of 64
    // bytes, reads and writes told apart by a mask.
    (
        "amd_umc",
        "event=0x0a,rdwrmask=0x1",
        "event=0x0a,rdwrmask=0x2",
    ),
];

/// Bytes of one column command of AMD's memory controllers.
const COLUMN_BYTES: f64 = 64.0;

/// Bytes per second between all memory controllers and memory.
pub(super) fn memory_traffic(context: &Context) -> Built {
    let rows = || {
        ["memory-read-bandwidth", "memory-write-bandwidth"]
            .map(|name| row(name, "B/s", Kind::Rate, Owner::Machine, "perf uncore"))
            .to_vec()
    };
    let found = match controllers(&context.options.root) {
        Ok(found) => found,
        Err(reason) => return Built::unavailable(rows(), &reason),
    };
    let mut groups = OnCpus::new(2);
    let scales = found[0].scales;
    for one in &found {
        if let Err(reason) = groups.add(context, &one.configs, &[0, 1], &one.cpus) {
            return Built::unavailable(rows(), &reason);
        }
    }
    let times = groups.times();
    let rows = rows()
        .into_iter()
        .zip(scales)
        .enumerate()
        .map(|(cell, (row, scale))| Row {
            times: Some(times),
            ..row.at(Formula::Rate { cell, scale })
        })
        .collect();
    groups.built(rows)
}

#[derive(Debug, PartialEq)]
struct Controller {
    configs: [EventConfig; 2],
    /// Bytes of one count.
    scales: [f64; 2],
    cpus: Vec<usize>,
}

/// All memory controllers of one kind that count what passes them.
fn controllers(root: &Path) -> Result<Vec<Controller>, String> {
    let mut why = None;
    for (name, read, write) in CONTROLLERS {
        let found: Result<Vec<Controller>, String> = events::numbered(root, name)
            .iter()
            .map(|unit| controller(root, unit, read, write))
            .collect();
        match found {
            Ok(found) if found.is_empty() => {}
            Ok(mut found) => {
                // One that counts in other units would spoil the sum.
                let scales = found[0].scales;
                found.retain(|one| one.scales == scales);
                return Ok(found);
            }
            Err(reason) => why = Some(reason),
        }
    }
    Err(why.unwrap_or_else(|| {
        format!(
            "the kernel shows no memory controller that counts traffic (uncore_imc, amd_umc); it \
             has {}. Virtual machines do not see them",
            pmu::units(root).join(", ")
        )
    }))
}

fn text(error: Error) -> String {
    error.to_string()
}

fn controller(root: &Path, unit: &str, read: &str, write: &str) -> Result<Controller, String> {
    let pmu = Pmu::open(root, unit).map_err(text)?;
    let bytes = |event: &PmuEvent| match (event.rate_unit(), unit.starts_with("amd_umc")) {
        (("B/s", scale), _) => Ok(event.scale * scale),
        (_, true) => Ok(COLUMN_BYTES),
        _ => Err(format!(
            "{unit} does not say how many bytes its events stand for"
        )),
    };
    let event = |name| pmu.event(name).map_err(text);
    let (read, write) = (event(read)?, event(write)?);
    let scales = [bytes(&read)?, bytes(&write)?];
    Ok(Controller {
        configs: [read.config, write.config],
        scales,
        cpus: pmu
            .cpus
            .ok_or_else(|| format!("{unit} does not say on which CPU to ask it"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::cpu_and_memory;
    use super::*;
    use crate::os::text::tests::tree;

    #[test]
    fn memory_controllers_are_found_by_their_events() {
        let root = cpu_and_memory();
        let found = controllers(root.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].configs[1], EventConfig::new(20, 0x0c04));
        assert_eq!(found[0].scales, [64.0, 64.0]);
        assert_eq!(found[0].cpus, [0, 4]);
    }

    #[test]
    fn amd_has_masks_instead_of_files() {
        const UMC: &str = "sys/bus/event_source/devices/amd_umc_1";
        let at = |path: &str| format!("{UMC}/{path}");
        let root = tree(&[
            (&at("type"), "30"),
            (&at("cpumask"), "0"),
            (&at("format/event"), "config:0-7"),
            (&at("format/rdwrmask"), "config:8-9"),
        ]);
        let found = controllers(root.path()).unwrap();
        assert_eq!(found[0].configs[0], EventConfig::new(30, 0x10a));
        assert_eq!(found[0].configs[1], EventConfig::new(30, 0x20a));
        assert_eq!(found[0].scales, [64.0, 64.0]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = tree(&[("sys/bus/event_source/devices/software/type", "1")]);
        let reason = controllers(none.path()).unwrap_err();
        assert!(reason.contains("it has software"), "{reason}");
        const IMC: &str = "sys/bus/event_source/devices/uncore_imc_0";
        let at = |path: &str| format!("{IMC}/{path}");
        let strange = tree(&[
            (&at("type"), "20"),
            (&at("format/event"), "config:0-7"),
            (&at("events/cas_count_read"), "event=4"),
            (&at("events/cas_count_write"), "event=5"),
        ]);
        let reason = controllers(strange.path()).unwrap_err();
        assert!(!reason.is_empty());
    }
}
