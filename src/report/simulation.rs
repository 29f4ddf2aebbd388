//! What policies made of a scenario, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_simulate::Figures;
use jostle_simulate::Mean;
use jostle_simulate::Summary;
use plotters::prelude::*;

const WIDTH: u32 = 720;
const HEIGHT: u32 = 480;

/// One row per policy, in the order given, and how to read it. `parallel` says
/// that runs disturbed each other's decision times.
pub fn page(scenario: &str, summaries: &[Summary], parallel: bool, style: Style) -> String {
    let mut page = String::new();
    if let Some(first) = summaries.first() {
        let seeds = seeds(&first.seeds);
        let jobs = first.mean.jobs + first.mean.never;
        page = format!("{}: {jobs:.0} jobs, {seeds}", text::clean(scenario));
        if one_admission(summaries) {
            page.push_str(&format!(", admission {}", first.admission));
        }
        page.push_str("\n\n");
    }
    page.push_str(&rows(summaries, style));
    page.push('\n');
    for (summary, name) in summaries.iter().zip(names(summaries)) {
        for note in notes(summary, &name) {
            page.push_str(&text::wrap("", &note, style.prose()));
        }
    }
    page.push_str(&text::wrap(
        "",
        "performance = time alone on the best platform / time it ran, 1 is best, the mean over jobs; \
         QoS kept = share of jobs whose performance is at least what their QoS asks for; lost = share \
         that lost more than so much; with waiting = performance where the time from arrival on \
         counts; queued = mean wait for a first place; CPUs = share that was asked for. ± is one standard error over seeds.",
        style.prose(),
    ));
    let times = match parallel {
        true => {
            "Decision times are real, and pessimistic here: runs shared the machine. --jobs 1 \
             runs one after the other."
        }
        false => "Decision times are real.",
    };
    page.push_str(&text::wrap("", times, style.prose()));
    page
}

fn one_admission(summaries: &[Summary]) -> bool {
    let mut pairs = summaries.windows(2);
    pairs.all(|pair| pair[0].admission == pair[1].admission)
}

/// Policies, with their admission where there are several.
fn names(summaries: &[Summary]) -> Vec<String> {
    let one = one_admission(summaries);
    let name = |summary: &Summary| match one || summary.admission == "none" {
        true => summary.policy.clone(),
        false => format!("{} + {}", summary.policy, summary.admission),
    };
    summaries.iter().map(name).collect()
}

/// As `seed 3`, or `seeds 1 to 10`.
pub(super) fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [seed] => format!("seed {seed}"),
        [first, .., last] => format!("seeds {first} to {last}"),
        [] => String::new(),
    }
}

/// With its standard error where there is one; a dash for what is not there.
pub(super) fn mean(value: Option<Mean>, digits: usize) -> String {
    match value {
        Some(Mean {
            mean,
            standard_error: Some(error),
            ..
        }) => format!("{mean:.digits$} ± {error:.digits$}"),
        Some(Mean { mean, .. }) => format!("{mean:.digits$}"),
        None => "–".into(),
    }
}

/// Without its error, where a table has no room for it.
pub(super) fn alone(value: Option<Mean>) -> Option<Mean> {
    value.map(|value| Mean {
        standard_error: None,
        ..value
    })
}

/// [`mean`] of a share, in percent.
pub(super) fn percent(value: Option<Mean>) -> String {
    let hundred = |it: Mean| Mean {
        mean: it.mean * 100.0,
        standard_error: it.standard_error.map(|error| error * 100.0),
        ..it
    };
    match value {
        Some(_) => format!("{} %", mean(value.map(hundred), 1)),
        None => mean(None, 1),
    }
}

