//! Groups of perf events on everyone who is watched, read as running totals.

use super::budget::Budget;
use super::counter::Kind;
use super::error::Error;
use super::part::Built;
use super::part::Context;
use super::part::Formula;
use super::part::Row;
use super::part::Source;
use super::part::Times;
use super::part::row;
use super::watched::PerfTargets;
use jostle_host::sys::perf::explain_open_error;
use jostle_host::sys::perf::paranoid;
use jostle_host::sys::perf_group;
use jostle_host::sys::perf_group::EventConfig;
use jostle_host::sys::perf_group::Group;
use jostle_host::sys::perf_group::MAX_EVENTS;
use jostle_host::sys::perf_group::OpenError;
use jostle_host::sys::perf_group::PerfTarget;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

/// One event of a plan, and the row that shows it as a rate.
#[derive(Clone, Copy)]
pub(super) struct Event<'a> {
    pub config: EventConfig,
    /// Of the row; empty for an event that only serves ratios.
    pub name: &'a str,
    pub unit: &'static str,
    /// Of one count, in the unit of the row.
    pub scale: f64,
    /// Whether it cannot stand still while a program runs.
    pub must_count: bool,
    /// Whether it only happens inside the kernel.
    pub in_kernel: bool,
}

impl<'a> Event<'a> {
    pub const fn new(config: EventConfig, name: &'a str, unit: &'static str) -> Event<'a> {
        Event {
            config,
            name,
            unit,
            scale: 1.0,
            must_count: false,
            in_kernel: false,
        }
    }

    pub const fn must_count(mut self) -> Event<'a> {
        self.must_count = true;
        self
    }

    pub const fn in_kernel(mut self) -> Event<'a> {
        self.in_kernel = true;
        self
    }

    pub const fn scaled(mut self, scale: f64) -> Event<'a> {
        self.scale = scale;
        self
    }
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

/// Name and unit of a row, and what it divides.
pub(super) type Ratio = (&'static str, &'static str, Quotient);

/// Events meant to be counted together, and what follows from them.
pub(super) struct Plan<'a> {
    pub source: &'static str,
    pub events: &'a [Event<'a>],
    pub ratios: &'a [Ratio],
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

/// All groups of one part, and the totals of what they count.
#[derive(Default)]
pub(super) struct Groups {
    sets: Vec<Set>,
    totals: Vec<f64>,
}

impl Groups {
    /// The first of `count` further totals.
    pub fn cells(&mut self, count: usize) -> usize {
        let first = self.totals.len();
        self.totals.resize(first + count, 0.0);
        first
    }

    /// Totals for the times of a set.
    pub fn times(&mut self) -> Times {
        let enabled = self.cells(2);
        Times {
            enabled,
            running: enabled + 1,
        }
    }

    /// Counts `configs[i]` on everyone watched into `cells[i]`, as one group.
    pub fn add(
        &mut self,
        budget: &RefCell<Budget>,
        watched: &PerfTargets,
        kernel: bool,
        (configs, cells): (&[EventConfig], &[usize]),
        times: Times,
    ) -> Result<(), Error> {
        let each = watched.each();
        let descriptors = each.len() * configs.len();
        budget.borrow_mut().take(each.len(), descriptors)?;
        let mut counted = Vec::with_capacity(each.len());
        for target in each {
            match Group::open(configs, target, kernel) {
                Ok(group) => {
                    let mut progress = Progress::default();
                    progress.times = group.read(&mut progress.last).unwrap_or_default();
                    counted.push(Counted { group, progress });
                }
                Err(OpenError { error, .. }) => match error.raw_os_error() {
                    // It may end between being listed and being opened.
                    Some(libc::ESRCH) => {}
                    _ => return Err(Error::Other(explain(target, &error))),
                },
            }
        }
        if counted.is_empty() {
            return Err(Error::Ended);
        }
        self.sets.push(Set {
            events: cells.to_vec(),
            times,
            counted,
        });
        Ok(())
    }

    /// [`Groups::add`] on `cpus`, for units that belong to no CPU.
    pub fn add_on(
        &mut self,
        context: &Context,
        cpus: &[usize],
        events: (&[EventConfig], &[usize]),
        times: Times,
    ) -> Result<(), Error> {
        let watched = PerfTargets::Cpus(cpus.to_vec());
        self.add(&context.budget, &watched, true, events, times)
    }

