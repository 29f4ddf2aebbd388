//! A measurement from its request to its profile.

use super::plan::Plan;
pub use super::plan::Request;
use super::prepare::Began;
use super::prepare::Prepared;
use super::prepare::set_up;
use super::record;
use super::resume;
use super::settings::Observer;
use crate::error::Result;
use crate::machine::Machine;
use jostle_profile::Profile;

/// Measures and returns the profile; everything started is gone then. `note`
/// is told what is being prepared.
///
/// # Errors
/// When the target cannot be started or read, or when no resource can be
/// stressed. What goes wrong later ends up in the profile.
pub fn profile(
    machine: &Machine,
    request: Request,
    observer: &mut dyn Observer,
    note: &mut dyn FnMut(&str),
) -> Result<Profile> {
    let began = Began::now();
    let hooks = set_up(&request, note)?;
    note("calibrating the slices");
    let plan = Plan::new(machine, request)?;
    let prepared = Prepared::start(&plan, hooks, began, note)?;
    let (measured, metadata) = prepared.measure(observer);
    let mut profile = record::profile(&measured, &plan.request.settings, metadata);
    resume::join(&mut profile, plan.request.past.as_ref());
    Ok(profile)
}
