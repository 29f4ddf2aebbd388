//! Predictions as a person reads them.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_schedule::predict::Gap;
use jostle_schedule::predict::OnResource;
use jostle_schedule::predict::Prediction;
use std::collections::BTreeMap;

/// At most this many resources are told of each application.
const MOST_TOLD: usize = 3;

/// Percent lost; less is not told.
const LEAST_TOLD: f64 = 0.2;

/// What is expected of every application, why, and what is not known.
pub fn page(
    predictions: &[Prediction],
    shares_cpus: bool,
    notes: &[String],
    style: Style,
) -> String {
    let mut page = match (predictions.len(), shares_cpus) {
        (1, _) => "one application alone: no neighbours\n\n".to_string(),
        (count, true) => format!("{count} applications that take turns on the same CPUs\n\n"),
        (count, false) => format!("{count} applications, each with CPUs of its own\n\n"),
    };
    page += &rows(predictions, style);
    let mut details = Vec::new();
    if predictions
        .iter()
        .any(|one| one.resources.iter().any(|share| share.assumed))
    {
        details.push("~ was not measured: it is what other programs lose there".to_string());
    }
    details.extend(gaps(predictions));
    details.extend(notes.iter().cloned());
    if !details.is_empty() {
        page.push('\n');
        page += &text::list("– ", &details, style.prose());
    }
    page
}

fn rows(predictions: &[Prediction], style: Style) -> String {
    let titles = [
        "application",
        "performance",
        "95 % interval",
        "keeps its QoS",
        "costliest: lost, at pressure",
    ];
    let rows = predictions.iter().map(|prediction| {
        let performance = prediction.performance.map(|kept| kept * 100.0);
        let interval = prediction.ci95.map(|ends| ends.map(|end| end * 100.0));
        [
            text::clean(&prediction.name),
            performance.map_or("no basis".into(), |kept| format!("{kept:.1} %")),
            interval.map_or("–".into(), |[low, high]| format!("{low:.1} to {high:.1}")),
            prediction.chance_of_qos.map_or("–".into(), |kept| {
                format!("{} of ≥ {:.0} %", chance(kept), prediction.qos * 100.0)
            }),
            costliest(&prediction.resources),
        ]
    });
    table(style, titles, rows, &[0, 1, 2, 3])
}

/// A chance (0–1) in words that are never certain.
pub(super) fn chance(chance: f64) -> String {
    match chance {
        chance if chance > 0.995 => "> 99 %".into(),
        chance if chance < 0.005 => "< 1 %".into(),
        chance => format!("{:.0} %", chance * 100.0),
    }
}

fn costliest(resources: &[OnResource]) -> String {
    let costs: Vec<String> = resources
        .iter()
        .map(|share| (share, (1.0 - share.performance) * 100.0))
        .filter(|(_, lost)| *lost >= LEAST_TOLD)
        .map(|(share, lost)| {
            let mark = if share.assumed { "~" } else { "" };
            format!(
                "{} {mark}{lost:.1} % at {:.0}",
                share.resource, share.pressure
            )
        })
        .collect();
    match costs.len() {
        0 => "–".into(),
        all if all > MOST_TOLD => {
            format!(
                "{}, {} more",
                costs[..MOST_TOLD].join(", "),
                all - MOST_TOLD
            )
        }
        _ => costs.join(", "),
    }
}

/// What is not known, and therefore not in the product: one sentence for all
/// applications of which the same is so.
fn gaps(predictions: &[Prediction]) -> Vec<String> {
    let mut missing: BTreeMap<(usize, bool), (&str, Vec<&str>)> = BTreeMap::new();
    for gap in predictions
        .iter()
        .flat_map(|prediction| &prediction.not_known)
    {
        let key = (gap.subject, gap.half == Gap::Caused);
        let (_, resources) = missing.entry(key).or_insert((&gap.whose, Vec::new()));
        if !resources.contains(&gap.resource) {
            resources.push(gap.resource);
        }
    }
    let mut alike: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
    for ((_, causes), (whose, resources)) in missing {
        let names = alike.entry((causes, resources.join(", "))).or_default();
        names.push(whose);
    }
    alike
        .into_iter()
        .map(|((causes, resources), whose)| {
            let whose = whose.join(", ");
            match causes {
                true => format!("not known: what {whose} causes on {resources}"),
                false => format!("not known: what pressure costs {whose} on {resources}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(resource: &'static str, performance: f64) -> OnResource {
        OnResource {
            resource,
            pressure: 40.0,
            pressure_sd: 2.0,
            performance,
            ci95: [performance, performance],
            assumed: false,
        }
    }

    #[test]
    fn the_costliest_come_first_and_the_rest_are_counted() {
        let shares = ["l1i", "l1d", "tlb", "fp"].map(|id| share(id, 0.9));
        assert_eq!(
            costliest(&shares),
            "l1i 10.0 % at 40, l1d 10.0 % at 40, tlb 10.0 % at 40, 1 more"
        );
        assert_eq!(costliest(&[share("fp", 0.9999)]), "–");
    }

    #[test]
    fn chances_are_never_certain() {
        assert_eq!(chance(1.0), "> 99 %");
        assert_eq!(chance(0.0), "< 1 %");
        assert_eq!(chance(0.614), "61 %");
    }
}
