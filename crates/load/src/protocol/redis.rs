//! RESP2: GET, SET, and what a connection says first.

use super::Body;
use super::KEY_DIGITS;
use super::Operation;
use super::Parsed;
use super::ProtocolError;
use super::Reply;
use super::line;
use super::number;
use super::push_key;
use super::shown;
use crate::failure::Failure;
use crate::url::Url;
use std::io::Write;

const WHAT: &str = "an answer in the redis protocol";

#[derive(Clone, Debug, Default)]
pub struct Reader {
    body: Option<Body>,
}

impl Reader {
    pub(super) fn advance(
        &mut self,
        operation: Operation,
        bytes: &[u8],
    ) -> Result<Parsed, ProtocolError> {
        if let Some(body) = &mut self.body {
            let (consumed, complete) = body.advance(WHAT, bytes)?;
            if !complete {
                return Ok(Parsed::skipped(consumed));
            }
            self.body = None;
            return Ok(Parsed::done(consumed, Reply::Success));
        }
        // What cannot be RESP is told at once, before a whole line is there.
        match bytes.first() {
            None => return Ok(Parsed::default()),
            Some(b'+' | b'-' | b':' | b'$' | b'_') => {}
            Some(_) => return Err(ProtocolError::bytes(WHAT, bytes)),
        }
        let Some((line, length)) = line(WHAT, bytes)? else {
            return Ok(Parsed::default());
        };
        let rest = &line[1..];
        let answer = match (line[0], operation) {
            (b'-', _) => Reply::Failed(Failure::ErrorReply, shown(rest)),
            (b'+', Operation::Set | Operation::Greet) => Reply::Success,
            (b'_', Operation::Get) if rest.is_empty() => Reply::Missing,
            (b'$', Operation::Get) if rest == b"-1" => Reply::Missing,
            (b'$', Operation::Get) => {
                let left = number(rest, 10).ok_or_else(|| ProtocolError::bytes(WHAT, bytes))?;
                self.body = Some(Body { left });
                return Ok(Parsed::skipped(length));
            }
            _ => return Err(ProtocolError::bytes(WHAT, bytes)),
        };
        Ok(Parsed::done(length, answer))
    }
}

pub(super) fn write(operation: Operation, key: u64, value: &[u8], out: &mut Vec<u8>) {
    // 7 letters of the prefix.
    const _: () = assert!(KEY_DIGITS + 7 == 19);
    match operation {
        Operation::Set => {
            out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$19\r\n");
            push_key(key, out);
            write!(out, "\r\n${}\r\n", value.len()).expect("a vector takes everything");
            out.extend_from_slice(value);
        }
        _ => {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$19\r\n");
            push_key(key, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn greeting(url: &Url) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    if let Some(password) = &url.password {
        let mut words = vec!["AUTH"];
        words.extend(url.user.as_deref());
        words.push(password);
        said.push(command(&words));
    }
    if url.database != 0 {
        said.push(command(&["SELECT", &url.database.to_string()]));
    }
    said.push(command(&["PING"]));
    said
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out += &format!("${}\r\n{word}\r\n", word.len());
    }
    out.into_bytes()
}
