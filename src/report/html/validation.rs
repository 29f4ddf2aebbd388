//! A validation of the sources of interference.

use super::heat;
use super::heat::Cell;
use super::heat::Row;
use super::plot::Plot;
use super::sheet;
use super::sheet::escaped;
use crate::report::validation::grid;
use crate::report::validation::group_text;
use crate::report::validation::head_facts;
use jostle_measure::validate::Effect;
use jostle_measure::validate::Linearity;
use jostle_measure::validate::Size;
use jostle_measure::validate::Source;
use jostle_measure::validate::Validation;
use jostle_profile::reading::Reading;

/// Loss at which a cell is shaded fully, percent.
const FULL_SHADE: f64 = 50.0;

/// The conclusion, curves and matrix, without a heading of its own.
pub fn content(validation: &Validation, level: u8) -> String {
    let mut page = verdict(validation);
    page += &sheet::facts(head_facts(validation));
    page += &sheet::heading(level, "Achieved against requested intensity, %");
    page += "<div class=\"grid\">\n";
    page.extend(validation.sources.iter().map(figure));
    page += "</div>\n";
    page += &matrix(validation, level);
    page + &effects(validation, level)
}

fn verdict(validation: &Validation) -> String {
    match validation.failures().as_slice() {
        [] => sheet::paragraph("lead", "All checks passed."),
        failures => {
            let title = match failures.len() {
                1 => "One check failed:".to_string(),
                count => format!("{count} checks failed:"),
            };
            sheet::paragraph("lead", &title) + &sheet::list(failures)
        }
    }
}

fn figure(source: &Source) -> String {
    let mut figures = curve(&source.resource, &source.linearity);
    if let Some(displaced) = &source.displaced {
        figures += &curve(&format!("{}, displaced", source.resource), displaced);
    }
    figures
}

fn curve(name: &str, linearity: &Reading<Linearity>) -> String {
    let (plot, words) = match linearity {
        Reading::Value(linearity) => (plot(name, linearity), words(linearity)),
        Reading::Unavailable { unavailable } => {
            (String::new(), format!("not measured: {unavailable}"))
        }
    };
    format!(
        "<figure>{plot}<figcaption><b>{}</b>: {}</figcaption></figure>\n",
        escaped(name),
        escaped(&words)
    )
}

fn words(linearity: &Linearity) -> String {
    let mut words = format!(
        "R² {:.4}, worst {:.1} points at {:.0} %. Measured by: {}.",
        linearity.r_squared,
        linearity.worst_deviation_points,
        linearity.worst_at_percent,
        linearity.measured_by
    );
    if let Some(remark) = &linearity.remark {
        words += &format!(" {remark}");
    }
    words
}

/// What was requested, every repetition, and the medians.
fn plot(name: &str, linearity: &Linearity) -> String {
    let levels = &linearity.levels;
    let achieved = levels.iter().flat_map(|level| &level.achieved_percent);
    let highest = achieved.fold(100.0f64, |most, it| most.max(*it));
    let mut plot = Plot::new([240.0, 170.0], [0.0, 100.0], [0.0, highest * 1.05]);
    plot.line("wish", [[0.0, 0.0], [100.0, 100.0]]);
    for level in levels {
        for achieved in &level.achieved_percent {
            plot.dot([level.intensity_percent, *achieved]);
        }
    }
    let medians = levels.iter();
    plot.line(
        "mid",
        medians.map(|it| [it.intensity_percent, it.median_percent]),
    );
    plot.svg(&format!("{name}: achieved against requested intensity"))
}

fn matrix(validation: &Validation, level: u8) -> String {
    let (victims, rows) = grid(validation);
    if rows.is_empty() {
        return String::new();
    }
    let victims: Vec<String> = victims.into_iter().map(String::from).collect();
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(source, effects)| Row {
            name: source.to_string(),
            link: None,
            cells: effects.into_iter().map(cell).collect(),
        })
        .collect();
    let bar = validation.bars.cross_talk_percent;
    let map = heat::map(
        "Performance that each source (row) costs the demo of each resource (column), %",
        &victims,
        &rows,
        &format!(
            "! is certainly {bar} % or more, ? has an interval that includes {bar} %. Dashed: a \
             source on its own resource. Point at a cell, or walk with the arrow keys."
        ),
    );
    sheet::heading(level, "Effect of each source on each resource") + &map
}

fn cell(effect: Option<&Effect>) -> Cell {
    let Some(effect) = effect else {
        return Cell {
            text: "–".into(),
            words: "not measured".into(),
            shade: None,
            mark: "",
        };
    };
    let loss = effect.loss_percent;
    let (own, mark) = match (effect.is_cross_talk(), effect.size) {
        (false, _) => ("own", ""),
        (true, Size::Small) => ("", ""),
        (true, Size::Large) => ("", " !"),
        (true, Size::Unresolved) => ("", " ?"),
    };
    Cell {
        text: format!("{:.0}{mark}", loss.round() + 0.0).replace('-', "−"),
        words: format!(
            "{loss:.1} % ({:.1} to {:.1}), {} blocks",
            effect.ci95[0], effect.ci95[1], effect.blocks
        ),
        shade: Some(loss / FULL_SHADE),
        mark: own,
    }
}

fn effects(validation: &Validation, level: u8) -> String {
    let large = validation.large_groups();
    if large.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = large.iter().map(|group| group_text(group)).collect();
    let title = "Effects on other resources, with the known mechanism";
    sheet::heading(level, title) + &sheet::list(&texts)
}
