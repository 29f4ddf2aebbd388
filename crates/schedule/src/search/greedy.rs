//! Paragon's greedy search for a node.

use crate::app::App;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::NodeId;
use crate::cluster::PlatformId;
use crate::compare::Comparison;
use crate::compare::compare;
use crate::explanation::Deciding;
use crate::explanation::Direction;
use crate::explanation::RUNNERS_UP;
use crate::policies::ibench_l1::largest_gap;
use crate::policy::Choice;
use crate::policy::Decision;
use crate::policy::PlacementRequest;
use crate::policy::Waiting;
use crate::predict::resource_id;
use crate::search::conditions::Conditions;
use crate::search::ranking::Ranking;

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

/// A search and the lists it works on, kept to save allocating them each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub(crate) options: Greedy,
    examined: Vec<Examined>,
    /// The nodes left.
    left: Vec<Examined>,
    /// Speed of the application by platform; NaN where it is not known.
    speeds: Vec<f32>,
}

/// A node with room.
#[derive(Clone, Copy, Debug)]
struct Examined {
    node: NodeId,
    platform: PlatformId,
    level: u8,
}

const CUT_SHORT: &str =
    "stopped at the limit of conditions looked at; the best node so far is taken";
pub(crate) const PLATFORM_NOT_KNOWN: &str =
    "its speed on this platform is not known: neither preferred nor excluded";

impl Search {
    pub(crate) fn new(options: Greedy) -> Self {
        Search {
            options,
            ..Search::default()
        }
    }

    /// The node for `ask`; `by_platform` keeps only the best platform type of
    /// those left.
    pub(crate) fn run(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        by_platform: bool,
    ) -> Decision {
        let conditions = Conditions::of(request.app);
        let cut_short = self.examine(request, cluster, &conditions);
        let Some(least) = self.examined.iter().map(|node| node.level).min() else {
            return Decision::no_room(request, cluster);
        };
        if self.options.strict && least > 0 {
            return Decision::Wait(Waiting::ForBetter, None);
        }
        self.left.clear();
        self.left.extend_from_slice(&self.examined);
        keep(&mut self.left, |node| node.level == least);
        let platforms = by_platform && request.app.best_speed().is_some();
        self.note_speeds(request.app, cluster, platforms);
        let mut answer = match self.options.mended && least > 0 {
            false => self.tightest(request, cluster, &conditions),
            true => self.least_short(request, cluster, &conditions),
        };
        let Decision::Place(choice) = &mut answer else {
            return answer;
        };
        let summary = cluster.summary(choice.node());
        choice.examined = self.examined.len() as u32;
        choice.score = -conditions.slack(summary) * to_points(1);
        if least > 0 {
            choice.relaxed = conditions.in_order(conditions.missed(summary));
        }
        self.fill_runners_up(choice);
        if cut_short {
            choice.notes.push(CUT_SHORT);
        }
        if platforms && request.app.speed_on(summary.platform).is_none() {
            choice.notes.push(PLATFORM_NOT_KNOWN);
        }
        answer
    }

    /// Of the nodes left those of the best platform type, and of these the
    /// least ‖D1 + D2‖₁.
    fn tightest(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        conditions: &Conditions,
    ) -> Decision {
        let speeds = &self.speeds;
        if speeds.iter().any(|speed| !speed.is_nan()) {
            let best = self.best_speed();
            keep(&mut self.left, |node| {
                let speed = speeds[node.platform.index()];
                speed == best || speed.is_nan()
            });
        }
        let mut ranking: Ranking<1> = Ranking::default();
        for left in &self.left {
            ranking.offer(left.node, [-conditions.slack(cluster.summary(left.node))]);
        }
        ranking.answer(request, cluster)
    }

