//! The entries of a profile: their order, and what is read off them.

use super::style::Colour;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::curve::CAUSED_LINE;
use jostle_profile::curve::ends_above;
use jostle_profile::curve::ends_at_the_line;
use jostle_profile::curve::strongest;
use jostle_profile::curve::telling;
use jostle_profile::resource::Resource;

/// Share of the loss to a stream, 0–1, that a source which only holds the last-level cache
/// must cost too, so that the stream's loss counts as one of that cache.
const MOST_OF_IT: f64 = 0.8;
/// What the stream itself may lose beside the target for that, 0–1: where it loses more,
/// they compete for its bandwidth.
const LITTLE: f64 = 0.1;

/// What the source of `id` costs the target by evicting it from the last-level cache: the
/// performance that is left beside a source of that cache alone. `None` where it costs it
/// something else.
pub fn by_eviction(profile: &Profile, id: &str) -> Option<f64> {
    let streams = [Resource::MemoryBandwidth, Resource::LlcBandwidth];
    let is_stream = streams.iter().any(|stream| stream.id() == id);
    let stream = profile.resources.get(id).filter(|_| is_stream)?;
    let cache = profile.resources.get(Resource::LlcCapacity.id())?;
    let beside_target = strongest(&stream.probe_curve)?;
    let takes_little = 1.0 - beside_target.performance <= LITTLE;
    let kept = |entry: &ResourceEntry| {
        let certain = entry.sensitive == Some(true);
        let point = telling(&entry.curve, entry.sensitive).filter(|_| certain);
        point.map(|point| point.performance)
    };
    let (beside_stream, without_cache) = (kept(stream)?, kept(cache)?);
    let costs_more = beside_stream <= without_cache;
    let explained = 1.0 - without_cache >= MOST_OF_IT * (1.0 - beside_stream);
    (takes_little && costs_more && explained).then_some(without_cache)
}

/// Whether what the source of `id` costs the target is its reading back of lines that the
/// target, a stream, evicts: a loss to the bandwidth of memory, which a program that fits
/// the cache would not cause.
pub fn by_refills(profile: &Profile, id: &str) -> bool {
    let holds_lines = [Resource::LlcCapacity, Resource::LlcBandwidth];
    let entry = |resource: Resource| profile.resources.get(resource.id());
    let found = holds_lines.into_iter().find(|resource| resource.id() == id);
    let (Some(cache), Some(memory), Some(near)) = (
        found.and_then(entry),
        entry(Resource::MemoryBandwidth),
        entry(Resource::LlcBandwidth),
    ) else {
        return false;
    };
    // One that loses without the memory has lost its CPU.
    let takes_bandwidth = strongest(&memory.probe_curve)
        .is_some_and(|it| it.ci95[1] < 1.0 - LITTLE)
        && strongest(&near.probe_curve).is_some_and(|it| it.performance >= 1.0 - LITTLE);
    let loss = |entry: &ResourceEntry| Some(1.0 - strongest(&entry.curve)?.performance);
    takes_bandwidth
        && loss(memory)
            .zip(loss(cache))
            .is_some_and(|(memory, cache)| memory >= MOST_OF_IT * cache)
}

/// Most sensitive first: what surely costs the target something, then what has a score, the
/// unresolved, and what has no numbers; in each of these the larger loss first, then by
/// name. A stream that only evicts a cache comes after that cache, and a cache whose source
/// only reads back what the target evicts after the bandwidth that this takes.
pub fn by_sensitivity(profile: &Profile) -> Vec<(&String, &ResourceEntry)> {
    let mut entries: Vec<_> = profile.resources.iter().collect();
    let group = |entry: &ResourceEntry| match (entry.status, &entry.tolerated) {
        _ if entry.sensitive == Some(true) => 0,
        (Status::Measured | Status::Inferred, Some(_)) => 1,
        // Where a loss begins may be open when that there is one is not.
        (Status::Measured | Status::Inferred | Status::Unresolved, _) => 2,
        (Status::Unavailable, _) => 3,
        (Status::NotShared, _) => 4,
    };
    let key = |id: &str, entry: &ResourceEntry| {
        let evicts = by_eviction(profile, id);
        let own = telling(&entry.curve, entry.sensitive).map(|point| point.performance);
        let memory = profile.resources.get(Resource::MemoryBandwidth.id());
        let refilled = memory.filter(|it| by_refills(profile, id) && group(it) == group(entry));
        let refilled = refilled.and_then(|it| Some(telling(&it.curve, it.sensitive)?.performance));
        // Never before the bandwidth.
        let own = own.map(|own| refilled.map_or(own, |memory| own.max(memory)));
        let kept = evicts.or(own).unwrap_or(f64::INFINITY);
        (group(entry), kept, evicts.is_some() || refilled.is_some())
    };
    entries.sort_by(|(a_id, a), (b_id, b)| {
        let ((a_group, a_kept, a_evicts), (b_group, b_kept, b_evicts)) =
            (key(a_id, a), key(b_id, b));
        a_group
            .cmp(&b_group)
            .then(a_kept.total_cmp(&b_kept))
            .then(a_evicts.cmp(&b_evicts))
            .then_with(|| a_id.cmp(b_id))
    });
    entries
}

