//! What sources cost other resources, as a table and in words.

use crate::report::style::Style;
use crate::report::text;
use jostle_measure::validate::Effect;
use jostle_measure::validate::Size;
use jostle_measure::validate::Validation;
use std::collections::BTreeSet;

/// The victims, and for each source its effect on every one of them.
pub type Grid<'a> = (Vec<&'a str>, Vec<(&'a str, Vec<Option<&'a Effect>>)>);

/// The effects as a table, in the order in which names first occur.
pub fn grid(validation: &Validation) -> Grid<'_> {
    let effects = &validation.effects;
    let named = |name: fn(&Effect) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in effects.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let victims = named(|effect| &effect.victim);
    let row = |source| {
        let found = |victim: &&str| {
            let mut all = effects.iter();
            all.find(|effect| effect.source == source && effect.victim == *victim)
        };
        (source, victims.iter().map(found).collect())
    };
    let rows = named(|effect| &effect.source).into_iter().map(row);
    let rows = rows.collect();
    (victims, rows)
}

pub fn matrix(validation: &Validation, style: Style) -> String {
    let (victims, rows) = grid(validation);
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let numbers: String = (1..=victims.len()).map(|n| format!(" {n:>6}")).collect();
    let mut page = format!("{:widest$}{numbers}\n", "");
    for (source, effects) in rows {
        let cell = |effect: Option<&Effect>| format!(" {:>6}", effect.map_or("–".into(), cell));
        let cells: String = effects.into_iter().map(cell).collect();
        page += &format!("{source:widest$}{cells}\n");
    }
    let names = victims.iter().enumerate();
    let names: Vec<String> = names
        .map(|(index, name)| format!("{} {name}", index + 1))
        .collect();
    page.push('\n');
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

pub fn standing_out(validation: &Validation, style: Style) -> String {
    let groups = validation.large_groups();
    let lines: Vec<String> = groups.iter().map(|group| group_text(group)).collect();
    let title = format!(
        "Effects on other resources of surely {} % or more, with the known mechanism",
        validation.bars.cross_talk_percent
    );
    text::titled(&title, &lines, style.prose())
}

/// Cells without a number, by victim and reason.
pub fn missing(validation: &Validation, style: Style) -> String {
    let groups = validation
        .missing
        .iter()
        .map(|cell| (&cell.victim, &cell.reason));
    let groups: BTreeSet<(&String, &String)> = groups.collect();
    let lines: Vec<String> = groups
        .into_iter()
        .map(|(victim, reason)| {
            let cells = validation.missing.iter();
            let sources: Vec<&str> = cells
                .filter(|cell| cell.victim == *victim && cell.reason == *reason)
                .map(|cell| cell.source.as_str())
                .collect();
            format!("{} on {victim}: {reason}", sources.join(", "))
        })
        .collect();
    text::titled("Not measured", &lines, style.prose())
}

/// What one source costs several others by one mechanism.
pub fn group_text(group: &[&Effect]) -> String {
    let victims: Vec<String> = group
        .iter()
        .map(|effect| {
            format!(
                "{} {:.1} % ({:.1} to {:.1}, {} blocks)",
                effect.victim, effect.loss_percent, effect.ci95[0], effect.ci95[1], effect.blocks
            )
        })
        .collect();
    format!(
        "{} costs {}: {}",
        group[0].source,
        victims.join(", "),
        group[0].explanation.as_deref().unwrap_or("UNEXPLAINED")
    )
}
