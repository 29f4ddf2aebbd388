//! Monotone curve through noisy levels, and where it crosses a line.

/// Neighbouring levels taken for one, because apart they would rise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    pub mean: f64,
    pub weight: f64,
    /// Index of its first level, and how many levels it has.
    pub first: usize,
    pub count: usize,
}

/// Weighted least-squares fit that never rises, as its pools: pool adjacent
/// violators (Ayer et al., 1955). `levels` are (value, positive weight), in
/// ascending order of intensity.
pub fn pools(levels: impl IntoIterator<Item = (f64, f64)>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for (first, (mean, weight)) in levels.into_iter().enumerate() {
        let mut pool = Pool {
            mean,
            weight,
            first,
            count: 1,
        };
        while let Some(before) = pools.pop_if(|before| before.mean <= pool.mean) {
            let weight = before.weight + pool.weight;
            pool = Pool {
                mean: (before.mean * before.weight + pool.mean * pool.weight) / weight,
                weight,
                first: before.first,
                count: before.count + pool.count,
            };
        }
        pools.push(pool);
    }
    pools
}

/// Weighted least-squares fit that never rises. `values` and `weights` have one
/// element per level, levels ascending; weights are positive. Returns the
/// fitted values, same shape.
pub fn antitonic(values: &[f64], weights: &[f64]) -> Vec<f64> {
    pools(values.iter().copied().zip(weights.iter().copied()))
        .iter()
        .flat_map(|pool| std::iter::repeat_n(pool.mean, pool.count))
        .collect()
}

/// As [`antitonic`] for performance against intensity, with performance 1 at
/// intensity 0: an anchor of infinite weight there, which amounts to cutting
/// the free fit at 1.
pub fn performance_fit(performance: &[f64], weights: &[f64]) -> Vec<f64> {
    let fit = antitonic(performance, weights).into_iter();
    fit.map(|value| value.min(1.0)).collect()
}

/// Intensity, 0–100, at which a falling curve through (0, 1) and
/// (`levels[i]`, `fit[i]`) meets `line`, by linear interpolation; 100 if it
/// never falls below.
pub fn crossing(levels: &[f64], fit: &[f64], line: f64) -> f64 {
    let (mut x0, mut y0) = (0.0, 1.0);
    for (x, y) in levels.iter().zip(fit) {
        if *y < line {
            let share = (y0 - line).max(0.0) / (y0 - y);
            return x0 + (x - x0) * share;
        }
        (x0, y0) = (*x, *y);
    }
    100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The min–max formula for monotone regression (Robertson, Wright &
    /// Dykstra 1988): fit_i = max over b ≥ i of min over a ≤ i, mirrored for a
    /// falling fit.
    fn brute(values: &[f64], weights: &[f64]) -> Vec<f64> {
        let n = values.len();
        let mean = |a: usize, b: usize| {
            let mass: f64 = weights[a..=b].iter().sum();
            let sum: f64 = (a..=b).map(|k| values[k] * weights[k]).sum();
            sum / mass
        };
        (0..n)
            .map(|i| {
                (0..=i)
                    .map(|a| (i..n).map(|b| mean(a, b)).fold(f64::NEG_INFINITY, f64::max))
                    .fold(f64::INFINITY, f64::min)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn pooling_equals_the_min_max_formula(
            data in proptest::collection::vec((0.0f64..1.2, 1.0f64..40.0), 1..12)
        ) {
            let values: Vec<f64> = data.iter().map(|d| d.0).collect();
            let weights: Vec<f64> = data.iter().map(|d| d.1).collect();
            let fast = antitonic(&values, &weights);
            for (a, b) in fast.iter().zip(brute(&values, &weights)) {
                prop_assert!((a - b).abs() < 1e-9);
            }
        }

        #[test]
        fn crossing_stays_on_the_scale(
            values in proptest::collection::vec(0.0f64..1.2, 1..10), line in 0.5f64..1.0
        ) {
            let levels: Vec<f64> =
                (1..=values.len()).map(|i| 100.0 * i as f64 / values.len() as f64).collect();
            let fit = performance_fit(&values, &vec![1.0; values.len()]);
            let at = crossing(&levels, &fit, line);
            prop_assert!((0.0..=100.0).contains(&at));
        }
    }

    #[test]
    fn crossing_interpolates() {
        assert!((crossing(&[50.0, 100.0], &[1.0, 0.9], 0.95) - 75.0).abs() < 1e-9);
        assert!((crossing(&[100.0], &[0.5], 0.95) - 10.0).abs() < 1e-9);
        assert_eq!(crossing(&[50.0, 100.0], &[1.0, 0.96], 0.95), 100.0);
    }
}
