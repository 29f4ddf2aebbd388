//! `jostle schedule`: place applications on nodes, and say why; once, or as a
//! co-process that answers events.

use super::output;
use super::placing::Placing;
use super::placing::build;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use crate::report::Style;
use crate::report::placement;
use jostle_schedule::Explanation;
use jostle_schedule::NoPlacement;
use jostle_schedule::NodeEntry;
use jostle_schedule::NodesFile;
use jostle_schedule::PlacementRequest;
use jostle_schedule::Policy;
use serde::Serialize;
use std::io;

/// Places every profile in a directory once, in the order of names, each next
/// to those placed before it. With --stdin, places and moves applications as
/// events tell, one JSON object a line, each answered at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    placing: Placing,
    /// Place only this workload of --apps; may be given more than once
    #[arg(long = "app", value_name = "NAME")]
    only: Vec<String>,
    /// Read events from standard input and answer each with JSON lines: arrive,
    /// depart, node-up, node-down, profile-changed, move-cost, state
    #[arg(long, conflicts_with_all = ["only", "json"])]
    stdin: bool,
    /// Print one JSON document
    #[arg(long, conflicts_with = "explain")]
    json: bool,
}

#[derive(Serialize)]
struct Outcome<'a> {
    policy: &'static str,
    placed: &'a [Explanation],
    not_placed: &'a [NoPlacement],
}

pub fn run(args: Args) -> Result<()> {
    if args.stdin {
        return stream(&args);
    }
    let missing = |flag: &str| Error::request(format!("{flag} is missing; or use --stdin"));
    let policy = args.placing.policy()?;
    let file = args.placing.nodes_file()?;
    let file = file.ok_or_else(|| missing("--nodes"))?;
    if args.placing.apps.is_none() {
        return Err(missing("--apps"));
    }
    once(&args, &file, policy)
}

/// Places every application of `--apps`.
fn once(args: &Args, file: &NodesFile, mut policy: Box<dyn Policy>) -> Result<()> {
    let known = args.placing.known()?;
    let names = known.to_place(&args.only)?;
    for (name, demand) in &file.demands {
        known.get(file, "name", name, demand.line)?;
    }
    let (mut cluster, apps) = build(file, &known)?;
    for (name, demand) in &file.demands {
        for platform in demand.platforms.keys() {
            let there = |entry: &NodeEntry| entry.node.platform.as_ref() == Some(platform);
            if !file.nodes.iter().any(there) {
                warning!("app `{name}` has a speed on platform `{platform}`, which no node has");
            }
        }
    }
    let (mut placed, mut not_placed) = (Vec::new(), Vec::new());
    for name in &names {
        let app = &apps[name];
        let wanted = file.demands.get(name);
        let request = PlacementRequest {
            target: wanted.and_then(|wanted| wanted.target),
            spread: wanted.is_some_and(|wanted| wanted.spread),
            ..PlacementRequest::of(app)
        };
        match policy.place(&request, &cluster) {
            Ok((choice, explanation)) => {
                choice
                    .start(&mut cluster, app, app.demand())
                    .map_err(Error::request)?;
                for part in &choice.parts {
                    policy.changed(&cluster, part.node, 0.0);
                }
                placed.push(explanation);
            }
            Err(refusal) => not_placed.push(refusal),
        }
    }

    if args.json {
        output::json(&Outcome {
            policy: policy.name(),
            placed: &placed,
            not_placed: &not_placed,
        })?;
    } else {
        output::text(&placement::page(
            policy.name(),
            &placed,
            &not_placed,
            &cluster,
            args.placing.explain,
            Style::for_stdout(),
        ))?;
    }
    if not_placed.is_empty() {
        Ok(())
    } else {
        Err(Error::Gate(format!(
            "{} of {} applications could not be placed",
            not_placed.len(),
            names.len()
        )))
    }
}

/// Answers events until there are no more.
fn stream(args: &Args) -> Result<()> {
    let mut stream = args.placing.stream()?;
    match stream.run(io::stdin().lock(), io::stdout().lock()) {
        // The reader had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Error::environment(format!(
            "the stream of events broke: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}
