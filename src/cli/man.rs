//! `jostle man`: manual pages, written from what `--help` says.

use super::output;
use super::visible;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::Roff;
use clap_mangen::roff::roman;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::path::PathBuf;

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done."),
    (
        "1",
        "A condition failed: a gate of jostle-compare(1), or an application found no place.",
    ),
    (
        "2",
        "The request is wrong; the message names the flag or file and the fix.",
    ),
    (
        "3",
        "This machine or environment cannot do it; the message names what is missing.",
    ),
    (
        "130",
        "Interrupted, after cleaning up, with what was learned written and marked partial.",
    ),
];

const FILES: [(&str, &str); 3] = [
    (
        "$XDG_STATE_HOME/jostle/machine-ID.json, ~/.local/state/jostle/machine-ID.json",
        "What `jostle machine --calibrate` measured of this machine.",
    ),
    (
        "/run/jostle/held, $XDG_RUNTIME_DIR/jostle/held",
        "What is stopped or frozen now, for jostle-release(1).",
    ),
    (
        "/etc/jostle/agent.toml",
        "The configuration of jostle-agent(1).",
    ),
];

/// Print a manual page, or write all of them into a directory
///
/// Examples:
///   jostle man profile | man -l -
///   jostle man --directory ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The command whose page to print, like `profile` or `profiles list` [default:
    /// jostle itself]
    #[arg(conflicts_with = "directory")]
    command: Vec<String>,
    /// Write jostle.1, jostle-profile.1 and so on into this directory, which is made
    /// where it is missing
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<()> {
    let mut root = visible().disable_help_subcommand(true);
    root.build();
    let Some(directory) = args.directory else {
        let mut command = &root;
        for name in &args.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                Error::request(format!("no command {name:?}; `jostle --help` lists them"))
            })?;
        }
        return output::text(&page(command));
    };
    let refused = |error| {
        Error::request(format!(
            "--directory: cannot write manual pages into {}: {error}",
            directory.display()
        ))
    };
    std::fs::create_dir_all(&directory).map_err(refused)?;
    for command in with_all_below(&root) {
        let path = directory.join(format!("{}.1", name_of(command)));
        std::fs::write(path, page(command)).map_err(refused)?;
    }
    Ok(())
}

fn with_all_below(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().flat_map(with_all_below);
    std::iter::once(command).chain(below).collect()
}

fn name_of(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// What every page begins with: how an apostrophe is written, as roff documents do.
const HEAD: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

fn page(command: &Command) -> String {
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_string();
    // Every flag has its paragraph; a synopsis of sixty of them helps nobody.
    let command = command.override_usage(usage);
    let name = name_of(&command).to_string();
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    // A vector takes everything.
    let _ = man.render_name_section(&mut text);
    let _ = man.render_synopsis_section(&mut text);
    let _ = described(&command).to_writer(&mut text);
    let _ = man.render_options_section(&mut text);
    if command.has_subcommands() {
        let _ = man.render_subcommands_section(&mut text);
    }
    let _ = closing(&name).to_writer(&mut text);
    let text = String::from_utf8_lossy(&text).replace(HEAD, "");
    format!(
        "{HEAD}.TH \"{}\" 1 \"\" \"jostle {}\" \"Jostle manual\"\n{}",
        name.to_uppercase().replace('-', "\\-"),
        env!("CARGO_PKG_VERSION"),
        ascii(&text.replace("\n.br\n\n.br\n", "\n.sp\n"))
    )
}

/// `text` with every other character as roff names it, which all its readers understand.
fn ascii(text: &str) -> String {
    let named = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => format!("\\[u{:04X}]", u32::from(c)),
    };
    text.chars().map(named).collect()
}

/// What the command does; indented lines, which are examples, stay as they are.
fn described(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let about = command.get_long_about().or_else(|| command.get_about());
    let Some(about) = about.map(ToString::to_string) else {
        return roff;
    };
    roff.control("SH", ["DESCRIPTION"]);
    let mut example = false;
    for line in about.lines() {
        if example != line.starts_with("  ") {
            example = !example;
            roff.control(if example { "nf" } else { "fi" }, []);
        }
        match line.trim().is_empty() {
            true => _ = roff.control("PP", []),
            false => _ = roff.text([roman(line)]),
        }
    }
    if example {
        roff.control("fi", []);
    }
    roff
}

fn closing(name: &str) -> Roff {
    let mut roff = Roff::new();
    table(&mut roff, "EXIT STATUS", &EXIT_STATUS);
    if name == "jostle" {
        table(&mut roff, "FILES", &FILES);
    } else {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman("jostle(1)")]);
    }
    roff
}

fn table(roff: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for &(name, meaning) in rows {
        roff.control("TP", []);
        roff.text([roman(name)]);
        roff.text([roman(meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_page_and_hidden_ones_have_none() {
        let mut root = visible().disable_help_subcommand(true);
        root.build();
        let names: Vec<&str> = with_all_below(&root).into_iter().map(name_of).collect();
        assert!(names.contains(&"jostle-profile") && names.contains(&"jostle-profiles-list"));
        assert!(!names.contains(&"jostle-worker") && !names.contains(&"jostle-guard"));
        let all = page(&root);
        for name in names.iter().filter(|name| name.matches('-').count() == 1) {
            let listed = format!("{}(1)", name.replace('-', "\\-"));
            assert!(all.contains(&listed), "{listed} in\n{all}");
        }
    }

    #[test]
    fn examples_keep_their_lines() {
        let mut root = visible();
        root.build();
        let page = page(root.find_subcommand("blame").unwrap());
        let (before, after) = page.split_once(".nf\n").unwrap();
        assert!(before.ends_with("Examples:\n"), "{before}");
        let (examples, _) = after.split_once(".fi\n").unwrap();
        assert_eq!(examples.lines().count(), 3, "{examples}");
    }
}
