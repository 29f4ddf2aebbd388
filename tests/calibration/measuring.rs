//! Knees, peaks, loss and settle times of planted curves and of sources on a virtual clock.

use jostle_host::inject::Snapshot;
use jostle_host::sys::control_page::Order;
use jostle_measure::calibrate::Slot;
use jostle_measure::calibrate::Stop;
use jostle_measure::calibrate::Watch;
use jostle_measure::calibrate::knees::Access;
use jostle_measure::calibrate::knees::knees;
use jostle_measure::calibrate::peaks;
use jostle_measure::calibrate::press::Press;
use jostle_measure::calibrate::reporter;
use jostle_measure::calibrate::reporter::Meeting;
use jostle_measure::calibrate::reporter::Probe;
use jostle_profile::resource::Resource;
use jostle_profile::resource::Timing;
use proptest::prelude::*;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Access times over sizes from 4 KiB on, with a rise at each knee (size, time
/// behind it) that takes about an octave, each the least of `tries` readings to
/// which noise only adds.
fn planted(
    first_ns: f64,
    rises: &[(f64, f64)],
    noise: f64,
    tries: usize,
    seed: u64,
) -> Vec<Access> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..=108)
        .map(|step| {
            let size = 4096.0 * (f64::from(step) / 6.0).exp2();
            let mut log = first_ns.ln();
            let mut before = first_ns;
            for (at, after) in rises {
                let risen = 1.0 / (1.0 + (-8.0 * (size / at).log2()).exp());
                log += risen * (after / before).ln();
                before = *after;
            }
            let least = (0..tries)
                .map(|_| 1.0 + noise * rng.random::<f64>() + f64::from(rng.random::<f64>() < 0.1))
                .fold(f64::INFINITY, f64::min);
            Access {
                size: size as u64,
                nanoseconds: log.exp() * least,
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn planted_knees_are_found_through_noise(
        l1 in 14.5f64..16.0, l2 in 3.5f64..6.0, llc in 3.5f64..6.0,
        times in (3.0f64..8.0, 8.0f64..20.0, 1.4f64..3.0),
        seed in any::<u64>(),
    ) {
        let (l1, l2, llc) = (l1.exp2(), (l1 + l2).exp2(), (l1 + l2 + llc).exp2());
        let (a, b, c) = (6.0 * times.0 / 3.0, 60.0 * times.1 / 8.0, 60.0 * times.1 / 8.0 * times.2);
        let curve = planted(4.0, &[(l1, a), (l2, b), (llc, c)], 0.08, 8, seed);
        let found = knees(&curve);
        prop_assert_eq!(found.len(), 3, "{:?}", found);
        for (knee, size) in found.iter().zip([l1, l2, llc]) {
            let apart = (knee.size as f64 / size).log2().abs();
            prop_assert!(apart < 0.35, "{} instead of {size}", knee.size);
        }
    }

    #[test]
    fn a_flat_curve_has_no_knee(noise in 0.0f64..0.1, seed in any::<u64>()) {
        // Of four tries all are disturbed in one of 10,000 sizes, and the last size has no
        // larger one that says better.
        prop_assert_eq!(knees(&planted(4.0, &[], noise, 8, seed)), []);
    }
}

#[test]
fn a_disturbance_that_passes_is_no_knee() {
    // What is larger cannot be faster: the bump is noise.
    let mut curve = planted(4.0, &[(48e3, 12.0)], 0.02, 4, 1);
    for access in &mut curve[60..75] {
        access.nanoseconds *= 3.0;
    }
    assert_eq!(knees(&curve).len(), 1);
    assert_eq!(knees(&[]), []);
    assert_eq!(knees(&curve[..1]), []);
}

// ── A made-up source ─────────────────────────────────────────────────────────

/// Time that passes only when somebody waits.
#[derive(Default)]
struct Virtual(Mutex<Duration>);

impl Watch for Virtual {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn pause(&self, length: Duration) -> Result<(), Stop> {
        *self.0.lock().unwrap() += length;
        self.check()
    }
    fn check(&self) -> Result<(), Stop> {
        match self.now() < Duration::from_secs(600) {
            true => Ok(()),
            false => Err(Stop::Interrupted),
        }
    }
    fn say(&self, _text: &str) -> Result<(), Stop> {
        self.check()
    }
}

/// Order and the moment it was given.
type State = Arc<Mutex<(Order, Duration)>>;

/// Delivers `rate` operations per second less what a neighbour takes, from
/// `settle` after the neighbour's last switch on, `comes_back` after its last switch off.
struct Made<'a> {
    clock: &'a Virtual,
    own: State,
    neighbour: Option<State>,
    rate: f64,
    peak: f64,
    settle: Duration,
    comes_back: Duration,
    /// When somebody unseen has what it uses: it is slow then, whatever its neighbour does.
    held: Option<fn(Duration) -> bool>,
    noise: Mutex<ChaCha8Rng>,
}

impl<'a> Made<'a> {
    fn new(clock: &'a Virtual, neighbour: Option<State>, settle: Duration) -> Self {
        Made {
            clock,
            own: Arc::new(Mutex::new((Order::Park, Duration::ZERO))),
            neighbour,
            rate: 1e6,
            peak: 0.0,
            settle,
            comes_back: settle,
            held: None,
            noise: Mutex::new(ChaCha8Rng::seed_from_u64(7)),
        }
    }

    /// Operations per second at `at`.
    fn speed(&self, at: Duration) -> f64 {
        if self.held.is_some_and(|held| held(at)) {
            return self.rate * 0.2;
        }
        let Some(neighbour) = &self.neighbour else {
            return self.rate;
        };
        let (order, since) = *neighbour.lock().unwrap();
        let taken = order.intensity().unwrap_or(0.0) / 100.0 * 0.4;
        let needed = match order {
            Order::Park => self.comes_back,
            _ => self.settle,
        };
        match at < since + needed {
            // Slower than either state while both find their caches again.
            true => self.rate * 0.3,
            false => self.rate * (1.0 - taken),
        }
    }
}

impl Press for Made<'_> {
    fn order(&mut self, order: Order, watch: &dyn Watch) -> Result<(), Stop> {
        *self.own.lock().unwrap() = (order, self.clock.now());
        watch.check()
    }
    fn reach_peak(&mut self, length: Duration, watch: &dyn Watch) -> Result<Option<f64>, Stop> {
        watch.pause(length)?;
        // A neighbour nobody sees takes up to a third of a try.
        let lost = self.noise.lock().unwrap().random::<f64>() / 3.0;
        self.peak = self.rate * (1.0 - lost);
        Ok(Some(self.peak))
    }
    fn set_peak(&mut self, operations_per_second: f64) {
        self.peak = operations_per_second;
    }
    fn full_scale(&self) -> Option<f64> {
        Some(self.peak)
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            at_ns: self.clock.now().as_nanos() as u64,
            operations: 0,
            active_ns: 0,
            held: 0,
            traffic: Default::default(),
        }
    }
    fn pressure(&self, _from: &Snapshot, _to: &Snapshot) -> f64 {
        let (order, _) = *self.own.lock().unwrap();
        self.peak * order.intensity().unwrap_or(0.0) / 100.0
    }
    fn probe(&self, from: &Snapshot, to: &Snapshot) -> Option<f64> {
        let steps = 200;
        let at = |step: u64| from.at_ns + (to.at_ns - from.at_ns) * step / steps;
        let sum: f64 = (0..steps)
            .map(|step| self.speed(Duration::from_nanos(at(step))))
            .sum();
        Some(sum / steps as f64)
    }
}

