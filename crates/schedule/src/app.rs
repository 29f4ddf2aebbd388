//! An application to place: its scores, what is expected of it, what it asks for.

use crate::cluster::ids::PlatformId;
use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Lanes;
use crate::predict::Population;
use crate::predict::Responses;
use crate::predict::core_private;
use crate::predict::lane;
use crate::scaling::Scaling;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::Status;
use jostle_profile::resource::Resource;
use std::sync::Arc;

/// Fixed-point steps per point of the 0–100 scale. Scores are whole steps, so
/// that sums of them are exact: adding and removing a resident leaves a node's
/// aggregates precisely as they were.
pub const STEPS_PER_POINT: i32 = 1000;

/// 100 points.
pub const FULL_SCALE: i32 = 100 * STEPS_PER_POINT;

pub fn to_steps(points: f64) -> i32 {
    (points.clamp(0.0, 100.0) * f64::from(STEPS_PER_POINT)).round() as i32
}

pub fn to_points(steps: i32) -> f64 {
    f64::from(steps) / f64::from(STEPS_PER_POINT)
}

/// What an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// CPUs, at least 1.
    pub cpus: u32,
    pub memory_bytes: u64,
}

/// An application: the scores of its profile, and its usual demand. Everything
/// per resource stands in arrays in the order of
/// [`Resource::ALL`](jostle_profile::resource::Resource::ALL).
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    name: String,
    demand: Demand,
    /// CPU model the profile was measured on.
    pub measured_on: String,
    /// Highest intensity tolerated, in steps; the full scale where not known,
    /// so that a comparison with it excludes nothing.
    pub tolerated: Lanes<i32>,
    /// Pressure caused, in steps; 0 where not known.
    pub caused: Lanes<i32>,
    pub tolerated_known: LaneSet,
    pub caused_known: LaneSet,
    /// Resources whose scores count on nodes where applications have CPUs of
    /// their own, and where they share CPUs.
    counted: [LaneSet; 2],
    /// Why a score is missing, in words, per resource of the profile that
    /// lacks one.
    missing: Vec<(usize, String)>,
    /// Resources of the profile that this version does not know and leaves out.
    pub unknown_resources: Vec<String>,
    pub responses: Arc<Responses>,
    /// Speed per platform of the cluster, by [`PlatformId`],
    /// on any one scale; `None` where it is not known.
    platform_speed: Vec<Option<f32>>,
    /// ln of the same over the best; 0 where not known.
    platform_ln: Vec<f32>,
    /// Fraction of its undisturbed performance that it must keep.
    qos: f32,
    /// ln of the same.
    pub(crate) qos_ln: f32,
    scaling: Option<Arc<Scaling>>,
}

impl App {
    /// Takes the scores out of `profile`. Asks for 1 CPU and no memory; its
    /// speed is not known on any platform.
    pub fn new(profile: &Profile) -> Self {
        let mut app = App::bare(&profile.workload.name, Responses::from_profile(profile));
        app.measured_on = profile.machine.model.clone();
        app = app.with_qos(profile.qos.threshold);
        let scaling = profile.scaling.as_ref().and_then(Scaling::measured);
        app.scaling = scaling.map(Arc::new);
        for (id, entry) in &profile.resources {
            let Some(lane) = lane(id) else {
                app.unknown_resources.push(id.clone());
                continue;
            };
            app.set_scores(
                lane,
                entry.tolerated.map(|score| score.score),
                entry.caused.map(|score| score.score),
            );
            let same_cpu = entry
                .placement
                .as_ref()
                .is_some_and(|placement| placement.mode == PlacementMode::SameCpu);
            if same_cpu && core_private(lane) {
                app.counted[0].remove(lane);
            }
            if entry.tolerated.is_none() || entry.caused.is_none() {
                let status = match entry.status {
                    Status::Measured => "measured without this score",
                    Status::Inferred => "inferred without this score",
                    Status::NotShared => "not shared where it was measured",
                    Status::Unavailable => "unavailable",
                    Status::Unresolved => "unresolved",
                };
                let why = match &entry.reason {
                    Some(reason) => format!("{status}: {reason}"),
                    None => status.into(),
                };
                app.missing.push((lane, why));
            }
        }
        app
    }

    /// The same with what `population` has wherever `profile`, which it was made
    /// of, leaves something open.
    pub fn completed(profile: &Profile, population: &Population) -> Self {
        let mut app = App::new(profile);
        app.responses = Arc::new(Responses::completed(profile, population));
        app
    }

