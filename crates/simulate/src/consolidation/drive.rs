//! One scheme through all intervals.

use super::outcome::SchemeOutcome;
use super::scenario::ConsolidationScenario;
use super::scenario::Scheme;
use super::scenario::StorageApp;
use super::scene::Scene;
use jostle_schedule::policies::bloc::Forecast;
use jostle_schedule::policies::bloc::Move;
use jostle_schedule::policies::bloc::Packing;
use jostle_schedule::policies::bloc::Piece;

struct Driver<'a> {
    scenario: &'a ConsolidationScenario,
    scene: &'a Scene,
    scheme: Scheme,
    /// Pieces of each instance, of equal size; piece `p` belongs to instance
    /// `p / of_each`.
    of_each: usize,
}

/// Runs `scheme`. A placement is made before each interval from what was seen
/// until then; what it moves loads both nodes during that interval.
pub fn drive(scenario: &ConsolidationScenario, scene: &Scene, scheme: Scheme) -> SchemeOutcome {
    let of_each = match scheme {
        Scheme::BFine | Scheme::Bloc | Scheme::Oracle => scenario.pieces,
        Scheme::OneEach | Scheme::Capacity | Scheme::BMax | Scheme::BDyn => 1,
    };
    let driver = Driver {
        scenario,
        scene,
        scheme,
        of_each,
    };
    driver.run()
}

