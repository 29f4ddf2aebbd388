//! Scores of synthetic applications, for judging how missing ones are inferred.

use super::CLASSES;
use super::archetype::SHARED;
use super::member;
use super::tolerated;
use crate::random::normal;
use jostle_profile::resource::Resource;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// What makes applications resemble each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The simulator's own: kinds of program, each with resources it lives on, and
    /// chance beyond that. Six classes, alike in number. Within a kind nothing
    /// says of one resource what another one costs.
    Kinds,
    /// So many hidden qualities, each of which moves all scores along a straight
    /// line, within 0–100, and 3 points of chance: what matrix factorization
    /// assumes.
    Qualities(usize),
}

/// True scores of `count` applications, tolerated and caused, on each of
/// [`scored`].
pub fn scores(structure: Structure, count: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    match structure {
        Structure::Kinds => (0..count).map(|at| of_kind(at, &mut rng)).collect(),
        Structure::Qualities(qualities) => of_qualities(qualities, count, &mut rng),
    }
}

/// The resources of [`scores`]: first all that is tolerated, then all that is
/// caused.
pub fn scored() -> [Resource; 10] {
    SHARED
}

fn of_kind(at: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let kind = &CLASSES[at % CLASSES.len()];
    let app = member::draw(String::new(), kind, &[], rng).app;
    let lanes = SHARED.map(|resource| resource as usize);
    let endured = lanes
        .iter()
        .map(|lane| tolerated(&app, *lane).unwrap_or(100.0));
    let caused = lanes.iter().map(|lane| f64::from(app.caused[*lane]));
    endured.chain(caused).collect()
}

fn of_qualities(qualities: usize, count: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    let columns = 2 * SHARED.len();
    let means: Vec<f64> = (0..columns).map(|_| rng.random_range(30.0..70.0)).collect();
    // As much spread, whatever their number.
    let scale = 24.0 / (qualities as f64).sqrt();
    let loadings: Vec<Vec<f64>> = (0..columns)
        .map(|_| (0..qualities).map(|_| scale * normal(rng)).collect())
        .collect();
    (0..count)
        .map(|_| {
            let here: Vec<f64> = (0..qualities).map(|_| normal(rng)).collect();
            let along =
                |loadings: &[f64]| -> f64 { loadings.iter().zip(&here).map(|(l, q)| l * q).sum() };
            let score = |(mean, loadings): (&f64, &Vec<f64>)| {
                (mean + along(loadings) + 3.0 * normal(rng)).clamp(0.0, 100.0)
            };
            means.iter().zip(&loadings).map(score).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_on_their_scale_and_repeat_with_the_seed() {
        for structure in [Structure::Kinds, Structure::Qualities(3)] {
            let all = scores(structure, 60, 3);
            assert_eq!(all, scores(structure, 60, 3));
            assert!(all.iter().all(|row| row.len() == 2 * scored().len()));
            assert!(
                all.iter()
                    .flatten()
                    .all(|score| (0.0..=100.0).contains(score))
            );
            let differs = |column: usize| all.iter().any(|row| row[column] != all[0][column]);
            assert!((0..20).filter(|column| differs(*column)).count() >= 18);
        }
    }
}
