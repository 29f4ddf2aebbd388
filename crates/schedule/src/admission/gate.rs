//! An admission with what it is told of nodes: in front of every start.

use super::control::Admission;
use super::control::NodeReadings;
use super::control::Verdict;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::policy::Choice;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// A reading older than this says nothing of now, seconds.
pub const READING_LASTS_SECONDS: f64 = 60.0;

/// So many readings of a node may veto one job there; then it takes what it gets. The
/// paper only suggests a cap.
pub const VETOES: u32 = 3;

/// The readings of one node.
struct Read {
    at: f64,
    /// Counts the readings of all nodes.
    number: u64,
    values: NodeReadings,
}

/// What has vetoed a job on a node.
#[derive(Default)]
struct Vetoes {
    /// The last reading that did.
    number: u64,
    readings: u32,
}

/// In front of every start; without an admission every start is admitted.
#[derive(Default)]
pub struct Gate {
    admission: Option<Box<dyn Admission>>,
    read: BTreeMap<String, Read>,
    numbers: u64,
    vetoes: HashMap<(u64, NodeId), Vetoes>,
}

impl Gate {
    pub fn new(admission: Box<dyn Admission>) -> Self {
        Gate {
            admission: Some(admission),
            ..Gate::default()
        }
    }

    /// The admission where it says who is next; the order is that of arrival where
    /// there is none.
    pub(crate) fn queue(&mut self) -> Option<&mut dyn Admission> {
        match &mut self.admission {
            Some(admission) if admission.chooses_next() => Some(admission.as_mut()),
            _ => None,
        }
    }

    pub(crate) fn why(&self, job: u64, now: f64) -> Option<String> {
        self.admission.as_ref()?.why(job, now)
    }

    /// What the node called `node` read at `now`.
    pub fn tell(&mut self, node: &str, values: NodeReadings, now: f64) {
        self.numbers += 1;
        let read = Read {
            at: now,
            number: self.numbers,
            values,
        };
        self.read.insert(node.into(), read);
    }

    /// Nothing is known of that node any more.
    pub(crate) fn forget_node(&mut self, node: &str) {
        self.read.remove(node);
    }

    pub(crate) fn forget_job(&mut self, job: u64) {
        self.vetoes.retain(|(other, _), _| *other != job);
    }

    /// What is said of starting `app` as `choice`: of the first of its nodes that is
    /// vetoed, or of all, by name. `None` of an admission that does not look at nodes.
    pub(crate) fn judge(
        &mut self,
        job: u64,
        app: &str,
        choice: &Choice,
        cluster: &Cluster,
        now: f64,
    ) -> Option<(NodeId, Verdict)> {
        let mut said: Option<(NodeId, Verdict)> = None;
        for part in &choice.parts {
            let mut verdict = self.of_node(job, app, part.node, cluster, now)?;
            if !verdict.admitted {
                return Some((part.node, verdict));
            }
            verdict.words = format!("{}: {}", cluster.name(part.node), verdict.words);
            match &mut said {
                Some((_, all)) => all.words = format!("{}; {}", all.words, verdict.words),
                None => said = Some((part.node, verdict)),
            }
        }
        said
    }

    fn of_node(
        &mut self,
        job: u64,
        app: &str,
        node: NodeId,
        cluster: &Cluster,
        now: f64,
    ) -> Option<Verdict> {
        let admission = self.admission.as_ref()?;
        let it = cluster.node(node);
        let read = self.read.get(&it.name);
        let age = read.map_or(0.0, |read| now - read.at);
        if age > READING_LASTS_SECONDS {
            return admission.verdict(app, it, None).map(|_| Verdict {
                admitted: true,
                words: format!("unknown, admitted: its reading is {age:.0} s old"),
            });
        }
        let mut verdict = admission.verdict(app, it, read.map(|read| &read.values))?;
        let number = read.map_or(0, |read| read.number);
        if !verdict.admitted {
            let vetoes = self.vetoes.entry((job, node)).or_default();
            if vetoes.number != number {
                vetoes.number = number;
                vetoes.readings += 1;
            }
            if vetoes.readings > VETOES {
                verdict.admitted = true;
                verdict.words += &format!("; admitted after {VETOES} readings that vetoed it");
            }
        }
        Some(verdict)
    }
}
