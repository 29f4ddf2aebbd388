//! Every command that the README and the docs show is one that is understood.

use super::Cli;
use clap::Parser;
use std::path::Path;

/// The `jostle` commands of the console blocks of a page, continued lines joined.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            inside = line == "```console";
        }
        let Some(start) = line.strip_prefix("$ jostle ").filter(|_| inside) else {
            continue;
        };
        let mut command = start.to_string();
        while let Some(open) = command.strip_suffix('\\') {
            command = format!("{open}{}", lines.next().unwrap_or_default());
        }
        commands.push(command);
    }
    commands
}

/// Without what a shell would do with the output.
fn of_jostle(words: Vec<String>) -> Vec<String> {
    let shell = |word: &String| ["|", ">", "2>", "&", "&&", "<"].contains(&word.as_str());
    words.into_iter().take_while(|word| !shell(word)).collect()
}

#[test]
fn commands_of_the_docs_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let mut pages: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    // What a shell puts in its place.
    let substituted = regex_lite::Regex::new(r"\$\([^)]*\)|\$\w+").unwrap();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for page in pages
        .iter()
        .filter(|page| page.extension().is_some_and(|it| it == "md"))
    {
        for command in commands(&std::fs::read_to_string(page).unwrap()) {
            let words = shlex::split(&substituted.replace_all(&command, "1")).unwrap_or_default();
            let all = std::iter::once("jostle".to_string()).chain(of_jostle(words));
            tried += 1;
            if let Err(error) = Cli::try_parse_from(all) {
                wrong.push(format!("{}: $ jostle {command}\n{error}", page.display()));
            }
        }
    }
    assert!(tried > 20, "only {tried} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
