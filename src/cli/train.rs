//! `jostle train`: learn from labelled windows when a workload will be slow on a node.

use super::output;
use super::output::Destination;
use crate::report::Style;
use crate::report::training;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_schedule::admission;
use jostle_schedule::admission::Confidence;
use jostle_schedule::admission::TrainingOptions;
use std::path::PathBuf;

/// Learn when a workload will be slow on a node, for `jostle schedule --admission wrangler`
///
/// Reads labelled windows as `jostle agent` writes them ([windows] in its
/// configuration), or CSV with columns node, straggler (0 or 1), optionally
/// workload, and counters. Trains a linear support vector machine for each pair of
/// node and workload, and one that all share with a part per node and workload, on
/// the first two thirds of the time; judges both on the later third.
///
/// Example:
///   jostle train /var/lib/jostle/windows/*.csv -o model.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// CSV files of windows
    #[arg(value_name = "WINDOWS.csv", required = true)]
    windows: Vec<PathBuf>,
    /// Write the model into this file
    #[arg(short, long, value_name = "MODEL")]
    out: Option<PathBuf>,
    /// Veto above this probability, 0.5 to 1, or `tuned`: the most accurate one on
    /// windows held out
    #[arg(long, value_name = "P", default_value = "tuned", value_parser = confidence)]
    confidence: Confidence,
    /// Seed of the order in which windows are visited
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn confidence(text: &str) -> std::result::Result<Confidence, String> {
    if text == "tuned" {
        return Ok(Confidence::Tuned);
    }
    match text.parse::<f64>() {
        Ok(p) if (0.5..1.0).contains(&p) => Ok(Confidence::Above(p)),
        _ => Err("write a number that is at least 0.5 and below 1, or `tuned`".into()),
    }
}

pub fn run(args: Args) -> Result<()> {
    let out = args.out.as_deref();
    let out = out
        .map(|path| Destination::named("--out", path))
        .transpose()?;
    let options = TrainingOptions {
        confidence: args.confidence,
        seed: args.seed,
    };
    let model = admission::train(&args.windows, options).map_err(Error::request)?;
    if let Some(out) = out {
        out.replace(model.to_json().as_bytes())?;
    }
    match args.json {
        true => output::json(model.report()),
        false => output::text(&training::page(model.report(), Style::for_stdout())),
    }
}
