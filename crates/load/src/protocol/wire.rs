//! What the protocols share: requests, answers, and reading them piece by piece.

use crate::failure::Failure;

/// Digits of a key: all names are equally long.
pub(super) const KEY_DIGITS: usize = 12;

/// What was asked; the answer is read accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// AUTH, SELECT, PING: any answer that is no error.
    Greet,
    Get,
    Set,
    /// An HTTP GET.
    Fetch,
}

/// What came back for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Success,
    /// An answer, but there is no such key.
    Missing,
    /// The server said no; in its words.
    Failed(Failure, String),
}

/// How far the bytes led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Bytes that are done with. Give the others again, with more behind them.
    pub consumed: usize,
    /// The answer, once it is complete.
    pub answer: Option<Reply>,
    /// The server closes the connection after this answer.
    pub closes: bool,
}

impl Parsed {
    pub(super) const MORE: Parsed = Parsed {
        consumed: 0,
        answer: None,
        closes: false,
    };

    pub(super) fn skipped(consumed: usize) -> Parsed {
        Parsed {
            consumed,
            ..Parsed::MORE
        }
    }

    pub(super) fn done(consumed: usize, answer: Reply) -> Parsed {
        Parsed {
            consumed,
            answer: Some(answer),
            closes: false,
        }
    }
}

/// Bytes that are not the protocol, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

/// Longest line taken for one.
pub(super) const MAX_LINE: usize = 8 << 10;
/// Longest value or chunk taken for one.
pub(super) const MAX_BODY: u64 = 1 << 40;
/// Bytes of an answer that a message shows.
pub(super) const SHOWN: usize = 60;

impl ProtocolError {
    /// `what` is expected, these bytes came.
    pub(super) fn bytes(what: &str, bytes: &[u8]) -> ProtocolError {
        ProtocolError(format!("{what} expected, '{}' came", shown(bytes)))
    }
}

/// The first bytes, made printable.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

/// Appends `jostle:` and the digits of `key`.
pub(super) fn push_key(key: u64, out: &mut Vec<u8>) {
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
pub(super) fn line<'a>(
    what: &str,
    bytes: &'a [u8],
) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
    let searched = &bytes[..bytes.len().min(MAX_LINE)];
    match searched.iter().position(|&byte| byte == b'\n') {
        Some(end) if end > 0 && bytes[end - 1] == b'\r' => Ok(Some((&bytes[..end - 1], end + 1))),
        Some(_) => Err(ProtocolError::bytes(what, bytes)),
        None if bytes.len() >= MAX_LINE => Err(ProtocolError::bytes(what, bytes)),
        None => Ok(None),
    }
}

/// Digits and nothing else, within bounds.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    (number <= MAX_BODY).then_some(number)
}

/// A body of known length and the line end behind it, being passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) left: u64,
}

impl Body {
    /// Passes over what is there: bytes consumed, and whether it is complete.
    ///
    /// # Errors
    /// When no line end follows the body.
    pub(super) fn advance(
        &mut self,
        what: &str,
        bytes: &[u8],
    ) -> Result<(usize, bool), ProtocolError> {
        let take = self.left.min(bytes.len() as u64) as usize;
        self.left -= take as u64;
        let rest = &bytes[take..];
        if self.left > 0 || rest.len() < 2 {
            // A wrong end is seen at its first byte.
            return match rest.first() {
                Some(&byte) if byte != b'\r' => Err(ProtocolError::bytes(what, rest)),
                _ => Ok((take, false)),
            };
        }
        match rest.starts_with(b"\r\n") {
            true => Ok((take + 2, true)),
            false => Err(ProtocolError::bytes(what, rest)),
        }
    }
}
