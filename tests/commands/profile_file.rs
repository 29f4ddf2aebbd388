//! Profiles survive a round trip, and a failed save leaves nothing behind.

use jostle::report::Style;
use jostle::report::profile_details;
use jostle_profile as profile;
use jostle_profile::CounterPair;
use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::PhysicalBound;
use jostle_profile::Placement;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::Switch;
use jostle_profile::SwitchAt;
use jostle_profile::Unknown;
use jostle_profile::WarningFacts;
use jostle_profile::reading::Reading;
use proptest::collection::btree_map;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::json;
use std::fs;
use std::path::Path;

fn sample() -> Profile {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    profile::load(&root.join("tests/fixtures/profiles/kv-store.json")).unwrap()
}

fn interval() -> impl Strategy<Value = [f64; 2]> {
    (-1e6..1e6f64, 0.0..1e6f64).prop_map(|(low, width)| [low, low + width])
}

fn score() -> impl Strategy<Value = Score> {
    let ends = (0.0..1e6f64, 0.0..1e6f64);
    (0.0..=100.0f64, ends).prop_map(|(score, (below, above))| Score {
        score,
        ci95: [score - below, score + above],
    })
}

fn point() -> impl Strategy<Value = CurvePoint> {
    (
        0.0..=100.0f64,
        0.0..20.0f64,
        interval(),
        option::of(-1e12..1e12f64),
        any::<u64>(),
    )
        .prop_map(
            |(intensity, performance, ci95, pressure, windows)| CurvePoint {
                intensity,
                requested: None,
                performance,
                ci95,
                pressure,
                windows,
            },
        )
}

/// Lowest intensity first.
fn curve(most: usize) -> impl Strategy<Value = Vec<CurvePoint>> {
    vec(point(), 0..most).prop_map(|mut points| {
        points.sort_by(|a, b| a.intensity.total_cmp(&b.intensity));
        points
    })
}

/// Keys that no version will ever use.
fn unknown() -> impl Strategy<Value = Unknown> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300..1e300f64).prop_map(Value::from),
        ".*".prop_map(Value::from),
        ".*".prop_map(|text| json!({"deep": [text, {"er": 1.5}]})),
    ];
    btree_map("x-[a-z]{1,8}", value, 0..3)
}

fn switch() -> impl Strategy<Value = Reading<Switch>> {
    let at = (1e-6..1e-2f64, interval(), any::<u64>()).prop_map(|(turn_seconds, ci95, windows)| {
        SwitchAt {
            turn_seconds,
            cost_microseconds: Estimate {
                value: ci95[0],
                ci95,
            },
            windows,
        }
    });
    let turns = vec(at, 1..4).prop_map(|mut turns| {
        turns.sort_by(|a, b| a.turn_seconds.total_cmp(&b.turn_seconds));
        turns.dedup_by_key(|at| at.turn_seconds);
        Reading::Value(Switch::of(turns, 0.004).unwrap())
    });
    prop_oneof![turns, ".*".prop_map(Reading::unavailable)]
}

