//! What target and machine do meanwhile, by the counters of CPU and kernel.
//!
//! Opened once, sampled at the ends of every window. What cannot be read here
//! is listed with its reason, and stays in the list.
//!
//! | part | what it reads | what follows |
//! |---|---|---|
//! | `perf` | groups of events on the target's threads or its cgroup | rates; IPC, miss ratios and misses per 1000 instructions, each within one group |
//! | `machine_wide` | RAPL, memory controllers | watts, bytes per second of memory |
//! | `tasks` | schedstat, status, io of threads and processes | waiting for a CPU, switches, bytes |
//! | `psi`, `stats` | the files of the target's cgroup, `/proc/pressure` | stalls, CPU, memory, throttling, I/O |
//! | `resctrl` | the target's monitoring group | cache held, memory traffic caused |
//! | `cpus`, `network` | `/proc/stat`, cpufreq, thermal throttling, `/proc/net/dev` | what happens around the target |
//!
//! Every part takes the root below which `/proc` and `/sys` lie, offers the same
//! rows whatever it finds, and fills cells with raw totals; `part` turns two
//! samples of them into readings.

mod budget;
mod core_counts;
mod counter;
mod cpus;
mod error;
mod events;
mod groups;
mod machine_wide;
mod network;
mod part;
mod perf;
mod pmu;
mod probe;
mod psi;
mod read;
mod resctrl;
mod stats;
mod target_cgroup;
mod tasks;
pub mod tracefs;
mod watched;

pub use core_counts::CoreCounts;
pub use core_counts::CoreReading;
pub use counter::Counter;
pub use counter::CounterOptions;
pub use counter::Kind;
pub use counter::Owner;
pub use events::EventError;
pub use events::split_list;
pub use perf::EVENT as ASKED;
pub use target_cgroup::TargetCgroup;

use crate::workload::Scope;
use budget::Budget;
use error::Error;
use groups::open;
use jostle_host::os::cpulist;
use jostle_host::sys::clock::monotonic_ns;
use part::Built;
use part::Context;
use part::Open;
use perf::FIRST_LEVEL;
use perf::LAST_LEVEL;
use perf::STALLS;
use std::cell::RefCell;
use watched::PerfTargets;

/// Whether `event` is written as an event is, and there on this machine.
///
/// # Errors
/// What is wrong with it, or that it is absent.
pub fn check_event(options: &CounterOptions, event: &str) -> Result<(), EventError> {
    events::parse(&options.root, event).map(|_| ())
}

/// What a part is about.
#[derive(Clone, Copy, PartialEq)]
enum About {
    /// The target; the machine's CPUs where there is none.
    Target,
    /// The target, and nothing without one.
    OnlyTarget,
    Machine,
}

/// All parts, the dearest to have first: where descriptors run short, the last
/// ones go without.
const PARTS: [(About, Open); 18] = [
    (About::Target, perf::core),
    (About::Target, perf::software_events),
    (About::Target, perf::asked),
    (About::Target, |context| open(context, &LAST_LEVEL)),
    (About::Target, |context| open(context, &FIRST_LEVEL)),
    (About::Target, |context| open(context, &STALLS)),
    (About::Target, perf::registers),
    (About::OnlyTarget, tasks::files_of_tasks),
    (About::OnlyTarget, psi::target),
    (About::OnlyTarget, stats::cgroup),
    (About::OnlyTarget, resctrl::group),
    (About::Machine, cpus::time),
    (About::Machine, cpus::frequency),
    (About::Machine, cpus::heat),
    (About::Machine, psi::machine),
    (About::Machine, network::devices),
    (About::Machine, machine_wide::energy),
    (About::Machine, machine_wide::memory_traffic),
];

/// Everything as it stood at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Of which run; see [`Counters::follow`].
    run: u64,
    /// Of each part: when it was read, by CLOCK_MONOTONIC, and its cells.
    parts: Vec<(u64, Vec<f64>)>,
}

/// An opened part.
struct Part {
    about: About,
    open: Open,
    built: Built,
}

/// Open counters of one target.
pub struct Counters {
    context: Context,
    list: Vec<Counter>,
    parts: Vec<Part>,
    run: u64,
    notes: Vec<String>,
}

impl Counters {
    /// Opens what there is; `cpus` are the target's. Never fails: what cannot be
    /// had is in the list with its reason.
    pub fn open(scope: &Scope, cpus: &[usize], options: &CounterOptions) -> Counters {
        Counters::open_all(Some(scope), cpus, options)
    }

    /// Of the machine as a whole, on every CPU that is online.
    pub fn of_machine(options: &CounterOptions) -> Counters {
        let cpus = cpulist::online(&options.root).unwrap_or_default();
        Counters::open_all(None, &cpus, options)
    }

