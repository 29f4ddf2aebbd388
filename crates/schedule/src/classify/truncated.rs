//! A normal distribution of which only a part is possible.

/// Mean and variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Normal {
    pub mean: f64,
    pub variance: f64,
}

/// Farther out than this many standard deviations a tail is an exponential.
const FAR: f64 = 6.0;

impl Normal {
    /// Mean and variance of what lies between `low` and `high`.
    pub fn within(self, low: f64, high: f64) -> Normal {
        let sd = self.variance.sqrt();
        let (a, b) = ((low - self.mean) / sd, (high - self.mean) / sd);
        let (mean, variance) = match (a, b) {
            (a, b) if a > FAR => tail(a, b),
            (a, b) if b < -FAR => {
                let (mean, variance) = tail(-b, -a);
                (-mean, variance)
            }
            (a, b) => standard(a, b),
        };
        Normal {
            mean: (self.mean + sd * mean).clamp(low, high),
            variance: self.variance * variance.clamp(1e-9, 1.0),
        }
    }
}

fn standard(a: f64, b: f64) -> (f64, f64) {
    let mass = between(a, b).max(1e-300);
    let (at_a, at_b) = (density(a), density(b));
    let times = |x: f64, density: f64| if x.is_finite() { x * density } else { 0.0 };
    let mean = (at_a - at_b) / mass;
    let variance = 1.0 + (times(a, at_a) - times(b, at_b)) / mass - mean * mean;
    (mean, variance)
}

/// Beyond `a`, far out: an exponential of rate `a`, cut off at `b`.
fn tail(a: f64, b: f64) -> (f64, f64) {
    let width = b - a;
    let scaled = a * width;
    if scaled > 30.0 {
        return (a + 1.0 / a, 1.0 / (a * a));
    }
    let left = (-scaled).exp();
    let mean = 1.0 / a - width * left / (1.0 - left);
    let variance = 1.0 / (a * a) - width * width * left / (1.0 - left).powi(2);
    (a + mean, variance)
}

pub(super) fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Share of a standard normal distribution below `x`.
pub(super) fn cumulative(x: f64) -> f64 {
    if x > 0.0 { 1.0 - above(x) } else { above(-x) }
}

/// Share of a standard normal distribution above `x`, which is not negative.
fn above(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x < 2.5 {
        // x + x³/3 + x⁵/15 + …
        let (mut term, mut sum) = (x, x);
        for k in 1..60 {
            term *= x * x / f64::from(2 * k + 1);
            sum += term;
        }
        return 0.5 - density(x) * sum;
    }
    // The continued fraction of Mills' ratio.
    let fraction = (1..60).rev().fold(x, |below, k| x + f64::from(k) / below);
    density(x) / fraction
}

/// Share between `a` and `b`, without losing it in the difference of two numbers
/// near 1.
fn between(a: f64, b: f64) -> f64 {
    match a > 0.0 {
        true => above(a) - above(b),
        false => cumulative(b) - cumulative(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments by adding up.
    fn summed(normal: Normal, low: f64, high: f64) -> (f64, f64) {
        let sd = normal.variance.sqrt();
        let (from, to) = (
            low.max(normal.mean - 12.0 * sd),
            high.min(normal.mean + 12.0 * sd),
        );
        let mut sums = [0.0; 3];
        for step in 0..20_000 {
            let x = from + (to - from) * (f64::from(step) + 0.5) / 20_000.0;
            let weight = (-(x - normal.mean).powi(2) / (2.0 * normal.variance)).exp();
            sums = [
                sums[0] + weight,
                sums[1] + weight * x,
                sums[2] + weight * x * x,
            ];
        }
        let mean = sums[1] / sums[0];
        (mean, sums[2] / sums[0] - mean * mean)
    }

    #[test]
    fn moments_are_those_of_the_part_that_is_left() {
        let normal = Normal {
            mean: 3.0,
            variance: 4.0,
        };
        let parts = [
            (1.0, 5.0),
            (4.0, f64::INFINITY),
            (f64::NEG_INFINITY, 0.0),
            (10.0, 11.0),
            (-9.0, -5.0),
            (16.0, 17.0),
        ];
        for (low, high) in parts {
            let cut = normal.within(low, high);
            let (mean, variance) = summed(normal, low, high);
            assert!(
                (cut.mean - mean).abs() < 0.01,
                "{low} {high}: {cut:?} {mean}"
            );
            assert!(
                (cut.variance - variance).abs() < 0.02,
                "{low} {high}: {cut:?} {variance}"
            );
        }
    }

    #[test]
    fn shares_are_those_of_the_tables() {
        let known = [(0.0, 0.5), (1.0, 0.158_655_254), (2.0, 0.022_750_132)];
        for (x, share) in known
            .into_iter()
            .chain([(3.0, 1.349_898e-3), (5.0, 2.866_516e-7)])
        {
            assert!((above(x) / share - 1.0).abs() < 1e-6, "{x}: {}", above(x));
            assert!((cumulative(x) + above(x) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn what_lies_far_out_stays_finite() {
        let normal = Normal {
            mean: 0.0,
            variance: 1.0,
        };
        for (low, high) in [(50.0, 60.0), (50.0, f64::INFINITY), (-1e6, -1e3)] {
            let cut = normal.within(low, high);
            assert!((low..=high).contains(&cut.mean), "{cut:?}");
            assert!(cut.variance > 0.0 && cut.variance < 0.01, "{cut:?}");
        }
    }
}
