//! Network traffic as tcpdump prints it, or as a table of times and sizes.

use super::trace::first_lines;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;
use thiserror::Error;

/// One message of a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at_us: f64,
    /// Payload.
    pub bytes: u32,
}

/// How a capture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What `tcpdump -tt -nn -q` prints.
    Tcpdump,
    /// `time,size,direction`, the time in seconds.
    Csv,
}

impl Format {
    pub const ALL: [Format; 2] = [Format::Tcpdump, Format::Csv];

    pub fn name(self) -> &'static str {
        match self {
            Format::Tcpdump => "tcpdump",
            Format::Csv => "csv",
        }
    }
}

/// Why a capture gives no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CaptureError {
    #[error(
        "no line is a packet with payload as {0} writes it; give the text of tcpdump -tt -nn -q, \
         or --format csv with the columns time (seconds), size (bytes) and direction"
    )]
    NoPackets(&'static str),
    #[error("holds messages of several senders; name one with --from: {0}")]
    Senders(String),
    #[error("holds no message from {asked}; it holds: {found}")]
    OtherSender { asked: String, found: String },
    #[error("holds {found} messages; {needed} are the fewest that a pattern can be fitted to")]
    TooFew { found: usize, needed: usize },
    #[error("all messages have the same time")]
    NoTime,
}

/// Messages of one sender in the order of time, in stretches between which
/// nothing was sent for too long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    pub sender: String,
    pub stretches: Vec<Vec<Sent>>,
    pub gaps: usize,
    /// Packets that tcpdump says it missed.
    pub dropped: u64,
}

/// A pause of this length is a gap: the sender was not at work.
const LONGEST_US: f64 = 10e6;
/// Most senders that an error lists.
const LISTED: usize = 8;

/// A packet: when, from which host and which of its ports, to which host, with
/// how much payload.
#[derive(Clone, Debug, PartialEq)]
struct Packet<'a> {
    at_us: f64,
    host: &'a str,
    end: &'a str,
    to: &'a str,
    bytes: u32,
}

/// Whether one of the first lines of `text` is a packet in this format.
pub fn is_in(format: Format, text: &str) -> bool {
    let columns = Columns::of(text);
    first_lines(text).any(|line| match format {
        Format::Tcpdump => tcpdump(line).is_some(),
        Format::Csv => columns.is_some_and(|columns| columns.read(line).is_some()),
    })
}

/// Whether the first line of `text` names the columns of a table of packets.
pub fn has_header(text: &str) -> bool {
    Columns::of(text).is_some_and(|columns| columns.named)
}

/// Reads the messages that `from`, a host or a host and port as in the capture,
/// sent; without it the only sender that there is.
///
/// # Errors
/// No packet in it, or packets of several senders.
pub fn read(text: &str, format: Format, from: Option<&str>) -> Result<Capture, CaptureError> {
    let none = || CaptureError::NoPackets(format.name());
    let mut packets: Vec<Packet<'_>> = match format {
        Format::Tcpdump => text.lines().filter_map(tcpdump).collect(),
        Format::Csv => {
            let columns = Columns::of(text).ok_or_else(none)?;
            let read = |line| columns.read(line);
            text.lines().filter_map(read).collect()
        }
    };
    packets.retain(|packet| packet.bytes > 0);
    if packets.is_empty() {
        return Err(none());
    }
    let sender = sender(&packets, from)?;
    let mut all = Vec::new();
    // A clock of the day starts again at midnight.
    let (mut days, mut last) = (0.0, f64::MIN);
    for packet in &packets {
        if packet.at_us + days < last - HALF_DAY_US && packet.at_us < 2.0 * HALF_DAY_US {
            days += 2.0 * HALF_DAY_US;
        }
        last = packet.at_us + days;
        if packet.host == sender || packet.end == sender {
            all.push(Sent {
                at_us: last,
                bytes: packet.bytes,
            });
        }
    }
    all.sort_by_number(|it| it.at_us);
    let stretches = all.chunk_by(|a, b| b.at_us - a.at_us <= LONGEST_US);
    let stretches: Vec<Vec<Sent>> = stretches.map(<[Sent]>::to_vec).collect();
    let dropped = text.lines().filter_map(|line| {
        line.trim()
            .strip_suffix(" packets dropped by kernel")?
            .parse::<u64>()
            .ok()
    });
    Ok(Capture {
        sender: sender.to_string(),
        gaps: stretches.len().saturating_sub(1),
        stretches,
        dropped: match format {
            Format::Tcpdump => dropped.sum(),
            Format::Csv => 0,
        },
    })
}

const HALF_DAY_US: f64 = 43_200e6;

