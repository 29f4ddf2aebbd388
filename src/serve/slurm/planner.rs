//! One look at the queue, and what follows for every pending job.

use super::board::Board;
use super::board::Member;
use super::board::Place;
use super::board::Wish;
use super::change::Change;
use super::change::change;
use super::harm::AppIndex;
use super::harm::Predictions;
use super::note::Given;
use super::queue::Job;
use super::queue::Nodes;
use super::queue::Phase;
use super::tasks;
use super::world::Ticket;
use std::collections::BTreeMap;

/// Pending jobs that are looked at, in the order of their priority.
const MOST_PLANNED: usize = 1000;

/// Tasks of one array that are looked at one by one; the rest together.
const MOST_TASKS: usize = 16;

/// Plans by itself, so that the plugin need not wait for a large cluster.
pub struct Planner {
    predictions: Predictions,
    patience_s: u64,
}

/// A pending job, or tasks of one, to be planned.
struct Unit<'a> {
    job: &'a Job,
    name: String,
    wish: Wish,
}

impl Planner {
    pub fn new(predictions: Predictions, patience_s: u64) -> Planner {
        Planner {
            predictions,
            patience_s,
        }
    }

    /// The cluster as it will be, and the changes that lead there, in order.
    pub fn plan(
        &mut self,
        nodes: &Nodes,
        jobs: &[Job],
        tickets: &[Ticket],
        now: u64,
    ) -> (Board, Vec<Change>) {
        let mut pending: Vec<&Job> = jobs.iter().filter(|it| it.is_steered()).collect();
        pending.sort_by(|a, b| {
            let by_priority = b.priority.total_cmp(&a.priority);
            by_priority.then_with(|| a.order().cmp(&b.order()))
        });
        let newcomers: Vec<AppIndex> = pending.iter().filter_map(|it| self.app(it)).collect();
        let places = self.places(nodes, jobs);
        let mut board = Board::new(places, &newcomers, &self.predictions);
        for ticket in tickets {
            ticket.hold(&mut board, &self.predictions);
        }
        let mut changes = Vec::new();
        for unit in self.units(nodes, &mut board, &pending, now) {
            let verdict = board.place(&unit.wish, &mut self.predictions);
            changes.extend(change(unit.job, &unit.name, verdict, &board, now));
        }
        (board, changes)
    }

    fn app(&self, job: &Job) -> Option<AppIndex> {
        self.predictions.find(job.profile.as_deref()?)
    }

    /// The nodes that take jobs, and who runs there.
    fn places(&self, nodes: &Nodes, jobs: &[Job]) -> Vec<Place> {
        let mut places = BTreeMap::new();
        for (name, node) in nodes.nodes.iter().filter(|(_, node)| node.up) {
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
            let idle = nodes.nodes[*name].idle_cpus;
            place.free_cpus = place.free_cpus.min(idle);
        }
        places.into_values().collect()
    }

    /// What is to be planned: jobs, and the first tasks of arrays one by one.
    fn units<'a>(
        &self,
        nodes: &Nodes,
        board: &mut Board,
        pending: &[&'a Job],
        now: u64,
    ) -> Vec<Unit<'a>> {
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
                allowed: board.allowed(nodes, &job.partition, &job.excluded),
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
