//! From a profile's entries to tables.
//!
//! Nothing becomes a point that was measured as an interval: a curve carries
//! the variance of its points and, between them, that of not having looked; an
//! entry of which only a threshold is known is as wide as its interval, and one
//! that is inferred never narrower than [`INFERRED_SD`]. An unresolved entry has
//! scores with wide intervals, or none; a curve then still tells what it can.
//! An entry without numbers is not known.
//!
//! Performance in a curve is a fraction of the undisturbed level whichever way
//! the metric is better, so that the direction does not matter here.

use super::caused::APART;
use super::caused::STREAMS;
use super::caused::caused_of;
use super::caused::disk;
use super::caused::fits_a_cache;
use super::caused::kept_apart;
use super::caused::least_sd;
use super::caused::requests;
use super::caused::streamed;
use super::caused::surely_suffers;
use super::caused::used;
use super::cpu::CpuNeed;
use super::isotonic::Knot;
use super::isotonic::falling;
use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::lanes::core_private;
use super::lanes::lane;
use super::points::FLOOR;
use super::points::MOST_BEYOND;
use super::points::Z95;
use super::points::between;
use super::points::sd_around;
use super::points::sorted;
use super::points::with_ends;
use super::population::DiskNoise;
use super::population::Population;
use super::population::SEEN_AT;
use super::population::Sample;
use super::population::SampleEntry;
use super::responses::Curve;
use super::responses::GRID;
use super::responses::GRID_STEP;
use super::responses::Responses;
use super::spread::Spread;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;

impl Responses {
    /// The tables of a profile. Resources that this version does not know are
    /// left out.
    ///
    /// A measured loss is drawn towards none by as much as its interval allows
    /// (positive-part James–Stein): of eighteen resources that cost nothing,
    /// each measured a percent low by chance, the product would cost a sixth.
    ///
    /// The pressure caused is that of [`super::caused`], and the need of a shared
    /// CPU that of [`super::cpu`].
    pub fn from_profile(profile: &Profile) -> Self {
        let mut curves = Vec::new();
        let mut flat = LaneSet::EMPTY;
        let mut caused: Lanes<Option<(f32, f32)>> = [None; LANES];
        for (id, entry) in &profile.resources {
            let Some(lane) = lane(id) else { continue };
            let knots = measured(lane, entry, profile).map(|knots| shrunk(falling(&knots)));
            let knots = knots.or_else(|| from_threshold(entry, profile.qos.threshold));
            if let Some(knots) = knots {
                add(table(lane, &with_ends(knots)), &mut curves, &mut flat);
            }
            let points = caused_of(id, entry, profile.usage.as_ref(), None);
            caused[lane] = points.map(|(points, sd)| (points as f32, sd as f32));
        }
        let mut responses = Responses::new(curves, flat, &caused);
        responses.cpu = CpuNeed::from_profile(profile);
        responses
    }

