//! The peak that intensity refers to: the calibrated one where there is one,
//! checked against what is reached now.

use super::error::WorkerError;
use super::group::WorkerGroup;
use crate::machine::calibration::Calibration;
use crate::machine::calibration::StaleSource;
use jostle_profile::resource::Intensity;
use serde_json::Value;
use std::time::Duration;

/// What is reached now may fall short of the calibrated peak by this share
/// before it is worth a warning; so much is noise.
pub const SHORTFALL: f64 = 0.1;
/// Tries before a shortfall is believed.
const TRIES: usize = 3;
/// A look at a peak that is known takes this part of the time that finding it
/// takes, and at least so many slices.
const LOOK_PARTS: u32 = 4;
const LOOK_SLICES: u32 = 12;

/// Where the peak of a group comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPeak {
    /// True when it is the calibrated one, false when it was measured just now;
    /// `None` for sources that are not held at a rate.
    pub calibrated: Option<bool>,
    /// Where what is reached now and the calibrated peak are apart.
    pub change: Option<PeakChange>,
}

/// What a source reaches now is not what calibration found.
#[derive(Clone, Debug, PartialEq)]
pub struct PeakChange {
    /// Below 0: less.
    pub percent: f64,
    /// When it was calibrated.
    pub recorded_at: String,
}

/// Calibrated sources whose numbers hold for other settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Stale {
    /// When they were calibrated.
    pub recorded_at: String,
    pub sources: Vec<StaleSource>,
}

/// Measures for `length` what the group reaches at 100 %, and makes that its
/// peak, or the one that `calibration` holds for as many workers under the same
/// settings.
pub fn find_peak(
    group: &mut WorkerGroup,
    calibration: Option<&Calibration>,
    length: Duration,
) -> Result<FoundPeak, WorkerError> {
    find(group, calibration, length, TRIES)
}

/// As [`find_peak`], where what is reached will be seen again in the measurement
/// itself: a calibrated peak gets one short look.
pub fn look_at_peak(
    group: &mut WorkerGroup,
    calibration: Option<&Calibration>,
    length: Duration,
) -> Result<FoundPeak, WorkerError> {
    let look = match known(group, calibration) {
        Some(_) if !group.plan.has_another_peak() => {
            let slices = group.plan.config.slices;
            let period = slices.map_or(0, |slices| slices.period_ns);
            (length / LOOK_PARTS).max(Duration::from_nanos(period) * LOOK_SLICES)
        }
        _ => length,
    };
    find(group, calibration, look, 1)
}

fn find(
    group: &mut WorkerGroup,
    calibration: Option<&Calibration>,
    length: Duration,
    tries: usize,
) -> Result<FoundPeak, WorkerError> {
    let Some(mut reached) = group.calibrate_peak(length)? else {
        return Ok(FoundPeak {
            calibrated: None,
            change: None,
        });
    };
    let known = known(group, calibration).filter(|_| !group.plan.has_another_peak());
    let Some((peak, recorded_at)) = known else {
        return Ok(FoundPeak {
            calibrated: Some(false),
            change: None,
        });
    };
    for _ in 1..tries {
        if falls_short(reached, peak) {
            reached = reached.max(group.calibrate_peak(length)?.unwrap_or(0.0));
        }
    }
    group.set_peak(peak);
    Ok(FoundPeak {
        calibrated: Some(true),
        change: change(reached, peak, recorded_at),
    })
}

/// The calibrated peak, without a check whether it is still reached: for a target
/// that must not meet the source at 100 %.
///
/// # Errors
/// In words, where no peak is known.
pub fn take_peak(
    group: &mut WorkerGroup,
    calibration: Option<&Calibration>,
) -> Result<FoundPeak, WorkerError> {
    let found = |calibrated| {
        Ok(FoundPeak {
            calibrated,
            change: None,
        })
    };
    if group.plan.spec.intensity() != Intensity::Rate {
        return found(None);
    }
    if group.take_own_peaks() {
        return found(Some(false));
    }
    match known(group, calibration) {
        Some((peak, _)) => {
            group.set_peak(peak);
            found(Some(true))
        }
        None => Err(
            "its peak is not calibrated, and --floor and --max-intensity do not let it be tried \
             out beside a program that runs already; run `jostle machine --calibrate` once \
             while nothing else needs the machine"
                .to_string()
                .into(),
        ),
    }
}

/// The calibrated peak of `group`, and when it was measured.
fn known<'a>(group: &WorkerGroup, calibration: Option<&'a Calibration>) -> Option<(f64, &'a str)> {
    let calibration = calibration?;
    let resource = group.plan.spec.resource.id();
    let peak = calibration.peak(resource, group.workers(), &group.plan.settings())?;
    Some((peak, &calibration.recorded_at))
}

/// Removes from `calibration` what does not hold for the `wanted` settings of
/// sources, by resource id; what that was, if there was any.
pub fn remove_stale<'a>(
    calibration: Option<&mut Calibration>,
    wanted: impl IntoIterator<Item = (&'a str, Value)>,
) -> Option<Stale> {
    let calibration = calibration?;
    let sources = calibration.remove_stale(wanted);
    (!sources.is_empty()).then(|| Stale {
        recorded_at: calibration.recorded_at.clone(),
        sources,
    })
}

fn falls_short(reached: f64, peak: f64) -> bool {
    reached < peak * (1.0 - SHORTFALL)
}

/// How far `reached` and the calibrated `peak` are apart, if that is worth a warning.
fn change(reached: f64, peak: f64, recorded_at: &str) -> Option<PeakChange> {
    let percent = (reached / peak - 1.0) * 100.0;
    let apart = falls_short(reached, peak) || percent > SHORTFALL * 100.0;
    apart.then(|| PeakChange {
        percent,
        recorded_at: recorded_at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_with_its_size() {
        let found = |reached| {
            change(reached, 100.0, "2026-11-21T00:00:00Z").map(|change| change.percent.round())
        };
        assert_eq!(found(95.0), None);
        assert_eq!(found(109.0), None);
        assert_eq!(found(80.0), Some(-20.0));
        assert_eq!(found(150.0), Some(50.0));
    }
}
