//! The vector and the map of co-locations as SVG files of their own.

use super::colocation::Matrix;
use super::profile::Bar;
use super::profile::bars;
use super::sheet::escaped;
use crate::report::entries::by_sensitivity;
use crate::report::entries::is_measurable;
use jostle_profile::Profile;

/// Light and dark as the viewer prefers; colours as on the page.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1b1f24}.m{fill:#59626d}.g{fill:#fff}\
.k{fill:#eceff2}.w{stroke:#1b1f24;fill:none}.tolerated{fill:#2f74a8}.caused{fill:#80579b}\
.uses{fill:#4d8067}.loss{fill:#c8601a}.c{text-anchor:middle;font-size:11px}.e{text-anchor:end}\
.h{fill:#e07b28}@media(prefers-color-scheme:dark){text{fill:#e4e7ea}.m{fill:#a0a9b2}.g{fill:#14171a}\
.k{fill:#262b30}.w{stroke:#f2f4f6}.h{fill:#9c4716}}";

const ROW: f64 = 30.0;
const NAMES: f64 = 140.0;
const COLUMN: f64 = 150.0;
const TOP: f64 = 64.0;

fn document([width, height]: [f64; 2], title: &str, marks: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title><style>{STYLE}</style><rect class=\"g\" width=\"100%\" \
         height=\"100%\"/>{marks}</svg>\n"
    )
}

fn text(x: f64, y: f64, class: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"{class}\">{text}</text>")
}

/// Tolerated, caused, use and loss by resource, with intervals.
pub fn vector_svg(profile: &Profile) -> String {
    let entries = by_sensitivity(profile).into_iter();
    let entries: Vec<_> = entries.filter(|(_, it)| is_measurable(it)).collect();
    let titles = [
        "tolerates, 0–100",
        "causes, 0–100",
        "uses, %",
        "loss at full pressure, %",
    ];
    let mut marks = text(16.0, 28.0, "", &profile.workload.name);
    for (at, title) in titles.iter().enumerate() {
        marks += &text(NAMES + COLUMN * at as f64, 52.0, "m", title);
    }
    for (row, (id, entry)) in entries.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        marks += &text(16.0, y + 16.0, "", id);
        for (at, bar) in bars(profile, id, entry).iter().enumerate() {
            marks += &drawn(bar, NAMES + COLUMN * at as f64, y);
        }
    }
    let size = [
        NAMES + COLUMN * titles.len() as f64,
        TOP + ROW * entries.len() as f64 + 16.0,
    ];
    let title = format!("Sensitivity of {}", profile.workload.name);
    document(size, &title, &marks)
}

fn drawn(bar: &Bar, x: f64, y: f64) -> String {
    let width = COLUMN - 20.0;
    let along = |value: f64| value.clamp(0.0, 100.0) / 100.0 * width;
    if bar.text == "–" {
        return text(x, y + 14.0, "m", "–");
    }
    let mut marks = text(x, y + 14.0, "", &bar.text);
    marks += &text(x + width, y + 14.0, "m e", &bar.interval);
    let y = y + 18.0;
    marks +=
        &format!("<rect class=\"k\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"7\"/>");
    if let Some(value) = bar.value {
        marks += &format!(
            "<rect class=\"{}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"7\"/>",
            bar.kind,
            along(value)
        );
    }
    if let Some([low, high]) = bar.ends {
        marks += &format!(
            "<path class=\"w\" d=\"M{:.1} {:.1}H{:.1}\"/>",
            x + along(low),
            y + 3.5,
            x + along(high)
        );
    }
    marks
}

const CELL: f64 = 34.0;
const LABELS: f64 = 150.0;

/// Percent kept by the program of each row beside that of each column.
pub fn matrix_svg(matrix: &Matrix) -> String {
    let how = match matrix.shares_cpus {
        true => "time-sharing CPUs",
        false => "each with CPUs of its own",
    };
    let title = format!("Performance kept beside another program, {how}, %");
    let head = 44.0 + LABELS;
    let mut marks = text(16.0, 28.0, "", &title);
    for (at, name) in matrix.names.iter().enumerate() {
        let (x, y) = (LABELS + CELL * (at as f64 + 0.5), head - 8.0);
        let name = escaped(&cut(name));
        marks += &format!(
            "<text class=\"m\" transform=\"translate({x:.0} {y:.0}) rotate(-90)\">{name}</text>"
        );
    }
    for (row, cells) in matrix.kept.iter().enumerate() {
        let y = head + CELL * row as f64;
        marks += &text(16.0, y + CELL / 2.0 + 4.0, "", &cut(&matrix.names[row]));
        for (column, kept) in cells.iter().enumerate() {
            let x = LABELS + CELL * column as f64;
            let Some(kept) = kept else {
                marks += &text(x + CELL / 2.0, y + CELL / 2.0 + 4.0, "m c", "–");
                continue;
            };
            let shade = ((1.0 - kept.performance) / 0.6).clamp(0.0, 1.0);
            let side = CELL - 1.0;
            marks += &format!(
                "<rect class=\"k\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{side}\" height=\"{side}\"/>\
                 <rect class=\"h\" fill-opacity=\"{shade:.2}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{side}\" height=\"{side}\"/>"
            );
            let percent = format!("{:.0}", kept.performance * 100.0);
            marks += &text(x + CELL / 2.0, y + CELL / 2.0 + 4.0, "c", &percent);
        }
    }
    let count = matrix.names.len() as f64;
    let size = [
        (LABELS + CELL * count + 16.0).max(420.0),
        head + CELL * count + 16.0,
    ];
    document(size, &title, &marks)
}

/// A name that fits beside its row.
fn cut(name: &str) -> String {
    const MOST: usize = 20;
    match name.chars().count() > MOST {
        true => name.chars().take(MOST - 1).chain(['…']).collect(),
        false => name.into(),
    }
}
