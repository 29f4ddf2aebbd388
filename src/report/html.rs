//! A validation as one HTML file that needs nothing else.

use super::validation::grid;
use super::validation::group_text;
use crate::validate::Effect;
use crate::validate::Linearity;
use crate::validate::Size;
use crate::validate::Source;
use crate::validate::Validation;
use jostle_profile::reading::Reading;
use plotters::prelude::*;

const WIDTH: u32 = 300;
const HEIGHT: u32 = 240;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;\
padding:0 1rem;color:#1b1f24}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}\
.plots{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;width:300px}\
figcaption{font-size:.85rem}table{border-collapse:collapse;font-size:.8rem}\
th,td{padding:.25rem .45rem;text-align:right;border:1px solid #e3e6ea}\
th{font-weight:600;text-align:left;white-space:nowrap}thead th{writing-mode:vertical-rl;\
vertical-align:bottom;height:9rem}.scroll{overflow-x:auto}.own{color:#888}.missed{color:#a40000}\
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e6e6e6}\
td{color:#1b1f24}figure svg{background:#fff}}";

/// The page; every text in it is escaped.
pub fn validation(validation: &Validation) -> String {
    let machine = &validation.machine;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Jostle: validation of {model}</title><style>{STYLE}</style></head><body>\
         <h1>Are the sources of interference true?</h1>\
         <p>{model}, {cpus} CPUs, kernel {kernel}{virtualized}; measured {when} in {seconds:.0} s \
         by jostle {version}, seed {seed}. Victims ran on CPU {target}; sources that share it took \
         {share:.0} % in turns every {period:.2} ms.</p>\n",
        model = escaped(&machine.model),
        cpus = machine.cpus,
        kernel = escaped(&machine.kernel),
        virtualized = match &machine.virtualized {
            Some(by) => format!(", virtualized ({})", escaped(by)),
            None => String::new(),
        },
        when = escaped(&validation.recorded_at),
        seconds = validation.duration_seconds,
        version = escaped(&validation.tool_version),
        seed = validation.seed,
        target = validation.target_cpu,
        share = validation.slice_share_percent,
        period = validation.slice_period_seconds * 1e3,
    );
    page += &verdict(validation);
    page += "<h2>Achieved against requested, percent</h2><div class=\"plots\">\n";
    for source in &validation.sources {
        page += &figure(source);
    }
    page += "</div>\n<h2>What each source (row) costs each other (column), percent lost</h2>\n";
    page += &matrix(validation);
    page += &effects(validation);
    page += "</body></html>\n";
    page
}

fn verdict(validation: &Validation) -> String {
    match validation.failures().as_slice() {
        [] => "<p>Every bar holds.</p>\n".to_string(),
        failures => format!(
            "<h2>Bars missed</h2><ul class=\"missed\">{}</ul>\n",
            items(failures)
        ),
    }
}

fn items(texts: &[String]) -> String {
    let item = |text: &String| format!("<li>{}</li>", escaped(text));
    texts.iter().map(item).collect()
}

fn figure(source: &Source) -> String {
    let name = escaped(&source.resource);
    let mut figures = curve(&source.resource, &name, &source.linearity);
    if let Some(displaced) = &source.displaced {
        figures += &curve(&source.resource, &format!("{name}, displaced"), displaced);
    }
    figures
}

fn curve(resource: &str, name: &str, linearity: &Reading<Linearity>) -> String {
    match linearity {
        Reading::Value(linearity) => format!(
            "<figure>{}<figcaption><b>{name}</b>: R² {:.4}, worst {:.1} points at {:.0} %. Measured \
             by: {}.{}</figcaption></figure>\n",
            plot(resource, linearity),
            linearity.r_squared,
            linearity.worst_deviation_points,
            linearity.worst_at_percent,
            escaped(&linearity.measured_by),
            match &linearity.remark {
                Some(remark) => format!(" {}", escaped(remark)),
                None => String::new(),
            }
        ),
        Reading::Unavailable { unavailable } => format!(
            "<figure><figcaption><b>{name}</b>: not measured: {}</figcaption></figure>\n",
            escaped(unavailable)
        ),
    }
}

/// The line that was wished for, every repetition, and the medians.
fn plot(resource: &str, linearity: &Linearity) -> String {
    let mut svg = String::new();
    if draw(&mut svg, linearity).is_err() {
        return "<p>could not be drawn</p>".into();
    }
    svg.replacen(
        "<svg ",
        &format!(
            "<svg role=\"img\" aria-label=\"{} achieved against requested\" ",
            escaped(resource)
        ),
        1,
    )
}

fn draw(svg: &mut String, linearity: &Linearity) -> Result<(), Box<dyn std::error::Error>> {
    let highest = linearity
        .levels
        .iter()
        .flat_map(|level| level.achieved_percent.iter().copied())
        .fold(100.0, f64::max);
    let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(24)
        .y_label_area_size(34)
        .build_cartesian_2d(0.0..100.0, 0.0..highest * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 228, 232))
        .x_labels(5)
        .y_labels(5)
        .x_label_formatter(&|percent| format!("{percent:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .draw()?;
    let wished = RGBColor(150, 150, 150);
    chart.draw_series(LineSeries::new([(0.0, 0.0), (100.0, 100.0)], wished))?;
    let repetition = RGBColor(47, 111, 178).mix(0.45).filled();
    let points = linearity.levels.iter().flat_map(|level| {
        let at = level.intensity_percent;
        level.achieved_percent.iter().map(move |value| (at, *value))
    });
    chart.draw_series(points.map(|point| Circle::new(point, 3, repetition)))?;
    let medians = linearity
        .levels
        .iter()
        .map(|level| (level.intensity_percent, level.median_percent));
    chart.draw_series(LineSeries::new(
        medians,
        RGBColor(23, 78, 140).stroke_width(2),
    ))?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(())
}

fn matrix(validation: &Validation) -> String {
    let (victims, rows) = grid(validation);
    let mut table = String::from("<div class=\"scroll\"><table><thead><tr><th></th>");
    for victim in victims {
        table += &format!("<th scope=\"col\">{}</th>", escaped(victim));
    }
    table += "</tr></thead><tbody>\n";
    for (source, effects) in rows {
        table += &format!("<tr><th scope=\"row\">{}</th>", escaped(source));
        for effect in effects {
            table += &effect.map_or("<td>–</td>".to_string(), cell);
        }
        table += "</tr>\n";
    }
    table += "</tbody></table></div>\n";
    table += &format!(
        "<p>! surely {0} % or more, ? the 95 % interval holds {0} %, no mark surely less. Grey: a \
         source against itself. Hover for intervals.</p>\n",
        validation.bars.cross_talk_percent
    );
    table
}

fn cell(effect: &Effect) -> String {
    let loss = effect.loss_percent;
    let shade = (loss.abs() / 50.0).min(1.0);
    // From white to orange for losses, to blue for gains.
    let fade = |full: f64| (255.0 - shade * (255.0 - full)).round() as u8;
    let (red, green, blue) = match loss >= 0.0 {
        true => (fade(240.0), fade(130.0), fade(60.0)),
        false => (fade(90.0), fade(150.0), fade(240.0)),
    };
    let (class, mark) = match (effect.is_cross_talk(), effect.size) {
        (false, _) => (" class=\"own\"", ""),
        (true, Size::Small) => ("", ""),
        (true, Size::Large) => ("", " !"),
        (true, Size::Unresolved) => ("", " ?"),
    };
    format!(
        "<td{class} style=\"background:rgb({red},{green},{blue})\" title=\"{} on {}: {loss:.1} % \
         ({:.1} to {:.1}), {} pairs\">{:.0}{mark}</td>",
        escaped(&effect.source),
        escaped(&effect.victim),
        effect.ci95[0],
        effect.ci95[1],
        effect.blocks,
        loss.round() + 0.0
    )
}

fn effects(validation: &Validation) -> String {
    let large = validation.large_groups();
    if large.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = large.iter().map(|group| group_text(group)).collect();
    format!(
        "<h2>Effects on other resources, with the known mechanism</h2><ul>{}</ul>\n",
        items(&texts)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::super::validation::tests::example;
    use super::*;

    #[test]
    fn the_page_is_whole_and_nothing_in_it_is_markup_of_others() {
        let page = validation(&example());
        assert_eq!(page.matches("<svg").count(), 1, "one source was measured");
        assert!(page.contains("role=\"img\""));
        assert!(page.contains("no worker &amp; no hope"));
        assert!(
            page.contains(">12 !</td>") && page.contains(">-5 ?</td>"),
            "{page}"
        );
        for tag in [
            "html", "body", "figure", "table", "tr", "td", "ul", "li", "svg",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            let closed = page.matches(&format!("</{tag}>")).count();
            assert_eq!(opened, closed, "<{tag}>");
        }
    }
}
