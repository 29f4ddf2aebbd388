//! `jostle explain`: everything a profile says, of all resources or of one.

use super::output;
use crate::report::Style;
use crate::report::profile_details;
use crate::report::resource_page;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile as profile;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The profile
    file: PathBuf,
    /// Only what it says of this resource: curves, reasons, doubts
    resource: Option<String>,
}

pub fn run(args: Args) -> Result<()> {
    let profile = profile::load(&args.file).map_err(Error::request)?;
    let style = Style::for_stdout();
    let Some(id) = &args.resource else {
        return output::text(&profile_details(&profile, style));
    };
    let page = resource_page(&profile, id, style);
    let named = |reason| Error::request(format!("{}: {reason}", args.file.display()));
    output::text(&page.map_err(named)?)
}