impl Driver<'_> {
    fn run(&self) -> SchemeOutcome {
        let scene = self.scene;
        let mut forecasts = vec![Forecast::new(self.scenario.per_day()); scene.instances.len()];
        for (forecast, demand) in forecasts.iter_mut().zip(&scene.demand) {
            for seen in &demand[..scene.history] {
                forecast.observe(*seen);
            }
        }
        let expected = |forecasts: &[Forecast]| -> Vec<f64> {
            forecasts.iter().map(|f| f.next().unwrap_or(0.0)).collect()
        };
        let start = self.one_each();
        let mut placement = self.first(&expected(&forecasts), &start);
        let moved = (0..start.len()).filter(|piece| placement[*piece] != start[*piece]);
        let initially_moved_gb = moved.map(|piece| self.size(piece)).sum();
        let mut totals = Totals::default();
        let order = self.order(|a, b| scene.true_pair(a, b));
        for interval in scene.history..scene.history + scene.intervals {
            let mut moves = Vec::new();
            if interval > scene.history {
                match self.scheme {
                    Scheme::BDyn | Scheme::Bloc => {
                        let pieces = self.demanding(&expected(&forecasts));
                        moves = self.mirrored(&pieces, |packing| packing.repack(&placement));
                        for to in &moves {
                            placement[to.piece] = Some(to.to);
                        }
                    }
                    Scheme::Oracle => placement = self.oracle_placement(interval, &order),
                    _ => {}
                }
            }
            self.simulate_interval(interval, &placement, &moves, &mut totals);
            for (forecast, demand) in forecasts.iter_mut().zip(&scene.demand) {
                forecast.observe(demand[interval]);
            }
        }
        self.outcome(&totals, initially_moved_gb)
    }

    /// Every instance on a node of its own, those with the highest demand on
    /// the largest.
    fn one_each(&self) -> Vec<Option<usize>> {
        let scene = self.scene;
        let mean = |instance: &usize| scene.mean_demand[scene.instances[*instance].app];
        let mut by_demand: Vec<usize> = (0..scene.instances.len()).collect();
        by_demand.sort_by(|a, b| mean(b).total_cmp(&mean(a)).then(a.cmp(b)));
        let mut node = vec![0; by_demand.len()];
        for (store, instance) in by_demand.into_iter().enumerate() {
            node[instance] = store;
        }
        (0..node.len() * self.of_each)
            .map(|piece| Some(node[self.instance(piece)]))
            .collect()
    }

    /// With instances that are not divided.
    fn whole(&self) -> Driver<'_> {
        Driver {
            of_each: 1,
            ..*self
        }
    }

    fn instance(&self, piece: usize) -> usize {
        piece / self.of_each
    }

    /// Share of an instance that a piece is.
    fn share(&self) -> f64 {
        1.0 / self.of_each as f64
    }

    fn app(&self, instance: usize) -> &StorageApp {
        &self.scenario.apps[self.scene.instances[instance].app]
    }

    fn size(&self, piece: usize) -> f64 {
        self.scene.instances[self.instance(piece)].size_gb * self.share()
    }

    /// Pieces with so much demand of each instance.
    fn demanding(&self, demand: &[f64]) -> Vec<Piece> {
        (0..demand.len() * self.of_each)
            .map(|piece| {
                let instance = self.instance(piece);
                let app = self.app(instance);
                Piece {
                    bandwidth: demand[instance] * self.share(),
                    capacity: self.size(piece),
                    bandwidth_limit: app.bandwidth_limit,
                    capacity_limit: app.capacity_limit,
                }
            })
            .collect()
    }

    /// Interference of two pieces by that of their applications: of shares x
    /// and y of two instances, x·y of what whole ones suffer. Parts of one
    /// instance do not disturb each other.
    fn pair(&self, of: impl Fn(usize, usize) -> f64, a: usize, b: usize) -> f64 {
        let (a, b) = (self.instance(a), self.instance(b));
        if a == b {
            return 0.0;
        }
        let instances = &self.scene.instances;
        of(instances[a].app, instances[b].app) * self.share() * self.share()
    }

    /// The placement of the first interval, from `expected` demand. What finds
    /// no node stays where it is in `start`.
    fn first(&self, expected: &[f64], start: &[Option<usize>]) -> Vec<Option<usize>> {
        let scene = self.scene;
        let seen = self.order(|a, b| scene.mirrored[a][b]);
        let in_order = |packing: Packing| packing.consolidate_in(&seen);
        let placed = match self.scheme {
            Scheme::OneEach => return start.to_vec(),
            Scheme::Capacity => {
                let mut pieces = self.demanding(&vec![0.0; expected.len()]);
                for piece in &mut pieces {
                    piece.bandwidth_limit = 1.0;
                }
                self.pack(&pieces, |_, _| 0.0, |packing| packing.consolidate())
            }
            Scheme::BMax => {
                let past = scene.demand.iter().map(|demand| &demand[..scene.history]);
                let peak = past.map(|past| past.iter().copied().fold(0.0, f64::max));
                self.mirrored(&self.demanding(&peak.collect::<Vec<_>>()), in_order)
            }
            Scheme::BDyn | Scheme::BFine | Scheme::Bloc => {
                self.mirrored(&self.demanding(expected), in_order)
            }
            Scheme::Oracle => {
                self.oracle_placement(scene.history, &self.order(|a, b| scene.true_pair(a, b)))
            }
        };
        let found = placed.into_iter().zip(start);
        found.map(|(placed, start)| placed.or(*start)).collect()
    }

    /// Packs with what mirrors measured.
    fn mirrored<T>(&self, pieces: &[Piece], with: impl FnOnce(Packing) -> T) -> T {
        self.pack(pieces, |a, b| self.scene.mirrored[a][b], with)
    }

    fn pack<T>(
        &self,
        pieces: &[Piece],
        of: impl Fn(usize, usize) -> f64,
        with: impl FnOnce(Packing) -> T,
    ) -> T {
        with(Packing {
            pieces,
            stores: &self.scene.stores,
            pairs: &|a, b| self.pair(&of, a, b),
            rules: self.scenario.rules(),
        })
    }

    /// Pieces in the order of algorithm 1, by what `of` says of pairs of
    /// applications: that of whole instances. Taken piece by piece, those of one
    /// instance, which do not disturb each other, would all come first, and the
    /// order would say nothing.
    fn order(&self, of: impl Fn(usize, usize) -> f64) -> Vec<usize> {
        let whole = self.whole();
        let instances = whole.demanding(&vec![0.0; self.scene.instances.len()]);
        let each = self.of_each;
        whole
            .pack(&instances, of, |packing| packing.order())
            .into_iter()
            .flat_map(|instance| instance * each..(instance + 1) * each)
            .collect()
    }

    /// The oracle's placement of `interval`.
    fn oracle_placement(&self, interval: usize, order: &[usize]) -> Vec<Option<usize>> {
        let demand: Vec<f64> = self.scene.demand.iter().map(|d| d[interval]).collect();
        let truth = |a, b| self.scene.true_pair(a, b);
        self.pack(&self.demanding(&demand), truth, |packing| {
            packing.consolidate_in(order)
        })
    }

    /// Simulates `interval` with the true demand.
    fn simulate_interval(
        &self,
        interval: usize,
        placement: &[Option<usize>],
        moves: &[Move],
        totals: &mut Totals,
    ) {
        let scene = self.scene;
        let seconds = (self.scenario.interval_minutes * 60) as f64;
        let share = self.share();
        let stores = scene.stores.len();
        // By node: MB/s, GB, and shares of the instances there.
        let mut bandwidth = vec![0.0; stores];
        let mut capacity = vec![0.0; stores];
        let mut there: Vec<Vec<(usize, f64)>> = vec![Vec::new(); stores];
        for (piece, store) in placement.iter().enumerate() {
            let Some(store) = *store else { continue };
            let instance = self.instance(piece);
            bandwidth[store] += scene.demand[instance][interval] * share;
            capacity[store] += self.size(piece);
            match there[store].last_mut() {
                Some((last, sum)) if *last == instance => *sum += share,
                _ => there[store].push((instance, share)),
            }
            totals.served += scene.demand[instance][interval] * share * seconds;
        }
        for step in moves {
            let megabytes = self.size(step.piece) * 1000.0;
            totals.moved += megabytes;
            for store in [step.from, step.to] {
                bandwidth[store] += megabytes / seconds;
            }
        }
        totals.migrations += moves.len();
        let mut performance = vec![0.0; scene.instances.len()];
        for (store, members) in there.iter().enumerate() {
            let rated = &scene.stores[store];
            let bandwidth = bandwidth[store] / rated.bandwidth;
            let capacity = capacity[store] / rated.capacity;
            for (instance, share) in members {
                let alone = self.performance_alone(*instance, bandwidth, capacity);
                performance[*instance] +=
                    share * alone * self.interference_factor(*instance, members, interval);
            }
            if !members.is_empty() {
                totals.utilization += bandwidth;
                let idle = self.scenario.idle_power;
                totals.energy += idle + (1.0 - idle) * bandwidth.min(1.0);
            }
        }
        let active = there.iter().filter(|members| !members.is_empty()).count();
        totals.active += active;
        totals.most_nodes = totals.most_nodes.max(active);
        for performance in performance {
            totals.instance_intervals += 1;
            totals.performance += performance;
            totals.lost_3 += usize::from(performance < 0.97);
            totals.lost_10 += usize::from(performance < 0.90);
        }
    }

    /// Throughput within the latency bound on a node so much in use: all of it
    /// up to the instance's limits, beyond them what they leave.
    fn performance_alone(&self, instance: usize, bandwidth: f64, capacity: f64) -> f64 {
        let app = self.app(instance);
        (app.bandwidth_limit / bandwidth).min(1.0) * (app.capacity_limit / capacity).min(1.0)
    }

    /// What the others leave of it: for each, its loss beside a whole one at
    /// mean demand, by how much of it is there and how busy it is.
    fn interference_factor(
        &self,
        instance: usize,
        members: &[(usize, f64)],
        interval: usize,
    ) -> f64 {
        let scene = self.scene;
        let app = scene.instances[instance].app;
        let mut left = 1.0;
        for (other, share) in members.iter().filter(|(other, _)| *other != instance) {
            let by = scene.instances[*other].app;
            let busy = scene.demand[*other][interval] / scene.mean_demand[by];
            left *= 1.0 - (scene.loss[app][by] * share * busy).min(1.0);
        }
        left
    }

    fn outcome(&self, totals: &Totals, initially_moved_gb: f64) -> SchemeOutcome {
        let stores = self.scene.stores.len();
        let all = (stores * self.scene.intervals) as f64;
        // Without consolidation every node is on, and serves the same.
        let idle = self.scenario.idle_power;
        let baseline = all * idle + (1.0 - idle) * self.spread_utilization();
        let (active, energy, most_nodes) = match self.scheme {
            Scheme::OneEach => (all, baseline, stores),
            _ => (totals.active as f64, totals.energy, totals.most_nodes),
        };
        let instance_intervals = totals.instance_intervals.max(1) as f64;
        SchemeOutcome {
            scheme: self.scheme,
            active_share: active / all,
            energy_factor: baseline / energy,
            mean_performance: totals.performance / instance_intervals,
            losing_over_3_percent: totals.lost_3 as f64 / instance_intervals,
            losing_over_10_percent: totals.lost_10 as f64 / instance_intervals,
            utilization: totals.utilization / active.max(1.0),
            migrations: totals.migrations,
            migration_bandwidth_share: totals.moved / (totals.moved + totals.served).max(1e-9),
            initially_moved_gb,
            most_nodes,
        }
    }

    /// Utilization summed over nodes and intervals with a node each.
    fn spread_utilization(&self) -> f64 {
        let measured = self.scene.history..self.scene.history + self.scene.intervals;
        let start = self.whole().one_each();
        start
            .iter()
            .enumerate()
            .filter_map(|(instance, store)| {
                let rated = self.scene.stores[(*store)?].bandwidth;
                let demand = &self.scene.demand[instance][measured.clone()];
                Some(demand.iter().map(|mb| (mb / rated).min(1.0)).sum::<f64>())
            })
            .sum()
    }
}

#[derive(Default)]
struct Totals {
    active: usize,
    energy: f64,
    utilization: f64,
    performance: f64,
    instance_intervals: usize,
    lost_3: usize,
    lost_10: usize,
    migrations: usize,
    /// MB.
    moved: f64,
    served: f64,
    most_nodes: usize,
}