/// Whether some of it comes from other applications and not from a measurement.
pub fn is_inferred(entry: &ResourceEntry) -> bool {
    entry.status == Status::Inferred || entry.inferred.is_some()
}

/// Whether it has a row: what is not there or not shared has none.
pub fn is_measurable(entry: &ResourceEntry) -> bool {
    !matches!(entry.status, Status::Unavailable | Status::NotShared)
}

/// What is said of a resource in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Sensitive,
    Insensitive,
    /// Full pressure brings performance to the QoS threshold: neither.
    AtTheLine,
    /// No loss beyond the QoS was seen, up to a limit on intensity or by too few blocks to
    /// exclude one.
    NoneSeen,
    Open,
}

impl Verdict {
    /// What `entry` of `profile` says.
    pub fn of(entry: &ResourceEntry, profile: &Profile) -> Verdict {
        let ceiling = profile.conditions.max_intensity_percent;
        Verdict::against(entry, profile.qos.threshold, ceiling)
    }

    /// `threshold`: what is to be kept, a fraction of the baseline. `ceiling`: the highest
    /// intensity that was allowed, percent, if that was limited.
    pub(super) fn against(entry: &ResourceEntry, threshold: f64, ceiling: Option<f64>) -> Verdict {
        match (entry.sensitive, entry.tolerated) {
            (Some(true), _) => Verdict::Sensitive,
            (Some(false), _) => Verdict::Insensitive,
            (None, _) if ends_at_the_line(&entry.curve, threshold) => Verdict::AtTheLine,
            (None, Some(score)) if entry.status == Status::Measured => {
                let at_limit = ceiling.is_some_and(|most| score.score >= most);
                let kept = score.score >= 100.0 && ends_above(&entry.curve, threshold);
                match at_limit || kept {
                    true => Verdict::NoneSeen,
                    false => Verdict::AtTheLine,
                }
            }
            (None, _) => Verdict::Open,
        }
    }

    pub fn colour(self) -> Option<Colour> {
        match self {
            Verdict::Sensitive => Some(Colour::Yellow),
            Verdict::Insensitive | Verdict::NoneSeen => Some(Colour::Green),
            Verdict::Open => Some(Colour::Dim),
            Verdict::AtTheLine => None,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Verdict::Sensitive => "sensitive",
            Verdict::Insensitive => "insensitive",
            Verdict::AtTheLine => "at the line",
            Verdict::NoneSeen => "none seen",
            Verdict::Open => "open",
        }
    }
}

/// Where no score of what is caused is known, although the source at full pressure is known
/// to keep about as much as it may lose: that, in words.
pub fn causes_without_a_score(entry: &ResourceEntry) -> Option<&'static str> {
    let near = entry.caused.is_none() && ends_at_the_line(&entry.probe_curve, CAUSED_LINE);
    near.then(|| Verdict::AtTheLine.words())
}

/// Loss at the highest intensity measured, or at a lower one that certainly costs more,
/// percent of the baseline.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    pub value: f64,
    pub least: f64,
    pub most: f64,
    pub intensity: f64,
    /// Whether the interval excludes zero; where not, only `most` says anything.
    pub is_shown: bool,
}

/// `None` without a curve.
pub fn loss_percent(entry: &ResourceEntry) -> Option<Loss> {
    let point = telling(&entry.curve, entry.sensitive)?;
    let percent = |performance: f64| (1.0 - performance) * 100.0;
    let (value, least, most) = (
        percent(point.performance),
        percent(point.ci95[1]),
        percent(point.ci95[0]).max(0.0),
    );
    // Two statements about the same loss, of which both hold, unless they contradict.
    let bound = entry.physical_bound.as_ref().map(|it| it.loss_percent);
    let most = bound.filter(|it| *it >= least).unwrap_or(most).min(most);
    Some(Loss {
        value: value.min(most),
        least,
        most,
        intensity: point.intensity,
        is_shown: entry.sensitive == Some(true) || least > 0.0,
    })
}

