//! Machine files: kept, read again, and ignored with the reason.

use super::FINGERPRINT;
use super::fixture;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::calibration::Knee;
use jostle_host::machine::calibration::Size;
use jostle_host::machine::calibration::keep_best;
use jostle_host::machine::calibration::llc_bytes;
use jostle_host::machine::saved;
use jostle_host::machine::saved::Saved;
use jostle_profile::reading::Reading;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;

/// What is made of a file with this content.
fn loaded(content: &[u8]) -> Saved {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.json");
    fs::write(&path, content).unwrap();
    saved::load_from(&path, FINGERPRINT)
}

#[test]
fn a_machine_file_survives_a_round_trip() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.json");
    let mut json: Value = serde_json::from_str(&fixture()).unwrap();
    json["from a later version"] = 7.into();
    let Saved::Found(calibration) = loaded(json.to_string().as_bytes()) else {
        panic!("the fixture is good");
    };
    saved::save(&calibration, &path).unwrap();
    assert_eq!(
        saved::load_from(&path, FINGERPRINT),
        Saved::Found(calibration.clone())
    );
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(written, json, "nothing is lost, unknown keys included");
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "no litter"
    );

    let wrong = Calibration {
        duration_seconds: f64::NAN,
        ..*calibration
    };
    let problem = saved::save(&wrong, &path).unwrap_err();
    assert!(problem.contains("duration_seconds"), "{problem}");
    let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(kept, json, "the old file stays");
}

#[test]
fn files_that_must_not_be_used_are_ignored_with_the_reason() {
    let good = fixture();
    let with = |pointer: &str, value: Value| {
        let mut json: Value = serde_json::from_str(&good).unwrap();
        *json.pointer_mut(pointer).unwrap() = value;
        json.to_string().into_bytes()
    };
    let peak = "/resources/l2-bandwidth/alone/peak/operations_per_second";
    let cases = [
        (Vec::new(), "empty"),
        (good.as_bytes()[..good.len() / 2].to_vec(), "cut short"),
        (b"\xff\xfe\x00".to_vec(), "JSON"),
        (b"[]".to_vec(), "format"),
        (
            with("/format", "jostle-machine-file/2".into()),
            "newer jostle",
        ),
        (
            with("/format", "jostle-profile/1".into()),
            "not a jostle machine file",
        ),
        (
            with("/fingerprint", "fedcba9876543210".into()),
            "another machine",
        ),
        (with("/recorded_at", 5.into()), "recorded_at"),
        (with(peak, (-1.0).into()), "above 0"),
        (with(peak, "fast".into()), "l2-bandwidth"),
        (with("/slices/period_seconds", 0.0.into()), "period_seconds"),
        (
            with("/resources/l2-bandwidth/settle_seconds", 1e9.into()),
            "settle_seconds",
        ),
    ];
    for (content, words) in cases {
        let Saved::Ignored(warning) = loaded(&content) else {
            panic!("{words}: was not ignored");
        };
        assert!(warning.contains(words), "{words}: {warning}");
        assert!(warning.contains("machine.json"), "{warning}");
        assert!(warning.contains("jostle machine --calibrate"), "{warning}");
    }
    let directory = tempfile::tempdir().unwrap();
    let ignored = saved::load_from(directory.path(), FINGERPRINT);
    assert!(matches!(ignored, Saved::Ignored(reason) if reason.contains("regular file")));
    let missing = saved::load_from(&directory.path().join("none"), FINGERPRINT);
    assert!(matches!(missing, Saved::Nothing(reason) if reason.contains("--calibrate")));
}

proptest! {
    #[test]
    fn no_part_of_a_file_is_mistaken_for_the_whole(share in 0.0f64..1.0) {
        let good = fixture();
        let length = (good.trim_end().len() as f64 * share) as usize;
        prop_assert!(matches!(loaded(&good.as_bytes()[..length]), Saved::Ignored(_)));
    }
}

#[test]
fn only_what_fits_the_case_is_used() {
    let Saved::Found(known) = loaded(fixture().as_bytes()) else {
        panic!("the fixture is good");
    };
    let settings = known.resources["memory-bandwidth"].settings.clone();
    let peak = |workers, settings| known.peak("memory-bandwidth", workers, settings);
    let (one, two) = (peak(1, &settings).unwrap(), peak(2, &settings).unwrap());
    assert!(one < two);
    assert_eq!(peak(3, &settings), None);
    let mut other = settings.clone();
    other["access"] = "store".into();
    assert_eq!(peak(1, &other), None, "loads tell nothing of stores");
    assert_eq!(known.peak("interconnect", 1, &Value::Null), None);
    assert!(known.slices(0.2).is_some());
    assert!(
        known.slices(0.5).is_none(),
        "another share was not measured"
    );
}

