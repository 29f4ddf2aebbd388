//! Verdicts that co-tenants whom this machine does not show may have made: "not
//! sensitive" is taken back where somebody else held the resource.

use super::arrived::ENOUGH;
use super::arrived::GAUGES;
use super::arrived::add_reason;
use super::arrived::takes;
use super::arrived::without_caused;
use super::sequences::matters;
use jostle_profile::CacheSharing;
use jostle_profile::CurvePoint;
use jostle_profile::PrivateCacheHeld;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::UnseenNeighbour;
use jostle_profile::resource::Domain;
use jostle_profile::resource::Intensity;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;

/// Share of the looks, percent, from which on others held a cache all the time.
const HELD_THROUGHOUT: f64 = 90.0;

/// Leaves open what `entry` says is tolerated.
fn reopen(entry: &mut ResourceEntry, reason: String) {
    entry.sensitive = None;
    entry.tolerated = None;
    entry.status = Status::Unresolved;
    add_reason(entry, reason);
}

/// Takes back "not sensitive" to what a core holds where somebody unseen held the
/// core all the time: sources that need nothing but execution units never came near
/// their calibrated peaks, even with the target held still. `alone`: per source the
/// share of its peak that it reached so, as [`judge`] found it.
pub(super) fn never_free(entries: &mut BTreeMap<String, ResourceEntry>, alone: &[(Resource, f64)]) {
    let gauges = alone.iter().filter(|(source, _)| GAUGES.contains(source));
    let Some(&(gauge, best)) = gauges.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    if best >= ENOUGH {
        return;
    }
    let reason = format!(
        "tolerated: an unseen neighbour held the core all the time: with the target stopped \
         {gauge} reached {:.0} % of its calibrated peak",
        100.0 * best
    );
    for (id, entry) in entries {
        let held = id.parse::<Resource>().is_ok_and(|resource| {
            let row = resource.row();
            let core = matches!(row.domain, Domain::PhysicalCore | Domain::L2Group);
            core && row.intensity == Intensity::Footprint
        });
        if held && entry.sensitive == Some(false) {
            reopen(entry, reason.clone());
        }
    }
}

/// Takes back "not sensitive" to the cache that only the target's core has where
/// co-tenants held it: a loss that occurs in the rest of the time alone is larger there.
/// `threshold` is the performance that counts as kept, a fraction.
pub(super) fn private_cache_held(
    entries: &mut BTreeMap<String, ResourceEntry>,
    held: &PrivateCacheHeld,
    threshold: f64,
) {
    let Some(entry) = entries.get_mut(Resource::L2Capacity.id()) else {
        return;
    };
    // With a mixture the curve is of the free time already.
    let kept = entry.curve.last().filter(|_| entry.mixture.is_none());
    let Some(point) = kept.filter(|_| entry.sensitive == Some(false)) else {
        return;
    };
    let free = 1.0 - held.held_percent / 100.0;
    if held.held_percent < HELD_THROUGHOUT && kept_when_free(point, free) > threshold {
        return;
    }
    reopen(
        entry,
        format!(
            "tolerated: an unseen neighbour held the second-level cache in {:.0} % of {} looks (an \
             access took {:.1} ns, {:.1} ns in the first level), so that little is known of when it \
             is free",
            held.held_percent, held.looks, held.access_ns, held.near_ns
        ),
    );
}

/// Least performance kept at `point` while the resource is free, if all of the loss occurs
/// in that time, `free`, a fraction of all.
fn kept_when_free(point: &CurvePoint, free: f64) -> f64 {
    1.0 - (1.0 - point.ci95[0]) / free.clamp(1e-3, 1.0)
}

