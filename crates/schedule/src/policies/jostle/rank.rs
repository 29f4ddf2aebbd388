//! What given nodes are worth to an application, for schedulers that choose
//! themselves.

use super::explain;
use super::newcomers::RecentNewcomers;
use super::place::PlacementValue;
use super::place::on_node;
use super::value::Weights;
use super::views::NodeViews;
use crate::app::App;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::explanation::ExpectedPerformance;
use crate::explanation::MostAffected;
use crate::policy::Choice;
use std::sync::Arc;

/// What one node is worth to one application.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worth {
    /// The sum that [`Jostle`](super::Jostle) maximizes: higher is better.
    pub net: f32,
    /// Expected performance of the newcomer, fraction.
    pub performance: f32,
    /// Performance that the residents together are expected to lose.
    pub lost: f32,
    /// The least chance, of the newcomer and of the residents that keep their QoS
    /// now, to keep it then.
    pub chance_of_qos: f32,
    /// Somebody who was to keep its QoS is then expected to lose it: what a strict
    /// [`Jostle`](super::Jostle) does not do.
    pub breaks: bool,
}

/// The values of [`Jostle`](super::Jostle) for every node, worked out once and kept
/// until the node changes. They follow from the cluster and from what
/// [`Self::set_newcomers`] was told alone: two with the same history of changes, or
/// none, agree.
pub struct Ranking {
    weights: Weights,
    price: f32,
    views: NodeViews,
    newcomers: RecentNewcomers,
    /// Per application that was asked about, the values by node; the oldest first.
    known: Vec<(Arc<App>, Vec<Option<Known>>)>,
}

#[derive(Clone, Copy)]
struct Known {
    version: u32,
    there: PlacementValue,
}

/// Applications whose values are kept.
const MOST_APPS: usize = 128;

impl Default for Ranking {
    fn default() -> Self {
        Ranking {
            weights: Weights::default(),
            price: super::FULL_PRICE,
            views: NodeViews::default(),
            newcomers: RecentNewcomers::default(),
            known: Vec::new(),
        }
    }
}

impl Ranking {
    /// `apps` stand for all who might want the places: see [`Self::sample`].
    pub fn set_newcomers(&mut self, apps: Vec<Arc<App>>) {
        self.newcomers.stand_for(apps);
    }

    /// Which of `count` newcomers, in the order of their coming, stand for all; the same
    /// choice as a [`Jostle`](super::Jostle) that saw them come.
    pub fn sample(count: usize) -> impl Iterator<Item = usize> {
        RecentNewcomers::sample(count)
    }

    /// `app` on each of `nodes`.
    pub fn of(&mut self, app: &Arc<App>, cluster: &Cluster, nodes: &[NodeId]) -> Vec<Worth> {
        let at = self.place_of(app);
        let known = &mut self.known[at].1;
        known.resize(cluster.len(), None);
        let price = self.price * self.newcomers.scarcity(cluster);
        let worth = nodes.iter().map(|node| {
            let summary = cluster.summary(*node);
            let view = self
                .views
                .of(*node, cluster, &self.weights, &self.newcomers);
            let slot = &mut known[node.index()];
            let there = match slot {
                Some(known) if known.version == summary.version => known.there,
                _ => {
                    let there = on_node(app, cluster, *node, view, &self.weights);
                    let version = summary.version;
                    *slot = Some(Known { version, there });
                    there
                }
            };
            Worth {
                net: there.own - there.harm - price * view.typical,
                performance: there.performance,
                lost: there.lost,
                chance_of_qos: there.least_chance,
                breaks: there.breaks,
            }
        });
        worth.collect()
    }

    fn place_of(&mut self, app: &Arc<App>) -> usize {
        let found = self.known.iter().position(|(of, _)| Arc::ptr_eq(of, app));
        found.unwrap_or_else(|| {
            if self.known.len() >= MOST_APPS {
                self.known.remove(0);
            }
            self.known.push((app.clone(), Vec::new()));
            self.known.len() - 1
        })
    }

    /// Why `chosen` and not `next`, in words.
    pub fn why(
        &self,
        app: &App,
        cluster: &Cluster,
        chosen: NodeId,
        next: Option<NodeId>,
    ) -> Deciding {
        let choice = Choice {
            parts: vec![crate::policy::Part {
                node: chosen,
                cpus: app.cpus(),
            }],
            runners_up: [next, None, None],
            ..Choice::default()
        };
        explain::why(app, cluster, &choice, &self.weights)
    }

    /// What is predicted for `app` on `node`, and who would lose the most by it.
    pub fn expected(&self, app: &App, cluster: &Cluster, node: NodeId) -> ExpectedPerformance {
        explain::expected(app, cluster, node)
    }

    /// Whose QoS `app` would break on `node`: itself, or the resident that loses most.
    pub fn harmed(&self, app: &App, cluster: &Cluster, node: NodeId) -> MostAffected {
        let expected = explain::expected(app, cluster, node);
        let own = MostAffected {
            app: app.name().into(),
            before: 1.0,
            after: expected.performance,
        };
        match expected.most_hurt {
            Some(hurt) if expected.performance >= f64::from(app.qos()) => hurt,
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;
    use crate::policies::jostle::Jostle;
    use crate::policy::Decision;
    use crate::policy::PlacementRequest;
    use crate::policy::Policy;
    use crate::predict::Population;
    use jostle_profile::load;
    use std::path::Path;

    fn app(name: &str) -> Arc<App> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
        let profile = load(&root.join(format!("{name}.json"))).expect("a recorded profile");
        Arc::new(App::completed(&profile, Population::bundled()))
    }

    fn cluster(nodes: usize) -> Cluster {
        let node = |at: usize| Node {
            name: format!("n{at:02}"),
            cpus: 16,
            memory_bytes: 0,
            platform: None,
            shares_cpus: false,
        };
        Cluster::new((0..nodes).map(node)).expect("different names")
    }

    /// The best node by the ranking is the policy's choice, for 120 newcomers in a
    /// cluster that fills up, although the ranking remembers nothing between them.
    #[test]
    fn the_ranking_chooses_as_the_policy_does() {
        let names = ["redis-closed", "numpy-stream", "gcc", "demo-llc-capacity"];
        let apps: Vec<Arc<App>> = names.iter().map(|name| app(name)).collect();
        let mut cluster = cluster(10);
        let ids: Vec<NodeId> = cluster.ids().collect();
        let mut policy = Jostle::new(1, false);
        let mut came: Vec<Arc<App>> = Vec::new();
        let mut kept = Ranking::default();
        for step in 0..120 {
            let newcomer = &apps[(step * step + step / 3) % apps.len()];
            came.push(newcomer.clone());
            let request = PlacementRequest::of(newcomer);
            let Decision::Place(choice) = policy.choose(&request, &cluster) else {
                panic!("there is room for {step}");
            };
            let mut fresh = Ranking::default();
            for ranking in [&mut kept, &mut fresh] {
                let sample = Ranking::sample(came.len());
                ranking.set_newcomers(sample.map(|at| came[at].clone()).collect());
                let worth = ranking.of(newcomer, &cluster, &ids);
                let fits = |at: &usize| cluster.fits(ids[*at], newcomer.demand());
                let best = (0..ids.len())
                    .filter(fits)
                    .max_by(|a, b| worth[*a].net.total_cmp(&worth[*b].net).then(b.cmp(a)));
                assert_eq!(best.map(|at| ids[at]), Some(choice.node()), "{step}");
            }
            choice
                .start(&mut cluster, newcomer, newcomer.demand())
                .expect("it fits");
        }
    }
}
