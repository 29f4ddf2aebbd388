//! The cluster as it was seen last, and what a job is answered that is submitted.

use super::board::Board;
use super::board::Member;
use super::board::Verdict;
use super::board::Wish;
use super::change::LEASE_S;
use super::change::TOO_LARGE;
use super::harm::Predictions;
use super::hosts;
use super::note::Given;
use super::note::Note;
use super::note::plain;
use super::question::Answer;
use super::question::Question;
use super::queue::Job;
use super::queue::Nodes;
use std::collections::HashSet;

/// Until a job that was answered must have come into Slurm's list, seconds.
const TICKET_S: u64 = 10;

/// A job that was answered and may not be in Slurm's list yet.
#[derive(Clone)]
pub struct Ticket {
    number: u64,
    text: String,
    at: u64,
    node: Option<String>,
    member: Member,
}

pub struct World {
    predictions: Predictions,
    /// Of this process, so that tickets differ after a restart.
    series: u64,
    /// Number of the ticket that was given last.
    last: u64,
    tickets: Vec<Ticket>,
    nodes: Nodes,
    board: Option<Board>,
}

impl Ticket {
    /// Takes the place that was given.
    pub fn hold(&self, board: &mut Board, predictions: &Predictions) {
        if let Some(at) = self.node.as_deref().and_then(|name| board.find(name)) {
            board.hold(at, self.member, predictions);
        }
    }
}

impl World {
    pub fn new(predictions: Predictions, series: u64) -> World {
        World {
            predictions,
            series,
            last: 0,
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
        self.last += 1;
        let mut note = Note {
            profile: question.profile.clone(),
            ticket: format!("{:x}-{}", self.series, self.last),
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
                allowed: board.allowed(&self.nodes, &question.partition, &excluded),
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
                    note.why = TOO_LARGE.into();
                    None
                }
            };
            self.tickets.push(Ticket {
                number: self.last,
                text: note.ticket.clone(),
                at: now,
                node,
                member: wish.member(),
            });
        }
        Answer::Steer {
            node: answer.0,
            wait: answer.1,
            comment: note.text(),
        }
    }

    /// Of the jobs that were answered, those that Slurm does not show among `jobs` and
    /// may still come, in the order of their answers.
    pub fn open_tickets(&mut self, jobs: &[Job], now: u64) -> Vec<Ticket> {
        let notes = jobs.iter().filter_map(|job| job.note.as_ref());
        let seen: HashSet<&str> = notes.map(|note| note.ticket.as_str()).collect();
        self.tickets
            .retain(|it| now.saturating_sub(it.at) < TICKET_S && !seen.contains(it.text.as_str()));
        self.tickets.clone()
    }

    /// Goes on with `board`, which holds the tickets up to `last`.
    pub fn accept(&mut self, nodes: Nodes, mut board: Board, last: u64) {
        for ticket in self.tickets.iter().filter(|it| it.number > last) {
            ticket.hold(&mut board, &self.predictions);
        }
        self.nodes = nodes;
        self.board = Some(board);
    }

    /// Number of the ticket that was given last.
    pub fn last_ticket(&self) -> u64 {
        self.last
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