#[test]
fn the_last_cache_has_the_size_that_was_measured() {
    let cache = |name: &str, told: u64, at: Option<u64>| {
        let measured = at.map_or(Reading::unavailable("no knee"), |size| {
            let (before_ns, after_ns) = (1.0, 2.0);
            Reading::Value(Knee {
                size,
                before_ns,
                after_ns,
            })
        });
        Size::new(name, "bytes", Reading::Value(told), measured)
    };
    let of = |last: Option<u64>| {
        let code = cache("L1i", 32, None);
        llc_bytes(&[
            cache("L2", 1000, Some(800)),
            cache("L3", 32_000, last),
            code,
        ])
    };
    assert_eq!(of(Some(26_000)), Some(26_000));
    assert_eq!(of(Some(40_000)), Some(32_000), "not more than there is");
    assert_eq!(of(None), None, "the knee of another cache does not count");
    assert_eq!(llc_bytes(&[]), None);
}

#[test]
fn the_best_that_was_measured_of_a_cache_is_kept() {
    let Saved::Found(mut earlier) = loaded(fixture().as_bytes()) else {
        panic!("the fixture is good");
    };
    let size = |name: &str, told: u64, size: u64| {
        let (before_ns, after_ns) = (1.0, 2.0);
        let knee = Knee {
            size,
            before_ns,
            after_ns,
        };
        Size::new(name, "bytes", Reading::Value(told), Reading::Value(knee))
    };
    let sizes = |l2, l3| vec![size("L2", 1000, l2), size("L3", 32_000, l3)];
    let kept = |earlier: &Calibration, mut sizes: Vec<Size>| {
        keep_best(&mut sizes, earlier);
        sizes
    };
    earlier.sizes = sizes(900, 31_000);
    earlier.recorded_at = "2026-11-25T09:00:00Z".into();
    assert_eq!(kept(&earlier, sizes(800, 31_500)), sizes(800, 31_500));

    let again = kept(&earlier, sizes(800, 27_000));
    assert_eq!(again[0], size("L2", 1000, 800), "only the last one");
    assert_eq!(again[1].measured, earlier.sizes[1].measured);
    assert_eq!(
        again[1].measured_at.as_deref(),
        Some("2026-11-25T09:00:00Z")
    );

    // The day it was measured is kept, however often it is kept.
    earlier.sizes = again;
    earlier.recorded_at = "2026-11-26T09:00:00Z".into();
    let again = kept(&earlier, sizes(800, 26_000));
    assert_eq!(
        again[1].measured_at.as_deref(),
        Some("2026-11-25T09:00:00Z")
    );

    // Of all caches the shortest walk, where one was measured now.
    let walked = |mut size: Size, walk_ns| {
        size.walk_ns = walk_ns;
        size
    };
    let l2 = |walk_ns| vec![walked(size("L2", 1000, 800), walk_ns)];
    earlier.sizes = l2(Some(5.0));
    assert_eq!(kept(&earlier, l2(Some(6.0))), l2(Some(5.0)));
    assert_eq!(kept(&earlier, l2(Some(4.0))), l2(Some(4.0)));
    assert_eq!(kept(&earlier, l2(None)), l2(None));
    earlier.sizes = l2(None);
    assert_eq!(kept(&earlier, l2(Some(6.0))), l2(Some(6.0)));

    let other = vec![size("L3", 64_000, 20_000)];
    assert_eq!(kept(&earlier, other.clone()), other, "another cache");
    assert_eq!(kept(&earlier, Vec::new()), Vec::new());
}

#[test]
fn sources_of_other_settings_are_removed_and_named() {
    let Saved::Found(mut known) = loaded(fixture().as_bytes()) else {
        panic!("the fixture is good");
    };
    let settings = |known: &Calibration, id: &str| known.resources[id].settings.clone();
    let same = settings(&known, "l2-bandwidth");
    let mut other = settings(&known, "memory-bandwidth");
    other["access"] = "store".into();
    other["storage_pattern"] = "of another form".into();
    let wanted = [
        ("l2-bandwidth", same),
        ("memory-bandwidth", other),
        ("interconnect", Value::Null),
    ];
    let stale = known.remove_stale(wanted.clone());
    let named: Vec<String> = stale.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["memory-bandwidth (access, storage_pattern)"]);
    assert!(!known.resources.contains_key("memory-bandwidth"));
    assert!(known.resources.contains_key("l2-bandwidth"));
    assert_eq!(known.remove_stale(wanted), [], "told once");
}

#[test]
fn a_file_of_the_same_model_from_before_a_change_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine-fedcba9876543210.json");
    let older = directory.path().join("machine-0000000000000000.json");
    let file = directory.path().join(format!("machine-{FINGERPRINT}.json"));
    fs::write(&file, fixture()).unwrap();
    fs::write(&older, fixture().replace("2026-11-21", "2026-10-21")).unwrap();
    let model = "Intel(R) Xeon(R) Processor";
    let load = |path, model| saved::load_or_other(path, "fedcba9876543210", model);
    let Saved::Ignored(reason) = load(&path, model) else {
        panic!("was not named");
    };
    for word in [FINGERPRINT, "fedcba9876543210", "2026-11-21", "--calibrate"] {
        assert!(reason.contains(word), "{reason}");
    }
    let other = load(&path, "another CPU");
    assert!(matches!(other, Saved::Nothing(_)), "{other:?}");
    fs::write(&path, fixture().replace(FINGERPRINT, "fedcba9876543210")).unwrap();
    assert!(matches!(load(&path, model), Saved::Found(_)));
}
