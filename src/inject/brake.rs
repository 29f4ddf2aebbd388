//! Parks every source at once, from any thread: by one store for each of them and
//! one for each of their processes, which then plays no planned block any more.

use super::group::WorkerGroup;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::shared::SharedPage;
use crate::sys::tape::Tape;
use std::io;
use std::rc::Rc;

/// Mappings of its own of everything that steers some groups.
pub struct Brake {
    pages: Vec<SharedPage<ControlPage>>,
    tapes: Vec<SharedPage<Tape>>,
}

impl Brake {
    /// Of all workers of `groups`.
    ///
    /// # Errors
    /// When there are too many descriptors or mappings.
    pub fn of(groups: &[WorkerGroup]) -> io::Result<Brake> {
        let mut hosts: Vec<&Rc<super::process::Host>> = Vec::new();
        let mut pages = Vec::new();
        for group in groups {
            for page in group.pages() {
                pages.push(page.again()?);
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
            tapes: tapes.collect::<io::Result<_>>()?,
        })
    }

    /// Parks all sources. Whoever steers them otherwise may start them again; so
    /// it is for the caller to repeat this until nobody does.
    pub fn park(&self) {
        for tape in &self.tapes {
            tape.cancel();
        }
        let command = Command::new(Order::Park, 0);
        for page in &self.pages {
            if page.command.get().order() != Order::Park {
                page.command.set(command);
            }
        }
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
