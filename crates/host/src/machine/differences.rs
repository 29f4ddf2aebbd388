//! What differs between two machines, resource by resource.

use super::calibration::Calibration;
use super::calibration::Source;
use super::described::Described;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::collections::BTreeSet;

/// Name of the format.
pub const FORMAT: &str = "jostle-machine-comparison/1";

/// Peaks closer than this are called alike, percent: a choice, as a calibration keeps
/// no interval.
pub const ALIKE_PERCENT: f64 = 10.0;

/// Two machines beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differences {
    pub format: &'static str,
    pub names: [String; 2],
    pub models: [String; 2],
    /// The same CPU, caches, kernel, allowed CPUs and hypervisor.
    pub same_fingerprint: bool,
    /// CPUs, memory, kernel and the like, where they differ.
    pub facts: Vec<Fact>,
    /// Sizes of caches, in bytes: as reported and as measured.
    pub sizes: Vec<SizeOf>,
    /// In the order of the resources.
    pub peaks: Vec<PeakOf>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    pub name: &'static str,
    pub values: [Reading<String>; 2],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeOf {
    pub name: String,
    pub reported_bytes: [Option<u64>; 2],
    pub measured_bytes: [Option<u64>; 2],
}

/// What 100 % of a resource is on both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakOf {
    pub resource: String,
    pub unit: String,
    /// One source where it would run beside a target; or why it is not known.
    pub alone: [Reading<f64>; 2],
    /// All CPUs that share the resource at once.
    pub together: [Option<f64>; 2],
    /// The second over the first, alone, less 1; absent where one is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_percent: Option<f64>,
    /// Less than [`ALIKE_PERCENT`] apart.
    pub alike: bool,
}

/// Compares the first with the second.
pub fn differences(machines: [&Described; 2]) -> Differences {
    let [one, other] = machines;
    let calibrations = machines.map(|it| it.calibration.value().map(|it| &**it));
    Differences {
        format: FORMAT,
        names: machines.map(|it| it.name.clone()),
        models: machines.map(|it| it.model.clone()),
        same_fingerprint: one.fingerprint == other.fingerprint,
        facts: facts(machines),
        sizes: sizes(machines, calibrations),
        peaks: peaks(calibrations),
        notes: notes(machines, calibrations),
    }
}