    /// Of the nodes left those that miss what matters least, as if what was
    /// given up without need were enforced again, most important first; and of
    /// these the one that misses it by the least. Then as [`Self::tightest`].
    fn least_short(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        conditions: &Conditions,
    ) -> Decision {
        let missed = |left: &Examined| {
            let summary = cluster.summary(left.node);
            conditions.by_importance(conditions.missed(summary))
        };
        if let Some(least) = self.left.iter().map(missed).min() {
            keep(&mut self.left, |left| missed(left) == least);
        }
        let best = self.best_speed();
        let mut ranking: Ranking<3> = Ranking::default();
        for left in &self.left {
            let summary = cluster.summary(left.node);
            let shortfall = conditions.shortfall(summary, conditions.missed(summary)) as f64;
            // Unknown speeds are NaN and stand beside the best.
            let speed = self.speeds[left.platform.index()];
            let slower = if speed < best { speed } else { f32::INFINITY };
            let slack = conditions.slack(summary);
            ranking.offer(left.node, [-shortfall, f64::from(slower), -slack]);
        }
        ranking.answer(request, cluster)
    }

    /// Lists the nodes with room and their levels; true when the steps did not
    /// suffice for all.
    fn examine(
        &mut self,
        request: &PlacementRequest,
        cluster: &Cluster,
        conditions: &Conditions,
    ) -> bool {
        let per_node = conditions.len().max(1) as u64;
        let most = (self.options.max_steps / per_node).max(1);
        let mut cut_short = false;
        self.examined.clear();
        request.candidates(cluster, |node| {
            if self.examined.len() as u64 == most {
                cut_short = true;
                return;
            }
            let summary = cluster.summary(node);
            self.examined.push(Examined {
                node,
                platform: summary.platform,
                level: conditions.level(conditions.missed(summary)),
            });
        });
        cut_short
    }

    /// Looks up the application's speed on every platform; none is known when
    /// `platforms` do not count.
    fn note_speeds(&mut self, app: &App, cluster: &Cluster, platforms: bool) {
        let all = (0..cluster.platforms().len()).map(PlatformId::nth);
        let known = all.map(|platform| app.speed_on(platform).filter(|_| platforms));
        self.speeds.clear();
        self.speeds
            .extend(known.map(|speed| speed.unwrap_or(f32::NAN)));
    }

    /// The highest known speed on a node left; −∞ where none is.
    fn best_speed(&self) -> f32 {
        let left = self.left.iter();
        left.map(|left| self.speeds[left.platform.index()])
            .fold(f32::NEG_INFINITY, f32::max)
    }

    /// After the nodes left come those that would have been left next, by level
    /// and then by speed.
    fn fill_runners_up(&self, choice: &mut Choice) {
        let have = choice.runners_up.iter().flatten().count();
        if have == RUNNERS_UP {
            return;
        }
        let listed = choice.runners_up;
        let chosen = choice.node();
        let mut next: Ranking<2> = Ranking::default();
        for Examined {
            node,
            platform,
            level,
        } in &self.examined
        {
            if *node != chosen && !listed.contains(&Some(*node)) {
                let speed = self.speeds[platform.index()];
                let speed = if speed.is_nan() { f32::INFINITY } else { speed };
                next.offer(*node, [-f64::from(*level), f64::from(speed)]);
            }
        }
        let places = choice.runners_up[have..].iter_mut();
        for (place, (_, node)) in places.zip(next.best()) {
            *place = Some(node);
        }
    }
}

/// Keeps the `wanted`, in order; without a branch on it, which would be
/// mispredicted half the time.
fn keep(list: &mut Vec<Examined>, wanted: impl Fn(&Examined) -> bool) {
    let mut kept = 0;
    for at in 0..list.len() {
        let node = list[at];
        list[kept] = node;
        kept += usize::from(wanted(&node));
    }
    list.truncate(kept);
}

/// One direction of one resource.
struct Shortfall<'a> {
    direction: Direction,
    comparison: &'a Comparison,
    d: f64,
}

/// The direction that is furthest below zero.
fn worst(comparisons: &[Comparison]) -> Option<Shortfall<'_>> {
    let directions = comparisons.iter().flat_map(|comparison| {
        [
            (Direction::D1, comparison.d1),
            (Direction::D2, comparison.d2),
        ]
        .map(|(direction, d)| Shortfall {
            direction,
            comparison,
            d: d.unwrap_or(0.0),
        })
    });
    directions
        .filter(|direction| direction.d < 0.0)
        .min_by(|a, b| a.d.total_cmp(&b.d))
}

