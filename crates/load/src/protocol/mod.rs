//! Writing requests and reading answers. Parsers take the bytes in any cut,
//! hold no more than one line or header, and believe nothing.

mod http;
mod memcached;
mod redis;
mod wire;

pub use wire::Operation;
pub use wire::Parsed;
pub use wire::ProtocolError;
pub use wire::Reply;

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
            Parser::Http(reader) => reader.advance(bytes),
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
    /// HTTP: before and behind the key.
    http: (Vec<u8>, Vec<u8>),
    with_key: bool,
}

impl Writer {
    pub fn new(url: &Url, value_bytes: usize) -> Writer {
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
        let divided = url.path.split_once("{key}");
        let (before, behind) = divided.unwrap_or((&url.path, ""));
        let host = &url.endpoint;
        let behind = format!("{behind} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: jostle\r\n\r\n");
        Writer {
            kind: url.kind,
            value,
            http: (format!("GET {before}").into(), behind.into()),
            with_key: divided.is_some(),
        }
    }

    /// Appends one request.
    pub fn write(&self, operation: Operation, key: u64, out: &mut Vec<u8>) {
        match self.kind {
            Kind::Redis => redis::write(operation, key, &self.value, out),
            Kind::Memcached => memcached::write(operation, key, &self.value, out),
            Kind::Http => {
                out.extend_from_slice(&self.http.0);
                if self.with_key {
                    out.extend_from_slice(key.to_string().as_bytes());
                }
                out.extend_from_slice(&self.http.1);
            }
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

#[cfg(test)]
mod tests;