fn facts(machines: [&Described; 2]) -> Vec<Fact> {
    type Of = fn(&Described) -> Reading<String>;
    fn shown<T: ToString>(reading: &Reading<T>) -> Reading<String> {
        match reading {
            Reading::Value(value) => Reading::Value(value.to_string()),
            Reading::Unavailable { unavailable } => Reading::unavailable(unavailable),
        }
    }
    let all: [(&'static str, Of); 6] = [
        ("model", |it| Reading::Value(it.model.clone())),
        ("cpus", |it| shown(&it.cpus)),
        ("smt", |it| shown(&it.smt)),
        ("memory_bytes", |it| shown(&it.memory_bytes)),
        ("kernel", |it| it.kernel.clone()),
        ("hypervisor", |it| it.hypervisor.clone()),
    ];
    let facts = all.map(|(name, of)| Fact {
        name,
        values: machines.map(of),
    });
    let differ = facts.into_iter().filter(|it| it.values[0] != it.values[1]);
    differ.collect()
}

fn sizes(machines: [&Described; 2], calibrations: [Option<&Calibration>; 2]) -> Vec<SizeOf> {
    let names = machines.iter().flat_map(|it| &it.caches);
    let names: BTreeSet<&String> = names.map(|(name, ..)| name).collect();
    names
        .into_iter()
        .map(|name| SizeOf {
            name: name.clone(),
            reported_bytes: machines.map(|it| {
                let found = it.caches.iter().find(|(other, ..)| other == name);
                found.map(|(_, bytes, _)| *bytes)
            }),
            measured_bytes: calibrations.map(|it| {
                let size = it?.sizes.iter().find(|size| size.name == *name)?;
                size.measured.value().map(|knee| knee.size)
            }),
        })
        .collect()
}

fn peaks(calibrations: [Option<&Calibration>; 2]) -> Vec<PeakOf> {
    let ids = calibrations
        .iter()
        .flatten()
        .flat_map(|it| it.resources.keys());
    let mut ids: Vec<&String> = ids.collect::<BTreeSet<_>>().into_iter().collect();
    ids.sort_by_key(|id| {
        let known = id.parse::<Resource>();
        (known.map_or(usize::MAX, |it| it as usize), (*id).clone())
    });
    ids.into_iter()
        .map(|id| {
            peak(
                id,
                calibrations.map(|it| it.and_then(|it| it.resources.get(id))),
            )
        })
        .collect()
}

fn peak(id: &str, sources: [Option<&Source>; 2]) -> PeakOf {
    let alone = sources.map(|source| match source.map(|it| &it.alone) {
        None => Reading::unavailable("not calibrated"),
        Some(Reading::Unavailable { unavailable }) => Reading::unavailable(unavailable),
        Some(Reading::Value(alone)) => Reading::Value(alone.peak.pressure),
    });
    let change = match (alone[0].value(), alone[1].value()) {
        (Some(one), Some(other)) if *one > 0.0 => Some((other / one - 1.0) * 100.0),
        _ => None,
    };
    let unit = sources.iter().flatten().next();
    PeakOf {
        resource: id.to_string(),
        unit: unit.map_or(String::new(), |it| it.pressure_unit.clone()),
        together: sources.map(|it| it?.together.value().map(|peak| peak.pressure)),
        alike: change.is_some_and(|it| it.abs() < ALIKE_PERCENT),
        change_percent: change,
        alone,
    }
}

fn notes(machines: [&Described; 2], calibrations: [Option<&Calibration>; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    for (machine, calibration) in machines.iter().zip(calibrations) {
        if let (None, Some(reason)) = (calibration, machine.calibration.reason()) {
            notes.push(format!("{}: no peaks: {reason}", machine.name));
        }
    }
    if calibrations.iter().all(Option::is_some) {
        notes.push(format!(
            "a calibration measures each peak once and keeps no interval; what differs by less \
             than {ALIKE_PERCENT:.0} % is called alike"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::described::parse;
    use super::*;

    #[test]
    fn what_differs_is_named_and_what_is_alike_says_so() {
        let text = include_str!("../../../../scripts/machines/epyc-2cpu.json");
        let one = parse(text.as_bytes(), "one").unwrap();
        let same = differences([&one, &one]);
        assert!(same.same_fingerprint && same.facts.is_empty());
        assert!(same.peaks.iter().all(|peak| peak.alike), "{same:?}");
        let text = include_str!("../../../../scripts/machines/example-16cpu.json");
        let other = parse(text.as_bytes(), "other").unwrap();
        let found = differences([&one, &other]);
        let cpus = found.facts.iter().find(|fact| fact.name == "cpus").unwrap();
        assert_eq!(
            cpus.values,
            ["2", "16"].map(|it| Reading::Value(it.to_string()))
        );
        let memory = found
            .peaks
            .iter()
            .find(|peak| peak.resource == "memory-bandwidth");
        let memory = memory.unwrap();
        assert!((memory.change_percent.unwrap() - 300.0).abs() < 1e-6 && !memory.alike);
    }

    #[test]
    fn a_machine_without_calibration_has_no_peaks_and_says_why() {
        let text = include_str!("../../../../scripts/machines/epyc-2cpu.json");
        let one = parse(text.as_bytes(), "one").unwrap();
        let mut other = one.clone();
        other.calibration = Reading::unavailable("never calibrated");
        let found = differences([&one, &other]);
        assert!(
            found
                .peaks
                .iter()
                .all(|peak| peak.change_percent.is_none() && !peak.alike)
        );
        assert!(
            found.notes[0].contains("never calibrated"),
            "{:?}",
            found.notes
        );
    }
}
