//! A source beside a second copy of itself: how much it loses, and how long
//! both need to find their new state after a switch.

use super::press::Press;
use super::press::Slot;
use super::press::Stop;
use super::press::Watch;
use super::rounds::Rounds;
use jostle_host::machine::calibration::ReporterPoint;
use jostle_host::sys::control_page::Order;
use jostle_statistics::median;
use std::time::Duration;

/// Intensities of the second copy, percent.
pub const INTENSITIES: [f64; 4] = [25.0, 50.0, 75.0, 100.0];
const ROUNDS: (usize, usize) = (1, 12);
/// The same for a victim of a cache of which unseen neighbours have a part now and then.
const PROBING_ROUNDS: (usize, usize) = (8, 24);
const SETTLE_ROUNDS: (usize, usize) = (1, 7);
/// How often CPUs that were moved apart are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Settled means this close to the state it ends in, a fraction.
const SETTLED: f64 = 0.1;
/// Pieces that the time after a switch is watched in; each from the second on is
/// as long as all before it together.
const PIECES: usize = 6;
/// Watched are this many times the settle time expected.
const WATCHED: u32 = 4;

/// How the two take turns on one CPU, if they do.
fn alone(probe_takes_turns: bool) -> Order {
    match probe_takes_turns {
        // Between its turns nobody else keeps the CPU awake.
        true => Order::TreatAlone(100.0),
        false => Order::Treat(100.0),
    }
}

/// How the two of a pair are set against each other.
pub struct Meeting<'a> {
    pub takes_turns: bool,
    /// Whether the probe is a victim in a way of its own.
    pub probes: bool,
    /// Whether both share a cache now; `None` where that is not known or cannot change.
    pub shares: &'a dyn Fn() -> Option<bool>,
}

/// The performance of `probe` at 100 % against the intensity of `second`, as a
/// fraction of what it does while `second` is parked; readings of one round
/// are compared, the median over rounds counts. While they do not share the cache that they
/// are said to share, no round begins, until `patience` is used up; rounds in which they
/// stopped sharing it do not count, nor, for a probe that is a victim, the
/// slower half of them by what it does without the second: somebody unseen had the cache.
pub fn curve(
    probe: &mut dyn Press,
    second: &mut dyn Press,
    meeting: &Meeting,
    slot: Slot,
    patience: &mut Duration,
) -> Result<Vec<ReporterPoint>, Stop> {
    let (without_copy, beside_copy) = match meeting.probes {
        true => (Order::Probe(100.0), Order::Probe(100.0)),
        false => (alone(meeting.takes_turns), Order::Treat(100.0)),
    };
    let Slot { timing, watch, .. } = slot;
    let mut ratios = vec![Vec::new(); INTENSITIES.len()];
    let read = |probe: &dyn Press| -> Result<f64, Stop> {
        watch.pause(timing.settle)?;
        let from = probe.snapshot();
        watch.pause(timing.window)?;
        let to = probe.snapshot();
        // A window without an operation is a reading too.
        Ok(probe.probe(&from, &to).unwrap_or(0.0))
    };
    let range = match meeting.probes {
        true => PROBING_ROUNDS,
        false => ROUNDS,
    };
    let mut rounds = Rounds::of(slot, range);
    let mut apart = false;
    let mut read_alone = Vec::new();
    while rounds.another() {
        second.order(Order::Park, watch)?;
        let mut shared = (meeting.shares)();
        while shared == Some(false) && !patience.is_zero() {
            watch.pause(LOOK)?;
            rounds.excuse(LOOK);
            *patience = patience.saturating_sub(LOOK);
            shared = (meeting.shares)();
        }
        probe.order(without_copy, watch)?;
        let without = read(probe)?;
        probe.order(beside_copy, watch)?;
        let mut beside = Vec::with_capacity(INTENSITIES.len());
        for percent in INTENSITIES {
            second.order(Order::Treat(percent), watch)?;
            beside.push(read(probe)?);
        }
        second.order(Order::Park, watch)?;
        probe.order(Order::Park, watch)?;
        if [shared, (meeting.shares)()].contains(&Some(false)) {
            apart = true;
        } else if without > 0.0 {
            read_alone.push(without);
            for (beside, ratios) in beside.into_iter().zip(&mut ratios) {
                ratios.push(beside / without);
            }
        }
    }
    if meeting.probes {
        let middle = median(&mut read_alone.clone());
        for ratios in &mut ratios {
            let mut of_round = read_alone.iter();
            ratios.retain(|_| of_round.next().is_some_and(|alone| *alone >= middle));
        }
    }
    if ratios[0].is_empty() && apart {
        return Err(Stop::Failed(
            "this virtual machine's CPUs did not share the cache meanwhile; `jostle machine \
             --watch` shows when they do: calibrate again then"
                .to_string(),
        ));
    }
    if ratios[0].is_empty() {
        return Err(Stop::Failed(
            "its worker did nothing even without a second copy".to_string(),
        ));
    }
    let point = |(intensity, mut ratios): (f64, Vec<f64>)| ReporterPoint {
        intensity,
        windows: ratios.len() as u64,
        performance: median(&mut ratios),
    };
    Ok(INTENSITIES.into_iter().zip(ratios).map(point).collect())
}

