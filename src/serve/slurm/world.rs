//! The cluster as it was seen last, and what follows for each job.

use super::board::Board;
use super::board::Member;
use super::board::Place;
use super::board::Verdict;
use super::board::Wish;
use super::harm::AppIndex;
use super::harm::Predictions;
use super::hosts;
use super::note::Given;
use super::note::Note;
use super::note::plain;
use super::question::Answer;
use super::question::Question;
use super::queue::Job;
use super::queue::Nodes;
use super::queue::Phase;
use super::tasks;
use std::collections::BTreeMap;

/// How long a job is held back before we look at it again, seconds. When nobody
/// looks, it starts after this time like any other job.
const LEASE_S: u64 = 60;

/// A job held back for less than this is held back again, seconds.
const RENEW_BELOW_S: u64 = 30;

/// Until a job that was answered must have come into Slurm's list, seconds.
const TICKET_S: u64 = 10;

/// Pending jobs that are looked at, in the order of their priority.
const MOST_PLANNED: usize = 1000;

/// Tasks of one array that are looked at one by one; the rest together.
const MOST_TASKS: usize = 16;

/// A change to a pending job.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As `scontrol` names it.
    pub job: String,
    pub settings: Vec<String>,
    /// In words, for the log.
    pub said: String,
}

/// A job that was answered and may not be in Slurm's list yet.
struct Ticket {
    number: String,
    at: u64,
    node: Option<String>,
    wish: Wish,
}

pub struct World {
    predictions: Predictions,
    patience_s: u64,
    /// Of this process, so that tickets differ after a restart.
    series: u64,
    next: u64,
    tickets: Vec<Ticket>,
    nodes: Nodes,
    board: Option<Board>,
}

/// A pending job, or tasks of one, to be planned.
struct Unit<'a> {
    job: &'a Job,
    name: String,
    wish: Wish,
}

impl World {
    pub fn new(predictions: Predictions, patience_s: u64, series: u64) -> World {
        World {
            predictions,
            patience_s,
            series,
            next: 0,
            tickets: Vec::new(),
            nodes: Nodes::default(),
            board: None,
        }
    }

    /// What to do with a job that is submitted at `now`, seconds since 1970.
    pub fn submit(&mut self, question: &Question, now: u64) -> Answer {
        let Some(app) = self.predictions.find(&question.profile) else {
            let profile = plain(&question.profile);
            return Answer::Steer {
                node: None,
                wait: None,
                comment: format!("jostle: no profile is called {profile}"),
            };
        };
        let Some(board) = &mut self.board else {
            let why = "the cluster has not been seen yet".into();
            return Answer::None { why };
        };
        let Some(excluded) = hosts::expand(&question.exclude) else {
            let why = "the excluded nodes cannot be read".into();
            return Answer::None { why };
        };
        self.next += 1;
        let mut note = Note {
            profile: question.profile.clone(),
            ticket: format!("{:x}-{}", self.series, self.next),
            given: Given::Free,
            why: format!("not steered: {}", question.fixed),
            before: String::new(),
        };
        let mut answer = (None, None);
        if question.fixed.is_empty() {
            let wish = Wish {
                app,
                cpus: question.cpus.max(1),
                memory_mb: question.memory_mb,
                allowed: allowed(&self.nodes, board, &question.partition, &excluded),
                given: None,
                impatient: false,
            };
            let node = match board.place(&wish, &mut self.predictions) {
                Verdict::Node { at, why } => {
                    let node = board.name(at).to_string();
                    (note.given, note.why) = (Given::Node(node.clone()), why);
                    answer.0 = Some(node.clone());
                    Some(node)
                }
                Verdict::Wait { why } => {
                    (note.given, note.why) = (Given::Waiting(now), why);
                    answer.1 = Some(LEASE_S);
                    None
                }
                Verdict::Nowhere => {
                    note.why = "not steered: no node that takes jobs is large enough".into();
                    None
                }
            };
            self.tickets.push(Ticket {
                number: note.ticket.clone(),
                at: now,
                node,
                wish,
            });
        }
        Answer::Steer {
            node: answer.0,
            wait: answer.1,
            comment: note.text(),
        }
    }

