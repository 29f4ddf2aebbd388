//! Scenarios of which one seed makes one outcome: clouds and consolidations.

use super::Args;
use super::write_json;
use crate::cli::output;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use jostle_simulate::InvalidKey;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
struct Document<'a, O, S> {
    scenario: &'a str,
    kind: &'a str,
    seeds: &'a [u64],
    /// One list, under the name that the kind gives it.
    #[serde(flatten)]
    summaries: BTreeMap<&'a str, &'a [S]>,
    /// By seed.
    runs: &'a [O],
}

/// Runs every seed and writes or prints what came of it. `file` is the name of
/// the scenario's file without its ending; the document has the scenario's name,
/// its kind, and the summaries under the third name.
pub fn run<O: Serialize + Send, S: Serialize>(
    args: &Args,
    file: &str,
    out: Option<&Path>,
    [scenario, kind, list]: [&str; 3],
    run: impl Fn(u64) -> std::result::Result<O, InvalidKey> + Sync,
    summarize: fn(&[O]) -> Vec<S>,
    page: impl Fn(&[O], &[S], Style) -> String,
) -> Result<()> {
    let seeds = args.all_seeds();
    let outcomes = args.pool()?.install(|| {
        let each = seeds.par_iter();
        each.map(|seed| {
            let named = |error| Error::request(format!("{file}, seed {seed}: {error}"));
            run(*seed).map_err(named)
        })
        .collect::<Result<Vec<_>>>()
    })?;
    let summaries = summarize(&outcomes);
    let document = Document {
        scenario,
        kind,
        seeds: &seeds,
        summaries: BTreeMap::from([(list, &summaries[..])]),
        runs: &outcomes,
    };
    if let Some(dir) = out {
        write_json(dir, file, &document)?;
    }
    match args.json {
        true => output::json(&document),
        false => output::text(&page(&outcomes, &summaries, Style::for_stdout())),
    }
}
