//! Several profiles side by side.

use super::colocation::Matrix;
use super::heat;
use super::heat::Cell;
use super::heat::Row;
use super::profile::bars;
use super::sheet;
use crate::report::entries::Verdict;
use crate::report::entries::is_measurable;
use crate::report::text;
use jostle_profile::Profile;
use jostle_profile::resource::Resource;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Resources named before the rest is a number.
const MOST_NAMES: usize = 5;

/// What all of them say, in sentences; the matrices where there are any.
pub fn conclusion(profiles: &[Profile], matrices: Option<&[Matrix; 2]>) -> Vec<String> {
    let machines: BTreeSet<&str> = profiles
        .iter()
        .map(|it| it.machine.fingerprint.as_str())
        .collect();
    let mut sentences = vec![match machines.len() {
        1 => format!("{} profiles of one machine.", profiles.len()),
        many => format!(
            "{} profiles of {many} machines: scores of different machines do not compare directly.",
            profiles.len()
        ),
    }];
    sentences.extend(sensitive(profiles));
    if let Some([own, shared]) = matrices {
        let (pairs, good) = own.pairs();
        let (_, sharing) = shared.pairs();
        sentences.push(format!(
            "Of {pairs} pairs, {good} are expected to keep the QoS of both with CPUs of their own, and {sharing} when they time-share CPUs."
        ));
        if let Some((name, other, kept)) = own.worst() {
            sentences.push(format!(
                "With CPUs of its own the worst off is {} beside {}: it keeps {:.0} % ({:.0}–{:.0}).",
                text::clean(name),
                text::clean(other),
                kept.performance * 100.0,
                kept.ci95[0] * 100.0,
                kept.ci95[1] * 100.0
            ));
        }
    }
    sentences
}

/// How many are sensitive to what.
fn sensitive(profiles: &[Profile]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for profile in profiles {
        for (id, entry) in &profile.resources {
            let sensitive =
                is_measurable(entry) && Verdict::of(entry, profile) == Verdict::Sensitive;
            if sensitive {
                *counts.entry(id).or_default() += 1;
            }
        }
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_number(|(_, count)| -(*count as f64));
    let named: Vec<String> = counts
        .iter()
        .take(MOST_NAMES)
        .map(|(id, count)| format!("{} ({count})", text::clean(id)))
        .collect();
    match named.is_empty() {
        true => Some("None was shown to be sensitive to anything.".into()),
        false => Some(format!("Shown to be sensitive to {}.", named.join(", "))),
    }
}

/// One of the bars of a vector, as a map.
struct Measure {
    name: &'static str,
    caption: &'static str,
    /// 0–1 of a number.
    shade: fn(f64) -> f64,
}

const MEASURES: [Measure; 4] = [
    Measure {
        name: "loss",
        caption: "Loss at full pressure, %",
        shade: |loss| loss / 60.0,
    },
    Measure {
        name: "tolerates",
        caption: "Highest intensity at which the QoS is kept, 0–100",
        shade: |tolerated| (100.0 - tolerated) / 100.0,
    },
    Measure {
        name: "causes",
        caption: "How much the program disturbs the source of interference, 0–100",
        shade: |caused| caused / 100.0,
    },
    Measure {
        name: "uses",
        caption: "Share of the peak of the resource that the program uses, %",
        shade: |used| used / 100.0,
    },
];

/// Programs by resources: loss, tolerated, caused, use, one of them shown.
pub fn section(profiles: &[Profile]) -> String {
    let resources = resources(profiles);
    let maps = MEASURES.map(|measure| {
        let rows: Vec<Row> = profiles
            .iter()
            .enumerate()
            .map(|(at, profile)| Row {
                name: profile.workload.name.clone(),
                link: Some(format!("p{at}")),
                cells: resources
                    .iter()
                    .map(|id| cell(profile, id, &measure))
                    .collect(),
            })
            .collect();
        let hint = "The stronger the colour, the more the program loses, the less it tolerates, or the more it causes or uses. Point at a cell, or walk with the arrow keys.";
        (measure.name, heat::map(measure.caption, &resources, &rows, hint))
    });
    format!(
        "<section aria-labelledby=\"side\"><h2 id=\"side\">Side by side</h2>\n{}</section>\n",
        heat::panels("measure", "Show", &maps)
    )
}

/// Those of which any profile has something, in the order of the table of resources.
fn resources(profiles: &[Profile]) -> Vec<String> {
    let entries = profiles.iter().flat_map(|it| &it.resources);
    let known: BTreeSet<&String> = entries
        .filter(|(_, entry)| is_measurable(entry))
        .map(|(id, _)| id)
        .collect();
    let mut known: Vec<String> = known.into_iter().cloned().collect();
    known.sort_by_key(|id| {
        let place = id.parse::<Resource>();
        (place.map_or(usize::MAX, |it| it as usize), id.clone())
    });
    known
}

fn cell(profile: &Profile, id: &str, measure: &Measure) -> Cell {
    let none = |words: &str| Cell {
        text: "–".into(),
        words: words.into(),
        shade: None,
        mark: "",
    };
    let Some(entry) = profile.resources.get(id) else {
        return none("not in the profile");
    };
    if !is_measurable(entry) {
        return none(entry.status.name());
    }
    let mut all = bars(profile, id, entry).into_iter();
    let Some(bar) = all.find(|bar| bar.label == measure.name) else {
        return none("not in the profile");
    };
    if bar.text == "–" {
        return none(entry.status.name());
    }
    let verdict = Verdict::of(entry, profile);
    let interval = match bar.interval.as_str() {
        "" => String::new(),
        interval => format!(" ({interval})"),
    };
    Cell {
        words: format!("{} {}{interval}, {}", bar.label, bar.text, verdict.words()),
        // What was not shown is not shaded.
        shade: Some(
            bar.value
                .map_or(0.0, |value| (measure.shade)(value).max(0.0)),
        ),
        text: bar.text.replace("≤ ", "≤"),
        mark: "",
    }
}

/// Why there is no map of pairs.
pub fn too_many(most: usize) -> String {
    sheet::paragraph(
        "muted",
        &format!("Predicted co-location is left out: a page shows it for up to {most} profiles."),
    )
}