/// Share of the peak of a resource that the target used by itself; several
/// quantities may be of one resource, as bytes read and written.
pub fn used_percent(profile: &Profile, id: &str) -> Option<f64> {
    let quantities = profile.usage.as_ref()?.quantities.values();
    let shares = quantities.filter_map(|quantity| {
        let quantity = quantity.value()?;
        let of_it = quantity.resource.as_deref() == Some(id);
        Some(quantity.share.value().filter(|_| of_it)?.percent)
    });
    shares.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::CurvePoint;
    use jostle_profile::PhysicalBound;
    use jostle_profile::Score;

    /// `loss` of the target and `caused` of the source, percent.
    fn lost(loss: f64, caused: f64) -> ResourceEntry {
        let point = |lost: f64| CurvePoint {
            intensity: 100.0,
            requested: None,
            performance: 1.0 - lost / 100.0,
            ci95: [0.99 - lost / 100.0, 1.01 - lost / 100.0],
            windows: 40,
            pressure: None,
        };
        let mut entry = ResourceEntry::without_numbers(Status::Measured, "");
        entry.sensitive = Some(loss > 5.0);
        entry.curve.push(point(loss));
        entry.probe_curve.push(point(caused));
        entry
    }

    fn order(entries: &[(&str, ResourceEntry)]) -> Vec<String> {
        let text = include_str!("../../profiles/demo-quiet.json");
        let mut profile: Profile = serde_json::from_str(text).unwrap();
        let named = |(id, entry): &(&str, ResourceEntry)| (id.to_string(), entry.clone());
        profile.resources = entries.iter().map(named).collect();
        let sorted = by_sensitivity(&profile).into_iter();
        sorted.map(|(id, _)| id.clone()).collect()
    }

    #[test]
    fn the_largest_loss_comes_first() {
        let found = order(&[
            ("cpu-time", lost(2.0, 0.0)),
            ("l2-capacity", lost(7.0, 0.0)),
            ("tlb", lost(20.0, 0.0)),
            (
                "storage-capacity",
                ResourceEntry::without_numbers(Status::Unresolved, ""),
            ),
        ]);
        assert_eq!(
            found,
            ["tlb", "l2-capacity", "cpu-time", "storage-capacity"]
        );
    }

    /// Where a verdict rests on a bound, the blocks may say far less.
    #[test]
    fn the_smaller_of_two_bounds_on_a_loss_is_told() {
        let mut entry = lost(0.5, 0.0);
        entry.curve[0].ci95 = [0.75, 1.33];
        assert!((loss_percent(&entry).unwrap().most - 25.0).abs() < 1e-9);
        entry.physical_bound = Some(PhysicalBound {
            loss_percent: 1.5,
            basis: String::new(),
        });
        assert_eq!(loss_percent(&entry).unwrap().most, 1.5);
        // A loss that was seen is not hidden by a bound that it contradicts.
        entry.curve[0].ci95 = [0.75, 0.85];
        let contradicted = loss_percent(&entry).unwrap();
        assert!((contradicted.least - 15.0).abs() < 1e-9);
        assert!((contradicted.most - 25.0).abs() < 1e-9);
    }

    #[test]
    fn a_source_that_keeps_about_what_it_may_lose_is_at_the_line() {
        let beside = |ci95| {
            let mut entry = lost(0.0, 5.0);
            entry.probe_curve[0].ci95 = ci95;
            causes_without_a_score(&entry)
        };
        assert_eq!(beside([0.94, 0.96]), Some("at the line"));
        assert_eq!(beside([0.92, 0.96]), None);
        let never = ResourceEntry::without_numbers(Status::Unresolved, "");
        assert_eq!(causes_without_a_score(&never), None);
    }

    #[test]
    fn what_was_kept_without_certainty_is_not_at_the_line() {
        let said = |ci95, score| {
            let mut entry = lost(0.0, 0.0);
            entry.sensitive = None;
            entry.curve[0].ci95 = ci95;
            entry.tolerated = Some(Score {
                score,
                ci95: [score, 100.0],
            });
            Verdict::against(&entry, 0.95, None)
        };
        assert_eq!(said([0.952, 1.041], 100.0), Verdict::NoneSeen);
        assert_eq!(said([0.92, 1.041], 100.0), Verdict::AtTheLine);
        // A lower intensity costs more.
        assert_eq!(said([0.952, 1.041], 55.0), Verdict::AtTheLine);
    }

    /// A stream takes a cache away a little faster than what only holds it.
    #[test]
    fn a_stream_that_evicts_a_cache_comes_after_it() {
        let first = |cache, stream, caused| {
            let entries = [
                ("llc-capacity", lost(cache, 0.0)),
                ("memory-bandwidth", lost(stream, caused)),
            ];
            order(&entries).remove(0)
        };
        assert_eq!(first(86.0, 90.0, 0.0), "llc-capacity");
        // It needs the memory itself.
        assert_eq!(first(26.0, 28.0, 60.0), "memory-bandwidth");
        // More than the cache.
        assert_eq!(first(20.0, 40.0, 0.0), "memory-bandwidth");
    }

    /// Beside a target that streams the source of a cache is one of bandwidth.
    #[test]
    fn a_cache_whose_source_is_evicted_by_the_target_comes_after_the_bandwidth() {
        let first = |cache, stream, caused, near| {
            let entries = [
                ("llc-capacity", lost(cache, 86.0)),
                ("llc-bandwidth", lost(3.0, near)),
                ("memory-bandwidth", lost(stream, caused)),
            ];
            order(&entries).remove(0)
        };
        assert_eq!(first(28.0, 27.0, 48.0, 0.0), "memory-bandwidth");
        // The source has lost its CPU, and not the bandwidth.
        assert_eq!(first(28.0, 27.0, 48.0, 50.0), "llc-capacity");
        // It keeps more there than it streams.
        assert_eq!(first(60.0, 27.0, 48.0, 0.0), "llc-capacity");
        assert_eq!(first(28.0, 27.0, 0.0, 0.0), "llc-capacity");
    }
}
