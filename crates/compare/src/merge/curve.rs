//! Points of curves, and other numbers with intervals, over several runs.

use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::Score;
use jostle_statistics::ByNumber;
use jostle_statistics::Pooled;
use jostle_statistics::Run;
use jostle_statistics::common_spread;
use jostle_statistics::mean;
use jostle_statistics::pool;
use jostle_statistics::standard_deviation;
use jostle_statistics::student_quantile;
use std::collections::BTreeSet;

/// Points at most so far apart are of one level, percent.
const ONE_LEVEL: f64 = 3.0;
const LEAST_FREEDOM: f64 = 3.0;

/// What all resources of a merged profile have in common.
pub struct Shared {
    /// Standard deviation of the log of performance between runs.
    pub spread: f64,
    /// Performance below which QoS is violated.
    pub threshold: f64,
    /// Tests that share one error level.
    pub tests: f64,
}

/// A level of a merged curve.
pub struct Level {
    pub point: CurvePoint,
    /// Of the log of performance.
    pub pooled: Pooled,
    /// Performance in each run that has the level.
    pub runs: Vec<f64>,
}

/// The spread between runs that the curves of all resources show together, of
/// the log of performance.
pub fn common_spread_of(runs: &[&Profile], ids: &BTreeSet<&String>) -> f64 {
    let numbers: Vec<Vec<Run>> = ids
        .iter()
        .filter_map(|id| {
            let curves = runs.iter().filter_map(|run| run.resources.get(*id));
            let curves: Vec<&[CurvePoint]> = curves.map(|it| it.curve.as_slice()).collect();
            // The level that most runs have, the highest of those.
            let levels = grouped(&curves).into_iter();
            levels.map(by_run).max_by_key(Vec::len)
        })
        .collect();
    common_spread(&numbers)
}

/// `curves`, one of each run, as one.
pub fn merge(curves: &[&[CurvePoint]], spread: f64) -> Vec<Level> {
    let levels = grouped(curves).into_iter();
    levels.filter_map(|points| level(points, spread)).collect()
}

/// The points of all runs by level, with the number of the run.
fn grouped<'a>(curves: &[&'a [CurvePoint]]) -> Vec<Vec<(usize, &'a CurvePoint)>> {
    let numbered = curves.iter().enumerate();
    let mut points: Vec<(usize, &CurvePoint)> = numbered
        .flat_map(|(run, curve)| curve.iter().map(move |point| (run, point)))
        .filter(|(_, point)| point.performance > 0.0 && point.ci95[0] > 0.0)
        .collect();
    points.sort_by_number(|it| it.1.intensity);
    let mut levels: Vec<Vec<(usize, &CurvePoint)>> = Vec::new();
    for (run, point) in points {
        match levels.last_mut() {
            Some(level) if point.intensity - level[0].1.intensity <= ONE_LEVEL => {
                level.push((run, point));
            }
            _ => levels.push(vec![(run, point)]),
        }
    }
    levels
}

/// One answer of each run: of several points at one level that with the most
/// windows.
fn by_run(points: Vec<(usize, &CurvePoint)>) -> Vec<Run> {
    let mut best: Vec<(usize, &CurvePoint)> = Vec::new();
    for (run, point) in points {
        match best.iter_mut().find(|(of, _)| *of == run) {
            Some(before) if before.1.windows < point.windows => before.1 = point,
            Some(_) => {}
            None => best.push((run, point)),
        }
    }
    best.into_iter().map(|(_, point)| log_run(point)).collect()
}

fn log_run(point: &CurvePoint) -> Run {
    let freedom = (point.windows as f64 - 1.0).max(LEAST_FREEDOM);
    let [low, high] = point.ci95.map(f64::ln);
    Run {
        value: point.performance.ln(),
        error: (high - low).max(0.0) / (2.0 * student_quantile(0.975, freedom)),
        freedom,
    }
}

fn level(points: Vec<(usize, &CurvePoint)>, spread: f64) -> Option<Level> {
    let windows: u64 = points.iter().map(|(_, point)| point.windows).sum();
    let weight = |point: &CurvePoint| point.windows.max(1) as f64;
    let weights: f64 = points.iter().map(|(_, point)| weight(point)).sum();
    let intensity = points
        .iter()
        .map(|(_, point)| weight(point) * point.intensity);
    let intensity = intensity.sum::<f64>() / weights;
    let pressures: Vec<f64> = points
        .iter()
        .filter_map(|(_, point)| point.pressure)
        .collect();
    let requested = points.iter().filter_map(|(_, point)| point.requested);
    let requested = requested.max_by(f64::total_cmp);
    let runs = by_run(points);
    let pooled = pool(&runs, spread)?;
    Some(Level {
        point: CurvePoint {
            intensity,
            requested,
            performance: pooled.value.exp(),
            ci95: pooled.ci95().map(f64::exp),
            pressure: (!pressures.is_empty()).then(|| mean(&pressures)),
            windows,
        },
        pooled,
        runs: runs.iter().map(|run| run.value.exp()).collect(),
    })
}

/// A positive number of each run, with the `spread` of its log.
pub fn estimate(runs: &[Estimate], spread: f64) -> Option<Estimate> {
    let runs: Vec<Run> = runs
        .iter()
        .map(|it| Run {
            value: it.value,
            error: (it.ci95[1] - it.ci95[0]).max(0.0) / (2.0 * 1.96),
            freedom: 10.0,
        })
        .collect();
    let size = runs.first()?.value.abs();
    let pooled = pool(&runs, spread * size)?;
    Some(Estimate {
        value: pooled.value,
        ci95: pooled.ci95(),
    })
}

/// The score of several runs: their mean, with what is unknown in each and the
/// spread between them. `None` where fewer than half have one.
pub fn score(scores: &[Score], runs: usize) -> Option<Score> {
    let count = scores.len() as f64;
    if scores.is_empty() || 2 * scores.len() < runs {
        return None;
    }
    let values: Vec<f64> = scores.iter().map(|it| it.score).collect();
    let value = mean(&values);
    let between = standard_deviation(&values).powi(2) / count;
    let half = |side: &dyn Fn(&Score) -> f64| {
        let errors = scores.iter().map(|it| (side(it).max(0.0) / 1.96).powi(2));
        let inside = errors.sum::<f64>() / (count * count);
        // What differs between two runs is known from one difference only.
        let outside = match count > 1.0 {
            true => student_quantile(0.975, count - 1.0) * between.sqrt(),
            false => 0.0,
        };
        outside.max(1.96 * inside.sqrt())
    };
    let low = value - half(&|it| it.score - it.ci95[0]);
    let high = value + half(&|it| it.ci95[1] - it.score);
    Some(Score {
        score: value.clamp(0.0, 100.0),
        ci95: [low, high].map(|end| end.clamp(0.0, 100.0)),
    })
}
