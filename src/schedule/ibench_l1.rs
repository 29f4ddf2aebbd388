//! The closest fit, without asking who overruns whom.

use super::App;
use super::Cluster;
use super::Comparison;
use super::Deciding;
use super::Decision;
use super::NoPlacement;
use super::NodeReason;
use super::Policy;
use super::compare::compare;
use super::decision::RUNNERS_UP;
use super::decision::platform_note;

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
/// A difference below zero, an overrun, counts like headroom of the same size:
/// that is what sets [`Headroom`](super::Headroom) apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct IbenchL1;

impl Policy for IbenchL1 {
    fn name(&self) -> &'static str {
        "ibench-l1"
    }

    fn place(&self, app: &App, cluster: &Cluster) -> Result<Decision, NoPlacement> {
        let mut ranked: Vec<_> = cluster
            .with_room(app)?
            .into_iter()
            .map(|state| {
                let comparisons = compare(app, state);
                (state, mean_distance(&comparisons), comparisons)
            })
            .collect();
        let key = |distance: Option<f64>| distance.unwrap_or(f64::INFINITY);
        ranked.sort_by(|a, b| key(a.1).total_cmp(&key(b.1)));
        let (chosen, distance, comparisons) = ranked.remove(0);
        let say = |distance: Option<f64>| match distance {
            Some(distance) => format!("mean |t − c| {distance:.1} points"),
            None => "nothing to compare".to_string(),
        };
        let deciding = match ranked.first() {
            None => super::headroom::only_room(chosen),
            Some((next, next_distance, _)) if key(distance) == key(*next_distance) => Deciding {
                resource: None,
                why: format!(
                    "{} is as close ({}); the first in the file is taken",
                    next.node().name,
                    say(distance)
                ),
            },
            Some((next, next_distance, theirs)) => {
                let resource = most_apart(&comparisons, theirs, Comparison::distance);
                let mut why = format!(
                    "closest fit: {}; {} on {}",
                    say(distance),
                    say(*next_distance),
                    next.node().name
                );
                if let Some(resource) = &resource {
                    why.push_str(&format!("; they differ most on {resource}"));
                }
                Deciding { resource, why }
            }
        };
        Ok(Decision {
            app: app.name().into(),
            policy: self.name(),
            node: chosen.node().name.clone(),
            deciding,
            comparisons,
            relaxed: Vec::new(),
            runners_up: ranked
                .iter()
                .take(RUNNERS_UP)
                .map(|(state, distance, _)| NodeReason {
                    node: state.node().name.clone(),
                    why: say(*distance),
                })
                .collect(),
            notes: platform_note(app, chosen).into_iter().collect(),
        })
    }
}

fn mean_distance(comparisons: &[Comparison]) -> Option<f64> {
    let known: Vec<f64> = comparisons
        .iter()
        .flat_map(|comparison| [comparison.d1, comparison.d2])
        .flatten()
        .collect();
    (!known.is_empty()).then(|| known.iter().map(|d| d.abs()).sum::<f64>() / known.len() as f64)
}

/// The resource on which `ours` is better than `theirs` by the most; `cost` is
/// better when lower.
pub(super) fn most_apart(
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
