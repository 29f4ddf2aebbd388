//! What the handlers share.

use super::decisions::Decision;
use super::decisions::Decisions;
use super::watch::SharedWorld;
use crate::http::requests::Requests;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// The state of an extender that answers.
pub struct Shared {
    pub world: SharedWorld,
    pub decisions: Mutex<Decisions>,
    pub requests: Requests,
    pub counters: Counters,
    /// Nodes and pods were listed once.
    pub nodes_listed: AtomicBool,
    pub pods_listed: AtomicBool,
    pub strict: bool,
    /// Largest body of a request of the scheduler, bytes.
    pub most_body_bytes: usize,
}

type ByVerb = [(&'static str, &'static str); 1];

/// What is counted since the start.
#[derive(Default)]
pub struct Counters {
    pub decisions: Family<ByVerb, Counter>,
    pub refused: Counter,
    pub without_profile: Counter,
    pub states: Counter,
}

impl Counters {
    pub fn decided(&self, decision: &Decision) {
        let verb = [("verb", decision.verb.name())];
        self.decisions.get_or_create(&verb).inc();
        self.refused.inc_by(decision.refused as u64);
        if decision.profile.is_none() {
            self.without_profile.inc();
        }
    }
}
