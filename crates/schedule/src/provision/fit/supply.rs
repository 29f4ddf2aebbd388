//! What a machine has, and what an application recorded elsewhere means on it.

use crate::app::App;
use crate::predict::LANES;
use crate::predict::Lanes;
use crate::predict::Responses;
use crate::predict::lane;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::reading::Reading;

/// A machine to buy or to fill.
#[derive(Clone, Debug, PartialEq)]
pub struct Supply {
    pub name: String,
    pub model: String,
    pub fingerprint: String,
    pub cpus: u32,
    pub memory_bytes: Option<u64>,
    /// What an intensity of 100 stands for, in the unit of each resource; `None`
    /// where it was not measured.
    pub peaks: Lanes<Option<f64>>,
}

/// An application of a mix.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub app: App,
    /// Instances in one copy of the mix.
    pub count: u32,
    pub cpus: u32,
    pub memory_bytes: Option<u64>,
    /// Fraction to keep.
    pub qos: f64,
    /// Of the machine that it was recorded on.
    pub fingerprint: String,
    /// What 100 stood for there.
    pub full_scale: Lanes<Option<f64>>,
    /// Highest intensity at which its curve was measured; 0 where it was not.
    pub measured_to: Lanes<f32>,
}

impl Candidate {
    /// One instance of `app`, made of `profile`: with the CPUs and the memory that it
    /// was seen to use.
    pub fn of(app: App, profile: &Profile) -> Self {
        let mut candidate = Candidate {
            count: 1,
            cpus: u32::try_from(profile.conditions.target_cpus.len()).map_or(1, |it| it.max(1)),
            memory_bytes: resident(profile),
            qos: profile.qos.threshold,
            fingerprint: profile.machine.fingerprint.clone(),
            full_scale: [None; LANES],
            measured_to: [0.0; LANES],
            app,
        };
        for (id, entry) in &profile.resources {
            let Some(lane) = lane(id) else { continue };
            let full = entry.full_scale_pressure.filter(|it| *it > 0.0);
            candidate.full_scale[lane] = full.map(|full| full / share_of(entry, profile));
            let levels = entry.curve.iter().map(|point| point.intensity as f32);
            candidate.measured_to[lane] = levels.fold(0.0, f32::max);
        }
        candidate
    }

    /// Share of the peaks of the machine of the profile over those of `supply`: by so
    /// much the same use is more, or less, pressure there. `None` where either peak is
    /// not known.
    pub fn factors(&self, supply: &Supply) -> Lanes<Option<f32>> {
        if self.fingerprint == supply.fingerprint {
            return [Some(1.0); LANES];
        }
        std::array::from_fn(|lane| {
            let ratio = self.full_scale[lane]? / supply.peaks[lane]?;
            Some((ratio as f32).clamp(1.0 / MOST_APART, MOST_APART))
        })
    }
}

/// Share of the time that stands behind a rate: a source that time-shares the target's
/// CPU reaches 100 % within its slices, a calibrated peak has the CPU all the time.
fn share_of(entry: &ResourceEntry, profile: &Profile) -> f64 {
    let mode = entry.placement.as_ref().map(|it| it.mode);
    let unit = entry.pressure_unit.as_deref().unwrap_or_default();
    match (mode, profile.conditions.slice_share_percent) {
        (Some(PlacementMode::SameCpu), Some(share))
            if unit.ends_with("_per_second") && share > 0.0 =>
        {
            share / 100.0
        }
        _ => 1.0,
    }
}

/// Peaks further apart than this are of different things.
const MOST_APART: f32 = 30.0;

/// What it kept in memory, by what was read of it alone.
fn resident(profile: &Profile) -> Option<u64> {
    let quantities = &profile.usage.as_ref()?.quantities;
    let resident = quantities.get("resident").and_then(Reading::value)?;
    Some(resident.ci95[1].max(resident.value).max(0.0) as u64)
}

/// `responses` with the pressure it causes times `factors`.
pub fn scaled(responses: &Responses, factors: &Lanes<Option<f32>>) -> Responses {
    let mut scaled = responses.clone();
    for (lane, factor) in factors.iter().enumerate() {
        let factor = factor.unwrap_or(1.0);
        scaled.caused[lane] *= factor;
        scaled.caused_sd[lane] *= factor;
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Population;
    use std::path::Path;

    /// A rate within slices of a fifth of the time is a fifth of what a calibration has.
    #[test]
    fn rates_of_sources_in_slices_are_those_of_the_whole_time() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/xz.json");
        let profile = jostle_profile::load(&path).unwrap();
        assert_eq!(profile.conditions.slice_share_percent, Some(20.0));
        let app = App::completed(&profile, &Population::default());
        let candidate = Candidate::of(app, &profile);
        let told = |id: &str| profile.resources[id].full_scale_pressure.unwrap();
        let scale = |id: &str| candidate.full_scale[lane(id).unwrap()].unwrap();
        assert!((scale("int") / told("int") - 5.0).abs() < 1e-9);
        // On a CPU of its own it had all the time; bytes that are covered are no rate.
        for id in ["llc-bandwidth", "l2-capacity"] {
            assert_eq!(scale(id), told(id), "{id}");
        }
    }
}
