//! Counters in words: what moved, and what could not be read.

use super::text;
use jostle_profile::CounterPair;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;

/// Changes told per resource; the file has all of them.
const MOST: usize = 6;
/// Reasons told for what could not be read.
const MOST_REASONS: usize = 3;

/// One line per resource that has something to tell, in the order given: the
/// target's own counters first, the largest change first.
pub fn lines(profile: &Profile, ordered: &[(&String, &ResourceEntry)]) -> Vec<String> {
    ordered
        .iter()
        .filter_map(|(id, entry)| Some(format!("{id}: {}", line(profile, entry)?)))
        .collect()
}

fn line(profile: &Profile, entry: &ResourceEntry) -> Option<String> {
    let facts = |name: &str| profile.conditions.counters.get(name)?.value();
    let foreign = |name: &str| facts(name).is_some_and(|facts| facts.owner != "target");
    let mut moved: Vec<(&String, &CounterPair)> = entry
        .counters
        .iter()
        .filter_map(|(name, counter)| Some((name, counter.value()?)))
        .filter(|(_, pair)| pair.moved)
        .collect();
    moved.sort_by(|(a_name, a), (b_name, b)| {
        foreign(a_name)
            .cmp(&foreign(b_name))
            .then(size(b).total_cmp(&size(a)))
            .then(a_name.cmp(b_name))
    });
    let parts: Vec<String> = moved
        .iter()
        .take(MOST)
        .map(|(name, pair)| {
            let unit = facts(name).map_or("", |facts| facts.unit.as_str());
            let owner = match facts(name).map(|facts| facts.owner.as_str()) {
                Some("cpus") => " of the CPU",
                Some("machine") => " of the machine",
                _ => "",
            };
            let scaled = match facts(name).and_then(|facts| facts.running_share) {
                Some(share) if share < 0.99 => {
                    format!(" [counted {:.0} % of the time]", share * 100.0)
                }
                _ => String::new(),
            };
            format!("{name}{owner} {}{scaled}", change(pair, unit))
        })
        .collect();
    let more = match moved.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", and {more} more in the file"),
    };
    (!parts.is_empty()).then(|| format!("{}{more}", parts.join(", ")))
}

/// How large a change is, on one scale for all counters.
fn size(pair: &CounterPair) -> f64 {
    match pair.ratio {
        Some(ratio) if ratio.value > 0.0 => ratio.value.ln().abs(),
        // From nothing to something.
        _ => f64::INFINITY,
    }
}

fn change(pair: &CounterPair, unit: &str) -> String {
    let interval = |show: &dyn Fn(f64) -> String, estimate: Estimate, unit: &str| {
        let [low, high] = estimate.ci95.map(show);
        format!("{}{unit} ({low} to {high})", show(estimate.value))
    };
    match (pair.ratio, pair.difference) {
        (Some(ratio), _) if (0.5..2.0).contains(&ratio.value) => {
            interval(&|ratio| signed((ratio - 1.0) * 100.0), ratio, " %")
        }
        (Some(ratio), _) => format!("×{}", interval(&text::number, ratio, "")),
        (None, Some(difference)) => interval(&signed, difference, &format!(" {unit}")),
        (None, None) => format!(
            "{} to {} {unit}",
            text::number(pair.control),
            text::number(pair.treat)
        ),
    }
}

/// Rounded to what a reader can use, with its sign.
fn signed(value: f64) -> String {
    let rounded = match value.abs() {
        size if size >= 10.0 => value.round(),
        _ => (value * 10.0).round() / 10.0,
    };
    let sign = match rounded {
        value if value > 0.0 => "+",
        value if value < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{}", text::number(rounded.abs()))
}

/// What could not be read, counters of the same reason together.
pub fn missing(profile: &Profile) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, facts) in &profile.conditions.counters {
        if let Some(reason) = facts.reason() {
            by_reason.entry(reason).or_default().push(name);
        }
    }
    for entry in profile.resources.values() {
        for (name, counter) in &entry.counters {
            let known = profile.conditions.counters.contains_key(name);
            if let Some(reason) = counter.reason().filter(|_| !known) {
                let names = by_reason.entry(reason).or_default();
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
    }
    // What most of them lack first.
    let mut groups: Vec<(&str, Vec<&str>)> = by_reason.into_iter().collect();
    groups.sort_by_number(|(_, names)| -(names.len() as f64));
    let lines = groups.iter().take(MOST_REASONS);
    let mut lines: Vec<String> = lines
        .map(|(reason, names)| format!("{}: {reason}", names.join(", ")))
        .collect();
    let rest = groups.iter().skip(MOST_REASONS);
    let rest: usize = rest.map(|(_, names)| names.len()).sum();
    if rest > 0 {
        lines.push(format!("{rest} more, with their reasons in the file"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_people_say_them() {
        let pair = |ratio: Option<[f64; 3]>, difference: Option<[f64; 3]>| CounterPair {
            control: 1.0,
            treat: 2.0,
            ratio: ratio.map(|[value, low, high]| Estimate {
                value,
                ci95: [low, high],
            }),
            difference: difference.map(|[value, low, high]| Estimate {
                value,
                ci95: [low, high],
            }),
            moved: true,
            pairs: 9,
        };
        let words = |pair: CounterPair| change(&pair, "per second");
        assert_eq!(
            words(pair(Some([0.78, 0.755, 0.81]), None)),
            "−22 % (−25 to −19)"
        );
        assert_eq!(
            words(pair(Some([3.1, 2.8, 3.4]), None)),
            "×3.1 (2.8 to 3.4)"
        );
        assert_eq!(
            words(pair(None, Some([120.3, -0.01, 140.0]))),
            "+120 per second (0 to +140)"
        );
        assert_eq!(words(pair(None, None)), "1 to 2 per second");
    }
}
