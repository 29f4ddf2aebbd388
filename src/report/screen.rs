//! A profile on one screen: what matters first, and a conclusion in words.

use super::conclusion;
use super::entries::Verdict;
use super::entries::by_sensitivity;
use super::entries::causes_without_a_score;
use super::entries::is_inferred;
use super::entries::is_measurable;
use super::entries::loss_percent;
use super::entries::used_percent;
use super::scaling;
use super::style::Style;
use super::style::columns_wide;
use super::text;
use super::together;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::reading::Reading;

/// After a verdict that rests on other applications.
const INFERRED: &str = " ~";

/// What is left out, from the first to the last, where the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    All,
    NoBars,
    NoIntervals,
}

/// Header, table, and conclusion of `profile`; 40 lines of 80 columns hold it.
pub fn profile_page(profile: &Profile, style: Style) -> String {
    let mut page = header(profile, style);
    page.push('\n');
    page += &rows(profile, style);
    page += &left_out(profile, style);
    // What only a flag asks for.
    for (title, lines) in [
        (
            "Two sources at once (95 % intervals)",
            together::lines(profile),
        ),
        (
            "Speed with more CPUs or copies, as a multiple of one (95 % intervals)",
            scaling::lines(profile),
        ),
    ] {
        page += &text::titled(title, &lines, style.prose());
    }
    page.push('\n');
    page += &text::wrap("", &conclusion::sentences(profile).join(" "), style.prose());
    page
}

fn header(profile: &Profile, style: Style) -> String {
    let name: String = text::clean(&profile.workload.name)
        .chars()
        .take(40)
        .collect();
    let [level, machine, how] = head(profile);
    let facts = [
        (name.as_str(), level),
        ("machine", machine),
        ("measured", how),
    ];
    let column = facts.iter().map(|(name, _)| name.chars().count() + 2).max();
    let column = column.unwrap_or(0).min(20);
    let facts = facts.map(|(name, value)| (name, Some(value)));
    text::facts("", column, facts, style.prose())
}

/// Its level without interference, its machine, and how it was measured.
pub(super) fn head(profile: &Profile) -> [String; 3] {
    let (metric, conditions) = (&profile.metric, &profile.conditions);
    let level = match &metric.baseline {
        Some(it) => format!(
            "{} {} without interference (±{} %)",
            text::number(it.value),
            metric.unit,
            text::number(100.0 * (it.ci95[1] - it.ci95[0]).abs() / 2.0 / it.value.abs())
        ),
        None => format!("baseline unknown, in {}", metric.unit),
    };
    let machine = &profile.machine;
    let cpus = format!(
        "{} CPUs{}",
        machine.cpus,
        if machine.smt { " with SMT" } else { "" }
    );
    let caches = machine
        .caches
        .iter()
        .filter(|it| !it.name.starts_with("L1"));
    let caches = caches.map(|it| format!("{} {}", it.name, text::bytes(it.size_bytes)));
    let hypervisor = machine.virtualized.as_ref().map(|it| format!("on {it}"));
    let mut parts = vec![machine.model.clone(), cpus];
    parts.extend(caches);
    parts.push(text::bytes(machine.memory_bytes));
    parts.extend(hypervisor);
    let mut how = vec![format!(
        "{} on {}",
        text::duration(conditions.duration_seconds),
        conditions
            .recorded_at
            .get(..10)
            .unwrap_or(&conditions.recorded_at)
    )];
    if let Some(noise) = conditions.noise_percent {
        how.push(format!("noise {} %", text::number(noise)));
    }
    if let Some(smallest) = conditions.smallest_detectable_percent {
        how.push(format!("sees losses above {} %", text::number(smallest)));
    }
    how.push(format!(
        "QoS kept above {} %",
        text::number(100.0 * profile.qos.threshold)
    ));
    if let Some(ceiling) = conditions.max_intensity_percent {
        how.push(format!("sources at most at {} %", text::number(ceiling)));
    }
    if profile.partial {
        how.push("cut short".into());
    }
    [level, parts.join(", "), how.join(", ")]
}