/// Takes back "not sensitive" where somebody unseen had the core for so long that the
/// rest of the time could not be told apart, and may hide a loss that matters.
/// `threshold` as in [`private_cache_held`].
pub(super) fn not_told_apart(
    entries: &mut BTreeMap<String, ResourceEntry>,
    neighbours: &[UnseenNeighbour],
    threshold: f64,
) {
    for one in neighbours.iter().filter(|one| matters(one.slowed_percent)) {
        let free = 1.0 - one.held_percent / 100.0;
        for id in &one.resources {
            let Some(entry) = entries.get_mut(id).filter(|entry| entry.mixture.is_none()) else {
                continue;
            };
            let kept = entry.curve.last().map(|point| kept_when_free(point, free));
            let Some(kept) = kept.filter(|kept| *kept <= threshold) else {
                continue;
            };
            if entry.sensitive != Some(false) {
                continue;
            }
            reopen(
                entry,
                format!(
                    "tolerated: somebody that this machine does not show had the core for {:.0} % of \
                     the time, and the rest may hide a loss of {:.0} %",
                    one.held_percent,
                    100.0 * (1.0 - kept).min(1.0)
                ),
            );
        }
    }
}

/// Takes back what blocks without a shared cache cannot show: that nothing was lost in
/// it, and that nothing of it was taken.
pub(super) fn never_shared(
    entries: &mut BTreeMap<String, ResourceEntry>,
    sharing: &[CacheSharing],
) {
    for one in sharing {
        if one.of_shared_time {
            continue;
        }
        let line = match one.apart_ns {
            Some(ns) => format!(" (a cache line took {ns:.0} ns there and back)"),
            None => String::new(),
        };
        let time = match one.shared_percent < 0.5 {
            true => "at no time".to_string(),
            false => format!("in {:.0} % of the time only", one.shared_percent),
        };
        let reason = format!(
            "this virtual machine's CPUs shared a last-level cache {time}{line}, so that nothing is \
             known of when they do"
        );
        for id in &one.resources {
            let resource = id.parse::<Resource>().ok();
            let within = resource.is_some_and(Resource::evicts_from_last_level);
            let Some(entry) = entries.get_mut(id).filter(|_| within) else {
                continue;
            };
            let lost = entry.sensitive == Some(true);
            // Of one that waited for it all the time nothing else is to be said.
            if entry.curve.is_empty() && entry.probe_curve.is_empty() {
                entry.reason = None;
                reopen(entry, reason.clone());
                continue;
            }
            if !lost && !entry.curve.is_empty() {
                entry.curve.clear();
                reopen(entry, format!("tolerated: {reason}"));
            }
            if !takes(entry) {
                without_caused(entry, Some(reason.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrived::Circumstances;
    use super::super::arrived::judge;
    use super::super::arrived::tests::kept;
    use super::super::sources::SourceFacts;
    use super::*;
    use jostle_profile::Estimate;

    #[test]
    fn a_cache_that_was_never_shared_shows_no_absence_of_loss() {
        let sharing = |shared_percent, of_shared_time| CacheSharing {
            resources: vec!["memory-bandwidth".into(), "storage-bandwidth".into()],
            shared_percent,
            of_shared_time,
            shared_ns: None,
            apart_ns: Some(362.0),
        };
        let entries = || {
            let of = |id: &str| (id.to_string(), kept([100.0, 200.0], None));
            BTreeMap::from(["memory-bandwidth", "storage-bandwidth"].map(of))
        };
        let mut all = entries();
        never_shared(&mut all, &[sharing(0.0, false)]);
        let entry = &all["memory-bandwidth"];
        assert_eq!((entry.sensitive, entry.status), (None, Status::Unresolved));
        assert!(entry.curve.is_empty() && entry.tolerated.is_none());
        let reason = entry.reason.as_deref().unwrap_or_default();
        assert!(
            reason.contains("at no time (a cache line took 362 ns"),
            "{reason}"
        );
        assert_eq!(all["storage-bandwidth"].sensitive, Some(false));
        // What was lost nevertheless is lost.
        let mut all = entries();
        all.get_mut("memory-bandwidth").unwrap().sensitive = Some(true);
        never_shared(&mut all, &[sharing(7.0, false)]);
        assert_eq!(all["memory-bandwidth"].curve.len(), 2);
        let mut all = entries();
        never_shared(&mut all, &[sharing(30.0, true)]);
        assert_eq!(all["memory-bandwidth"].sensitive, Some(false));
    }

    #[test]
    fn a_core_that_was_never_free_shows_nothing_of_its_caches() {
        let judged = |reached: f64, calibrated| {
            let cache = kept([50.0, 100.0], None);
            let mut gauge = kept([reached, 2.0 * reached], Some(2.0 * reached));
            let facts = SourceFacts {
                placement: gauge.placement.clone().unwrap(),
                full_scale: Some(200.0),
                calibrated: Some(calibrated),
                warning: None,
                bound: None,
            };
            let known = Circumstances {
                clock: 1.0,
                facts: &facts,
                generator: &[],
                generator_waits: false,
            };
            let alone = judge(Resource::Int, &mut gauge, &known);
            let alone: Vec<_> = alone
                .map(|share| (Resource::Int, share))
                .into_iter()
                .collect();
            let mut entries = BTreeMap::from([("l2-capacity".to_string(), cache)]);
            entries.insert("int".into(), gauge);
            never_free(&mut entries, &alone);
            entries.remove("l2-capacity").unwrap()
        };
        let held = judged(70.0, true);
        assert_eq!((held.sensitive, held.status), (None, Status::Unresolved));
        let reason = held.reason.unwrap();
        assert!(reason.contains("int reached 70 %"), "{reason}");
        assert_eq!(judged(95.0, true).sensitive, Some(false));
        assert_eq!(judged(70.0, false).sensitive, Some(false), "who knows");
    }

    #[test]
    fn a_cache_that_others_held_shows_little_of_when_it_is_free() {
        let judged = |low: f64, held_percent: f64, apart: bool| {
            let mut entry = kept([50.0, 100.0], None);
            entry.curve.last_mut().unwrap().ci95 = [low, 1.01];
            entry.mixture = apart.then_some(Estimate {
                value: 0.9,
                ci95: [0.85, 0.95],
            });
            let mut entries = BTreeMap::from([("l2-capacity".to_string(), entry)]);
            let held = PrivateCacheHeld {
                held_percent,
                looks: 40,
                near_ns: 2.0,
                access_ns: 11.0,
            };
            private_cache_held(&mut entries, &held, 0.95);
            entries.remove("l2-capacity").unwrap()
        };
        let held = judged(0.99, 95.0, false);
        assert_eq!((held.sensitive, held.status), (None, Status::Unresolved));
        let reason = held.reason.unwrap();
        assert!(reason.contains("in 95 % of 40 looks"), "{reason}");
        // Half of the time free: 4 % of all are 8 % of that, 2 % are 4 %.
        assert_eq!(judged(0.96, 50.0, false).sensitive, None);
        assert_eq!(judged(0.98, 50.0, false).sensitive, Some(false));
        assert_eq!(judged(0.96, 50.0, true).sensitive, Some(false));
        assert_eq!(judged(0.96, 0.0, false).sensitive, Some(false));
    }

    #[test]
    fn what_an_unseen_neighbour_may_hide_is_open() {
        let judged = |low: f64, held_percent: f64, slowed_percent: f64| {
            let mut entry = kept([50.0, 100.0], None);
            entry.curve.last_mut().unwrap().ci95 = [low, 1.01];
            let mut entries = BTreeMap::from([("tlb".to_string(), entry)]);
            let one = UnseenNeighbour {
                resources: vec!["tlb".into(), "int".into()],
                held_percent,
                slowed_percent,
            };
            not_told_apart(&mut entries, &[one], 0.95);
            entries.remove("tlb").unwrap()
        };
        // 3 % of all the time are 7.5 % of two fifths of it.
        let open = judged(0.97, 60.0, 30.0);
        assert_eq!((open.sensitive, open.status), (None, Status::Unresolved));
        assert!(open.tolerated.is_none());
        let reason = open.reason.unwrap();
        assert!(reason.contains("may hide a loss of 8 %"), "{reason}");
        assert_eq!(judged(0.985, 60.0, 30.0).sensitive, Some(false));
        assert_eq!(judged(0.97, 20.0, 30.0).sensitive, Some(false));
        assert_eq!(judged(0.97, 60.0, 8.0).sensitive, Some(false), "a mild one");
    }
}
