//! The right kind of machine, whoever runs there.

use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::explanation::Deciding;
use crate::policies::by_load::by_freedom;
use crate::policies::by_load::describe;
use crate::policies::by_load::freedom;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::greedy::PLATFORM_NOT_KNOWN;
use crate::search::greedy::faster;
use crate::search::ranking::Ranking;

/// Of the nodes with room those of the best platform type for the application,
/// and of these the least loaded (the baseline NI, "no interference", of
/// Paragon's evaluation). A platform on which its speed is not known is kept
/// beside the best.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlatformOnly;

impl Policy for PlatformOnly {
    fn name(&self) -> &'static str {
        "platform-only"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        // One pass: which speed is the best of those with room is known only
        // at its end, so the nodes of unknown speed, which stand beside the
        // best, are ranked apart until then.
        let app = request.app;
        let mut known: Ranking<3> = Ranking::default();
        let mut unknown: Ranking<3> = Ranking::default();
        request.candidates(cluster, |node| {
            let (cpus, memory) = freedom(cluster, node);
            match app.speed_on(cluster.summary(node).platform) {
                Some(speed) => known.offer(node, [f64::from(speed), cpus, memory]),
                None => unknown.offer(node, [f64::INFINITY, cpus, memory]),
            }
        });
        let best = known.best().next().map(|(key, _)| key[0]);
        let mut all: Ranking<3> = Ranking::default();
        for ([speed, cpus, memory], node) in known.best() {
            let speed = Some(speed).filter(|speed| Some(*speed) != best);
            all.offer(node, [speed.unwrap_or(f64::INFINITY), cpus, memory]);
        }
        for (key, node) in unknown.best() {
            all.offer(node, key);
        }
        let mut answer = all.answer(request, cluster);
        if let Decision::Place(choice) = &mut answer {
            let speed = app.speed_on(cluster.summary(choice.node()).platform);
            choice.examined = known.seen() + unknown.seen();
            choice.score = speed.map_or(0.0, f64::from);
            if speed.is_none() && best.is_some() {
                choice.notes.push(PLATFORM_NOT_KNOWN);
            }
        }
        answer
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let chosen = choice.node();
        let Some(next) = choice.runners_up[0] else {
            return crate::policy::only_candidate(cluster, chosen);
        };
        match faster(request.app, cluster, chosen, next) {
            Some(why) => Deciding::by("platform", why),
            None => by_freedom(cluster, chosen, next, false),
        }
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        let platform = cluster.summary(node).platform;
        let free = describe(cluster, node);
        match (request.app.speed_on(platform), request.app.best_speed()) {
            (Some(speed), Some(best)) => {
                format!("{:.0} % of its best speed, {free}", 100.0 * speed / best)
            }
            _ => format!("its speed there is not known, {free}"),
        }
    }
}
