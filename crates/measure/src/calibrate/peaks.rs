//! What a source reaches alone.

use super::press::Press;
use super::press::Slot;
use super::press::Stop;
use super::rounds::Rounds;

/// Tries of the peak, of which the best counts.
const PEAK_TRIES: (usize, usize) = (2, 8);

/// The best of several tries, operations per second of all workers, left in
/// force as the peak: what disturbs a try can only lower it. `None` for sources
/// that are not held at a rate.
pub fn peak(source: &mut dyn Press, slot: Slot) -> Result<Option<f64>, Stop> {
    let mut best: Option<f64> = None;
    let mut rounds = Rounds::of(slot, PEAK_TRIES);
    while rounds.another() {
        let Some(reached) = source.reach_peak(slot.timing.peak, slot.watch)? else {
            break;
        };
        best = Some(best.map_or(reached, |best| best.max(reached)));
    }
    if let Some(best) = best {
        source.set_peak(best);
    }
    Ok(best)
}
