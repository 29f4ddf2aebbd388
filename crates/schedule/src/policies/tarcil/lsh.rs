//! Units with similar contention, found without comparing them.

use crate::predict::LANES;
use crate::predict::Lanes;
use jostle_profile::resource::Resource;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::StandardNormal;

/// Directions told apart, per platform (Tarcil, section 7.4.1).
pub const DIRECTIONS: usize = 20;

/// Upper ends of the bins of magnitude, in points of the greatest contention.
pub const MAGNITUDES: [f32; 4] = [10.0, 25.0, 50.0, 100.0];

/// The bucket of units that nobody disturbs.
pub const UNDISTURBED: usize = DIRECTIONS * MAGNITUDES.len();

/// Buckets per platform.
pub const BUCKETS: usize = UNDISTURBED + 1;

/// Planes through the origin.
const PLANES: usize = 5;

/// Hashes by the cosine between vectors: on which sides of random planes a
/// vector lies. Four planes make sixteen cells, and a fifth one splits four of
/// those, which makes the paper's twenty. The cosine is blind to how long a
/// vector is and has no meaning for zero; so a bin of magnitude is added, and
/// zero has a bucket of its own.
#[derive(Clone, Debug)]
pub struct Lsh {
    normals: [Lanes<f32>; PLANES],
}

impl Lsh {
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normals = [[0.0; LANES]; PLANES];
        // The resources of the papers first: a seed keeps its planes when
        // others are added.
        for generated in [true, false] {
            for plane in &mut normals {
                for (resource, normal) in Resource::ALL.iter().zip(plane) {
                    if resource.row().generated == generated {
                        *normal = rng.sample(StandardNormal);
                    }
                }
            }
        }
        Lsh { normals }
    }

    /// 0 … [`DIRECTIONS`]; the same for a vector and any positive multiple.
    pub fn direction(&self, vector: &Lanes<f32>) -> usize {
        let mut sides = 0;
        for (plane, normal) in self.normals.iter().enumerate() {
            let dot: f32 = normal.iter().zip(vector).map(|(a, b)| a * b).sum();
            sides |= usize::from(dot >= 0.0) << plane;
        }
        let (cell, fifth) = (sides & 15, sides >> 4);
        match cell {
            12.. => 12 + 2 * (cell - 12) + fifth,
            _ => cell,
        }
    }

    /// 0 … [`BUCKETS`].
    pub fn bucket(&self, contention: &Lanes<f32>) -> usize {
        let most = contention.iter().copied().fold(0.0, f32::max);
        if most <= 0.0 {
            return UNDISTURBED;
        }
        magnitude(most) * DIRECTIONS + self.direction(contention)
    }
}

/// The bin that the greatest contention, in points, falls into.
fn magnitude(most: f32) -> usize {
    MAGNITUDES
        .iter()
        .position(|end| most <= *end)
        .unwrap_or(MAGNITUDES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(rng: &mut ChaCha8Rng) -> Lanes<f32> {
        let mut vector = [0.0; LANES];
        for value in vector.iter_mut() {
            *value = rng.random::<f32>().powi(3) * 50.0;
        }
        vector
    }

    #[test]
    fn zero_has_its_own_bucket_and_length_only_moves_the_bin() {
        let lsh = Lsh::new(1);
        assert_eq!(lsh.bucket(&[0.0; LANES]), UNDISTURBED);
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..200 {
            let long = vector(&mut rng);
            let short = long.map(|value| value * 0.01);
            assert_eq!(lsh.direction(&long), lsh.direction(&short));
            assert!(lsh.bucket(&long) < UNDISTURBED);
            assert_eq!(lsh.bucket(&short), lsh.direction(&short));
        }
        assert_eq!(magnitude(10.0), 0);
        assert_eq!(magnitude(10.1), 1);
        assert_eq!(magnitude(300.0), 3);
    }

    #[test]
    fn all_directions_occur_and_no_other() {
        let lsh = Lsh::new(3);
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut seen = [false; DIRECTIONS];
        for _ in 0..20_000 {
            let mut any = [0.0; LANES];
            for value in any.iter_mut() {
                *value = rng.sample(StandardNormal);
            }
            seen[lsh.direction(&any)] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn close_vectors_collide_more_than_far_ones() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut close, mut far) = (0, 0);
        for seed in 0..1000 {
            let lsh = Lsh::new(seed);
            let (a, other) = (vector(&mut rng), vector(&mut rng));
            let near = a.map(|value| value * (0.95 + 0.1 * rng.random::<f32>()));
            close += u32::from(lsh.direction(&a) == lsh.direction(&near));
            far += u32::from(lsh.direction(&a) == lsh.direction(&other));
        }
        assert!(close > 900, "{close} of 1000 close pairs collide");
        assert!(
            far < close / 2,
            "{far} far pairs collide, {close} close ones"
        );
    }
}
