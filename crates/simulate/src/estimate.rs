//! What profiling says of an application: its truth with error, and honest
//! about how much.

use crate::number;
use crate::population;
use crate::population::Member;
use crate::random::normal;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_schedule::App;
use jostle_schedule::predict::Curve;
use jostle_schedule::predict::GRID;
use jostle_schedule::predict::GRID_STEP;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::LaneSet;
use jostle_schedule::predict::Responses;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use serde::Deserialize;

/// How long profiling takes, and how wrong it is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profiling {
    #[serde(deserialize_with = "number::not_negative")]
    pub seconds: f64,
    /// Mean absolute error of a measured score, in points.
    #[serde(rename = "error_points", deserialize_with = "number::not_negative")]
    pub points: f64,
    /// Standard deviation of ln performance at one point of a curve.
    #[serde(rename = "curve_percent", deserialize_with = "number::percent")]
    pub curve_sd: f64,
    /// Share of entries that were not measured but completed from other
    /// applications, with twice the error.
    #[serde(rename = "inferred_percent", deserialize_with = "number::percent")]
    pub inferred: f64,
    /// Share of entries of which nothing is known.
    #[serde(rename = "missing_percent", deserialize_with = "number::percent")]
    pub missing: f64,
    /// Standard deviation of a platform's speed, as a fraction.
    #[serde(rename = "speed_percent", deserialize_with = "number::percent")]
    pub speed: f64,
}

impl Default for Profiling {
    /// About what Paragon's classification reaches: 5.3 points of mean error
    /// (dissertation, section 3.3.1); the other numbers are ours.
    fn default() -> Self {
        Profiling {
            seconds: 10.0,
            points: 5.0,
            curve_sd: 0.015,
            inferred: 0.10,
            missing: 0.03,
            speed: 0.05,
        }
    }
}

/// Intensities at which a curve is seen.
const SEEN_AT: [f32; 6] = [10.0, 25.0, 40.0, 60.0, 80.0, 100.0];

/// Between two of them a curve may run anywhere from one to the other: standard
/// deviation in the middle, as a share of the rise. A step at an unknown place
/// has 0.5, a straight line 0; what is drawn here lies between.
const BETWEEN: f32 = 0.2;

/// Of an inferred entry that really costs nothing, what is believed of ln
/// performance.
const INFERRED_FLAT_SD: f32 = 0.02;

/// Abscissas (in standard deviations) and weights by which the mean over a
/// normal distribution is taken (Gauss–Hermite, 5 points).
const HERMITE: [(f32, f32); 5] = [
    (-2.856_97, 0.011_257_41),
    (-1.355_626, 0.222_075_92),
    (0.0, 0.533_333_3),
    (1.355_626, 0.222_075_92),
    (2.856_97, 0.011_257_41),
];

impl Profiling {
    /// Standard deviation of a score: |N(0, σ)| has mean σ·√(2/π).
    fn sd(&self, inferred: bool) -> f64 {
        let factor = if inferred { 2.0 } else { 1.0 };
        factor * self.points * (std::f64::consts::PI / 2.0).sqrt()
    }

