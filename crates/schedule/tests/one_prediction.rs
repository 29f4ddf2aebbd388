//! `predict` and the policies expect the same of the same group.

use jostle_schedule::App;
use jostle_schedule::Cluster;
use jostle_schedule::Jostle;
use jostle_schedule::Node;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use jostle_schedule::predict::CpuNeed;
use jostle_schedule::predict::Curve;
use jostle_schedule::predict::GRID;
use jostle_schedule::predict::GRID_STEP;
use jostle_schedule::predict::LANES;
use jostle_schedule::predict::LaneSet;
use jostle_schedule::predict::Prediction;
use jostle_schedule::predict::Responses;
use jostle_schedule::predict::Subject;
use jostle_schedule::predict::co_location;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A tenth of a point.
const SAME: f64 = 0.001;

type Entry = (usize, f32, f32, f32, f32);

/// Curves that are lines of a slope, each with what it causes; and whether
/// anything is known of its need of a CPU.
fn app(index: usize, entries: &[Entry], need: Option<(f32, f32, f32)>) -> Arc<App> {
    let mut caused = [None; LANES];
    let mut curves = Vec::new();
    for (lane, slope, sd, points, points_sd) in entries {
        caused[*lane] = Some((*points, *points_sd));
        let ln = std::array::from_fn(|step| slope * step as f32 * GRID_STEP);
        curves.push(Curve::new(*lane, ln, [sd * sd; GRID]));
    }
    let mut responses = Responses::new(curves, LaneSet::EMPTY, &caused);
    responses.cpu = need.and_then(|(demand, kept, taken)| {
        CpuNeed::of(Some((demand, 0.05)), Some((kept.ln(), 1e-4)), Some(taken))
    });
    Arc::new(App::bare(&format!("a{index}"), responses))
}

fn predicted(apps: &[Arc<App>], shares_cpus: bool) -> Vec<Prediction> {
    let subjects: Vec<Subject> = apps
        .iter()
        .map(|app| Subject {
            name: app.name(),
            responses: &app.responses,
            counted: app.counted(shares_cpus),
            qos: 0.95,
        })
        .collect();
    co_location(&subjects, shares_cpus)
}

/// All but the last are there; the last is placed.
fn agrees(apps: &[Arc<App>], shares_cpus: bool) -> Result<(), String> {
    let node = Node {
        name: "n".into(),
        cpus: 64,
        memory_bytes: 1 << 40,
        platform: None,
        shares_cpus,
    };
    let mut cluster = Cluster::new([node]).unwrap();
    let at = cluster.ids().next().unwrap();
    let (newcomer, residents) = apps.split_last().unwrap();
    for resident in residents {
        cluster.admit(at, resident.clone()).unwrap();
    }
    let policy = Jostle::new(1, false);
    let request = PlacementRequest::of(newcomer);
    let expected = policy.expected(&request, &cluster, at).unwrap();
    let after = predicted(apps, shares_cpus);
    let before = predicted(residents, shares_cpus);
    let own = after.last().unwrap().performance.unwrap_or(1.0);
    let near = |a: f64, b: f64| (a - b).abs() < SAME;
    let interval = after.last().unwrap().ci95.unwrap_or(expected.ci95);
    let wide = expected.ci95.iter().zip(&interval);
    if wide.into_iter().any(|(a, b)| (a - b).abs() > 0.01) {
        return Err(format!("{:?} {interval:?}", expected.ci95));
    }
    if !near(expected.performance, own) {
        return Err(format!(
            "{}: {} {own}",
            newcomer.name(),
            expected.performance
        ));
    }
    if let Some(hurt) = expected.most_hurt {
        let index = apps.iter().position(|app| app.name() == hurt.app).unwrap();
        let of = |all: &[Prediction]| all[index].performance.unwrap_or(1.0);
        if !near(hurt.before, of(&before)) || !near(hurt.after, of(&after)) {
            return Err(format!("{hurt:?}: {} {}", of(&before), of(&after)));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn predict_and_schedule_expect_the_same(
        group in vec(
            (
                vec((0usize..LANES, -0.02f32..0.0, 0.0f32..0.2, 0.0f32..100.0, 0.0f32..30.0), 1..8),
                proptest::option::of((0.02f32..1.0, 0.05f32..1.0, 0.0f32..0.6)),
            ),
            2..8,
        ),
        shares_cpus in any::<bool>(),
    ) {
        let apps: Vec<Arc<App>> = group
            .iter()
            .enumerate()
            .map(|(index, (entries, need))| app(index, entries, *need))
            .collect();
        prop_assert_eq!(agrees(&apps, shares_cpus), Ok(()));
    }
}

#[test]
fn they_agree_on_the_recorded_profiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let profiles = jostle_profile::load_dir(&root).unwrap();
    let population = jostle_schedule::predict::Population::bundled();
    let apps: Vec<Arc<App>> = profiles
        .iter()
        .map(|(_, profile)| Arc::new(App::completed(profile, population)))
        .collect();
    for shares_cpus in [false, true] {
        for pair in apps.windows(2) {
            assert_eq!(agrees(pair, shares_cpus), Ok(()));
        }
        for group in apps.chunks_exact(5) {
            assert_eq!(agrees(group, shares_cpus), Ok(()));
        }
    }
}

/// Two programs that never rest get half of a CPU each; one that rests beside
/// one that does not gets what it wants, and leaves the rest.
#[test]
fn a_cpu_is_shared_as_the_kernel_shares_it() {
    let busy = app(0, &[], Some((1.0, 0.5, 0.5)));
    let part = app(1, &[], Some((0.3, 1.0, 0.3)));
    let pairs = |apps: &[&Arc<App>]| -> Vec<f64> {
        let apps: Vec<Arc<App>> = apps.iter().map(|app| (*app).clone()).collect();
        let found = predicted(&apps, true);
        found.iter().map(|one| one.performance.unwrap()).collect()
    };
    let near = |found: Vec<f64>, expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        assert!(
            pairs.into_iter().all(|(a, b)| (a - b).abs() < 0.005),
            "{found:?} {expected:?}"
        );
    };
    near(pairs(&[&busy, &busy]), &[0.5, 0.5]);
    near(pairs(&[&busy, &busy, &busy, &busy]), &[0.25; 4]);
    near(pairs(&[&busy, &part]), &[0.7, 1.0]);
    near(pairs(&[&part, &part]), &[1.0, 1.0]);
    near(pairs(&[&busy, &busy, &part]), &[0.35, 0.35, 1.0]);
    near(pairs(&[&busy]), &[1.0]);
    // One that waits for its turn after each sleep keeps a tenth beside a busy
    // one, which then loses as little.
    let waits = app(2, &[], Some((0.3, 0.1, 0.03)));
    near(pairs(&[&busy, &waits]), &[0.97, 0.1]);
    near(pairs(&[&waits, &part]), &[1.0 / (1.0 + 9.0 * 0.3), 1.0]);
}

/// Far above what an optimized build takes: an unoptimized one on a busy machine
/// must pass.
#[test]
fn a_group_of_ten_is_predicted_in_no_time() {
    let entries: Vec<Entry> = (0..LANES)
        .map(|lane| (lane, -0.001, 0.01, 30.0, 8.0))
        .collect();
    let apps: Vec<Arc<App>> = (0..10)
        .map(|index| app(index, &entries, Some((0.5, 0.6, 0.4))))
        .collect();
    let start = Instant::now();
    for _ in 0..100 {
        predicted(&apps, true);
    }
    let each = start.elapsed() / 100;
    assert!(each.as_millis() < 20, "{each:?}");
}
