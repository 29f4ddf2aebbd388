//! The true behaviour of applications, which no policy sees.

use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::Lanes;

/// ln of performance at 0, 1 … 100 points of pressure on one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueCurve {
    lane: u8,
    ln: Box<[f32; 101]>,
}

impl TrueCurve {
    /// Performance `of` pressure 0 … 100 as a fraction of undisturbed.
    ///
    /// # Panics
    ///
    /// When `lane` is not below [`LANES`].
    pub fn new(lane: usize, of: impl Fn(f64) -> f64) -> Self {
        assert!(lane < LANES, "there are {LANES} lanes");
        let mut ln = Box::new([0.0; 101]);
        for (points, value) in ln.iter_mut().enumerate() {
            *value = of(points as f64).clamp(1e-3, 1.0).ln() as f32;
        }
        TrueCurve {
            lane: lane as u8,
            ln,
        }
    }

    pub fn lane(&self) -> usize {
        usize::from(self.lane)
    }

    /// ln performance at `pressure` points, held within 0–100.
    #[inline]
    pub fn at(&self, pressure: f32) -> f32 {
        let place = pressure.clamp(0.0, 100.0);
        let below = (place as usize).min(99);
        self.ln[below] + (place - below as f32) * (self.ln[below + 1] - self.ln[below])
    }
}

/// A platform type as it really is.
#[derive(Clone, Debug, PartialEq)]
pub struct TruePlatform {
    pub name: String,
    /// Points of pressure that one point of `c` makes here, per resource: above
    /// 1 where the resource is smaller than on the reference platform.
    pub pressure_scale: Lanes<f32>,
}

/// An application (or one phase of it) as it really is.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueApp {
    pub name: String,
    /// Only of resources on which it bends.
    pub curves: Vec<TrueCurve>,
    /// Points of pressure it causes on the reference platform, as a whole.
    pub caused: Lanes<f32>,
    /// Speed by platform, the best = 1.
    pub speed: Vec<f32>,
    /// Fraction of its undisturbed performance on its best platform to be kept.
    pub qos: f32,
    pub scaling: Scaling,
}

/// The ground truth of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    pub platforms: Vec<TruePlatform>,
    pub apps: Vec<TrueApp>,
    /// Standard deviation of ln performance by pair of applications, over what
    /// the curves say; drawn once per ordered pair from `seed`.
    pub residual_sd: f32,
    pub seed: u64,
}

impl Truth {
    /// What `other` as a neighbour adds to ln performance of `app` beyond the
    /// curves: normal with [`Self::residual_sd`], the same for each ordered
    /// pair of apps.
    #[inline]
    pub fn residual(&self, app: u32, other: u32) -> f32 {
        if self.residual_sd == 0.0 {
            return 0.0;
        }
        let mut bits = self.seed ^ (u64::from(app) << 32 | u64::from(other));
        // Twelve uniform bytes in two steps of SplitMix64; their centred sum is
        // normal enough (standard deviation 1 after scaling).
        let mut sum = 0i32;
        for _ in 0..2 {
            bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = bits;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            for byte in 0..6 {
                sum += (z >> (8 * byte) & 0xff) as i32;
            }
        }
        // 12 bytes: mean 12 × 127.5, variance 12 × (256² − 1) / 12.
        (sum as f32 - 1530.0) / 255.998 * self.residual_sd
    }
}
