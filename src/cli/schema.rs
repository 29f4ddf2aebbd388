//! `jostle schema`: the JSON Schemas of what jostle writes.

use super::output;
use crate::error::Result;
use jostle_profile as profile;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which kind of file
    #[arg(value_enum, default_value = "profile")]
    of: Document,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Document {
    /// What `jostle profile` writes
    Profile,
    /// What `jostle pairs` writes
    Pairs,
    /// What `jostle blame` writes
    Blame,
    /// What `jostle agent` shows of its node
    Node,
    /// What `jostle provision --json` prints
    Provision,
}

pub fn run(args: Args) -> Result<()> {
    output::json(&match args.of {
        Document::Profile => profile::schema(),
        Document::Pairs => profile::pairs_schema(),
        Document::Blame => profile::blame_schema(),
        Document::Node => profile::node_schema(),
        Document::Provision => profile::provision_schema(),
    })
}
