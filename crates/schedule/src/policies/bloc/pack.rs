//! Putting stores of data onto few nodes, and keeping them there as demand
//! changes (BLOC, sections B.4 and B.5).

/// What is placed: an application's dataset, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Demand, in the unit of [`Store::bandwidth`].
    pub bandwidth: f64,
    /// Size, in the unit of [`Store::capacity`].
    pub capacity: f64,
    /// Share of a node's rated bandwidth that may be in use before this
    /// application's latency breaks its bound (MB_i).
    pub bandwidth_limit: f64,
    /// Likewise of capacity (MC_i).
    pub capacity_limit: f64,
}

/// A storage node, as rated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Store {
    pub bandwidth: f64,
    pub capacity: f64,
}

/// Margins, as shares of what is rated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Kept free for migration (Δ_B).
    pub reserve: f64,
    /// Summed interference that a node must stay below, share of performance.
    pub interference: f64,
    /// Further from its limits than this a used node must be to be given more
    /// after the first placement (δ_B, δ_C; the paper gives no value).
    pub hysteresis_bandwidth: f64,
    pub hysteresis_capacity: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            reserve: 0.02,
            interference: 0.10,
            hysteresis_bandwidth: 0.03,
            hysteresis_capacity: 0.03,
        }
    }
}

/// One piece from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub piece: usize,
    pub from: usize,
    pub to: usize,
}

impl Piece {
    /// The demands of both together, and the lesser of each limit.
    fn with(&self, other: &Piece) -> Piece {
        Piece {
            bandwidth: self.bandwidth + other.bandwidth,
            capacity: self.capacity + other.capacity,
            bandwidth_limit: self.bandwidth_limit.min(other.bandwidth_limit),
            capacity_limit: self.capacity_limit.min(other.capacity_limit),
        }
    }
}

/// What is on a node.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    total: Piece,
    interference: f64,
    members: Vec<usize>,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            total: Piece {
                bandwidth: 0.0,
                capacity: 0.0,
                bandwidth_limit: f64::INFINITY,
                capacity_limit: f64::INFINITY,
            },
            interference: 0.0,
            members: Vec::new(),
        }
    }
}

/// How far from its limits a node has to stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Distance {
    Limits,
    Hysteresis,
}

/// Pieces, nodes, and `pairs(i, j)`, the mean loss of performance of two pieces
/// side by side (0–1).
pub struct Packing<'a> {
    pub pieces: &'a [Piece],
    pub stores: &'a [Store],
    pub pairs: &'a dyn Fn(usize, usize) -> f64,
    pub rules: Rules,
}

