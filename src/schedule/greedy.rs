//! Paragon's greedy search for a node.

use super::Answer;
use super::App;
use super::Ask;
use super::Choice;
use super::Cluster;
use super::Comparison;
use super::Deciding;
use super::NodeId;
use super::Side;
use super::Waiting;
use super::app::to_points;
use super::compare::compare;
use super::conditions::Conditions;
use super::decision::RUNNERS_UP;
use super::ibench_l1::most_apart;
use super::ranking::Ranking;
use crate::predict::resource_id;

/// Conditions looked at before the search stops: some tenths of a second.
const DEFAULT_MAX_STEPS: u64 = 500_000_000;

/// How the greedy search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greedy {
    /// After this many conditions were looked at, the best node so far is taken
    /// and the decision says so. A count and not a time, so that the same input
    /// is placed the same everywhere. Paragon has a timeout of unstated length.
    pub max_steps: u64,
    /// Places nothing where a condition would have to be given up.
    pub strict: bool,
    /// Of what was given up, takes back what need not have been, most important
    /// first; then prefers the node that misses the rest by the least. Paragon
    /// does neither: it takes the least ‖D1 + D2‖₁ there too, which cannot tell
    /// an overrun from headroom.
    pub mended: bool,
}

impl Default for Greedy {
    fn default() -> Self {
        Greedy {
            max_steps: DEFAULT_MAX_STEPS,
            strict: false,
            mended: false,
        }
    }
}

/// A search and the list it works on, kept to save allocating it each time.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    pub(super) options: Greedy,
    /// Nodes with room and their levels.
    examined: Vec<(NodeId, u8)>,
}

const CUT_SHORT: &str =
    "stopped at the limit of conditions looked at; the best node so far is taken";
pub(super) const PLATFORM_NOT_KNOWN: &str =
    "its speed on this platform is not known: neither preferred nor excluded";

impl Search {
    pub(super) fn new(options: Greedy) -> Self {
        Search {
            options,
            examined: Vec::new(),
        }
    }

    /// The node for `ask`; `by_platform` keeps only the best platform type of
    /// those left.
    pub(super) fn run(&mut self, ask: &Ask, cluster: &Cluster, by_platform: bool) -> Answer {
        let conditions = Conditions::of(ask.app);
        let per_node = conditions.len().max(1) as u64;
        let mut nodes_left = (self.options.max_steps / per_node).max(1);
        let (mut least, mut cut_short) = (u8::MAX, false);
        self.examined.clear();
        ask.candidates(cluster, |node| {
            if nodes_left == 0 {
                cut_short = true;
                return;
            }
            nodes_left -= 1;
            let level = conditions.level(conditions.missed(cluster.row(node)));
            least = least.min(level);
            self.examined.push((node, level));
        });
        if self.examined.is_empty() {
            return Answer::no_room(ask, cluster);
        }
        if self.options.strict && least > 0 {
            return Answer::Wait(Waiting::ForBetter, None);
        }

        let mended = self.options.mended && least > 0;
        let best_speed = by_platform
            .then(|| self.best_speed(ask.app, cluster, least))
            .flatten();
        let mut ranking: Ranking<4> = Ranking::default();
        for (node, level) in &self.examined {
            if *level != least {
                continue;
            }
            let row = cluster.row(*node);
            let platform = match (best_speed, ask.app.speed_on(row.platform)) {
                (Some(best), Some(speed)) if speed < best => 0.0,
                _ => 1.0,
            };
            if !mended {
                // A slower platform only matters as a runner-up, if at all.
                ranking.offer(*node, [0.0, 0.0, platform, -conditions.slack(row)]);
                continue;
            }
            let missed = conditions.missed(row);
            // Exact as f64: there are at most 36 conditions.
            let importance = conditions.by_importance(missed) as f64;
            let shortfall = conditions.shortfall(row, missed) as f64;
            let slack = conditions.slack(row);
            ranking.offer(*node, [-importance, -shortfall, platform, -slack]);
        }

        let Answer::Place(mut choice) = ranking.answer(ask, cluster) else {
            return Answer::no_room(ask, cluster);
        };
        let chosen = choice.node();
        let row = cluster.row(chosen);
        choice.examined = self.examined.len() as u32;
        choice.score = -conditions.slack(row) * to_points(1);
        choice.relaxed = conditions.in_order(conditions.missed(row));
        self.fill_runners_up(&mut choice, least);
        if cut_short {
            choice.notes.push(CUT_SHORT);
        }
        if best_speed.is_some() && ask.app.speed_on(row.platform).is_none() {
            choice.notes.push(PLATFORM_NOT_KNOWN);
        }
        Answer::Place(choice)
    }

