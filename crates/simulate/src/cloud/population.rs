//! The true behaviour of batch jobs, services and co-tenants.

use super::scenario::CloudScenario;
use crate::random;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use crate::truth::TruePlatform;
use crate::truth::Truth;
use jostle_profile::resource::Resource;
use jostle_schedule::App;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::Lanes;
use jostle_schedule::predict::Responses;
use jostle_schedule::provision::LARGEST;
use jostle_schedule::provision::SIZES;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// The one platform: machines of 16 vCPUs, whole or in slices.
pub(super) const PLATFORM: &str = "cloud";

/// What applications with CPUs of their own still share.
const SHARED: [Resource; 6] = [
    Resource::LlcCapacity,
    Resource::LlcBandwidth,
    Resource::MemoryBandwidth,
    Resource::Interconnect,
    Resource::StorageBandwidth,
    Resource::NetworkBandwidth,
];

/// Different applications of each class.
const PER_CLASS: usize = 24;

/// Levels of co-tenants' load: 0, 1 … 100 %.
const LEVELS: usize = 101;

/// What a job is; as a number, its class.
#[derive(Clone, Copy, Debug)]
pub(super) enum Class {
    Batch,
    Service,
}

/// The ground truth of a cloud.
pub(super) struct Population {
    pub truth: Truth,
    shared: Vec<usize>,
}

impl Population {
    /// All of it is ours; the paper says only that batch jobs tolerate some
    /// interference and memcached does not. Batch jobs bend late and gently,
    /// services early and steeply; each on three of the six resources that
    /// applications with CPUs of their own share, and each presses three, by
    /// so many points per vCPU.
    pub(super) fn draw(scenario: &CloudScenario, seed: u64) -> Self {
        let mut rng = random::stream(seed, 1);
        let shared: Vec<usize> = SHARED.map(|resource| resource as usize).to_vec();
        let mut apps = Vec::new();
        for (class, onset, loss, shape, per_cpu) in [
            ("batch", 35.0..85.0, 0.2..0.6, 1.0..2.0, 2.0..8.0),
            ("service", 10.0..45.0, 0.7..0.98, 0.35..0.8, 1.0..5.0),
        ] {
            for number in 0..PER_CLASS {
                let curve = |lane, rng: &mut ChaCha8Rng| {
                    let from: f64 = rng.random_range(onset.clone());
                    let most = rng.random_range(loss.clone());
                    let bend: f64 = rng.random_range(shape.clone());
                    TrueCurve::new(lane, |pressure| {
                        let beyond = ((pressure - from) / (100.0 - from)).max(0.0);
                        1.0 - most * beyond.powf(bend)
                    })
                };
                let lanes = three(&mut rng, &shared);
                let curves = lanes.into_iter().map(|lane| curve(lane, &mut rng));
                let curves: Vec<TrueCurve> = curves.collect();
                let mut pressure = [0.0f64; LANES];
                for lane in three(&mut rng, &shared) {
                    pressure[lane] = rng.random_range(per_cpu.clone());
                }
                apps.extend(SIZES.map(|size| TrueApp {
                    name: format!("{class}-{number}-{size}"),
                    curves: curves.clone(),
                    caused: pressure.map(|points| (points * f64::from(size)).min(100.0) as f32),
                    speed: vec![1.0],
                    qos: scenario.qos as f32,
                    scaling: Scaling::amdahl(0.02, LARGEST, 1),
                }));
            }
        }
        for size in SIZES {
            let felt = f64::from(LARGEST - size) / f64::from(LARGEST - 1);
            for level in 0..LEVELS {
                let points = scenario.external.points_per_percent * level as f64 * felt;
                let mut caused = [0.0f32; LANES];
                for lane in &shared {
                    caused[*lane] = points.min(100.0) as f32;
                }
                apps.push(TrueApp {
                    name: format!("co-tenants-{level}-{size}"),
                    curves: Vec::new(),
                    caused,
                    speed: vec![1.0],
                    qos: 1.0,
                    scaling: Scaling::amdahl(0.0, 1, 1),
                });
            }
        }
        let platform = TruePlatform {
            name: PLATFORM.into(),
            pressure_scale: [1.0; LANES],
        };
        Population {
            truth: Truth {
                platforms: vec![platform],
                apps,
                residual_sd: scenario.residual_sd as f32,
                seed,
            },
            shared,
        }
    }

    /// A true application of `class` with the size at `size` of [`SIZES`].
    pub(super) fn app(class: Class, number: usize, size: usize) -> u32 {
        ((class as usize * PER_CLASS + number % PER_CLASS) * SIZES.len() + size) as u32
    }

    /// What co-tenants at `load` (0–1) are to a slice of the size at `size`.
    pub(super) fn co_tenants(load: f64, size: usize) -> u32 {
        let level = (load.clamp(0.0, 1.0) * (LEVELS - 1) as f64).round() as usize;
        (2 * PER_CLASS * SIZES.len() + size * LEVELS + level) as u32
    }

    /// What true application `app` presses, in points.
    pub(super) fn caused(&self, app: u32) -> &Lanes<f32> {
        &self.truth.apps[app as usize].caused
    }

    /// What profiling says of `app` on `cpus`: scores with normal error, the
    /// score of a resource on which it does not bend being 100.
    pub(super) fn estimate(&self, app: u32, cpus: u32, error: f64, rng: &mut ChaCha8Rng) -> App {
        let real = &self.truth.apps[app as usize];
        let mut estimate = App::bare(&real.name, Responses::default());
        // A mean absolute error of e is a standard deviation of e √(π/2).
        let sd = error * (std::f64::consts::PI / 2.0).sqrt();
        let noise = |rng: &mut ChaCha8Rng| sd * random::normal(rng);
        for lane in &self.shared {
            let curve = real.curves.iter().find(|curve| curve.lane() == *lane);
            let tolerated = curve.map_or(100.0, |curve| {
                let lost = |points: &u8| curve.at(f32::from(*points)) < real.qos.ln();
                let first = (0..=100).find(lost);
                first.map_or(100.0, f64::from) + noise(rng)
            });
            // The error of a pressure that is small is small.
            let caused = f64::from(real.caused[*lane]);
            let caused = caused + noise(rng) * (caused / 20.0).min(1.0);
            estimate.set_scores(*lane, Some(tolerated), Some(caused));
        }
        estimate.with_demand(cpus, 0).with_qos(f64::from(real.qos))
    }
}

/// Three different ones of `lanes`.
fn three(rng: &mut ChaCha8Rng, lanes: &[usize]) -> Vec<usize> {
    let mut left = lanes.to_vec();
    (0..3.min(left.len()))
        .map(|_| left.swap_remove(rng.random_range(0..left.len())))
        .collect()
}
