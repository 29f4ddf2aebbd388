//! The closest fit, without asking who overruns whom.

use crate::app::App;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::summary::NodeSummary;
use crate::compare::Comparison;
use crate::compare::compare;
use crate::compare::known_directions;
use crate::explanation::Deciding;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Policy;
use crate::search::ranking::Ranking;

/// Least ‖t − c‖₁, in both directions (iBench, section on scheduling): the sum
/// over resources of
///
/// ```text
/// |t_app − Σ c_residents|  +  |min t_residents − c_app|
/// ```
///
/// with t = 100 and c = 0 for an empty node. The sum is divided by the number
/// of directions that are known, so that a node does not look close because
/// little is known of it; where the same is known of all nodes this orders them
/// as the plain sum does. A node on which nothing can be compared comes last.
///
/// A difference below zero, an overrun, counts like headroom of the same size.
#[derive(Clone, Copy, Debug, Default)]
pub struct IbenchL1;

/// Mean |t − c| in points; `None` when nothing can be compared.
fn mean_distance(app: &App, summary: &NodeSummary) -> Option<f64> {
    let (d1, d2) = known_directions(app, summary);
    let mut sum = 0i64;
    for lane in d1.iter() {
        sum += i64::from((summary.tolerated[lane] - app.caused[lane]).abs());
    }
    for lane in d2.iter() {
        sum += i64::from((app.tolerated[lane] - summary.caused[lane]).abs());
    }
    let known = d1.len() + d2.len();
    (known > 0).then(|| sum as f64 * to_points(1) / f64::from(known))
}

fn say(distance: Option<f64>) -> String {
    match distance {
        Some(distance) => format!("mean |t − c| {distance:.1} points"),
        None => "nothing to compare".to_string(),
    }
}

impl Policy for IbenchL1 {
    fn name(&self) -> &'static str {
        "ibench-l1"
    }

    fn choose(&mut self, request: &PlacementRequest, cluster: &Cluster) -> Decision {
        let mut ranking = Ranking::default();
        request.candidates(cluster, |node| {
            let distance = mean_distance(request.app, cluster.summary(node));
            ranking.offer(node, [-distance.unwrap_or(f64::INFINITY)]);
        });
        ranking.answer(request, cluster)
    }

    fn why(&self, request: &PlacementRequest, cluster: &Cluster, choice: &Choice) -> Deciding {
        let chosen = choice.node();
        let Some(next) = choice.runners_up[0] else {
            return crate::policy::only_candidate(cluster, chosen);
        };
        let of = |node| mean_distance(request.app, cluster.summary(node));
        let (ours, theirs) = (of(chosen), of(next));
        let name = cluster.name(next);
        if ours == theirs {
            return Deciding::because(format!(
                "{name} is as close ({}); the first in the file is taken",
                say(ours)
            ));
        }
        let resource = largest_gap(
            &compare(request.app, cluster, chosen),
            &compare(request.app, cluster, next),
            Comparison::distance,
        );
        let mut why = format!("closest fit: {}; {} on {name}", say(ours), say(theirs));
        if let Some(resource) = &resource {
            why.push_str(&format!("; they differ most on {resource}"));
        }
        Deciding { resource, why }
    }

    fn runner_up(&self, request: &PlacementRequest, cluster: &Cluster, node: NodeId) -> String {
        say(mean_distance(request.app, cluster.summary(node)))
    }
}

/// The resource on which `ours` is better than `theirs` by the most; `cost` is
/// better when lower.
pub fn largest_gap(
    ours: &[Comparison],
    theirs: &[Comparison],
    cost: impl Fn(&Comparison) -> Option<f64>,
) -> Option<String> {
    ours.iter()
        .filter_map(|our| {
            let their = theirs.iter().find(|c| c.resource == our.resource)?;
            let gain = cost(their)? - cost(our)?;
            (gain > 0.0).then_some((gain, &our.resource))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, resource)| resource.clone())
}
