//! HTTP/1.1 answers: by length, in chunks, or until the connection ends.

use super::Body;
use super::Operation;
use super::Parsed;
use super::ProtocolError;
use super::Reply;
use super::line;
use super::number;
use super::shown;
use crate::failure::Failure;

const WHAT: &str = "an HTTP/1.1 answer";
const CHUNK: &str = "an HTTP chunk";
/// Longest head taken for one.
const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Head,
    Length(u64),
    ChunkSize,
    Chunk(Body),
    /// Lines behind the last chunk, up to an empty one.
    Trailer,
    UntilEnd,
}

#[derive(Clone, Debug, Default)]
pub struct Reader {
    state: State,
    answer: Reply,
    closes: bool,
    /// Bytes of trailer lines so far.
    trailer_bytes: usize,
}

impl Reader {
    pub(super) fn advance(
        &mut self,
        operation: Operation,
        bytes: &[u8],
    ) -> Result<Parsed, ProtocolError> {
        match &mut self.state {
            State::Head => self.head(operation, bytes),
            State::Length(left) => {
                let take = (*left).min(bytes.len() as u64);
                *left -= take;
                match *left {
                    0 => Ok(self.done(take as usize)),
                    _ => Ok(Parsed::skipped(take as usize)),
                }
            }
            State::ChunkSize => {
                let Some((size, length)) = line(CHUNK, bytes)? else {
                    return Ok(Parsed::default());
                };
                let left = chunk_size(size).ok_or_else(|| ProtocolError::bytes(CHUNK, bytes))?;
                self.state = match left {
                    0 => State::Trailer,
                    left => State::Chunk(Body { left }),
                };
                Ok(Parsed::skipped(length))
            }
            State::Chunk(body) => {
                let (consumed, complete) = body.advance(CHUNK, bytes)?;
                if complete {
                    self.state = State::ChunkSize;
                }
                Ok(Parsed::skipped(consumed))
            }
            State::Trailer => match line(CHUNK, bytes)? {
                None => Ok(Parsed::default()),
                Some(([], length)) => Ok(self.done(length)),
                Some((_, length)) => {
                    self.trailer_bytes += length;
                    match self.trailer_bytes > MAX_HEAD {
                        true => Err(ProtocolError::bytes(CHUNK, bytes)),
                        false => Ok(Parsed::skipped(length)),
                    }
                }
            },
            State::UntilEnd => Ok(Parsed::skipped(bytes.len())),
        }
    }

    pub(super) fn end(&mut self) -> Option<Reply> {
        let until_end = matches!(self.state, State::UntilEnd);
        until_end.then(|| std::mem::take(self).answer)
    }

    fn done(&mut self, consumed: usize) -> Parsed {
        let Reader { answer, closes, .. } = std::mem::take(self);
        Parsed {
            consumed,
            answer: Some(answer),
            closes,
        }
    }

    fn head(&mut self, operation: Operation, bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        // What cannot be HTTP is told at once.
        let known = bytes.len().min(7);
        if bytes[..known] != b"HTTP/1."[..known] {
            return Err(match bytes {
                // The head of a frame of settings: RFC 9113, section 6.5.
                [0, 0, _, 4, ..] => ProtocolError("it speaks HTTP/2; ask so with --http2".into()),
                _ => ProtocolError::bytes(WHAT, bytes),
            });
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(Parsed::default()),
            Ok(httparse::Status::Partial) => {
                let wrong = format!("{WHAT} with a head of more than 64 KiB");
                return Err(ProtocolError(wrong));
            }
            Err(error) => {
                let wrong = format!("{WHAT} expected: {error} in '{}'", shown(bytes));
                return Err(ProtocolError(wrong));
            }
        };
        let code = response.code.unwrap_or(0);
        // 100 Continue and the like come before the answer itself.
        if (100..200).contains(&code) {
            return Ok(Parsed::skipped(length));
        }
        self.answer = match code {
            200..=399 => Reply::Success,
            400..=499 => Reply::Failed(Failure::Http4xx, status(&response)),
            _ => Reply::Failed(Failure::Http5xx, status(&response)),
        };
        let value = |name: &str| {
            let mut headers = response.headers.iter();
            let found = headers.find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value.trim_ascii())
        };
        let connection = value("connection").unwrap_or(b"");
        self.closes = holds(connection, "close")
            || (response.version == Some(0) && !holds(connection, "keep-alive"));
        let chunked = value("transfer-encoding").is_some_and(|words| holds(words, "chunked"));
        self.state = match value("content-length") {
            _ if operation == Operation::Head => State::Length(0),
            _ if chunked => State::ChunkSize,
            _ if code == 204 || code == 304 => State::Length(0),
            Some(digits) => {
                let left = number(digits, 10);
                State::Length(left.ok_or_else(|| ProtocolError::bytes("a content length", digits))?)
            }
            None => State::UntilEnd,
        };
        match self.state {
            State::Length(0) => Ok(self.done(length)),
            _ => Ok(Parsed::skipped(length)),
        }
    }
}

fn status(response: &httparse::Response<'_, '_>) -> String {
    let reason = response.reason.unwrap_or("");
    let code = response.code.unwrap_or(0);
    format!("{code} {}", shown(reason.as_bytes()))
        .trim_end()
        .to_string()
}

/// Whether a list of words separated by commas holds `word`.
fn holds(list: &[u8], word: &str) -> bool {
    list.split(|&byte| byte == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// Hexadecimal digits, and what may follow a semicolon.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?;
    number(digits.trim_ascii(), 16)
}