    /// The tables of a profile, every entry drawn towards what `population` has
    /// there by as much as the entry leaves open; where nothing was measured, the
    /// population's mean and spread.
    ///
    /// What nobody of the population is known by either stays unknown.
    pub fn completed(profile: &Profile, population: &Population) -> Self {
        let mut curves = Vec::new();
        let mut flat = LaneSet::EMPTY;
        let mut caused: Lanes<Option<(f32, f32)>> = [None; LANES];
        let (mut assumed, mut caused_assumed) = (LaneSet::EMPTY, LaneSet::EMPTY);
        let absent = ResourceEntry::default();
        let noise = disk_noise(profile);
        let fit = fits_a_cache(profile);
        let need = CpuNeed::from_profile(profile);
        let demand = need.map_or(1.0, |need| f64::from(need.demand));
        // Whether the sources of bandwidth surely lost more than beside anybody.
        let (mut takes_memory, mut takes_cpu) = (false, false);
        for resource in Resource::ALL {
            let (lane, id) = (*resource as usize, resource.id());
            let entry = profile.resources.get(id).unwrap_or(&absent);
            if entry.status == Status::NotShared {
                continue;
            }
            let mode = entry
                .placement
                .as_ref()
                .map(|placement| placement.mode.name());
            let typical = population.typical(id, mode);
            let spread = typical.and_then(|typical| typical.ln.as_ref());
            let knots = measured(lane, entry, profile).map(|knots| match spread {
                Some(spread) => falling(&drawn(knots, spread)),
                None => shrunk(falling(&knots)),
            });
            let knots = knots.or_else(|| from_threshold(entry, profile.qos.threshold));
            let knots = knots.or_else(|| {
                assumed.insert(lane);
                spread.map(|spread| falling(&prior(spread)))
            });
            if let Some(knots) = knots {
                add(table(lane, &with_ends(knots)), &mut curves, &mut flat);
            }
            let read = profile.usage.as_ref().and_then(|usage| used(id, usage));
            let apart = population.streams_of(id, &noise);
            let apart = apart.filter(|_| read.is_none());
            let points = caused_of(id, entry, profile.usage.as_ref(), apart);
            let apart = apart.filter(|_| STREAMS.contains(resource));
            let points = match apart {
                Some(apart) => {
                    let suffers = surely_suffers(entry, apart);
                    match resource {
                        Resource::MemoryBandwidth => takes_memory = suffers,
                        _ => takes_cpu = suffers,
                    }
                    points.map(|points| streamed(points, fit, suffers, demand))
                }
                None => points,
            };
            let typical = typical.and_then(|typical| typical.caused);
            let points = match (points, typical) {
                // What the source lost is noisier than what can be read.
                (Some((points, sd)), Some(typical)) if apart.is_some() && fit != Some(true) => {
                    let (points, variance) = typical.draws(points, sd * sd);
                    Some((points, variance.sqrt()))
                }
                (None, Some(typical)) => {
                    caused_assumed.insert(lane);
                    Some((typical.mean, typical.sd))
                }
                (points, _) => points,
            };
            let points = points.map(|(points, sd)| (points.clamp(0.0, 100.0), sd));
            caused[lane] = points.map(|(points, sd)| (points as f32, sd as f32));
        }
        let streams = takes_memory && fit == Some(false);
        // What it loses beside sources of that cache is to the lines that they read back,
        // unless it is another of its processes that has their CPU.
        if streams && !takes_cpu {
            let of_cache = |curve: &Curve| READ_BACK.contains(&curve.lane());
            curves
                .extract_if(.., |curve| of_cache(curve))
                .for_each(|curve| flat.insert(curve.lane()));
        }
        // It takes the whole cache while it runs, and not only what a walk notices.
        let held = &mut caused[Resource::LlcCapacity as usize];
        if let (true, Some((points, _))) = (streams, held) {
            *points = points.max(100.0 * demand as f32);
        }
        let mut responses = Responses::new(curves, flat, &caused);
        responses.assumed = assumed.and(responses.known);
        responses.caused_assumed = caused_assumed.and(responses.caused_known);
        if let Some((ln, variance)) = population.interrupts(&noise) {
            responses.interrupts = (ln as f32, variance as f32);
        }
        responses.disk = disk(profile);
        if let Some(need) = need.filter(|need| !need.seldom_rests()) {
            responses.gains = gains(profile, need.demand);
        }
        responses.serving_chance = 1.0 / profile.machine.cpus.max(1) as f32;
        responses.unexplained = [false, true].map(|shares| population.unexplained.of(shares));
        responses.cpu = match (need, &population.cpu) {
            (Some(need), Some(typical)) => Some(need.drawn(typical)),
            (need, None) => need,
            (None, Some(typical)) => Some(CpuNeed::typical(typical)),
        };
        responses
    }
}

/// Sources that keep lines in the last-level cache. Beside a stream, which reads nothing
/// twice but evicts them, they read from memory.
const READ_BACK: [usize; 2] = [
    Resource::LlcCapacity as usize,
    Resource::LlcBandwidth as usize,
];

