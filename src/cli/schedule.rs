//! `jostle schedule`.

use crate::error::Result;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> Result<()> {
    unimplemented!()
}
