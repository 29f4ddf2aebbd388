//! What calibration found, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_host::machine::calibration::Calibration;
use jostle_host::machine::calibration::Peak;
use jostle_host::machine::calibration::Size;
use jostle_host::machine::calibration::Source;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;

const LABEL_WIDTH: usize = 13;

/// Sizes, length of turns, one row per source, and every reason why something
/// is missing. Begins where `jostle machine`'s lines end.
pub fn calibration_text(calibration: &Reading<&Calibration>, style: Style) -> String {
    let calibration = match calibration {
        Reading::Value(calibration) => *calibration,
        Reading::Unavailable { unavailable } => {
            return line("Calibrated", &format!("no: {unavailable}"));
        }
    };
    let mut page = line(
        "Calibrated",
        &format!(
            "{}, in {}, by jostle {}",
            calibration.recorded_at,
            text::duration(calibration.duration_seconds),
            calibration.tool_version
        ),
    );
    for (index, known) in calibration.sizes.iter().enumerate() {
        page += &line(if index == 0 { "Sizes" } else { "" }, &size(known));
    }
    page += &line(
        "Slices",
        &match &calibration.slices {
            Reading::Value(slices) => format!(
                "{} ms: beside a placebo that takes {} % of the CPU a spinning thread keeps {} %{}",
                text::number(slices.period_seconds * 1e3),
                text::number(slices.share_percent),
                text::number(slices.victim_percent),
                match slices.within_tolerance {
                    true => "",
                    false => "; no shorter or longer period did better",
                }
            ),
            Reading::Unavailable { unavailable } => format!("not measured: {unavailable}"),
        },
    );
    page.push('\n');
    page += &rows(calibration, style);
    page.push('\n');
    page += "Beside a copy: percent of its own performance that the source keeps beside a second\n\
             copy at 25, 50, 75, 100 %.\n";
    page += &notes(calibration, style);
    page
}

fn line(label: &str, words: &str) -> String {
    format!("{label:<LABEL_WIDTH$}{}\n", text::clean(words))
}

fn size(size: &Size) -> String {
    let amount = |amount: u64| match size.unit.as_str() {
        "bytes" => text::bytes(amount),
        unit => format!("{amount} {unit}"),
    };
    let told = match &size.reported {
        Reading::Value(told) => format!("reported {}", amount(*told)),
        Reading::Unavailable { .. } => "not reported".to_string(),
    };
    let measured = match &size.measured {
        Reading::Value(knee) => format!(
            "measured {}{} (an access takes {} ns before, {} ns after)",
            amount(knee.size),
            match &size.measured_at {
                Some(when) => format!(" at {when}"),
                None => String::new(),
            },
            text::number(knee.before_ns),
            text::number(knee.after_ns)
        ),
        Reading::Unavailable { unavailable } => unavailable.clone(),
    };
    let difference = match &size.difference {
        Some(difference) => format!("; {difference}"),
        None => String::new(),
    };
    format!("{:<4} {told}, {measured}{difference}", size.name)
}

/// The sources in the order they are measured, unknown ones last.
fn ordered(calibration: &Calibration) -> Vec<(&String, &Source)> {
    let mut sources: Vec<(&String, &Source)> = calibration.resources.iter().collect();
    let place = |id: &str| id.parse::<Resource>().ok();
    sources.sort_by_key(|(id, _)| place(id).map_or(usize::MAX, |resource| resource as usize));
    sources
}

fn rows(calibration: &Calibration, style: Style) -> String {
    table(style, TITLES, cells(calibration).into_iter(), &[0])
}

/// Titles of [`cells`].
pub(super) const TITLES: [&str; 5] = [
    "source",
    "peak alone (CPUs)",
    "all CPUs",
    "settles",
    "beside a copy",
];

/// A row of texts for each source.
pub(super) fn cells(calibration: &Calibration) -> Vec<Vec<String>> {
    let percents = |values: &mut dyn Iterator<Item = f64>| {
        let texts: Vec<String> = values.map(|value| format!("{value:.0}")).collect();
        texts.join(" ")
    };
    let rows = ordered(calibration).into_iter().map(|(id, source)| {
        let peak = |peak: &Peak| pressure(&source.pressure_unit, peak.pressure);
        let alone = source.alone.value();
        let reporter = source.reporter.value();
        let settles = source.settle_seconds.value();
        [
            Some(text::clean(id)),
            alone.map(|alone| {
                let cpus = text::cpu_list(&alone.peak.placement.cpus);
                format!("{} ({cpus})", peak(&alone.peak))
            }),
            source.together.value().map(peak),
            settles.map(|seconds| format!("{} ms", text::number(seconds * 1e3))),
            reporter.map(|reporter| {
                let curve = reporter.curve.iter();
                percents(&mut curve.map(|point| point.performance * 100.0))
            }),
        ]
        .map(|cell| cell.unwrap_or("–".to_string()))
        .to_vec()
    });
    rows.collect()
}

fn notes(calibration: &Calibration, style: Style) -> String {
    text::list("- ", &missing(calibration), style.prose())
}

/// Why something is missing, each reason once, and what else is to be known.
pub(super) fn missing(calibration: &Calibration) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    let mut note = |words, subject| match notes.iter_mut().find(|(known, _)| *known == words) {
        Some((_, subjects)) => subjects.push(subject),
        None => notes.push((words, vec![subject])),
    };
    for (id, source) in ordered(calibration) {
        let missing = [
            ("", source.alone.reason()),
            (" settle time", source.settle_seconds.reason()),
            (" beside a copy", source.reporter.reason()),
        ];
        let mut said: Option<&str> = None;
        for (part, reason) in missing {
            // What is missing for one reason altogether is said once.
            if let Some(reason) = reason.filter(|reason| said != Some(*reason)) {
                said = Some(reason);
                note(reason, format!("{id}{part}"));
            }
        }
        for words in &source.notes {
            note(words, id.clone());
        }
    }
    notes
        .iter()
        .map(|(words, subjects)| text::clean(&format!("{}: {words}", subjects.join(", "))))
        .collect()
}

/// A pressure in the words of its unit.
pub fn pressure(unit: &str, value: f64) -> String {
    match unit {
        "bytes" => text::bytes(value as u64),
        "bytes_per_second" => format!("{}/s", text::bytes(value as u64)),
        "operations_per_second" => format!("{value:.4e} operations/s"),
        "entries" => format!("{value:.0} entries"),
        _ => format!("{value:.1} % of the CPU"),
    }
}
