//! `jostle shield`: the hidden process that traces a target while breakpoints of the CPU
//! are open in it.

use jostle_host::sys::tracer;
use jostle_measure::error::Error;
use jostle_measure::error::Result;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_: Args) -> Result<()> {
    tracer::trace(std::io::stdin().lock(), std::io::stdout())
        .map_err(|error| Error::environment(format!("cannot trace the target: {error}")))
}
