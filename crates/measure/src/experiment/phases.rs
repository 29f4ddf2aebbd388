//! A target that is not the same all the time.
//!
//! Ratios are taken between neighbouring windows, so they bear a slow change of
//! the target. Two kinds of change they do not bear, or hide:
//!
//! - **Short phases.** A program that alternates between two kinds of work
//!   within a few windows makes neighbours differ by that. Windows that cover
//!   whole turns do not: how long they must be is read off the undisturbed
//!   windows at the start (Allan's variance against the averaging time).
//! - **Long phases.** A program that does one thing for half a minute and then
//!   another may bear a resource in one phase and not in the other. The
//!   windows are then split by phase and judged apart.
//!
//! Neither can tell the target's phases from those of the machine below it.

use super::levels::FEWEST_PAIRS;
use jostle_profile::Phase;
use jostle_profile::PhasePerformance;
use jostle_statistics::Bootstrap;
use jostle_statistics::ascending;
use jostle_statistics::mean;
use jostle_statistics::median;
use rand::rngs::ChaCha8Rng;

/// Windows may be stretched to at most this many times their length.
pub const LONGEST_STRETCH: u32 = 8;
/// Averages compared need at least this many neighbours.
const FEWEST_DIFFERENCES: usize = 4;
/// Noise that shrinks by this much more than independent windows' would is
/// turns of the target, and not chance: below it in at most 1 % of white series
/// (see the test).
const TURNS: f64 = 0.12;
/// Noise below this, a fraction, is not worth longer windows.
const QUIET: f64 = 0.03;

/// Longer windows that make the target steadier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub factor: u32,
    /// Standard deviation between neighbouring windows, a fraction, before and
    /// at the new length.
    pub before: f64,
    pub after: f64,
}

/// Standard deviation between neighbouring windows, a fraction; `None` for fewer
/// than five.
pub fn deviation(undisturbed: &[f64]) -> Option<f64> {
    neighbours(undisturbed, 1)
}

/// Whether windows differ so much that longer ones may be worth it.
pub fn restless(undisturbed: &[f64]) -> bool {
    deviation(undisturbed).is_some_and(|deviation| deviation >= QUIET)
}

/// How much longer windows should be, from undisturbed ones of equal length in
/// a row; `None` when they are as steady as longer ones would be.
pub fn stretch(undisturbed: &[f64]) -> Option<Stretch> {
    let before = neighbours(undisturbed, 1)?;
    if before < QUIET {
        return None;
    }
    let candidates = (2..=LONGEST_STRETCH).filter_map(|factor| {
        let after = neighbours(undisturbed, factor as usize)?;
        // Independent windows would give 1.
        let excess = (after / before).powi(2) * f64::from(factor);
        Some((factor, after, excess))
    });
    candidates
        .filter(|(_, _, excess)| *excess <= TURNS)
        .min_by(|a, b| a.2.total_cmp(&b.2))
        .map(|(factor, after, _)| Stretch {
            factor,
            before,
            after,
        })
}

/// Allan deviation of the averages over `factor` windows, a fraction of their
/// mean: `sqrt(mean((y_{k+1} - y_k)^2) / 2)`, averages overlapping (Allan 1966).
fn neighbours(values: &[f64], factor: usize) -> Option<f64> {
    let averages: Vec<f64> = values.windows(factor).map(mean).collect();
    let squares: Vec<f64> = averages
        .iter()
        .zip(averages.iter().skip(factor))
        .map(|(earlier, later)| (later - earlier).powi(2))
        .collect();
    let level = mean(values);
    let enough = squares.len() >= FEWEST_DIFFERENCES * factor.max(2) / 2;
    (enough && level > 0.0).then(|| (mean(&squares) / 2.0).sqrt() / level)
}

/// A level must last this many windows and differ this much to be a phase.
const SHORTEST: usize = 8;
pub const LEAST_STEP: f64 = 0.08;
/// Steps are told from noise at this many standard errors: windows correlate
/// and the best of many places is taken.
const CERTAIN: f64 = 8.0;
const MOST_PHASES: usize = 24;