/// How long after a switch of `second`, on and off, `probe` still does something
/// else than in the end. Known to the doubling, and not below the first piece
/// watched, which is an eighth of what is expected, or `shortest`.
pub fn settle(
    probe: &mut dyn Press,
    second: &mut dyn Press,
    takes_turns: bool,
    shortest: Duration,
    slot: Slot,
) -> Result<Duration, Stop> {
    let Slot { timing, watch, .. } = slot;
    let first = (timing.settle * WATCHED / (1 << (PIECES - 1))).max(shortest);
    let mut on = vec![Vec::new(); PIECES];
    let mut off = vec![Vec::new(); PIECES];
    let mut rounds = Rounds::of(slot, SETTLE_ROUNDS);
    while rounds.another() {
        probe.order(Order::Treat(100.0), watch)?;
        second.order(Order::Treat(100.0), watch)?;
        note(&mut on, probe, first, watch)?;
        second.order(Order::Park, watch)?;
        probe.order(alone(takes_turns), watch)?;
        note(&mut off, probe, first, watch)?;
    }
    second.order(Order::Park, watch)?;
    probe.order(Order::Park, watch)?;
    // At least one round was done: no piece is empty.
    let pieces = |mut pieces: Vec<Vec<f64>>| -> usize {
        let medians: Vec<f64> = pieces.iter_mut().map(|piece| median(piece)).collect();
        settled_after(&medians)
    };
    let pieces = pieces(on).max(pieces(off));
    Ok(first * (1 << pieces.saturating_sub(1)))
}

/// Reads `source` in pieces that double, the first being `first` long, and adds
/// each piece's performance relative to the last one's.
fn note(
    pieces: &mut [Vec<f64>],
    source: &dyn Press,
    first: Duration,
    watch: &dyn Watch,
) -> Result<(), Stop> {
    let mut from = source.snapshot();
    let mut done = Vec::new();
    for piece in 0..pieces.len() {
        watch.pause(match piece {
            0 => first,
            _ => first * (1 << (piece - 1)),
        })?;
        let to = source.snapshot();
        done.push(source.probe(&from, &to));
        from = to;
    }
    let Some(end) = done.last().copied().flatten() else {
        return Err(Stop::Failed("its worker did nothing when watched".into()));
    };
    for (piece, rate) in pieces.iter_mut().zip(done) {
        // Doing nothing yet is as far from the end state as can be.
        piece.push(rate.map_or(0.0, |rate| rate / end));
    }
    Ok(())
}

/// How many pieces lie before the first that has reached the end state for
/// good, at most all but the last.
pub fn settled_after(relative: &[f64]) -> usize {
    relative
        .iter()
        .rposition(|rate| (rate - 1.0).abs() > SETTLED)
        .map_or(0, |piece| piece + 1)
}
