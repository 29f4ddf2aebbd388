//! What must hold of any cluster, whatever happens to it, and of any policy.

use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Decision;
use jostle_schedule::Demand;
use jostle_schedule::Direction;
use jostle_schedule::Greedy;
use jostle_schedule::Node;
use jostle_schedule::NodeId;
use jostle_schedule::NodeSet;
use jostle_schedule::NodeSummary;
use jostle_schedule::POLICIES;
use jostle_schedule::Paragon;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use jostle_schedule::PolicyOptions;
use jostle_schedule::ResidentId;
use jostle_schedule::Waiting;
use jostle_schedule::known_directions;
use jostle_schedule::predict::Responses;
use jostle_schedule::predict::lane;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::sync::Arc;

const IDS: [&str; 5] = [
    "cpu-time",
    "l1d",
    "llc-capacity",
    "memory-bandwidth",
    "storage-bandwidth",
];

/// Scores in steps of 10, so that equal ones happen; some not known.
fn any_app() -> impl Strategy<Value = Arc<App>> {
    let score =
        || prop_oneof![1 => Just(None), 4 => (0..=10u8).prop_map(|s| Some(f64::from(s) * 10.0))];
    let terms = vec((0..IDS.len(), score(), score()), 0..6);
    let speed = prop_oneof![1 => Just(None), 3 => (1..=3u8).prop_map(|s| Some(f32::from(s)))];
    (terms, 1u32..4, 0u64..4, vec(speed, 0..4)).prop_map(|(terms, cpus, gib, speed)| {
        let mut app = App::bare("any", Responses::default());
        for (id, tolerated, caused) in terms {
            app.set_scores(lane(IDS[id]).unwrap(), tolerated, caused);
        }
        let app = app.with_demand(cpus, gib << 30);
        Arc::new(app.with_platform_speed(speed))
    })
}

/// Nodes some of which are alike while empty.
fn nodes() -> Vec<Node> {
    let kinds = [
        (2, 0, false),
        (4, 1, false),
        (4, 1, false),
        (6, 2, false),
        (6, 2, true),
        (4, 1, false),
        (8, 0, true),
    ];
    kinds
        .iter()
        .enumerate()
        .map(|(index, (cpus, platform, shares_cpus))| Node {
            name: format!("n{index}"),
            cpus: *cpus,
            memory_bytes: 6 << 30,
            platform: Some(format!("type-{platform}")),
            shares_cpus: *shares_cpus,
        })
        .collect()
}

#[derive(Clone, Debug)]
enum Event {
    Arrive(Arc<App>, Index),
    Leave(Index),
    Replace(Index, Arc<App>),
    Down(Index),
    Up(Index),
    Break(Index),
    Repair(Index),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (any_app(), any::<Index>()).prop_map(|(app, node)| Event::Arrive(app, node)),
        3 => any::<Index>().prop_map(Event::Leave),
        2 => (any::<Index>(), any_app()).prop_map(|(who, app)| Event::Replace(who, app)),
        1 => any::<Index>().prop_map(Event::Down),
        1 => any::<Index>().prop_map(Event::Up),
        1 => any::<Index>().prop_map(Event::Break),
        1 => any::<Index>().prop_map(Event::Repair),
    ]
}

struct World {
    cluster: Cluster,
    running: Vec<ResidentId>,
}

impl World {
    fn new() -> Self {
        World {
            cluster: Cluster::new(nodes()).unwrap(),
            running: Vec::new(),
        }
    }

    fn node(&self, which: Index) -> NodeId {
        self.cluster
            .ids()
            .nth(which.index(self.cluster.len()))
            .unwrap()
    }