    /// An application without a profile: no score is known, every one counts
    /// but that of `cpu-time` where CPUs are not shared.
    pub fn bare(name: &str, responses: Responses) -> Self {
        let mut own_cpus = LaneSet::ALL;
        own_cpus.remove(Resource::CpuTime as usize);
        App {
            name: name.into(),
            demand: Demand {
                cpus: 1,
                memory_bytes: 0,
            },
            measured_on: String::new(),
            tolerated: [FULL_SCALE; LANES],
            caused: [0; LANES],
            tolerated_known: LaneSet::EMPTY,
            caused_known: LaneSet::EMPTY,
            counted: [own_cpus, LaneSet::ALL],
            missing: Vec::new(),
            unknown_resources: Vec::new(),
            responses: Arc::new(responses),
            platform_speed: Vec::new(),
            platform_ln: Vec::new(),
            qos: 0.95,
            qos_ln: 0.95f32.ln(),
            scaling: None,
        }
    }

    /// Sets the scores of one resource, in points; `None` is not known.
    pub fn set_scores(&mut self, lane: usize, tolerated: Option<f64>, caused: Option<f64>) {
        if let Some(points) = tolerated {
            self.tolerated[lane] = to_steps(points);
            self.tolerated_known.insert(lane);
        }
        if let Some(points) = caused {
            self.caused[lane] = to_steps(points);
            self.caused_known.insert(lane);
        }
    }

    /// The same with another demand; `cpus` below 1 counts as 1.
    pub fn with_demand(mut self, cpus: u32, memory_bytes: u64) -> Self {
        self.demand = Demand {
            cpus: cpus.max(1),
            memory_bytes,
        };
        self
    }

    /// The same with its speed per platform, in the order of
    /// [`Cluster::platforms`](crate::Cluster::platforms); only ratios count.
    pub fn with_platform_speed(mut self, speed: Vec<Option<f32>>) -> Self {
        self.platform_speed = speed;
        let best = self.best_speed();
        let ln = |here: &Option<f32>| match (here, best) {
            (Some(here), Some(best)) if *here > 0.0 => (here / best).ln(),
            _ => 0.0,
        };
        self.platform_ln = self.platform_speed.iter().map(ln).collect();
        self
    }

    /// The same with a QoS of `threshold` (fraction of undisturbed, 0–1).
    pub fn with_qos(mut self, threshold: f64) -> Self {
        self.qos = threshold.clamp(0.01, 1.0) as f32;
        self.qos_ln = self.qos.ln();
        self
    }

    /// The same with known speed-ups by CPUs and by nodes.
    pub fn with_scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = Some(Arc::new(scaling));
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn demand(&self) -> Demand {
        self.demand
    }

    pub fn cpus(&self) -> u32 {
        self.demand.cpus
    }

    pub fn memory_bytes(&self) -> u64 {
        self.demand.memory_bytes
    }

    /// The resources on which it and its neighbours meet on a node that
    /// `shares_cpus` or does not (see the text of [`schedule`](super)).
    pub fn counted(&self, shares_cpus: bool) -> LaneSet {
        self.counted[usize::from(shares_cpus)]
    }

    /// The resources of [`Self::counted`] on which what it causes is known.
    pub fn caused_on(&self, shares_cpus: bool) -> LaneSet {
        self.caused_known.and(self.counted(shares_cpus))
    }

    /// Likewise on which what it tolerates is.
    pub fn tolerated_on(&self, shares_cpus: bool) -> LaneSet {
        self.tolerated_known.and(self.counted(shares_cpus))
    }

    /// Why a score on `lane` is missing; `None` when both are there.
    pub fn missing(&self, lane: usize) -> Option<&str> {
        if self.tolerated_known.contains(lane) && self.caused_known.contains(lane) {
            return None;
        }
        let said = self.missing.iter().find(|(at, _)| *at == lane);
        Some(said.map_or("not in its profile", |(_, why)| why))
    }

    /// True when the profile says anything of `lane`.
    pub fn mentions(&self, lane: usize) -> bool {
        self.tolerated_known.contains(lane)
            || self.caused_known.contains(lane)
            || self.missing.iter().any(|(at, _)| *at == lane)
    }

    /// Speed on a platform, on the application's own scale.
    pub fn speed_on(&self, platform: PlatformId) -> Option<f32> {
        self.platform_speed.get(platform.index()).copied().flatten()
    }

    /// Speed on a platform over the best known; 1 where either is not known.
    pub(crate) fn relative_speed(&self, platform: PlatformId) -> f64 {
        match (self.speed_on(platform), self.best_speed()) {
            (Some(speed), Some(best)) if best > 0.0 => f64::from(speed / best),
            _ => 1.0,
        }
    }

    /// ln of its speed on a platform over that on its best; 0 where not known.
    #[inline]
    pub fn platform_ln(&self, platform: PlatformId) -> f32 {
        let known = self.platform_ln.get(platform.index());
        known.copied().unwrap_or(0.0)
    }

    /// Highest known speed on any platform.
    pub fn best_speed(&self) -> Option<f32> {
        let known = self.platform_speed.iter().flatten().copied();
        known.max_by(f32::total_cmp)
    }

    /// Fraction of undisturbed performance to be kept.
    pub fn qos(&self) -> f32 {
        self.qos
    }

    pub fn scaling(&self) -> Option<&Scaling> {
        self.scaling.as_deref()
    }
}
