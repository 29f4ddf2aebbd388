//! Storage to consolidate, under several schemes.

use super::Args;
use super::write_json;
use crate::cli::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::consolidation;
use jostle_simulate::consolidation::ConsolidationOutcome;
use jostle_simulate::consolidation::ConsolidationScenario;
use jostle_simulate::consolidation::SchemeSummary;
use rayon::prelude::*;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    kind: &'static str,
    seeds: &'a [u64],
    schemes: &'a [SchemeSummary],
    /// By seed.
    runs: &'a [ConsolidationOutcome],
}

/// `file` is the name of the scenario's file without its ending.
pub fn run(
    scenario: &ConsolidationScenario,
    file: &str,
    args: &Args,
    out: Option<&Path>,
) -> Result<()> {
    let seeds = args.all_seeds();
    let outcomes = args.pool()?.install(|| {
        let each = seeds.par_iter();
        each.map(|seed| {
            let named = |error| Error::request(format!("{file}, seed {seed}: {error}"));
            scenario.run(*seed).map_err(named)
        })
        .collect::<Result<Vec<_>>>()
    })?;
    let summaries = SchemeSummary::all(&outcomes);
    let document = Document {
        scenario: file,
        kind: "consolidation",
        seeds: &seeds,
        schemes: &summaries,
        runs: &outcomes,
    };
    if let Some(dir) = out {
        write_json(dir, file, &document)?;
    }
    if args.json {
        return output::json(&document);
    }
    let style = Style::for_stdout();
    output::text(&consolidation::page(file, &outcomes, &summaries, style))
}
