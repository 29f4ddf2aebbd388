//! Where a job may start without harm: nodes with what runs there and what was given
//! to them, and the choice among them.

use super::harm::AppIndex;
use super::harm::Harm;
use super::harm::Predictions;
use super::queue::Nodes;
use jostle_schedule::Cluster;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::Ranking;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Somebody on a node, now or later.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub app: AppIndex,
    pub cpus: u32,
}

/// A node that takes jobs.
#[derive(Clone, Debug)]
pub struct Place {
    pub name: String,
    pub cpus: u32,
    pub free_cpus: u32,
    pub memory_mb: u64,
    /// Who runs there, of those with a profile.
    pub running: Vec<Member>,
}

/// What wants a place.
#[derive(Clone, Debug)]
pub struct Wish {
    pub app: AppIndex,
    pub cpus: u32,
    pub memory_mb: u64,
    /// The nodes that it may have.
    pub allowed: Arc<[usize]>,
    /// The node that it has been given before.
    pub given: Option<usize>,
    /// It has waited long enough: the least harmful place will do.
    pub impatient: bool,
}

impl Wish {
    pub fn member(&self) -> Member {
        Member {
            app: self.app,
            cpus: self.cpus,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Node {
        at: usize,
        why: String,
    },
    Wait {
        why: String,
    },
    /// No node that it may have takes jobs and is large enough: left to Slurm.
    Nowhere,
}

/// One node in the eyes of one wish.
#[derive(Clone, Debug)]
struct Candidate {
    at: usize,
    harm: Harm,
    /// Can start there at once.
    now: bool,
    /// Share of the node's CPUs that others have or wait for.
    load: f64,
    /// What the policy of `jostle schedule` maximizes.
    worth: f32,
}

/// All nodes that take jobs.
#[derive(Default)]
pub struct Board {
    places: Vec<Place>,
    by_name: BTreeMap<String, usize>,
    /// Who will run beside those that run now, per place.
    coming: Vec<Vec<Member>>,
    /// Somebody waits there for CPUs, and those that come later stay behind.
    reserved: Vec<bool>,
    /// The places of partitions, as far as they were asked for.
    of_partition: BTreeMap<String, Arc<[usize]>>,
    cluster: Cluster,
    ids: Vec<NodeId>,
    ranking: Ranking,
}

impl Board {
    /// `newcomers`: who wants a place, for the policy to keep places open for.
    pub fn new(places: Vec<Place>, newcomers: &[AppIndex], predictions: &Predictions) -> Board {
        let mut board = Board::default();
        for place in &places {
            let node = Node {
                name: place.name.clone(),
                cpus: place.cpus.max(1),
                memory_bytes: place.memory_mb << 20,
                platform: None,
                shares_cpus: false,
            };
            // Two of one name cannot be: they come from a map.
            let Ok(id) = board.cluster.add_node(node) else {
                continue;
            };
            for member in &place.running {
                board
                    .cluster
                    .record(id, predictions.app(member.app).clone(), demand(*member));
            }
            board.ids.push(id);
        }
        let sample = Ranking::sample(newcomers.len());
        let apps = sample.filter_map(|at| newcomers.get(at));
        let apps = apps.map(|app| predictions.app(*app).clone());
        board.ranking.set_newcomers(apps.collect());
        let names = places.iter().enumerate();
        board.by_name = names.map(|(at, place)| (place.name.clone(), at)).collect();
        board.coming = vec![Vec::new(); places.len()];
        board.reserved = vec![false; places.len()];
        board.places = places;
        board
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub fn name(&self, at: usize) -> &str {
        &self.places[at].name
    }

    /// Chooses a place for `wish` and takes it.
    pub fn place(&mut self, wish: &Wish, predictions: &mut Predictions) -> Verdict {
        let mut candidates = self.candidates(wish, predictions);
        let better = |a: &Candidate, b: &Candidate| self.compare(wish, a, b);
        candidates.sort_by(better);
        let Some(best) = candidates.first() else {
            return Verdict::Nowhere;
        };
        let verdict = match best.harm.hurts && !wish.impatient {
            true => Verdict::Wait {
                why: format!("would hurt on every node; {}", self.told(best)),
            },
            false => Verdict::Node {
                at: best.at,
                why: self.why(best, &candidates),
            },
        };
        if let Verdict::Node { at, .. } = verdict {
            let now = best.now;
            self.take(at, wish.member(), now, predictions);
        }
        verdict
    }

    /// The places of a partition without those excluded.
    pub fn allowed(&mut self, nodes: &Nodes, partition: &str, excluded: &[String]) -> Arc<[usize]> {
        if let Some(known) = self
            .of_partition
            .get(partition)
            .filter(|_| excluded.is_empty())
        {
            return known.clone();
        }
        let names = nodes.of_partitions(partition);
        let names = names
            .into_iter()
            .filter(|name| !excluded.iter().any(|it| it == name));
        let places: Arc<[usize]> = names.filter_map(|name| self.find(name)).collect();
        if excluded.is_empty() {
            self.of_partition.insert(partition.into(), places.clone());
        }
        places
    }

    /// Holds the place that was given to somebody who is not known to Slurm yet.
    pub fn hold(&mut self, at: usize, member: Member, predictions: &Predictions) {
        self.take(at, member, self.has_place(at, member.cpus), predictions);
    }

    fn take(&mut self, at: usize, member: Member, now: bool, predictions: &Predictions) {
        self.coming[at].push(member);
        match now {
            true => {
                let place = &mut self.places[at];
                place.free_cpus = place.free_cpus.saturating_sub(member.cpus);
                let app = predictions.app(member.app).clone();
                self.cluster.record(self.ids[at], app, demand(member));
            }
            false => self.reserved[at] = true,
        }
    }

    fn has_place(&self, at: usize, cpus: u32) -> bool {
        !self.reserved[at] && self.places[at].free_cpus >= cpus
    }

    /// Those where it can start now; where all of them hurt, the others as well.
    fn candidates(&mut self, wish: &Wish, predictions: &mut Predictions) -> Vec<Candidate> {
        let large = |at: &usize| {
            let place = &self.places[*at];
            place.cpus >= wish.cpus && place.memory_mb >= wish.memory_mb
        };
        let allowed = wish.allowed.iter().copied().filter(large);
        let (now, later): (Vec<usize>, Vec<usize>) =
            allowed.partition(|at| self.has_place(*at, wish.cpus));
        let mut candidates = Vec::with_capacity(now.len());
        self.look_at(&now, true, wish, predictions, &mut candidates);
        if candidates.iter().all(|it| it.harm.hurts) {
            self.look_at(&later, false, wish, predictions, &mut candidates);
        }
        candidates
    }

    fn look_at(
        &mut self,
        places: &[usize],
        now: bool,
        wish: &Wish,
        predictions: &mut Predictions,
        candidates: &mut Vec<Candidate>,
    ) {
        let ids: Vec<NodeId> = places.iter().map(|at| self.ids[*at]).collect();
        let app = predictions.app(wish.app).clone();
        let worth = self.ranking.of(&app, &self.cluster, &ids);
        for (at, worth) in places.iter().copied().zip(worth) {
            let company = match now {
                true => self.members(at).map(|it| it.app).collect(),
                false => self.company(at, wish, predictions),
            };
            let coming: u32 = self.coming[at].iter().map(|it| it.cpus).sum();
            let place = &self.places[at];
            let taken = place.cpus.saturating_sub(place.free_cpus);
            candidates.push(Candidate {
                at,
                harm: predictions.harm(wish.app, &company),
                now,
                load: f64::from(taken + coming) / f64::from(place.cpus.max(1)),
                worth: worth.net,
            });
        }
    }

    fn members(&self, at: usize) -> impl Iterator<Item = &Member> {
        self.places[at].running.iter().chain(&self.coming[at])
    }

    /// Who may run beside `wish` there: of those that run and those that come, the
    /// most harmful, as many as have CPUs then.
    fn company(&self, at: usize, wish: &Wish, predictions: &mut Predictions) -> Vec<AppIndex> {
        let with_loss = |member: &Member| {
            let harm = predictions.harm(wish.app, &[member.app]);
            (harm.hurts, harm.loss, *member)
        };
        let mut others: Vec<(bool, f64, Member)> = self.members(at).map(with_loss).collect();
        others.sort_by(|a, b| (b.0.cmp(&a.0)).then(b.1.total_cmp(&a.1)));
        let mut left = self.places[at].cpus.saturating_sub(wish.cpus);
        let mut company = Vec::new();
        for (_, _, member) in others {
            if member.cpus <= left {
                left -= member.cpus;
                company.push(member.app);
            }
        }
        company
    }

    /// Without harm first, then where it can start now, then by worth; where it must
    /// wait, the node that it was given and then the least loaded.
    fn compare(&self, wish: &Wish, a: &Candidate, b: &Candidate) -> Ordering {
        let kept = |it: &Candidate| wish.given == Some(it.at);
        let by_harm = match a.harm.hurts && b.harm.hurts {
            true => (b.now.cmp(&a.now)).then(a.harm.loss.total_cmp(&b.harm.loss)),
            false => a.harm.hurts.cmp(&b.harm.hurts),
        };
        let by_place = match (a.now, b.now) {
            (true, true) => kept(b).cmp(&kept(a)).then(b.worth.total_cmp(&a.worth)),
            (false, false) => kept(b).cmp(&kept(a)).then(a.load.total_cmp(&b.load)),
            (a_now, b_now) => b_now.cmp(&a_now),
        };
        let by_name = || self.name(a.at).cmp(self.name(b.at));
        by_harm.then(by_place).then_with(by_name)
    }

    fn why(&self, best: &Candidate, candidates: &[Candidate]) -> String {
        let refused = candidates
            .iter()
            .filter(|it| it.harm.hurts && it.at != best.at);
        let first = match best.harm.hurts {
            true => format!("waited long enough; {}", self.told(best)),
            false => format!(
                "on {} all together lose {:.1} % of one job's performance",
                self.name(best.at),
                100.0 * best.harm.loss
            ),
        };
        match refused.min_by_key(|it| self.name(it.at)) {
            Some(other) => format!("{first}; {}", self.told(other)),
            None => first,
        }
    }

    /// What would happen on a node.
    fn told(&self, candidate: &Candidate) -> String {
        let name = self.name(candidate.at);
        match &candidate.harm.worst {
            Some(worst) => format!(
                "on {name} {} would keep {:.0} % of its performance ({})",
                worst.name,
                100.0 * worst.performance,
                worst.resource
            ),
            None => format!("on {name} nobody would lose anything"),
        }
    }
}

fn demand(member: Member) -> Demand {
    Demand {
        cpus: member.cpus.max(1),
        memory_bytes: 0,
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
