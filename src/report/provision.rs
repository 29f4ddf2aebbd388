//! Which machine fits a mix, as a person reads it.

use super::style::Style;
use super::style::table;
use super::text;
use jostle_profile::provision::Basis;
use jostle_profile::provision::Copies;
use jostle_profile::provision::Limit;
use jostle_profile::provision::MachineFit;
use jostle_profile::provision::MixFit;
use jostle_profile::provision::MixMember;
use jostle_profile::provision::Provision;
use std::collections::BTreeSet;

/// Machines and resources in a table of the best machine; the JSON has the rest.
const MOST_ROWS: usize = 8;

/// The ranking of machines for one mix, and all about the best; or, of each
/// application by itself, how many fit where.
pub fn provision_page(answer: &Provision, one_mix: bool, style: Style) -> String {
    match answer.mixes.as_slice() {
        [mix] if one_mix => of_mix(answer, mix, style),
        mixes => of_each(answer, mixes, style),
    }
}

fn cpus(answer: &Provision) -> &'static str {
    match answer.shares_cpus {
        true => "CPUs are time-shared",
        false => "each instance has CPUs of its own",
    }
}

fn of_mix(answer: &Provision, mix: &MixFit, style: Style) -> String {
    let members: Vec<String> = mix.applications.iter().map(member).collect();
    let head = format!(
        "One copy of {}: {}; {}.",
        mix.name,
        members.join(", "),
        cpus(answer)
    );
    let mut page = text::wrap("", &head, style.prose());
    let Some(best) = mix.machines.first() else {
        return page;
    };
    page += &text::wrap("", &conclusion(mix, best), style.prose());
    page.push('\n');
    page += &machines(mix, style);
    page.push('\n');
    let shown = best.copies.estimate.max(1);
    let copies = match shown {
        1 => "1 copy".to_string(),
        many => format!("{many} copies"),
    };
    let title = match best.copies.estimate {
        0 => format!("On {} one copy would not keep every QoS:", best.machine),
        _ => format!("On {} with {copies}:", best.machine),
    };
    page += &text::wrap("", &title, style.prose());
    page += &performance(mix, best, style);
    page.push('\n');
    page += &saturation(best, &copies, style);
    page.push('\n');
    page += &steps(answer, best, style);
    page += &notes(mix.machines.iter(), style);
    page
}

fn member(one: &MixMember) -> String {
    let name = text::clean(&one.name);
    match one.count {
        1 => name,
        count => format!("{count} × {name}"),
    }
}

fn conclusion(mix: &MixFit, best: &MachineFit) -> String {
    let name = text::clean(&best.machine);
    let tied: Vec<String> = mix.machines[1..]
        .iter()
        .filter(|it| it.rank == best.rank)
        .map(|it| text::clean(&it.machine))
        .collect();
    let first = match best.copies.estimate {
        0 if mix.machines.len() == 1 => format!("No copy fits on {name}"),
        0 => "No copy fits on any of the machines".to_string(),
        _ if mix.machines.len() == 1 => format!("{name} fits {}", counted(best.copies)),
        _ => format!("{name} fits most: {}", counted(best.copies)),
    };
    let why = limit(&best.limit);
    let not_apart = match tied.len() {
        0 => String::new(),
        1..=3 => format!(" {} cannot be told apart from it.", tied.join(", ")),
        many => format!(" {many} others cannot be told apart from it."),
    };
    let saturates = best.saturation.first().map_or(String::new(), |first| {
        format!(" {} saturates first.", first.resource)
    });
    format!("{first}, limited by {why}.{saturates}{not_apart}")
}

fn counted(copies: Copies) -> String {
    let range = match copies.low == copies.high {
        true => String::new(),
        false => format!(" ({} to {})", copies.low, copies.high),
    };
    match copies.estimate {
        1 => format!("1 copy{range}"),
        many => format!("{many} copies{range}"),
    }
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Cpus => "CPUs".into(),
        Limit::Memory => "memory".into(),
        Limit::Search => "nothing that was tried".into(),
        Limit::Qos {
            application,
            resource: Some(resource),
        } => format!("the QoS of {} ({resource})", text::clean(application)),
        Limit::Qos { application, .. } => format!("the QoS of {}", text::clean(application)),
    }
}

fn range(copies: Copies) -> String {
    match copies.low == copies.high {
        true => "–".into(),
        false => format!("{}–{}", copies.low, copies.high),
    }
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Recorded => "recorded there",
        Basis::Scaled => "scaled",
    }
}

fn machines(mix: &MixFit, style: Style) -> String {
    let titles = [
        "rank",
        "machine",
        "CPUs",
        "memory",
        "copies",
        "95 %",
        "limited by",
        "profiles",
    ];
    let rows = mix.machines.iter().map(|it| {
        [
            it.rank.to_string(),
            text::clean(&it.machine),
            it.cpus.to_string(),
            it.memory_bytes.map_or("–".into(), text::bytes),
            it.copies.estimate.to_string(),
            range(it.copies),
            limit(&it.limit),
            basis(it.basis).to_string(),
        ]
    });
    table(style, titles, rows, &[0, 1, 2, 3, 4, 5])
}

