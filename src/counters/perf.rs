//! What is counted of the target by perf events: hardware, software, model
//! specific registers, and what was asked for by name.

use super::counter::Kind;
use super::counter::Owner;
use super::events;
use super::events::Asked;
use super::groups;
use super::groups::Member;
use super::groups::OnCpus;
use super::groups::Plan;
use super::groups::Quotient;
use super::machine_wide;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::row;
use super::pmu;
use super::pmu::Pmu;
use crate::sys::perf_group::EventConfig;

const HARDWARE: &str = "perf hardware";
const SOFTWARE: &str = "perf software";
const MSR: &str = "perf msr";
/// Source of the events of [`super::counter::CounterOptions::events`].
pub const EVENT: &str = "perf event";

/// Misses and instructions to misses per 1000 instructions.
const PER_KILO: f64 = 1000.0;
const PERCENT: f64 = 100.0;

fn owner(context: &Context) -> Owner {
    match context.scope {
        Some(_) => Owner::Target,
        None => Owner::Machine,
    }
}

fn member(config: EventConfig, row: Option<Row>) -> Member {
    Member {
        config,
        row,
        scale: 1.0,
        must_count: false,
        in_kernel: false,
    }
}

fn hardware(context: &Context, config: EventConfig, name: &str, unit: &'static str) -> Member {
    let row = row(name, unit, Kind::Rate, owner(context), HARDWARE);
    member(config, Some(row))
}

fn ratio(context: &Context, name: &str, unit: &'static str) -> Row {
    row(name, unit, Kind::Ratio, owner(context), HARDWARE)
}

const CYCLES: EventConfig = EventConfig::hardware(0);
const INSTRUCTIONS: EventConfig = EventConfig::hardware(1);

pub(super) fn core(context: &Context) -> Built {
    let must = |member| Member {
        must_count: true,
        ..member
    };
    let events = |config, name, unit| hardware(context, config, name, unit);
    let plan = Plan {
        members: vec![
            must(events(CYCLES, "cycles", "cycles/s")),
            must(events(INSTRUCTIONS, "instructions", "instructions/s")),
            events(EventConfig::hardware(4), "branches", "branches/s"),
            events(EventConfig::hardware(5), "branch-misses", "misses/s"),
        ],
        ratios: vec![
            (
                ratio(context, "ipc", "instructions/cycle"),
                Quotient::Ratio(1, 0, 1.0),
            ),
            (
                ratio(context, "branch-miss-ratio", "%"),
                Quotient::Ratio(3, 2, PERCENT),
            ),
            (
                ratio(context, "branch-mpki", "misses/1000 instructions"),
                Quotient::Ratio(3, 1, PER_KILO),
            ),
        ],
    };
    let mut built = groups::open(context, plan);
    if pmu::units(&context.options.root)
        .iter()
        .any(|name| name == "cpu_atom")
    {
        built.notes.push(
            "this CPU has two kinds of cores: hardware counters count on the larger ones only, \
             and are scaled up for the time on the others"
                .into(),
        );
    }
    built
}

pub(super) fn last_level(context: &Context) -> Built {
    let plan = Plan {
        members: vec![
            hardware(
                context,
                EventConfig::hardware(2),
                "llc-references",
                "references/s",
            ),
            hardware(context, EventConfig::hardware(3), "llc-misses", "misses/s"),
            member(CYCLES, None),
            member(INSTRUCTIONS, None),
        ],
        ratios: vec![
            (
                ratio(context, "llc-miss-ratio", "%"),
                Quotient::Ratio(1, 0, PERCENT),
            ),
            (
                ratio(context, "llc-mpki", "misses/1000 instructions"),
                Quotient::Ratio(1, 3, PER_KILO),
            ),
        ],
    };
    groups::open(context, plan)
}

pub(super) fn first_level(context: &Context) -> Built {
    let misses = |cache, name| hardware(context, EventConfig::read_misses(cache), name, "misses/s");
    let plan = Plan {
        members: vec![
            misses(0, "l1d-read-misses"),
            misses(1, "l1i-read-misses"),
            misses(3, "dtlb-read-misses"),
            misses(4, "itlb-read-misses"),
        ],
        ratios: Vec::new(),
    };
    groups::open(context, plan)
}

pub(super) fn stalls(context: &Context) -> Built {
    let stalled = |config, name| hardware(context, EventConfig::hardware(config), name, "cycles/s");
    let plan = Plan {
        members: vec![
            stalled(7, "stalled-cycles-frontend"),
            stalled(8, "stalled-cycles-backend"),
        ],
        ratios: Vec::new(),
    };
    groups::open(context, plan)
}

pub(super) fn software(context: &Context) -> Built {
    let event = |config, name, unit, in_kernel| Member {
        in_kernel,
        ..member(
            EventConfig::software(config),
            Some(row(name, unit, Kind::Rate, owner(context), SOFTWARE)),
        )
    };
    let clock = Member {
        scale: 1e-9,
        must_count: true,
        ..event(1, "task-clock", "CPU s/s", false)
    };
    let plan = Plan {
        members: vec![
            clock,
            event(3, "context-switches", "switches/s", true),
            event(4, "cpu-migrations", "migrations/s", true),
            event(5, "minor-faults", "faults/s", false),
            event(6, "major-faults", "faults/s", false),
        ],
        ratios: Vec::new(),
    };
    let mut built = groups::open(context, plan);
    if context.scope.is_none() {
        // On a whole CPU this clock never stops.
        let reason = "it runs on an idle CPU too; see cpu-busy";
        for row in &mut built.rows {
            if row.counter.name == "task-clock" {
                *row = row.clone().unavailable(reason);
            }
        }
    }
    built
}

