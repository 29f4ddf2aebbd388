//! A source beside a second copy of itself: how much it loses, and how long
//! both need to find their new state after a switch.

use super::press::Press;
use super::press::Slot;
use super::press::Stop;
use super::press::Watch;
use super::rounds::Rounds;
use crate::machine::calibration::ReporterPoint;
use crate::sys::control_page::Order;
use jostle_statistics::median;
use std::time::Duration;

/// Intensities of the second copy, percent.
pub const INTENSITIES: [f64; 4] = [25.0, 50.0, 75.0, 100.0];
const ROUNDS: (usize, usize) = (1, 12);
const SETTLE_ROUNDS: (usize, usize) = (1, 7);
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

/// The performance of `probe` at 100 % against the intensity of `second`, as a
/// fraction of what it does while `second` is parked; readings of one round
/// are compared, the median over rounds counts.
pub fn curve(
    probe: &mut dyn Press,
    second: &mut dyn Press,
    takes_turns: bool,
    slot: Slot,
) -> Result<Vec<ReporterPoint>, Stop> {
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
    let mut rounds = Rounds::of(slot, ROUNDS);
    while rounds.another() {
        second.order(Order::Park, watch)?;
        probe.order(alone(takes_turns), watch)?;
        let without = read(probe)?;
        probe.order(Order::Treat(100.0), watch)?;
        for (percent, ratios) in INTENSITIES.iter().zip(&mut ratios) {
            second.order(Order::Treat(*percent), watch)?;
            let beside = read(probe)?;
            if without > 0.0 {
                ratios.push(beside / without);
            }
        }
    }
    second.order(Order::Park, watch)?;
    probe.order(Order::Park, watch)?;
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