/// Cuts a series of (seconds, log performance), ascending in time, into phases;
/// empty when its level held.
pub fn phases(series: &[(f64, f64)]) -> Vec<Phase> {
    let smooth = without_spikes(series);
    let noise = noise(&smooth);
    let mut cuts = vec![0, series.len()];
    cut(&smooth, 0, series.len(), noise, &mut cuts);
    cuts.sort_unstable();
    if cuts.len() < 3 {
        return Vec::new();
    }
    let mut levels: Vec<f64> = cuts
        .windows(2)
        .map(|ends| median(&mut smooth[ends[0]..ends[1]].to_vec()))
        .collect();
    gather(&mut levels);
    let top = levels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut found: Vec<Phase> = Vec::new();
    for (ends, level) in cuts.windows(2).zip(levels) {
        let phase = Phase {
            from_seconds: match ends[0] {
                0 => 0.0,
                first => 0.5 * (series[first - 1].0 + series[first].0),
            },
            to_seconds: match series.get(ends[1]) {
                Some(next) => 0.5 * (series[ends[1] - 1].0 + next.0),
                None => series[ends[1] - 1].0,
            },
            level: (level - top).exp(),
        };
        match found.last_mut() {
            Some(last) if last.level == phase.level => last.to_seconds = phase.to_seconds,
            _ => found.push(phase),
        }
    }
    match found.len() {
        1 => Vec::new(),
        _ => found,
    }
}

