//! `jostle schema`: the JSON Schemas of what jostle writes.

use super::output;
use jostle_measure::error::Result;

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
    output::text(args.of.schema())
}

impl Document {
    /// A file that the test here makes from the types of what is written.
    fn schema(self) -> &'static str {
        match self {
            Document::Profile => include_str!("../../profiles/jostle-profile-1.schema.json"),
            Document::Pairs => include_str!("../../profiles/jostle-pairs-1.schema.json"),
            Document::Blame => include_str!("../../profiles/jostle-blame-1.schema.json"),
            Document::Node => include_str!("../../profiles/jostle-node-1.schema.json"),
            Document::Provision => include_str!("../../profiles/jostle-provision-1.schema.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use jostle_profile as profile;
    use std::path::Path;

    #[test]
    fn the_schemas_are_those_of_the_types() {
        for document in Document::value_variants() {
            let made = profile::layout::json(&match document {
                Document::Profile => profile::schema(),
                Document::Pairs => profile::pairs_schema(),
                Document::Blame => profile::blame_schema(),
                Document::Node => profile::node_schema(),
                Document::Provision => profile::provision_schema(),
            });
            let made = made.unwrap();
            if std::env::var_os("JOSTLE_RECORD").is_some() {
                let name = document.to_possible_value().unwrap();
                let name = format!("profiles/jostle-{}-1.schema.json", name.get_name());
                std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(name), &made).unwrap();
            } else {
                assert!(
                    made == document.schema(),
                    "{document:?}: refresh it: JOSTLE_RECORD=1 cargo test --lib the_schemas"
                );
            }
        }
    }
}
