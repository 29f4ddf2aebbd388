//! What is known of applications in general: `--population`.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use jostle_schedule::predict::Population;
use std::borrow::Cow;
use std::path::Path;

/// That of the profiles in `dir`; without one, that of the profiles recorded with
/// this version. Profiles of demos are left out: they are extremes by
/// construction.
///
/// # Errors
/// A request error when a profile cannot be read, or there is none.
pub fn population(dir: Option<&Path>) -> Result<Cow<'static, Population>> {
    let Some(dir) = dir else {
        return Ok(Cow::Borrowed(Population::bundled()));
    };
    let profiles = profile::load_dir(dir);
    let profiles = profiles.map_err(|error| Error::request(format!("--population {error}")))?;
    if profiles.is_empty() {
        return Err(Error::request(format!(
            "--population {}: holds no profile (*.json); record some with `jostle profile --out`",
            dir.display()
        )));
    }
    let profiles = profiles.iter().map(|(_, profile)| profile);
    Ok(Cow::Owned(Population::of(
        profiles.filter(|profile| !is_demo(profile)),
    )))
}

/// A built-in demo, and no application.
pub fn is_demo(profile: &jostle_profile::Profile) -> bool {
    profile.workload.name.starts_with("demo")
}
