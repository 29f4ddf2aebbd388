//! Two machines beside each other, and one machine as a page.

use super::calibration::pressure;
use super::html::sheet;
use super::style::Style;
use super::style::table;
use super::text;
use jostle_host::machine::described::Described;
use jostle_host::machine::differences::Differences;
use jostle_host::machine::differences::PeakOf;
use jostle_profile::reading::Reading;
use jostle_statistics::ByNumber;

/// What differs, the largest difference in the conclusion.
pub fn differences_page(found: &Differences, style: Style) -> String {
    let [one, other] = found.names.each_ref().map(|name| text::clean(name));
    let mut page = text::wrap("", &conclusion(found), style.prose());
    page.push('\n');
    let names = [one, other];
    page += &rows(found, &names, style);
    page += &text::titled("note:", &found.notes, style.prose());
    page
}

fn conclusion(found: &Differences) -> String {
    let [one, other] = found.names.each_ref().map(|name| text::clean(name));
    if found.same_fingerprint {
        return format!(
            "{one} and {other} are one machine, or two of the same kind (equal fingerprints)."
        );
    }
    let known = || found.peaks.iter().filter(|it| it.change_percent.is_some());
    let apart: Vec<&PeakOf> = known().filter(|it| !it.alike).collect();
    if known().next().is_none() {
        return format!("{one} and {other}: no peak is known of both.");
    }
    let named = |more: bool| {
        let change = |it: &&PeakOf| it.change_percent.unwrap_or(0.0);
        let mut some: Vec<&PeakOf> = apart
            .iter()
            .copied()
            .filter(|it| (change(it) > 0.0) == more)
            .collect();
        some.sort_by_number(|it| -change(it).abs());
        let texts: Vec<String> = some
            .iter()
            .take(4)
            .map(|it| format!("{} ({})", it.resource, said(change(it))))
            .collect();
        match (texts.is_empty(), some.len().saturating_sub(4)) {
            (true, _) => "nothing".to_string(),
            (_, 0) => texts.join(", "),
            (_, rest) => format!("{} and {rest} more", texts.join(", ")),
        }
    };
    let alike = known().count() - apart.len();
    format!(
        "{other} has more of {}, and less of {}, than {one}; {alike} peaks are alike.",
        named(true),
        named(false)
    )
}

/// A change in percent; as a factor from twice as much on.
fn said(percent: f64) -> String {
    match percent {
        more if more >= 99.5 => format!("× {:.1}", 1.0 + more / 100.0),
        less if less < 0.0 => format!("−{:.0} %", -less),
        more => format!("+{more:.0} %"),
    }
}

fn rows(found: &Differences, names: &[String; 2], style: Style) -> String {
    let lines = cells(found);
    let mut lines_with_title = vec![[
        String::new(),
        names[0].clone(),
        names[1].clone(),
        "change".to_string(),
    ]];
    lines_with_title.extend(lines);
    let plain = style.columns(&lines_with_title, 2, std::iter::empty());
    let width = usize::from(style.width);
    match plain.lines().all(|line| line.chars().count() <= width) {
        true => plain,
        // Long models or reasons wrap.
        false => table(
            style,
            ["", "first", "second", "change"],
            lines_with_title.into_iter().skip(1),
            &[0, 3],
        ),
    }
}

/// Facts, sizes and peaks as texts.
fn cells(found: &Differences) -> Vec<[String; 4]> {
    let mut lines: Vec<[String; 4]> = Vec::new();
    for fact in &found.facts {
        let [one, other] = fact.values.each_ref().map(|value| match value {
            Reading::Value(value) => match (fact.name, value.parse::<u64>()) {
                ("memory_bytes", Ok(bytes)) => text::bytes(bytes),
                _ => text::clean(value),
            },
            Reading::Unavailable { .. } => "–".into(),
        });
        lines.push([
            fact.name.trim_end_matches("_bytes").into(),
            one,
            other,
            String::new(),
        ]);
    }
    for size in &found.sizes {
        let of = |at: usize| match (size.reported_bytes[at], size.measured_bytes[at]) {
            (None, None) => "–".to_string(),
            (Some(reported), None) => text::bytes(reported),
            (reported, Some(measured)) => format!(
                "{}, measured {}",
                reported.map_or("–".into(), text::bytes),
                text::bytes(measured)
            ),
        };
        lines.push([text::clean(&size.name), of(0), of(1), String::new()]);
    }
    for peak in &found.peaks {
        let of = |at: usize| match &peak.alone[at] {
            Reading::Value(value) => pressure(&peak.unit, *value),
            Reading::Unavailable { .. } => "–".into(),
        };
        let change = match (peak.change_percent, peak.alike) {
            (None, _) => "–".to_string(),
            (Some(_), true) => "alike".into(),
            (Some(change), false) => said(change),
        };
        lines.push([text::clean(&peak.resource), of(0), of(1), change]);
    }
    lines
}

/// A page of the differences.
pub fn differences_html(found: &Differences) -> String {
    let [one, other] = &found.names;
    let lead = sheet::paragraph("lead", &conclusion(found));
    let rows: Vec<Vec<String>> = cells(found).into_iter().map(Vec::from).collect();
    let mut body = sheet::figures(
        "Peaks are those of one source where it would run beside a target",
        &["what", one, other, "change"],
        &rows,
        1,
    );
    if !found.notes.is_empty() {
        body += &sheet::list(&found.notes);
    }
    sheet::document(&format!("{one} and {other}"), &lead, &body)
}

/// A page of one machine.
pub fn machine_html(machine: &Described) -> String {
    let shown = |reading: &Reading<String>| reading.value().cloned();
    let number = |reading: &Reading<u32>| reading.value().map(u32::to_string);
    let caches = machine.caches.iter().map(|(name, bytes, cpus)| match cpus {
        0 | 1 => format!("{name} {}", text::bytes(*bytes)),
        cpus => format!("{name} {} for {cpus} CPUs", text::bytes(*bytes)),
    });
    let caches: Vec<String> = caches.collect();
    let mut body = sheet::facts([
        ("CPUs", number(&machine.cpus)),
        (
            "SMT",
            machine
                .smt
                .value()
                .map(|it| if *it { "yes" } else { "no" }.into()),
        ),
        ("caches", Some(caches.join(", "))),
        (
            "memory",
            machine.memory_bytes.value().map(|it| text::bytes(*it)),
        ),
        ("kernel", shown(&machine.kernel)),
        ("hypervisor", shown(&machine.hypervisor)),
        ("fingerprint", Some(machine.fingerprint.clone())),
    ]);
    let lead = match &machine.calibration {
        Reading::Unavailable { unavailable } => format!("Not calibrated: {unavailable}."),
        Reading::Value(calibration) => {
            let rows: Vec<Vec<String>> = super::calibration::cells(calibration);
            body += &sheet::figures(
                "What the source of each resource reaches, and keeps beside a second copy at 25, 50, 75, 100 %",
                &super::calibration::TITLES,
                &rows,
                1,
            );
            let notes = super::calibration::missing(calibration);
            if !notes.is_empty() {
                body += &sheet::heading(2, "What is missing, and why");
                body += &sheet::list(&notes);
            }
            format!(
                "Calibrated {} in {} by jostle {}.",
                calibration.recorded_at,
                text::duration(calibration.duration_seconds),
                calibration.tool_version
            )
        }
    };
    sheet::document(&machine.model, &sheet::paragraph("lead", &lead), &body)
}
