//! A validation as a person reads it.

use super::style::Style;
use super::style::trimmed;
use super::style::whole_words;
use super::text;
use crate::machine::format_bytes;
use crate::reading::Reading;
use crate::validate::Effect;
use crate::validate::Linearity;
use crate::validate::Size;
use crate::validate::Source;
use crate::validate::Status;
use crate::validate::Strength;
use crate::validate::Validation;

/// The whole report: sources, the matrix, what stands out, what misses a bar.
pub fn page(validation: &Validation, style: Style) -> String {
    let mut page = head(validation, style);
    page += "\nEach source by itself\n\n";
    page += &sources(validation, style);
    page += &remarks(validation, style);
    page +=
        "\nWhat each source (row) costs each other (column), percent of its performance lost\n\n";
    page += &matrix(validation, style);
    page += &standing_out(validation, style);
    page += &verdict(validation, style);
    page
}

fn head(validation: &Validation, style: Style) -> String {
    let machine = &validation.machine;
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        page += &text::wrap(&format!("{name:<10}"), &text::clean(&value), style.prose());
    };
    line(
        "machine",
        format!(
            "{}, {} CPUs, kernel {}{}",
            machine.model,
            machine.cpus,
            machine.kernel,
            match &machine.virtualized {
                Some(by) => format!(", virtualized ({by})"),
                None => String::new(),
            }
        ),
    );
    line(
        "measured",
        format!(
            "{}, in {:.1} s, by jostle {}, seed {}{}",
            validation.recorded_at,
            validation.duration_seconds,
            validation.tool_version,
            validation.seed,
            match validation.quick {
                true => "; --quick: few levels, short windows",
                false => "",
            }
        ),
    );
    line(
        "victims",
        format!(
            "on CPU {}; sources that share it take {:.0} % in turns every {:.2} ms",
            validation.target_cpu,
            validation.slice_share_percent,
            validation.slice_period_seconds * 1e3
        ),
    );
    page
}

fn sources(validation: &Validation, style: Style) -> String {
    let mut table = style.table();
    table.set_header(
        [
            "source",
            "beside a target",
            "R²",
            "worst point",
            "repeats",
            "100 % is",
            "reached",
        ]
        .map(|title| style.heading(title)),
    );
    for source in &validation.sources {
        table.add_row(row(source));
    }
    whole_words(&mut table, &[0]);
    trimmed(&table)
}

fn row(source: &Source) -> Vec<String> {
    let place = match (&source.placement, source.status) {
        (Some(placement), _) => format!(
            "{} ({})",
            text::mode(placement.mode),
            crate::sys::cpus::format_list(&placement.cpus)
        ),
        (None, Status::NotShared) => "not shared".to_string(),
        (None, _) => "unavailable".to_string(),
    };
    let mut cells = vec![source.resource.clone(), place];
    cells.extend(match &source.linearity {
        Reading::Value(linearity) => linear_cells(linearity),
        Reading::Unavailable { .. } => ["–"; 3].map(str::to_string).to_vec(),
    });
    cells.extend(match &source.strength {
        Reading::Value(strength) => {
            vec![full_scale(strength), format!("{:.1} %", strength.percent)]
        }
        Reading::Unavailable { .. } => ["–"; 2].map(str::to_string).to_vec(),
    });
    cells
}

fn linear_cells(linearity: &Linearity) -> Vec<String> {
    vec![
        format!("{:.4}", linearity.r_squared),
        format!(
            "{:.1} at {:.0} %",
            linearity.worst_deviation_points, linearity.worst_at_percent
        ),
        format!("±{:.1}", linearity.repeat_spread_points / 2.0),
    ]
}

fn full_scale(strength: &Strength) -> String {
    let value = strength.full_scale;
    match strength.unit.as_str() {
        "bytes" => format_bytes(value as u64),
        "bytes_per_second" => format!("{}/s", format_bytes(value as u64)),
        "percent_of_cpu" => format!("{value:.0} % of the CPU"),
        "entries" => format!("{value:.0} entries"),
        _ => format!("{:.3} G/s", value / 1e9),
    }
}

