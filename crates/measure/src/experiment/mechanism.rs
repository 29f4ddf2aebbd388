//! Which counters moved between control and treat.

use super::design::Counted;
use super::levels::FEWEST_PAIRS;
use jostle_profile::CounterPair;
use jostle_profile::Estimate;
use jostle_statistics::Bootstrap;
use jostle_statistics::median;
use rand::rngs::ChaCha8Rng;

/// Counts that are above zero in this share of the windows have a ratio.
const MOSTLY: f64 = 0.9;
/// A change smaller than this share of the counter is none worth telling.
const WORTH_TELLING: f64 = 0.02;
/// Enough for a standard error; there may be hundreds of counters to judge.
const RESAMPLES: usize = 200;

/// One entry per counter: how it changed over `pairs`, or `None` when fewer
/// than 4 pairs hold it. `alpha` is the one-sided error of one verdict.
pub fn changes(pairs: &[&Counted], alpha: f64, rng: &mut ChaCha8Rng) -> Vec<Option<CounterPair>> {
    let counters = pairs.iter().map(|pair| pair.treated.len()).max();
    (0..counters.unwrap_or(0))
        .map(|index| change(&readings(pairs, index), alpha, rng))
        .collect()
}

/// Control and treat of counter `index` in the pairs that have both.
fn readings(pairs: &[&Counted], index: usize) -> Vec<(f64, f64)> {
    let read = |values: &[Option<f64>]| {
        let value = values.get(index).copied().flatten();
        value.filter(|value| value.is_finite())
    };
    pairs
        .iter()
        .filter_map(|pair| Some((read(&pair.reference)?, read(&pair.treated)?)))
        .collect()
}

fn change(pairs: &[(f64, f64)], alpha: f64, rng: &mut ChaCha8Rng) -> Option<CounterPair> {
    if pairs.len() < FEWEST_PAIRS {
        return None;
    }
    let control = median(&mut pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let treat = median(&mut pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(control, treat)| *control > 0.0 && *treat > 0.0)
        .map(|(control, treat)| (treat / control).ln())
        .collect();
    let has_ratio = logs.len() as f64 >= MOSTLY * pairs.len() as f64 && logs.len() >= FEWEST_PAIRS;
    let mut pair = CounterPair {
        control,
        treat,
        ratio: None,
        difference: None,
        moved: false,
        pairs: pairs.len() as u64,
    };
    if has_ratio {
        let bootstrap = Bootstrap::of(&logs, RESAMPLES, rng);
        pair.ratio = estimate(&bootstrap, f64::exp);
        pair.moved = beyond(&bootstrap, alpha, (1.0 + WORTH_TELLING).ln());
    } else {
        let differences: Vec<f64> = pairs
            .iter()
            .map(|(control, treat)| treat - control)
            .collect();
        let bootstrap = Bootstrap::of(&differences, RESAMPLES, rng);
        pair.difference = estimate(&bootstrap, |value| value);
        let scale = control.abs().max(treat.abs());
        pair.moved = beyond(&bootstrap, alpha, WORTH_TELLING * scale);
    }
    Some(pair)
}

/// Whether a change is certain and worth telling. Fewer than all different
/// values have no spread of their own to be judged by.
fn beyond(bootstrap: &Bootstrap, alpha: f64, least: f64) -> bool {
    let [low, high] = bootstrap.student(alpha);
    bootstrap.error > 0.0 && bootstrap.location.abs() > least && (low > 0.0 || high < 0.0)
}

fn estimate(bootstrap: &Bootstrap, scale: impl Fn(f64) -> f64) -> Option<Estimate> {
    let ci95 = bootstrap.interval95().map(&scale);
    let value = scale(bootstrap.location);
    let finite = value.is_finite() && ci95.iter().all(|end| end.is_finite());
    finite.then_some(Estimate { value, ci95 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_statistics::Noise;
    use rand::SeedableRng;

    fn pairs(count: usize, seed: u64, window: impl Fn(&mut Noise, bool) -> f64) -> Vec<Counted> {
        let mut noise = Noise::seeded(seed);
        (0..count)
            .map(|_| Counted {
                reference: vec![Some(window(&mut noise, false))],
                treated: vec![Some(window(&mut noise, true))],
            })
            .collect()
    }

    fn one(pairs: &[Counted], alpha: f64) -> CounterPair {
        let pairs: Vec<&Counted> = pairs.iter().collect();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        changes(&pairs, alpha, &mut rng)[0]
            .clone()
            .expect("enough pairs")
    }

    #[test]
    fn a_planted_factor_is_found_with_its_interval() {
        let planted = pairs(20, 1, |noise, treated| {
            let level = if treated { 3.1e6 } else { 1e6 };
            level * (0.05 * noise.normal()).exp()
        });
        let found = one(&planted, 1e-4);
        let ratio = found.ratio.unwrap();
        assert!(
            found.moved && ratio.ci95[0] < 3.1 && 3.1 < ratio.ci95[1],
            "{found:?}"
        );
        assert!((found.control / 1e6 - 1.0).abs() < 0.1 && found.pairs == 20);
    }

    #[test]
    fn what_is_mostly_zero_is_told_as_a_difference() {
        let rare = pairs(20, 2, |noise, treated| {
            if treated {
                100.0 + 10.0 * noise.normal()
            } else {
                0.0
            }
        });
        let found = one(&rare, 1e-4);
        let difference = found.difference.unwrap();
        assert!(found.moved && found.ratio.is_none());
        // Four standard errors.
        assert!((difference.value - 100.0).abs() < 9.0, "{difference:?}");
        let nothing = one(&pairs(20, 3, |_, _| 0.0), 1e-4);
        assert!(!nothing.moved && nothing.control == 0.0);
    }

    #[test]
    fn nothing_is_claimed_where_nothing_moved() {
        let mut claimed = 0;
        for seed in 0..400 {
            let same = pairs(10, seed, |noise, _| 1e6 * (0.2 * noise.normal()).exp());
            claimed += usize::from(one(&same, 0.05 / 400.0 / 2.0).moved);
        }
        assert!(claimed <= 1, "{claimed} of 400 false claims");
        let few = pairs(3, 1, |_, treated| if treated { 9.0 } else { 1.0 });
        let few: Vec<&Counted> = few.iter().collect();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(changes(&few, 0.5, &mut rng), [None]);
    }

    #[test]
    fn missing_readings_are_left_out_and_not_taken_for_zero() {
        let mut planted = pairs(12, 4, |noise, _| 5.0 + 0.01 * noise.normal());
        for pair in planted.iter_mut().take(4) {
            pair.treated[0] = None;
        }
        planted[5].reference[0] = Some(f64::NAN);
        let found = one(&planted, 0.01);
        assert_eq!(found.pairs, 7);
        assert!(!found.moved);
    }
}
