//! A fitted pattern as the file that `--storage-pattern` or `--network-pattern`
//! takes.

use super::chain::Fitted;
use super::messages;
use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::Operation;
use std::fmt::Write;

/// The file; `source` says in a line what it was fitted to.
pub fn toml(fitted: &Fitted, source: &str) -> String {
    let features = &fitted.features;
    let pattern = &fitted.pattern;
    let mut text = comment(source);
    line(
        &mut text,
        format!(
            "# {} I/Os over {} MiB: {:.1} per second, {:.1} % reads, {:.1} % at random, {:.1} KiB each.",
            fitted.ios,
            fitted.covers_bytes >> 20,
            features.per_second(),
            100.0 * features.read_share,
            100.0 * features.random_share,
            features.mean_bytes / 1024.0
        ),
    );
    if fitted.sizes_merged {
        let words = "# Sizes were put together, since there were too many kinds of I/O.";
        line(&mut text, words.into());
    }
    line(&mut text, format!("seed = {}", pattern.seed));
    for state in &pattern.states {
        let [from, to] = state.range_percent;
        line(
            &mut text,
            format!(
                "\n[[state]]\nname = \"{}\"\nrange_percent = [{from}, {to}]",
                state.name
            ),
        );
    }
    for kind in &pattern.transitions {
        let name = |state: usize| &pattern.states[state].name;
        line(
            &mut text,
            format!(
                "\n[[transition]]\nfrom = \"{}\"\nto = \"{}\"\nprobability = {:?}\nblock_bytes = {}\n\
             operation = \"{}\"\naccess = \"{}\"\ninter_arrival_us = {:?}",
                name(kind.from),
                name(kind.to),
                kind.probability,
                kind.block_bytes,
                match kind.operation {
                    Operation::Read => "read",
                    Operation::Write => "write",
                },
                match kind.access {
                    Access::Random => "random",
                    Access::Sequential => "sequential",
                },
                kind.inter_arrival_us,
            ),
        );
        text.push_str(&arrival(kind.arrival));
    }
    text
}

/// The file for a network pattern; `source` says in a line what it was fitted to.
pub fn traffic_toml(fitted: &messages::Fitted, source: &str) -> String {
    let features = &fitted.features;
    let pattern = &fitted.pattern;
    let mut text = comment(source);
    line(
        &mut text,
        format!(
            "# {} messages: {:.1} per second, {:.1} bytes each, {:.1} bytes per second.",
            fitted.messages,
            features.per_second(),
            features.mean_bytes,
            features.per_second() * features.mean_bytes
        ),
    );
    if fitted.sizes_merged {
        let words = "# Sizes were put together, since there were too many; each message has the \
                     mean size of its kind.";
        line(&mut text, words.into());
    }
    line(&mut text, format!("seed = {}", pattern.seed));
    for message in &pattern.messages {
        let words = format!(
            "\n[[message]]\nname = \"{}\"\nbytes = {}",
            message.name, message.bytes
        );
        line(&mut text, words);
    }
    let named = pattern.windows.len() > 1;
    for window in pattern.windows.iter().filter(|_| named) {
        let words = format!(
            "\n[[window]]\nname = \"{}\"\nseconds = {:?}",
            window.name, window.seconds
        );
        line(&mut text, words);
    }
    for window in &pattern.windows {
        for kind in &window.transitions {
            text.push_str("\n[[transition]]\n");
            if named {
                line(&mut text, format!("window = \"{}\"", window.name));
            }
            let name = |message: usize| &pattern.messages[message].name;
            let words = format!(
                "from = \"{}\"\nto = \"{}\"\nprobability = {:?}\ninter_arrival_us = {:?}",
                name(kind.from),
                name(kind.to),
                kind.probability,
                kind.inter_arrival_us,
            );
            line(&mut text, words);
            text.push_str(&arrival(kind.arrival));
        }
    }
    text
}

fn line(text: &mut String, words: String) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{words}");
}

fn comment(source: &str) -> String {
    source.lines().map(|words| format!("# {words}\n")).collect()
}

/// The keys of a law of times.
fn arrival(law: Arrival) -> String {
    match law {
        Arrival::Fixed => String::new(),
        Arrival::Exponential => "arrival = \"exponential\"\n".into(),
        Arrival::Poisson => "arrival = \"poisson\"\n".into(),
        Arrival::Normal(spread) => format!("arrival = \"normal\"\nspread = {spread:?}\n"),
        Arrival::Gamma(spread) => format!("arrival = \"gamma\"\nspread = {spread:?}\n"),
    }
}
