//! Lines from a connection, within limits of length and time.

use super::listen::Connection;
use std::io;
use std::io::Read;
use std::time::Duration;
use std::time::Instant;

/// What a client may do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    pub line_bytes: usize,
    /// Without a line; a subscriber may listen for longer.
    pub idle: Duration,
    /// From the first byte of a line to its end.
    pub line: Duration,
    /// Until a client takes an answer.
    pub write: Duration,
}

/// What was read.
#[derive(Debug, PartialEq)]
pub enum Line {
    Text(String),
    /// Longer than allowed; skipped up to its end.
    TooLong,
    /// Valid up to so many bytes.
    NotUtf8(usize),
}

/// Why there are no more lines.
#[derive(Debug, PartialEq)]
pub enum End {
    Closed,
    /// No line for as long as a client may be idle.
    Idle,
    /// A line was begun and not finished in time.
    Unfinished,
}

/// A connection, read line by line.
pub struct Lines {
    connection: Connection,
    bytes: Vec<u8>,
    /// Of `bytes`, how many hold no line's end.
    searched: usize,
    skipping: bool,
    begun: Option<Instant>,
}

impl Lines {
    pub fn new(connection: Connection) -> Self {
        Lines {
            connection,
            bytes: Vec::new(),
            searched: 0,
            skipping: false,
            begun: None,
        }
    }

    /// The next line without its end. What follows the last line's end is no
    /// line: its client vanished in the middle of it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn next(&mut self, limits: &Limits) -> Result<Line, End> {
        let idle_since = Instant::now();
        loop {
            if let Some(line) = self.buffered(limits.line_bytes) {
                return Ok(line);
            }
            let (since, limit, end) = match self.begun {
                Some(begun) => (begun, limits.line, End::Unfinished),
                None => (idle_since, limits.idle, End::Idle),
            };
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(end);
            }
            self.read(left)?;
        }
    }

    /// A whole line among what was read.
    fn buffered(&mut self, line_bytes: usize) -> Option<Line> {
        let end = self.bytes[self.searched..]
            .iter()
            .position(|it| *it == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.bytes.len();
            if self.bytes.len() > line_bytes {
                self.skipping = true;
                self.bytes.clear();
                self.searched = 0;
            }
            return None;
        };
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        self.searched = 0;
        self.begun = (!self.bytes.is_empty()).then(Instant::now);
        if std::mem::take(&mut self.skipping) || line.len() > line_bytes {
            return Some(Line::TooLong);
        }
        Some(match String::from_utf8(line) {
            Ok(text) => Line::Text(text),
            Err(error) => Line::NotUtf8(error.utf8_error().valid_up_to()),
        })
    }

    fn read(&mut self, left: Duration) -> Result<(), End> {
        let mut chunk = [0; 16 << 10];
        if self.connection.set_read_timeout(left).is_err() {
            return Err(End::Closed);
        }
        match self.connection.read(&mut chunk) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.begun.get_or_insert_with(Instant::now);
                self.bytes.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(End::Closed),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const LIMITS: Limits = Limits {
        connections: 1,
        line_bytes: 8,
        idle: Duration::from_millis(300),
        line: Duration::from_millis(100),
        write: Duration::from_secs(1),
    };

    fn pair() -> (UnixStream, Lines) {
        let (client, server) = UnixStream::pair().unwrap();
        (client, Lines::new(Connection::Unix(server)))
    }

    fn text(line: &str) -> Result<Line, End> {
        Ok(Line::Text(line.into()))
    }

    #[test]
    fn lines_come_whole_in_any_pieces() {
        let (mut client, mut lines) = pair();
        client.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.next(&LIMITS), text("one"));
        client.write_all(b"o\n\n12345678\n").unwrap();
        assert_eq!(lines.next(&LIMITS), text("two"));
        assert_eq!(lines.next(&LIMITS), text(""));
        assert_eq!(lines.next(&LIMITS), text("12345678"));
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_is_read() {
        let (mut client, mut lines) = pair();
        let mut long = vec![b'x'; 100_000];
        long.extend(b"\n123456789\nnext\n\xff\n");
        std::thread::spawn(move || client.write_all(&long).unwrap());
        assert_eq!(lines.next(&LIMITS), Ok(Line::TooLong));
        assert_eq!(lines.next(&LIMITS), Ok(Line::TooLong));
        assert_eq!(lines.next(&LIMITS), text("next"));
        assert_eq!(lines.next(&LIMITS), Ok(Line::NotUtf8(0)));
    }

    #[test]
    fn half_a_line_ends_sooner_than_silence_and_is_no_line() {
        let (mut client, mut lines) = pair();
        client.write_all(b"half").unwrap();
        let start = Instant::now();
        assert_eq!(lines.next(&LIMITS), Err(End::Unfinished));
        assert!(start.elapsed() < LIMITS.idle, "{:?}", start.elapsed());

        let (_client, mut lines) = pair();
        assert_eq!(lines.next(&LIMITS), Err(End::Idle));

        let (mut client, mut lines) = pair();
        client.write_all(b"half").unwrap();
        drop(client);
        assert_eq!(lines.next(&LIMITS), Err(End::Closed));
    }
}
