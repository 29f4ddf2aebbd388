//! What the patterns of storage and network share: Markov chains, and the laws
//! of the times between what they draw.

use rand::Rng;
use rand::RngExt;
use rand_distr::Distribution;
use rand_distr::Exp;
use rand_distr::Exp1;
use rand_distr::Gamma;
use rand_distr::Normal;
use rand_distr::Poisson;

/// How times are spread around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrival {
    #[default]
    Fixed,
    Exponential,
    /// A whole number of µs by Poisson's law.
    Poisson,
    /// With this standard deviation as a share of the mean; never below 0.
    Normal(f32),
    /// The same, by the gamma law: bursts where it is above 1.
    Gamma(f32),
}

/// Largest spread that a normal law may have: below it, next to nothing lies
/// below 0, and the mean stays what it is.
pub const MOST_NORMAL_SPREAD: f32 = 0.34;
/// Largest spread that a gamma law may have.
pub const MOST_GAMMA_SPREAD: f32 = 30.0;

impl Arrival {
    /// The law as a number, and its spread, for patterns on a command line.
    pub(crate) fn pack(self) -> (u8, f32) {
        match self {
            Arrival::Fixed => (0, 0.0),
            Arrival::Exponential => (1, 0.0),
            Arrival::Poisson => (2, 0.0),
            Arrival::Normal(spread) => (3, spread),
            Arrival::Gamma(spread) => (4, spread),
        }
    }

    /// # Errors
    /// In words, when `law` is the number of none.
    pub(crate) fn unpack(law: u8, spread: f32) -> Result<Arrival, String> {
        Ok(match law {
            0 => Arrival::Fixed,
            1 => Arrival::Exponential,
            2 => Arrival::Poisson,
            3 => Arrival::Normal(spread),
            4 => Arrival::Gamma(spread),
            _ => return Err(format!("{law} is no law of times")),
        })
    }
}

/// A law with its numbers, ready to draw from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    Fixed(f64),
    Exponential(Exp<f64>),
    Poisson(Poisson<f64>),
    Normal(Normal<f64>),
    /// And its scale.
    Gamma(Gamma<f64>, f64),
}

impl Time {
    /// Times of `mean`. A law that does not exist for these numbers leaves the
    /// mean alone.
    pub fn of(mean: f64, arrival: Arrival) -> Time {
        let law = match arrival {
            _ if mean <= 0.0 => None,
            Arrival::Fixed => None,
            Arrival::Exponential => Exp::new(1.0 / mean).ok().map(Time::Exponential),
            Arrival::Poisson => Poisson::new(mean).ok().map(Time::Poisson),
            Arrival::Normal(spread) => Normal::new(mean, mean * f64::from(spread))
                .ok()
                .map(Time::Normal),
            Arrival::Gamma(spread) => {
                let square = f64::from(spread).powi(2);
                let scale = mean * square;
                let law = Gamma::new(1.0 / square, scale).ok();
                law.map(|law| Time::Gamma(law, scale))
            }
        };
        law.unwrap_or(Time::Fixed(mean))
    }

    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match self {
            Time::Fixed(time) => *time,
            Time::Exponential(law) => law.sample(random),
            Time::Poisson(law) => law.sample(random),
            Time::Normal(law) => law.sample(random).max(0.0),
            Time::Gamma(law, _) => law.sample(random),
        }
    }

    /// What is left of such a time at a moment that has nothing to do with it:
    /// a part, drawn evenly, of a time that is the likelier the longer it is.
    pub fn draw_rest(&self, random: &mut impl Rng) -> f64 {
        let more: f64 = match self {
            Time::Fixed(_) | Time::Normal(_) => 0.0,
            Time::Exponential(law) => law.sample(random),
            Time::Poisson(_) => 1.0,
            Time::Gamma(_, scale) => {
                let one: f64 = Exp1.sample(random);
                one * scale
            }
        };
        (self.draw(random) + more) * random.random::<f64>()
    }
}

/// The share of all steps that each of `count` states has in the long run, by
/// the elimination of Grassmann, Taksar and Heyman, which subtracts nothing and
/// so loses no digits. `steps`: from, to, probability; every state leads to
/// every other.
pub(crate) fn stationary(
    count: usize,
    steps: impl IntoIterator<Item = (usize, usize, f64)>,
) -> Vec<f64> {
    let mut chain = vec![vec![0.0; count]; count];
    for (from, to, probability) in steps {
        chain[from][to] += probability;
    }
    for last in (1..count).rev() {
        let back: f64 = chain[last][..last].iter().sum();
        for from in 0..last {
            chain[from][last] /= back;
            for to in 0..last {
                chain[from][to] += chain[from][last] * chain[last][to];
            }
        }
    }
    let mut visited = vec![1.0; count];
    for state in 1..count {
        visited[state] = (0..state)
            .map(|from| visited[from] * chain[from][state])
            .sum();
    }
    let all: f64 = visited.iter().sum();
    visited.iter().map(|visits| visits / all).collect()
}

/// What may follow each state, with the sum of the probabilities up to each, so
/// that one is drawn by one number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving(Vec<(f64, usize)>);

impl Leaving {
    /// `index` follows with `probability`.
    pub fn add(&mut self, probability: f64, index: usize) {
        let before = self.0.last().map_or(0.0, |last| last.0);
        if probability > 0.0 {
            self.0.push((before + probability, index));
        }
    }

    /// One of the indices, by their probabilities; `uniform` is from 0 to 1.
    pub fn draw(&self, uniform: f64) -> Option<usize> {
        // Rounding may leave the sum short of 1.
        let drawn = uniform * self.0.last()?.0;
        let at = self.0.partition_point(|(sum, _)| *sum <= drawn);
        Some(self.0[at.min(self.0.len() - 1)].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    #[test]
    fn what_is_left_of_a_time_follows_its_spread() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for (law, spread) in [
            (Arrival::Fixed, 0.0),
            (Arrival::Exponential, 1.0),
            (Arrival::Gamma(2.0), 2.0),
            (Arrival::Gamma(0.5), 0.5),
        ] {
            let time = Time::of(100.0, law);
            let count = 200_000;
            let sum: f64 = (0..count).map(|_| time.draw_rest(&mut random)).sum();
            let (found, expected) = (sum / f64::from(count), 50.0 * (1.0 + spread * spread));
            assert!((found / expected - 1.0).abs() < 0.03, "{law:?}: {found}");
        }
    }
}
