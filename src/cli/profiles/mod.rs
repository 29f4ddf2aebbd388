//! `jostle profiles`: directories of many profiles.

mod diff;
mod export;
mod import;
mod list;
mod merge;
#[cfg(feature = "parquet")]
mod parquet;
mod prune;
mod scan;

use super::threads;
use clap::Subcommand;
use jostle_measure::error::Result;

/// Keep, list and export many profiles
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List profiles, one line each
    List(list::Args),
    /// Copy valid profiles into a directory, each under the name of its workload
    Import(import::Args),
    /// Print profiles as a table for statistics programs
    Export(export::Args),
    /// Show what differs between two profiles, as `compare` without a gate
    Diff(diff::Args),
    /// Merge the repeated runs of each program into one profile
    Merge(merge::Args),
    /// Find files that can go, and delete them with --delete
    Prune(prune::Args),
}

pub fn run(args: Args) -> Result<()> {
    threads::ready()?;
    match args.command {
        Command::List(args) => list::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Prune(args) => prune::run(args),
    }
}