    /// The highest known speed on the platform of a node at `level`.
    fn best_speed(&self, app: &App, cluster: &Cluster, level: u8) -> Option<f32> {
        app.best_speed()?;
        let at_level = self.examined.iter().filter(|(_, of)| *of == level);
        at_level
            .filter_map(|(node, _)| app.speed_on(cluster.row(*node).platform))
            .max_by(f32::total_cmp)
    }

    /// After the nodes left come those that would have been left next.
    fn fill_runners_up(&self, choice: &mut Choice, least: u8) {
        let have = choice.runners_up.iter().flatten().count();
        if have == RUNNERS_UP {
            return;
        }
        let mut next: Ranking<1> = Ranking::default();
        for (node, level) in &self.examined {
            if *level != least {
                next.offer(*node, [-f64::from(*level)]);
            }
        }
        let places = choice.runners_up[have..].iter_mut();
        for (place, (_, node)) in places.zip(next.best()) {
            *place = Some(node);
        }
    }
}

/// One direction of one resource.
struct Direction<'a> {
    side: Side,
    comparison: &'a Comparison,
    d: f64,
}

/// The direction that is furthest below zero.
fn worst(comparisons: &[Comparison]) -> Option<Direction<'_>> {
    let directions = comparisons.iter().flat_map(|comparison| {
        [(Side::D1, comparison.d1), (Side::D2, comparison.d2)]
            .into_iter()
            .filter_map(move |(side, d)| {
                Some(Direction {
                    side,
                    comparison,
                    d: d?,
                })
            })
    });
    directions
        .filter(|direction| direction.d < 0.0)
        .min_by(|a, b| a.d.total_cmp(&b.d))
}

impl Direction<'_> {
    fn in_words(&self) -> String {
        let say = |score: Option<f64>| score.map_or("–".into(), |score| format!("{score:.0}"));
        let resource = &self.comparison.resource;
        let missed = -self.d;
        match self.side {
            Side::D1 => format!(
                "its residents tolerate {} of {resource}, the newcomer causes {} (D1 −{missed:.0})",
                say(self.comparison.node_tolerates),
                say(self.comparison.app_causes)
            ),
            Side::D2 => format!(
                "its residents cause {} of {resource}, the newcomer tolerates {} (D2 −{missed:.0})",
                say(self.comparison.node_causes),
                say(self.comparison.app_tolerates)
            ),
        }
    }
}

/// How `app` fits on `node`, in words: what is missed by the most, or how
/// tight it is.
pub(super) fn fit_in_words(app: &App, cluster: &Cluster, node: NodeId) -> String {
    if let Some(worst) = worst(&compare(app, cluster, node)) {
        return worst.in_words();
    }
    match Conditions::of(app).slack(cluster.row(node)) * to_points(1) {
        slack if slack.is_finite() => format!("mean |D1 + D2| {slack:.1} points"),
        _ => "nothing to compare".into(),
    }
}

