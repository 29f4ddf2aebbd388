//! Groups of perf events on everyone who is watched, read as running totals.

use super::budget::Budget;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::Times;
use super::watched::Watched;
use crate::sys::perf::explain_open_error;
use crate::sys::perf::paranoid;
use crate::sys::perf_group::EventConfig;
use crate::sys::perf_group::Group;
use crate::sys::perf_group::MAX_EVENTS;
use crate::sys::perf_group::OpenError;
use crate::sys::perf_group::Whom;
use std::cell::RefCell;
use std::io;

/// One event of a part, and the row that shows it as a rate, if any does.
pub(super) struct Member {
    pub config: EventConfig,
    pub row: Option<Row>,
    /// Of one count, in the unit of the row.
    pub scale: f64,
    /// Whether it cannot stand still while a program runs.
    pub must_count: bool,
    /// Whether it only happens inside the kernel.
    pub in_kernel: bool,
}

/// What a row divides.
pub(super) enum Quotient {
    /// Event over event, by their numbers.
    Ratio(usize, usize, f64),
    /// Event times event, over event times the time in which they ran.
    PerTime([usize; 2], usize, f64),
    /// Event over the time in which it ran.
    OfTime(usize, f64),
}

/// Events meant to be counted together, and what follows from them.
pub(super) struct Plan {
    pub members: Vec<Member>,
    pub ratios: Vec<(Row, Quotient)>,
}

/// The running total of one group of one thread, CPU or cgroup and CPU.
struct Counted {
    group: Group,
    last: [u64; MAX_EVENTS],
    enabled_ns: u64,
    running_ns: u64,
    /// Time enabled since it last ran, for which it still has to speak.
    waiting: f64,
}

/// Groups that count the same events on different threads or CPUs.
struct Set {
    /// Cells of the events, in the order of the group.
    events: Vec<usize>,
    times: Times,
    counted: Vec<Counted>,
}

/// All groups of one part.
#[derive(Default)]
pub(super) struct GroupSource {
    sets: Vec<Set>,
    totals: Vec<f64>,
}

impl GroupSource {
    /// With room for `events` totals; see [`GroupSource::event`].
    fn new(events: usize, sets: usize) -> GroupSource {
        GroupSource {
            sets: Vec::new(),
            totals: vec![0.0; events + 2 * sets],
        }
    }

    fn update(&mut self) {
        for set in &mut self.sets {
            for counted in &mut set.counted {
                GroupSource::read(counted, (&set.events, set.times), &mut self.totals);
            }
        }
    }

    fn read(counted: &mut Counted, set: (&[usize], Times), totals: &mut [f64]) {
        let mut values = [0; MAX_EVENTS];
        let Ok(now) = counted.group.read(&mut values) else {
            return;
        };
        let enabled = now.enabled_ns.saturating_sub(counted.enabled_ns) as f64;
        let running = now.running_ns.saturating_sub(counted.running_ns) as f64;
        let (events, times) = set;
        totals[times.enabled] += enabled;
        totals[times.running] += running;
        counted.enabled_ns = now.enabled_ns;
        counted.running_ns = now.running_ns;
        counted.waiting += enabled;
        if running <= 0.0 {
            return;
        }
        // Each thread took its own turns on the registers.
        let scale = (counted.waiting / running).max(1.0);
        counted.waiting = 0.0;
        for ((&cell, value), last) in events.iter().zip(values).zip(&mut counted.last) {
            totals[cell] += value.saturating_sub(*last) as f64 * scale;
            *last = value;
        }
    }
}

impl Source for GroupSource {
    fn sample(&mut self, cells: &mut [f64]) {
        self.update();
        cells.copy_from_slice(&self.totals);
    }
}

