//! `jostle --help`: the commands by what one wants to do, not by name.

use clap::Command;
use std::fmt::Write;

/// What each group is for, and its commands in the order of their use.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Measure a program",
        &[
            "profile", "show", "explain", "report", "metrics", "load", "counters",
        ],
    ),
    (
        "Programs beside each other",
        &["predict", "pairs", "blame", "compare"],
    ),
    (
        "Many profiles",
        &["profiles", "merge", "classify", "evaluate"],
    ),
    (
        "Place programs on nodes",
        &[
            "schedule",
            "place-local",
            "provision",
            "serve",
            "extender",
            "slurm",
            "agent",
            "simulate",
            "train",
        ],
    ),
    (
        "This machine and the sources of interference",
        &[
            "machine", "list", "run", "validate", "pattern", "sink", "demo",
        ],
    ),
    (
        "Other",
        &["release", "schema", "completions", "man", "help"],
    ),
];

const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}
{before-help}Options:
{options}

`jostle profile -- COMMAND` is where to begin; `jostle COMMAND --help` tells more.
";

/// Every command that is shown.
pub fn commands() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| *names).copied()
}

/// `command` with its subcommands in groups.
pub fn grouped(mut command: Command) -> Command {
    command.build();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        let longest = names.iter().map(|name| name.len()).max();
        let width = longest.map_or(9, |longest| longest.max(9));
        for name in names {
            // Some are features that this build may not have.
            if let Some(found) = command.find_subcommand(name) {
                let about = found.get_about().map(ToString::to_string);
                let _ = writeln!(text, "  {name:<width$} {}", about.unwrap_or_default());
            }
        }
    }
    command
        .before_help(text.trim_end().to_string())
        .help_template(TEMPLATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_stands_in_one_group() {
        let mut command = crate::cli::Cli::command();
        command.build();
        let mut grouped: Vec<&str> = commands().collect();
        grouped.sort_unstable();
        let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut visible: Vec<&str> = visible.map(|one| one.get_name()).collect();
        if !cfg!(feature = "server") {
            visible.push("extender");
        }
        visible.sort_unstable();
        assert_eq!(grouped, visible);
    }
}
