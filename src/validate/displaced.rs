//! What a source that holds a cache really pushes out of it.

use super::Session;
use super::linearity;
use super::report::Linearity;
use crate::error::Error;
use crate::error::Result;
use crate::inject::plan::plan_alone;
use crate::inject::worker::Slices;
use crate::sys::cpus::set_affinity;
use jostle_kernels::displace::Displacement;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use rand::rngs::ChaCha8Rng;

const MEASURED_BY: &str = "share of a working set of the structure's size that was gone when it was \
                           walked right after the source, by its time between all there and all gone";

/// The displaced share against the intensity; `None` for sources that hold no
/// cache.
pub fn displaced(
    session: &Session<'_>,
    resource: Resource,
    slices: Slices,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Reading<Linearity>>> {
    if !resource.row().cache {
        return Ok(None);
    }
    let slow = resource.row().domain == Domain::LlcGroup;
    if slow && session.request.quick {
        return Ok(Some(Reading::unavailable(
            "left out by --quick: one look at a last-level cache takes seconds",
        )));
    }
    let limits = session.limits();
    let cpus = [session.target];
    let environment = match plan_alone(session.machine, resource, Some(&cpus), &limits, slices) {
        Ok(plan) => plan.config.environment,
        Err(refusal) => return Ok(Some(Reading::unavailable(refusal.reason()))),
    };
    let (step, repetitions) = match slow || session.request.quick {
        true => (25.0, 1),
        false => (10.0, linearity::REPETITIONS),
    };
    let levels = linearity::levels(step);
    let order = linearity::order(levels.len(), repetitions, rng);
    let look = || -> std::result::Result<Vec<Vec<f64>>, String> {
        // This thread and what it starts end here; nobody else is moved.
        set_affinity(0, &cpus).map_err(|error| format!("CPU {}: {error}", cpus[0]))?;
        let spec = jostle_kernels::source(resource);
        let mut kernel = (spec.build)(&environment).map_err(|failure| failure.0)?;
        let mut displacement =
            Displacement::prepare(spec, &environment).map_err(|failure| failure.0)?;
        let mut achieved = vec![Vec::new(); levels.len()];
        for &index in &order {
            if session.interrupted() {
                break;
            }
            kernel.set_intensity(levels[index]);
            let share = displacement.share(kernel.as_mut());
            achieved[index].push(share.map_err(|failure| failure.0)? * 100.0);
        }
        Ok(achieved)
    };
    let outcome = std::thread::scope(|scope| scope.spawn(look).join());
    session.check()?;
    let outcome = outcome.map_err(|_| Error::environment("the thread that looks panicked"))?;
    Ok(Some(match outcome {
        Ok(achieved) => Reading::Value(linearity::linearity(&levels, achieved, MEASURED_BY)),
        Err(reason) => Reading::unavailable(reason),
    }))
}