/// ln of what the application gained while placebos kept another CPU busy, drawn towards
/// no gain, and the variance of that. Those of the last-level cache and the memory spin
/// there; with them the CPU was awake all the time, without them idle.
fn gains(profile: &Profile, demand: f32) -> (f32, f32) {
    let beside = |resource: &Resource| {
        let entry = profile.resources.get(resource.id())?;
        let elsewhere = entry.placement.as_ref()?.mode != PlacementMode::SameCpu;
        let cost = entry.sharing_cost.filter(|_| elsewhere)?;
        let [low, high] = cost.ci95.map(f64::ln);
        let known = cost.value > 0.0 && low.is_finite() && high.is_finite();
        known.then(|| (cost.value.ln(), ((high - low) / (2.0 * Z95)).powi(2)))
    };
    // All of them have the same placebo, so that one is as good as the others.
    let Some((ln, variance)) = STREAMS.iter().find_map(beside) else {
        return (0.0, 0.0);
    };
    let prior = (GAINS * f64::from(1.0 - demand)).powi(2);
    let drawn = ln * prior / (prior + variance);
    let left = prior * variance / (prior + variance);
    (drawn.max(0.0) as f32, left as f32)
}

/// Standard deviation of what those gain that do nothing but wait: fio, SQLite with a flush
/// after each insert and dd, which use 15 to 34 % of a CPU, gained 1 to 10 %.
const GAINS: f64 = 0.1;

impl Population {
    /// Of `profiles`.
    pub fn of<'a>(profiles: impl Iterator<Item = &'a Profile>) -> Self {
        let samples: Vec<Sample> = profiles.map(sample).collect();
        Population::of_samples(samples.iter())
    }
}

impl Sample {
    /// What `profile` says, not drawn to anything.
    pub fn of(profile: &Profile) -> Self {
        sample(profile)
    }
}

fn disk_noise(profile: &Profile) -> DiskNoise {
    DiskNoise {
        requests: requests(profile),
        streams: kept_apart(profile)
            .map(|(resource, knot)| (resource.id(), knot.ln, knot.variance))
            .collect(),
    }
}

fn sample(profile: &Profile) -> Sample {
    let mut sample = Sample {
        entries: Vec::new(),
        cpu: CpuNeed::from_profile(profile),
        disk: disk_noise(profile),
    };
    for (id, entry) in &profile.resources {
        let (Some(lane), Some(placement)) = (lane(id), &entry.placement) else {
            continue;
        };
        let curve = measured(lane, entry, profile).map(|knots| {
            let knots = with_ends(knots);
            SEEN_AT.map(|at| {
                let (ln, variance) = between(&knots, at);
                Knot { at, ln, variance }
            })
        });
        let caused = caused_of(id, entry, profile.usage.as_ref(), None);
        let read = profile.usage.as_ref().and_then(|usage| used(id, usage));
        let from_source = read.is_none() && APART.contains(&Resource::ALL[lane]);
        if curve.is_some() || caused.is_some() {
            sample.entries.push(SampleEntry {
                id: id.clone(),
                mode: placement.mode.name(),
                curve,
                caused,
                uncorrected: from_source.then(|| Box::new(entry.clone())),
            });
        }
    }
    sample
}

fn add(curve: Curve, curves: &mut Vec<Curve>, flat: &mut LaneSet) {
    match curve.costs_nothing() {
        true => flat.insert(curve.lane()),
        false => curves.push(curve),
    }
}

/// The typical curve as points of its own.
fn prior(spread: &[Spread; 5]) -> Vec<Knot> {
    let knots = SEEN_AT.iter().zip(spread);
    knots
        .map(|(at, spread)| Knot {
            at: *at,
            ln: spread.mean,
            variance: spread.sd.powi(2),
        })
        .collect()
}

/// Each point drawn to the typical curve there.
fn drawn(mut knots: Vec<Knot>, spread: &[Spread; 5]) -> Vec<Knot> {
    let typical = with_ends(prior(spread));
    for knot in &mut knots {
        let (mean, _) = between(&typical, knot.at);
        let place = SEEN_AT.partition_point(|at| *at < knot.at).min(4);
        let sd = spread[place].sd * (knot.at / SEEN_AT[place]).min(1.0);
        (knot.ln, knot.variance) = Spread { mean, sd }.draws(knot.ln, knot.variance);
    }
    knots
}

/// Length of the scheduler's turns where a profile does not have it.
const USUAL_TURN_SECONDS: f64 = 3e-3;

