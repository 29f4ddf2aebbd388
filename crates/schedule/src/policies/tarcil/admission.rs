//! Whether a job had better wait for better units (Tarcil, section 7.4.1).

use super::buckets::Buckets;
use super::buckets::Suitable;
use super::lsh::MAGNITUDES;
use crate::app::App;
use crate::app::to_points;
use crate::cluster::Cluster;
use crate::cluster::PlatformId;
use crate::policy::PlacementRequest;
use crate::predict::LANES;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Weak;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    since: f64,
    /// Not a moment longer, whatever later estimates say.
    until: f64,
}

/// Jobs that were told to wait, by the address of their application. The weak
/// reference keeps the address from being given to another.
#[derive(Debug, Default)]
pub struct Waiters {
    known: HashMap<usize, (Weak<App>, Waiter)>,
    /// Size at which those that are gone are swept out.
    sweep_at: usize,
}

impl Waiters {
    fn enter(&mut self, app: &Arc<App>, now: f64, bound: f64) -> Waiter {
        if self.known.len() >= self.sweep_at.max(64) {
            self.known.retain(|_, (app, _)| app.strong_count() > 0);
            self.sweep_at = 2 * self.known.len();
        }
        let waiter = Waiter {
            since: now,
            until: now + bound,
        };
        let key = Arc::as_ptr(app) as usize;
        let entry = self.known.entry(key);
        entry.or_insert((Arc::downgrade(app), waiter)).1
    }

    /// It is placed, or queued at a node.
    pub fn forget(&mut self, app: &Arc<App>) {
        if !self.known.is_empty() {
            self.known.remove(&(Arc::as_ptr(app) as usize));
        }
    }
}

/// The buckets whose units suit `app`: no contention in them is above
/// 100 − (the most it causes), which is Tarcil's U_H ≥ T_W up to a bin; and
/// none is above the least it tolerates on any resource, unless the contention
/// points where its tolerance does.
pub fn suitable(app: &App, buckets: &Buckets, shares_cpus: bool) -> Suitable {
    let counted = app.counted(shares_cpus);
    let (mut most_caused, mut least_tolerated) = (0, crate::app::FULL_SCALE);
    let mut tolerance = [0.0; LANES];
    for lane in counted.iter() {
        most_caused = most_caused.max(app.caused[lane]);
        if app.tolerated_known.contains(lane) {
            least_tolerated = least_tolerated.min(app.tolerated[lane]);
            tolerance[lane] = app.tolerated[lane] as f32;
        }
    }
    let (room, least) = (
        100.0 - to_points(most_caused) as f32,
        to_points(least_tolerated) as f32,
    );
    let mut suitable = Suitable {
        bins: [false; MAGNITUDES.len()],
        one_direction: [false; MAGNITUDES.len()],
        direction: buckets.lsh.direction(&tolerance),
    };
    let mut from = 0.0;
    for (bin, end) in MAGNITUDES.iter().enumerate() {
        suitable.bins[bin] = from <= room;
        suitable.one_direction[bin] = *end > least;
        from = *end;
    }
    suitable
}

/// What admission says of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Place it now, or queue it where there is no room.
    Go,
    /// Too little has become free so far to say how long it would wait.
    Unknown,
    /// Until then at the latest.
    WaitUntil(f64),
}

/// Whether to hold a job back. It waits when there are fewer than `margin`
/// suitable free units for each it needs, and what it has waited and the
/// estimate for the rest come to less than μ + 2σ of the time between frees in
/// its buckets.
pub fn hold(
    request: &PlacementRequest,
    cluster: &Cluster,
    buckets: &mut Buckets,
    waiters: &mut Waiters,
    margin: f64,
) -> Verdict {
    // Where nothing runs, nothing will become free.
    if cluster.running() == 0 {
        return Verdict::Go;
    }
    let shares_cpus = cluster
        .summaries()
        .first()
        .is_some_and(|summary| summary.shares_cpus);
    let suitable = suitable(request.app, buckets, shares_cpus);
    let best = request.app.best_speed();
    // A platform suits on which the job keeps its QoS when undisturbed.
    let platforms = (0..cluster.platforms().len()).filter(|platform| {
        let speed = request.app.speed_on(PlatformId::nth(*platform));
        match (speed, best) {
            (Some(speed), Some(best)) => speed >= best * request.app.qos(),
            _ => true,
        }
    });
    let free = buckets.free(platforms.clone(), &suitable);
    if free as f64 >= margin * f64::from(request.demand.cpus) {
        return Verdict::Go;
    }
    let wait = buckets.wait(platforms, &suitable, request.demand.cpus, request.now);
    let Some((estimate, bound)) = wait else {
        return Verdict::Unknown;
    };
    let Waiter { since, until } = waiters.enter(request.app, request.now, bound);
    let waited = request.now - since;
    match waited + estimate < bound && request.now < until {
        true => Verdict::WaitUntil(until),
        false => Verdict::Go,
    }
}