fn rows(summaries: &[Summary], style: Style) -> String {
    let several = !one_admission(summaries);
    let titles = [
        "policy",
        "admission",
        "performance",
        "QoS kept",
        "lost >10/20 %",
        "with waiting",
        "CPUs",
        "makespan",
        "queued",
        "decision p50/p99",
    ];
    let shown = titles.into_iter();
    let shown = shown.filter(|title| several || *title != "admission");
    let rows = summaries.iter().map(|summary| {
        let (means, times) = (&summary.mean, &summary.decision_times);
        let (p50, p99) = (times.decision_p50_seconds, times.decision_p99_seconds);
        let over_seeds = |of: fn(&Figures) -> f64| {
            Some(Mean {
                mean: of(means),
                standard_error: summary.standard_error.as_ref().map(of),
                runs: summary.seeds.len(),
            })
        };
        let (over_10, over_20) = (means.lost_over_10 * 100.0, means.lost_over_20 * 100.0);
        let mut row = vec![summary.policy.clone()];
        row.extend(several.then(|| summary.admission.clone()));
        row.extend([
            mean(over_seeds(|figures| figures.mean_performance), 3),
            percent(over_seeds(|figures| figures.qos_share)),
            format!("{over_10:.1} / {over_20:.1}"),
            format!("{:.3}", means.mean_with_waiting),
            format!("{:.0} %", means.utilization * 100.0),
            seconds(means.makespan_seconds),
            seconds(means.queueing_mean_seconds),
            format!("{} / {}", brief(p50), brief(p99)),
        ]);
        row
    });
    table(style, shown, rows, &[0, 1, 2, 3])
}

fn notes(summary: &Summary, policy: &str) -> Vec<String> {
    let mean = &summary.mean;
    let mut notes = Vec::new();
    if mean.never > 0.0 {
        notes.push(format!(
            "{policy}: {:.1} jobs fit on no node even when empty, and did not run.",
            mean.never
        ));
    }
    for (count, what) in [
        (mean.restarts, "began anew because something broke"),
        (mean.migrations, "moves of running jobs"),
        (
            mean.conflicts,
            "commits that another agent had made impossible",
        ),
    ] {
        if count > 0.0 {
            notes.push(format!("{policy}: {count:.1} {what}."));
        }
    }
    notes
}

fn seconds(seconds: f64) -> String {
    match seconds {
        0.0..100.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.0} s"),
    }
}

fn brief(seconds: f64) -> String {
    match seconds {
        0.0..1e-6 => format!("{:.0} ns", seconds * 1e9),
        1e-6..1e-3 => format!("{:.1} µs", seconds * 1e6),
        _ => format!("{:.1} ms", seconds * 1e3),
    }
}

/// An SVG of performance (x) against the share of jobs that do not pass it (y),
/// one line per name; `None` when it could not be drawn.
pub fn cdf_plot(title: &str, lines: &[(String, &[[f64; 2]])]) -> Option<String> {
    let mut svg = String::new();
    draw(&mut svg, title, lines).ok()?;
    Some(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    lines: &[(String, &[[f64; 2]])],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .caption(title, ("sans-serif", 16))
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..1.02, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 228, 232))
        .x_desc("performance, 1 = alone on the best platform")
        .y_desc("share of jobs")
        .draw()?;
    for (index, (name, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).stroke_width(2);
        let points = points
            .iter()
            .map(|[performance, share]| (*performance, *share));
        chart
            .draw_series(LineSeries::new(points, colour))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(RGBColor(225, 228, 232))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_that_fit() {
        assert_eq!(brief(2.5e-7), "250 ns");
        assert_eq!(brief(1.25e-5), "12.5 µs");
        assert_eq!(brief(0.0305), "30.5 ms");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(1234.5), "1234 s");
    }

    #[test]
    fn a_mean_shows_its_error_or_that_it_is_not_there() {
        let several = Mean::of([0.5, 0.7]);
        assert_eq!(mean(several, 2), "0.60 ± 0.10");
        assert_eq!(percent(several), "60.0 ± 10.0 %");
        assert_eq!(percent(Mean::of([0.25])), "25.0 %");
        assert_eq!(percent(None), "–");
    }

    #[test]
    fn the_plot_has_a_line_and_a_name_for_each() {
        let points = [[0.5, 0.0], [0.9, 0.5], [1.0, 1.0]];
        let svg = cdf_plot(
            "two",
            &[("first".into(), &points), ("second".into(), &points)],
        )
        .unwrap();
        assert!(svg.starts_with("<svg"));
        assert!(svg.contains("first") && svg.contains("second"));
        assert!(
            svg.matches("<polyline").count() >= 4,
            "two lines, two legends"
        );
    }
}