/// What was seen of the entry's curve, in logarithms; `None` when nothing was.
///
/// What taking turns costs is a refill after each switch. Where its cost is
/// known (`switch`), the curve is a line to the loss in the scheduler's own
/// turns. A curve alone is of the slices of the profile; in longer turns the
/// same refill is a smaller share. How much smaller lies between the ratio of
/// their lengths, where a slice displaces as much as a turn, and nothing.
fn measured(lane: usize, entry: &ResourceEntry, profile: &Profile) -> Option<Vec<Knot>> {
    let knots = sorted(&entry.curve);
    let same_cpu = entry
        .placement
        .as_ref()
        .is_some_and(|placement| placement.mode == PlacementMode::SameCpu);
    if !same_cpu || !core_private(lane) || lane == Resource::CpuTime as usize {
        return (!knots.is_empty()).then_some(knots);
    }
    if let Some(switch) = entry.switch.as_ref().and_then(Reading::value) {
        let log = |percent: f64| (1.0 - percent / 100.0).max(FLOOR).ln();
        let loss = switch.expected_loss_percent;
        let ln = log(loss.value);
        return Some(vec![Knot {
            at: 100.0,
            ln,
            variance: sd_around(ln, loss.ci95.map(log)).powi(2),
        }]);
    }
    let conditions = &profile.conditions;
    let (Some(period), Some(share)) = (
        conditions.slice_period_seconds,
        conditions.slice_share_percent,
    ) else {
        return (!knots.is_empty()).then_some(knots);
    };
    let slice = period * (1.0 - share / 100.0);
    let least = (slice / USUAL_TURN_SECONDS).min(1.0);
    let (factor, sd) = (least.powf(0.6), (1.0 - least) / 12f64.sqrt());
    let scaled = knots.iter().map(|knot| Knot {
        at: knot.at,
        ln: knot.ln * factor,
        variance: knot.variance * factor * factor + (knot.ln * sd).powi(2),
    });
    let scaled: Vec<Knot> = scaled.collect();
    (!scaled.is_empty()).then_some(scaled)
}

/// The whole curve drawn towards none by what its surest loss leaves open:
/// where a loss at 100 is certain, a small one at 20 is no accident.
fn shrunk(mut knots: Vec<Knot>) -> Vec<Knot> {
    let surest = knots
        .iter()
        .map(|knot| knot.variance / (knot.ln * knot.ln))
        .filter(|open| !open.is_nan())
        .fold(f64::INFINITY, f64::min);
    let kept = (1.0 - surest).max(0.0);
    for knot in &mut knots {
        knot.ln *= kept;
    }
    knots
}

/// No curve: at `t` the loss is that of the QoS, and from 0 a straight line
/// goes there; how far off `t` may be is how far off the line may be.
fn from_threshold(entry: &ResourceEntry, qos: f64) -> Option<Vec<Knot>> {
    let tolerated = entry.tolerated?;
    let loss = -qos.ln().min(-0.01);
    let spread = least_sd(entry.status) * Z95;
    let low = tolerated.ci95[0].min(tolerated.score - spread).max(1.0);
    let high = tolerated.ci95[1].max(tolerated.score + spread);
    let at = tolerated.score.max(1.0);
    // The loss at `at` if the line reached that of the QoS at `low`, at `high`.
    let most = (loss * at / low).min(loss + MOST_BEYOND);
    if tolerated.score >= 100.0 {
        // Never violated: something between nothing and, hardly, `most`.
        return Some(vec![Knot {
            at: 100.0,
            ln: 0.0,
            variance: (most / Z95).powi(2),
        }]);
    }
    let least = loss * at / high.max(at);
    Some(vec![Knot {
        at,
        ln: -loss,
        variance: sd_around(loss, [least, most]).powi(2),
    }])
}

fn table(lane: usize, knots: &[Knot]) -> Curve {
    let on_grid: [(f64, f64); GRID] =
        std::array::from_fn(|step| between(knots, f64::from(step as f32 * GRID_STEP)));
    let (ln, variance) = (on_grid.map(|(ln, _)| ln), on_grid.map(|(_, spread)| spread));
    Curve::new(
        lane,
        ln.map(|ln| ln as f32),
        variance.map(|spread| spread as f32),
    )
}

#[cfg(test)]
mod tests;
