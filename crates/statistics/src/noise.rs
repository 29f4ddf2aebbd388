//! Noise of known law, to test statistics with.

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// Seeded normal noise and outliers.
#[derive(Debug)]
pub struct Noise {
    rng: ChaCha8Rng,
}

impl Noise {
    pub fn seeded(seed: u64) -> Self {
        Noise {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A number in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        (f64::from(self.rng.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// A standard normal number (Box & Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// ± `size` with the given chance, else 0.
    pub fn outlier(&mut self, chance: f64, size: f64) -> f64 {
        if self.uniform() >= chance {
            0.0
        } else if self.uniform() < 0.5 {
            size
        } else {
            -size
        }
    }
}