const TIMING: Timing = Timing {
    settle: Duration::from_millis(40),
    window: Duration::from_millis(50),
    peak: Duration::from_millis(60),
};

fn slot(timing: Timing, length: Duration, watch: &Virtual) -> Slot<'_> {
    Slot {
        timing,
        length,
        watch,
    }
}

#[test]
fn the_peak_is_the_best_of_its_tries() {
    let clock = Virtual::default();
    let mut source = Made::new(&clock, None, Duration::ZERO);
    let timing = Resource::MemoryBandwidth.row().timing;
    let long = Duration::from_secs(2);
    let peak = peaks::peak(&mut source, slot(timing, long, &clock))
        .unwrap()
        .unwrap();
    assert!(peak > 0.9e6 && peak <= 1e6, "{peak}");
    assert_eq!(
        source.full_scale(),
        Some(peak),
        "the last try must not stand"
    );
}

#[test]
fn a_second_copy_tells_loss_and_settle_time() {
    let clock = Virtual::default();
    let timing = TIMING;
    let mut second = Made::new(&clock, None, Duration::ZERO);
    let planted = Duration::from_millis(35);
    let mut probe = Made::new(&clock, Some(second.own.clone()), planted);
    let long = Duration::from_secs(3);
    let meeting = |shares| Meeting {
        probe: Probe::Apart,
        shares,
    };
    let settle = reporter::settle(
        &mut probe,
        &mut second,
        &meeting(&|| None),
        Duration::from_millis(1),
        slot(timing, long, &clock),
        &mut Duration::default(),
    )
    .unwrap();
    assert!(planted <= settle && settle <= planted * 3, "{settle:?}");
    let curve = reporter::curve(
        &mut probe,
        &mut second,
        &meeting(&|| None),
        slot(timing, long, &clock),
        &mut Duration::default(),
    )
    .unwrap();
    let performance: Vec<f64> = curve.iter().map(|point| point.performance).collect();
    for (found, expected) in performance.iter().zip([0.9, 0.8, 0.7, 0.6]) {
        assert!((found - expected).abs() < 0.01, "{performance:?}");
    }
    assert!(curve.iter().all(|point| point.windows >= 3));

    let apart = reporter::curve(
        &mut probe,
        &mut second,
        &meeting(&|| Some(false)),
        slot(timing, long, &clock),
        &mut Duration::default(),
    );
    assert!(matches!(apart, Err(Stop::Failed(reason)) if reason.contains("did not share")));

    // CPUs that are apart are waited for, and the wait takes no rounds.
    let until = clock.now() + Duration::from_secs(4);
    let later = || Some(clock.now() >= until);
    let slot = slot(timing, Duration::from_secs(2), &clock);
    let mut patience = Duration::from_secs(10);
    let mut curve_of = |meeting: &Meeting| {
        reporter::curve(&mut probe, &mut second, meeting, slot, &mut patience).unwrap()
    };
    let waited = curve_of(&meeting(&later));
    let at_once = curve_of(&meeting(&|| None));
    assert_eq!(waited[0].windows, at_once[0].windows);
    assert!(patience > Duration::from_secs(5) && patience <= Duration::from_secs(6));
}

