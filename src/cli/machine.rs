//! `jostle machine`.

use crate::error::Error;
use crate::error::Result;
use crate::machine::Machine;
use serde::Serialize;
use std::io;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What is read, and what follows from it.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    fingerprint: String,
    smt: bool,
    memory_headroom_bytes: u64,
    memory_headroom_bound: String,
    #[serde(flatten)]
    machine: &'a Machine,
}

pub fn run(args: Args) -> Result<()> {
    let machine = Machine::detect();
    let text = match args.json {
        false => machine.to_string(),
        true => json(&machine)?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::environment(
            format!("the result could not be written to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

fn json(machine: &Machine) -> Result<String> {
    let (memory_headroom_bytes, memory_headroom_bound) = machine.memory_headroom_bytes();
    let document = Document {
        format: "jostle-machine/1",
        fingerprint: machine.fingerprint(),
        smt: machine.smt(),
        memory_headroom_bytes,
        memory_headroom_bound,
        machine,
    };
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|error| Error::environment(format!("the machine cannot be put as JSON: {error}")))
}
