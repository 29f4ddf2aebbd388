//! The ground truth of a consolidation, and what schemes observe of it.

use super::scenario::ConsolidationScenario;
use super::scenario::StorageApp;
use jostle_schedule::policies::bloc::Store;
use jostle_statistics::ByNumber;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::StandardNormal;

/// One instance of an application.
pub struct Instance {
    /// Index into the scenario's applications.
    pub app: usize,
    pub size_gb: f64,
}

/// Everything that one seed makes of a scenario.
pub struct Scene {
    /// Largest rated bandwidth first.
    pub stores: Vec<Store>,
    pub instances: Vec<Instance>,
    /// Mean demand over the day by application, MB/s.
    pub mean_demand: Vec<f64>,
    /// MB/s by instance and interval, history first.
    pub demand: Vec<Vec<f64>>,
    /// Intervals before those measured, and measured.
    pub history: usize,
    pub intervals: usize,
    /// True loss of an instance of the first application beside one of the
    /// second, both whole and at their mean demand.
    pub loss: Vec<Vec<f64>>,
    /// Mean of both losses of a pair, as mirrors measured it; symmetric.
    pub mirrored: Vec<Vec<f64>>,
}

/// Share of the day's peak demand at `hour`: a raised cosine, squared so that
/// nights are longer than peaks.
fn daily_peak(app: &StorageApp, hour: f64) -> f64 {
    let angle = (hour - app.peak_hour) / 24.0 * std::f64::consts::TAU;
    (0.5 * (1.0 + angle.cos())).powi(2)
}

/// Demand at `hour` over the mean of the day.
fn shape(app: &StorageApp, hour: f64) -> f64 {
    // The bump's mean over a day.
    const MEAN: f64 = 0.375;
    let low = (1.0 - MEAN * app.peak_over_mean) / (1.0 - MEAN);
    low + (app.peak_over_mean - low) * daily_peak(app, hour)
}

impl Scene {
    pub fn draw(scenario: &ConsolidationScenario, seed: u64) -> Scene {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let nodes = scenario.nodes.iter().flat_map(|kind| {
            let store = Store {
                bandwidth: kind.bandwidth_mb_per_s,
                capacity: kind.capacity_gb,
            };
            std::iter::repeat_n(store, kind.count)
        });
        let mut stores: Vec<Store> = nodes.collect();
        stores.sort_by_number(|store| -store.bandwidth);
        let mut instances = Vec::new();
        for (app, kind) in scenario.apps.iter().enumerate() {
            let [least, most] = kind.size_gb;
            instances.extend((0..kind.instances).map(|_| Instance {
                app,
                size_gb: least + (most - least) * rng.random::<f64>(),
            }));
        }
        let per_day = scenario.per_day();
        let history = scenario.history_days * per_day;
        let intervals = scenario.days * per_day;
        let app = |instance: &Instance| &scenario.apps[instance.app];
        let demand = instances
            .iter()
            .map(|instance| demand(scenario, app(instance), history + intervals, &mut rng))
            .collect();
        let loss = losses(scenario, &mut rng);
        let mirrored = mirrored(scenario, &loss, &mut rng);
        Scene {
            stores,
            instances,
            mean_demand: (scenario.apps.iter().map(|app| app.bandwidth_mb_per_s)).collect(),
            demand,
            history,
            intervals,
            loss,
            mirrored,
        }
    }

    /// Mean loss of a pair of applications, as it is.
    pub fn true_pair(&self, a: usize, b: usize) -> f64 {
        true_pair(&self.loss, a, b)
    }

    /// Mean absolute error of what mirrors measured.
    pub fn mirror_error(&self) -> f64 {
        let pairs = pairs(self.loss.len());
        let error =
            |(a, b): &(usize, usize)| (self.mirrored[*a][*b] - self.true_pair(*a, *b)).abs();
        pairs.iter().map(error).sum::<f64>() / pairs.len() as f64
    }
}

fn true_pair(loss: &[Vec<f64>], a: usize, b: usize) -> f64 {
    (loss[a][b] + loss[b][a]) / 2.0
}

/// All pairs of so many applications, also of one with itself.
fn pairs(apps: usize) -> Vec<(usize, usize)> {
    let with = |a| (a..apps).map(move |b| (a, b));
    (0..apps).flat_map(with).collect()
}

fn demand(
    scenario: &ConsolidationScenario,
    app: &StorageApp,
    intervals: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<f64> {
    let mut spike = 0;
    (0..intervals)
        .map(|interval| {
            let hour = (interval * scenario.interval_minutes) as f64 / 60.0 % 24.0;
            let noise: f64 = rng.sample(StandardNormal);
            let mut demand = app.bandwidth_mb_per_s * shape(app, hour).max(0.0);
            demand *= (noise * scenario.demand_noise).exp();
            if rng.random::<f64>() < scenario.spike_chance {
                spike = 2;
            }
            if spike > 0 {
                spike -= 1;
                demand *= scenario.spike_factor;
            }
            demand
        })
        .collect()
}

/// Loss by ordered pair: sensitivity of the one times force of the other, both
/// small for most, and a factor for the pair.
fn losses(scenario: &ConsolidationScenario, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    let apps = scenario.apps.len();
    let mut skewed = || rng.random::<f64>().powi(3);
    let sensitivity: Vec<f64> = (0..apps).map(|_| skewed()).collect();
    let force: Vec<f64> = (0..apps).map(|_| skewed()).collect();
    let most = scenario.most_interference;
    let mut loss = |sensitivity: f64, force: f64| {
        let pair = 0.5 + rng.random::<f64>();
        (most * sensitivity * force * pair).min(most)
    };
    let mut all = |sensitivity: &f64| force.iter().map(|it| loss(*sensitivity, *it)).collect();
    sensitivity.iter().map(&mut all).collect()
}

/// Pair interference with the mirrors' error, never below none. Errors grow
/// with what is measured; their mean over pairs is the scenario's.
fn mirrored(
    scenario: &ConsolidationScenario,
    loss: &[Vec<f64>],
    rng: &mut ChaCha8Rng,
) -> Vec<Vec<f64>> {
    let apps = loss.len();
    let pairs = pairs(apps);
    let sum: f64 = pairs.iter().map(|(a, b)| true_pair(loss, *a, *b)).sum();
    let mean = sum / pairs.len() as f64;
    // |N(0, σ)| has the mean σ·√(2/π).
    let sd = scenario.mirror_error * (std::f64::consts::PI / 2.0).sqrt();
    let mut seen = vec![vec![0.0; apps]; apps];
    for (a, b) in pairs {
        let truth = true_pair(loss, a, b);
        let weight = match mean > 0.0 {
            true => 0.2 + 0.8 * truth / mean,
            false => 1.0,
        };
        let size = weight * sd * rng.sample::<f64, _>(StandardNormal).abs();
        // Where it would fall below none it errs upwards.
        let over = rng.random::<f64>() < scenario.mirror_overestimates || size > truth;
        let found = if over { truth + size } else { truth - size };
        seen[a][b] = found;
        seen[b][a] = found;
    }
    seen
}
