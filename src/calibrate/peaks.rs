//! What a source reaches alone: its peak, and the pressure at each intensity.

use super::press::Press;
use super::press::Slot;
use super::press::Stop;
use super::rounds::Rounds;
use crate::machine::calibration::PressurePoint;
use crate::sys::control_page::Order;
use jostle_statistics::median;
use std::time::Duration;

/// Intensities of the map, percent.
pub const INTENSITIES: [f64; 5] = [0.0, 25.0, 50.0, 75.0, 100.0];
/// Tries of the peak, of which the best counts.
const PEAK_TRIES: (usize, usize) = (2, 8);
/// Readings of each intensity.
const READINGS: (usize, usize) = (1, 9);
/// A share is an average over many turns.
const LEAST_WINDOW: Duration = Duration::from_millis(30);

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

/// Pressure at each of [`INTENSITIES`]: the median of several readings, taken
/// in turns so that a slow change of the machine meets all of them.
pub fn map(source: &mut dyn Press, slot: Slot) -> Result<Vec<PressurePoint>, Stop> {
    let Slot { timing, watch, .. } = slot;
    let full = source
        .full_scale()
        .ok_or_else(|| Stop::Failed("its worker told no pressure at 100 %".to_string()))?;
    let window = timing.window.max(LEAST_WINDOW);
    let mut readings = vec![Vec::new(); INTENSITIES.len()];
    let mut rounds = Rounds::of(slot, READINGS);
    while rounds.another() {
        for (percent, readings) in INTENSITIES.iter().zip(&mut readings) {
            source.order(Order::Treat(*percent), watch)?;
            watch.pause(timing.settle.min(window))?;
            let from = source.snapshot();
            watch.pause(window)?;
            let to = source.snapshot();
            readings.push(source.pressure(&from, &to));
        }
    }
    source.order(Order::Park, watch)?;
    let point = |(requested_percent, mut readings): (f64, Vec<f64>)| {
        let achieved = median(&mut readings);
        PressurePoint {
            requested_percent,
            achieved,
            achieved_percent: achieved / full * 100.0,
        }
    };
    Ok(INTENSITIES.into_iter().zip(readings).map(point).collect())
}
