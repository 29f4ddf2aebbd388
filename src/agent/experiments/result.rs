//! What becomes of results: a new profile joined to the old one, culprits in short.

use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::blame::Blame;
use jostle_profile::blame::Verdict;
use jostle_profile::node::Culprit;
use jostle_profile::node::Culprits;
use jostle_profile::reading::Reading;

/// Culprits that are shown, at most.
const MOST: usize = 20;

/// `new` with what only the profile `before` knows, where that still holds: a
/// measurement below a ceiling does not take back what was seen above it, and one
/// that was cut short does not take back anything.
pub(super) fn merge(before: Option<&Profile>, mut new: Profile, old_holds: bool) -> Profile {
    new.readings = None;
    let Some(before) = before else {
        return new;
    };
    if before.machine.fingerprint != new.machine.fingerprint {
        return new;
    }
    let ceiling = |profile: &Profile| profile.conditions.max_intensity_percent.unwrap_or(100.0);
    let (high, low) = (ceiling(before), ceiling(&new));
    for (id, old) in &before.resources {
        let Some(entry) = new.resources.get_mut(id) else {
            new.resources.insert(id.clone(), old.clone());
            continue;
        };
        let bound = entry.tolerated.is_some_and(|score| score.score >= low);
        let seen_above = old_holds && high > low && bound && old.tolerated.is_some();
        if entry.tolerated.is_none() && has_numbers(old) || seen_above {
            *entry = old.clone();
        } else if entry.caused.is_none() && old.caused.is_some() {
            entry.caused = old.caused;
            entry.probe_curve.clone_from(&old.probe_curve);
        }
    }
    if old_holds && high > low {
        let limit = before.conditions.max_intensity_percent;
        new.conditions.max_intensity_percent = limit;
    }
    if new.usage.is_none() {
        new.usage.clone_from(&before.usage);
    }
    if new.scaling.is_none() {
        new.scaling.clone_from(&before.scaling);
    }
    if new.together.is_empty() {
        new.together.clone_from(&before.together);
    }
    if new.metric.baseline.is_none() && new.metric.name == before.metric.name {
        new.metric.baseline = before.metric.baseline;
    }
    new
}

fn has_numbers(entry: &ResourceEntry) -> bool {
    entry.tolerated.is_some() || entry.caused.is_some()
}

pub(super) fn culprits(blame: &Blame) -> Culprits {
    let suspects = blame.candidates.iter().take(MOST);
    let suspects = suspects.map(|candidate| {
        let effect = match &candidate.effect {
            Reading::Value(effect) => {
                let mut slowed = effect.slowed_percent;
                slowed.ci95 = effect.family95;
                Reading::Value(slowed)
            }
            Reading::Unavailable { unavailable } => Reading::unavailable(unavailable.clone()),
        };
        let shares = candidate.observed.shares.iter();
        Culprit {
            name: candidate.name.clone(),
            verdict: candidate.verdict,
            slowed_percent: effect,
            shares: shares.map(|it| it.evidence.clone()).collect(),
        }
    });
    Culprits {
        recorded_at: blame.recorded_at.clone(),
        by_experiment: blame.experiment.value().is_some(),
        suspects: suspects.collect(),
    }
}

/// Who was shown to slow it, in words.
pub(super) fn say(culprits: &Culprits) -> Option<String> {
    let guilty = culprits.suspects.iter();
    let guilty = guilty.filter(|it| it.verdict == Verdict::Slows);
    let said: Vec<String> = guilty
        .map(|it| match it.slowed_percent.value() {
            Some(slowed) => format!(
                "{} takes {:.0} % of its speed ({:.0} to {:.0})",
                it.name, slowed.value, slowed.ci95[0], slowed.ci95[1]
            ),
            None => format!("{} slows it", it.name),
        })
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}
