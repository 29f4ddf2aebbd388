//! `jostle guard`: the hidden process that outlives a killed profiler just
//! long enough to put its target right.

use jostle_measure::error::Result;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Descriptor of the page shared with the profiler
    #[arg(long)]
    page: i32,
}

pub fn run(args: Args) -> Result<()> {
    jostle_measure::workload::watch(args.page)
}