    fn open_all(scope: Option<&Scope>, cpus: &[usize], options: &CounterOptions) -> Counters {
        let context = Context {
            options: options.clone(),
            cpus: cpus.to_vec(),
            scope: None,
            probes: RefCell::default(),
            budget: RefCell::new(Budget::of_process()),
            watched: Err(Error::NoTarget),
            cgroup: TargetCgroup::find(&options.root, None),
        };
        let mut counters = Counters {
            context,
            list: Vec::new(),
            parts: Vec::new(),
            run: 0,
            notes: Vec::new(),
        };
        counters.aim(scope);
        for (about, open) in PARTS {
            if about != About::OnlyTarget || scope.is_some() {
                let built = open(&counters.context);
                counters.parts.push(Part { about, open, built });
            }
        }
        counters.make_list();
        counters
    }

    /// Makes `scope` the one that parts are opened on.
    fn aim(&mut self, scope: Option<&Scope>) {
        let root = self.context.options.root.clone();
        self.notes.clear();
        self.context.scope = scope.cloned();
        self.context.watched = PerfTargets::find(&root, scope, &self.context.cpus, &mut self.notes);
        self.context.cgroup = TargetCgroup::find(&root, scope);
    }

    fn make_list(&mut self) {
        let rows = self.parts.iter().flat_map(|part| &part.built.rows);
        self.list = rows.map(|row| row.counter.clone()).collect();
        // One name, one counter: what was asked for by a name that is there
        // anyway is told apart.
        for index in 1..self.list.len() {
            let (before, rest) = self.list.split_at_mut(index);
            let same = |name: &str| before.iter().any(|other| other.name == name);
            while same(&rest[0].name) {
                rest[0].name += " (asked for)";
            }
        }
    }

    /// All of them, in the order of [`Counters::readings`].
    pub fn list(&self) -> &[Counter] {
        &self.list
    }

    /// What is to be known about the readings: whom they cover only in part, and
    /// whom they are really of.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        for part in &self.parts {
            notes.extend(part.built.notes.iter().cloned());
            notes.extend(part.built.source.iter().flat_map(|source| source.notes()));
        }
        notes
    }

    /// Counts another run of the target from now on; samples taken before are
    /// of no use after it. What could be had of one run and cannot of this one
    /// says so in the list, which keeps its order.
    pub fn follow(&mut self, scope: &Scope) {
        // The old descriptors stay until the new ones are there: closing the
        // last of a kind and opening it again makes the kernel rewrite its own
        // code, which takes tens of milliseconds. Unless there is no room.
        let is_target = |part: &&mut Part| part.about != About::Machine;
        if Budget::of_process().is_tight() {
            for part in self.parts.iter_mut().filter(is_target) {
                part.built = Built::default();
            }
        }
        self.context.budget.replace(Budget::of_process());
        self.aim(Some(scope));
        for part in self.parts.iter_mut().filter(is_target) {
            part.built = (part.open)(&self.context);
        }
        self.run += 1;
        self.make_list();
    }

    /// Reads everything.
    pub fn sample(&mut self) -> Sample {
        let parts = self.parts.iter_mut().map(|part| {
            let mut cells = vec![f64::NAN; part.built.cells];
            let at_ns = part.built.source.as_mut().map_or(0, |source| {
                let at_ns = monotonic_ns();
                source.sample(&mut cells);
                at_ns
            });
            (at_ns, cells)
        });
        Sample {
            run: self.run,
            parts: parts.collect(),
        }
    }

    /// What happened between two samples, one per counter of the list. `None`:
    /// no reading for these two (unavailable, or it did not run meanwhile).
    pub fn readings(&self, from: &Sample, to: &Sample) -> Vec<Option<f64>> {
        self.each_row(from, to, part::evaluate)
    }

    /// Of the counters that take turns on the CPU's registers, the smallest
    /// share of the time that each was counting, 0–1; its readings are scaled
    /// up by the inverse. `None` for those that always count.
    pub fn running_shares(&self, from: &Sample, to: &Sample) -> Vec<Option<f64>> {
        self.each_row(from, to, |row, from, to, _| {
            part::running_share(row, from, to)
        })
    }

    fn each_row(
        &self,
        from: &Sample,
        to: &Sample,
        answer: impl Fn(&part::Row, &[f64], &[f64], f64) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let known = self.parts.len();
        let fits = |sample: &Sample| sample.run == self.run && sample.parts.len() == known;
        if !fits(from) || !fits(to) {
            return vec![None; self.list.len()];
        }
        let parts = self.parts.iter().zip(from.parts.iter().zip(&to.parts));
        let answers = parts.flat_map(|(part, ((from_ns, from), (to_ns, to)))| {
            let seconds = to_ns.saturating_sub(*from_ns) as f64 / 1e9;
            let rows = part.built.rows.iter();
            let answers = rows.map(|row| answer(row, from, to, seconds));
            answers.collect::<Vec<_>>()
        });
        answers.collect()
    }
}