/// Opens `plan` on everyone watched.
pub(super) fn open(context: &Context, plan: Plan) -> Built {
    let configs: Vec<EventConfig> = plan.members.iter().map(|member| member.config).collect();
    let must: Vec<usize> = (0..configs.len())
        .filter(|&index| plan.members[index].must_count)
        .collect();
    let probed = context.probes.borrow_mut().probe(&configs, &must);
    let mut refused: Vec<Option<String>> = vec![None; configs.len()];
    for (index, reason) in &probed.refused {
        refused[*index] = Some(reason.clone());
    }
    let mut source = GroupSource::new(configs.len(), probed.groups.len());
    for (number, indices) in probed.groups.iter().enumerate() {
        let configs: Vec<EventConfig> = indices.iter().map(|&index| configs[index]).collect();
        let watched = context.watched.as_ref().map_err(String::clone);
        match watched.and_then(|watched| open_on(&context.budget, &configs, watched, probed.kernel))
        {
            Ok(counted) => source.sets.push(Set {
                events: indices.clone(),
                times: times(plan.members.len(), number),
                counted,
            }),
            Err(reason) => {
                for &index in indices {
                    refused[index] = Some(reason.clone());
                }
            }
        }
    }
    if !probed.kernel {
        let reason = format!(
            "it happens inside the kernel, where counting is forbidden: \
             kernel.perf_event_paranoid is {}; set it to 1 or lower, or grant CAP_PERFMON",
            paranoid()
        );
        for (index, member) in plan.members.iter().enumerate() {
            if member.in_kernel {
                refused[index] = Some(reason.clone());
            }
        }
    }
    // The set that counts each event.
    let home = |index: usize| {
        probed
            .groups
            .iter()
            .position(|indices| indices.contains(&index))
    };
    let together = |indices: &[usize]| -> Result<Times, String> {
        if let Some(reason) = indices.iter().find_map(|&index| refused[index].clone()) {
            return Err(reason);
        }
        match home(indices[0]) {
            Some(set) if indices.iter().all(|&index| home(index) == Some(set)) => {
                Ok(times(plan.members.len(), set))
            }
            _ => Err(
                "the CPU has too few registers to count what it divides at the same time".into(),
            ),
        }
    };
    let mut rows = Vec::new();
    for (index, member) in plan.members.iter().enumerate() {
        let Some(row) = member.row.clone() else {
            continue;
        };
        let scale = member.scale;
        rows.push(finish(row, together(&[index]), |_| Formula::Rate {
            cell: index,
            scale,
        }));
    }
    for (row, quotient) in &plan.ratios {
        let indices = match quotient {
            Quotient::Ratio(over, under, _) => vec![*over, *under],
            Quotient::PerTime(over, under, _) => vec![over[0], over[1], *under],
            Quotient::OfTime(over, _) => vec![*over],
        };
        rows.push(finish(
            row.clone(),
            together(&indices),
            |times| match *quotient {
                Quotient::Ratio(over, under, scale) => Formula::Ratio { over, under, scale },
                Quotient::PerTime(over, under, scale) => Formula::Product {
                    over,
                    under: [under, times.enabled],
                    scale,
                },
                Quotient::OfTime(over, scale) => Formula::Ratio {
                    over,
                    under: times.enabled,
                    scale,
                },
            },
        ));
    }
    built(rows, source)
}

/// A part from its rows and groups; without groups it has no source.
pub(super) fn built(rows: Vec<Row>, source: GroupSource) -> Built {
    let cells = source.totals.len();
    match source.sets.is_empty() {
        true => Built {
            rows,
            ..Built::default()
        },
        false => Built {
            rows,
            cells,
            source: Some(Box::new(source)),
            notes: Vec::new(),
        },
    }
}

fn finish(row: Row, times: Result<Times, String>, formula: impl Fn(Times) -> Formula) -> Row {
    match times {
        Ok(times) => Row {
            times: Some(times),
            ..row.at(formula(times))
        },
        Err(reason) => row.unavailable(reason),
    }
}

fn times(events: usize, set: usize) -> Times {
    Times {
        enabled: events + 2 * set,
        running: events + 2 * set + 1,
    }
}

