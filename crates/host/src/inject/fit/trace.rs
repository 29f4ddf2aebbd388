//! Block I/O as blktrace, fio and the kernel's tracepoints write it down.

use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Io {
    pub at_us: f64,
    pub write: bool,
    /// First byte on its device.
    pub offset: u64,
    pub bytes: u32,
}

impl Io {
    /// The byte behind its last; `None` where no device can be so large.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.bytes))
    }
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What `blkparse` prints.
    Blktrace,
    /// What fio writes with `--write_lat_log` and `--log_offset=1`.
    Fio,
    /// `block_bio_queue` or `block_rq_issue`, as `trace-cmd report`, `perf
    /// script` or the file `trace` print them.
    Bio,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Blktrace, Format::Fio, Format::Bio];

    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Fio => "fio",
            Format::Bio => "bio",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a trace gives no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    #[error(
        "no line is block I/O as {0} writes it; give --format blktrace (blkparse), fio \
         (--write_lat_log with --log_offset=1) or bio (block_bio_queue, block_rq_issue)"
    )]
    NoIo(&'static str),
    #[error(
        "none of its first {LOOKED_AT} lines (at most {} MiB) is block I/O in a known format; \
         give --format blktrace, fio or bio to read all of it",
        LOOKED_AT_BYTES >> 20
    )]
    Unrecognized,
    #[error("holds I/O of several devices; name one with --device: {0}")]
    Devices(String),
    #[error("holds no I/O of the device {asked}; it holds: {found}")]
    OtherDevice { asked: String, found: String },
    #[error("holds {found} I/Os; {needed} are the fewest that a pattern can be fitted to")]
    TooFew { found: usize, needed: usize },
    #[error("all I/Os have the same time; a fio log counts in milliseconds: record a longer run")]
    NoTime,
}

/// I/O of one device in the order of time, in stretches between which something
/// is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub device: String,
    pub stretches: Vec<Vec<Io>>,
    /// Where events were lost, or nothing happened for too long.
    pub gaps: usize,
    /// Lines that are not I/O of this device.
    pub other_lines: usize,
}

/// A pause of this length is a gap: the target was not at work.
const LONGEST_US: f64 = 10e6;

/// What one line is.
enum Line {
    Io(String, Io),
    Lost,
    Other,
}

/// Lines that are looked at to tell what a recording is, and bytes of them.
const LOOKED_AT: usize = 100_000;
const LOOKED_AT_BYTES: usize = 16 << 20;

/// The lines of `text` that tell what it is.
pub(super) fn first_lines(text: &str) -> impl Iterator<Item = &str> {
    let most = LOOKED_AT_BYTES.min(text.len());
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].lines().take(LOOKED_AT)
}

/// Whether one of the first lines of `text` is block I/O in a known format.
pub fn is_known(text: &str) -> bool {
    recognized(text).is_some()
}

/// The first format that one of the first lines of `text` is written in.
fn recognized(text: &str) -> Option<Format> {
    let is = |format: &Format| first_lines(text).any(|line| is_io(*format, line));
    Format::ALL.into_iter().find(is)
}

/// Reads `text`; without a format the first one that one of the first lines is
/// written in, without a device the only one that there is.
///
/// # Errors
/// No I/O in it, or of several devices.
pub fn read(text: &str, format: Option<Format>, device: Option<&str>) -> Result<Trace, TraceError> {
    let Some(format) = format.or_else(|| recognized(text)) else {
        return Err(TraceError::Unrecognized);
    };
    // Where queueing was traced, what follows is the same I/O again.
    let queued = text.lines().any(|line| queues(format, line));
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    let mut other = 0;
    for line in text.lines() {
        let parsed = match queued && is_io(format, line) && !queues(format, line) {
            true => Line::Other,
            false => parse(format, line),
        };
        match &parsed {
            Line::Io(device, _) => *found.entry(device.clone()).or_default() += 1,
            Line::Lost => {}
            Line::Other => {
                other += 1;
                continue;
            }
        }
        lines.push(parsed);
    }
    if found.is_empty() {
        return Err(TraceError::NoIo(format.name()));
    }
    let list: Vec<String> = found
        .iter()
        .map(|(device, count)| format!("{device} ({count} I/Os)"))
        .collect();
    let list = list.join(", ");
    let device = match (device, found.len()) {
        (Some(asked), _) if !found.contains_key(asked) => {
            let asked = asked.to_string();
            return Err(TraceError::OtherDevice { asked, found: list });
        }
        (Some(asked), _) => asked.to_string(),
        (None, 1) => found.keys().next().cloned().unwrap_or_default(),
        (None, _) => return Err(TraceError::Devices(list)),
    };
    Ok(stretches(device, lines, other))
}

