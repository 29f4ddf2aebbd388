//! Writing requests and reading answers. Parsers take the bytes in any cut,
//! hold no more than one line or header, and believe nothing.

mod http;
mod memcached;
mod redis;

use crate::failure::Failure;
pub use crate::operation::Operation;
pub use crate::operation::Request;
use crate::request::Template;
use crate::spec::LoadSpec;
use crate::url::Kind;
use crate::url::Url;

/// Reads the answers of one connection.
#[derive(Clone, Debug)]
pub enum Parser {
    Redis(redis::Reader),
    Memcached(memcached::Reader),
    Http(http::Reader),
}

impl Parser {
    pub fn new(kind: Kind) -> Parser {
        match kind {
            Kind::Redis => Parser::Redis(Default::default()),
            Kind::Memcached => Parser::Memcached(Default::default()),
            Kind::Http => Parser::Http(Default::default()),
        }
    }

    /// Reads on at `bytes`, which answer `operation`. Nothing consumed and no answer
    /// means that more bytes are needed; after an error the connection is of no use.
    pub fn advance(&mut self, operation: Operation, bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        match self {
            Parser::Redis(reader) => reader.advance(operation, bytes),
            Parser::Memcached(reader) => reader.advance(operation, bytes),
            Parser::Http(reader) => reader.advance(operation, bytes),
        }
    }

    /// The connection was closed: the answer that this completes, if any.
    pub fn end(&mut self) -> Option<Reply> {
        match self {
            Parser::Http(reader) => reader.end(),
            _ => None,
        }
    }
}

/// Writes requests.
#[derive(Clone, Debug)]
pub struct Writer {
    kind: Kind,
    value: Vec<u8>,
    templates: Vec<Template>,
}

impl Writer {
    /// Of what `spec` asks for, with values of so many bytes.
    pub fn new(spec: &LoadSpec, value_bytes: usize) -> Writer {
        // Letters that do not compress to nothing.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let value = (0..value_bytes)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                b'a' + (state >> 40) as u8 % 26
            })
            .collect();
        let host = spec.url.endpoint.to_string();
        let of = |request| Template::new(request, &host, spec.keep_alive);
        Writer {
            kind: spec.url.kind,
            value,
            templates: spec.requests.iter().map(of).collect(),
        }
    }

    /// Appends one request.
    pub fn write(&self, request: Request, out: &mut Vec<u8>) {
        let Request {
            operation,
            key,
            template,
        } = request;
        match self.kind {
            Kind::Redis => redis::write(operation, key, &self.value, out),
            Kind::Memcached => memcached::write(operation, key, &self.value, out),
            Kind::Http => self.templates[template].write(key, out),
        }
    }
}

/// What every new connection says first: one request each, all answered.
pub fn greeting(url: &Url) -> Vec<Vec<u8>> {
    match url.kind {
        Kind::Redis => redis::greeting(url),
        _ => Vec::new(),
    }
}

/// Digits of a key: all names are equally long.
const KEY_DIGITS: usize = 12;

/// What came back for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    #[default]
    Success,
    /// An answer, but there is no such key.
    Missing,
    /// The server said no; in its words.
    Failed(Failure, String),
}

/// How far the bytes led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes that are done with. Give the others again, with more behind them.
    pub consumed: usize,
    /// The answer, once it is complete.
    pub answer: Option<Reply>,
    /// The server closes the connection after this answer.
    pub closes: bool,
}

impl Parsed {
    fn skipped(consumed: usize) -> Parsed {
        Parsed {
            consumed,
            ..Parsed::default()
        }
    }

    fn done(consumed: usize, answer: Reply) -> Parsed {
        Parsed {
            answer: Some(answer),
            ..Parsed::skipped(consumed)
        }
    }
}

/// Bytes that are not the protocol, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

/// Longest line taken for one.
const MAX_LINE: usize = 8 << 10;
/// Longest value or chunk taken for one.
const MAX_BODY: u64 = 1 << 40;
/// Bytes of an answer that a message shows.
const SHOWN: usize = 60;

impl ProtocolError {
    /// `what` is expected, these bytes came.
    fn bytes(what: &str, bytes: &[u8]) -> ProtocolError {
        ProtocolError(format!("{what} expected, '{}' came", shown(bytes)))
    }
}

/// The first bytes, made printable.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

/// Appends `jostle:` and the digits of `key`.
fn push_key(key: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; KEY_DIGITS];
    let mut rest = key;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(b"jostle:");
    out.extend_from_slice(&digits);
}

/// The line at the start of `bytes` without its end, and its whole length;
/// `None` when it is not complete.
fn line<'a>(what: &str, bytes: &'a [u8]) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
    let searched = &bytes[..bytes.len().min(MAX_LINE)];
    match searched.iter().position(|&byte| byte == b'\n') {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' => Ok(Some((&bytes[..end - 1], end + 1))),
        None if bytes.len() < MAX_LINE => Ok(None),
        _ => Err(ProtocolError::bytes(what, bytes)),
    }
}

/// Digits and nothing else, within bounds.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let valid = digits
        .iter()
        .all(|digit| char::from(*digit).is_digit(radix));
    let digits = std::str::from_utf8(digits).ok()?;
    let number = u64::from_str_radix(digits, radix).ok()?;
    (valid && digits.len() <= 15 && number <= MAX_BODY).then_some(number)
}

/// A body of known length and the line end behind it, being passed over.
#[derive(Clone, Copy, Debug)]
struct Body {
    left: u64,
}

impl Body {
    /// Passes over what is there: bytes consumed, and whether it is complete. An
    /// error when no line end follows the body.
    fn advance(&mut self, what: &str, bytes: &[u8]) -> Result<(usize, bool), ProtocolError> {
        let take = self.left.min(bytes.len() as u64) as usize;
        self.left -= take as u64;
        // A wrong end is seen at its first byte.
        match &bytes[take..] {
            [] | [b'\r'] => Ok((take, false)),
            [b'\r', b'\n', ..] => Ok((take + 2, true)),
            rest => Err(ProtocolError::bytes(what, rest)),
        }
    }
}

#[cfg(test)]
mod tests;
