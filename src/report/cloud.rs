//! What renting machines came to, as a person reads it.

use super::simulation::alone;
use super::simulation::mean;
use super::simulation::percent;
use super::simulation::seeds;
use super::style::Style;
use super::style::table;
use super::text;
use jostle_simulate::cloud::CloudOutcome;
use jostle_simulate::cloud::StrategySummary;

/// One row per strategy, those with profiles and those without apart, and how
/// to read it. Outcomes are of one scenario, a seed each.
pub fn page(outcomes: &[CloudOutcome], summaries: &[StrategySummary], style: Style) -> String {
    let Some(first) = outcomes.first() else {
        return String::new();
    };
    let numbers: Vec<u64> = outcomes.iter().map(|outcome| outcome.seed).collect();
    let [least, most] = first.load_cpus;
    let mut page = format!(
        "{}: {least:.0} to {most:.0} vCPUs, {}\n\n",
        text::clean(&first.name),
        seeds(&numbers)
    );
    page.push_str(&rows(summaries, style));
    page.push('\n');
    for words in notes(outcomes) {
        page.push_str(&text::wrap("", &words, style.prose()));
    }
    page.push_str(&text::wrap(
        "",
        "performance = time without interference / time from arrival to end, 1 is best, the mean over jobs; \
         worst 5 % = what all but 5 % of the jobs reach; QoS kept = share of jobs that keep it \
         while they run; cost in reserved vCPU-hours; reserved in use = share of reserved vCPUs; \
         released as poor = of instances on demand, those given back because a job missed its \
         QoS. ± is one standard error over seeds.",
        style.prose(),
    ));
    page
}

fn rows(summaries: &[StrategySummary], style: Style) -> String {
    let titles = [
        "strategy",
        "profiles",
        "performance",
        "worst 5 %",
        "QoS kept",
        "cost",
        "vs SR",
        "reserved",
        "in use",
        "on demand",
        "released as poor",
    ];
    let rows = summaries.iter().map(|summary| {
        [
            summary.strategy.name().to_string(),
            if summary.with_profiles { "yes" } else { "no" }.to_string(),
            mean(summary.performance, 3),
            mean(alone(summary.performance_p5), 3),
            percent(summary.qos_share),
            mean(alone(summary.cost), 0),
            mean(summary.cost_vs_sr, 2),
            mean(alone(summary.reserved_instances), 0),
            percent(alone(summary.reserved_utilization)),
            mean(alone(summary.on_demand_mean), 1),
            percent(alone(summary.poor_share)),
        ]
    });
    table(style, titles, rows, &[0, 2, 4, 6])
}

/// Which strategy is the cheapest for how long; of the first seed.
fn notes(outcomes: &[CloudOutcome]) -> Vec<String> {
    let first = &outcomes[0];
    let mut notes = Vec::new();
    for known in [true, false] {
        let those = first.cheapest.iter().filter(|it| it.with_profiles == known);
        let weeks: Vec<String> = those
            .map(|it| format!("{} from week {}", it.strategy.name(), it.from_week))
            .collect();
        if !weeks.is_empty() {
            notes.push(format!(
                "Cheapest {} profiles when repeated (seed {}): {}.",
                if known { "with" } else { "without" },
                first.seed,
                weeks.join(", ")
            ));
        }
    }
    notes
}
