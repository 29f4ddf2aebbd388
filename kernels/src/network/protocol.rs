//! What `network-bandwidth` and `jostle sink` say to each other, in one place.
//!
//! A session is one TCP connection, the *control* connection. Its first line
//! comes from the source, with what it is, its version and how it will send:
//!
//! ```text
//! jostle-sink/1 hello 0.1.0 tcp
//! ```
//!
//! and, where the sink asks for one, the secret that both share as a last word.
//!
//! The sink answers `jostle-sink/1 welcome TOKEN` or `jostle-sink/1 refused
//! REASON`. Then payload flows: over TCP on further connections to the same
//! port that begin with the line `jostle-sink/1 data TOKEN`; over UDP as
//! datagrams to the same port that begin with a [`Header`]. Whatever arrives is
//! counted and thrown away. On the control connection the sink reports what it
//! counted, one [`Report`] a line, every [`REPORT`] while something arrives and
//! every [`KEEP_ALIVE`] while nothing does. The session ends when the control
//! connection does.
//!
//! Lines are short, so that anything else that answers at the port is told
//! apart at once.

use super::secret::Secret;
use std::io;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

/// Name and version of the protocol; the version changes whenever a peer of
/// the other one would misunderstand.
pub const PROTOCOL: &str = "jostle-sink/1";
/// What the name begins with in every version.
pub const FAMILY: &str = "jostle-sink/";
/// Where a sink listens unless told otherwise; not assigned to any service.
pub const PORT: u16 = 7411;

/// Between two reports while something arrives.
pub const REPORT: Duration = Duration::from_millis(1);
/// Between two reports while nothing arrives.
pub const KEEP_ALIVE: Duration = Duration::from_millis(250);
/// Time to connect, to say the first line and to be answered.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// A sink that says nothing for this long is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(3);

/// Longest line of either side, with its end.
pub const LINE_BYTES: usize = 256;

/// The session that payload belongs to: random, so that nobody else's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// How payload travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
}

impl Transport {
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// First line of a connection to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Asks for a session.
    Hello(Transport, Option<Secret>),
    /// Payload of a session follows.
    Data(Token),
}

impl Opening {
    /// The line, with its end.
    pub fn line(&self) -> String {
        match self {
            Opening::Hello(transport, secret) => format!(
                "{PROTOCOL} hello {} {}{}\n",
                env!("CARGO_PKG_VERSION"),
                transport.as_str(),
                secret
                    .as_ref()
                    .map_or(String::new(), |secret| format!(" {}", secret.word()))
            ),
            Opening::Data(Token(token)) => format!("{PROTOCOL} data {token:016x}\n"),
        }
    }

    /// Reads a line without its end.
    ///
    /// # Errors
    /// In words for the other side: it speaks another version, or it is no
    /// source at all.
    pub fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [name, ..] if name != PROTOCOL && name.starts_with(FAMILY) => Err(format!(
                "this sink speaks {PROTOCOL}, the source {}: use the same version of jostle on \
                 both hosts",
                printable(name)
            )),
            [
                PROTOCOL,
                "hello",
                _version,
                transport @ ("tcp" | "udp"),
                ref secret @ ..,
            ] if secret.len() < 2 => {
                let transport = match transport {
                    "tcp" => Transport::Tcp,
                    _ => Transport::Udp,
                };
                let secret = secret.first().map(|word| Secret::parse(word)).transpose()?;
                Ok(Opening::Hello(transport, secret))
            }
            [PROTOCOL, "data", token] if token.len() == 16 => u64::from_str_radix(token, 16)
                .map(|token| Opening::Data(Token(token)))
                .map_err(|_| "the token is not one of this sink's".to_string()),
            _ => Err(format!("this is a jostle sink, it understands {PROTOCOL}")),
        }
    }
}

/// The sink's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Welcome(Token),
    Refused(String),
}

impl Answer {
    /// The line, with its end.
    pub fn line(&self) -> String {
        match self {
            Answer::Welcome(Token(token)) => format!("{PROTOCOL} welcome {token:016x}\n"),
            Answer::Refused(reason) => format!("{PROTOCOL} refused {reason}\n"),
        }
    }

    /// Reads a line without its end.
    ///
    /// # Errors
    /// In words for the source's user: it speaks another version, or it is no
    /// sink at all.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        if name != PROTOCOL && name.starts_with(FAMILY) {
            return Err(format!(
                "the sink speaks {}, this is {PROTOCOL}: use the same version of jostle on both \
                 hosts",
                printable(name)
            ));
        }
        if name == PROTOCOL {
            if let Some(reason) = rest.strip_prefix("refused ") {
                return Ok(Answer::Refused(printable(reason)));
            }
            let token = rest.strip_prefix("welcome ");
            if let Some(Ok(token)) = token.map(|token| u64::from_str_radix(token, 16)) {
                return Ok(Answer::Welcome(Token(token)));
            }
        }
        Err(format!(
            "what listens there is no jostle sink (it answered \"{}\"); run `jostle sink` on that \
             host and name its port",
            printable(line)
        ))
    }
}

