//! What a profile says, in a few sentences.

use super::entries::Verdict;
use super::entries::by_eviction;
use super::entries::by_refills;
use super::entries::by_sensitivity;
use super::entries::is_measurable;
use super::entries::loss_percent;
use super::entries::used_percent;
use super::text;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_statistics::ByNumber;

/// Shares of a peak below this are not worth a word, percent.
const MUCH: f64 = 5.0;
/// Names told before the rest is a number.
const MOST_NAMES: usize = 4;
const CPU_TIME: &str = "cpu-time";
/// The warning after which nothing else counts.
const NOT_A_LEVEL: &str = "read-total-as-value";

/// The conclusion, from what matters most to what is open.
pub fn sentences(profile: &Profile) -> Vec<String> {
    let mut warnings = profile.conditions.warnings.iter();
    if let Some(warning) = warnings.find(|it| it.code == NOT_A_LEVEL) {
        return vec![format!(
            "Read this first: {}.",
            text::clean(&warning.message)
        )];
    }
    let entries = by_sensitivity(profile);
    let of = |wanted: Verdict| -> Vec<(&String, &ResourceEntry)> {
        let found = entries.iter().filter(|(_, entry)| is_measurable(entry));
        let found = found.filter(|(_, entry)| Verdict::of(entry, profile) == wanted);
        found.copied().collect()
    };
    let sensitive = of(Verdict::Sensitive);
    let parts = [
        of_cpu(&sensitive),
        of_sensitive(&sensitive, profile),
        of_near(&of(Verdict::AtTheLine), profile),
        of_none_seen(&of(Verdict::NoneSeen), profile),
        of_insensitive(&of(Verdict::Insensitive), !sensitive.is_empty()),
        of_caused(&entries),
        of_use(profile, &entries),
        of_open(&of(Verdict::Open), profile),
        of_apart(&of(Verdict::Open), profile),
        of_doubts(profile),
    ];
    parts.into_iter().flatten().collect()
}

/// Nearly everything loses by sharing a CPU: it does not count as the most sensitive.
fn of_cpu(sensitive: &[(&String, &ResourceEntry)]) -> Option<String> {
    let (_, entry) = sensitive.iter().find(|(id, _)| *id == CPU_TIME)?;
    let loss = loss_percent(entry)?;
    let neighbour = match loss.intensity < 99.5 {
        true => format!("neighbour that is busy {:.0} % of the time", loss.intensity),
        false => "busy neighbour".into(),
    };
    Some(format!(
        "On a CPU shared with a {neighbour} it loses {:.0} %.",
        loss.value
    ))
}

fn of_sensitive(sensitive: &[(&String, &ResourceEntry)], profile: &Profile) -> Option<String> {
    let mut others = sensitive.iter().filter(|(id, _)| *id != CPU_TIME);
    let (id, entry) = others.next()?;
    let mut text = format!("Most sensitive to {}", text::clean(id));
    if let Some(loss) = loss_percent(entry) {
        text += &format!(
            ": loses {} % at {}",
            text::short(loss.value),
            pressure(loss.intensity)
        );
    }
    if let Some(score) = entry.tolerated.filter(|it| it.score < 99.5) {
        text += &format!(", tolerates {:.0}", score.score);
    }
    let more: Vec<String> = others
        .map(|(id, entry)| {
            let evicts = match by_eviction(profile, id) {
                Some(_) => ", which evicts the same cache",
                None if by_refills(profile, id) => ", whose source reads back what is evicted",
                None => "",
            };
            match loss_percent(entry) {
                Some(loss) => {
                    format!(
                        "{} ({} %{evicts})",
                        text::clean(id),
                        text::short(loss.value)
                    )
                }
                None => text::clean(id),
            }
        })
        .collect();
    Some(match more.is_empty() {
        true => format!("{text}."),
        false => format!("{text}; also to {}.", listed(&more)),
    })
}

fn of_near(entries: &[(&String, &ResourceEntry)], profile: &Profile) -> Option<String> {
    let names: Vec<String> = entries
        .iter()
        .map(|(id, entry)| match loss_percent(entry) {
            Some(loss) => format!("{} ({} %)", text::clean(id), text::short(loss.value)),
            None => text::clean(id),
        })
        .collect();
    let may_lose = text::short(100.0 * (1.0 - profile.qos.threshold));
    (!names.is_empty()).then(|| {
        format!(
            "Loses about the {may_lose} % that it may to {}.",
            listed(&names)
        )
    })
}