/// `other`: how many lines are none of `lines`.
fn stretches(device: String, lines: Vec<Line>, mut other: usize) -> Trace {
    let mut parted: Vec<Vec<Io>> = Vec::new();
    // Processors write for themselves: times may be a little out of order.
    let mut stretch: Vec<Io> = Vec::new();
    let mut close = |stretch: &mut Vec<Io>, gaps: &mut usize| {
        stretch.sort_by_number(|it| it.at_us);
        let parts = stretch.chunk_by(|a, b| b.at_us - a.at_us <= LONGEST_US);
        let parts: Vec<Vec<Io>> = parts.map(<[Io]>::to_vec).collect();
        *gaps += parts.len().saturating_sub(1);
        parted.extend(parts);
        stretch.clear();
    };
    let mut gaps = 0;
    for line in lines {
        match line {
            Line::Io(of, io) if of == device => stretch.push(io),
            Line::Lost => {
                gaps += usize::from(!stretch.is_empty());
                close(&mut stretch, &mut gaps);
            }
            Line::Io(..) | Line::Other => other += 1,
        }
    }
    close(&mut stretch, &mut gaps);
    Trace {
        device,
        stretches: parted,
        gaps,
        other_lines: other,
    }
}

fn is_io(format: Format, line: &str) -> bool {
    matches!(parse(format, line), Line::Io(..))
}

/// Whether the line tells of I/O that is handed to the kernel's block layer.
fn queues(format: Format, line: &str) -> bool {
    match format {
        Format::Blktrace => line.split_ascii_whitespace().nth(5) == Some("Q"),
        Format::Bio => line.contains("block_bio_queue:"),
        Format::Fio => true,
    }
}

fn parse(format: Format, line: &str) -> Line {
    if line.contains("LOST") && line.contains("EVENTS") || line.contains("Skips:") {
        return Line::Lost;
    }
    let io = match format {
        Format::Blktrace => blktrace(line),
        Format::Fio => fio(line),
        Format::Bio => tracepoint(line),
    };
    io.map_or(Line::Other, |(device, io)| Line::Io(device, io))
}

/// `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]`: queued or issued.
fn blktrace(line: &str) -> Option<(String, Io)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [device, _, _, time, _, action, kind, sector, "+", count, ..] = words[..] else {
        return None;
    };
    if !matches!(action, "Q" | "D") || !device.contains(',') {
        return None;
    }
    let seconds: f64 = time.parse().ok()?;
    Some((device.into(), io(seconds * 1e6, kind, sector, count)?))
}

/// `dd-12 [001] ..... 5.000001: block_bio_queue: 254,0 R 123 + 8 [dd]`, with
/// `perf`'s own words around.
fn tracepoint(line: &str) -> Option<(String, Io)> {
    let at = line
        .find("block_bio_queue:")
        .or(line.find("block_rq_issue:"))?;
    let seconds = line[..at].split_ascii_whitespace().rev().find_map(|word| {
        let number = word.strip_suffix(':')?;
        number.contains('.').then(|| number.parse::<f64>().ok())?
    })?;
    let rest = line[at..].split_once(':')?.1;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let plus = words.iter().position(|word| *word == "+")?;
    let (device, kind) = (words.first()?, words.get(1)?);
    let io = io(
        seconds * 1e6,
        kind,
        words.get(plus.checked_sub(1)?)?,
        words.get(plus + 1)?,
    )?;
    Some((device.to_string(), io))
}

