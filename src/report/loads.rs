//! One service under several loads: what it tolerates at each.

use super::entries::Verdict;
use super::entries::by_sensitivity;
use super::entries::is_measurable;
use super::style::Colour;
use super::style::Style;
use super::style::heat_table;
use super::text;
use jostle_profile::Direction;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use std::cmp::Ordering;

/// A score below which a cell is marked as hot, and one up to which it is not cool.
const HOT: f64 = 33.0;
const WARM: f64 = 95.0;

/// A row for each resource, a column for each load, lowest first: the tolerated
/// intensity. Resources that are measurable under no load have no row.
pub fn loads_page(profiles: &[Profile], style: Style) -> String {
    let mut profiles: Vec<&Profile> = profiles.iter().collect();
    profiles.sort_by(|a, b| by_load(a, b));
    let Some(heaviest) = profiles.last() else {
        return "No profile.\n".into();
    };
    let mut page = text::wrap("", &head(&profiles), style.prose());
    page.push('\n');
    let mut titles = vec!["resource".to_string()];
    titles.extend(profiles.iter().map(|profile| load(profile)));
    // The heaviest load shows most; then what only others have.
    let mut ids: Vec<&String> = Vec::new();
    for profile in std::iter::once(heaviest).chain(&profiles) {
        for (id, entry) in by_sensitivity(profile) {
            if is_measurable(entry) && !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    let rows = ids.into_iter().map(|id| {
        let cells = profiles.iter().map(|profile| {
            let measured = profile.resources.get(id).filter(|it| is_measurable(it));
            measured.map_or_else(
                || ("not measured".to_string(), Some(Colour::Dim)),
                |entry| cell(entry, Verdict::of(entry, profile)),
            )
        });
        let name = (text::clean(id), None);
        std::iter::once(name).chain(cells).collect::<Vec<_>>()
    });
    page += &heat_table(style, &titles, rows);
    page.push('\n');
    page += &text::wrap(
        "",
        "Tolerated intensity, percent, with its 95 % interval where that is wider: 100 is \
         insensitive, low is sensitive, ? is open.",
        style.prose(),
    );
    page
}

/// What was measured, in a sentence.
fn head(profiles: &[&Profile]) -> String {
    let first = profiles[0];
    let better = match first.metric.direction {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
    };
    let capacity = profiles.iter().find_map(|profile| {
        let load = profile.metric.load.as_ref()?;
        Some((load.capacity_per_second?, load.slo.clone()?))
    });
    let of = capacity.map_or(String::new(), |(rate, slo)| {
        format!(
            "; loads are percent of {} requests/s, the most at {}",
            text::number(rate),
            text::clean(&slo)
        )
    });
    format!(
        "{}: what it tolerates by {} ({better} is better), kept above {} %{of}",
        text::clean(&first.workload.name),
        text::clean(&first.metric.name),
        text::number(100.0 * first.qos.threshold)
    )
}

/// Closed loops last: nothing is heavier.
fn by_load(a: &Profile, b: &Profile) -> Ordering {
    let rate = |profile: &Profile| {
        let load = profile.metric.load.as_ref();
        load.map_or(0.0, |load| load.rate_per_second.unwrap_or(f64::INFINITY))
    };
    rate(a).total_cmp(&rate(b))
}

fn load(profile: &Profile) -> String {
    let Some(load) = &profile.metric.load else {
        return "no load".into();
    };
    match (load.share_percent, load.rate_per_second) {
        (Some(share), _) => format!("{share:.0} %"),
        (None, Some(rate)) => format!("{}/s", text::number(rate)),
        (None, None) => "closed".into(),
    }
}

fn cell(entry: &ResourceEntry, verdict: Verdict) -> (String, Option<Colour>) {
    let Some(score) = entry.tolerated else {
        return match verdict {
            Verdict::Sensitive | Verdict::AtTheLine => {
                (verdict.words().into(), Some(Colour::Yellow))
            }
            _ => ("?".into(), Some(Colour::Dim)),
        };
    };
    let [low, high] = score.ci95.map(|end| format!("{end:.0}"));
    let open = if verdict == Verdict::Open { " ?" } else { "" };
    let text = match low == high {
        true => format!("{:.0}{open}", score.score),
        false => format!("{:.0} ({low}–{high}){open}", score.score),
    };
    let colour = match (verdict, score.score) {
        (Verdict::Open, _) => Colour::Dim,
        (_, score) if score < HOT => Colour::Red,
        (_, score) if score < WARM => Colour::Yellow,
        _ => Colour::Green,
    };
    (text, Some(colour))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::Status;

    fn of(score: f64, ci95: [f64; 2], sensitive: Option<bool>) -> ResourceEntry {
        let status = match sensitive {
            Some(_) => Status::Measured,
            None => Status::Unresolved,
        };
        ResourceEntry {
            tolerated: Some(jostle_profile::Score { score, ci95 }),
            sensitive,
            ..ResourceEntry::without_numbers(status, "")
        }
    }

    #[test]
    fn cells_say_how_much_and_how_sure() {
        let said = |entry: ResourceEntry| cell(&entry, Verdict::against(&entry, 0.95, None));
        let hot = said(of(12.0, [9.0, 15.0], Some(true)));
        assert_eq!(hot, ("12 (9–15)".into(), Some(Colour::Red)));
        let cool = said(of(100.0, [100.0, 100.0], Some(false)));
        assert_eq!(cool, ("100".into(), Some(Colour::Green)));
        let open = said(of(60.0, [20.0, 100.0], None));
        assert_eq!(open, ("60 (20–100) ?".into(), Some(Colour::Dim)));
        let mut begins_anywhere = of(0.0, [0.0, 0.0], Some(true));
        begins_anywhere.tolerated = None;
        assert_eq!(said(begins_anywhere).0, "sensitive");
    }
}
