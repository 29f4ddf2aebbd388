//! What a wake-up costs whoever uses the CPU.

use super::press::Stop;
use super::press::Watch;
use super::rounds::Rounds;
use crate::inject::slice::Victim;
use crate::machine::calibration::WakeUp;
use crate::sys::clock::monotonic_ns;
use crate::sys::clock::sleep_until;
use crate::sys::cpus::set_affinity;
use crate::sys::process::set_timer_slack;
use crate::sys::sched::request_slice;
use jostle_profile::reading::Reading;
use jostle_statistics::median;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Pause between two wake-ups.
const GAP_NS: u64 = 50_000;
const WINDOW: Duration = Duration::from_millis(30);
const ROUNDS: (usize, usize) = (5, 25);

/// Lets a thread wake up again and again on `cpu`, where another one spins, and
/// compares the spinning with and without it.
pub(super) fn cost(cpu: usize, length: Duration, watch: &dyn Watch) -> Result<WakeUp, Stop> {
    watch.say("cost of a wake-up")?;
    let victim = Victim::start(cpu);
    let mut costs = Vec::new();
    let mut late = Vec::new();
    let mut rounds = Rounds::new(length, ROUNDS, watch);
    while rounds.another() {
        watch.check()?;
        let before = victim.speed(WINDOW);
        let end = AtomicBool::new(false);
        let (beside, lateness, wall_ns) = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_and_wake(cpu, &end));
            let from = monotonic_ns();
            let beside = victim.speed(WINDOW);
            end.store(true, Relaxed);
            let wall_ns = (monotonic_ns() - from) as f64;
            (beside, sleeper.join().expect("it only sleeps"), wall_ns)
        });
        // What changes by itself meanwhile is the same on both sides.
        let alone = (before + victim.speed(WINDOW)) / 2.0;
        if lateness.len() >= 10 {
            let lost = (1.0 - beside / alone) * wall_ns / 1e9;
            costs.push(lost / lateness.len() as f64);
            late.extend(lateness);
        }
    }
    if costs.is_empty() {
        return Err(Stop::Failed(
            "a thread that sleeps beside a spinning one hardly ever ran".to_string(),
        ));
    }
    costs.sort_by(f64::total_cmp);
    let (low, high) = (costs[costs.len() / 4], costs[costs.len() * 3 / 4]);
    Ok(WakeUp {
        cost_seconds: match low > 0.0 {
            true => Reading::Value(median(&mut costs)),
            false => Reading::unavailable(format!(
                "not to be told from noise: half of the readings lie between {:.1} and {:.1} µs",
                low * 1e6,
                high * 1e6
            )),
        },
        lateness_seconds: median(&mut late),
    })
}

/// Sleeps over and over until `end`; how late each wake-up was, seconds.
fn sleep_and_wake(cpu: usize, end: &AtomicBool) -> Vec<f64> {
    let _ = set_affinity(0, &[cpu]);
    set_timer_slack(1);
    // As the workers do that take turns.
    let _ = request_slice(100_000);
    let mut late = Vec::new();
    while !end.load(Relaxed) {
        let due = monotonic_ns() + GAP_NS;
        sleep_until(due);
        late.push((monotonic_ns() - due) as f64 / 1e9);
    }
    late
}
