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
/// A victim has back what it lost after so long: a walk through 8 MiB, all of which had been
/// evicted, was as fast as before after 40 to 110 ms (`scripts/llc-walk recovery 8 sequence
/// 28`, two runs on a 2-vCPU guest of an EPYC host).
const RECOVERS: Duration = Duration::from_millis(100);
/// How often CPUs that were moved apart are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Settled means this close to the state it ends in, a fraction.
const SETTLED: f64 = 0.1;
/// Pieces that the time after a switch is watched in; each from the second on is
/// as long as all before it together.
const PIECES: usize = 6;
/// Watched are this many times the settle time expected.
const WATCHED: u32 = 4;

/// What the first of a pair is, beside the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A source as it is beside a target, in turns on the same CPU or on one of its own.
    InTurns,
    Apart,
    /// A victim in a way of its own.
    Victim,
}

impl Probe {
    /// What it is ordered to do while the second is parked, and beside it.
    fn orders(self) -> [Order; 2] {
        match self {
            // Between its turns nobody else keeps the CPU awake.
            Probe::InTurns => [Order::TreatAlone(100.0), Order::Treat(100.0)],
            Probe::Apart => [Order::Treat(100.0); 2],
            Probe::Victim => [Order::Probe(100.0); 2],
        }
    }
}

/// How the two of a pair are set against each other.
pub struct Meeting<'a> {
    pub probe: Probe,
    /// Whether both share a cache now; `None` where that is not known or cannot change.
    pub shares: &'a dyn Fn() -> Option<bool>,
}

const APART: &str = "this virtual machine's CPUs did not share the cache meanwhile; `jostle \
                     machine --watch` shows when they do: calibrate again then";

impl Meeting<'_> {
    fn are_apart(&self) -> bool {
        (self.shares)() == Some(false)
    }

    /// Waits until both share a cache, at most until `patience` is used up; whether they do.
    fn wait(
        &self,
        rounds: &mut Rounds,
        patience: &mut Duration,
        watch: &dyn Watch,
    ) -> Result<bool, Stop> {
        while self.are_apart() {
            if patience.is_zero() {
                return Ok(false);
            }
            watch.pause(LOOK)?;
            rounds.excuse(LOOK);
            *patience = patience.saturating_sub(LOOK);
        }
        Ok(true)
    }
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
    let [without_copy, beside_copy] = meeting.probe.orders();
    let victim = meeting.probe == Probe::Victim;
    let Slot { timing, watch, .. } = slot;
    let mut ratios = vec![Vec::new(); INTENSITIES.len()];
    let read = |probe: &dyn Press, settle: Duration| -> Result<f64, Stop> {
        watch.pause(settle)?;
        let from = probe.snapshot();
        watch.pause(timing.window)?;
        let to = probe.snapshot();
        // A window without an operation is a reading too.
        Ok(probe.probe(&from, &to).unwrap_or(0.0))
    };
    let range = match victim {
        true => PROBING_ROUNDS,
        false => ROUNDS,
    };
    let mut rounds = Rounds::of(slot, range);
    let mut apart = false;
    let mut read_alone = Vec::new();
    while rounds.another() {
        second.order(Order::Park, watch)?;
        let together = meeting.wait(&mut rounds, patience, watch)?;
        probe.order(without_copy, watch)?;
        let without = read(probe, if victim { RECOVERS } else { timing.settle })?;
        probe.order(beside_copy, watch)?;
        let mut beside = Vec::with_capacity(INTENSITIES.len());
        for percent in INTENSITIES {
            second.order(Order::Treat(percent), watch)?;
            beside.push(read(probe, timing.settle)?);
        }
        second.order(Order::Park, watch)?;
        probe.order(Order::Park, watch)?;
        if !together || meeting.are_apart() {
            apart = true;
        } else if without > 0.0 {
            read_alone.push(without);
            for (beside, ratios) in beside.into_iter().zip(&mut ratios) {
                ratios.push(beside / without);
            }
        }
    }
    if victim {
        let middle = median(&mut read_alone.clone());
        for ratios in &mut ratios {
            let mut of_round = read_alone.iter();
            ratios.retain(|_| of_round.next().is_some_and(|alone| *alone >= middle));
        }
    }
    if ratios[0].is_empty() && apart {
        return Err(Stop::Failed(APART.to_string()));
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
/// watched, which is an eighth of what is expected, or `shortest`. For a victim only
/// the switch on counts: it gets back what it lost at a pace of its own. Waits and leaves out
/// rounds as [`curve`] does.
pub fn settle(
    probe: &mut dyn Press,
    second: &mut dyn Press,
    meeting: &Meeting,
    shortest: Duration,
    slot: Slot,
    patience: &mut Duration,
) -> Result<Duration, Stop> {
    let Slot { timing, watch, .. } = slot;
    let first = (timing.settle * WATCHED / (1 << (PIECES - 1))).max(shortest);
    let [mut on, mut off] = [(); 2].map(|()| vec![Vec::new(); PIECES]);
    let [without_copy, beside_copy] = meeting.probe.orders();
    let mut rounds = Rounds::of(slot, SETTLE_ROUNDS);
    while rounds.another() {
        let together = meeting.wait(&mut rounds, patience, watch)?;
        probe.order(beside_copy, watch)?;
        second.order(Order::Treat(100.0), watch)?;
        let switched_on = note(probe, first, watch)?;
        second.order(Order::Park, watch)?;
        probe.order(without_copy, watch)?;
        let switched_off = note(probe, first, watch)?;
        if !together || meeting.are_apart() {
            continue;
        }
        for (pieces, seen) in [(&mut on, switched_on), (&mut off, switched_off)] {
            for (piece, rate) in pieces.iter_mut().zip(seen) {
                piece.push(rate);
            }
        }
    }
    second.order(Order::Park, watch)?;
    probe.order(Order::Park, watch)?;
    if on[0].is_empty() {
        return Err(Stop::Failed(APART.to_string()));
    }
    let pieces = |mut pieces: Vec<Vec<f64>>| -> usize {
        let medians: Vec<f64> = pieces.iter_mut().map(|piece| median(piece)).collect();
        settled_after(&medians)
    };
    let (on, off) = (pieces(on), pieces(off));
    let pieces = match meeting.probe {
        Probe::Victim => on,
        _ => on.max(off),
    };
    Ok(first * (1 << pieces.saturating_sub(1)))
}

/// Reads `source` in pieces that double, the first being `first` long: the performance in
/// each relative to that in the last.
fn note(source: &dyn Press, first: Duration, watch: &dyn Watch) -> Result<Vec<f64>, Stop> {
    let mut from = source.snapshot();
    let mut done = Vec::new();
    for piece in 0..PIECES {
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
    // Doing nothing yet is as far from the end state as can be.
    let relative = |rate: Option<f64>| rate.map_or(0.0, |rate| rate / end);
    Ok(done.into_iter().map(relative).collect())
}

/// How many pieces lie before the first that has reached the end state for
/// good, at most all but the last.
pub fn settled_after(relative: &[f64]) -> usize {
    relative
        .iter()
        .rposition(|rate| (rate - 1.0).abs() > SETTLED)
        .map_or(0, |piece| piece + 1)
}
