//! Everything about one source by itself.

use super::Session;
use super::displaced::displaced;
use super::linearity::alone;
use super::report::Source;
use super::report::Status;
use crate::error::Result;
use jostle_host::inject::placement::Refusal;
use jostle_host::inject::plan::plan;
use jostle_host::inject::worker::Slices;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// Linearity and strength of one source, in about `budget`.
pub fn source(
    session: &Session<'_>,
    resource: Resource,
    slices: Slices,
    budget: Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Source> {
    let limits = session.limits();
    let beside = plan(
        session.machine,
        resource,
        &[session.target],
        &limits,
        slices,
    );
    let (status, reason, placement) = match beside {
        Ok(plan) => (Status::Measured, None, Some(plan.placement)),
        Err(Refusal::NotShared(reason)) => (Status::NotShared, Some(reason), None),
        Err(Refusal::Unavailable(reason)) => (Status::Unavailable, Some(reason), None),
    };
    let (measured, displaced) = match session.request.dials {
        true => (
            alone(session, resource, slices, budget, rng)?,
            displaced(session, resource, slices, budget, rng)?,
        ),
        false => (Err("left out by --no-dials".to_string()), None),
    };
    let (linearity, strength) = match measured {
        Ok((linearity, strength)) => (Reading::Value(linearity), Reading::Value(strength)),
        Err(reason) => (Reading::unavailable(&reason), Reading::unavailable(reason)),
    };
    Ok(Source {
        resource: resource.id().to_string(),
        status,
        reason,
        placement,
        linearity,
        displaced,
        strength,
    })
}
