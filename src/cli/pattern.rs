//! `jostle pattern`: patterns for the storage source.

use super::output;
use crate::console::note;
use crate::console::warning;
use crate::error::Error;
use crate::error::Result;
use crate::inject::fit;
use crate::inject::fit::trace;
use crate::inject::fit::trace::Format;
use jostle_profile::document;
use std::path::Path;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Fit a pattern for --storage-pattern to a recorded trace of block I/O
    Fit(FitArgs),
}

#[derive(Debug, clap::Args)]
struct FitArgs {
    /// The trace: output of blkparse, a fio log (--write_lat_log with
    /// --log_offset=1), or block_bio_queue or block_rq_issue events as text
    trace: PathBuf,
    /// How it is written: blktrace, fio or bio [default: whichever fits]
    #[arg(long, value_parser = parse_format)]
    format: Option<Format>,
    /// Device to fit, as in the trace, like 8,0 [default: the only one]
    #[arg(long, value_name = "MAJOR,MINOR")]
    device: Option<String>,
    /// Ranges of the disk that are told apart
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=128))]
    ranges: u16,
    /// File for the pattern [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn parse_format(text: &str) -> std::result::Result<Format, String> {
    let found = Format::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| "give blktrace, fio or bio".to_string())
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Fit(args) => fit_pattern(&args),
    }
}

fn fit_pattern(args: &FitArgs) -> Result<()> {
    let shown = args.trace.display();
    let refuse = |problem: String| Error::request(format!("{shown}: {problem}"));
    let bytes = std::fs::read(&args.trace).map_err(|error| refuse(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    let read = trace::read(&text, args.format, args.device.as_deref());
    let read = read.map_err(|error| refuse(error.to_string()))?;
    let fitted = fit::fit(&read, usize::from(args.ranges));
    let fitted = fitted.map_err(|error| refuse(error.to_string()))?;
    if read.gaps > 0 {
        warning!(
            "{shown}: {} gaps (lost events, or no I/O for 10 s); the time across them is left out",
            read.gaps
        );
    }
    let name = args.trace.file_name().map(Path::new).unwrap_or(&args.trace);
    let source = format!(
        "Fitted by jostle pattern fit to {}, device {}.",
        name.display(),
        read.device
    );
    let pattern = fit::toml(&fitted, &source);
    let Some(out) = &args.out else {
        return output::text(&pattern);
    };
    document::replace(out, pattern.as_bytes())
        .map_err(|error| Error::request(format!("--out {}: {error}", out.display())))?;
    let features = &fitted.features;
    note!(
        "wrote {}: {} ranges, {} kinds of I/O; the trace moved {:.2} MiB/s in {:.0} I/Os per second",
        out.display(),
        fitted.pattern.states.len(),
        fitted.pattern.transitions.len(),
        features.per_second() * features.mean_bytes / 1_048_576.0,
        features.per_second()
    );
    Ok(())
}