    /// What one profiling run says of `member`: what a policy gets to see.
    ///
    /// - `t`: the intensity at which the true curve reaches the QoS, plus an
    ///   error, within 0–100; 100 where it never does.
    /// - `c`: likewise; 0 stays 0, as a resource that is not touched shows
    ///   nothing.
    /// - curves: seen at six intensities with noise, moved along the axis by
    ///   the error of `t`; their variance covers both, and what may happen
    ///   between the six.
    pub fn estimate(&self, member: &Member, rng: &mut ChaCha8Rng) -> App {
        let truth = &member.app;
        let mut scores = Vec::with_capacity(member.profiled.len() as usize);
        let mut curves = Vec::new();
        let mut flat = LaneSet::EMPTY;
        let mut caused = [None; LANES];
        for lane in member.profiled.iter() {
            // The same number of draws for every entry: a change of one share
            // leaves the other entries as they were.
            let chance: f64 = rng.random();
            let shift = normal(rng);
            let caused_shift = normal(rng);
            let noise: [f64; SEEN_AT.len()] = std::array::from_fn(|_| normal(rng));
            if chance < self.missing {
                continue;
            }
            let inferred = chance < self.missing + self.inferred;
            let sd = self.sd(inferred);
            let true_c = f64::from(truth.caused[lane]);
            let c = match true_c > 0.0 {
                true => (true_c + sd * caused_shift).clamp(0.0, 100.0),
                false => 0.0,
            };
            let c_sd = if true_c > 0.0 { sd as f32 } else { 0.0 };
            caused[lane] = Some((c as f32, c_sd));
            let curve = truth.curves.iter().find(|curve| curve.lane() == lane);
            let t = match (population::tolerated(truth, lane), curve) {
                (Some(t), _) => (t + sd * shift).clamp(0.0, 100.0),
                // Inferred from others, a resource may look as if it cost.
                (None, None) if inferred => (100.0 + sd * shift).clamp(0.0, 100.0),
                (None, _) => 100.0,
            };
            scores.push((lane, t, c));
            match curve {
                Some(curve) => {
                    let curve_sd = self.curve_sd * if inferred { 2.0 } else { 1.0 };
                    curves.push(seen(curve, sd * shift, sd, curve_sd, &noise));
                }
                None if inferred => {
                    let variance = INFERRED_FLAT_SD * INFERRED_FLAT_SD;
                    curves.push(Curve::new(lane, [0.0; GRID], [variance; GRID]));
                }
                None => flat.insert(lane),
            }
        }
        let mut app = App::bare(&truth.name, Responses::new(curves, flat, &caused))
            .with_demand(member.demand.cpus, member.demand.memory_bytes)
            .with_platform_speed(self.speeds(truth, rng))
            .with_qos(f64::from(truth.qos))
            .with_scaling(truth.scaling.clone());
        for (lane, t, c) in scores {
            app.set_scores(lane, Some(t), Some(c));
        }
        app
    }

    fn speeds(&self, truth: &TrueApp, rng: &mut ChaCha8Rng) -> Vec<Option<f32>> {
        let wrong = |speed: &f32| {
            let factor = (1.0 + self.speed * normal(rng)).max(0.05);
            Some(speed * factor as f32)
        };
        truth.speed.iter().map(wrong).collect()
    }
}

/// `curve` as seen: moved by `shift` points, whose standard deviation is `sd`,
/// with noise of `curve_sd` at each intensity.
fn seen(
    curve: &TrueCurve,
    shift: f64,
    sd: f64,
    curve_sd: f64,
    noise: &[f64; SEEN_AT.len()],
) -> Curve {
    let mut knots = [(0.0f32, 0.0f32); SEEN_AT.len() + 1];
    for (index, at) in SEEN_AT.iter().enumerate() {
        let ln = curve.at(at - shift as f32) + (curve_sd * noise[index]) as f32;
        knots[index + 1] = (*at, ln);
    }
    let noise_variance = (curve_sd * curve_sd) as f32;
    let mut ln = [0.0; GRID];
    let mut variance = [0.0; GRID];
    for step in 0..GRID {
        let x = step as f32 * GRID_STEP;
        let (here, share, rise) = between(&knots, x);
        ln[step] = here;
        let mut moved = 0.0;
        for (at, weight) in HERMITE {
            let (there, ..) = between(&knots, x + sd as f32 * at);
            moved += weight * (there - here) * (there - here);
        }
        let measured = noise_variance * ((1.0 - share) * (1.0 - share) + share * share);
        let run = BETWEEN * rise * 4.0 * share * (1.0 - share);
        variance[step] = match step {
            // Without pressure it is undisturbed by definition.
            0 => 0.0,
            _ => measured + moved + run * run,
        };
    }
    Curve::new(curve.lane(), ln, variance)
}

