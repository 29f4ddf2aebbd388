//! A profile that no longer describes its application, on traces of real programs
//! (`jostle counters --every 400ms`, 60 windows each): what they do by themselves.
//! How often they are switched away depends on their neighbours and is left out.

use jostle_schedule::drift::DriftError;
use jostle_schedule::drift::Watch;
use jostle_schedule::drift::Window;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

const PROGRAMS: [&str; 6] = ["dd", "gzip", "python", "sort", "sqlite", "xz"];
/// Windows that are learned from.
const LEARNED: usize = 24;

fn trace(name: &str) -> Vec<Window> {
    let path = format!(
        "{}/tests/fixtures/traces/{name}.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names = reader.headers().unwrap().clone();
    let rows = reader.records().map(|row| {
        let row = row.unwrap();
        let cells = names.iter().zip(row.iter());
        let cells = cells.filter_map(|(name, text)| Some((name.to_string(), text.parse().ok()?)));
        cells.collect()
    });
    rows.collect()
}

/// The window, counted from 1, at which drift is seen first.
fn first(watch: &mut Watch, windows: &[Window]) -> Option<usize> {
    let seen = windows
        .iter()
        .position(|window| watch.see(window).is_some());
    seen.map(|at| at + 1)
}

#[test]
fn programs_that_go_on_as_before_give_no_alarm() {
    for name in PROGRAMS {
        let trace = trace(name);
        let mut watch = Watch::learn(&trace[..LEARNED], 1).unwrap();
        assert_eq!(first(&mut watch, &trace[LEARNED..]), None, "{name}");
        assert_eq!(watch.see(&Window::new()), None, "{name}");
    }
}

#[test]
fn another_program_is_noticed_within_seconds() {
    let mut late = Vec::new();
    for name in PROGRAMS {
        let learned = Watch::learn(&trace(name)[..LEARNED], 1).unwrap();
        for other in PROGRAMS.into_iter().filter(|other| *other != name) {
            let mut watch = learned.clone();
            match first(&mut watch, &trace(other)) {
                Some(..=40) => {}
                when => late.push((name, other, when)),
            }
        }
    }
    // Both read a file, compress it, and keep one CPU busy; gzip does so by fits
    // and starts, and xz at a pace within that range.
    late.retain(|(name, other, _)| (*name, *other) != ("gzip", "xz"));
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn a_program_that_changes_its_phase_is_noticed_and_the_change_is_named() {
    // It computes for 12 s and writes from then on: window 31 is the first that
    // does.
    let trace = trace("two");
    let mut watch = Watch::learn(&trace[..LEARNED], 1).unwrap();
    let at = first(&mut watch, &trace[LEARNED..]).unwrap() + LEARNED;
    assert!((31..=45).contains(&at), "{at}");
    let drift = watch.see(&trace[at]).unwrap();
    assert!(drift.windows <= at - 29, "{drift:?}");
    watch.reset();
    assert_eq!(watch.see(&trace[0]), None);
}

/// Half of each window's deviation stays in the next one.
fn noise(windows: usize, shift: f64, seed: u64) -> Vec<Window> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut state = [0.0; 4];
    (0..windows)
        .map(|_| {
            let mut window = Window::new();
            for (counter, state) in state.iter_mut().enumerate() {
                let normal = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                *state = 0.5 * *state + 0.75f64.sqrt() * normal;
                let level = 1000.0 * (1.0 + 0.2 * *state + shift).max(0.0);
                window.insert(format!("counter-{counter}"), level);
            }
            window
        })
        .collect()
}

#[test]
fn false_alarms_are_rare_and_shifts_are_not_missed() {
    let (mut alarms, mut missed, mut delays) = (0, 0, 0);
    for seed in 0..40 {
        let mut watch = Watch::learn(&noise(60, 0.0, seed), 1).unwrap();
        let on = noise(500, 0.0, 1000 + seed);
        alarms += usize::from(first(&mut watch, &on).is_some());
        watch.reset();
        match first(&mut watch, &noise(100, 1.0, 2000 + seed)) {
            Some(at) => delays += at,
            None => missed += 1,
        }
    }
    assert!(alarms <= 4, "{alarms} of 40 horizons of 500 windows");
    assert_eq!(missed, 0);
    assert!(delays < 40 * 25, "{delays}");
}

#[test]
fn too_little_to_learn_from_is_refused() {
    let few = noise(11, 0.0, 1);
    let error = Watch::learn(&few, 1).unwrap_err();
    assert_eq!(error, DriftError::FewWindows(11));
    assert!(error.to_string().contains("at least 12"));
}
