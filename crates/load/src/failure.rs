//! How a request can fail. Failures are counted by kind, never as answers.

use std::collections::BTreeMap;

/// What went wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Nobody listens.
    Refused,
    /// The connection broke.
    Reset,
    /// The server closed it with requests under way.
    Closed,
    /// No answer within the time-out.
    Timeout,
    /// What came back is not the protocol.
    Protocol,
    /// The server answered with an error.
    ErrorReply,
    /// HTTP 4xx.
    Http4xx,
    /// HTTP 5xx.
    Http5xx,
    /// Anything else the system said.
    Other,
}

impl Failure {
    pub const ALL: [Failure; 9] = [
        Failure::Refused,
        Failure::Reset,
        Failure::Closed,
        Failure::Timeout,
        Failure::Protocol,
        Failure::ErrorReply,
        Failure::Http4xx,
        Failure::Http5xx,
        Failure::Other,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::Closed => "closed",
            Failure::Timeout => "timeout",
            Failure::Protocol => "protocol",
            Failure::ErrorReply => "error_reply",
            Failure::Http4xx => "http_4xx",
            Failure::Http5xx => "http_5xx",
            Failure::Other => "other",
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

/// Failures by kind, with the first words of the first of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    counts: [u64; Failure::ALL.len()],
    examples: BTreeMap<Failure, String>,
}

impl Failures {
    pub fn add(&mut self, failure: Failure, example: &str) {
        self.counts[failure as usize] += 1;
        if !example.is_empty() && !self.examples.contains_key(&failure) {
            self.examples.insert(failure, example.to_string());
        }
    }

    pub fn merge(&mut self, other: &Failures) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (failure, example) in &other.examples {
            self.examples
                .entry(*failure)
                .or_insert_with(|| example.clone());
        }
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn of(&self, failure: Failure) -> u64 {
        self.counts[failure as usize]
    }

    /// Those that happened: kind, count, and the first words of one, if any.
    pub fn seen(&self) -> impl Iterator<Item = (Failure, u64, Option<&str>)> {
        Failure::ALL
            .iter()
            .map(|&failure| {
                let example = self.examples.get(&failure).map(String::as_str);
                (failure, self.of(failure), example)
            })
            .filter(|(_, count, _)| *count > 0)
    }

    /// In words: `12 reset, 3 timeout`; empty when there are none.
    pub fn words(&self) -> String {
        let words: Vec<String> = self
            .seen()
            .map(|(failure, count, example)| match example {
                Some(example) => format!("{count} {} ({example})", failure.name()),
                None => format!("{count} {}", failure.name()),
            })
            .collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_place_and_name() {
        let mut failures = Failures::default();
        for (index, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
            failures.add(failure, "");
        }
        assert_eq!(failures.total(), Failure::ALL.len() as u64);
        let names: std::collections::BTreeSet<_> =
            failures.seen().map(|(kind, ..)| kind.name()).collect();
        assert_eq!(names.len(), Failure::ALL.len());
    }

    #[test]
    fn the_first_words_are_kept() {
        let mut failures = Failures::default();
        failures.add(Failure::ErrorReply, "OOM");
        failures.add(Failure::ErrorReply, "later");
        let mut sum = Failures::default();
        sum.merge(&failures);
        assert_eq!(sum.words(), "2 error_reply (OOM)");
    }
}
