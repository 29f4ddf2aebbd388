//! Energy and memory traffic of the machine, by units that belong to no CPU.

use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::events;
use super::groups::Groups;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::row;
use super::pmu;
use super::pmu::Pmu;
use super::pmu::PmuEvent;
use jostle_host::sys::perf_group::EventConfig;
use std::path::Path;
use std::time::Duration;

const ENERGY: [(&str, &str); 5] = [
    ("energy-pkg", "power-package"),
    ("energy-cores", "power-cores"),
    ("energy-ram", "power-memory"),
    ("energy-gpu", "power-gpu"),
    ("energy-psys", "power-platform"),
];

/// The totals of energy counters after a time in which a machine that is on uses
/// some; the hardware adds it up about once per millisecond.
pub(super) fn energy_counted(groups: &mut Groups) -> &[f64] {
    std::thread::sleep(Duration::from_millis(20));
    groups.read()
}

/// RAPL: joules into watts.
pub(super) fn energy(context: &Context) -> Built {
    let rows = ENERGY.map(|(_, name)| row(name, "W", Kind::Rate, Owner::Machine, "perf power"));
    let pmu = match Pmu::open(&context.options.root, "power") {
        Ok(pmu) => pmu,
        Err(reason) => return Built::unavailable(rows.into(), reason),
    };
    let cpus = pmu.cpus.clone().unwrap_or_else(|| vec![0]);
    let mut groups = Groups::default();
    groups.cells(ENERGY.len());
    let times = groups.times();
    let mut open = |cell: usize| -> Result<f64, Error> {
        let name = ENERGY[cell].0;
        if !pmu.events().iter().any(|event| event == name) {
            return Err(Error::NoPowerEvent(name));
        }
        let event = pmu.event(name)?;
        groups.add_on(context, &cpus, (&[event.config], &[cell]), times)?;
        Ok(event.scale)
    };
    let scales: [Result<f64, Error>; ENERGY.len()] = std::array::from_fn(&mut open);
    let counted = match scales.iter().any(Result::is_ok) {
        true => energy_counted(&mut groups).to_vec(),
        false => vec![0.0; ENERGY.len()],
    };
    let rows = rows.into_iter().zip(scales).enumerate();
    let rows = rows.map(|(cell, (row, scale))| match scale {
        Ok(_) if counted[cell] == 0.0 => row.unavailable(Error::NoEnergy),
        Ok(scale) => row.counted(Ok(times), |_| Formula::Rate { cell, scale }),
        Err(reason) => row.unavailable(reason),
    });
    let rows = rows.collect();
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
    let rows = ["memory-read-bandwidth", "memory-write-bandwidth"]
        .map(|name| row(name, "B/s", Kind::Rate, Owner::Machine, "perf uncore"));
    let mut groups = Groups::default();
    groups.cells(2);
    let times = groups.times();
    let opened = controllers(&context.options.root).and_then(|found| {
        for one in &found {
            groups.add_on(context, &one.cpus, (&one.configs, &[0, 1]), times)?;
        }
        Ok(found[0].scales)
    });
    let scales = match opened {
        Ok(scales) => scales,
        Err(reason) => return Built::unavailable(rows.into(), reason),
    };
    let rows = rows.into_iter().zip(scales).enumerate();
    let rows =
        rows.map(|(cell, (row, scale))| row.counted(Ok(times), |_| Formula::Rate { cell, scale }));
    let rows = rows.collect();
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
fn controllers(root: &Path) -> Result<Vec<Controller>, Error> {
    let mut why = None;
    for (name, read, write) in CONTROLLERS {
        let found: Result<Vec<Controller>, Error> = events::numbered(root, name)
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
    Err(why.unwrap_or_else(|| Error::NoController(pmu::units(root).join(", "))))
}

fn controller(root: &Path, unit: &str, read: &str, write: &str) -> Result<Controller, Error> {
    let pmu = Pmu::open(root, unit)?;
    let bytes = |event: &PmuEvent| match (event.rate_unit(), unit.starts_with("amd_umc")) {
        (("B/s", scale), _) => Ok(event.scale * scale),
        (_, true) => Ok(COLUMN_BYTES),
        _ => Err(Error::NoBytes(unit.into())),
    };
    let (read, write) = (pmu.event(read)?, pmu.event(write)?);
    Ok(Controller {
        configs: [read.config, write.config],
        scales: [bytes(&read)?, bytes(&write)?],
        cpus: pmu.cpus.ok_or_else(|| Error::NoCpu(unit.into()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::pmu::tests::cpu_and_memory;
    use super::*;
    use jostle_host::os::fake::tree;

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
        let reason = controllers(none.path()).unwrap_err().to_string();
        assert!(reason.contains("it has software"), "{reason}");
        const IMC: &str = "sys/bus/event_source/devices/uncore_imc_0";
        let at = |path: &str| format!("{IMC}/{path}");
        let strange = tree(&[
            (&at("type"), "20"),
            (&at("format/event"), "config:0-7"),
            (&at("events/cas_count_read"), "event=4"),
            (&at("events/cas_count_write"), "event=5"),
        ]);
        let reason = controllers(strange.path()).unwrap_err().to_string();
        assert!(!reason.is_empty());
    }
}
