//! `jostle completions`: what a shell completes.

use super::output;
use super::overview;
use super::visible;
use clap::Arg;
use clap::Command;
use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use jostle_measure::error::Result;
use jostle_measure::workload::demo;
use jostle_profile::resource::Resource;
use std::fmt::Write;

/// Print the completions of bash, zsh or fish
///
/// For one user:
///   jostle completions bash > ~/.local/share/bash-completion/completions/jostle
///   jostle completions fish > ~/.config/fish/completions/jostle.fish
///   jostle completions zsh > ~/.zfunc/_jostle
/// For zsh, ~/.zshrc needs `fpath=(~/.zfunc $fpath)` before `compinit`.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Of,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Of {
    Bash,
    Zsh,
    Fish,
}

/// Arguments whose values are names that this build knows: command, argument, names.
fn named() -> [(&'static str, &'static str, Vec<&'static str>); 7] {
    let resources: Vec<&str> = Resource::ALL.iter().map(|one| one.id()).collect();
    let demos: Vec<&str> = demo::DEMOS.iter().map(|one| one.name).collect();
    [
        ("profile", "resources", resources.clone()),
        ("profile", "demo", demos.clone()),
        ("run", "sources", resources.clone()),
        ("explain", "resource", resources),
        ("counters", "demo", demos.clone()),
        ("demo", "name", demos),
        ("man", "command", overview::commands().collect()),
    ]
}

/// Completes the command of the target after `--`, and flags only after a dash: what
/// is generated offers them instead of files.
const AROUND_BASH: &str = r#"
_jostle_words() {
    local i word kept=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        COMPREPLY=()
        ((i + 1 == COMP_CWORD)) && COMPREPLY=($(compgen -c -- "$2"))
        return 0
    done
    _jostle "$@"
    [[ $2 == -* ]] && return 0
    for word in "${COMPREPLY[@]}"; do
        [[ $word == -* ]] || kept+=("$word")
    done
    COMPREPLY=("${kept[@]}")
}

complete -F _jostle_words -o nosort -o bashdefault -o default jostle 2>/dev/null ||
    complete -F _jostle_words -o bashdefault -o default jostle
"#;

/// A value that is no name of a file completes to nothing.
fn hinted(arg: Arg) -> Arg {
    let free = arg.get_value_hint() == ValueHint::Unknown && arg.get_possible_values().is_empty();
    let takes = arg.get_action().takes_values() && !arg.is_positional();
    let file = arg
        .get_value_names()
        .is_some_and(|names| names.iter().any(|name| name == "FILE"));
    match (takes && free, file) {
        (true, true) => arg.value_hint(ValueHint::FilePath),
        (true, false) => arg.value_hint(ValueHint::Other),
        (false, _) => arg,
    }
}

fn script(shell: Shell) -> String {
    let mut command = visible();
    for (name, argument, values) in named() {
        command = command.mut_subcommand(name, |sub| {
            sub.mut_arg(argument, |arg| {
                arg.value_parser(PossibleValuesParser::new(values))
            })
        });
    }
    command = command.mut_subcommands(|sub| sub.mut_args(hinted).mut_subcommands(nested));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "jostle", &mut script);
    let script = String::from_utf8_lossy(&script);
    match shell {
        Shell::Bash => format!("{script}{AROUND_BASH}"),
        Shell::Fish => format!("{script}{}", fish_values(&command)),
        _ => script.into_owned(),
    }
}

/// The values of arguments without a flag, which are not generated for fish.
fn fish_values(command: &Command) -> String {
    let mut lines = String::new();
    for one in command.get_subcommands() {
        // Where a file stands as well, files are offered too.
        let only = match one.get_positionals().count() {
            1 => " -f",
            _ => "",
        };
        for argument in one.get_positionals() {
            let values = argument.get_possible_values();
            let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
            if !values.is_empty() {
                let (name, values) = (one.get_name(), values.join(" "));
                let _ = writeln!(
                    lines,
                    "complete -c jostle -n \"__fish_jostle_using_subcommand {name}\"{only} -a \"{values}\""
                );
            }
        }
    }
    lines
}

fn nested(command: Command) -> Command {
    command.mut_args(hinted)
}

pub fn run(args: Args) -> Result<()> {
    output::text(&script(match args.shell {
        Of::Bash => Shell::Bash,
        Of::Zsh => Shell::Zsh,
        Of::Fish => Shell::Fish,
    }))
}