/// Where nothing but the number of blocks leaves it open.
fn of_none_seen(entries: &[(&String, &ResourceEntry)], profile: &Profile) -> Option<String> {
    let names: Vec<String> = entries.iter().map(|(id, _)| text::clean(id)).collect();
    let unlimited = profile.conditions.max_intensity_percent.is_none();
    (unlimited && !names.is_empty()).then(|| format!("Probably insensitive to {}.", listed(&names)))
}

/// `others`: some were named before.
fn of_insensitive(entries: &[(&String, &ResourceEntry)], others: bool) -> Option<String> {
    let losses = entries.iter().filter_map(|(_, entry)| loss_percent(entry));
    let most = losses.map(|it| it.most).max_by(f64::total_cmp);
    let most = most.map_or(String::new(), |most| {
        format!(", each of which costs it at most {} %", text::short(most))
    });
    match entries {
        [] => None,
        [(id, _)] => Some(format!("Insensitive to {}.", text::clean(id))),
        _ => {
            let what = if others { "others" } else { "resources" };
            Some(format!("Insensitive to {} {what}{most}.", entries.len()))
        }
    }
}

/// Intensity in words.
fn pressure(percent: f64) -> String {
    match percent < 99.5 {
        true => format!("{percent:.0} % pressure"),
        false => "full pressure".into(),
    }
}

fn of_caused(entries: &[(&String, &ResourceEntry)]) -> Option<String> {
    let mut known: Vec<(&String, f64)> = Vec::new();
    let mut quiet = 0;
    for (id, entry) in entries {
        match entry.caused {
            Some(score) if score.ci95[0] > 0.0 => known.push((id, score.score)),
            Some(score) if score.score < MUCH => quiet += 1,
            // Something between nothing and much: neither.
            Some(_) | None => {}
        }
    }
    known.sort_by_number(|it| -it.1);
    let names: Vec<String> = known
        .iter()
        .map(|(id, score)| format!("{} ({score:.0})", text::clean(id)))
        .collect();
    match (names.is_empty(), quiet) {
        (true, 0) => None,
        (true, 1) => {
            Some("It was not seen to disturb the one resource that could be measured.".into())
        }
        (true, quiet) => Some(format!(
            "It was not seen to disturb any of the {quiet} resources that could be measured."
        )),
        (false, _) => Some(format!("It disturbs {}.", listed(&names))),
    }
}

fn of_use(profile: &Profile, entries: &[(&String, &ResourceEntry)]) -> Option<String> {
    let share = |id: &String| Some((text::clean(id), used_percent(profile, id)?));
    let mut used: Vec<(String, f64)> = entries.iter().filter_map(|(id, _)| share(id)).collect();
    used.retain(|(_, percent)| *percent >= MUCH);
    used.sort_by_number(|it| -it.1);
    let parts: Vec<String> = used
        .iter()
        .map(|(id, percent)| match id.as_str() {
            CPU_TIME => format!("{percent:.0} % of its CPU"),
            id => format!("{percent:.0} % of the peak of {id}"),
        })
        .collect();
    (!parts.is_empty()).then(|| format!("Uses {}.", listed(&parts)))
}

/// Whether the CPUs of source and target shared no cache for long enough to see what `id`
/// costs then: more time decides nothing.
fn is_apart(id: &str, profile: &Profile) -> bool {
    let sharing = profile.conditions.cache_sharing.iter();
    let mut apart = sharing.filter(|one| !one.of_shared_time);
    apart.any(|one| one.resources.iter().any(|of| of == id))
}

/// The names of some entries, or their number.
fn names(entries: &[&(&String, &ResourceEntry)]) -> String {
    match entries.len() > MOST_NAMES {
        true => format!("{} resources", entries.len()),
        false => {
            let names = entries.iter().map(|(id, _)| text::clean(id));
            listed(&names.collect::<Vec<_>>())
        }
    }
}

fn of_open(entries: &[(&String, &ResourceEntry)], profile: &Profile) -> Option<String> {
    let open = entries.iter().filter(|(id, _)| !is_apart(id, profile));
    let open: Vec<_> = open.collect();
    (!open.is_empty()).then(|| format!("Open: {}; a longer --budget decides more.", names(&open)))
}