fn performance(mix: &MixFit, best: &MachineFit, style: Style) -> String {
    let titles = [
        "application",
        "performance",
        "95 %",
        "QoS",
        "keeps it",
        "costliest",
    ];
    let each = best.performance.iter().zip(&mix.applications);
    let rows = each.map(|(it, one)| {
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        [
            text::clean(&it.application),
            format!("{} %", percent(it.performance)),
            it.ci95.map(percent).join("–"),
            format!("{} %", percent(one.qos)),
            super::prediction::chance(it.chance_of_qos),
            it.most_costly.clone().unwrap_or("–".into()),
        ]
    });
    table(style, titles, rows, &[0, 1, 2, 3, 4])
}

fn saturation(best: &MachineFit, copies: &str, style: Style) -> String {
    if best.saturation.is_empty() {
        return "No resource is known to be taken.\n".into();
    }
    let mut page = format!("Taken by {copies}:\n");
    let rows = best.saturation.iter().take(MOST_ROWS).map(|it| {
        let mark = if it.assumed { " ~" } else { "" };
        [
            it.resource.clone(),
            format!("{} {:.0} %{mark}", text::short_bar(it.percent), it.percent),
            format!("{:.1} copies", it.saturates_at_copies),
        ]
    });
    page += &table(style, ["resource", "taken", "full at"], rows, &[0, 1, 2]);
    if best.saturation.iter().any(|it| it.assumed) {
        page += "~: in part what other profiles have there, not measured.\n";
    }
    page
}

fn steps(answer: &Provision, best: &MachineFit, style: Style) -> String {
    let step = answer.step_percent;
    if best.steps.is_empty() {
        return text::wrap(
            "",
            &format!("{step:.0} % more of any one resource alone buys no copy and no performance."),
            style.prose(),
        );
    }
    let now = best.copies.estimate;
    let lines: Vec<String> = best
        .steps
        .iter()
        .take(MOST_ROWS)
        .map(|it| {
            let copies = match it.copies.saturating_sub(now) {
                0 => "no copy more".to_string(),
                1 => "1 copy more".to_string(),
                more => format!("{more} copies more"),
            };
            let gain = match it.gain > 0.001 {
                true => format!(", {:+.1} points for the worst off", it.gain * 100.0),
                false => String::new(),
            };
            let beyond = match it.extrapolated {
                true => " (extrapolated: curves were not measured that far)",
                false => "",
            };
            format!("{}: {copies}{gain}{beyond}", it.resource)
        })
        .collect();
    format!(
        "{step:.0} % more of a resource buys\n{}",
        text::list("  – ", &lines, style.prose())
    )
}

/// Each note once, with the machines it is about where not all of them.
fn notes<'a>(machines: impl Iterator<Item = &'a MachineFit>, style: Style) -> String {
    let machines: Vec<&MachineFit> = machines.collect();
    let all: BTreeSet<&String> = machines.iter().flat_map(|it| &it.notes).collect();
    let mut lines: Vec<String> = all
        .into_iter()
        .map(|note| {
            let of: Vec<&str> = machines
                .iter()
                .filter(|it| it.notes.contains(note))
                .map(|it| it.machine.as_str())
                .collect();
            match of.len() == machines.len() {
                true => note.clone(),
                false => format!("{}: {note}", of.join(", ")),
            }
        })
        .collect();
    if machines.iter().any(|it| it.basis == Basis::Scaled) {
        lines.push(
            "scaled: the profiles are of another machine; pressures were scaled by measured peaks, \
             and intervals reach over the scaled and the unscaled. Performance is relative to the \
             program alone on the machine: how fast that is there is not known."
                .into(),
        );
    }
    if machines.iter().any(|it| it.cpus == 1) && machines.len() == 1 {
        lines.push("one CPU: nothing runs beside anything without --shares-cpus".into());
    }
    text::titled("note:", &lines, style.prose())
}

fn of_each(answer: &Provision, mixes: &[MixFit], style: Style) -> String {
    let head = format!(
        "How many instances of each program keep its QoS ({}); --mix for programs together.\n\n",
        cpus(answer)
    );
    let titles = [
        "application",
        "machine",
        "instances",
        "95 %",
        "limited by",
        "profile",
    ];
    let rows = mixes.iter().flat_map(|mix| {
        mix.machines.iter().map(|it| {
            [
                text::clean(&mix.name),
                text::clean(&it.machine),
                it.copies.estimate.to_string(),
                range(it.copies),
                own_limit(&it.limit),
                basis(it.basis).to_string(),
            ]
        })
    });
    let mut page = head + &table(style, titles, rows, &[0, 1, 2, 3]);
    page += &notes(mixes.iter().flat_map(|mix| &mix.machines), style);
    page
}

/// Of an application by itself nobody needs its name again.
fn own_limit(by: &Limit) -> String {
    match by {
        Limit::Qos {
            resource: Some(resource),
            ..
        } => format!("QoS ({resource})"),
        Limit::Qos { .. } => "QoS".into(),
        other => limit(other),
    }
}
