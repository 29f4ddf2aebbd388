//! How a request can fail. Failures are counted by kind, never as answers.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What went wrong with a request; in the order of the names in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The server closed the connection with requests in flight.
    Closed,
    /// The server answered with an error.
    ErrorReply,
    #[serde(rename = "http_4xx")]
    Http4xx,
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// Anything else the system said.
    Other,
    /// What came back is not the protocol.
    Protocol,
    /// Nobody listens.
    Refused,
    /// The connection broke.
    Reset,
    /// No answer within the time-out.
    Timeout,
}

impl Failure {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Closed => "closed",
            Failure::ErrorReply => "error_reply",
            Failure::Http4xx => "http_4xx",
            Failure::Http5xx => "http_5xx",
            Failure::Other => "other",
            Failure::Protocol => "protocol",
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::Timeout => "timeout",
        }
    }

    /// What an error of a socket means.
    pub fn of(error: &std::io::Error) -> Failure {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Failure::Refused,
            ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected => Failure::Reset,
            ErrorKind::UnexpectedEof => Failure::Closed,
            ErrorKind::TimedOut => Failure::Timeout,
            _ => Failure::Other,
        }
    }
}

/// Failures by kind. Displayed as `12 reset, 3 timeout (first words)`; empty
/// when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failures(BTreeMap<Failure, Seen>);

/// Failures of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Seen {
    count: u64,
    /// First words of the first one that had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<String>,
}

impl Failures {
    pub fn add(&mut self, failure: Failure, example: &str) {
        let seen = self.0.entry(failure).or_default();
        seen.count += 1;
        if !example.is_empty() {
            seen.example.get_or_insert_with(|| example.to_string());
        }
    }

    pub fn merge(&mut self, other: &Failures) {
        for (failure, more) in &other.0 {
            let seen = self.0.entry(*failure).or_default();
            seen.count += more.count;
            seen.example = seen.example.take().or_else(|| more.example.clone());
        }
    }

    pub fn total(&self) -> u64 {
        self.0.values().map(|seen| seen.count).sum()
    }

    pub fn of(&self, failure: Failure) -> u64 {
        self.0.get(&failure).map_or(0, |seen| seen.count)
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (failure, seen)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} {}", seen.count, failure.name())?;
            if let Some(example) = &seen.example {
                write!(f, " ({example})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_are_kept() {
        let mut failures = Failures::default();
        failures.add(Failure::ErrorReply, "OOM");
        failures.add(Failure::ErrorReply, "later");
        let mut sum = Failures::default();
        sum.merge(&failures);
        sum.add(Failure::Timeout, "");
        assert_eq!(sum.to_string(), "2 error_reply (OOM), 1 timeout");
        assert_eq!((sum.total(), sum.of(Failure::Reset)), (3, 0));
    }
}
