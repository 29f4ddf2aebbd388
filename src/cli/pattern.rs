//! `jostle pattern`: patterns for the sources of storage and network.

use super::output;
use jostle_host::inject::fit;
use jostle_host::inject::fit::capture;
use jostle_host::inject::fit::messages;
use jostle_host::inject::fit::trace;
use jostle_measure::console::note;
use jostle_measure::console::warning;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::document;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Fit a pattern to a recorded trace of block I/O or capture of a network
    ///
    /// A trace of block I/O gives a pattern for --storage-pattern, a capture one
    /// for --network-pattern. At most the first 256 MiB are read.
    Fit(FitArgs),
}

#[derive(Debug, clap::Args)]
struct FitArgs {
    /// The recording, as text. Block I/O: output of blkparse, a fio log
    /// (--write_lat_log with --log_offset=1), or block_bio_queue or
    /// block_rq_issue events. Network: output of tcpdump -tt -nn -q, or a table
    /// of time (seconds), size (bytes) and direction
    trace: PathBuf,
    /// How it is written: blktrace, fio, bio, tcpdump or csv [default: whichever
    /// fits]
    #[arg(long, value_parser = parse_format)]
    format: Option<Format>,
    /// Block I/O: device to fit, as in the trace, like 8,0 [default: the only one]
    #[arg(long, value_name = "MAJOR,MINOR")]
    device: Option<String>,
    /// Block I/O: ranges of the disk that are told apart [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128))]
    ranges: Option<u16>,
    /// Network: whose messages to fit: an address, an address and port like
    /// 10.0.0.1.443, or a direction of the table [default: the only one]
    #[arg(long, value_name = "SENDER")]
    from: Option<String>,
    /// Network: equal parts of the captured time that get a chain of their own
    /// [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    windows: Option<u16>,
    /// File for the pattern [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Storage(trace::Format),
    Network(capture::Format),
}

/// Most of a recording that is read, bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Ranges of the disk unless told otherwise.
const RANGES: u16 = 16;

fn parse_format(text: &str) -> std::result::Result<Format, String> {
    let storage = trace::Format::ALL.map(|format| (format.name(), Format::Storage(format)));
    let network = capture::Format::ALL.map(|format| (format.name(), Format::Network(format)));
    let mut all = storage.into_iter().chain(network);
    all.find_map(|(name, format)| (name == text).then_some(format))
        .ok_or_else(|| "give blktrace, fio, bio, tcpdump or csv".to_string())
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Fit(args) => fit_pattern(&args),
    }
}

fn fit_pattern(args: &FitArgs) -> Result<()> {
    let text = read(&args.trace)?;
    let is_capture = |format| capture::is_in(format, &text);
    let network = match args.format {
        Some(Format::Network(format)) => Some(format),
        Some(Format::Storage(_)) => None,
        None if capture::has_header(&text) => Some(capture::Format::Csv),
        None if trace::is_known(&text) => None,
        None => capture::Format::ALL.into_iter().find(|it| is_capture(*it)),
    };
    let (pattern, summary) = match network {
        Some(format) => fit_network(args, &text, format)?,
        None => fit_storage(args, &text)?,
    };
    let Some(out) = &args.out else {
        return output::text(&pattern);
    };
    document::replace(out, pattern.as_bytes())
        .map_err(|error| Error::request(format!("--out {}: {error}", out.display())))?;
    note!("wrote {}: {summary}", out.display());
    Ok(())
}

/// The pattern, and what it is in a line.
fn fit_storage(args: &FitArgs, text: &str) -> Result<(String, String)> {
    misplaced(args.from.is_some(), "--from", "network capture")?;
    misplaced(args.windows.is_some(), "--windows", "network capture")?;
    let format = match args.format {
        Some(Format::Storage(format)) => Some(format),
        _ => None,
    };
    let refuse = |error: &dyn Display| refuse(&args.trace, error);
    let read = trace::read(text, format, args.device.as_deref());
    let read = read.map_err(|error| match (args.format, error) {
        (None, trace::TraceError::Unrecognized) => refuse(
            &"none of the first lines is block I/O or a packet in a known format; give the text of blkparse, a \
              fio log, block_bio_queue or block_rq_issue events, tcpdump -tt -nn -q, or a table \
              of time, size and direction, and --format if it is not recognized",
        ),
        (_, error) => refuse(&error),
    })?;
    let ranges = usize::from(args.ranges.unwrap_or(RANGES));
    let fitted = fit::fit(&read, ranges).map_err(|error| refuse(&error))?;
    gaps(&args.trace, read.gaps, "lost events, or no I/O for 10 s");
    let source = format!(
        "Fitted by jostle pattern fit to {}, device {}.",
        name(&args.trace),
        read.device
    );
    let features = &fitted.features;
    let summary = format!(
        "{} ranges, {} kinds of I/O; the trace moved {:.2} MiB/s in {:.0} I/Os per second",
        fitted.pattern.states.len(),
        fitted.pattern.transitions.len(),
        features.per_second() * features.mean_bytes / 1_048_576.0,
        features.per_second()
    );
    Ok((fit::toml(&fitted, &source), summary))
}

