//! A comparison in words.

use crate::change::Change;
use crate::change::Outcome;
use crate::change::ResourceChange;
use crate::longer::More;
use crate::longer::needed;
use jostle_profile::Profile;
use serde::Serialize;

/// Resources named before the rest is a number.
const MOST_NAMES: usize = 4;

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    Worse,
    Better,
    /// Worse on some resources, better on others.
    Mixed,
    Same,
    CannotTell,
    /// Both files hold one measurement.
    SameMeasurement,
}

impl Word {
    pub fn words(self) -> &'static str {
        match self {
            Word::Worse => "worse",
            Word::Better => "better",
            Word::Mixed => "worse and better",
            Word::Same => "no difference",
            Word::CannotTell => "cannot tell",
            Word::SameMeasurement => "the same measurement",
        }
    }
}

/// What a comparison comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub word: Word,
    pub sentences: Vec<String>,
    /// Resources of which a change of the loss was neither shown nor ruled out.
    pub open: Vec<String>,
    /// What would decide half of them; absent where nothing is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<More>,
}

/// The verdict on `resources`, in the order of what matters.
pub fn verdict(
    resources: &[ResourceChange],
    same_measurement: bool,
    margin: f64,
    (old, new): (&Profile, &Profile),
) -> Verdict {
    if same_measurement {
        let sentence = "Both files hold the same measurement: nothing can have changed.";
        return Verdict {
            word: Word::SameMeasurement,
            sentences: vec![sentence.into()],
            open: Vec::new(),
            needed: None,
        };
    }
    let of = |outcome: Outcome| resources.iter().filter(move |it| it.outcome() == outcome);
    let [worse, better] = [Outcome::Worse, Outcome::Better].map(|it| of(it).count() > 0);
    let open: Vec<&ResourceChange> = of(Outcome::Open).collect();
    let changes = open.iter().filter_map(|it| judged(it));
    let needed = changes.map(|change| needed(change, margin, old, new));
    let needed = More::for_half(needed.collect());
    let word = match (worse, better, open.is_empty()) {
        (true, false, _) => Word::Worse,
        (false, true, _) => Word::Better,
        (true, true, _) => Word::Mixed,
        (false, false, true) => Word::Same,
        (false, false, false) => Word::CannotTell,
    };
    let mut sentences: Vec<String> = of(Outcome::Worse)
        .chain(of(Outcome::Better))
        .map(shown)
        .collect();
    if sentences.is_empty() {
        sentences.push("No change was shown.".into());
    }
    sentences.extend(of_use(resources));
    match of(Outcome::Same).count() {
        0 => {}
        1 => sentences.push(format!(
            "On 1 resource a change of more than {margin} points is ruled out."
        )),
        count => sentences.push(format!(
            "On {count} resources a change of more than {margin} points is ruled out."
        )),
    }
    let names: Vec<String> = open.iter().map(|it| it.resource.clone()).collect();
    if let Some(needed) = needed {
        let half = if names.len() > 1 {
            "to decide half of them, "
        } else {
            ""
        };
        sentences.push(format!(
            "Cannot tell for {}: {half}{}.",
            listed(&names),
            needed.words()
        ));
    }
    Verdict {
        word,
        sentences,
        open: names,
        needed,
    }
}

/// The change by which a resource is judged.
fn judged(resource: &ResourceChange) -> Option<&Change> {
    resource.loss.value().or(resource.tolerated.value())
}

fn shown(resource: &ResourceChange) -> String {
    let word = match resource.outcome() {
        Outcome::Worse => "Worse",
        _ => "Better",
    };
    let wanted = resource.outcome();
    let told = |change: &&Change| change.outcome == wanted;
    let mut parts = Vec::new();
    if let Some(loss) = resource.loss.value().filter(told) {
        let at = match loss.at_intensity {
            Some(level) if level < 99.5 => format!("{level:.0} % pressure"),
            _ => "full pressure".into(),
        };
        let [low, high] = loss.ci95.map(signed);
        parts.push(format!(
            "loses {} % at {at} instead of {} % ({} points, {low} to {high})",
            whole(loss.new),
            whole(loss.old),
            signed(loss.difference)
        ));
    }
    for (name, reading) in [
        ("tolerates", &resource.tolerated),
        ("causes", &resource.caused),
    ] {
        if let Some(score) = reading.value().filter(told) {
            parts.push(format!(
                "{name} {:.0} instead of {:.0}",
                score.new, score.old
            ));
        }
    }
    let mut text = format!("{word} on {}: {}.", resource.resource, parts.join(", "));
    let counters: Vec<String> = resource
        .counters
        .iter()
        .map(|it| {
            format!(
                "{} ×{:.2} beside the source instead of ×{:.2}",
                it.name, it.new_ratio, it.old_ratio
            )
        })
        .collect();
    if !counters.is_empty() {
        text += &format!(" Counters: {}.", counters.join(", "));
    }
    text
}

fn whole(value: f64) -> String {
    let value = if value.abs() < 0.5 { 0.0 } else { value };
    format!("{value:.0}").replace('-', "−")
}

fn signed(value: f64) -> String {
    match value.abs() < 0.5 {
        true => "0".into(),
        false => format!("{value:+.0}").replace('-', "−"),
    }
}

fn of_use(resources: &[ResourceChange]) -> Option<String> {
    let parts: Vec<String> = resources
        .iter()
        .filter_map(|it| Some((it, it.used.value()?)))
        .filter(|(_, used)| matches!(used.outcome, Outcome::More | Outcome::Less))
        .map(|(it, used)| {
            format!(
                "{:.1} % of {} instead of {:.1} %",
                used.new, it.resource, used.old
            )
        })
        .collect();
    (!parts.is_empty()).then(|| format!("Uses {}.", parts.join(", ")))
}

fn listed(names: &[String]) -> String {
    match names.len() > MOST_NAMES + 1 {
        true => format!("{} resources", names.len()),
        false => names.join(", "),
    }
}