/// Medians of five neighbours: single wild windows are no phase.
fn without_spikes(series: &[(f64, f64)]) -> Vec<f64> {
    (0..series.len())
        .map(|index| {
            let around = index.saturating_sub(2)..(index + 3).min(series.len());
            median(
                &mut series[around]
                    .iter()
                    .map(|point| point.1)
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

/// Spread of a window, from its distance to the fifth after it, which shares no
/// raw window with it.
fn noise(smooth: &[f64]) -> f64 {
    let mut steps: Vec<f64> = smooth
        .iter()
        .zip(smooth.iter().skip(5))
        .map(|(earlier, later)| (later - earlier).abs())
        .collect();
    match steps.is_empty() {
        true => f64::INFINITY,
        // The median deviation of a difference of two, in terms of sigma.
        false => (median(&mut steps) * 1.4826 / std::f64::consts::SQRT_2).max(1e-4),
    }
}

/// Adds the clearest step between `from` and `to`, and those on either side.
fn cut(smooth: &[f64], from: usize, to: usize, noise: f64, cuts: &mut Vec<usize>) {
    if to - from < 2 * SHORTEST || cuts.len() > MOST_PHASES {
        return;
    }
    let values = &smooth[from..to];
    let total: f64 = values.iter().sum();
    let mut left = 0.0;
    let mut best: Option<(f64, f64, usize)> = None;
    for (index, value) in values.iter().enumerate() {
        left += value;
        let before = (index + 1) as f64;
        let after = (values.len() - index - 1) as f64;
        if index + 1 < SHORTEST || values.len() - index - 1 < SHORTEST {
            continue;
        }
        let step = ((total - left) / after - left / before).abs();
        // Five smoothed windows are one independent value.
        let error = noise * (5.0 / before + 5.0 / after).sqrt();
        let clear = step / error;
        if best.is_none_or(|(most, _, _)| clear > most) {
            best = Some((clear, step, from + index + 1));
        }
    }
    if let Some((clear, step, at)) = best
        && clear >= CERTAIN
        && step >= LEAST_STEP
    {
        cuts.push(at);
        cut(smooth, from, at, noise, cuts);
        cut(smooth, at, to, noise, cuts);
    }
}

/// Gives levels that lie within half a step of each other the same value.
fn gather(levels: &mut [f64]) {
    let values = levels.to_vec();
    for group in ascending(&values).chunk_by(|a, b| values[*b] - values[*a] <= LEAST_STEP / 2.0) {
        let level = median(&mut group.iter().map(|index| values[*index]).collect::<Vec<_>>());
        for index in group {
            levels[*index] = level;
        }
    }
}

/// What the target kept at one intensity, level by level of its phases, from
/// (seconds, log ratio) of the pairs; empty unless two levels with enough
/// pairs differ beyond doubt.
pub fn apart(
    pairs: &[(f64, f64)],
    phases: &[Phase],
    rng: &mut ChaCha8Rng,
) -> Vec<PhasePerformance> {
    let mut levels: Vec<f64> = phases.iter().map(|phase| phase.level).collect();
    levels.sort_unstable_by(|a, b| b.total_cmp(a));
    levels.dedup();
    let within = |phase: &Phase, at: f64| phase.from_seconds <= at && at < phase.to_seconds;
    let found: Vec<(f64, Bootstrap)> = levels
        .into_iter()
        .filter_map(|level| {
            let mine = |at: f64| {
                let mut all = phases.iter();
                all.any(|phase| phase.level == level && within(phase, at))
            };
            let ratios: Vec<f64> = pairs
                .iter()
                .filter(|pair| mine(pair.0))
                .map(|p| p.1)
                .collect();
            (ratios.len() >= FEWEST_PAIRS).then(|| (level, Bootstrap::of(&ratios, 1000, rng)))
        })
        .collect();
    let differ = found.iter().enumerate().any(|(index, (_, one))| {
        found[index + 1..].iter().any(|(_, other)| {
            let step = (one.location - other.location).abs();
            step > 0.03 && step > 4.0 * one.error.hypot(other.error)
        })
    });
    if !differ {
        return Vec::new();
    }
    found
        .into_iter()
        .map(|(level, bootstrap)| PhasePerformance {
            level,
            performance: bootstrap.location.exp(),
            ci95: bootstrap.interval95().map(|end| end.min(50.0).exp()),
            windows: bootstrap.n as u64,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_statistics::Noise;
    use jostle_statistics::standard_deviation;
    use rand::SeedableRng;

    /// Coefficient of variation of the averages over `factor` neighbours.
    fn spread(values: &[f64], factor: usize) -> f64 {
        let averages: Vec<f64> = values.chunks_exact(factor).map(mean).collect();
        standard_deviation(&averages) / mean(&averages)
    }

    #[test]
    fn turns_of_a_few_windows_ask_for_longer_ones() {
        for period in [2usize, 4, 6, 8] {
            let mut noise = Noise::seeded(period as u64);
            let turning: Vec<f64> = (0..48)
                .map(|index| {
                    let slow = index % period < period / 2;
                    (if slow { 40.0 } else { 100.0 }) * (1.0 + 0.01 * noise.normal())
                })
                .collect();
            let found = stretch(&turning).expect("turns are seen");
            assert_eq!(found.factor as usize % period, 0, "{period}: {found:?}");
            let longer = spread(&turning, found.factor as usize);
            assert!(found.before > 0.2 && longer < 0.02, "{found:?} {longer}");
        }
    }

    #[test]
    fn white_and_slow_noise_ask_for_nothing() {
        let mut asked = 0;
        for seed in 0..500 {
            let mut noise = Noise::seeded(seed);
            let memory: f64 = if seed % 2 == 0 { 0.0 } else { 0.9 };
            let mut state = 0.0;
            let values: Vec<f64> = (0..48)
                .map(|_| {
                    state = memory * state + noise.normal();
                    100.0 * (1.0 + 0.05 * state)
                })
                .collect();
            asked += usize::from(stretch(&values).is_some());
        }
        assert!(asked <= 5, "{asked} of 500");
        assert_eq!(stretch(&[1.0; 48]), None);
        assert_eq!(stretch(&[1.0, 2.0]), None);
        assert_eq!(stretch(&[]), None);
    }

    fn series(count: usize, seed: u64, level: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
        let mut noise = Noise::seeded(seed);
        let mut state = 0.0;
        (0..count)
            .map(|index| {
                state = 0.9 * state + 0.44 * 0.01 * noise.normal();
                let wild = noise.outlier(0.02, 0.3);
                let log = level(index).ln() + state + 0.01 * noise.normal() + wild;
                (index as f64 * 0.1, log)
            })
            .collect()
    }

    #[test]
    fn long_phases_are_cut_where_they_begin() {
        let found = phases(&series(600, 1, |index| match index {
            200..400 => 0.6,
            _ => 1.0,
        }));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!((found[0].to_seconds - 20.0).abs() < 0.6, "{found:?}");
        assert!((found[1].level - 0.6).abs() < 0.03, "{found:?}");
        assert_eq!(found[0].level, 1.0);
        assert_eq!(found[2].level, 1.0);
        assert_eq!(found[0].from_seconds, 0.0);
        assert_eq!(found[0].to_seconds, found[1].from_seconds);
    }

    #[test]
    fn a_steady_target_has_no_phases() {
        let mut claimed = 0;
        for seed in 0..200 {
            claimed += usize::from(!phases(&series(400, seed, |_| 1.0)).is_empty());
        }
        assert!(claimed <= 2, "{claimed} of 200");
        assert!(phases(&[]).is_empty());
        assert!(phases(&series(5, 1, |_| 1.0)).is_empty());
    }

    #[test]
    fn what_differs_between_phases_is_told_apart() {
        let phases = [
            Phase {
                from_seconds: 0.0,
                to_seconds: 10.0,
                level: 1.0,
            },
            Phase {
                from_seconds: 10.0,
                to_seconds: 20.0,
                level: 0.5,
            },
        ];
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut noise = Noise::seeded(2);
        let mut pairs = |second: f64| -> Vec<(f64, f64)> {
            (0..20)
                .map(|index| {
                    let loss = if index < 10 { 0.0 } else { second };
                    (index as f64 + 0.5, loss + 0.01 * noise.normal())
                })
                .collect()
        };
        let (mixed, same) = (pairs(-0.3), pairs(0.0));
        let found = apart(&mixed, &phases, &mut rng);
        assert_eq!(found.len(), 2);
        assert!(
            (found[1].performance - (-0.3f64).exp()).abs() < 0.03,
            "{found:?}"
        );
        assert_eq!(found[0].windows, 10);
        assert!(apart(&same, &phases, &mut rng).is_empty());
    }
}
