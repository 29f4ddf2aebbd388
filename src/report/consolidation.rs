//! What consolidating storage came to, as a person reads it.

use super::simulation::mean;
use super::simulation::percent;
use super::simulation::seeds;
use super::style::Style;
use super::style::table;
use super::text;
use jostle_simulate::consolidation::ConsolidationOutcome;
use jostle_simulate::consolidation::SchemeSummary;

/// One row per scheme, and how to read it. Outcomes are of one scenario, a seed
/// each.
pub fn page(
    name: &str,
    outcomes: &[ConsolidationOutcome],
    summaries: &[SchemeSummary],
    style: Style,
) -> String {
    let Some(first) = outcomes.first() else {
        return String::new();
    };
    let numbers: Vec<u64> = outcomes.iter().map(|outcome| outcome.seed).collect();
    let mut page = format!(
        "{}: {} instances on {} nodes, {} intervals, {}\n\n",
        text::clean(name),
        first.instances,
        first.nodes,
        first.intervals,
        seeds(&numbers)
    );
    page.push_str(&rows(summaries, style));
    page.push('\n');
    page.push_str(&text::wrap(
        "",
        "nodes on = share of nodes × time; energy = energy of a node for each instance over that \
         of the scheme; performance = share of the baseline, the mean over instances and \
         time; lost = share of instances × time that lose more than so much; bandwidth used = of \
         nodes that are on; moves = pieces moved after the first consolidation, and their share \
         of all bytes. ± is one standard error over seeds.",
        style.prose(),
    ));
    page
}

fn rows(summaries: &[SchemeSummary], style: Style) -> String {
    let titles = [
        "scheme",
        "nodes on",
        "energy",
        "performance",
        "lost >3 %",
        ">10 %",
        "bandwidth used",
        "moves",
        "of bytes",
    ];
    let rows = summaries.iter().map(|summary| {
        [
            summary.scheme.name().to_string(),
            percent(summary.active_share),
            mean(summary.energy_factor, 2),
            percent(summary.mean_performance),
            percent(summary.losing_over_3_percent),
            percent(summary.losing_over_10_percent),
            percent(summary.utilization),
            mean(summary.migrations, 0),
            percent(summary.migration_bandwidth_share),
        ]
    });
    table(style, titles, rows, &[0, 1, 2, 3])
}
