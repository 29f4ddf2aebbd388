//! The command line: one file per subcommand.

mod agent;
mod blame;
mod classify;
mod compare;
mod compare_run;
mod completions;
mod counters;
mod demo;
#[cfg(test)]
mod documented;
mod duration;
mod evaluate;
mod explain;
#[cfg(feature = "server")]
mod extender;
mod gate;
mod guard;
mod hooks;
mod interrupt;
mod list;
mod load;
mod machine;
mod man;
mod merge;
mod metric;
mod metrics;
mod network;
mod output;
mod overview;
mod pairs;
mod pattern;
mod place_local;
mod population;
mod predict;
mod profile;
mod profiles;
mod progress;
mod provision;
mod release;
mod report;
mod requests;
mod run;
mod scale;
mod schedule;
mod schema;
mod select;
mod serve;
mod shield;
mod show;
mod simulate;
mod sink;
mod slurm;
mod target;
mod threads;
mod train;
mod training;
mod validate;
mod worker;

use clap::CommandFactory;
use clap::FromArgMatches;
use clap::Parser;
use clap::Subcommand;
use jostle_measure::error::Result;

/// Measures how much interference an application tolerates and how much it
/// causes, resource by resource.
#[derive(Debug, Parser)]
#[command(name = "jostle", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the sources of interference and where each runs on this machine
    List(list::Args),
    /// Show what this machine is: CPUs, caches, memory, limits, counters
    Machine(machine::Args),
    /// Run sources of interference without a target and show what they achieve
    Run(run::Args),
    /// Show live what a program and the machine do, by every counter there is
    Counters(Box<counters::Args>),
    /// Generate load at a fixed rate, or find a server's maximum sustainable rate
    Load(Box<load::Args>),
    /// Measure the sensitivity vector of a program
    Profile(Box<profile::Args>),
    Compare(compare::Args),
    Merge(merge::Args),
    Profiles(profiles::Args),
    /// List the metrics: how performance can be read, and what works here
    Metrics(metrics::Args),
    Pairs(Box<pairs::Args>),
    Blame(Box<blame::Args>),
    Agent(agent::Args),
    #[cfg(feature = "server")]
    Extender(Box<extender::Args>),
    /// Print a profile on one screen
    Show(show::Args),
    /// Print everything a profile says, of all resources or of one
    Explain(explain::Args),
    Report(report::Args),
    /// Check every source: linear, strong, and without effect on other resources
    Validate(validate::Args),
    /// Predict the performance of co-located programs from their profiles
    Predict(predict::Args),
    /// Infer the entries of a profile that were not measured from other profiles
    Classify(classify::Args),
    /// Compare predictions with recorded co-locations
    Evaluate(evaluate::Args),
    Train(train::Args),
    /// Place applications on nodes by their profiles
    Schedule(schedule::Args),
    PlaceLocal(Box<place_local::Args>),
    Provision(provision::Args),
    /// Place applications for schedulers that connect to a socket
    Serve(serve::Args),
    Slurm(slurm::Args),
    /// Let policies compete on a simulated cluster
    Simulate(simulate::Args),
    /// Fit a pattern of I/O or messages to a recorded trace or network capture
    Pattern(pattern::Args),
    Release(release::Args),
    Sink(sink::Args),
    /// Print the JSON Schema of what jostle writes
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// Run a built-in demo target until killed
    Demo(demo::Args),
    /// A source of interference; started by jostle itself
    #[command(hide = true)]
    Worker(worker::Args),
    /// Keeps a target safe when the profiler is killed; started by jostle itself
    #[command(hide = true)]
    Guard(guard::Args),
    /// Keeps a target alive while breakpoints are open in it; started by jostle itself
    #[command(hide = true)]
    Shield(shield::Args),
}

/// The command line as people are shown it: without what jostle starts itself.
fn visible() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set());
    let about = all.get_about().cloned().unwrap_or_default();
    clap::Command::new("jostle")
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .subcommands(shown.cloned())
}

impl Cli {
    /// What was asked for. Ends the process where that is help, or wrong.
    pub fn asked() -> Cli {
        let matches = overview::grouped(Cli::command()).get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    pub fn run(self) -> Result<()> {
        match self.command {
            Command::List(args) => list::run(args),
            Command::Machine(args) => machine::run(args),
            Command::Run(args) => run::run(args),
            Command::Counters(args) => counters::run(*args),
            Command::Load(args) => load::run(*args),
            Command::Profile(args) => profile::run(*args),
            Command::Compare(args) => compare::run(args),
            Command::Merge(args) => merge::run(args),
            Command::Profiles(args) => profiles::run(args),
            Command::Metrics(args) => metrics::run(args),
            Command::Pairs(args) => pairs::run(*args),
            Command::Blame(args) => blame::run(*args),
            Command::Agent(args) => agent::run(args),
            #[cfg(feature = "server")]
            Command::Extender(args) => extender::run(*args),
            Command::Show(args) => show::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Report(args) => report::run(args),
            Command::Validate(args) => validate::run(args),
            Command::Predict(args) => predict::run(args),
            Command::Classify(args) => classify::run(args),
            Command::Evaluate(args) => evaluate::run(args),
            Command::Train(args) => train::run(args),
            Command::Schedule(args) => schedule::run(args),
            Command::PlaceLocal(args) => place_local::run(*args),
            Command::Provision(args) => provision::run(args),
            Command::Serve(args) => serve::run(args),
            Command::Slurm(args) => slurm::run(args),
            Command::Simulate(args) => simulate::run(args),
            Command::Pattern(args) => pattern::run(args),
            Command::Release(args) => release::run(args),
            Command::Sink(args) => sink::run(args),
            Command::Schema(args) => schema::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Man(args) => man::run(args),
            Command::Demo(args) => demo::run(args),
            Command::Worker(args) => worker::run(args),
            Command::Guard(args) => guard::run(args),
            Command::Shield(args) => shield::run(args),
        }
    }
}
