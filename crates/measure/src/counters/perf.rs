//! What is counted of the target by perf events: hardware, software, model
//! specific registers, and what was asked for by name.

use super::counter::Kind;
use super::counter::Owner;
use super::error::Error;
use super::events;
use super::events::Asked;
use super::groups;
use super::groups::Event;
use super::groups::Groups;
use super::groups::Plan;
use super::groups::Quotient;
use super::groups::Ratio;
use super::machine_wide;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::row;
use super::pmu;
use super::pmu::Pmu;
use jostle_host::sys::perf_group::EventConfig;

const HARDWARE: &str = "perf hardware";
/// Source of the events of [`super::counter::CounterOptions::events`].
pub const EVENT: &str = "perf event";

/// Misses and instructions to misses per 1000 instructions.
const PER_KILO: f64 = 1000.0;
const MPKI: &str = "misses/1000 instructions";
const PERCENT: f64 = 100.0;

const fn hardware(config: u64, name: &'static str, unit: &'static str) -> Event<'static> {
    Event::new(EventConfig::hardware(config), name, unit)
}

const fn software(config: u64, name: &'static str, unit: &'static str) -> Event<'static> {
    Event::new(EventConfig::software(config), name, unit)
}

const fn misses(cache: u64, name: &'static str) -> Event<'static> {
    Event::new(EventConfig::read_misses(cache), name, "misses/s")
}

const CORE: Plan = Plan {
    source: HARDWARE,
    events: &[
        hardware(0, "cycles", "cycles/s").must_count(),
        hardware(1, "instructions", "instructions/s").must_count(),
        hardware(4, "branches", "branches/s"),
        hardware(5, "branch-misses", "misses/s"),
    ],
    ratios: &[
        ("ipc", "instructions/cycle", Quotient::Ratio(1, 0, 1.0)),
        ("branch-miss-ratio", "%", Quotient::Ratio(3, 2, PERCENT)),
        ("branch-mpki", MPKI, Quotient::Ratio(3, 1, PER_KILO)),
    ],
};

pub(super) const LAST_LEVEL: Plan = Plan {
    source: HARDWARE,
    events: &[
        hardware(2, "llc-references", "references/s"),
        hardware(3, "llc-misses", "misses/s"),
        hardware(0, "", "cycles/s"),
        hardware(1, "", "instructions/s"),
    ],
    ratios: &[
        ("llc-miss-ratio", "%", Quotient::Ratio(1, 0, PERCENT)),
        ("llc-mpki", MPKI, Quotient::Ratio(1, 3, PER_KILO)),
    ],
};

pub(super) const FIRST_LEVEL: Plan = Plan {
    source: HARDWARE,
    events: &[
        misses(0, "l1d-read-misses"),
        misses(1, "l1i-read-misses"),
        misses(3, "dtlb-read-misses"),
        misses(4, "itlb-read-misses"),
    ],
    ratios: &[],
};

pub(super) const STALLS: Plan = Plan {
    source: HARDWARE,
    events: &[
        hardware(7, "stalled-cycles-frontend", "cycles/s"),
        hardware(8, "stalled-cycles-backend", "cycles/s"),
    ],
    ratios: &[],
};

const SOFTWARE: Plan = Plan {
    source: "perf software",
    events: &[
        software(1, "task-clock", "CPU s/s")
            .must_count()
            .scaled(1e-9),
        software(3, "context-switches", "switches/s").in_kernel(),
        software(4, "cpu-migrations", "migrations/s").in_kernel(),
        software(5, "minor-faults", "faults/s"),
        software(6, "major-faults", "faults/s"),
    ],
    ratios: &[],
};

pub(super) fn core(context: &Context) -> Built {
    let mut built = groups::open(context, &CORE);
    let units = pmu::units(&context.options.root);
    if units.iter().any(|name| name == "cpu_atom") {
        built.notes.push(
            "this CPU has two kinds of cores: hardware counters count on the larger ones only, \
             and are scaled up for the time on the others"
                .into(),
        );
    }
    built
}

pub(super) fn software_events(context: &Context) -> Built {
    let mut built = groups::open(context, &SOFTWARE);
    if context.scope.is_none() {
        // On a whole CPU the task clock never stops.
        let reason = "it runs on an idle CPU too; see cpu-busy";
        built.rows[0] = built.rows[0].clone().unavailable(reason);
    }
    built
}

/// The clock that never changes, the cycles at the nominal and at the real
/// frequency, and interrupts of the firmware.
pub(super) fn registers(context: &Context) -> Built {
    const MSR: &str = "perf msr";
    const TSC: (&str, &str) = ("tsc-frequency", "Hz");
    const SHARE: (&str, &str) = ("running-frequency-ratio", "%");
    const FREQUENCY: (&str, &str) = ("running-frequency", "Hz");
    let ratio = |(name, unit)| row(name, unit, Kind::Ratio, context.owner(), MSR);
    let smi = || row("smi", "interrupts/s", Kind::Rate, context.owner(), MSR);
    let all = || vec![ratio(TSC), ratio(SHARE), ratio(FREQUENCY), smi()];
    let pmu = match Pmu::open(&context.options.root, "msr") {
        Ok(pmu) => pmu,
        Err(reason) => return Built::unavailable(all(), reason),
    };
    let found: Vec<(&str, Event)> = [("tsc", ""), ("aperf", ""), ("mperf", ""), ("smi", "smi")]
        .into_iter()
        .filter_map(|(name, shown)| {
            let event = Event::new(pmu.event(name).ok()?.config, shown, "interrupts/s");
            let must_count = name != "smi";
            Some((
                name,
                Event {
                    must_count,
                    ..event
                },
            ))
        })
        .collect();
    let place = |name: &str| found.iter().position(|(other, _)| *other == name);
    let missing = |name: &str| format!("the kernel offers no msr/{name}/ on this machine");
    // Reading a program that runs on another CPU interrupts it there: not for a
    // clock that goes on whoever runs.
    if context.scope.is_some() && place("aperf").is_none() {
        let reason = format!(
            "{}; tsc and smi alone tell nothing of a target (without one they are read)",
            missing("aperf")
        );
        return Built::unavailable(all(), reason);
    }
    let events: Vec<Event> = found.iter().map(|(_, event)| *event).collect();
    let mut ratios: Vec<Ratio> = Vec::new();
    let mut absent = Vec::new();
    match place("tsc") {
        Some(tsc) => ratios.push((TSC.0, TSC.1, Quotient::OfTime(tsc, 1e9))),
        None => absent.push(ratio(TSC).unavailable(missing("tsc"))),
    }
    match (place("aperf"), place("mperf"), place("tsc")) {
        (Some(aperf), Some(mperf), Some(tsc)) => {
            let frequency = Quotient::PerTime([aperf, tsc], mperf, 1e9);
            ratios.push((SHARE.0, SHARE.1, Quotient::Ratio(aperf, mperf, PERCENT)));
            ratios.push((FREQUENCY.0, FREQUENCY.1, frequency));
        }
        _ => absent.extend([SHARE, FREQUENCY].map(|it| ratio(it).unavailable(missing("aperf")))),
    }
    if place("smi").is_none() {
        absent.push(smi().unavailable(missing("smi")));
    }
    let mut groups = Groups::default();
    let mut rows = Vec::new();
    if !events.is_empty() {
        let plan = Plan {
            source: MSR,
            events: &events,
            ratios: &ratios,
        };
        rows = groups.open(context, &plan);
    }
    rows.extend(absent);
    groups.built(rows)
}

/// Events by name, each in a group of its own.
pub(super) fn asked(context: &Context) -> Built {
    let mut groups = Groups::default();
    let mut rows = Vec::new();
    for name in &context.options.events {
        match events::parse(&context.options.root, name) {
            Ok(asked) if asked.units.is_empty() => {
                let (unit, scale) = asked.event.rate_unit();
                let event = Event::new(asked.event.config, name, unit);
                let plan = Plan {
                    source: EVENT,
                    events: &[event.scaled(asked.event.scale * scale)],
                    ratios: &[],
                };
                rows.extend(groups.open(context, &plan));
            }
            Ok(asked) => rows.push(of_machine(context, name, &asked, &mut groups)),
            Err(error) => rows
                .push(row(name, "events/s", Kind::Rate, context.owner(), EVENT).unavailable(error)),
        }
    }
    groups.built(rows)
}

fn of_machine(context: &Context, name: &str, asked: &Asked, groups: &mut Groups) -> Row {
    let (unit, scale) = asked.event.rate_unit();
    let row = row(name, unit, Kind::Rate, Owner::Machine, EVENT);
    let before = groups.len();
    let (cell, times) = (groups.cells(1), groups.times());
    let added = asked
        .units
        .iter()
        .try_for_each(|(config, cpus)| groups.add_on(context, cpus, (&[*config], &[cell]), times));
    let counted = match added {
        Ok(()) if asked.event.unit == "Joules" => {
            match machine_wide::energy_counted(groups)[cell] {
                0.0 => Err(Error::NoEnergy),
                _ => Ok(times),
            }
        }
        added => added.map(|()| times),
    };
    if counted.is_err() {
        groups.truncate(before);
    }
    let scale = scale * asked.event.scale;
    row.counted(counted, |_| Formula::Rate { cell, scale })
}