fn entry() -> impl Strategy<Value = ResourceEntry> {
    let status = prop_oneof![
        Just(Status::Measured),
        Just(Status::Inferred),
        Just(Status::NotShared),
        Just(Status::Unavailable),
        Just(Status::Unresolved),
    ];
    let counter = prop_oneof![
        ".*".prop_map(|reason| Reading::Unavailable {
            unavailable: reason
        }),
        (-1e9..1e9f64, option::of(interval()), any::<bool>()).prop_map(
            |(control, change, moved)| {
                let estimate = change.map(|ci95| Estimate {
                    value: ci95[0],
                    ci95,
                });
                Reading::Value(CounterPair {
                    control,
                    treat: 2.0 * control,
                    ratio: estimate.filter(|_| moved),
                    difference: estimate.filter(|_| !moved),
                    moved,
                    pairs: 7,
                })
            }
        ),
    ];
    let placement = vec(any::<usize>(), 0..4).prop_map(|cpus| Placement {
        mode: PlacementMode::SharedLlc,
        cpus,
    });
    let bound = (-1e3..1e3f64, ".*").prop_map(|(loss_percent, basis)| PhysicalBound {
        loss_percent,
        basis,
    });
    (
        (status, option::of(".*"), option::of(placement)),
        (
            option::of(score()),
            option::of(score()),
            option::of(any::<bool>()),
            option::of(0.0..=100.0f64),
        ),
        (curve(4), curve(3), option::of(bound), option::of(switch())),
        (
            btree_map("[a-z_]{1,9}", counter, 0..3),
            vec(".*", 0..3),
            unknown(),
        ),
    )
        .prop_map(|(what, scores, curves, rest)| ResourceEntry {
            status: what.0,
            reason: what.1,
            placement: what.2,
            tolerated: scores.0,
            caused: scores.1,
            inferred: None,
            equivalent_intensity: scores.3,
            sensitive: scores.2,
            curve: curves.0,
            probe_curve: curves.1,
            sharing_cost: None,
            mixture: None,
            switch: curves.3,
            pressure_unit: None,
            full_scale_pressure: scores.3,
            physical_bound: curves.2,
            caused_bound: None,
            counters: rest.0,
            counters_steady: rest.1.clone(),
            phases: Vec::new(),
            warnings: warnings(&rest.1),
            doubts: rest.1,
            unknown: rest.2,
        })
}

fn warnings(messages: &[String]) -> Vec<WarningFacts> {
    let warning = |message: &String| WarningFacts {
        code: "pressure-missed".into(),
        message: message.clone(),
        fields: [("reached_percent".to_string(), 75.into())].into(),
    };
    messages.iter().map(warning).collect()
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let baseline = (1e-9..1e9f64, interval()).prop_map(|(value, ci95)| Estimate { value, ci95 });
    (
        btree_map("[a-z0-9-]{1,12}", entry(), 0..5),
        (
            any::<bool>(),
            any::<u64>(),
            option::of(0.0..1e3f64),
            option::of(baseline),
        ),
        prop_oneof![
            (0.0..100.0f64).prop_map(Reading::Value),
            ".*".prop_map(|unavailable| Reading::Unavailable { unavailable }),
        ],
        [unknown(), unknown(), unknown(), unknown(), unknown()],
    )
        .prop_map(
            |(resources, (partial, seed, noise, baseline), steal, unknowns)| {
                let mut profile = sample();
                profile.resources = resources;
                profile.partial = partial;
                profile.conditions.seed = seed;
                profile.conditions.noise_percent = noise;
                profile.conditions.steal_percent = steal;
                profile.metric.baseline = baseline;
                let [top, workload, machine, metric, conditions] = unknowns;
                profile.unknown = top;
                profile.workload.unknown = workload;
                profile.machine.unknown = machine;
                profile.metric.unknown = metric;
                profile.conditions.unknown = conditions;
                profile
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_saved_is_what_is_loaded(profile in any_profile()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        profile::save(&profile, &path).unwrap();
        let loaded = profile::load(&path).unwrap();
        prop_assert_eq!(&loaded, &profile);
        let first = fs::read(&path).unwrap();
        profile::save(&loaded, &path).unwrap();
        prop_assert_eq!(first, fs::read(&path).unwrap(), "the text is stable");
    }

    #[test]
    fn any_profile_can_be_shown(
        mut profile in any_profile(),
        name in ".{0,300}",
        width in 0u16..300,
    ) {
        let entry = ResourceEntry::without_numbers(Status::Inferred, name.clone());
        profile.resources.insert(name, entry);
        let page = profile_details(&profile, Style::plain().with_width(width));
        prop_assert!(page.contains("What this does not prove"));
        let escape = '\u{1b}';
        prop_assert!(!page.contains(escape));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), cut in 0usize..9000) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        fs::write(&path, &bytes).unwrap();
        prop_assert!(profile::load(&path).is_err());
        let mut text = serde_json::to_vec(&sample()).unwrap();
        let cut = cut % text.len();
        text.splice(cut..cut, bytes);
        fs::write(&path, &text).unwrap();
        let _ = profile::load(&path);
    }
}