    /// Takes what Slurm says now, and returns what is to be changed, in order.
    pub fn refresh(&mut self, nodes: Nodes, jobs: &[Job], now: u64) -> Vec<Change> {
        self.nodes = nodes;
        let mut pending: Vec<&Job> = jobs.iter().filter(|it| it.is_steered()).collect();
        pending.sort_by(|a, b| {
            let by_priority = b.priority.total_cmp(&a.priority);
            by_priority.then_with(|| a.order().cmp(&b.order()))
        });
        let newcomers: Vec<AppIndex> = pending.iter().filter_map(|it| self.app(it)).collect();
        let places = self.places(jobs);
        let mut board = Board::new(places, &newcomers, &self.predictions);
        self.hold_tickets(&mut board, jobs, now);
        let mut changes = Vec::new();
        for unit in self.units(&board, &pending, now) {
            let verdict = board.place(&unit.wish, &mut self.predictions);
            changes.extend(change(&unit, verdict, &board, now));
        }
        self.board = Some(board);
        changes
    }

    fn app(&self, job: &Job) -> Option<AppIndex> {
        self.predictions.find(job.profile.as_deref()?)
    }

    /// Jobs that were answered and are not among `jobs` keep what they were given.
    fn hold_tickets(&mut self, board: &mut Board, jobs: &[Job], now: u64) {
        let seen = |number: &str| {
            let mut notes = jobs.iter().filter_map(|job| job.note.as_ref());
            notes.any(|note| note.ticket == number)
        };
        self.tickets
            .retain(|it| now.saturating_sub(it.at) < TICKET_S && !seen(&it.number));
        for ticket in &self.tickets {
            if let Some(at) = ticket.node.as_deref().and_then(|name| board.find(name)) {
                board.hold(at, &ticket.wish, &self.predictions);
            }
        }
    }

    /// The nodes that take jobs, and who runs there.
    fn places(&self, jobs: &[Job]) -> Vec<Place> {
        let mut places = BTreeMap::new();
        for (name, node) in self.nodes.nodes.iter().filter(|(_, node)| node.up) {
            let place = Place {
                name: name.clone(),
                cpus: node.cpus,
                free_cpus: node.cpus,
                memory_mb: node.memory_mb,
                running: Vec::new(),
            };
            places.insert(name.as_str(), place);
        }
        let there = |job: &&Job| matches!(job.phase, Phase::Running | Phase::Resting);
        for job in jobs.iter().filter(there) {
            // Of a job on several nodes the CPUs are taken to be spread evenly.
            let cpus = job.cpus.div_ceil(job.nodes.len().max(1) as u32);
            for name in &job.nodes {
                let Some(place) = places.get_mut(name.as_str()) else {
                    continue;
                };
                place.free_cpus = place.free_cpus.saturating_sub(cpus);
                if let Some(app) = self.app(job).filter(|_| job.phase == Phase::Running) {
                    place.running.push(Member { app, cpus });
                }
            }
        }
        // The two lists are of different moments.
        for (name, place) in &mut places {
            let idle = self.nodes.nodes[*name].idle_cpus;
            place.free_cpus = place.free_cpus.min(idle);
        }
        places.into_values().collect()
    }

    /// What is to be planned: jobs, and the first tasks of arrays one by one.
    fn units<'a>(&self, board: &Board, pending: &[&'a Job], now: u64) -> Vec<Unit<'a>> {
        let mut units = Vec::new();
        for job in pending {
            let Some(app) = self.app(job) else {
                continue;
            };
            let given = match job.note.as_ref().map(|note| &note.given) {
                Some(Given::Node(name)) => board.find(name),
                _ => None,
            };
            let wish = Wish {
                app,
                cpus: job.cpus,
                memory_mb: job.memory_mb,
                allowed: allowed(&self.nodes, board, &job.partition, &job.excluded),
                given,
                impatient: now.saturating_sub(job.waits_since(now)) >= self.patience_s,
            };
            units.extend(job.names().into_iter().map(|name| Unit {
                job,
                name,
                wish: wish.clone(),
            }));
            if units.len() >= MOST_PLANNED {
                break;
            }
        }
        units
    }

    /// What undoes everything that was given to pending jobs.
    pub fn release(jobs: &[Job]) -> Vec<Change> {
        let ours = jobs.iter().filter(|it| it.phase == Phase::Pending);
        let release = |job: &Job| {
            let mut note = job.note.clone()?;
            let mut settings = match (&note.given, job.fixed) {
                (Given::Node(_), None) => vec!["ReqNodeList=".into()],
                (Given::Waiting(_), _) => vec!["StartTime=now".into()],
                _ => return None,
            };
            note.given = Given::Free;
            note.why = "released, jostle slurm has ended".into();
            settings.push(format!("AdminComment={}", note.text()));
            let all = |(base, list): &(u64, Vec<u32>)| format!("{base}_[{}]", tasks::list(list));
            Some(Change {
                job: job.array.as_ref().map_or(job.id.to_string(), all),
                settings,
                said: "released".into(),
            })
        };
        ours.filter_map(release).collect()
    }
}

