//! What a source that holds a cache really pushes out of it.

use super::Session;
use super::linearity;
use super::report::Linearity;
use crate::error::Error;
use crate::error::Result;
use jostle_host::inject::plan::plan_alone;
use jostle_host::inject::worker::Slices;
use jostle_host::sys::cpus::set_affinity;
use jostle_kernels::Failure;
use jostle_kernels::Kernel;
use jostle_kernels::displace::Displacement;
use jostle_kernels::displace::Look;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::time::Duration;
use std::time::Instant;

const MEASURED_BY: &str = "share of a working set of the structure's size that was gone when it was \
                           walked right after the source, by its time between all there and all gone";

/// Time for looks at all levels together, cut into parts. Each is a repetition
/// with buffers of its own: where they happen to lie may change what is displaced.
const TIME: Duration = Duration::from_secs(2);
/// For a last-level cache: one look takes a tenth of a second.
const SLOW_TIME: Duration = Duration::from_secs(12);
const PARTS: u32 = 9;
const SLOW_PARTS: u32 = 3;

/// What walks came to, in the order in which they were taken.
struct Looks {
    there: Vec<f64>,
    gone: Vec<f64>,
    /// Per level.
    after: Vec<Vec<f64>>,
}

/// Takes looks of all kinds and levels for `time`, round by round, each round
/// in another random order: all see the same neighbours.
fn looks(
    displacement: &mut Displacement,
    kernel: &mut dyn Kernel,
    levels: &[f64],
    time: Duration,
    session: &Session<'_>,
    rng: &mut ChaCha8Rng,
) -> std::result::Result<Looks, Failure> {
    let mut looks = Looks {
        there: Vec::new(),
        gone: Vec::new(),
        after: vec![Vec::new(); levels.len()],
    };
    let began = Instant::now();
    let mut order: Vec<usize> = (0..levels.len() + 2).collect();
    while looks.there.is_empty() || (began.elapsed() < time && !session.interrupted()) {
        order.shuffle(rng);
        for &kind in &order {
            // What does nothing takes as long as the source half way up.
            kernel.set_intensity(levels.get(kind).copied().unwrap_or(50.0));
            let look = match kind.checked_sub(levels.len()) {
                None => Look::After,
                Some(0) => Look::There,
                Some(_) => Look::Gone,
            };
            let came_to = displacement.look(look, kernel)?;
            match look {
                Look::After => looks.after[kind].push(came_to),
                Look::There => looks.there.push(came_to),
                Look::Gone => looks.gone.push(came_to),
            }
        }
    }
    Ok(looks)
}

/// The displaced share against the intensity, in about `budget`; `None` for sources that hold no
/// cache.
pub fn displaced(
    session: &Session<'_>,
    resource: Resource,
    slices: Slices,
    budget: Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Reading<Linearity>>> {
    if !resource.row().cache {
        return Ok(None);
    }
    let slow = resource.row().domain == Domain::LlcGroup;
    // One look at a last-level cache takes a tenth of a second.
    if slow && session.request.quick {
        return Ok(None);
    }
    let limits = session.limits();
    let cpus = [session.target];
    let environment = match plan_alone(session.machine, resource, Some(&cpus), &limits, slices) {
        Ok(plan) => plan.config.environment,
        Err(refusal) => return Ok(Some(Reading::unavailable(refusal.reason()))),
    };
    let levels = linearity::levels(if slow || session.request.quick {
        25.0
    } else {
        10.0
    });
    let (time, parts) = match slow {
        true => (SLOW_TIME, SLOW_PARTS),
        false => (TIME, PARTS),
    };
    let time = time.min(budget);
    let look = || -> std::result::Result<Vec<Vec<f64>>, String> {
        // This thread and what it starts end here; nobody else is moved.
        set_affinity(0, &cpus).map_err(|error| format!("CPU {}: {error}", cpus[0]))?;
        let spec = jostle_kernels::source(resource);
        let mut achieved = vec![Vec::new(); levels.len()];
        // All are kept: what one gives back the next would get.
        let mut instances = Vec::new();
        for _ in 0..parts {
            let mut kernel = (spec.build)(&environment).map_err(|failure| failure.0)?;
            let mut displacement =
                Displacement::prepare(spec, &environment).map_err(|failure| failure.0)?;
            let part = looks(
                &mut displacement,
                kernel.as_mut(),
                &levels,
                time / parts,
                session,
                rng,
            );
            let part = part.map_err(|failure| failure.0)?;
            for (level, after) in achieved.iter_mut().zip(&part.after) {
                let share = displacement.share(&part.there, &part.gone, after);
                level.push(share.map_err(|failure| failure.0)? * 100.0);
            }
            instances.push((kernel, displacement));
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