/// What a sink counted of one session since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Payload; of a datagram its header too.
    pub bytes: u64,
    /// 0 over TCP, as the rest.
    pub datagrams: u64,
    /// Sequence numbers below the highest seen that did not come (yet).
    pub lost: u64,
    /// Datagrams that came after one with a higher sequence number.
    pub reordered: u64,
}

impl Report {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let Report {
            bytes,
            datagrams,
            lost,
            reordered,
        } = self;
        format!("{bytes} {datagrams} {lost} {reordered}\n")
    }

    /// Reads a line without its end; `None` for anything else.
    pub fn parse(line: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        match numbers?[..] {
            [bytes, datagrams, lost, reordered] => Some(Report {
                bytes,
                datagrams,
                lost,
                reordered,
            }),
            _ => None,
        }
    }
}

/// How a datagram begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub token: Token,
    /// 0, 1, 2 … in the order of sending.
    pub sequence: u64,
}

impl Header {
    pub const BYTES: usize = 16;

    /// Writes it to the beginning of `datagram`, which has room for it.
    pub fn write(self, datagram: &mut [u8]) {
        datagram[..8].copy_from_slice(&self.token.0.to_be_bytes());
        datagram[8..16].copy_from_slice(&self.sequence.to_be_bytes());
    }

    /// Reads it; `None` when the datagram is too short to have one.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (token, rest) = datagram.split_first_chunk()?;
        Some(Header {
            token: Token(u64::from_be_bytes(*token)),
            sequence: u64::from_be_bytes(*rest.first_chunk()?),
        })
    }
}

/// Reads one line from a blocking `stream`, byte by byte so that nothing that
/// follows is taken, within `patience`. Returned without its end.
///
/// # Errors
/// `TimedOut` when it does not come in time, `UnexpectedEof` when the other
/// side closes first, `InvalidData` (with the beginning of what came) when it
/// is too long for a line of ours.
pub fn read_line(stream: &mut TcpStream, patience: Duration) -> io::Result<String> {
    let deadline = Instant::now() + patience;
    let mut line = Vec::with_capacity(LINE_BYTES);
    while line.len() < LINE_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => return Ok(text(&line)),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, text(&line)))
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .trim_end_matches('\r')
        .to_string()
}

/// What a stranger said, fit for a terminal: short, no control characters.
pub fn printable(text: &str) -> String {
    let plain = text.replace(|c: char| c.is_control() || c == '\u{fffd}', "?");
    match plain.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_end(line: String) -> String {
        line.strip_suffix('\n').unwrap().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        for opening in [
            Opening::Hello(Transport::Tcp, None),
            Opening::Hello(Transport::Udp, None),
            Opening::Hello(Transport::Tcp, Secret::parse("0123456789abcdef").ok()),
            Opening::Data(Token(0x0123_4567_89ab_cdef)),
        ] {
            assert_eq!(Opening::parse(&without_end(opening.line())), Ok(opening));
        }
        for answer in [
            Answer::Welcome(Token(7)),
            Answer::Refused("it is full".into()),
        ] {
            assert_eq!(Answer::parse(&without_end(answer.line())), Ok(answer));
        }
        let report = Report {
            bytes: u64::MAX,
            datagrams: 3,
            lost: 2,
            reordered: 1,
        };
        assert_eq!(Report::parse(&without_end(report.line())), Some(report));
        let header = Header {
            token: Token(u64::MAX - 1),
            sequence: 9,
        };
        let mut datagram = [0; 20];
        header.write(&mut datagram);
        assert_eq!(Header::read(&datagram), Some(header));
        assert_eq!(Header::read(&datagram[..15]), None);
    }

    #[test]
    fn another_version_is_told_by_name_on_both_sides() {
        let reason = Opening::parse("jostle-sink/9 hello 9.0 quic").unwrap_err();
        for word in ["jostle-sink/9", PROTOCOL, "same version"] {
            assert!(reason.contains(word), "{reason}");
        }
        let reason = Answer::parse("jostle-sink/9 whatever").unwrap_err();
        for word in ["jostle-sink/9", PROTOCOL, "same version"] {
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[test]
    fn strangers_are_told_apart_and_their_words_are_harmless() {
        for line in [
            "",
            "GET / HTTP/1.1",
            "jostle-sink/1",
            "jostle-sink/1 data x",
            "jostle-sink/1 hello 0.1.0 quic",
            "jostle-sink/1 hello 0.1.0 tcp short",
            "jostle-sink/1 hello 0.1.0 tcp 0123456789abcdef 0123456789abcdef",
        ] {
            assert!(Opening::parse(line).is_err(), "{line}");
        }
        let reason = Answer::parse("SSH-2.0-OpenSSH\u{1b}[31m").unwrap_err();
        assert!(reason.contains("no jostle sink"), "{reason}");
        assert!(reason.contains("SSH-2.0-OpenSSH?[31m"), "{reason}");
        for line in ["", "1 2 3", "1 2 3 -4", "1 2 3 4 5", "1  2 3 4"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