impl Shortfall<'_> {
    fn describe(&self) -> String {
        let say = |score: Option<f64>| score.map_or("–".into(), |score| format!("{score:.0}"));
        let resource = &self.comparison.resource;
        let missed = -self.d;
        match self.direction {
            Direction::D1 => format!(
                "its residents tolerate {} of {resource}, the newcomer causes {} (D1 −{missed:.0})",
                say(self.comparison.node_tolerates),
                say(self.comparison.app_causes)
            ),
            Direction::D2 => format!(
                "its residents cause {} of {resource}, the newcomer tolerates {} (D2 −{missed:.0})",
                say(self.comparison.node_causes),
                say(self.comparison.app_tolerates)
            ),
        }
    }
}

/// How `app` fits on `node`, in words: what is missed by the most, or how
/// tight it is.
pub(crate) fn describe_fit(app: &App, cluster: &Cluster, node: NodeId) -> String {
    if let Some(worst) = worst(&compare(app, cluster, node)) {
        return worst.describe();
    }
    match Conditions::of(app).slack(cluster.summary(node)) * to_points(1) {
        slack if slack.is_finite() => format!("mean |D1 + D2| {slack:.1} points"),
        _ => "nothing to compare".into(),
    }
}

/// What tipped the balance for a choice of [`Search::run`].
pub(crate) fn deciding(
    request: &PlacementRequest,
    cluster: &Cluster,
    choice: &Choice,
    by_platform: bool,
) -> Deciding {
    let chosen = choice.node();
    let Some(next) = choice.runners_up[0] else {
        return crate::policy::only_candidate(cluster, chosen);
    };
    let conditions = Conditions::of(request.app);
    let missed = |node| conditions.missed(cluster.summary(node));
    let level = |node| conditions.level(missed(node));
    if level(chosen) > 0 {
        least_harm(request.app, cluster, choice, next)
    } else if level(next) > 0 {
        let comparisons = compare(request.app, cluster, next);
        let worst = worst(&comparisons);
        let said = worst.as_ref().map(Shortfall::describe).unwrap_or_default();
        Deciding {
            resource: worst.map(|worst| worst.comparison.resource.clone()),
            why: format!(
                "the only node with headroom everywhere; the next is {}, but {said}",
                cluster.name(next)
            ),
        }
    } else if by_platform && let Some(why) = faster(request.app, cluster, chosen, next) {
        Deciding::by("platform", why)
    } else {
        tighter(request.app, cluster, chosen, next, &conditions)
    }
}

/// In words that `chosen` is of a platform on which `app` is faster.
pub(crate) fn faster(app: &App, cluster: &Cluster, chosen: NodeId, next: NodeId) -> Option<String> {
    let platform = |node| cluster.summary(node).platform;
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
    let slack = |node| conditions.slack(cluster.summary(node)) * to_points(1);
    let (ours, theirs) = (slack(chosen), slack(next));
    let name = cluster.name(next);
    if ours == theirs {
        return Deciding::because(format!(
            "{name} fits as well; the first in the file is taken"
        ));
    }
    let resource = largest_gap(
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
    let given_up = choice.relaxed.iter().map(|(_, lane)| resource_id(*lane));
    let given_up: Vec<&str> = given_up.collect();
    let comparisons = compare(app, cluster, chosen);
    let Some(worst_here) = worst(&comparisons) else {
        return Deciding::because("the best of the nodes examined before the search was stopped");
    };
    let mut why = format!(
        "no node has headroom everywhere; {} is left when {} may be missed: {}",
        cluster.name(chosen),
        given_up.join(", "),
        worst_here.describe()
    );
    if let Some(other) = worst(&compare(app, cluster, next)) {
        why.push_str(&format!("; on {} {}", cluster.name(next), other.describe()));
    }
    Deciding {
        resource: Some(worst_here.comparison.resource.clone()),
        why,
    }
}