/// The one whose messages are wanted.
fn sender<'a>(packets: &[Packet<'a>], from: Option<&'a str>) -> Result<&'a str, CaptureError> {
    let mut hosts: BTreeMap<&'a str, u64> = BTreeMap::new();
    let mut ends: BTreeMap<&'a str, u64> = BTreeMap::new();
    for packet in packets {
        *hosts.entry(packet.host).or_default() += 1;
        *ends.entry(packet.end).or_default() += 1;
    }
    // Where one host talks to itself, only its ports tell who is who.
    let itself = packets.iter().any(|packet| packet.to == packet.host);
    let known = match hosts.len() == 1 && itself {
        true => &ends,
        false => &hosts,
    };
    let mut listed: Vec<(&'a str, u64)> =
        known.iter().map(|(&name, &count)| (name, count)).collect();
    listed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = listed.len().saturating_sub(LISTED);
    let named = listed.iter().take(LISTED);
    let mut found: Vec<String> = named
        .map(|(name, count)| format!("{name} ({count} messages)"))
        .collect();
    if more > 0 {
        found.push(format!("{more} more"));
    }
    let found = found.join(", ");
    match from {
        Some(asked) if !hosts.contains_key(asked) && !ends.contains_key(asked) => {
            let asked = asked.to_string();
            Err(CaptureError::OtherSender { asked, found })
        }
        Some(asked) => Ok(asked),
        None if listed.len() == 1 => Ok(listed[0].0),
        None => Err(CaptureError::Senders(found)),
    }
}

/// `1700000000.123456 IP 10.0.0.1.443 > 10.0.0.2.51000: tcp 1448`, with or
/// without `-q`, `-tt` or the device of `-i any`.
fn tcpdump(line: &str) -> Option<Packet<'_>> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    // `-tttt` has the date before the time.
    let date = first.len() == 10 && first.matches('-').count() == 2;
    let at_us = moment(if date { words.next()? } else { first })? * 1e6;
    words.find(|word| matches!(*word, "IP" | "IP6"))?;
    let end = words.next()?;
    if words.next()? != ">" {
        return None;
    }
    let to = words.next()?.strip_suffix(':')?;
    let mut bytes = None;
    let mut before = "";
    for word in words {
        let number = word.trim_end_matches([':', ',']);
        if matches!(before, "tcp" | "length") {
            bytes = number.parse().ok().or(bytes);
        }
        before = word;
    }
    Some(Packet {
        at_us,
        host: host(end),
        end,
        to: host(to),
        bytes: bytes?,
    })
}

/// Seconds since the epoch or since midnight.
fn moment(word: &str) -> Option<f64> {
    let mut seconds = 0.0;
    for part in word.split(':') {
        let part: f64 = part.parse().ok()?;
        seconds = seconds * 60.0 + part;
    }
    (seconds >= 0.0 && f64::is_finite(seconds)).then_some(seconds)
}

/// The address without the port that tcpdump puts behind it.
fn host(end: &str) -> &str {
    let numbers = end.split('.').all(|part| part.parse::<u8>().is_ok());
    let bare = numbers && end.matches('.').count() == 3 || !end.contains('.');
    match end.rsplit_once('.') {
        Some((host, _)) if !bare => host,
        _ => end,
    }
}

/// Which column of a table is what.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Columns {
    separator: char,
    time: usize,
    size: usize,
    direction: Option<usize>,
    /// Whether the first line says so.
    named: bool,
}

impl Columns {
    /// By the names in the first line; without names time, size and direction
    /// in this order.
    fn of(text: &str) -> Option<Columns> {
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        let separator = [',', ';', '\t']
            .into_iter()
            .find(|it| first.contains(*it))?;
        let words: Vec<String> = first
            .split(separator)
            .map(|word| word.trim().trim_matches('"').to_ascii_lowercase())
            .collect();
        let column = |names: &[&str]| {
            let is = |word: &String| names.iter().any(|name| word == name);
            words.iter().position(is)
        };
        let time = column(&[
            "time",
            "seconds",
            "timestamp",
            "time_seconds",
            "frame.time_epoch",
        ]);
        let size = column(&[
            "size",
            "bytes",
            "length",
            "size_bytes",
            "tcp.len",
            "frame.len",
        ]);
        match (time, size) {
            (Some(time), Some(size)) => Some(Columns {
                separator,
                time,
                size,
                direction: column(&["direction", "from", "source", "src", "ip.src"]),
                named: true,
            }),
            _ => (2..=3).contains(&words.len()).then_some(Columns {
                separator,
                time: 0,
                size: 1,
                direction: (words.len() == 3).then_some(2),
                named: false,
            }),
        }
    }

