//! One profile: its conclusion, its vector, and on demand all else.

use super::plot::Plot;
use super::sheet;
use super::sheet::escaped;
use crate::report::conclusion;
use crate::report::entries::Verdict;
use crate::report::entries::by_sensitivity;
use crate::report::entries::causes_without_a_score;
use crate::report::entries::is_inferred;
use crate::report::entries::is_measurable;
use crate::report::entries::loss_percent;
use crate::report::entries::used_percent;
use crate::report::screen;
use crate::report::table;
use crate::report::text;
use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_statistics::ByNumber;

/// The section of `profile`; `id` is where links lead to.
pub fn section(profile: &Profile, id: &str) -> String {
    let name = escaped(&profile.workload.name);
    let mut page = format!(
        "<article id=\"{id}\" data-name=\"{name}\" aria-labelledby=\"{id}-name\">\
         <h2 id=\"{id}-name\">{name}</h2>\n"
    );
    page += &content(profile);
    page += "</article>\n";
    page
}

/// The same without a heading of its own.
pub fn content(profile: &Profile) -> String {
    let mut page = sheet::paragraph("lead", &conclusion::sentences(profile).join(" "));
    let [level, machine, how] = screen::head(profile);
    page += &sheet::facts([
        ("performance", Some(level)),
        ("machine", Some(machine)),
        ("measured", Some(how)),
    ]);
    page += &vector(profile);
    page += &left_out(profile);
    page += &curves(profile);
    for section in table::sections(profile) {
        let count = match section.lines.len() {
            1 => String::new(),
            count => format!("({count})"),
        };
        let title = match section.title {
            table::DOUBTS => "Warnings",
            title => title,
        };
        page += &sheet::details(title, &count, &sheet::list(&section.lines));
    }
    let conditions = sheet::facts(table::facts(profile));
    page + &sheet::details("Conditions", "", &conditions)
}

/// A row for each resource that was measured: numbers, and a bar for each of them.
fn vector(profile: &Profile) -> String {
    let entries = by_sensitivity(profile).into_iter();
    let entries: Vec<_> = entries.filter(|(_, it)| is_measurable(it)).collect();
    if entries.is_empty() {
        return sheet::paragraph("", "No resource was measured.");
    }
    let mut page = String::from(
        "<table class=\"vector\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">",
    );
    for title in TITLES {
        page += &format!("<th role=\"columnheader\" scope=\"col\">{title}</th>");
    }
    page += "</tr></thead><tbody role=\"rowgroup\">\n";
    for (id, entry) in entries {
        page += &row(profile, id, entry);
    }
    page + "</tbody></table>\n"
}

const TITLES: [&str; 6] = [
    "resource",
    "tolerates, 0–100",
    "causes, 0–100",
    "uses, %",
    "loss at full pressure, %",
    "verdict",
];

fn row(profile: &Profile, id: &str, entry: &ResourceEntry) -> String {
    let bars = bars(profile, id, entry);
    let cells: String = bars.iter().map(cell).collect();
    let verdict = Verdict::of(entry, profile);
    let inferred = if is_inferred(entry) {
        " (inferred)"
    } else {
        ""
    };
    format!(
        "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>{cells}<td role=\"cell\">\
         <span class=\"v {}\">{}{inferred}</span></td></tr>\n",
        escaped(id),
        class(verdict),
        verdict.words(),
    )
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Sensitive => "sensitive",
        Verdict::Insensitive | Verdict::NoneSeen => "insensitive",
        Verdict::Open => "open",
        Verdict::AtTheLine => "",
    }
}

/// One number of the vector, 0–100, and what is known of it.
pub struct Bar {
    /// Class of its colour.
    pub kind: &'static str,
    pub label: &'static str,
    /// `None` where there is no number.
    pub value: Option<f64>,
    pub ends: Option<[f64; 2]>,
    pub text: String,
    pub interval: String,
}

/// The four of one resource.
pub fn bars(profile: &Profile, id: &str, entry: &ResourceEntry) -> [Bar; 4] {
    let ceiling = profile.conditions.max_intensity_percent;
    let score = |kind,
                 label,
                 score: Option<Score>,
                 unknown: &str,
                 sign: fn(Score, Option<f64>) -> &'static str| {
        let interval = score.map(|it| (it, it.ci95.map(|end| format!("{end:.0}"))));
        Bar {
            kind,
            label,
            value: score.map(|it| it.score),
            ends: score.map(|it| it.ci95),
            text: score.map_or(unknown.into(), |it| {
                format!("{}{:.0}", sign(it, ceiling), it.score)
            }),
            interval: match interval {
                Some((_, [low, high])) if low != high => format!("{low}–{high}"),
                _ => String::new(),
            },
        }
    };
    let used = used_percent(profile, id);
    let loss = loss_percent(entry);
    let shown = loss.filter(|it| it.is_shown);
    let at = loss.filter(|it| it.intensity < 99.5);
    let at = at.map_or(String::new(), |it| format!(" at {:.0}", it.intensity));
    [
        score(
            "tolerated",
            "tolerates",
            entry.tolerated,
            "–",
            |it, ceiling| match it.ci95[1] >= 100.0 && ceiling == Some(it.score) {
                true => "≥ ",
                false => "",
            },
        ),
        score(
            "caused",
            "causes",
            entry.caused,
            causes_without_a_score(entry).unwrap_or("–"),
            |it, ceiling| match it.ci95[0] <= 0.0
                && ceiling.is_some_and(|most| it.score >= 100.0 - most)
            {
                true => "≤ ",
                false => "",
            },
        ),
        Bar {
            kind: "uses",
            label: "uses",
            value: used,
            ends: None,
            text: used.map_or("–".into(), |it| format!("{it:.0}")),
            interval: String::new(),
        },
        Bar {
            kind: "loss",
            label: "loss",
            value: shown.map(|it| it.value),
            ends: loss.map(|it| [it.least, it.most]),
            text: match (loss, shown) {
                (None, _) => "–".into(),
                (_, Some(it)) => minus(text::short(it.value)),
                (Some(it), None) => format!("≤ {}", text::short(it.most)),
            },
            interval: match shown {
                Some(it) => {
                    let [least, most] = [it.least, it.most].map(text::short);
                    minus(format!("{least}–{most}{at}"))
                }
                None => at.trim_start().to_string(),
            },
        },
    ]
}

