//! How well predictions hold, as a person reads it, and drawn.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_schedule::evaluate::Case;
use jostle_schedule::evaluate::Evaluation;
use jostle_schedule::evaluate::Method;
use jostle_schedule::evaluate::Placement;
use jostle_schedule::evaluate::Scores;
use jostle_statistics::ByNumber;
use plotters::prelude::*;

const SIDE: u32 = 420;

/// The table of each placement, its worst predictions, and what was left out.
pub fn page(evaluation: &Evaluation, worst: usize, style: Style) -> String {
    let mut page = String::new();
    for placement in &evaluation.placements {
        page += &format!(
            "{}: {} measured performances\n\n{}\n",
            placement.placement,
            placement.cases.len(),
            methods(placement, style)
        );
        let cases = worst_first(&placement.cases);
        if worst > 0 && !cases.is_empty() {
            page += "worst predictions of the default\n\n";
            page += &worst_rows(&cases[..worst.min(cases.len())], style);
            page.push('\n');
        }
    }
    page += &text::wrap(
        "",
        "Errors are absolute differences between predicted and measured performance, in points of \
         the speed apart. Every group is predicted with nothing learned from its own applications. \
         * is the method of predict and schedule; below the line are baselines.",
        style.prose(),
    );
    if evaluation
        .placements
        .iter()
        .any(|one| one.repeated.is_some())
    {
        page += &text::wrap(
            "",
            "Measured again: how far the second measurement of a group is from the first. The \
             error of a prediction without any mistake would be about seven tenths of that. \
             Averaged: the default against the mean of all measurements of a group.",
            style.prose(),
        );
    }
    page += &text::titled("left out:", &evaluation.left_out, style.prose());
    page
}

fn methods(placement: &Placement, style: Style) -> String {
    let titles = [
        "method", "cases", "mean", "p50", "p90", "worst", "< 5", "< 10", "< 20", "rank", "in 95 %",
        "width",
    ];
    let number = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.1}"));
    let percent = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.0} %"));
    let named = |(method, scores): &(Method, Scores)| {
        let name = match (*method == Method::DEFAULT, method.is_baseline()) {
            (true, _) => format!("{} *", method.label()),
            (_, true) => format!("  {}", method.label()),
            _ => method.label().to_string(),
        };
        (name, *scores)
    };
    let repeated = [
        ("  measured again", placement.repeated),
        ("  averaged", placement.averaged),
    ];
    let repeated = repeated
        .into_iter()
        .filter_map(|(name, scores)| Some((name.to_string(), scores?)));
    let rows = placement.methods.iter().map(named).chain(repeated);
    let row = |(name, scores): (String, Scores)| {
        let of =
            |pick: fn(&jostle_schedule::evaluate::Errors) -> f64| scores.errors.as_ref().map(pick);
        [
            name,
            scores.cases.to_string(),
            number(of(|errors| errors.mean)),
            number(of(|errors| errors.p50)),
            number(of(|errors| errors.p90)),
            number(of(|errors| errors.worst)),
            percent(of(|errors| errors.below_5)),
            percent(of(|errors| errors.below_10)),
            percent(of(|errors| errors.below_20)),
            scores
                .rank_correlation
                .map_or("–".into(), |rank| format!("{rank:.2}")),
            percent(scores.covered_percent),
            number(scores.width),
        ]
    };
    let whole: Vec<usize> = (0..titles.len()).collect();
    table(style, titles, rows.map(row), &whole)
}

fn error(case: &Case) -> f64 {
    case.predicted[Method::DEFAULT.name()] - case.measured
}

fn worst_first(cases: &[Case]) -> Vec<&Case> {
    let mut cases: Vec<&Case> = cases.iter().collect();
    cases.sort_by_number(|it| -error(it).abs());
    cases
}

fn worst_rows(cases: &[&Case], style: Style) -> String {
    let titles = [
        "application",
        "beside",
        "measured",
        "predicted",
        "interval",
        "because",
    ];
    let percent = |value: f64| format!("{:.1}", value * 100.0);
    let range = |[low, high]: [f64; 2]| format!("{:.0} to {:.0}", low * 100.0, high * 100.0);
    let rows = cases.iter().map(|case| {
        let why: Vec<String> = case
            .why
            .iter()
            .map(|(resource, loss)| format!("{resource} −{loss:.1}"))
            .collect();
        [
            text::clean(&case.app),
            text::clean(&case.beside.join(", ")),
            format!("{} ({})", percent(case.measured), range(case.measured_ci95)),
            percent(case.predicted[Method::DEFAULT.name()]),
            range(case.ci95),
            match why.is_empty() {
                true => "nothing expected".into(),
                false => why.join(", "),
            },
        ]
    });
    table(style, titles, rows, &[0, 1, 2, 3, 4])
}

/// Predicted against measured: one square for each placement, a point for each
/// case, and the line on which they agree.
///
/// # Errors
/// What the drawing says.
pub fn scatter(evaluation: &Evaluation) -> Result<String, String> {
    let mut svg = String::new();
    let squares = evaluation.placements.len().max(1) as u32;
    {
        let area = SVGBackend::with_string(&mut svg, (SIDE * squares, SIDE)).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        let parts = area.split_evenly((1, squares as usize));
        for (placement, part) in evaluation.placements.iter().zip(parts) {
            square(placement, &part).map_err(said)?;
        }
        area.present().map_err(said)?;
    }
    Ok(svg)
}

fn said(error: impl std::fmt::Display) -> String {
    format!("cannot draw: {error}")
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn square(placement: &Placement, area: &Area) -> Result<(), String> {
    let points = |case: &Case| (case.measured, case.predicted[Method::DEFAULT.name()]);
    let most = placement.cases.iter().map(points).map(|(a, b)| a.max(b));
    let end = most.fold(1.0, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(placement.placement.name(), ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..end, 0.0..end)
        .map_err(said)?;
    chart
        .configure_mesh()
        .x_desc("measured")
        .y_desc("predicted")
        .light_line_style(WHITE)
        .draw()
        .map_err(said)?;
    let line = LineSeries::new([(0.0, 0.0), (end, end)], BLACK.mix(0.5));
    chart.draw_series(line).map_err(said)?;
    let dots = placement.cases.iter().map(|case| {
        let colour = RGBColor(0, 90, 160).mix(0.6);
        Circle::new(points(case), 3, colour.filled())
    });
    chart.draw_series(dots).map_err(said)?;
    Ok(())
}