    fn read<'a>(&self, line: &'a str) -> Option<Packet<'a>> {
        let words: Vec<&str> = line
            .split(self.separator)
            .map(|word| word.trim().trim_matches('"'))
            .collect();
        let seconds: f64 = words.get(self.time)?.parse().ok()?;
        let from = match self.direction {
            Some(column) => words.get(column)?,
            None => "all",
        };
        (seconds >= 0.0 && seconds.is_finite()).then_some(Packet {
            at_us: seconds * 1e6,
            host: from,
            end: from,
            to: "",
            bytes: words.get(self.size)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCPDUMP: &str = "\
1700000000.000100 IP 10.0.0.1.443 > 10.0.0.2.51000: tcp 1448
1700000000.000200 IP 10.0.0.2.51000 > 10.0.0.1.443: tcp 0
1700000000.000300 eth0  Out IP 10.0.0.1.443 > 10.0.0.2.51000: Flags [P.], seq 1:100, ack 1, win 502, length 99: HTTP
1700000000.000400 IP6 fe80::1.5353 > ff02::fb.5353: UDP, length 45
1700000000.000500 IP 10.0.0.2.51000 > 10.0.0.1.443: tcp 17
1700000000.000600 ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28
5 packets dropped by kernel
";

    fn sizes(capture: &Capture) -> Vec<Vec<u32>> {
        let of = |stretch: &Vec<Sent>| stretch.iter().map(|sent| sent.bytes).collect();
        capture.stretches.iter().map(of).collect()
    }

    #[test]
    fn payload_of_one_sender_counts() {
        let read = |from| read(TCPDUMP, Format::Tcpdump, from);
        let capture = read(Some("10.0.0.1")).unwrap();
        assert_eq!(sizes(&capture), [[1448, 99]]);
        assert_eq!((capture.gaps, capture.dropped), (0, 5));
        let apart = capture.stretches[0][1].at_us - capture.stretches[0][0].at_us;
        assert!((apart - 200.0).abs() < 1.0, "{apart}");
        assert_eq!(sizes(&read(Some("fe80::1.5353")).unwrap()), [[45]]);
        let why = read(None).unwrap_err().to_string();
        for word in ["--from", "10.0.0.1 (2 messages)", "10.0.0.2 (1 messages)"] {
            assert!(why.contains(word), "{why}");
        }
        let why = read(Some("10.9.9.9")).unwrap_err().to_string();
        assert!(why.contains("10.9.9.9") && why.contains("fe80::1"), "{why}");
    }

    #[test]
    fn a_host_that_talks_to_itself_is_told_by_its_ports() {
        let text = "00:00:01.5 IP 127.0.0.1.80 > 127.0.0.1.9: tcp 10\n\
                    00:00:02 IP 127.0.0.1.9 > 127.0.0.1.80: tcp 7\n";
        let why = read(text, Format::Tcpdump, None).unwrap_err().to_string();
        assert!(why.contains("127.0.0.1.80 (1 messages)"), "{why}");
        let capture = read(text, Format::Tcpdump, Some("127.0.0.1.80")).unwrap();
        assert_eq!(sizes(&capture), [[10]]);
        assert_eq!(capture.stretches[0][0].at_us, 1.5e6);
    }

    #[test]
    fn pauses_part_and_midnight_does_not() {
        let line = |time: &str| format!("{time} IP 10.0.0.1.1 > 10.0.0.2.2: tcp 5\n");
        let text = ["23:59:59.5", "00:00:00.5", "00:00:01", "00:00:30"].map(line);
        let capture = read(&text.concat(), Format::Tcpdump, None).unwrap();
        assert_eq!(sizes(&capture), [vec![5, 5, 5], vec![5]]);
        assert_eq!(capture.gaps, 1);
        let text = "2026-01-01 00:00:01.0 IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 1, seq 1, \
                    length 64\n";
        assert_eq!(sizes(&read(text, Format::Tcpdump, None).unwrap()), [[64]]);
    }

    #[test]
    fn tables_with_and_without_names() {
        let plain = "0.5,100,out\n0.6,200,in\n0.7,300,out\n";
        let capture = read(plain, Format::Csv, Some("out")).unwrap();
        assert_eq!(sizes(&capture), [[100, 300]]);
        let named = "ip.src\tframe.time_epoch\ttcp.len\n10.0.0.1\t0.5\t100\n10.0.0.1\t0.6\t0\n";
        assert!(has_header(named) && !has_header(plain));
        assert_eq!(sizes(&read(named, Format::Csv, None).unwrap()), [[100]]);
        let two = "time;size\n1;10\nx;y\n-1;10\n2;20\n";
        assert_eq!(sizes(&read(two, Format::Csv, None).unwrap()), [[10, 20]]);
        for text in ["", "hello\n", "a,b,c,d,e\n1,2,3,4,5\n"] {
            let why = read(text, Format::Csv, None).unwrap_err().to_string();
            assert!(why.contains("tcpdump -tt -nn -q"), "{why}");
            assert!(!is_in(Format::Csv, text) && !is_in(Format::Tcpdump, text));
        }
    }
}