#[test]
fn a_victim_gets_back_what_it_lost_at_its_own_pace() {
    let clock = Virtual::default();
    let timing = TIMING;
    let slot = slot(timing, Duration::from_secs(3), &clock);
    let mut second = Made::new(&clock, None, Duration::ZERO);
    let [on, off] = [4, 40].map(Duration::from_millis);
    let mut probe = Made::new(&clock, Some(second.own.clone()), on);
    probe.comes_back = off;
    let mut settle_of = |probe_is, shares: &dyn Fn() -> Option<bool>, patience| {
        let meeting = Meeting {
            probe: probe_is,
            shares,
        };
        let shortest = Duration::from_millis(1);
        let mut patience = Duration::from_secs(patience);
        reporter::settle(
            &mut probe,
            &mut second,
            &meeting,
            shortest,
            slot,
            &mut patience,
        )
        .map(|settle| (settle, patience))
    };
    let (settle, _) = settle_of(Probe::Victim, &|| None, 0).unwrap();
    assert!(on <= settle && settle <= on * 3, "{settle:?}");
    let (settle, _) = settle_of(Probe::Apart, &|| None, 0).unwrap();
    assert!(off <= settle && settle <= off * 3, "{settle:?}");

    // Nothing is known of CPUs that are apart, and they are waited for.
    let apart = settle_of(Probe::Victim, &|| Some(false), 0);
    assert!(matches!(apart, Err(Stop::Failed(reason)) if reason.contains("did not share")));
    let until = clock.now() + Duration::from_secs(4);
    let (settle, left) = settle_of(Probe::Victim, &|| Some(clock.now() >= until), 10).unwrap();
    assert!(on <= settle && settle <= on * 3, "{settle:?}");
    assert!(left > Duration::from_secs(5) && left <= Duration::from_secs(6));

    // Alone it is read when it has everything back.
    probe.comes_back = Duration::from_millis(80);
    let meeting = Meeting {
        probe: Probe::Victim,
        shares: &|| None,
    };
    let patience = &mut Duration::default();
    let curve = reporter::curve(&mut probe, &mut second, &meeting, slot, patience).unwrap();
    for (point, expected) in curve.iter().zip([0.9, 0.8, 0.7, 0.6]) {
        assert!((point.performance - expected).abs() < 0.01, "{curve:?}");
    }
}