    /// Opens `plan` on everyone watched; its rows.
    pub fn open(&mut self, context: &Context, plan: &Plan) -> Vec<Row> {
        let configs: Vec<EventConfig> = plan.events.iter().map(|event| event.config).collect();
        let must: Vec<usize> = (0..configs.len())
            .filter(|&index| plan.events[index].must_count)
            .collect();
        let probed = context.probes.borrow_mut().probe(&configs, &must);
        let first = self.cells(configs.len());
        // The times of the group that counts each event, or why none does.
        let mut counted: Vec<Result<Times, Error>> = vec![Err(Error::Ended); configs.len()];
        for indices in &probed.groups {
            let group: Vec<EventConfig> = indices.iter().map(|&index| configs[index]).collect();
            let cells: Vec<usize> = indices.iter().map(|index| first + index).collect();
            let times = self.times();
            let opened = context.watched.as_ref().map_err(Error::clone);
            let opened = opened.and_then(|watched| {
                let events = (group.as_slice(), cells.as_slice());
                self.add(&context.budget, watched, probed.kernel, events, times)
            });
            for &index in indices {
                counted[index] = opened.clone().map(|()| times);
            }
        }
        for (index, reason) in probed.refused {
            counted[index] = Err(Error::Other(reason));
        }
        for (event, counted) in plan.events.iter().zip(&mut counted) {
            if event.in_kernel && !probed.kernel {
                *counted = Err(Error::InKernel(paranoid()));
            }
        }
        let together = |indices: &[usize]| -> Result<Times, Error> {
            let times = indices.iter().map(|&index| counted[index].clone());
            let times = times.collect::<Result<Vec<Times>, Error>>()?;
            match times.iter().all(|other| *other == times[0]) {
                true => Ok(times[0]),
                false => Err(Error::TooFewRegisters),
            }
        };
        let line = |name, unit, kind| row(name, unit, kind, context.owner(), plan.source);
        let named = plan.events.iter().enumerate();
        let rates = named.filter(|(_, event)| !event.name.is_empty());
        let rates = rates.map(|(index, event)| {
            let (cell, scale) = (first + index, event.scale);
            line(event.name, event.unit, Kind::Rate)
                .counted(together(&[index]), |_| Formula::Rate { cell, scale })
        });
        let ratios = plan.ratios.iter().map(|(name, unit, quotient)| {
            let indices = match *quotient {
                Quotient::Ratio(over, under, _) => vec![over, under],
                Quotient::PerTime([one, other], under, _) => vec![one, other, under],
                Quotient::OfTime(over, _) => vec![over],
            };
            let formula = |times: Times| match *quotient {
                Quotient::Ratio(over, under, scale) => Formula::Ratio {
                    over: first + over,
                    under: first + under,
                    scale,
                },
                Quotient::PerTime(over, under, scale) => Formula::Product {
                    over: over.map(|over| first + over),
                    under: [first + under, times.enabled],
                    scale,
                },
                Quotient::OfTime(over, scale) => Formula::Ratio {
                    over: first + over,
                    under: times.enabled,
                    scale,
                },
            };
            line(name, unit, Kind::Ratio).counted(together(&indices), formula)
        });
        rates.chain(ratios).collect()
    }

    /// The groups, each to be read by itself.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let counted = self.sets.iter().flat_map(|set| &set.counted);
        counted.map(|counted| counted.group.as_fd()).collect()
    }

    /// How many sets there are; see [`Groups::truncate`].
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Closes what was added after there were `sets`.
    pub fn truncate(&mut self, sets: usize) {
        self.sets.truncate(sets);
    }

    /// The totals so far.
    pub fn read(&mut self) -> &[f64] {
        let mut values = [0; MAX_EVENTS];
        for set in &mut self.sets {
            for Counted { group, progress } in &mut set.counted {
                if let Ok(now) = group.read(&mut values) {
                    progress.advance(now, &values, (&set.events, set.times), &mut self.totals);
                }
            }
        }
        &self.totals
    }

    /// A part that offers `rows`; without groups it has no source.
    pub fn built(self, rows: Vec<Row>) -> Built {
        let mut built = Built {
            rows,
            ..Built::default()
        };
        if !self.sets.is_empty() {
            built.cells = self.totals.len();
            built.source = Some(Box::new(self));
        }
        built
    }
}

impl Source for Groups {
    fn sample(&mut self, cells: &mut [f64]) {
        cells.copy_from_slice(self.read());
    }
}

/// A part made of `plan` alone.
pub(super) fn open(context: &Context, plan: &Plan) -> Built {
    let mut groups = Groups::default();
    let rows = groups.open(context, plan);
    groups.built(rows)
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

#[cfg(test)]
mod tests {
    use super::super::part::evaluate;
    use super::super::part::running_share;
    use super::super::part::tests::context;
    use super::super::probe::Probed;
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
            progress.advance(
                now,
                &values,
                (
                    &[0, 1],
                    Times {
                        enabled: 2,
                        running: 3,
                    },
                ),
                &mut totals,
            );
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

    const fn event(config: u64, name: &'static str) -> Event<'static> {
        Event::new(EventConfig::software(config), name, "x")
    }

    const PLAN: Plan = Plan {
        source: "test",
        events: &[
            event(1, "event-1").must_count(),
            event(0, "event-0").must_count(),
            event(5, "event-5"),
            event(3, "event-3").in_kernel(),
        ],
        ratios: &[
            ("near", "x", Quotient::Ratio(0, 1, 1.0)),
            ("far", "x", Quotient::Ratio(0, 2, 1.0)),
            ("of-time", "x", Quotient::OfTime(0, 1.0)),
        ],
    };

    fn open_as(probed: Option<Probed>) -> Built {
        let mut context = context(std::path::Path::new("/"), None);
        // The test's own thread has its own number.
        let thread = nix::unistd::gettid().as_raw();
        context.watched = Ok(PerfTargets::Threads(vec![thread]));
        if let Some(probed) = probed {
            let configs: Vec<EventConfig> = PLAN.events.iter().map(|event| event.config).collect();
            context.probes.borrow_mut().known.insert(configs, probed);
        }
        open(&context, &PLAN)
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
            assert_eq!(
                row.times,
                Some(Times {
                    enabled: 4,
                    running: 5
                })
            );
            assert_eq!(running_share(row, &from, &to), Some(1.0));
        }
        let near = built.rows.iter().find(|row| row.counter.name == "near");
        let clocks = evaluate(near.unwrap(), &from, &to, 0.03).unwrap();
        assert!((clocks - 1.0).abs() < 0.2, "{clocks}");
    }
}