/// The pattern, and what it is in a line.
fn fit_network(args: &FitArgs, text: &str, format: capture::Format) -> Result<(String, String)> {
    misplaced(args.device.is_some(), "--device", "trace of block I/O")?;
    misplaced(args.ranges.is_some(), "--ranges", "trace of block I/O")?;
    let refuse = |error: &dyn Display| refuse(&args.trace, error);
    let read = capture::read(text, format, args.from.as_deref()).map_err(|error| refuse(&error))?;
    let windows = usize::from(args.windows.unwrap_or(1));
    let fitted = messages::fit(&read, windows).map_err(|error| refuse(&error))?;
    gaps(&args.trace, read.gaps, "no message for 10 s");
    if read.dropped > 0 {
        warning!(
            "{}: the capture lacks {} packets that the kernel dropped; rates are too low by them",
            args.trace.display(),
            read.dropped
        );
    }
    let source = format!(
        "Fitted by jostle pattern fit to {}, messages from {}.",
        name(&args.trace),
        read.sender
    );
    let features = &fitted.features;
    let kinds = fitted.pattern.windows.iter();
    let summary = format!(
        "{} sizes, {} kinds of transitions; the capture holds {:.3} MB/s in {:.0} messages per \
         second",
        fitted.pattern.messages.len(),
        kinds.map(|it| it.transitions.len()).sum::<usize>(),
        features.per_second() * features.mean_bytes / 1e6,
        features.per_second()
    );
    Ok((fit::traffic_toml(&fitted, &source), summary))
}

fn refuse(file: &Path, problem: &dyn Display) -> Error {
    Error::request(format!("{}: {problem}", file.display()))
}

fn misplaced(given: bool, flag: &str, needs: &str) -> Result<()> {
    match given {
        false => Ok(()),
        true => Err(Error::request(format!(
            "{flag}: only for a {needs}; leave it out"
        ))),
    }
}

fn gaps(file: &Path, gaps: usize, why: &str) {
    if gaps > 0 {
        warning!(
            "{}: {gaps} gaps ({why}); the time across them is left out",
            file.display()
        );
    }
}

fn name(file: &Path) -> String {
    let name = file.file_name().map(Path::new).unwrap_or(file);
    name.display().to_string()
}

/// The text of the file, up to the last whole line of its first part where it is
/// very long.
fn read(file: &Path) -> Result<String> {
    // Opening a pipe would wait for its other end.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(refuse(file, &"not a regular file; write it to one first"));
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| refuse(file, &error))?;
    if let Some(reason) = binary(&bytes) {
        return Err(refuse(file, &reason));
    }
    if bytes.len() as u64 > MOST_BYTES {
        let line = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(line.map_or(0, |end| end + 1));
        warning!(
            "{}: only the first {} MiB are used; split the file to fit another part",
            file.display(),
            MOST_BYTES >> 20
        );
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// What to do with a recording that is not text.
fn binary(bytes: &[u8]) -> Option<&'static str> {
    const PCAP: &str = "a binary capture (pcap); print it as text with \
                        tcpdump -r FILE -tt -nn -q > capture.txt";
    let known: [(&[u8], &str); 9] = [
        (&[0xd4, 0xc3, 0xb2, 0xa1], PCAP),
        (&[0xa1, 0xb2, 0xc3, 0xd4], PCAP),
        (&[0x4d, 0x3c, 0xb2, 0xa1], PCAP),
        (&[0xa1, 0xb2, 0x3c, 0x4d], PCAP),
        (&[0x0a, 0x0d, 0x0d, 0x0a], PCAP),
        (
            &[0x07, 0x74, 0x61, 0x65],
            "a binary trace of blktrace; print it as text with blkparse -i FILE > trace.txt",
        ),
        (
            b"PERFILE2",
            "a binary recording of perf; print it as text with perf script -i FILE > trace.txt",
        ),
        (&[0x1f, 0x8b], "compressed; unpack it with gunzip first"),
        (
            &[0x28, 0xb5, 0x2f, 0xfd],
            "compressed; unpack it with unzstd first",
        ),
    ];
    let found = known
        .into_iter()
        .find(|(magic, _)| bytes.starts_with(magic));
    found.map(|(_, what)| what)
}
