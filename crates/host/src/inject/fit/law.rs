//! Laws of the times between I/Os or messages.

use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::MOST_GAMMA_SPREAD;
use jostle_kernels::storage::pattern::MOST_NORMAL_SPREAD;

/// Fewer times than this give no law of their own.
const FEWEST_TIMES: usize = 30;
/// How far a spread may lie from that of a law of one parameter to take it.
const NEAR: f64 = 0.15;
/// Below this, times count as fixed.
const STEADY: f64 = 0.02;
/// Times count as of two kinds where their typical times are this far apart.
const APART: f64 = 10.0;

/// Mean of `times` and the law that has their spread; few times take the `common`
/// spread of others like them, or the exponential law where that is unknown.
pub fn law(times: &[f64], otherwise_us: f64, common: Option<f64>) -> (f64, Arrival) {
    if times.is_empty() {
        return (otherwise_us, Arrival::Exponential);
    }
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return (0.0, Arrival::Fixed);
    }
    if times.len() < FEWEST_TIMES {
        let law = common.map_or(Arrival::Exponential, |spread| law_of(mean, spread));
        return (mean, law);
    }
    let squares = times.iter().map(|time| (time - mean).powi(2));
    let spread = (squares.sum::<f64>() / (count - 1.0)).sqrt() / mean;
    (mean, law_of(mean, spread))
}

/// The law of times of this mean, µs, whose standard deviation is `spread` times
/// the mean.
fn law_of(mean: f64, spread: f64) -> Arrival {
    let near = |law: f64| (spread / law - 1.0).abs() < NEAR;
    if spread < STEADY {
        Arrival::Fixed
    } else if near(1.0) {
        Arrival::Exponential
    } else if near(mean.powf(-0.5)) {
        Arrival::Poisson
    } else if spread <= f64::from(MOST_NORMAL_SPREAD) {
        Arrival::Normal(spread as f32)
    } else {
        Arrival::Gamma((spread as f32).min(MOST_GAMMA_SPREAD))
    }
}

/// How far times lie around the mean of their own transition, as a share of the
/// mean of all: for transitions with too few times for a law of their own. `None`
/// where too few tell.
pub fn common_spread<'a>(transitions: impl Iterator<Item = &'a [f64]>) -> Option<f64> {
    let (mut count, mut freedom, mut sum, mut squares) = (0, 0, 0.0, 0.0);
    for times in transitions {
        let own = times.len();
        let mean = times.iter().sum::<f64>() / own.max(1) as f64;
        count += own;
        freedom += own.saturating_sub(1);
        sum += mean * own as f64;
        squares += times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
    }
    let spread = (squares / freedom as f64).sqrt() / (sum / count as f64);
    (freedom >= FEWEST_TIMES && spread.is_finite()).then_some(spread)
}

/// The time that parts those within a burst from the pauses between bursts: that
/// which leaves the logarithms least spread on both sides (Otsu's method). `None`
/// where both kinds are much alike.
pub fn two_kinds(times: impl Iterator<Item = f64>) -> Option<f64> {
    let mut logs: Vec<f64> = times.map(|time| time.max(1.0).ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let count = logs.len() as f64;
    let sum: f64 = logs.iter().sum();
    let (mut low, mut best) = (0.0, (0.0, 0, 0.0));
    for (index, log) in logs.iter().enumerate() {
        let below = index as f64;
        if index > 0 && *log > logs[index - 1] {
            let apart = (sum - low) / (count - below) - low / below;
            let between = below * (count - below) * apart * apart;
            if between > best.0 {
                best = (between, index, apart);
            }
        }
        low += log;
    }
    let (_, index, apart) = best;
    (apart > APART.ln()).then(|| logs[index].exp() * (1.0 - 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_kernels::storage::pattern::Pattern;
    use jostle_kernels::storage::walk::Walk;

    #[test]
    fn laws_are_told_by_their_spread() {
        for written in [
            Arrival::Fixed,
            Arrival::Exponential,
            Arrival::Poisson,
            Arrival::Normal(0.25),
            Arrival::Gamma(2.0),
        ] {
            let mut one = Pattern::random();
            one.transitions[0].arrival = written;
            let walk = Walk::new(&one, 1 << 28, 512).unwrap();
            let times: Vec<f64> = walk.take(50_000).map(|step| step.after_us).collect();
            let (mean, found) = law(&times, 0.0, None);
            assert!((mean - 100.0).abs() < 5.0, "{written:?}: {mean}");
            let same = std::mem::discriminant(&found) == std::mem::discriminant(&written);
            assert!(same, "{written:?} found as {found:?}");
        }
    }

    #[test]
    fn few_times_take_the_common_spread() {
        let few = [90.0, 100.0, 110.0];
        assert_eq!(law(&few, 0.0, None), (100.0, Arrival::Exponential));
        assert_eq!(law(&few, 0.0, Some(0.0)), (100.0, Arrival::Fixed));
        let many = few.repeat(11);
        let normal = |law| matches!(law, (_, Arrival::Normal(spread)) if spread < 0.2);
        assert!(normal(law(&many, 0.0, Some(3.0))), "its own");
        assert!(normal(law(
            &few,
            0.0,
            common_spread([&many[..]].into_iter())
        )));
        assert_eq!(common_spread([&few[..]].into_iter()), None);
    }
}