/// Why there is no number, and what is known of bad ones.
fn remarks(validation: &Validation, style: Style) -> String {
    let mut lines = Vec::new();
    for source in &validation.sources {
        let name = &source.resource;
        match (&source.reason, &source.linearity) {
            (Some(reason), Reading::Unavailable { unavailable }) if reason == unavailable => {
                lines.push(format!("{name}: {reason}"));
            }
            (reason, linearity) => {
                lines.extend(
                    reason
                        .iter()
                        .map(|reason| format!("{name}: beside a target: {reason}")),
                );
                let why = linearity.reason();
                lines.extend(why.map(|reason| format!("{name}: {reason}")));
            }
        }
        let remark = source
            .linearity
            .value()
            .and_then(|line| line.remark.as_ref());
        lines.extend(remark.map(|remark| format!("{name}: {remark}")));
    }
    list("", &lines, style)
}

fn list(title: &str, lines: &[String], style: Style) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut page = format!("\n{title}");
    if !title.is_empty() {
        page.push('\n');
    }
    for line in lines {
        page += &text::wrap("  - ", &text::clean(line), style.prose());
    }
    page
}

fn matrix(validation: &Validation, style: Style) -> String {
    let mut victims: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for effect in &validation.effects {
        for (list, name) in [(&mut victims, &effect.victim), (&mut rows, &effect.source)] {
            if !list.contains(&name.as_str()) {
                list.push(name);
            }
        }
    }
    let widest = rows.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut page = format!("{:widest$}", "");
    for column in 1..=victims.len() {
        page += &format!(" {column:>6}");
    }
    page.push('\n');
    for source in rows {
        page += &format!("{source:widest$}");
        for victim in &victims {
            let found = validation
                .effects
                .iter()
                .find(|effect| effect.source == source && effect.victim == *victim);
            page += &format!(" {:>6}", found.map_or("–".to_string(), cell));
        }
        page.push('\n');
    }
    page.push('\n');
    let names: Vec<String> = victims
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{} {name}", index + 1))
        .collect();
    page += &text::wrap("", &format!("columns: {}", names.join(", ")), style.prose());
    page += &text::wrap(
        "",
        &format!(
            "A bare number is surely below {0} %; with ! it is surely {0} % or more; with ? its 95 % \
             interval holds {0} %. [n] is a source against itself.",
            validation.bars.cross_talk_percent
        ),
        style.prose(),
    );
    page
}

fn cell(effect: &Effect) -> String {
    // A zero has no sign.
    let loss = effect.loss_percent.round() + 0.0;
    if !effect.is_cross_talk() {
        return format!("[{loss:.0}]");
    }
    let mark = match effect.size {
        Size::Small => "",
        Size::Large => "!",
        Size::Unresolved => "?",
    };
    format!("{loss:.0}{mark}")
}

fn standing_out(validation: &Validation, style: Style) -> String {
    let lines: Vec<String> = validation
        .large_effects()
        .into_iter()
        .map(|effect| {
            format!(
                "{} costs {} {:.1} % ({:.1} to {:.1}, {} pairs): {}",
                effect.source,
                effect.victim,
                effect.loss_percent,
                effect.ci95[0],
                effect.ci95[1],
                effect.pairs,
                effect.explanation.as_deref().unwrap_or("UNEXPLAINED")
            )
        })
        .collect();
    let title = format!(
        "Effects on other resources of surely {} % or more, with the known mechanism",
        validation.bars.cross_talk_percent
    );
    list(&title, &lines, style)
}

fn verdict(validation: &Validation, style: Style) -> String {
    let cross: Vec<&Effect> = validation
        .effects
        .iter()
        .filter(|effect| effect.is_cross_talk())
        .collect();
    let count = |size| cross.iter().filter(|effect| effect.size == size).count();
    let mut page = String::from("\n");
    page += &text::wrap(
        "",
        &format!(
            "Of {} effects on other resources {} are surely below {} %, {} surely not, {} unresolved.",
            cross.len(),
            count(Size::Small),
            validation.bars.cross_talk_percent,
            count(Size::Large),
            count(Size::Unresolved)
        ),
        style.prose(),
    );
    let failures = validation.failures();
    page += &match failures.is_empty() {
        true => "Every bar holds.\n".to_string(),
        false => list("Bars missed", &failures, style),
    };
    page
}
