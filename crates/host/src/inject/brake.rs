//! Parks every source at once, from any thread: by one store for each of them and
//! one for each of their processes, which then plays no planned block any more.

use super::group::WorkerGroup;
use crate::os::here;
use crate::os::proc;
use crate::sys::clock::monotonic_ns;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::sched::run_first;
use crate::sys::sched::run_in_turn;
use crate::sys::shared::SharedPage;
use crate::sys::tape::Tape;
use jostle_profile::PlacementMode;
use std::io;
use std::rc::Rc;

/// Longest time for which workers run before everything else.
const HURRY_NS: u64 = 2_000_000;

/// Mappings of its own of everything that steers some groups.
pub struct Brake {
    pages: Vec<SharedPage<ControlPage>>,
    tapes: Vec<SharedPage<Tape>>,
    /// Places in `pages` of workers on a CPU of the target.
    beside: Vec<usize>,
    /// CPUs that these have.
    shared_cpus: u64,
    /// Processes of the workers.
    workers: Vec<i32>,
    hurry: Hurry,
}

/// A worker that lost its CPU in the middle of its work has to come back to it before it
/// is at rest, and would wait for the target's turn to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hurry {
    NotYet,
    Until(u64),
    Over,
}

impl Brake {
    /// Of all workers of `groups`.
    ///
    /// # Errors
    /// When there are too many descriptors or mappings.
    pub fn of(groups: &[WorkerGroup]) -> io::Result<Brake> {
        let mut hosts: Vec<&Rc<super::process::Host>> = Vec::new();
        let (mut pages, mut beside, mut shared_cpus) = (Vec::new(), Vec::new(), 1);
        for group in groups {
            let first = pages.len();
            for page in group.pages() {
                pages.push(page.again()?);
            }
            let placement = &group.plan.placement;
            if placement.mode == PlacementMode::SameCpu {
                beside.extend(first..pages.len());
                shared_cpus = shared_cpus.max(placement.cpus.len() as u64);
            }
            for (host, _) in group.hosts() {
                if !hosts.iter().any(|known| Rc::ptr_eq(known, host)) {
                    hosts.push(host);
                }
            }
        }
        let tapes = hosts.iter().map(|host| host.tape.again());
        Ok(Brake {
            pages,
            beside,
            shared_cpus,
            tapes: tapes.collect::<io::Result<_>>()?,
            workers: hosts.iter().map(|host| host.pid() as i32).collect(),
            hurry: Hurry::NotYet,
        })
    }

    /// Parks all sources. Whoever steers them otherwise may start them again; so
    /// it is for the caller to repeat this until nobody does.
    pub fn park(&mut self) {
        for tape in &self.tapes {
            tape.cancel();
        }
        let command = Command::new(Order::Park, 0);
        for page in &self.pages {
            if page.command.get().order() != Order::Park {
                page.command.set(command);
            }
        }
        self.hurry_up();
    }

    /// Lets the workers run first while one is not at rest, once and not for long. Where that
    /// is refused, they come in their turn.
    fn hurry_up(&mut self) {
        let parked = self.parked();
        match self.hurry {
            Hurry::NotYet if parked => {}
            Hurry::NotYet => {
                for worker in self.own_workers() {
                    let _ = run_first(worker);
                }
                self.hurry = Hurry::Until(monotonic_ns() + HURRY_NS);
            }
            Hurry::Until(end_ns) if parked || monotonic_ns() > end_ns => self.end_hurry(),
            Hurry::Until(_) | Hurry::Over => {}
        }
    }

    /// The slices that workers asked for do not come back: the measurement has ended.
    fn end_hurry(&mut self) {
        for worker in self.own_workers() {
            let _ = run_in_turn(worker);
        }
        self.hurry = Hurry::Over;
    }

    /// Those that still are our children: the number of one that ended may be another's.
    fn own_workers(&self) -> impl Iterator<Item = i32> {
        let ours = std::process::id() as i32;
        let is_ours =
            move |worker: &i32| proc::stat(here(), *worker).is_some_and(|stat| stat.parent == ours);
        self.workers.iter().copied().filter(is_ours)
    }

    /// CPU time that sources have used on the CPUs of the target, nanoseconds, as a mean
    /// over these. One that runs is some microseconds behind.
    pub fn taken_ns(&self) -> u64 {
        let used = self.beside.iter().map(|at| self.pages[*at].active_ns.get());
        used.sum::<u64>() / self.shared_cpus
    }

    /// Whether every source is at rest.
    pub fn parked(&self) -> bool {
        let rests = |order| matches!(order, Order::Park | Order::Idle);
        let at_rest = |page: &SharedPage<ControlPage>| {
            page.failure().is_some()
                || page.command.get().order() == Order::Park && rests(page.applied.get().order())
        };
        self.pages.iter().all(at_rest)
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        if matches!(self.hurry, Hurry::Until(_)) {
            self.end_hurry();
        }
    }
}
