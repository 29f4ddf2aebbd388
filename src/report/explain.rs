//! All that a profile says of one resource.

use super::entries::Verdict;
use super::entries::causes_without_a_score;
use super::entries::is_inferred;
use super::style::Style;
use super::table::notes;
use super::text;
use jostle_profile::CurvePoint;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::resource::Resource;
use std::str::FromStr;

/// The entry of `id`: scores, curves, reasons, doubts.
///
/// # Errors
/// A sentence with the names that there are when `profile` has no such entry.
pub fn resource_page(profile: &Profile, id: &str, style: Style) -> Result<String, String> {
    let entry = profile.resources.get(id).ok_or_else(|| {
        let names: Vec<&str> = profile.resources.keys().map(String::as_str).collect();
        format!(
            "the profile has no resource '{id}'; it has {}",
            names.join(", ")
        )
    })?;
    let mut page = text::facts("", 12, facts(profile, id, entry), style.prose());
    let unit = entry.pressure_unit.as_deref().unwrap_or("");
    let curves = [
        (
            "The target beside the source",
            "target kept, %",
            &entry.curve,
        ),
        (
            "The source beside the target",
            "source kept, %",
            &entry.probe_curve,
        ),
    ];
    for (title, kept, curve) in curves {
        if !curve.is_empty() {
            page += &format!("\n{title}\n{}", points(curve, kept, unit, style));
        }
    }
    page.push('\n');
    page += &notes(&of_one(profile, id), style);
    Ok(page.trim_end().to_string() + "\n")
}

fn facts(
    profile: &Profile,
    id: &str,
    entry: &ResourceEntry,
) -> [(&'static str, Option<String>); 7] {
    let does = Resource::from_str(id).ok();
    let does = does.map(|it| it.row().summary.to_string());
    let placement = entry.placement.as_ref().map(|placement| {
        let cpus = text::cpu_list(&placement.cpus);
        match cpus.is_empty() {
            true => text::mode(placement.mode).to_string(),
            false => format!("{}, on CPU {cpus}", text::mode(placement.mode)),
        }
    });
    let full = entry.full_scale_pressure.map(|it| {
        let unit = entry.pressure_unit.as_deref().unwrap_or("");
        format!("{} {unit}", text::number(it))
    });
    let mut verdict = Verdict::of(entry, profile).words().to_string();
    if is_inferred(entry) {
        verdict += ", in part inferred from other applications";
    }
    let threshold = text::number(100.0 * profile.qos.threshold);
    [
        ("resource", Some(id.to_string())),
        ("source", does),
        ("verdict", Some(verdict)),
        ("placement", placement),
        ("100 % is", full),
        (
            "tolerates",
            entry.tolerated.map(|it| {
                format!(
                    "{}: up to there it keeps {threshold} % of its speed",
                    score(it)
                )
            }),
        ),
        (
            "causes",
            match entry.caused {
                Some(it) => Some(format!(
                    "{}: 100 less the intensity at which the source still keeps 95 %",
                    score(it)
                )),
                None => causes_without_a_score(entry)
                    .map(|words| format!("{words}: the source at full pressure keeps about 95 %")),
            },
        ),
    ]
}

fn score(score: Score) -> String {
    format!(
        "{:.0} ({:.0}–{:.0})",
        score.score, score.ci95[0], score.ci95[1]
    )
}

fn points(curve: &[CurvePoint], kept: &str, unit: &str, style: Style) -> String {
    let pressure = match unit {
        "" => "pressure".to_string(),
        unit => format!("pressure, {unit}"),
    };
    let titles = ["intensity, %", kept, "95 % interval", &pressure, "windows"];
    let mut lines = vec![titles.map(str::to_string)];
    for point in curve {
        let asked = point
            .requested
            .map_or(String::new(), |it| format!(" of {it:.0}"));
        lines.push([
            format!("{:.0}{asked}", point.intensity),
            format!("{:.1}", 100.0 * point.performance),
            format!("{:.1}–{:.1}", 100.0 * point.ci95[0], 100.0 * point.ci95[1]),
            point.pressure.map_or("–".into(), text::number),
            point.windows.to_string(),
        ]);
    }
    style.columns(&lines, 2, [])
}

/// `profile` with nothing but this resource.
fn of_one(profile: &Profile, id: &str) -> Profile {
    let mut one = profile.clone();
    one.resources.retain(|other, _| other == id);
    one.together
        .retain(|pair| pair.resources.iter().any(|other| other == id));
    one.conditions.doubts.clear();
    one.conditions
        .counters
        .retain(|_, facts| facts.value().is_some());
    one.scaling = Default::default();
    if let Some(usage) = &mut one.usage {
        let of_it =
            |quantity: &jostle_profile::UsedQuantity| quantity.resource.as_deref() == Some(id);
        usage
            .quantities
            .retain(|_, it| it.value().is_some_and(of_it));
    }
    one
}