impl Packing<'_> {
    fn added(&self, load: &Load, piece: usize) -> f64 {
        let members = load.members.iter();
        members.map(|member| (self.pairs)(*member, piece)).sum()
    }

    fn put(&self, load: &mut Load, piece: usize) {
        load.interference += self.added(load, piece);
        load.total = load.total.with(&self.pieces[piece]);
        load.members.push(piece);
    }

    fn load(&self, members: impl IntoIterator<Item = usize>) -> Load {
        let mut load = Load::default();
        for piece in members {
            self.put(&mut load, piece);
        }
        load
    }

    fn loads(&self, placement: &[Option<usize>]) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.stores.len()];
        for (piece, store) in placement.iter().enumerate() {
            if let Some(store) = store {
                self.put(&mut loads[*store], piece);
            }
        }
        loads
    }

    /// Whether `piece` may join `load` on `store`: after it both limits, each
    /// the least of all members', and the cap on interference are kept.
    fn fits(&self, load: &Load, store: &Store, piece: usize, distance: Distance) -> bool {
        let rules = &self.rules;
        let (bandwidth, capacity) = match distance {
            Distance::Hysteresis if !load.members.is_empty() => {
                (rules.hysteresis_bandwidth, rules.hysteresis_capacity)
            }
            _ => (0.0, 0.0),
        };
        let after = load.total.with(&self.pieces[piece]);
        after.bandwidth / store.bandwidth < after.bandwidth_limit - rules.reserve - bandwidth
            && after.capacity / store.capacity < after.capacity_limit - capacity
            && (load.members.is_empty()
                || load.interference + self.added(load, piece) < rules.interference)
    }

    fn over(&self, load: &Load, store: &Store) -> bool {
        let total = &load.total;
        total.bandwidth / store.bandwidth > total.bandwidth_limit
            || total.capacity / store.capacity > total.capacity_limit
            || load.interference >= self.rules.interference
    }

    /// Whether the pieces `members` break a limit on `store`.
    pub fn breaks(&self, store: usize, members: impl IntoIterator<Item = usize>) -> bool {
        self.over(&self.load(members), &self.stores[store])
    }

    /// Pieces as they come up when pairs are taken in the order of rising
    /// interference.
    pub fn order(&self) -> Vec<usize> {
        let count = self.pieces.len();
        let mut pairs: Vec<(f64, usize, usize)> = (0..count)
            .flat_map(|i| (i + 1..count).map(move |j| (i, j)))
            .map(|(i, j)| ((self.pairs)(i, j), i, j))
            .collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut listed = vec![false; count];
        let mut order = Vec::with_capacity(count);
        let members = pairs.into_iter().flat_map(|(_, i, j)| [i, j]);
        for piece in members.chain(0..count) {
            if !std::mem::replace(&mut listed[piece], true) {
                order.push(piece);
            }
        }
        order
    }

    /// The node of each piece, by next-fit over nodes in their order (BLOC,
    /// algorithm 1). As printed, a piece is put onto a freshly opened node
    /// unseen; here it goes on to the next empty node on which it fits, and
    /// only when there is none back to used ones, then alone onto any empty
    /// one. `None` when no empty node is left either.
    pub fn consolidate(&self) -> Vec<Option<usize>> {
        self.consolidate_in(&self.order())
    }

    /// The same with the pieces in another order.
    pub fn consolidate_in(&self, order: &[usize]) -> Vec<Option<usize>> {
        let mut loads = vec![Load::default(); self.stores.len()];
        let mut placement = vec![None; self.pieces.len()];
        let mut open: Option<usize> = None;
        for piece in order.iter().copied() {
            let fits = |store: usize, loads: &[Load]| {
                self.fits(&loads[store], &self.stores[store], piece, Distance::Limits)
            };
            let empty = |store: &usize| loads[*store].members.is_empty();
            let all = 0..self.stores.len();
            let store = open
                .filter(|store| fits(*store, &loads))
                .or_else(|| all.clone().filter(empty).find(|s| fits(*s, &loads)))
                .or_else(|| all.clone().find(|store| fits(*store, &loads)))
                .or_else(|| all.clone().find(empty));
            if let Some(store) = store {
                self.put(&mut loads[store], piece);
                placement[piece] = Some(store);
                open = Some(store);
            }
        }
        placement
    }

    /// A node for `piece` other than those `closed`: a used one that stays clear
    /// of its limits by the hysteresis, an empty one, a used one within its
    /// limits.
    fn find(&self, loads: &[Load], piece: usize, closed: &[bool]) -> Option<usize> {
        let fits = |store: usize, used: bool, distance| {
            !closed[store]
                && loads[store].members.is_empty() != used
                && self.fits(&loads[store], &self.stores[store], piece, distance)
        };
        let all = 0..self.stores.len();
        all.clone()
            .find(|store| fits(*store, true, Distance::Hysteresis))
            .or_else(|| all.clone().find(|s| fits(*s, false, Distance::Limits)))
            .or_else(|| all.clone().find(|s| fits(*s, true, Distance::Limits)))
    }

    /// Moves that make `placement` fit the demand that `pieces` now have (BLOC,
    /// algorithm 2, with AND where its line 19 prints OR).
    ///
    /// From each node over a limit the smallest pieces are taken until it is
    /// not; each goes where [it fits](Self::fits) on a node that was not over,
    /// and stays where it was when there is none. When all of them found a
    /// place, nodes are then emptied, from the least used up, whose every piece
    /// finds one on other used nodes clear of their limits by the hysteresis.
    pub fn repack(&self, placement: &[Option<usize>]) -> Vec<Move> {
        let mut loads = self.loads(placement);
        let mut after = placement.to_vec();
        let mut closed = vec![false; self.stores.len()];
        let mut homeless = Vec::new();
        for (at, store) in self.stores.iter().enumerate() {
            closed[at] = self.over(&loads[at], store);
            // One that is alone has nobody to make room for.
            while loads[at].members.len() > 1 && self.over(&loads[at], store) {
                let Some(smallest) = self.smallest(&loads[at].members) else {
                    break;
                };
                homeless.push((smallest, at));
                let left = loads[at].members.iter().filter(|p| **p != smallest);
                loads[at] = self.load(left.copied());
            }
            if let [alone] = loads[at].members[..]
                && self.over(&loads[at], store)
            {
                homeless.push((alone, at));
                loads[at] = Load::default();
            }
        }
        let mut all_placed = true;
        for (piece, from) in homeless {
            let found = self.find(&loads, piece, &closed);
            all_placed &= found.is_some();
            let to = found.unwrap_or(from);
            self.put(&mut loads[to], piece);
            after[piece] = Some(to);
        }
        if all_placed {
            self.empty_nodes(&mut loads, &mut after, &mut closed);
        }
        (0..after.len())
            .filter_map(|piece| {
                let (from, to) = (placement[piece]?, after[piece]?);
                (from != to).then_some(Move { piece, from, to })
            })
            .collect()
    }

    fn smallest(&self, members: &[usize]) -> Option<usize> {
        let capacity = |piece: usize| self.pieces[piece].capacity;
        let members = members.iter().copied();
        members.min_by(|a, b| capacity(*a).total_cmp(&capacity(*b)).then(a.cmp(b)))
    }

    fn empty_nodes(&self, loads: &mut Vec<Load>, after: &mut [Option<usize>], closed: &mut [bool]) {
        let share =
            |at: usize, loads: &[Load]| loads[at].total.bandwidth / self.stores[at].bandwidth;
        let mut used: Vec<usize> = (0..loads.len())
            .filter(|at| !loads[*at].members.is_empty() && !closed[*at])
            .collect();
        used.sort_by(|a, b| share(*a, loads).total_cmp(&share(*b, loads)).then(a.cmp(b)));
        for from in used {
            let mut tried = loads.clone();
            let members = std::mem::take(&mut tried[from]).members;
            let mut targets = Vec::with_capacity(members.len());
            for piece in &members {
                let fits = |to: &usize| {
                    *to != from
                        && !closed[*to]
                        && !tried[*to].members.is_empty()
                        && self.fits(&tried[*to], &self.stores[*to], *piece, Distance::Hysteresis)
                };
                let Some(to) = (0..tried.len()).find(fits) else {
                    break;
                };
                self.put(&mut tried[to], *piece);
                targets.push(to);
            }
            if targets.len() == members.len() {
                for (piece, to) in members.iter().zip(targets) {
                    after[*piece] = Some(to);
                }
                *loads = tried;
                closed[from] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(bandwidth: f64, capacity: f64, limit: f64) -> Piece {
        Piece {
            bandwidth,
            capacity,
            bandwidth_limit: limit,
            capacity_limit: 0.9,
        }
    }

    const STORE: Store = Store {
        bandwidth: 100.0,
        capacity: 100.0,
    };

    fn packing<'a>(
        pieces: &'a [Piece],
        stores: &'a [Store],
        pairs: &'a dyn Fn(usize, usize) -> f64,
    ) -> Packing<'a> {
        Packing {
            pieces,
            stores,
            pairs,
            rules: Rules::default(),
        }
    }

    #[test]
    fn the_least_limit_of_all_is_the_nodes() {
        // Websearch 30 %, webmail 70 %: together at most 28 % with the reserve.
        let pieces = [
            piece(20.0, 1.0, 0.3),
            piece(7.0, 1.0, 0.7),
            piece(1.5, 1.0, 0.7),
        ];
        let none = |_: usize, _: usize| 0.0;
        let placed = packing(&pieces, &[STORE; 3], &none).consolidate();
        // 20 + 7 < 28; 20 + 7 + 1.5 is not.
        assert_eq!(placed, [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn least_interference_first_and_at_most_a_tenth() {
        let pieces = [piece(1.0, 1.0, 0.9); 4];
        // 0 and 3 bear each other, all else does not, but 1 and 2 somewhat.
        let pairs = |a: usize, b: usize| match (a.min(b), a.max(b)) {
            (0, 3) => 0.01,
            (1, 2) => 0.06,
            _ => 0.05,
        };
        let placed = packing(&pieces, &[STORE; 4], &pairs).consolidate();
        // 0 + 3: 0.01; with 1: 0.01 + 0.05 + 0.05 = 0.11, so it opens a node;
        // 2 joins it with 0.06.
        assert_eq!(placed, [Some(0), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn a_fresh_node_is_looked_at_before_it_is_used() {
        let pieces = [piece(50.0, 1.0, 0.9), piece(60.0, 1.0, 0.9)];
        let small = Store {
            bandwidth: 60.0,
            capacity: 100.0,
        };
        let none = |_: usize, _: usize| 0.0;
        // 60 does not fit the small node in between.
        let placed = packing(&pieces, &[STORE, small, STORE], &none).consolidate();
        assert_eq!(placed, [Some(0), Some(2)]);
        // Nowhere within its limit: alone, and nothing when nothing is left.
        let huge = [
            piece(200.0, 1.0, 0.9),
            piece(1.0, 1.0, 0.9),
            piece(200.0, 1.0, 0.9),
        ];
        let placed = packing(&huge, &[STORE, STORE], &none).consolidate();
        assert_eq!(placed, [Some(0), Some(1), None]);
    }

    #[test]
    fn the_smallest_leave_a_node_that_is_over() {
        let pieces = [
            piece(50.0, 9.0, 0.8),
            piece(20.0, 2.0, 0.8),
            piece(20.0, 5.0, 0.8),
        ];
        let none = |_: usize, _: usize| 0.0;
        let moves = packing(&pieces, &[STORE; 2], &none).repack(&[Some(0); 3]);
        // 90 > 80: the one of 2 GB goes, and 70 stays.
        let gone = Move {
            piece: 1,
            from: 0,
            to: 1,
        };
        assert_eq!(moves, [gone]);
    }

    #[test]
    fn nodes_are_emptied_but_not_back_and_forth() {
        let none = |_: usize, _: usize| 0.0;
        let with = |a: f64| [piece(a, 9.0, 0.5), piece(10.0, 2.0, 0.5)];
        let repack = |a: f64, placement: &mut Vec<Option<usize>>| {
            let pieces = with(a);
            let moves = packing(&pieces, &[STORE; 2], &none).repack(placement);
            for to in &moves {
                placement[to.piece] = Some(to.to);
            }
            moves.len()
        };
        let mut placement = vec![Some(0), Some(1)];
        // Limit 50, reserve 2, hysteresis 3: together below 45.
        assert_eq!(repack(36.0, &mut placement), 0);
        assert_eq!(repack(34.0, &mut placement), 1);
        assert_eq!(placement[0], placement[1]);
        // A little up and down moves nothing; beyond the limit it does, once.
        for a in [36.0, 34.0, 39.0, 35.0] {
            assert_eq!(repack(a, &mut placement), 0);
        }
        assert_eq!(repack(41.0, &mut placement), 1);
        for a in [39.0, 36.0, 41.0] {
            assert_eq!(repack(a, &mut placement), 0);
        }
    }

    proptest! {
        #[test]
        fn no_limit_stays_broken_while_a_node_could_help(
            demands in prop::collection::vec((0.0..40.0f64, 1.0..20.0f64, 0.2..0.9f64, 0..6usize), 1..24),
            seed in any::<u64>(),
        ) {
            let pieces: Vec<Piece> =
                demands.iter().map(|(b, c, limit, _)| piece(*b, *c, *limit)).collect();
            let placement: Vec<Option<usize>> = demands.iter().map(|d| Some(d.3)).collect();
            let pairs = |a: usize, b: usize| {
                let mix = seed ^ (a.min(b) as u64) << 8 ^ a.max(b) as u64;
                (mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64 * 0.05
            };
            let stores = [STORE; 8];
            let packing = packing(&pieces, &stores, &pairs);
            let before = packing.loads(&placement);
            let mut after = placement.clone();
            for to in packing.repack(&placement) {
                prop_assert_eq!(after[to.piece], Some(to.from));
                after[to.piece] = Some(to.to);
            }
            let loads = packing.loads(&after);
            let was_over: Vec<bool> = (0..8).map(|s| packing.over(&before[s], &STORE)).collect();
            for (at, load) in loads.iter().enumerate() {
                if !packing.over(load, &STORE) {
                    continue;
                }
                prop_assert!(was_over[at], "node {} was pushed over its limit", at);
                let smallest = packing.smallest(&load.members).unwrap();
                for other in (0..8).filter(|other| !was_over[*other]) {
                    prop_assert!(
                        !packing.fits(&loads[other], &STORE, smallest, Distance::Limits),
                        "node {} is over its limit, and node {} has room", at, other
                    );
                }
            }
        }
    }
}