/// Height at `x`, how far it lies between two knots (0–1), and their rise.
fn between(knots: &[(f32, f32)], x: f32) -> (f32, f32, f32) {
    let last = knots.len() - 1;
    let above = knots.partition_point(|knot| knot.0 < x).clamp(1, last);
    let (a, b) = (knots[above - 1], knots[above]);
    let share = ((x - a.0) / (b.0 - a.0)).clamp(0.0, 1.0);
    let rise = b.1 - a.1;
    (a.1 + share * rise, share, rise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::hardware;
    use crate::population::CLASSES;
    use crate::population::pool;
    use jostle_schedule::predict::Lanes;
    use rand::SeedableRng;

    fn members() -> Vec<Member> {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let types = hardware("paragon-40").unwrap().types;
        CLASSES
            .iter()
            .flat_map(|kind| pool(kind, types, &mut rng))
            .collect()
    }

    fn exact() -> Profiling {
        Profiling {
            seconds: 0.0,
            points: 0.0,
            curve_sd: 0.0,
            inferred: 0.0,
            missing: 0.0,
            speed: 0.0,
        }
    }

    #[test]
    fn the_mean_error_of_a_score_is_as_asked() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let error = Profiling {
            inferred: 0.0,
            ..Profiling::default()
        };
        let (mut sum, mut count) = (0.0, 0);
        for member in members() {
            let app = error.estimate(&member, &mut rng);
            for lane in app.tolerated_known.iter() {
                // In the middle of the scale, where nothing is cut off.
                if let Some(t) = population::tolerated(&member.app, lane)
                    && (25.0..75.0).contains(&t)
                {
                    sum += (jostle_schedule::to_points(app.tolerated[lane]) - t).abs();
                    count += 1;
                }
                let c = f64::from(member.app.caused[lane]);
                if (25.0..75.0).contains(&c) {
                    sum += (jostle_schedule::to_points(app.caused[lane]) - c).abs();
                    count += 1;
                }
            }
        }
        assert!(count > 1000, "{count}");
        let mean = sum / f64::from(count);
        assert!((mean - 5.0).abs() < 0.3, "{mean} over {count}");
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let error = Profiling::default();
        let mut covered: Lanes<[u32; 2]> = [[0; 2]; LANES];
        let (mut caused, mut caused_all) = (0, 0);
        for member in members() {
            let app = error.estimate(&member, &mut rng);
            for curve in &app.responses.curves {
                let truth = member.app.curves.iter().find(|c| c.lane() == curve.lane());
                let Some(truth) = truth else { continue };
                for x in [6.0, 14.0, 20.0, 31.0, 47.0, 55.0, 72.0, 90.0] {
                    let (ln, variance, _) = curve.at(x);
                    let inside = (truth.at(x) - ln).abs() <= 1.96 * variance.sqrt();
                    covered[curve.lane()][usize::from(inside)] += 1;
                }
            }
            let responses = &app.responses;
            for lane in responses.caused_known.iter() {
                let (c, sd) = (responses.caused[lane], responses.caused_sd[lane]);
                if sd > 0.0 {
                    caused += u32::from((member.app.caused[lane] - c).abs() <= 1.96 * sd);
                    caused_all += 1;
                }
            }
        }
        let [out, inside] = covered
            .iter()
            .fold([0, 0], |sum, lane| [sum[0] + lane[0], sum[1] + lane[1]]);
        let share = f64::from(inside) / f64::from(inside + out);
        assert!((0.93..=0.97).contains(&share), "curves: {share}");
        let share = f64::from(caused) / f64::from(caused_all);
        assert!((0.93..=0.97).contains(&share), "caused: {share}");
    }

    #[test]
    fn without_error_the_truth_is_seen() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for member in members().iter().step_by(7) {
            let app = exact().estimate(member, &mut rng);
            for lane in member.profiled.iter() {
                let t = population::tolerated(&member.app, lane).unwrap_or(100.0);
                assert!((jostle_schedule::to_points(app.tolerated[lane]) - t).abs() < 1e-3);
                let c = f64::from(member.app.caused[lane]);
                assert!((jostle_schedule::to_points(app.caused[lane]) - c).abs() < 1e-3);
            }
            for curve in &app.responses.curves {
                let truth = member.app.curves.iter().find(|c| c.lane() == curve.lane());
                for x in [40.0, 60.0, 80.0, 100.0] {
                    assert!((curve.at(x).0 - truth.unwrap().at(x)).abs() < 1e-4);
                }
            }
            for (platform, speed) in member.app.speed.iter().enumerate() {
                assert!(*speed <= 1.0 && *speed > 0.0, "{platform}");
            }
        }
    }

    #[test]
    fn shares_of_entries_that_are_missing_are_as_asked() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let error = Profiling {
            missing: 0.25,
            ..Profiling::default()
        };
        let (mut known, mut all) = (0, 0);
        for member in members() {
            let app = error.estimate(&member, &mut rng);
            assert_eq!(app.tolerated_known, app.caused_known);
            assert_eq!(app.responses.known, app.tolerated_known);
            known += app.tolerated_known.len();
            all += member.profiled.len();
        }
        let share = f64::from(known) / f64::from(all);
        assert!((share - 0.75).abs() < 0.03, "{share}");
    }
}
