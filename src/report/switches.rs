//! What time-sharing a CPU with each source costs, in words and numbers.

use super::text;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::SchedulerFacts;
use jostle_profile::Sourced;
use jostle_profile::Switch;
use jostle_profile::reading::Reading;
use jostle_statistics::ByNumber;

/// One line on the scheduler, and one for each source, the costliest first; none
/// where the file has no such costs. `turn_seconds` is the length of the turns, that
/// of the machine where absent.
pub(super) fn lines(profile: &Profile, turn_seconds: Option<f64>) -> Vec<String> {
    let Some(scheduler) = &profile.conditions.scheduler else {
        return Vec::new();
    };
    let entries = profile.resources.iter();
    let known = entries.filter_map(|(id, entry)| Some((id, entry.switch.as_ref()?)));
    let (mut costs, mut reasons) = (Vec::new(), Vec::<(&str, Vec<&str>)>::new());
    for (id, switch) in known {
        match switch {
            Reading::Value(switch) => costs.extend(at(switch, turn_seconds).map(|at| (id, at))),
            Reading::Unavailable { unavailable } => {
                match reasons.iter_mut().find(|(reason, _)| reason == unavailable) {
                    Some((_, ids)) => ids.push(id),
                    None => reasons.push((unavailable, vec![id])),
                }
            }
        }
    }
    costs.sort_by_number(|(_, it)| -it.0.value);
    let costs = costs.into_iter().map(|(id, (cost, loss))| {
        format!(
            "{}: {} µs per switch, {} % of the target's time on the CPU",
            text::clean(id),
            estimate(cost, 0),
            estimate(loss, 1)
        )
    });
    let reasons = reasons
        .into_iter()
        .map(|(reason, ids)| format!("{}: unknown: {reason}", ids.join(", ")));
    let about = std::iter::once(about(scheduler, turn_seconds));
    let lines: Vec<String> = about.chain(costs).chain(reasons).collect();
    // Without any source the scheduler alone says nothing of the target.
    if lines.len() == 1 { Vec::new() } else { lines }
}

/// Cost and loss percent in turns of that length.
fn at(switch: &Switch, turn_seconds: Option<f64>) -> Option<(Estimate, Estimate)> {
    match turn_seconds {
        None => Some((switch.cost_microseconds, switch.expected_loss_percent)),
        Some(turn) => Some((switch.cost_at(turn)?, switch.loss_percent_at(turn)?)),
    }
}

fn about(scheduler: &SchedulerFacts, asked: Option<f64>) -> String {
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    let named = |reading: &Reading<Sourced>| match reading {
        Reading::Value(it) => format!("{} ({})", milliseconds(it.value), it.source),
        Reading::Unavailable { unavailable } => format!("unknown ({unavailable})"),
    };
    let turn = match asked {
        Some(seconds) => milliseconds(seconds),
        None => named(&scheduler.turn_seconds),
    };
    let plain = match &scheduler.plain_switch_microseconds {
        Reading::Value(cost) => format!("{} µs", estimate(*cost, 0)),
        Reading::Unavailable { unavailable } => format!("unknown ({unavailable})"),
    };
    format!(
        "in turns of {turn}; base slice {}, tick {}; a switch to a neighbour that uses nothing: \
         {plain}",
        named(&scheduler.base_slice_seconds),
        named(&scheduler.tick_seconds)
    )
}

fn estimate(estimate: Estimate, digits: usize) -> String {
    let [low, high] = estimate.ci95;
    let text = format!(
        "{:.digits$} ({low:.digits$} to {high:.digits$})",
        estimate.value
    );
    text.replace('-', "−")
}

/// The page of `jostle show --slice`.
///
/// # Errors
/// Where the file has no cost of any switch.
pub fn switch_page(profile: &Profile, turn_seconds: f64) -> Result<String, String> {
    let lines = lines(profile, Some(turn_seconds));
    match lines.is_empty() {
        true => Err(
            "this profile holds no cost of a switch: no source time-shared the target's CPU, or it \
             was measured by an earlier version"
                .into(),
        ),
        false => Ok(lines.join("\n") + "\n"),
    }
}
