//! `jostle schema`: the JSON Schema of a profile.

use super::output;
use crate::error::Result;
use jostle_profile as profile;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Result<()> {
    output::json(&profile::schema())
}