/// With the sign for less than nothing that numbers have in print.
fn minus(text: String) -> String {
    text.replace('-', "−")
}

fn cell(bar: &Bar) -> String {
    let label = bar.label;
    if bar.text == "–" {
        return format!("<td role=\"cell\" class=\"empty\" data-l=\"{label}\">–</td>");
    }
    let interval = match bar.interval.as_str() {
        "" => String::new(),
        interval => format!("<small>{}</small>", escaped(interval)),
    };
    format!(
        "<td role=\"cell\" data-l=\"{label}\"><span class=\"n\"><span>{}</span>{interval}</span>{}</td>",
        escaped(&bar.text),
        drawn(bar)
    )
}

/// The bar beside its number: nothing that the number does not say.
fn drawn(bar: &Bar) -> String {
    let held = |value: f64| value.clamp(0.0, 100.0);
    let mut marks = String::new();
    if let Some(value) = bar.value {
        marks += &format!("<rect width=\"{:.1}\" height=\"8\"/>", held(value));
    }
    if let Some([low, high]) = bar
        .ends
        .map(|ends| ends.map(held))
        .filter(|it| it[1] - it[0] > 0.5)
    {
        marks += &format!("<path d=\"M{low:.1} 4H{high:.1}\"/>");
    }
    format!(
        "<svg class=\"b {}\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{marks}</svg>",
        bar.kind
    )
}

fn left_out(profile: &Profile) -> String {
    let entries = by_sensitivity(profile).into_iter();
    let names: Vec<String> = entries
        .filter(|(_, entry)| !is_measurable(entry))
        .map(|(id, _)| text::clean(id))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => sheet::paragraph(
            "muted small",
            &format!("Not measured here: {}.", names.join(", ")),
        ),
    }
}

/// A small plot for each resource with a curve.
fn curves(profile: &Profile) -> String {
    let entries = by_sensitivity(profile).into_iter();
    let entries: Vec<_> = entries.filter(|(_, it)| !it.curve.is_empty()).collect();
    if entries.is_empty() {
        return String::new();
    }
    let mut markup = format!(
        "<p class=\"legend\"><span><span class=\"key\"></span>performance of the program, % of \
         without interference</span><span><span class=\"key probe\"></span>performance of the source \
         beside it</span><span><span class=\"key qos\"></span>QoS, {:.0} %</span>\
         <span>across: intensity, %</span></p><div class=\"grid\">\n",
        profile.qos.threshold * 100.0
    );
    for (id, entry) in &entries {
        markup += &curve(id, entry, profile.qos.threshold);
    }
    markup += "</div>";
    sheet::details("Curves", &format!("({})", entries.len()), &markup)
}

fn curve(id: &str, entry: &ResourceEntry, qos: f64) -> String {
    let percent = |points: &[CurvePoint]| -> Vec<[f64; 2]> {
        let mut points: Vec<[f64; 2]> = points
            .iter()
            .map(|point| [point.intensity, point.performance * 100.0])
            .collect();
        points.sort_by_number(|it| it[0]);
        // Without pressure it is the baseline, by definition.
        if points.first().is_none_or(|first| first[0] > 0.0) {
            points.insert(0, [0.0, 100.0]);
        }
        points
    };
    let (own, probe) = (percent(&entry.curve), percent(&entry.probe_curve));
    let most = own.iter().chain(&probe).map(|point| point[1]);
    let most = most.fold(100.0, f64::max);
    let mut plot = Plot::new(
        [240.0, 132.0],
        [0.0, 100.0],
        [0.0, (most + 5.0).clamp(110.0, 200.0)],
    );
    plot.line("qos", [[0.0, qos * 100.0], [100.0, qos * 100.0]]);
    if !entry.probe_curve.is_empty() {
        plot.line("probe", probe);
    }
    for point in &entry.curve {
        plot.interval(point.intensity, point.ci95.map(|end| end * 100.0));
    }
    plot.line("line", own);
    let points: Vec<String> = entry
        .curve
        .iter()
        .map(|point| {
            let [low, high] = point.ci95.map(|end| end * 100.0);
            let kept = point.performance * 100.0;
            format!(
                "{kept:.0} % ({low:.0} to {high:.0}) at {:.0}",
                point.intensity
            )
        })
        .collect();
    let words = format!("{id}: performance {}", points.join(", "));
    format!(
        "<figure>{}<figcaption><b>{}</b></figcaption></figure>\n",
        plot.svg(&words),
        escaped(id)
    )
}
