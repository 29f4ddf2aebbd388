use super::*;
use crate::usage::summary::tests::totals;
use crate::usage::summary::tests::track;

/// 50 bytes per second, which the disks moved as told.
fn reader(disks: &[(&str, f64)]) -> Track {
    let at = |second: usize| {
        let second = second as f64;
        let disks: Vec<(&str, f64)> = disks
            .iter()
            .map(|(name, rate)| (*name, rate * second))
            .collect();
        totals(second, 0.5 * second, 50.0 * second, &disks)
    };
    track(&(0..6).map(at).collect::<Vec<_>>())
}

fn peaks(disk: &[&str]) -> Peaks {
    let peak = |peak: f64| (peak, "machine file".to_string());
    Peaks {
        cpus: 2,
        memory_bytes: 1000,
        sources: BTreeMap::from([("storage-bandwidth".to_string(), peak(100.0))]),
        probes: BTreeMap::new(),
        disk: Ok(disk.iter().map(|it| it.to_string()).collect()),
    }
}

fn storage(disks: &[(&str, f64)], peaks: &Peaks) -> Reading<UsedShare> {
    let usage = reader(disks).usage(peaks);
    usage.quantities["storage"].value().unwrap().share.clone()
}

#[test]
fn bytes_are_a_share_of_the_disk_they_went_to() {
    let share = storage(&[("sda", 55.0)], &peaks(&["sda"]));
    let share = share.value().unwrap();
    assert!((share.percent - 50.0).abs() < 1e-9, "{share:?}");
    assert_eq!(share.peak_from, "machine file, on sda");
    let other = storage(&[("sda", 2.0), ("sdb", 50.0)], &peaks(&["sda"]));
    let why = other.reason().unwrap();
    assert!(
        why.contains("sdb moved 50") && why.contains("--scratch"),
        "{why}"
    );
    let nowhere = storage(&[("sda", 2.0)], &peaks(&["sda"]));
    assert!(
        nowhere
            .reason()
            .unwrap()
            .contains("no disk of this machine")
    );
}

#[test]
fn a_logical_volume_and_the_disk_below_are_one() {
    let moved = [("dm-0", 50.0), ("sda", 50.0)];
    let share = storage(&moved, &peaks(&["dm-0", "sda"]));
    assert!((share.value().unwrap().percent - 50.0).abs() < 1e-9);
    let none = Peaks {
        disk: Err("/ is laid over other file systems".into()),
        ..peaks(&[])
    };
    assert!(
        storage(&moved, &none)
            .reason()
            .unwrap()
            .contains("laid over")
    );
}

#[test]
fn use_beyond_the_peak_is_told_as_it_is() {
    let mut peaks = peaks(&["sda"]);
    peaks
        .sources
        .insert("storage-bandwidth".into(), (40.0, "this run".into()));
    let share = storage(&[("sda", 50.0)], &peaks);
    assert!((share.value().unwrap().percent - 125.0).abs() < 1e-9);
    peaks.sources.clear();
    let share = storage(&[("sda", 50.0)], &peaks);
    assert!(share.reason().unwrap().contains("--calibrate"));
}

#[test]
fn cpu_time_is_a_share_of_the_targets_cpus() {
    let usage = reader(&[]).usage(&peaks(&["sda"]));
    let cpu = usage.quantities["cpu"].value().unwrap();
    assert!((cpu.value - 0.5).abs() < 1e-9);
    assert!((cpu.share.value().unwrap().percent - 25.0).abs() < 1e-9);
    let absent = usage.quantities["llc-occupancy"].reason().unwrap();
    assert!(absent.contains("nothing was counted"), "{absent}");
}

#[test]
fn use_and_probe_agree_or_the_difference_is_explained() {
    let mut peaks = peaks(&["sda"]);
    let said = |equivalent: f64, peaks: &mut Peaks| {
        let probe = Probe {
            equivalent_intensity: equivalent,
            beside_copy: vec![(50.0, 0.8), (75.0, 0.6), (100.0, 0.58)],
        };
        peaks.probes.insert("storage-bandwidth".into(), probe);
        let share = storage(&[("sda", 50.0)], peaks);
        share.value().unwrap().against_probe.clone().unwrap()
    };
    assert!(said(45.0, &mut peaks).contains("agrees"));
    let more = said(80.0, &mut peaks);
    assert!(
        more.contains("30 points more: small or scattered"),
        "{more}"
    );
    assert!(more.contains("4 KiB per request, 1.0 in flight"), "{more}");
    assert!(said(20.0, &mut peaks).contains("few requests at once"));
    peaks
        .sources
        .insert("storage-bandwidth".into(), (62.5, "x".into()));
    let flat = said(100.0, &mut peaks);
    assert!(flat.contains("nearly the same"), "{flat}");
}
