//! `jostle metrics`: how performance can be read, and what of it works here.

use super::output;
use jostle_measure::error::Result;
use jostle_measure::metric::METRICS;
use jostle_profile::Resolution;
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    syntax: &'static str,
    unit: &'static str,
    better: &'static str,
    window: &'static str,
    resolution: Resolution,
    cost: &'static str,
    targets: &'static str,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub fn run(args: Args) -> Result<()> {
    let rows: Vec<Row> = METRICS
        .iter()
        .map(|kind| {
            let reason = kind.unavailable();
            Row {
                name: kind.name,
                syntax: kind.syntax,
                unit: kind.unit,
                better: kind.better,
                window: kind.window_rule,
                resolution: kind.resolution,
                cost: kind.cost,
                targets: kind.targets,
                available: reason.is_none(),
                reason,
            }
        })
        .collect();
    match args.json {
        true => output::json(&rows),
        false => output::text(&table(&rows)),
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("Metrics for `jostle profile --metric`:\n");
    for row in rows {
        text += &format!("\n{}\n", row.syntax);
        for (label, words) in [
            ("unit", row.unit),
            ("better", row.better),
            ("window", row.window),
            ("reading", row.resolution.explain()),
            ("cost", row.cost),
            ("for", row.targets),
        ] {
            text += &format!("  {label:<9}{words}\n");
        }
        text += &match &row.reason {
            None => "  here     available\n".to_string(),
            Some(reason) => format!("  here     unavailable: {reason}\n"),
        };
    }
    text
}
