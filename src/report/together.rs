//! What pairs of sources cost at once, in words.

use super::text;
use jostle_profile::Estimate;
use jostle_profile::Interaction;
use jostle_profile::Profile;
use jostle_profile::reading::Reading;

/// Pressure below which a source was kept from pressing by the other one, percent.
const ARRIVED: f64 = 90.0;

/// One line per pair.
pub(super) fn lines(profile: &Profile) -> Vec<String> {
    let pairs = profile.together.iter().map(|pair| {
        let [one, other] = pair.resources.each_ref().map(|id| text::clean(id));
        match &pair.effect {
            Reading::Unavailable { unavailable } => {
                format!("{one} and {other}: not measured: {unavailable}")
            }
            Reading::Value(effect) => line([&one, &other], effect),
        }
    });
    pairs.collect()
}

fn line([one, other]: [&str; 2], effect: &Interaction) -> String {
    let [alone, beside] = &effect.each;
    let [low, high] = effect.factor.ci95;
    let verdict = match (low > 1.0, high < 1.0) {
        (true, _) => "less together than each by itself says",
        (_, true) => "more together than each by itself says",
        (false, false) => "as each by itself says, as far as can be determined",
    };
    let mut line = format!(
        "{one} keeps {}, {other} {}, both at once {} where the product is {:.1} %: {:.3} times \
         that ({low:.3} to {high:.3}): they cost {verdict}",
        percent(alone),
        percent(beside),
        percent(&effect.both),
        100.0 * alone.value * beside.value,
        effect.factor.value,
    );
    for (id, arrived) in [one, other].iter().zip(effect.arrived_percent) {
        if let Some(arrived) = arrived.filter(|arrived| *arrived < ARRIVED) {
            line += &format!("; {id} reached {arrived:.0} % of its pressure beside the other one");
        }
    }
    line
}

fn percent(estimate: &Estimate) -> String {
    let [value, low, high] =
        [estimate.value, estimate.ci95[0], estimate.ci95[1]].map(|part| 100.0 * part);
    format!("{value:.1} % ({low:.1} to {high:.1})")
}