/// `5, 73000, 0, 4096, 8192`: milliseconds, latency, direction, size, offset;
/// fio adds a priority behind.
fn fio(line: &str) -> Option<(String, Io)> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok();
    if !(5..=7).contains(&words.len()) {
        return None;
    }
    let (milliseconds, direction) = (number(0)?, number(2)?);
    let bytes = u32::try_from(number(3)?).ok().filter(|bytes| *bytes > 0)?;
    let offset = words[4];
    let offset = match offset.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => offset.parse().ok()?,
    };
    let io = Io {
        at_us: milliseconds as f64 * 1e3,
        write: direction == 1,
        offset,
        bytes,
    };
    // 2 discards.
    (direction < 2 && io.end().is_some()).then(|| ("fio".to_string(), io))
}

/// `kind` is what the kernel calls rwbs; discards and flushes move nothing.
fn io(at_us: f64, kind: &str, sector: &str, sectors: &str) -> Option<Io> {
    const SECTOR: u64 = 512;
    let write = kind.contains('W');
    if kind.contains('D') || !(write || kind.contains('R')) {
        return None;
    }
    let sectors: u64 = sectors.parse().ok()?;
    let bytes = u32::try_from(sectors.checked_mul(SECTOR)?).ok()?;
    let offset = sector.parse::<u64>().ok()?.checked_mul(SECTOR)?;
    let io = Io {
        at_us,
        write,
        offset,
        bytes,
    };
    (bytes > 0 && at_us.is_finite() && io.end().is_some()).then_some(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLKTRACE: &str = "\
        254,0    1        1     0.000000000   697  Q   R 8 + 8 [dd]\n\
        254,0    1        2     0.000001000   697  D   R 8 + 8 [dd]\n\
        254,0    1        3     0.000500000   697  Q  WS 64 + 16 [dd]\n\
        254,0    1        4     0.000600000   697  Q  FWS [dd]\n\
        254,0    1        5     0.000700000   697  Q   D 0 + 8 [dd]\n\
        254,0    1        6     0.000800000   697  C   R 8 + 8 [0]\n\
        CPU1 (dd):\n Reads Queued: 1, 4KiB\n";

    #[test]
    fn what_is_queued_counts_once() {
        let trace = read(BLKTRACE, None, None).unwrap();
        assert_eq!(trace.device, "254,0");
        let io = |at_us, write, offset, bytes| Io {
            at_us,
            write,
            offset,
            bytes,
        };
        let expected = [io(0.0, false, 4096, 4096), io(500.0, true, 32_768, 8192)];
        assert_eq!(trace.stretches, [expected.to_vec()]);
        assert_eq!(trace.gaps, 0);
    }

    #[test]
    fn tracepoints_of_ftrace_and_perf() {
        let ftrace = "dd-12 [001] d..1. 5.000001: block_bio_queue: 254,0 R 123 + 8 [dd]\n";
        let perf = "  dd  12 [001]     5.000001: block:block_rq_issue: 254,0 RA 4096 () 123 + 8 \
                    none,0,0 [dd]\n";
        for text in [ftrace, perf] {
            let trace = read(text, None, None).unwrap();
            let io = trace.stretches[0][0];
            assert_eq!((io.offset, io.bytes, io.write), (123 * 512, 4096, false));
            assert!((io.at_us - 5_000_001.0).abs() < 1e-3);
        }
    }

    #[test]
    fn a_fio_log_with_offsets() {
        let text = "0, 73000, 0, 4096, 0, 0\n3, 81000, 1, 8192, 0x1000, 0\n4, 1, 2, 4096, 0, 0\n";
        let trace = read(text, None, None).unwrap();
        assert_eq!(trace.stretches[0].len(), 2);
        assert_eq!(trace.stretches[0][1].offset, 4096);
        assert!(read("0, 73000, 0, 4096\n", None, None).is_err());
    }

    #[test]
    fn what_no_device_can_hold_is_no_io() {
        let bio = |sector: u64, sectors: u64| {
            format!("dd-1 [001] ..... 1.0: block_bio_queue: 8,0 R {sector} + {sectors} [dd]\n")
        };
        let blktrace =
            |sector: u64, sectors: u64| format!("8,0 0 1 0.5 7 Q R {sector} + {sectors} [dd]\n");
        let fio = |offset: u64| format!("0, 73000, 0, 4096, {offset}, 0\n");
        let is_io = |line: String| match read(&line, None, None) {
            Ok(trace) => trace.stretches[0].len() == 1,
            Err(error) => {
                assert_eq!(error, TraceError::Unrecognized, "{line}");
                false
            }
        };
        assert!(is_io(bio(8, 8)) && is_io(blktrace(8, 8)) && is_io(fio(8)));
        // Bytes, place and end that are more than 64 bits can hold.
        for (sector, sectors) in [(8, 1 << 55), (1 << 55, 8), ((1 << 55) - 1, 8)] {
            assert!(!is_io(bio(sector, sectors)), "{sector} {sectors}");
            assert!(!is_io(blktrace(sector, sectors)), "{sector} {sectors}");
        }
        assert!(!is_io(fio(u64::MAX - 4095)));
        assert!(is_io(fio(u64::MAX - 4096)));
    }

    #[test]
    fn devices_are_told_apart() {
        let two = format!("{BLKTRACE}8,16 1 7 0.1 697 Q R 8 + 8 [dd]\n");
        let why = read(&two, None, None).unwrap_err().to_string();
        assert!(
            why.contains("--device") && why.contains("8,16 (1 I/Os)"),
            "{why}"
        );
        assert_eq!(
            read(&two, None, Some("8,16")).unwrap().stretches[0].len(),
            1
        );
        let why = read(&two, None, Some("9,9")).unwrap_err().to_string();
        assert!(why.contains("254,0 (2 I/Os)"), "{why}");
        let why = read("hello\n", Some(Format::Bio), None).unwrap_err();
        assert!(why.to_string().contains("as bio writes it"), "{why}");
    }

    /// A file of anything is not read to its end to find out that it is no trace.
    #[test]
    fn only_the_first_lines_tell_the_format() {
        let io = "8,0 0 1 0.5 7 Q R 8 + 8 [dd]\n";
        let others = |count| "some other line\n".repeat(count);
        let near = others(LOOKED_AT - 1) + io;
        assert!(is_known(&near));
        let trace = read(&near, None, None).unwrap();
        assert_eq!(
            (trace.stretches[0].len(), trace.other_lines),
            (1, LOOKED_AT - 1)
        );
        let long = "ä".repeat(LOOKED_AT_BYTES / 2) + "\n";
        for far in [others(LOOKED_AT) + io, long + io] {
            assert!(!is_known(&far));
            let why = read(&far, None, None).unwrap_err();
            assert_eq!(why, TraceError::Unrecognized);
            assert!(why.to_string().contains("--format blktrace"), "{why}");
            assert_eq!(
                first_lines(&far)
                    .filter(|line| is_io(Format::Blktrace, line))
                    .count(),
                0
            );
            let named = read(&far, Some(Format::Blktrace), None).unwrap();
            assert_eq!(named.stretches[0].len(), 1);
            let why = read(&far, Some(Format::Bio), None).unwrap_err();
            assert_eq!(why, TraceError::NoIo("bio"));
        }
    }

    #[test]
    fn gaps_part_the_trace() {
        let line = |second: f64| {
            format!("dd-1 [001] ..... {second:.6}: block_bio_queue: 8,0 R 8 + 8 [dd]\n")
        };
        let text = [
            line(1.0),
            line(1.1),
            "CPU:1 [LOST 42 EVENTS]\n".into(),
            line(1.3),
            line(60.0),
        ];
        let trace = read(&text.concat(), None, None).unwrap();
        let lengths: Vec<usize> = trace.stretches.iter().map(Vec::len).collect();
        assert_eq!((lengths, trace.gaps), (vec![2, 1, 1], 2));
    }
}
