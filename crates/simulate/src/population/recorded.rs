//! Applications of recorded profiles.

use super::archetype;
use super::archetype::Program;
use super::archetype::shared;
use super::member::MOST_CPUS;
use super::member::MOST_NODES;
use super::member::Member;
use crate::error::RecordedError;
use crate::hardware::ServerType;
use crate::truth::TrueApp;
use crate::truth::TrueCurve;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_schedule::App;
use jostle_schedule::Demand;
use jostle_schedule::Scaling;
use jostle_schedule::predict::LANES;
use rand::rngs::ChaCha8Rng;
use std::path::Path;

/// The profiles in `dir`, by the order of file names; at least one, and not two
/// of one workload.
pub fn load(dir: &Path) -> Result<Vec<Profile>, RecordedError> {
    let profiles =
        profile::load_dir(dir).map_err(|error| RecordedError::Unreadable(error.to_string()))?;
    match profiles.is_empty() {
        true => Err(RecordedError::Empty(dir.display().to_string())),
        false => Ok(profiles.into_iter().map(|(_, profile)| profile).collect()),
    }
}

/// The application of `profile` as if its curves and scores were the truth. On
/// shared resources of which it says nothing the truth is that of a synthetic
/// program, which profiling cannot see; so are its speeds by platform.
pub fn member(profile: &Profile, types: &[ServerType], rng: &mut ChaCha8Rng) -> Member {
    let app = App::new(profile);
    let counted = app.counted(false);
    let responses = &app.responses;
    let program = Program::draw(&archetype::SERVICE, rng);
    let known = responses.known.and(counted);
    let caused_known = responses.caused_known.and(counted);
    let curves = responses.curves.iter();
    let mut curves: Vec<TrueCurve> = curves
        .filter(|curve| counted.contains(curve.lane()))
        .map(|curve| TrueCurve::new(curve.lane(), |x| f64::from(curve.at(x as f32).0).exp()))
        .collect();
    for lane in program.bends().without(known).and(shared()).iter() {
        curves.push(TrueCurve::new(lane, |x| program.performance(lane, x)));
    }
    let mut caused = [0.0; LANES];
    for lane in caused_known.iter() {
        caused[lane] = responses.caused[lane];
    }
    for lane in shared().without(caused_known).iter() {
        caused[lane] = program.caused[lane] as f32;
    }
    Member {
        app: TrueApp {
            name: profile.workload.name.clone(),
            curves,
            caused,
            speed: archetype::speeds(std::slice::from_ref(&program), types, rng),
            qos: profile.qos.threshold as f32,
            scaling: Scaling::amdahl(0.1, MOST_CPUS, MOST_NODES),
        },
        demand: Demand {
            cpus: (profile.conditions.target_cpus.len().max(1)) as u32,
            memory_bytes: 0,
        },
        profiled: known.and(caused_known),
    }
}