/// The clock that never changes, the cycles at the nominal and at the real
/// frequency, and interrupts of the firmware.
pub(super) fn registers(context: &Context) -> Built {
    const NAMES: [&str; 4] = ["tsc", "aperf", "mperf", "smi"];
    let level = |name, unit| row(name, unit, Kind::Ratio, owner(context), MSR);
    let smi = row("smi", "interrupts/s", Kind::Rate, owner(context), MSR);
    let tsc = level("tsc-frequency", "Hz");
    let frequency = level("running-frequency", "Hz");
    let share = level("running-frequency-ratio", "%");
    let pmu = match Pmu::open(&context.options.root, "msr") {
        Ok(pmu) => pmu,
        Err(reason) => {
            return Built::unavailable(vec![tsc, share, frequency, smi], &reason.to_string());
        }
    };
    let found: Vec<(&str, EventConfig)> = NAMES
        .iter()
        .filter_map(|&name| Some((name, pmu.event(name).ok()?.config)))
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
        return Built::unavailable(vec![tsc, share, frequency, smi], &reason);
    }
    let members = found
        .iter()
        .map(|&(name, config)| Member {
            must_count: name != "smi",
            ..member(config, (name == "smi").then(|| smi.clone()))
        })
        .collect();
    let mut ratios = Vec::new();
    let mut absent = Vec::new();
    match place("tsc") {
        Some(tsc_at) => ratios.push((tsc, Quotient::OfTime(tsc_at, 1e9))),
        None => absent.push(tsc.unavailable(missing("tsc"))),
    }
    match (place("aperf"), place("mperf"), place("tsc")) {
        (Some(aperf), Some(mperf), Some(tsc)) => {
            ratios.push((share, Quotient::Ratio(aperf, mperf, PERCENT)));
            ratios.push((frequency, Quotient::PerTime([aperf, tsc], mperf, 1e9)));
        }
        _ => {
            absent.push(share.unavailable(missing("aperf")));
            absent.push(frequency.unavailable(missing("aperf")));
        }
    }
    if place("smi").is_none() {
        absent.push(smi.unavailable(missing("smi")));
    }
    let mut built = match found.is_empty() {
        true => Built::default(),
        false => groups::open(context, Plan { members, ratios }),
    };
    built.rows.extend(absent);
    built
}

/// Events by name, each in a group of its own.
pub(super) fn asked(context: &Context) -> Built {
    let mut rows = Vec::new();
    let mut sources = Several::default();
    for name in &context.options.events {
        match events::parse(&context.options.root, name) {
            Ok(asked) if asked.units.is_empty() => {
                sources.push(of_target(context, name, &asked), &mut rows);
            }
            Ok(asked) => sources.push(of_machine(context, name, &asked), &mut rows),
            Err(error) => rows.push(
                row(name.as_str(), "events/s", Kind::Rate, owner(context), EVENT)
                    .unavailable(error.reason()),
            ),
        }
    }
    let cells = sources.cells;
    Built {
        rows,
        cells,
        source: (cells > 0).then(|| Box::new(sources) as Box<dyn super::part::Source>),
        notes: Vec::new(),
    }
}

fn of_target(context: &Context, name: &str, asked: &Asked) -> Built {
    let (unit, scale) = asked.event.rate_unit();
    let row = row(name, unit, Kind::Rate, owner(context), EVENT);
    let member = Member {
        scale: asked.event.scale * scale,
        ..member(asked.event.config, Some(row))
    };
    groups::open(
        context,
        Plan {
            members: vec![member],
            ratios: Vec::new(),
        },
    )
}

fn of_machine(context: &Context, name: &str, asked: &Asked) -> Built {
    let (unit, scale) = asked.event.rate_unit();
    let row = row(name, unit, Kind::Rate, Owner::Machine, EVENT);
    let mut groups = OnCpus::new(1);
    for (config, cpus) in &asked.units {
        if let Err(reason) = groups.add(context, &[*config], &[0], cpus) {
            return Built::unavailable(vec![row], &reason);
        }
    }
    if asked.event.unit == "Joules" && machine_wide::stands_still(&mut groups) {
        return Built::unavailable(vec![row], machine_wide::NO_ENERGY);
    }
    let times = Some(groups.times());
    let scale = scale * asked.event.scale;
    let row = Row {
        times,
        ..row.at(Formula::Rate { cell: 0, scale })
    };
    groups.built(vec![row])
}

/// Parts one after the other as one.
#[derive(Default)]
struct Several {
    parts: Vec<(Box<dyn super::part::Source>, std::ops::Range<usize>)>,
    cells: usize,
}

impl Several {
    fn push(&mut self, built: Built, rows: &mut Vec<Row>) {
        let offset = self.cells;
        rows.extend(built.rows.into_iter().map(|row| shifted(row, offset)));
        if let Some(source) = built.source {
            self.cells += built.cells;
            self.parts.push((source, offset..self.cells));
        }
    }
}

fn shifted(mut row: Row, offset: usize) -> Row {
    if let Some(Formula::Rate { cell, .. }) = &mut row.formula {
        *cell += offset;
    }
    if let Some(times) = &mut row.times {
        times.enabled += offset;
        times.running += offset;
    }
    row
}

impl super::part::Source for Several {
    fn sample(&mut self, cells: &mut [f64]) {
        for (source, place) in &mut self.parts {
            source.sample(&mut cells[place.clone()]);
        }
    }
}
