//! Groups of perf events on everyone who is watched, read as running totals.

use super::budget::Budget;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::Times;
use super::watched::PerfTargets;
use crate::sys::perf::explain_open_error;
use crate::sys::perf::paranoid;
use crate::sys::perf_group;
use crate::sys::perf_group::EventConfig;
use crate::sys::perf_group::Group;
use crate::sys::perf_group::MAX_EVENTS;
use crate::sys::perf_group::OpenError;
use crate::sys::perf_group::PerfTarget;
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

/// One group of one thread, CPU, or cgroup and CPU.
struct Counted {
    group: Group,
    progress: Progress,
}

/// How far a group had come when it was read last.
#[derive(Default)]
struct Progress {
    last: [u64; MAX_EVENTS],
    times: perf_group::Times,
    /// Time enabled since it last ran, for which it still has to speak.
    waiting: f64,
}

impl Progress {
    /// Adds what happened since to the totals at `events` and `times`.
    fn advance(
        &mut self,
        now: perf_group::Times,
        values: &[u64; MAX_EVENTS],
        (events, times): (&[usize], Times),
        totals: &mut [f64],
    ) {
        let enabled = now.enabled_ns.saturating_sub(self.times.enabled_ns) as f64;
        let running = now.running_ns.saturating_sub(self.times.running_ns) as f64;
        totals[times.enabled] += enabled;
        totals[times.running] += running;
        self.times = now;
        self.waiting += enabled;
        if running <= 0.0 {
            return;
        }
        // Each thread took its own turns on the registers.
        let scale = (self.waiting / running).max(1.0);
        self.waiting = 0.0;
        for ((&cell, value), last) in events.iter().zip(values).zip(&mut self.last) {
            totals[cell] += value.saturating_sub(*last) as f64 * scale;
            *last = *value;
        }
    }
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
        let mut values = [0; MAX_EVENTS];
        for set in &mut self.sets {
            for Counted { group, progress } in &mut set.counted {
                if let Ok(now) = group.read(&mut values) {
                    progress.advance(now, &values, (&set.events, set.times), &mut self.totals);
                }
            }
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
    watched: &PerfTargets,
    kernel: bool,
) -> Result<Vec<Counted>, String> {
    let each = watched.each();
    budget
        .borrow_mut()
        .take(each.len(), each.len() * configs.len())
        .map_err(|error| error.to_string())?;
    let mut counted = Vec::with_capacity(each.len());
    for target in each {
        match Group::open(configs, target, kernel) {
            Ok(group) => counted.push(start(group)),
            Err(OpenError { error, .. }) => match error.raw_os_error() {
                // It may end between being listed and being opened.
                Some(libc::ESRCH) => {}
                _ => return Err(explain(target, &error)),
            },
        }
    }
    match counted.is_empty() {
        true => Err("the process has ended".into()),
        false => Ok(counted),
    }
}

fn start(group: Group) -> Counted {
    let mut progress = Progress::default();
    progress.times = group.read(&mut progress.last).unwrap_or_default();
    Counted { group, progress }
}

/// What a refusal means that concerns `whom`, since we may count ourselves.
fn explain(target: PerfTarget, error: &io::Error) -> String {
    match (target, error.raw_os_error()) {
        (PerfTarget::Thread(thread), Some(libc::EACCES | libc::EPERM)) => format!(
            "thread {thread} belongs to another user or may not be traced: run as its owner or \
             as root, or grant CAP_PERFMON and CAP_SYS_PTRACE"
        ),
        (PerfTarget::Cpu(_) | PerfTarget::Cgroup(..), Some(libc::EACCES | libc::EPERM)) => format!(
            "counting whole CPUs and cgroups is forbidden: kernel.perf_event_paranoid is {}; set \
             it to 0 or lower (sysctl -w kernel.perf_event_paranoid=0), or grant CAP_PERFMON",
            paranoid()
        ),
        (PerfTarget::Cgroup(..), Some(libc::EINVAL | libc::EBADF)) => {
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
        let watched = PerfTargets::Cpus(cpus.to_vec());
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
        watched: &PerfTargets,
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

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::Owner;
    use super::super::part::evaluate;
    use super::super::part::row;
    use super::super::part::running_share;
    use super::super::part::tests::context;
    use super::super::probe::Probed;
    use super::super::probe::Probes;
    use super::*;

    fn at(enabled_ns: u64, running_ns: u64) -> perf_group::Times {
        perf_group::Times {
            enabled_ns,
            running_ns,
        }
    }

    #[test]
    fn turns_on_the_registers_are_scaled_up() {
        let mut progress = Progress::default();
        let mut totals = [0.0; 4];
        let mut step = |now, first: u64, second: u64| {
            let mut values = [0; MAX_EVENTS];
            values[..2].copy_from_slice(&[first, second]);
            progress.advance(now, &values, (&[0, 1], times(2, 0)), &mut totals);
            totals
        };
        assert_eq!(step(at(100, 100), 10, 1), [10.0, 1.0, 100.0, 100.0]);
        // It ran half of the time.
        assert_eq!(step(at(200, 150), 20, 2), [30.0, 3.0, 200.0, 150.0]);
        // It had no turn, and then one for both stretches.
        assert_eq!(step(at(300, 150), 20, 2), [30.0, 3.0, 300.0, 150.0]);
        assert_eq!(step(at(400, 200), 30, 3), [70.0, 7.0, 400.0, 200.0]);
        // The target slept.
        assert_eq!(step(at(400, 200), 30, 3), [70.0, 7.0, 400.0, 200.0]);
    }

    fn plan() -> Plan {
        let line = |name: &str| row(name, "x", Kind::Rate, Owner::Target, "test");
        Plan {
            members: [1, 0, 5, 3]
                .map(|config| Member {
                    config: EventConfig::software(config),
                    row: Some(line(&format!("event-{config}"))),
                    scale: 1.0,
                    must_count: config < 2,
                    in_kernel: config == 3,
                })
                .into(),
            ratios: vec![
                (line("near"), Quotient::Ratio(0, 1, 1.0)),
                (line("far"), Quotient::Ratio(0, 2, 1.0)),
                (line("of-time"), Quotient::OfTime(0, 1.0)),
            ],
        }
    }

    fn open_as(probed: Option<Probed>) -> Built {
        let mut context = context(std::path::Path::new("/"), None);
        // The test's own thread has its own number.
        let thread = nix::unistd::gettid().as_raw();
        context.watched = Ok(PerfTargets::Threads(vec![thread]));
        if let Some(probed) = probed {
            let configs: Vec<EventConfig> =
                plan().members.iter().map(|member| member.config).collect();
            context.probes.replace(Probes::knowing(&configs, probed));
        }
        open(&context, plan())
    }

    fn why<'a>(built: &'a Built, name: &str) -> Option<&'a str> {
        let row = built.rows.iter().find(|row| row.counter.name == name);
        row.unwrap().counter.unavailable.as_deref()
    }

    #[test]
    fn no_ratio_of_what_is_not_counted_together() {
        // As on a CPU with two free registers.
        let built = open_as(Some(Probed {
            groups: vec![vec![0, 1], vec![2, 3]],
            refused: Vec::new(),
            kernel: true,
        }));
        if crate::skip::lacks("perf", why(&built, "event-1")) {
            return;
        }
        assert_eq!(why(&built, "event-5"), None);
        assert_eq!(why(&built, "near"), None);
        assert!(why(&built, "far").unwrap().contains("too few registers"));
    }

    #[test]
    fn without_the_kernel_its_events_are_refused_and_the_rest_counts() {
        let built = open_as(Some(Probed {
            groups: vec![vec![0, 1, 3]],
            refused: vec![(2, "there is none".into())],
            kernel: false,
        }));
        if crate::skip::lacks("perf", why(&built, "event-1")) {
            return;
        }
        assert!(
            why(&built, "event-3")
                .unwrap()
                .contains("perf_event_paranoid")
        );
        assert_eq!(why(&built, "event-5"), Some("there is none"));
        assert_eq!(why(&built, "far"), Some("there is none"));
        assert_eq!(why(&built, "near"), None);
    }

    #[test]
    fn a_group_of_four_counts_over_the_same_time() {
        let mut built = open_as(None);
        if crate::skip::lacks("perf", why(&built, "event-1")) {
            return;
        }
        let cells = built.cells;
        let source = built.source.as_mut().unwrap();
        let mut sample = || {
            let mut cells = vec![f64::NAN; cells];
            source.sample(&mut cells);
            cells
        };
        let from = sample();
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(30) {
            std::hint::black_box(began);
        }
        let to = sample();
        for row in &built.rows {
            // One pair of times for all of them.
            assert_eq!(row.times, Some(times(4, 0)));
            assert_eq!(running_share(row, &from, &to), Some(1.0));
        }
        let near = built.rows.iter().find(|row| row.counter.name == "near");
        let clocks = evaluate(near.unwrap(), &from, &to, 0.03).unwrap();
        assert!((clocks - 1.0).abs() < 0.2, "{clocks}");
    }
}