fn open_on(
    budget: &RefCell<Budget>,
    configs: &[EventConfig],
    watched: &Watched,
    kernel: bool,
) -> Result<Vec<Counted>, String> {
    let each = watched.each();
    budget
        .borrow_mut()
        .take(each.len(), each.len() * configs.len())?;
    let mut counted = Vec::with_capacity(each.len());
    for whom in each {
        match Group::open(configs, whom, kernel) {
            Ok(group) => counted.push(start(group)),
            Err(OpenError { error, .. }) => match error.raw_os_error() {
                // It may end between being listed and being opened.
                Some(libc::ESRCH) => {}
                _ => return Err(explain(whom, &error)),
            },
        }
    }
    match counted.is_empty() {
        true => Err("the process has ended".into()),
        false => Ok(counted),
    }
}

fn start(group: Group) -> Counted {
    let mut last = [0; MAX_EVENTS];
    let times = group.read(&mut last).unwrap_or_default();
    Counted {
        group,
        last,
        enabled_ns: times.enabled_ns,
        running_ns: times.running_ns,
        waiting: 0.0,
    }
}

/// What a refusal means that concerns `whom`, since we may count ourselves.
fn explain(whom: Whom, error: &io::Error) -> String {
    match (whom, error.raw_os_error()) {
        (Whom::Thread(thread), Some(libc::EACCES | libc::EPERM)) => format!(
            "thread {thread} belongs to another user or may not be traced: run as its owner or \
             as root, or grant CAP_PERFMON and CAP_SYS_PTRACE"
        ),
        (Whom::Cpu(_) | Whom::Cgroup(..), Some(libc::EACCES | libc::EPERM)) => format!(
            "counting whole CPUs and cgroups is forbidden: kernel.perf_event_paranoid is {}; set \
             it to 0 or lower (sysctl -w kernel.perf_event_paranoid=0), or grant CAP_PERFMON",
            paranoid()
        ),
        (Whom::Cgroup(..), Some(libc::EINVAL | libc::EBADF)) => {
            "the kernel counts no events per cgroup (it lacks CONFIG_CGROUP_PERF), or the \
             directory is no cgroup"
                .into()
        }
        _ => explain_open_error(error, &paranoid()),
    }
}

/// Several events on CPUs of their own, each list of events as one group, for
/// units that belong to no CPU. `events[i]` counts into cell `i`.
pub(super) struct OnCpus {
    source: GroupSource,
    events: usize,
}

impl OnCpus {
    pub fn new(events: usize) -> OnCpus {
        OnCpus {
            source: GroupSource::new(events, 1),
            events,
        }
    }

    pub fn times(&self) -> Times {
        times(self.events, 0)
    }

    /// Adds a group on each of `cpus`; `cells[i]` receives what `configs[i]`
    /// counts there.
    ///
    /// # Errors
    /// Why it cannot be counted.
    pub fn add(
        &mut self,
        context: &Context,
        configs: &[EventConfig],
        cells: &[usize],
        cpus: &[usize],
    ) -> Result<(), String> {
        let watched = Watched::Cpus(cpus.to_vec());
        let counted = open_on(&context.budget, configs, &watched, true)?;
        self.source.sets.push(Set {
            events: cells.to_vec(),
            times: self.times(),
            counted,
        });
        Ok(())
    }

    /// What each event counted so far.
    pub fn events_counted(&mut self) -> Vec<f64> {
        self.source.update();
        self.source.totals[..self.events].to_vec()
    }

    pub fn built(self, rows: Vec<Row>) -> Built {
        built(rows, self.source)
    }
}

/// The running totals of one list of events.
pub(super) struct Running {
    source: GroupSource,
}

impl Running {
    /// # Errors
    /// Why it cannot be counted.
    pub fn open(
        configs: &[EventConfig],
        watched: &Watched,
        budget: &RefCell<Budget>,
        kernel: bool,
    ) -> Result<Running, String> {
        let mut source = GroupSource::new(configs.len(), 1);
        source.sets.push(Set {
            events: (0..configs.len()).collect(),
            times: times(configs.len(), 0),
            counted: open_on(budget, configs, watched, kernel)?,
        });
        Ok(Running { source })
    }

    /// The events' totals, then the nanoseconds enabled and running.
    pub fn read(&mut self) -> &[f64] {
        self.source.update();
        &self.source.totals
    }
}
