//! Where a job may start without harm: nodes with what runs there and what was given
//! to them, and the choice among them. Knows nothing of Slurm.

use super::harm::AppIndex;
use super::harm::Harm;
use super::harm::Predictions;
use jostle_schedule::Cluster;
use jostle_schedule::Demand;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::Ranking;
use std::cmp::Ordering;
use std::collections::BTreeMap;

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
    pub allowed: Vec<usize>,
    /// The node that it has been given before.
    pub given: Option<usize>,
    /// It has waited long enough: the least harmful place will do.
    pub impatient: bool,
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
            self.take(at, wish, now, predictions);
        }
        verdict
    }

    /// Holds the place that was given to somebody who is not known to Slurm yet.
    pub fn hold(&mut self, at: usize, wish: &Wish, predictions: &Predictions) {
        let now = self.has_place(at, wish);
        self.take(at, wish, now, predictions);
    }

    fn take(&mut self, at: usize, wish: &Wish, now: bool, predictions: &Predictions) {
        let member = Member {
            app: wish.app,
            cpus: wish.cpus,
        };
        self.coming[at].push(member);
        match now {
            true => {
                let place = &mut self.places[at];
                place.free_cpus = place.free_cpus.saturating_sub(wish.cpus);
                let app = predictions.app(wish.app).clone();
                self.cluster.record(self.ids[at], app, demand(member));
            }
            false => self.reserved[at] = true,
        }
    }

    fn has_place(&self, at: usize, wish: &Wish) -> bool {
        !self.reserved[at] && self.places[at].free_cpus >= wish.cpus
    }

    fn candidates(&mut self, wish: &Wish, predictions: &mut Predictions) -> Vec<Candidate> {
        let large = |at: &usize| {
            let place = &self.places[*at];
            place.cpus >= wish.cpus && place.memory_mb >= wish.memory_mb
        };
        let allowed: Vec<usize> = wish.allowed.iter().copied().filter(large).collect();
        let ids: Vec<NodeId> = allowed.iter().map(|at| self.ids[*at]).collect();
        let app = predictions.app(wish.app).clone();
        let worth = self.ranking.of(&app, &self.cluster, &ids);
        let mut candidates = Vec::with_capacity(allowed.len());
        for (at, worth) in allowed.into_iter().zip(worth) {
            let company = self.company(at, wish, predictions);
            let coming: u32 = self.coming[at].iter().map(|it| it.cpus).sum();
            let place = &self.places[at];
            let taken = place.cpus.saturating_sub(place.free_cpus);
            candidates.push(Candidate {
                at,
                harm: predictions.harm(wish.app, &company),
                now: self.has_place(at, wish),
                load: f64::from(taken + coming) / f64::from(place.cpus.max(1)),
                worth: worth.net,
            });
        }
        candidates
    }

    /// Who may run beside `wish` there: of those that run and those that come, the
    /// most harmful, as many as have CPUs then.
    fn company(&self, at: usize, wish: &Wish, predictions: &mut Predictions) -> Vec<AppIndex> {
        let place = &self.places[at];
        let all = place.running.iter().chain(&self.coming[at]);
        let with_loss = |member: &Member| {
            let harm = predictions.harm(wish.app, &[member.app]);
            (harm.hurts, harm.loss, *member)
        };
        let mut others: Vec<(bool, f64, Member)> = all.map(with_loss).collect();
        others.sort_by(|a, b| (b.0.cmp(&a.0)).then(b.1.total_cmp(&a.1)));
        let mut left = place.cpus.saturating_sub(wish.cpus);
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
                "{} loses all there {:.1} % together",
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