    /// The event, and whoever must go because CPUs broke.
    fn happen(&mut self, event: &Event) {
        match event {
            Event::Arrive(app, which) => {
                let node = self.node(*which);
                let fits = self.cluster.fits(node, app.demand());
                let admitted = self.cluster.admit(node, app.clone());
                assert_eq!(admitted.is_ok(), fits);
                self.running.extend(admitted);
            }
            Event::Leave(which) if !self.running.is_empty() => {
                let id = self.running.swap_remove(which.index(self.running.len()));
                assert!(self.cluster.remove(id).is_some());
                assert!(self.cluster.remove(id).is_none());
            }
            Event::Replace(which, app) if !self.running.is_empty() => {
                let id = self.running[which.index(self.running.len())];
                assert!(self.cluster.replace(id, app.clone()).is_some());
            }
            Event::Leave(_) | Event::Replace(..) => {}
            Event::Down(which) => {
                let evicted = self.cluster.take_down(self.node(*which));
                for (id, _) in evicted {
                    self.running.retain(|running| *running != id);
                }
            }
            Event::Up(which) => self.cluster.bring_up(self.node(*which)),
            Event::Break(which) => {
                let node = self.node(*which);
                self.cluster.break_cpu(node);
                while self.cluster.cpus_used(node) > u64::from(self.cluster.summary(node).cpus) {
                    let (id, _) = self.cluster.residents(node).next().unwrap();
                    self.cluster.remove(id);
                    self.running.retain(|running| *running != id);
                }
            }
            Event::Repair(which) => self.cluster.repair_cpu(self.node(*which)),
        }
    }
}

/// Everything that is kept up to date against everything counted afresh.
fn check(cluster: &Cluster) {
    let mut open = BTreeSet::new();
    let mut empty: Vec<(String, BTreeSet<NodeId>)> = Vec::new();
    let mut free_units = 0;
    for id in cluster.ids() {
        let (summary, node) = (cluster.summary(id), cluster.node(id));
        assert_eq!(summary, &cluster.recomputed(id));
        let cpus: u64 = cluster
            .residents(id)
            .map(|(_, resident)| u64::from(resident.demand.cpus))
            .sum();
        let memory: u64 = cluster
            .residents(id)
            .map(|(_, resident)| resident.demand.memory_bytes)
            .sum();
        assert_eq!(cpus, cluster.cpus_used(id));
        assert_eq!(u128::from(memory), cluster.memory_used(id));
        assert!(cpus <= u64::from(summary.cpus));
        assert!(memory <= node.memory_bytes);
        assert_eq!(summary.free_memory, node.memory_bytes - memory);
        assert_eq!(summary.residents as usize, cluster.residents(id).count());
        let free = if summary.up {
            summary.cpus - cpus as u32
        } else {
            0
        };
        assert_eq!(summary.free_cpus, free);
        free_units += free as usize;
        let untouched = summary.up && summary.residents == 0 && summary.cpus == node.cpus;
        if untouched {
            let kind = format!(
                "{} {} {:?} {}",
                node.cpus, node.memory_bytes, node.platform, node.shares_cpus
            );
            match empty.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, nodes)) => {
                    nodes.insert(id);
                }
                None => empty.push((kind, BTreeSet::from([id]))),
            }
        } else if free > 0 {
            open.insert(id);
        }
    }
    assert_eq!(
        cluster.open().iter().copied().collect::<BTreeSet<_>>(),
        open
    );
    assert_eq!(cluster.open().len(), open.len());
    assert_eq!(cluster.open_set().iter().collect::<BTreeSet<_>>(), open);
    let listed: BTreeSet<BTreeSet<NodeId>> = cluster
        .empty_by_kind()
        .filter(|nodes| !nodes.is_empty())
        .map(|nodes| nodes.iter().copied().collect())
        .collect();
    assert_eq!(listed, empty.into_iter().map(|(_, nodes)| nodes).collect());
    assert_eq!(cluster.units().len(), free_units);
    for id in cluster.ids() {
        let units = (0..free_units).filter(|place| cluster.units().node_at(*place) == Some(id));
        assert_eq!(units.count(), cluster.summary(id).free_cpus as usize);
    }
    assert_eq!(cluster.units().node_at(free_units), None);
}

/// The nodes that may take `ask`, one by one.
fn with_room(request: &PlacementRequest, cluster: &Cluster) -> Vec<NodeId> {
    let may = |id: &NodeId| {
        let summary = cluster.summary(*id);
        summary.up
            && summary.free_cpus >= request.demand.cpus
            && summary.free_memory >= request.demand.memory_bytes
            && request.allowed.is_none_or(|allowed| allowed.contains(*id))
    };
    cluster.ids().filter(may).collect()
}

/// D1 or D2 in steps; `None` when it is not known or does not count.
fn d(app: &App, summary: &NodeSummary, (direction, lane): (Direction, usize)) -> Option<i32> {
    let (d1, d2) = known_directions(app, summary);
    match direction {
        Direction::D1 => d1
            .contains(lane)
            .then(|| summary.tolerated[lane] - app.caused[lane]),
        Direction::D2 => d2
            .contains(lane)
            .then(|| app.tolerated[lane] - summary.caused[lane]),
    }
}