impl Job {
    /// Pending, and for us to place.
    fn is_steered(&self) -> bool {
        self.phase == Phase::Pending && self.can_start && self.fixed.is_none()
    }

    /// Jobs in the order of submission. Tasks that Slurm keeps apart have numbers of
    /// their own, and still come before the rest of their array.
    fn order(&self) -> (u64, u32) {
        match &self.array {
            Some((base, tasks)) => (*base, tasks.first().copied().unwrap_or(0)),
            None => (self.id, 0),
        }
    }

    fn waits_since(&self, now: u64) -> u64 {
        match self.note.as_ref().map(|note| &note.given) {
            Some(Given::Waiting(since)) => *since,
            _ => now,
        }
    }

    /// What `scontrol` calls it: the first tasks of an array each by itself.
    fn names(&self) -> Vec<String> {
        let Some((base, all)) = &self.array else {
            return vec![self.id.to_string()];
        };
        let (first, rest) = all.split_at(all.len().min(MOST_TASKS));
        let mut names: Vec<String> = first.iter().map(|task| format!("{base}_{task}")).collect();
        if !rest.is_empty() {
            names.push(format!("{base}_[{}]", tasks::list(rest)));
        }
        names
    }
}

/// The places of a partition without those excluded.
fn allowed(nodes: &Nodes, board: &Board, partition: &str, excluded: &[String]) -> Vec<usize> {
    let names = nodes.of_partitions(partition);
    let names = names
        .into_iter()
        .filter(|name| !excluded.iter().any(|it| it == name));
    names.filter_map(|name| board.find(name)).collect()
}

/// What is to be changed so that a job is where `verdict` says.
fn change(unit: &Unit, verdict: Verdict, board: &Board, now: u64) -> Option<Change> {
    let job = unit.job;
    let was = job.note.as_ref().map(|note| &note.given);
    let waited = matches!(was, Some(Given::Waiting(_)));
    let mut settings = Vec::new();
    let (given, why) = match verdict {
        Verdict::Node { at, why } => {
            let node = board.name(at).to_string();
            if was == Some(&Given::Node(node.clone())) {
                return None;
            }
            settings.push(format!("ReqNodeList={node}"));
            if waited {
                settings.push("StartTime=now".into());
            }
            (Given::Node(node), why)
        }
        Verdict::Wait { why } => {
            if waited && job.eligible > now + RENEW_BELOW_S {
                return None;
            }
            if matches!(was, Some(Given::Node(_))) {
                settings.push("ReqNodeList=".into());
            }
            settings.push(format!("StartTime=now+{LEASE_S}"));
            (Given::Waiting(job.waits_since(now)), why)
        }
        Verdict::Nowhere if waited => {
            settings.push("StartTime=now".into());
            let why = "not steered: no node that takes jobs is large enough";
            (Given::Free, why.into())
        }
        Verdict::Nowhere => return None,
    };
    let said = match &given {
        Given::Node(node) => format!("{node}: {why}"),
        Given::Waiting(_) => format!("waits: {why}"),
        Given::Free => why.clone(),
    };
    let new = Note {
        profile: job.profile.clone()?,
        ticket: "0".into(),
        given: given.clone(),
        why: why.clone(),
        before: String::new(),
    };
    let note = match &job.note {
        Some(note) => Note {
            given,
            why,
            ..note.clone()
        },
        None => new,
    };
    settings.push(format!("AdminComment={}", note.text()));
    Some(Change {
        job: unit.name.clone(),
        settings,
        said,
    })
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
