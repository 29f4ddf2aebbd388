//! The text protocol of memcached: get and set.

use super::Body;
use super::Operation;
use super::Parsed;
use super::ProtocolError;
use super::Reply;
use super::line;
use super::number;
use super::push_key;
use super::shown;
use crate::failure::Failure;
use std::io::Write;

const WHAT: &str = "an answer in the memcached text protocol";

#[derive(Clone, Debug, Default)]
pub struct Reader {
    body: Option<Body>,
    /// A value was passed over, END must follow.
    found: bool,
}

impl Reader {
    pub(super) fn advance(
        &mut self,
        operation: Operation,
        bytes: &[u8],
    ) -> Result<Parsed, ProtocolError> {
        if let Some(body) = &mut self.body {
            let (consumed, complete) = body.advance(WHAT, bytes)?;
            if complete {
                self.body = None;
                self.found = true;
            }
            return Ok(Parsed::skipped(consumed));
        }
        // Every answer begins with a capital; `HTTP/` is told at its first line.
        match bytes.first() {
            None => return Ok(Parsed::default()),
            Some(byte) if byte.is_ascii_uppercase() => {}
            Some(_) => return Err(ProtocolError::bytes(WHAT, bytes)),
        }
        let Some((line, length)) = line(WHAT, bytes)? else {
            return Ok(Parsed::default());
        };
        let answer = match (line, operation) {
            (b"END", Operation::Get) => match std::mem::take(&mut self.found) {
                true => Reply::Success,
                false => Reply::Missing,
            },
            (b"STORED", Operation::Set) => Reply::Success,
            (b"ERROR" | b"NOT_STORED", _) => Reply::Failed(Failure::ErrorReply, shown(line)),
            _ if line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR") => {
                Reply::Failed(Failure::ErrorReply, shown(line))
            }
            _ if operation == Operation::Get && !self.found && line.starts_with(b"VALUE ") => {
                // VALUE key flags bytes
                let size = line.split(|&byte| byte == b' ').nth(3);
                let left = size.and_then(|size| number(size, 10));
                let left = left.ok_or_else(|| ProtocolError::bytes(WHAT, bytes))?;
                self.body = Some(Body { left });
                return Ok(Parsed::skipped(length));
            }
            _ => return Err(ProtocolError::bytes(WHAT, bytes)),
        };
        Ok(Parsed::done(length, answer))
    }
}

pub(super) fn write(operation: Operation, key: u64, value: &[u8], out: &mut Vec<u8>) {
    match operation {
        Operation::Set => {
            out.extend_from_slice(b"set ");
            push_key(key, out);
            write!(out, " 0 0 {}\r\n", value.len()).expect("a vector takes everything");
            out.extend_from_slice(value);
        }
        _ => {
            out.extend_from_slice(b"get ");
            push_key(key, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}