#[test]
fn unknown_keys_and_resources_are_kept() {
    let mut value = serde_json::to_value(sample()).unwrap();
    value["format"] = "jostle-profile/1.3".into();
    for key in ["workload", "machine", "metric", "conditions"] {
        value[key]["x-new"] = json!({"a": [1, 2.5]});
    }
    value["x-new"] = json!(null);
    value["resources"]["l1d"]["x-new"] = json!("kept");
    value["resources"]["quantum-foam"] = json!({"status": "measured", "x-new": 7});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    fs::write(&path, value.to_string()).unwrap();
    profile::save(&profile::load(&path).unwrap(), &path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    assert!(text.ends_with("}\n"));
    assert!(text.find("\"format\"").unwrap() < text.find("\"workload\"").unwrap());
}

#[test]
fn a_curve_by_size_is_kept_with_what_is_unknown_in_it_and_bad_ones_are_named() {
    let point = |size: u32, speedup: Value| json!({"size": size, "speedup": speedup, "later": 1});
    let two = json!({"value": 1.9, "ci95": [1.8, 2.0], "status": "measured", "blocks": 40});
    let none = json!({"unavailable": "this machine has 2 CPUs"});
    let curve = |points: Vec<Value>| {
        json!({"cpus": {
            "recorded_at": "2026-11-20T09:30:00Z", "seconds": 15.0, "metric": "runs",
            "cpus": [0, 1], "points": points, "later": {"a": 1},
        }, "soon": 2})
    };
    let with = |scaling: &Value| {
        let mut document = serde_json::to_value(sample()).unwrap();
        document["scaling"] = scaling.clone();
        serde_json::from_value::<Profile>(document).unwrap()
    };
    let whole = curve(vec![
        point(1, two.clone()),
        point(2, two.clone()),
        point(4, none),
    ]);
    let profile = with(&whole);
    profile::check(&profile).unwrap();
    assert_eq!(serde_json::to_value(&profile).unwrap()["scaling"], whole);
    let bad = json!({"value": -1.0, "ci95": [0.0, 1.0], "status": "measured", "blocks": 4});
    for (points, key) in [
        (
            vec![point(2, two.clone()), point(2, two)],
            "scaling.cpus.points[1].size",
        ),
        (vec![point(1, bad)], "scaling.cpus.points[0].speedup.value"),
    ] {
        let error = profile::check(&with(&curve(points))).unwrap_err();
        assert_eq!(error.key, key);
    }
}

#[test]
fn a_failed_save_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.json");
    let mut profile = sample();
    profile::save(&profile, &path).unwrap();
    let before = fs::read(&path).unwrap();

    profile.conditions.duration_seconds = f64::NAN;
    let error = profile::save(&profile, &path).unwrap_err();
    assert!(error.to_string().contains("conditions.duration_seconds"));
    assert_eq!(fs::read(&path).unwrap(), before);

    // A rename over a directory fails after the temporary file was written.
    let blocked = dir.path().join("dir.json");
    fs::create_dir(&blocked).unwrap();
    fs::write(blocked.join("x"), "").unwrap();
    assert!(profile::save(&sample(), &blocked).is_err());
    assert!(profile::save(&sample(), &dir.path().join("no/such/p.json")).is_err());
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["dir.json", "p.json"]);
}

#[test]
fn a_directory_is_read_in_order_without_schemas() {
    let dir = tempfile::tempdir().unwrap();
    let mut profile = sample();
    for name in ["b", "a"] {
        profile.workload.name = name.into();
        profile::save(&profile, &dir.path().join(format!("{name}.json"))).unwrap();
    }
    fs::write(dir.path().join("jostle-profile-1.schema.json"), "{}").unwrap();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    let names: Vec<String> = profile::load_dir(dir.path())
        .unwrap()
        .into_iter()
        .map(|(_, profile)| profile.workload.name)
        .collect();
    assert_eq!(names, ["a", "b"]);

    profile::save(&profile, &dir.path().join("c.json")).unwrap();
    let error = profile::load_dir(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("a.json") && error.contains("c.json"),
        "{error}"
    );
}

#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    profile::save(&sample(), &pipe).unwrap();
    assert!(reader.join().unwrap().contains("\"format\""));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}
