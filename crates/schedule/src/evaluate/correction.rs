//! A small learned correction: how much of what the resources of a kind are
//! predicted to cost is really lost, and what is lost on top.

use crate::predict::LANES;
use crate::predict::LaneSet;
use crate::predict::Pressure;
use crate::predict::Responses;
use crate::predict::core_private;
use crate::predict::performance;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;

/// Kinds of resources: the CPU's time, what belongs to a core, caches and
/// memory, devices; and the constant.
const KINDS: usize = 5;

/// How much evidence it takes to move a coefficient from where it starts, in
/// units of ln performance squared.
const STIFFNESS: f64 = 0.1;

/// ln performance that each kind is predicted to cost; 1 for the constant.
pub type Parts = [f64; KINDS];

/// One recorded performance.
#[derive(Clone, Debug)]
pub struct Observation {
    pub group: usize,
    pub parts: Parts,
    /// ln performance that each resource but the CPU's time is predicted to cost.
    pub lanes: Vec<f64>,
    pub ln: f64,
}

/// Factors by kind, and what is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    pub factors: Parts,
}

fn kind(lane: usize) -> usize {
    let resource = Resource::ALL[lane];
    match resource.row().domain {
        _ if resource == Resource::CpuTime => 0,
        _ if core_private(lane) => 1,
        Domain::BlockDevice | Domain::NetworkDevice => 3,
        _ => 2,
    }
}

impl Correction {
    /// Nothing is corrected.
    pub const NONE: Correction = Correction {
        factors: [1.0, 1.0, 1.0, 1.0, 0.0],
    };

    /// What each kind is predicted to cost.
    pub fn parts(responses: &Responses, pressure: &Pressure, counted: LaneSet) -> Parts {
        let mut parts = [0.0, 0.0, 0.0, 0.0, 1.0];
        for (of_kind, part) in parts.iter_mut().enumerate().take(KINDS - 1) {
            let lanes = (0..LANES).filter(|lane| kind(*lane) == of_kind);
            let lanes: LaneSet = lanes.collect();
            let expected = performance(responses, pressure, counted.and(lanes));
            *part = f64::from(expected.ln);
        }
        parts
    }

    /// What each resource but the CPU's time is predicted to cost.
    pub fn lanes(responses: &Responses, pressure: &Pressure, counted: LaneSet) -> Vec<f64> {
        let lanes = counted.iter().filter(|lane| kind(*lane) != 0);
        lanes
            .map(|lane| {
                let only = std::iter::once(lane).collect();
                f64::from(performance(responses, pressure, only).ln)
            })
            .collect()
    }

    /// Least squares, each coefficient drawn to that of [`Correction::NONE`]
    /// (ridge).
    pub fn learned<'a>(observations: impl Iterator<Item = &'a Observation>) -> Self {
        let start = Correction::NONE.factors;
        let mut matrix = [[0.0; KINDS]; KINDS];
        let mut right = [0.0; KINDS];
        for (kind, row) in matrix.iter_mut().enumerate() {
            row[kind] = STIFFNESS;
        }
        // The constant has a variable that is always 1: as stiff as the others
        // with a typical loss of a tenth.
        matrix[KINDS - 1][KINDS - 1] = 100.0 * STIFFNESS;
        for observation in observations {
            let predicted: f64 = observation
                .parts
                .iter()
                .zip(&start)
                .map(|(x, f)| x * f)
                .sum();
            let left = observation.ln - predicted;
            let parts = &observation.parts;
            for ((row, right), a) in matrix.iter_mut().zip(&mut right).zip(parts) {
                *right += a * left;
                for (value, b) in row.iter_mut().zip(parts) {
                    *value += a * b;
                }
            }
        }
        let moved = solved(matrix, right);
        Correction {
            factors: std::array::from_fn(|kind| start[kind] + moved[kind]),
        }
    }

    /// Performance.
    pub fn applied(&self, parts: &Parts) -> f64 {
        let ln: f64 = parts.iter().zip(&self.factors).map(|(x, f)| x * f).sum();
        ln.exp()
    }
}

/// The solution of a symmetric, positive definite system (Gauss).
fn solved(mut matrix: [[f64; KINDS]; KINDS], mut right: [f64; KINDS]) -> [f64; KINDS] {
    for at in 0..KINDS {
        let row = matrix[at];
        for below in at + 1..KINDS {
            let factor = matrix[below][at] / row[at];
            for (value, above) in matrix[below].iter_mut().zip(&row) {
                *value -= factor * above;
            }
            right[below] -= factor * right[at];
        }
    }
    for at in (0..KINDS).rev() {
        for after in at + 1..KINDS {
            right[at] -= matrix[at][after] * right[after];
        }
        right[at] /= matrix[at][at];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_factors_that_data_were_made_with_and_stays_without_data() {
        let factors = [1.0, 0.4, 1.5, 0.8, -0.02];
        let parts = |step: usize| -> Parts {
            let x = |k: usize| ((step * (2 * k + 3) + k) % 17) as f64 / -20.0;
            [x(0), x(1), x(2), x(3), 1.0]
        };
        let observations: Vec<Observation> = (0..400)
            .map(|step| Observation {
                group: step,
                parts: parts(step),
                lanes: Vec::new(),
                ln: parts(step).iter().zip(&factors).map(|(x, f)| x * f).sum(),
            })
            .collect();
        let learned = Correction::learned(observations.iter());
        for (found, truth) in learned.factors.iter().zip(&factors) {
            assert!((found - truth).abs() < 0.03, "{learned:?}");
        }
        assert_eq!(Correction::learned(std::iter::empty()), Correction::NONE);
    }
}