/// What tipped the balance for a choice of [`Search::run`].
pub(super) fn what_decided(
    ask: &Ask,
    cluster: &Cluster,
    choice: &Choice,
    by_platform: bool,
) -> Deciding {
    let chosen = choice.node();
    let Some(next) = choice.runners_up[0] else {
        return super::policy::only_room(cluster, chosen);
    };
    let conditions = Conditions::of(ask.app);
    let missed = |node| conditions.missed(cluster.row(node));
    let level = |node| conditions.level(missed(node));
    if level(chosen) > 0 {
        least_harm(ask.app, cluster, choice, next)
    } else if level(next) > 0 {
        let comparisons = compare(ask.app, cluster, next);
        let worst = worst(&comparisons);
        Deciding {
            resource: worst
                .as_ref()
                .map(|worst| worst.comparison.resource.clone()),
            why: format!(
                "the only node with headroom everywhere; the next is {}, but {}",
                cluster.name(next),
                worst.map_or_else(String::new, |worst| worst.in_words())
            ),
        }
    } else if by_platform && let Some(why) = faster(ask.app, cluster, chosen, next) {
        Deciding {
            resource: Some("platform".into()),
            why,
        }
    } else {
        tighter(ask.app, cluster, chosen, next, &conditions)
    }
}

/// In words that `chosen` is of a platform on which `app` is faster.
pub(super) fn faster(app: &App, cluster: &Cluster, chosen: NodeId, next: NodeId) -> Option<String> {
    let platform = |node| cluster.row(node).platform;
    let (ours, theirs) = (
        app.speed_on(platform(chosen))?,
        app.speed_on(platform(next))?,
    );
    let name = |node| &cluster.platforms()[platform(node).index()];
    (ours > theirs).then(|| {
        format!(
            "the best platform for it is `{}`: {:.2} times as fast as `{}` of {}",
            name(chosen),
            ours / theirs,
            name(next),
            cluster.name(next)
        )
    })
}

fn tighter(
    app: &App,
    cluster: &Cluster,
    chosen: NodeId,
    next: NodeId,
    conditions: &Conditions,
) -> Deciding {
    let slack = |node| conditions.slack(cluster.row(node)) * to_points(1);
    let (ours, theirs) = (slack(chosen), slack(next));
    let name = cluster.name(next);
    if ours == theirs {
        return Deciding {
            resource: None,
            why: format!("{name} fits as well; the first in the file is taken"),
        };
    }
    let resource = most_apart(
        &compare(app, cluster, chosen),
        &compare(app, cluster, next),
        Comparison::slack,
    );
    let say = |slack: f64| match slack.is_finite() {
        true => format!("{slack:.1}"),
        false => "nothing to compare".into(),
    };
    let mut why = format!(
        "tightest fit of the nodes with headroom: mean |D1 + D2| {} points, {} on {name}",
        say(ours),
        say(theirs)
    );
    if let Some(resource) = &resource {
        why.push_str(&format!("; they differ most on {resource}"));
    }
    Deciding { resource, why }
}

/// When conditions were given up: which is missed by the most.
fn least_harm(app: &App, cluster: &Cluster, choice: &Choice, next: NodeId) -> Deciding {
    let chosen = choice.node();
    let given_up: Vec<&str> = choice
        .relaxed
        .iter()
        .map(|(_, lane)| resource_id(*lane))
        .collect();
    let comparisons = compare(app, cluster, chosen);
    let Some(worst_here) = worst(&comparisons) else {
        return Deciding {
            resource: None,
            why: "the best of the nodes examined before the search was stopped".into(),
        };
    };
    let mut why = format!(
        "no node has headroom everywhere; {} is left when {} may be missed: {}",
        cluster.name(chosen),
        given_up.join(", "),
        worst_here.in_words()
    );
    if let Some(other) = worst(&compare(app, cluster, next)) {
        why.push_str(&format!("; on {} {}", cluster.name(next), other.in_words()));
    }
    Deciding {
        resource: Some(worst_here.comparison.resource.clone()),
        why,
    }
}