#[test]
fn a_victim_is_judged_by_rounds_in_which_nobody_else_had_its_cache() {
    let clock = Virtual::default();
    let timing = TIMING;
    let mut second = Made::new(&clock, None, Duration::ZERO);
    let mut probe = Made::new(&clock, Some(second.own.clone()), Duration::ZERO);
    // Two seconds of five: a round takes half a second.
    probe.held = Some(|at| at.as_millis() % 5000 < 2000);
    let meeting = Meeting {
        probe: Probe::Victim,
        shares: &|| None,
    };
    let slot = slot(timing, Duration::from_secs(10), &clock);
    let mut curve_of = |slot| {
        let patience = &mut Duration::default();
        reporter::curve(&mut probe, &mut second, &meeting, slot, patience).unwrap()
    };
    let curve = curve_of(slot);
    for (point, expected) in curve.iter().zip([0.9, 0.8, 0.7, 0.6]) {
        assert!((point.performance - expected).abs() < 0.01, "{curve:?}");
        assert!(point.windows >= 4, "{curve:?}");
    }
    // Enough rounds even where time is short.
    let short = Slot {
        length: Duration::from_millis(100),
        ..slot
    };
    let curve = curve_of(short);
    assert!(curve[0].windows >= 4, "{curve:?}");
}

#[test]
fn settled_means_for_good() {
    assert_eq!(reporter::settled_after(&[0.5, 0.99, 1.0]), 1);
    assert_eq!(reporter::settled_after(&[1.0, 0.5, 1.0]), 2);
    assert_eq!(reporter::settled_after(&[1.05, 0.95, 1.0]), 0);
    assert_eq!(reporter::settled_after(&[]), 0);
}

#[test]
fn less_time_means_fewer_repetitions_and_interruption_ends_it() {
    let spent = |length| {
        let clock = Virtual::default();
        let mut source = Made::new(&clock, None, Duration::ZERO);
        peaks::peak(
            &mut source,
            slot(Resource::L1d.row().timing, length, &clock),
        )
        .map(|_| clock.now())
    };
    let short = spent(Duration::ZERO).unwrap();
    assert!(spent(Duration::from_secs(100)).unwrap() > 2 * short);
    let clock = Virtual::default();
    clock.pause(Duration::from_secs(600)).unwrap_err();
    let mut source = Made::new(&clock, None, Duration::ZERO);
    let stopped = peaks::peak(
        &mut source,
        slot(Resource::L1d.row().timing, Duration::ZERO, &clock),
    );
    assert_eq!(stopped.unwrap_err(), Stop::Interrupted);
}
