//! How far two runs of the same program lie apart beyond the noise inside each.
//!
//! The intervals of one profile know nothing of it: memory is laid out anew in
//! each run, and the machine of another hour is another machine. Two things are
//! allowed for, whichever is larger:
//!
//! - what repeated recordings of the same programs showed (docs/compare.md);
//! - what the profile says of itself: no source makes a program faster, so that
//!   gains beyond their own intervals tell how far off its losses may be.
//!
//! A merged profile has the spread of its own runs in its intervals, and gets
//! none.

use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;

/// Standard deviation between runs of performance under a source, as a share:
/// usually, and on devices that other machines share.
const OF_PERFORMANCE: f64 = 0.015;
const ON_DEVICES: f64 = 0.05;
/// What a loss of up to so many points adds, as a share of it: where a program
/// depends on a cache, it depends on where its pages happen to lie.
const OF_LOSS: f64 = 0.3;
const MOST_LOSS_POINTS: f64 = 20.0;
/// Of the share of a peak that is used: points, and a share of it.
const OF_USE: [f64; 2] = [0.5, 0.05];
/// Of a score, points.
const LEAST_OF_SCORE: f64 = 2.0;
const MOST_OF_SCORE: f64 = 50.0;
/// Fewest gains that say something of a profile.
const FEWEST_GAINS: usize = 3;

/// The spread of one profile.
pub struct Spread {
    /// Of performance as a share; `None` where the intervals have it.
    gains: Option<f64>,
    /// Loss at which a score is taken, as a share.
    qos_loss: f64,
}

impl Spread {
    pub fn of(profile: &Profile) -> Spread {
        let gains = profile.merged.is_none().then(|| gains(profile));
        Spread {
            gains,
            qos_loss: (1.0 - profile.qos.threshold).max(0.01),
        }
    }

    /// Of a loss of `percent` under a source of `id`, percentage points.
    pub fn of_loss(&self, id: &str, percent: f64) -> f64 {
        if self.gains.is_none() {
            return 0.0;
        }
        let kept = (1.0 - percent / 100.0).clamp(0.1, 1.5);
        let of_loss = OF_LOSS * percent.clamp(0.0, MOST_LOSS_POINTS);
        100.0 * kept * self.of_performance(id) + of_loss
    }

    fn of_performance(&self, id: &str) -> f64 {
        let Some(gains) = self.gains else {
            return 0.0;
        };
        let domain = id.parse::<Resource>().map(|resource| resource.row().domain);
        let device = matches!(domain, Ok(Domain::BlockDevice | Domain::NetworkDevice));
        gains.max(if device { ON_DEVICES } else { OF_PERFORMANCE })
    }

    /// Of the intensity that is `tolerated` by what `curve` is about, points: a
    /// flat curve meets the threshold anywhere.
    pub fn of_score(&self, id: &str, tolerated: f64, curve: &[CurvePoint]) -> f64 {
        if self.gains.is_none() {
            return 0.0;
        }
        let top = curve
            .iter()
            .max_by(|a, b| a.intensity.total_cmp(&b.intensity));
        let threshold = 100.0 * self.qos_loss;
        let far_from_threshold = top.is_some_and(|point| {
            let loss = 100.0 * (1.0 - point.performance);
            tolerated >= 99.5 && threshold - loss > 2.0 * self.of_loss(id, loss)
        });
        let flat = tolerated * self.of_loss(id, threshold) / threshold;
        match far_from_threshold {
            true => LEAST_OF_SCORE,
            false => flat.clamp(LEAST_OF_SCORE, MOST_OF_SCORE),
        }
    }

    /// Of a share of a peak, percentage points.
    pub fn of_use(&self, percent: f64) -> f64 {
        self.gains.map_or(0.0, |_| OF_USE[0] + OF_USE[1] * percent)
    }
}

/// Standard deviation that gains at the highest intensities show beyond their
/// own errors, as a share of the performance.
fn gains(profile: &Profile) -> f64 {
    let top = |entry: &ResourceEntry| {
        let points = entry.curve.iter();
        points
            .max_by(|a, b| a.intensity.total_cmp(&b.intensity))
            .cloned()
    };
    let tops = profile.resources.values().filter_map(top);
    let gains: Vec<f64> = tops
        .filter(|point| point.performance > 1.0)
        .map(|point| {
            let error = (point.ci95[1] - point.ci95[0]) / 4.0;
            (point.performance - 1.0).powi(2) - error * error
        })
        .collect();
    match gains.len() >= FEWEST_GAINS {
        true => (gains.iter().sum::<f64>() / gains.len() as f64)
            .max(0.0)
            .sqrt(),
        false => 0.0,
    }
}
