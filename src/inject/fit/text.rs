//! A fitted pattern as the file that `--storage-pattern` takes.

use super::chain::Fitted;
use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::Arrival;
use jostle_kernels::storage::pattern::Operation;
use std::fmt::Write;

/// The file; `source` says in a line what it was fitted to.
pub fn toml(fitted: &Fitted, source: &str) -> String {
    let features = &fitted.features;
    let pattern = &fitted.pattern;
    let mut text = String::new();
    let mut line = |words: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{words}");
    };
    for words in source.lines() {
        line(format!("# {words}"));
    }
    line(format!(
        "# {} I/Os over {} MiB: {:.1} per second, {:.1} % reads, {:.1} % at random, {:.1} KiB each.",
        fitted.ios,
        fitted.covers_bytes >> 20,
        features.per_second(),
        100.0 * features.read_share,
        100.0 * features.random_share,
        features.mean_bytes / 1024.0
    ));
    if fitted.sizes_merged {
        line("# Sizes were put together, since there were too many kinds of I/O.".into());
    }
    line(format!("seed = {}", pattern.seed));
    for state in &pattern.states {
        let [from, to] = state.range_percent;
        line(format!(
            "\n[[state]]\nname = \"{}\"\nrange_percent = [{from}, {to}]",
            state.name
        ));
    }
    for kind in &pattern.transitions {
        let name = |state: usize| &pattern.states[state].name;
        line(format!(
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
        ));
        match kind.arrival {
            Arrival::Fixed => {}
            Arrival::Exponential => line("arrival = \"exponential\"".into()),
            Arrival::Poisson => line("arrival = \"poisson\"".into()),
            Arrival::Normal(spread) => line(format!("arrival = \"normal\"\nspread = {spread:?}")),
            Arrival::Gamma(spread) => line(format!("arrival = \"gamma\"\nspread = {spread:?}")),
        }
    }
    text
}