/// Paragon as it is written down: filter by one condition after the other,
/// start over with one less when nothing is left. The node, and how many
/// conditions it misses.
fn paragon_by_the_book(
    request: &PlacementRequest,
    cluster: &Cluster,
    mended: bool,
    by_platform: bool,
) -> Option<(NodeId, usize)> {
    let app = request.app.as_ref();
    let all = with_room(request, cluster);
    let mut d1: Vec<usize> = app.caused_known.iter().collect();
    d1.sort_by_key(|lane| -app.caused[*lane]);
    let mut d2: Vec<usize> = app.tolerated_known.iter().collect();
    d2.sort_by_key(|lane| app.tolerated[*lane]);
    let mut giving_up = Vec::new();
    let (mut last1, mut last2) = (d1.iter().rev(), d2.iter().rev());
    for _ in 0..d1.len().max(d2.len()) {
        giving_up.extend(last2.next().map(|lane| (Direction::D2, *lane)));
        giving_up.extend(last1.next().map(|lane| (Direction::D1, *lane)));
    }
    let missed = |node: NodeId, condition: (Direction, usize)| {
        d(app, cluster.summary(node), condition).map_or(0, |d| i64::from((-d).max(0)))
    };
    let meeting = |conditions: &[(Direction, usize)]| -> Vec<NodeId> {
        let mut left = all.clone();
        for condition in conditions {
            left.retain(|node| missed(*node, *condition) == 0);
        }
        left
    };
    let level = (0..=giving_up.len()).find(|level| !meeting(&giving_up[*level..]).is_empty())?;
    let mut enforced = giving_up[level..].to_vec();
    let mut given_up = Vec::new();
    if mended {
        for condition in giving_up[..level].iter().rev() {
            enforced.push(*condition);
            if meeting(&enforced).is_empty() {
                enforced.pop();
                given_up.push(*condition);
            }
        }
    }
    let by_shortfall = |node: NodeId| -> i64 {
        let missed = given_up.iter().map(|condition| missed(node, *condition));
        missed.sum()
    };
    let mut left = meeting(&enforced);
    let best = left
        .iter()
        .filter_map(|node| app.speed_on(cluster.summary(*node).platform))
        .fold(0.0, f32::max);
    let slower = |node: NodeId| match app.speed_on(cluster.summary(node).platform) {
        Some(speed) if by_platform => (best - speed).to_bits(),
        _ => 0,
    };
    // Sum of |D1 + D2| and the number of resources; compared as fractions.
    let slack = |node: NodeId| {
        let summary = cluster.summary(node);
        let both = (0..jostle_schedule::predict::LANES).filter_map(|lane| {
            Some(
                (d(app, summary, (Direction::D1, lane))? + d(app, summary, (Direction::D2, lane))?)
                    .abs(),
            )
        });
        let both: Vec<i32> = both.collect();
        let sum: i64 = both.iter().copied().map(i64::from).sum();
        match both.len() {
            0 => f64::INFINITY,
            known => sum as f64 / known as f64,
        }
    };
    left.sort_by(|a, b| {
        by_shortfall(*a)
            .cmp(&by_shortfall(*b))
            .then(slower(*a).cmp(&slower(*b)))
            .then(slack(*a).total_cmp(&slack(*b)))
            .then(a.cmp(b))
    });
    let chosen = *left.first()?;
    let misses = giving_up
        .iter()
        .filter(|condition| missed(chosen, **condition) > 0);
    Some((chosen, misses.count()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_kept_up_to_date_equals_what_is_counted(events in vec(any_event(), 1..60)) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
            check(&world.cluster);
        }
    }

    #[test]
    fn one_pass_decides_as_the_book_does(
        crowd in vec((any_app(), any::<Index>()), 7..20),
        events in vec(any_event(), 0..10),
        apps in vec(any_app(), 1..10),
        allowed in prop::option::weighted(0.3, vec(any::<Index>(), 0..6)),
    ) {
        let mut world = World::new();
        // Small ones first, so that most nodes run something and have room.
        for (app, node) in crowd {
            let small = Arc::unwrap_or_clone(app).with_demand(1, 0);
            world.happen(&Event::Arrive(Arc::new(small), node));
        }
        for event in &events {
            world.happen(event);
        }
        let cluster = &world.cluster;
        let allowed: Option<NodeSet> =
            allowed.map(|which| which.into_iter().map(|index| world.node(index)).collect());
        let mended = Greedy { mended: true, ..Greedy::default() };
        let strict = Greedy { strict: true, ..Greedy::default() };
        for app in &apps {
            let demand = Demand { cpus: 1, memory_bytes: 0 };
            let request = PlacementRequest { allowed: allowed.as_ref(), demand, ..PlacementRequest::of(app) };
            let mut policies: [(Box<dyn Policy>, bool, bool); 3] = [
                (Box::new(Paragon::default()), false, true),
                (Box::new(Paragon::new(mended)), true, true),
                (Box::new(Paragon::without_platforms(Greedy::default())), false, false),
            ];
            for (policy, mended, by_platform) in &mut policies {
                let expected = paragon_by_the_book(&request, cluster, *mended, *by_platform);
                let strict = Paragon::new(strict).choose(&request, cluster);
                match (policy.choose(&request, cluster), expected) {
                    (Decision::Place(choice), Some((node, misses))) => {
                        prop_assert_eq!(choice.node(), node);
                        prop_assert_eq!(choice.relaxed.len(), misses);
                        let decision = policy.explain(&request, cluster, &choice);
                        prop_assert_eq!(decision.relaxed.len(), misses);
                        let directions = decision.comparisons.iter().flat_map(|c| [c.d1, c.d2]);
                        let below = directions.flatten().filter(|d| *d < 0.0).count();
                        prop_assert_eq!(below, misses);
                        prop_assert!(!decision.deciding.why.is_empty());
                        let placed = matches!(strict, Decision::Place(_));
                        prop_assert_eq!(placed, misses == 0);
                    }
                    (Decision::Wait(..), None) => {
                        prop_assert!(with_room(&request, cluster).is_empty());
                    }
                    (answer, expected) => prop_assert!(false, "{answer:?} and {expected:?}"),
                }
            }
        }
    }

    #[test]
    fn no_policy_answers_what_cannot_be(
        events in vec(any_event(), 1..40),
        apps in vec((any_app(), 1u32..12), 1..6),
        allowed in prop::option::of(vec(any::<Index>(), 0..6)),
        seed in any::<u64>(),
        strict in any::<bool>(),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        let cluster = &world.cluster;
        let allowed: Option<NodeSet> =
            allowed.map(|which| which.into_iter().map(|index| world.node(index)).collect());
        for kind in POLICIES {
            let mut policy = (kind.make)(&PolicyOptions { seed, strict });
            for (app, cpus) in &apps {
                let demand = Demand { cpus: *cpus, ..app.demand() };
                let request = PlacementRequest { allowed: allowed.as_ref(), demand, ..PlacementRequest::of(app) };
                let fit = with_room(&request, cluster);
                let answer = policy.choose(&request, cluster);
                match &answer {
                    Decision::Place(choice) => {
                        prop_assert!(!choice.parts.is_empty());
                        for part in &choice.parts {
                            let summary = cluster.summary(part.node);
                            prop_assert!(summary.up, "{}", kind.name);
                            prop_assert!(part.cpus >= 1 && part.cpus <= summary.free_cpus);
                            prop_assert!(summary.free_memory >= demand.memory_bytes);
                            prop_assert!(request.allowed.is_none_or(|set| set.contains(part.node)));
                        }
                        if let [part] = choice.parts[..] && part.cpus == demand.cpus {
                            prop_assert!(fit.contains(&part.node), "{}", kind.name);
                        }
                        let mut told: Vec<NodeId> = choice.runners_up.iter().flatten().copied().collect();
                        told.push(choice.node());
                        let distinct: BTreeSet<NodeId> = told.iter().copied().collect();
                        prop_assert_eq!(distinct.len(), told.len(), "{}", kind.name);
                        let decision = policy.explain(&request, cluster, choice);
                        prop_assert!(!decision.deciding.why.is_empty());
                    }
                    Decision::QueueAt(nodes) => {
                        for node in nodes {
                            prop_assert!(request.allowed.is_none_or(|set| set.contains(*node)));
                        }
                    }
                    Decision::Wait(why, _) => {
                        let never = *why == Waiting::Never;
                        prop_assert_eq!(never, !cluster.could_ever_fit(demand), "{}", kind.name);
                    }
                }
            }
        }
    }
}
