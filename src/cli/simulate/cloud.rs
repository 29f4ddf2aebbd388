//! Machines to rent for a load, under several strategies.

use super::Args;
use super::write_json;
use crate::cli::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::cloud;
use jostle_simulate::cloud::CloudOutcome;
use jostle_simulate::cloud::CloudScenario;
use jostle_simulate::cloud::StrategySummary;
use rayon::prelude::*;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    kind: &'static str,
    seeds: &'a [u64],
    strategies: &'a [StrategySummary],
    /// By seed.
    runs: &'a [CloudOutcome],
}

/// `file` is the name of the scenario's file without its ending.
pub fn run(scenario: &CloudScenario, file: &str, args: &Args, out: Option<&Path>) -> Result<()> {
    let seeds = args.all_seeds();
    let outcomes = args.pool()?.install(|| {
        let each = seeds.par_iter();
        each.map(|seed| {
            let named = |error| Error::request(format!("{file}, seed {seed}: {error}"));
            scenario.run(*seed).map_err(named)
        })
        .collect::<Result<Vec<_>>>()
    })?;
    let summaries = StrategySummary::all(&outcomes);
    let document = Document {
        scenario: &scenario.name,
        kind: "cloud",
        seeds: &seeds,
        strategies: &summaries,
        runs: &outcomes,
    };
    if let Some(dir) = out {
        write_json(dir, file, &document)?;
    }
    if args.json {
        return output::json(&document);
    }
    let style = Style::for_stdout();
    output::text(&cloud::page(&outcomes, &summaries, style))
}