/// A row for each resource that was measured.
fn rows(profile: &Profile, style: Style) -> String {
    let entries: Vec<_> = by_sensitivity(profile)
        .into_iter()
        .filter(|(_, entry)| is_measurable(entry))
        .collect();
    if entries.is_empty() {
        return "No resource was measured.\n".into();
    }
    let [all, plain, short] = [Detail::All, Detail::NoBars, Detail::NoIntervals]
        .map(|detail| layout(profile, &entries, detail));
    let width = usize::from(style.width);
    let fits = |(lines, gap): &(&Vec<[String; 6]>, usize)| columns_wide(lines, *gap) <= width;
    let layouts = [(&all, 2), (&all, 1), (&plain, 2), (&plain, 1), (&short, 2)];
    let (best, gap) = layouts.into_iter().find(fits).unwrap_or((&short, 1));
    let colours = entries
        .iter()
        .map(|(_, entry)| Verdict::of(entry, profile).colour());
    style.columns(best, gap, std::iter::once(None).chain(colours))
}

/// The cells of the table, titles first.
fn layout(
    profile: &Profile,
    entries: &[(&String, &ResourceEntry)],
    detail: Detail,
) -> Vec<[String; 6]> {
    let titles = [
        "resource",
        "tolerates",
        "causes",
        "uses",
        "loss, %",
        "verdict",
    ];
    let mut lines = vec![titles.map(str::to_string)];
    let ceiling = profile.conditions.max_intensity_percent;
    for (id, entry) in entries {
        let tolerated = match entry.tolerated {
            None => "–".into(),
            Some(score) => {
                let open = score.ci95[1] >= 100.0 && ceiling == Some(score.score);
                let number = number(score, if open { "≥" } else { "" }, detail);
                match detail {
                    Detail::All => format!("{} {number}", text::short_bar(score.score)),
                    _ => number,
                }
            }
        };
        let unknown = causes_without_a_score(entry).unwrap_or("–");
        let caused = entry.caused.map_or(unknown.into(), |score| {
            let least = ceiling.is_some_and(|most| score.score >= 100.0 - most);
            let open = score.ci95[0] <= 0.0 && least;
            number(score, if open { "≤" } else { "" }, detail)
        });
        let mut verdict = Verdict::of(entry, profile).words().to_string();
        if is_inferred(entry) {
            verdict += INFERRED;
        }
        let used = used_percent(profile, id).map_or(String::new(), |it| format!("{it:.0}%"));
        lines.push([
            text::clean(id),
            tolerated,
            caused,
            used,
            loss(entry, detail),
            verdict,
        ]);
    }
    lines
}

/// A score, with its interval where that is wider than the number itself.
fn number(score: Score, sign: &str, detail: Detail) -> String {
    let [low, high] = score.ci95.map(|end| format!("{end:.0}"));
    let number = format!("{sign}{:.0}", score.score);
    match detail == Detail::NoIntervals || low == high {
        true => format!("{number:>3}"),
        false => format!("{number:>3} ({low}–{high})"),
    }
}

fn loss(entry: &ResourceEntry, detail: Detail) -> String {
    let Some(loss) = loss_percent(entry) else {
        return "–".into();
    };
    let at = match loss.intensity < 99.5 {
        true => format!(" at {:.0}", loss.intensity),
        false => String::new(),
    };
    let text = match (loss.is_shown, detail) {
        (false, _) => format!("≤ {}", text::short(loss.most)),
        (true, Detail::NoIntervals) => text::short(loss.value),
        (true, _) => {
            let [least, most] = [loss.least, loss.most].map(text::short);
            format!("{} ({least}–{most})", text::short(loss.value))
        }
    };
    (text + &at).replace('-', "−")
}

/// Resources without a row, in one sentence.
fn left_out(profile: &Profile, style: Style) -> String {
    let entries = by_sensitivity(profile).into_iter();
    let names: Vec<String> = entries
        .filter(|(_, entry)| !is_measurable(entry))
        .map(|(id, _)| text::clean(id))
        .collect();
    let mut page = String::new();
    if profile.resources.values().any(is_inferred) {
        let text = format!("{INFERRED}: in part inferred from other applications, not measured.");
        page += &text::wrap("", text.trim_start(), style.prose());
    }
    if !names.is_empty() {
        let text = format!("Not measured here: {}.", names.join(", "));
        page += &text::wrap("", &text, style.prose());
    }
    if let Some(floor) = &profile.conditions.floor {
        let end = match (floor.reached.is_some(), &floor.limit) {
            (_, Reading::Unavailable { unavailable }) => format!("not watched: {unavailable}"),
            (true, _) => "reached, so that the measurement ended".into(),
            (false, _) => "never reached".into(),
        };
        let text = format!("Floor {}: {end}.", floor.asked);
        page += &text::wrap("", &text, style.prose());
    }
    page
}
