//! What a profile says of performance under pressure, as tables that are quick
//! to read.

use super::cpu::CpuNeed;
use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::unexplained::ResidualSpread;
use jostle_profile::resource::Resource;

/// The lane of the last-level cache.
pub(super) const CACHE: usize = Resource::LlcCapacity as usize;

/// Points of a table: intensity 0, 4, 8 … 100.
pub const GRID: usize = 26;

/// Points of intensity between two entries of a table.
pub const GRID_STEP: f32 = 100.0 / (GRID - 1) as f32;

/// Performance against intensity on one resource, as what is believed of its
/// logarithm: products of losses become sums, and so do their variances.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    lane: u8,
    /// ln of performance (1 = undisturbed) at 0, 4 … 100, never above 0, never
    /// rising; and the variance of what is believed of it. Side by side, as
    /// they are read together.
    points: [[f32; 2]; GRID],
}

impl Curve {
    /// A curve on `lane` from ln performance and its variance on the grid.
    /// What is above 0 or rises is brought down to the least before it.
    ///
    /// # Panics
    ///
    /// When `lane` is not below [`LANES`].
    pub fn new(lane: usize, mut ln: [f32; GRID], variance: [f32; GRID]) -> Self {
        assert!(lane < LANES, "there are {LANES} lanes");
        let mut least = 0.0f32;
        for value in &mut ln {
            least = least.min(*value);
            *value = least;
        }
        Curve {
            lane: lane as u8,
            points: std::array::from_fn(|step| [ln[step], variance[step].max(0.0)]),
        }
    }

    pub fn lane(&self) -> usize {
        usize::from(self.lane)
    }

    /// True when no loss is believed possible at any pressure.
    pub fn costs_nothing(&self) -> bool {
        self.points.iter().all(|point| *point == [0.0, 0.0])
    }

    /// ln performance at `pressure` (points, held within 0–100), the variance
    /// of that belief, and the slope per point of pressure.
    #[inline]
    pub fn at(&self, pressure: f32) -> (f32, f32, f32) {
        let place = (pressure * (1.0 / GRID_STEP)).clamp(0.0, (GRID - 1) as f32);
        let below = (place as usize).min(GRID - 2);
        let share = place - below as f32;
        let ([ln, variance], [next_ln, next_variance]) =
            (self.points[below], self.points[below + 1]);
        let rise = next_ln - ln;
        let ln = ln + share * rise;
        let variance = variance + share * (next_variance - variance);
        (ln, variance, rise * (1.0 / GRID_STEP))
    }
}

/// What an application asks of a disk without neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskUse {
    /// In a second.
    pub requests: f32,
    /// Share of the time in which the disk works for it, 0–1.
    pub busy: f32,
}

impl DiskUse {
    /// Seconds that the disk works for one request.
    pub fn service(self) -> f32 {
        self.busy / self.requests.max(1.0)
    }
}

/// Everything that prediction needs of one application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responses {
    /// Only of resources on which performance bends; the others cost nothing.
    pub curves: Vec<Curve>,
    /// Resources of which a curve is known, flat ones included.
    pub known: LaneSet,
    /// Points of pressure it causes, and the standard deviation of that belief;
    /// 0 where not known.
    pub caused: Lanes<f32>,
    pub caused_sd: Lanes<f32>,
    pub caused_known: LaneSet,
    /// What it wants of a CPU that it shares; `None` where nothing is known.
    pub cpu: Option<CpuNeed>,
    /// ln that the interrupts of its disk leave of the CPU that serves them, and
    /// the variance of that.
    pub interrupts: (f32, f32),
    /// What it asks of a disk; `None` for one that uses none, or where it was not
    /// read.
    pub disk: Option<DiskUse>,
    /// The chance that its own CPU is the one that serves its neighbours' disks.
    pub serving_chance: f32,
    /// What profiles do not explain of the performance beside others, on CPUs of their
    /// own and on a shared one.
    pub unexplained: [ResidualSpread; 2],
    /// ln performance with all of the last-level cache taken away, 0 where that is not
    /// known: what it keeps there.
    pub without_cache: f32,
    /// ln of what it gains while others keep the other CPUs awake, and the variance of
    /// that: one that waits for a device is woken from there.
    pub gains: (f32, f32),
    /// Resources whose curve, and whose pressure, is what the population of
    /// profiles has there, as nothing was measured.
    pub assumed: LaneSet,
    pub caused_assumed: LaneSet,
}

/// ln performance without the last-level cache of an application that uses all that it
/// may have of it.
const USES_THE_CACHE: f32 = -0.3;

impl Responses {
    /// How much of the last-level cache it holds against others, 0–1. A program that
    /// loses without that cache keeps its data there.
    pub fn holds_cache(&self) -> f32 {
        (self.without_cache / USES_THE_CACHE).min(1.0)
    }

    /// CPUs that it keeps busy, as far as is known.
    pub fn busy(&self) -> f32 {
        self.cpu.map_or(0.0, |need| need.demand)
    }

    /// True where others may feel it on one of the `counted` resources.
    pub fn presses_on(&self, counted: LaneSet) -> bool {
        !self.caused_known.and(counted).is_empty() || self.cpu.is_some()
    }

    /// Of `curves`; `flat` names further resources known to cost nothing.
    /// `caused` holds points of pressure and their standard deviation, `None`
    /// where nothing is known.
    pub fn new(mut curves: Vec<Curve>, flat: LaneSet, caused: &Lanes<Option<(f32, f32)>>) -> Self {
        curves.sort_by_key(|curve| curve.lane);
        curves.dedup_by_key(|curve| curve.lane);
        let mut responses = Responses {
            known: curves.iter().map(Curve::lane).collect::<LaneSet>().or(flat),
            curves,
            ..Responses::default()
        };
        let cache = responses.curves.iter().find(|curve| curve.lane() == CACHE);
        responses.without_cache = cache.map_or(0.0, |curve| curve.at(100.0).0.min(0.0));
        for (lane, entry) in caused.iter().enumerate() {
            if let Some((points, sd)) = entry {
                responses.caused[lane] = points.clamp(0.0, 100.0);
                responses.caused_sd[lane] = sd.max(0.0);
                responses.caused_known.insert(lane);
            }
        }
        responses
    }
}
