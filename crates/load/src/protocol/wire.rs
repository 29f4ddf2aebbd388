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
    pub(super) fn skipped(consumed: usize) -> Parsed {
        Parsed {
            consumed,
            ..Parsed::default()
        }
    }

    pub(super) fn done(consumed: usize, answer: Reply) -> Parsed {
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
        None if bytes.len() < MAX_LINE => Ok(None),
        _ => Err(ProtocolError::bytes(what, bytes)),
    }
}

/// Digits and nothing else, within bounds.
pub(super) fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let valid = digits
        .iter()
        .all(|digit| char::from(*digit).is_digit(radix));
    let digits = std::str::from_utf8(digits).ok()?;
    let number = u64::from_str_radix(digits, radix).ok()?;
    (valid && digits.len() <= 15 && number <= MAX_BODY).then_some(number)
}

/// A body of known length and the line end behind it, being passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) left: u64,
}

impl Body {
    /// Passes over what is there: bytes consumed, and whether it is complete. An
    /// error when no line end follows the body.
    pub(super) fn advance(
        &mut self,
        what: &str,
        bytes: &[u8],
    ) -> Result<(usize, bool), ProtocolError> {
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
