//! The entries of a profile: their order, and what is read off them.

use super::style::Colour;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::curve::ends_at_the_line;
use jostle_profile::curve::telling;

/// Most sensitive first: lowest tolerated score, then the unresolved, then what
/// has no numbers. Equal scores: the larger loss first, then by name.
pub fn by_sensitivity(profile: &Profile) -> Vec<(&String, &ResourceEntry)> {
    let mut entries: Vec<_> = profile.resources.iter().collect();
    let group = |entry: &ResourceEntry| match (entry.status, &entry.tolerated) {
        // Where a loss begins may be open when that there is one is not.
        _ if entry.sensitive == Some(true) => 0,
        (Status::Measured | Status::Inferred, Some(_)) => 0,
        (Status::Measured | Status::Inferred | Status::Unresolved, _) => 1,
        (Status::Unavailable, _) => 2,
        (Status::NotShared, _) => 3,
    };
    let score = |entry: &ResourceEntry| match (entry.tolerated, entry.sensitive) {
        (Some(tolerated), _) => tolerated.score,
        // Somewhere in the middle, for all that is known.
        (None, Some(true)) => 50.0,
        (None, _) => f64::INFINITY,
    };
    let kept = |entry: &ResourceEntry| {
        telling(&entry.curve, entry.sensitive).map_or(f64::INFINITY, |point| point.performance)
    };
    entries.sort_by(|(a_id, a), (b_id, b)| {
        group(a)
            .cmp(&group(b))
            .then(score(a).total_cmp(&score(b)))
            .then(kept(a).total_cmp(&kept(b)))
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
    /// Up to a limit on intensity nothing was seen.
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
                match ceiling.is_some_and(|most| score.score >= most) {
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
    let least = percent(point.ci95[1]);
    Some(Loss {
        value: percent(point.performance),
        least,
        most: percent(point.ci95[0]).max(0.0),
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