fn of_apart(entries: &[(&String, &ResourceEntry)], profile: &Profile) -> Option<String> {
    let apart = entries.iter().filter(|(id, _)| is_apart(id, profile));
    let apart: Vec<_> = apart.collect();
    (!apart.is_empty()).then(|| {
        format!(
            "Not seen: {}; the virtual machine's CPUs shared too little of their time in one \
             last-level cache, so measure again later.",
            names(&apart)
        )
    })
}

fn of_doubts(profile: &Profile) -> Option<String> {
    let of_entries = profile.resources.values().map(|entry| entry.doubts.len());
    match profile.conditions.doubts.len() + of_entries.sum::<usize>() {
        0 => None,
        1 => Some("One warning is in the details.".into()),
        count => Some(format!("{count} warnings are in the details.")),
    }
}

fn listed(names: &[String]) -> String {
    match names.len().saturating_sub(MOST_NAMES) {
        0 => names.join(", "),
        // "and 1 more" is no shorter than the name.
        1 => names.join(", "),
        more => format!("{} and {more} more", names[..MOST_NAMES].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_measure::warning::Warning;
    use jostle_profile::CacheSharing;
    use jostle_profile::Score;
    use jostle_profile::Status;

    #[test]
    fn what_was_kept_without_certainty_is_probably_insensitive() {
        let text = include_str!("../../profiles/bzip2.json");
        let mut profile: Profile = serde_json::from_str(text).unwrap();
        let entry = profile.resources.get_mut("branch").unwrap();
        (entry.status, entry.sensitive) = (Status::Measured, None);
        entry.tolerated = Some(Score {
            score: 100.0,
            ci95: [100.0, 100.0],
        });
        let point = entry.curve.last_mut().unwrap();
        (point.performance, point.ci95) = (1.015, [0.951, 1.087]);
        let said = |profile: &Profile| sentences(profile).join(" ");
        assert!(
            said(&profile).contains("Probably insensitive to branch."),
            "{}",
            said(&profile)
        );
        // What is below a limit says nothing about more.
        profile.conditions.max_intensity_percent = Some(100.0);
        assert!(!said(&profile).contains("Probably"));
    }

    #[test]
    fn a_total_that_was_read_as_a_level_says_nothing() {
        let text = include_str!("../../profiles/bzip2.json");
        let mut profile: Profile = serde_json::from_str(text).unwrap();
        let (from, to) = (1.0, 90.0);
        let warning = Warning::ReadTotalAsValue { from, to };
        profile.conditions.warn(warning.facts());
        let said = sentences(&profile);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("--kind rate"), "{said:?}");
    }

    #[test]
    fn what_was_never_shared_is_not_called_open() {
        let text = include_str!("../../profiles/bzip2.json");
        let mut profile: Profile = serde_json::from_str(text).unwrap();
        for id in ["llc-bandwidth", "memory-bandwidth", "branch"] {
            let entry = profile.resources.get_mut(id).unwrap();
            (entry.status, entry.sensitive, entry.tolerated) = (Status::Unresolved, None, None);
            entry.curve.clear();
        }
        let sharing = |of_shared_time| CacheSharing {
            resources: vec!["llc-bandwidth".into(), "memory-bandwidth".into()],
            shared_percent: 0.0,
            of_shared_time,
            shared_ns: None,
            apart_ns: Some(370.0),
        };
        let open = |profile: &Profile| {
            let sentences = sentences(profile).into_iter();
            let open = sentences.filter(|it| it.starts_with("Open") || it.starts_with("Not seen"));
            open.collect::<Vec<_>>().join(" ")
        };
        profile.conditions.cache_sharing = vec![sharing(true)];
        assert!(open(&profile).starts_with("Open: ") && !open(&profile).contains("Not seen"));
        profile.conditions.cache_sharing = vec![sharing(false)];
        let said = open(&profile);
        let (open, apart) = said.split_once("Not seen").expect("what was not seen");
        assert!(
            open.starts_with("Open: ") && !open.contains("-bandwidth"),
            "{said}"
        );
        assert!(
            apart.contains("llc-bandwidth") && apart.contains("memory-bandwidth"),
            "{said}"
        );
    }
}
