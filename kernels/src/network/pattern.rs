//! What traffic looks like: which message follows which, after what time, and
//! how that changes in turn.
//!
//! A pattern is a Markov chain of messages. Each transition is one message that
//! follows another: it is due some time after the message before, drawn by a law
//! of its own, so that a rare pause and a frequent message of the same burst
//! both keep their share. A pattern may have several windows of time, each with
//! a chain of its own, that follow each other (the message chains and windows of ECHO,
//! without its racks: there is one peer).

pub use crate::chain::Arrival;
pub use crate::chain::MOST_GAMMA_SPREAD;
pub use crate::chain::MOST_NORMAL_SPREAD;
use crate::chain::stationary;
use serde::Deserialize;
use serde::Serialize;

/// Most kinds of messages.
pub const MOST_MESSAGES: usize = 128;
/// Most transitions, all windows together.
pub const MOST_TRANSITIONS: usize = 2000;
/// Most windows.
pub const MOST_WINDOWS: usize = 64;
/// Largest message, bytes.
pub const LARGEST_MESSAGE: u32 = 16 << 20;

/// Chains of messages. Plain data; who reads it from a file checks it: in each
/// window every message that occurs leads to every other that does, and the
/// probabilities of what follows one sum to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// Of everything drawn.
    pub seed: u64,
    pub messages: Vec<Message>,
    /// Played one after another, again and again. The length of a single one is not used.
    pub windows: Vec<Window>,
}

/// One kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub name: String,
    /// Payload.
    pub bytes: u32,
}

/// A stretch of time with a chain of its own; without transitions nothing is
/// sent in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    pub name: String,
    /// How long, whatever the intensity is.
    pub seconds: f64,
    pub transitions: Vec<Transition>,
}

/// A message that follows another. Written as a list of numbers, so that the
/// largest pattern fits on the command line of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Packed", into = "Packed")]
pub struct Transition {
    /// Index of the message before.
    pub from: usize,
    /// Index of this message.
    pub to: usize,
    /// Of all messages that follow `from`, the share that are this, 0–1.
    pub probability: f64,
    /// Mean time from the message before until this one is due, at 100 %, µs.
    pub inter_arrival_us: f64,
    pub arrival: Arrival,
}

/// From, to, probability, time, law of the time, and its spread.
type Packed = (usize, usize, f32, f32, u8, f32);

impl TryFrom<Packed> for Transition {
    type Error = String;

    fn try_from((from, to, probability, us, law, spread): Packed) -> Result<Transition, String> {
        Ok(Transition {
            from,
            to,
            probability: f64::from(probability),
            inter_arrival_us: f64::from(us),
            arrival: Arrival::unpack(law, spread)?,
        })
    }
}

impl From<Transition> for Packed {
    fn from(kind: Transition) -> Packed {
        let (law, spread) = kind.arrival.pack();
        (
            kind.from,
            kind.to,
            kind.probability as f32,
            kind.inter_arrival_us as f32,
            law,
            spread,
        )
    }
}

impl Window {
    /// The share of all its messages that each transition has in the long run.
    pub fn weights(&self) -> Vec<f64> {
        let ends = |kind: &Transition| [kind.from, kind.to];
        let mut used: Vec<usize> = self.transitions.iter().flat_map(ends).collect();
        used.sort_unstable();
        used.dedup();
        let index = |message: usize| used.binary_search(&message).unwrap_or(0);
        let steps = self.transitions.iter();
        let steps = steps.map(|kind| (index(kind.from), index(kind.to), kind.probability));
        let visited = stationary(used.len(), steps);
        let weight = |kind: &Transition| visited[index(kind.from)] * kind.probability;
        self.transitions.iter().map(weight).collect()
    }

    /// Mean over all messages of something that each transition has.
    pub fn mean(&self, of: impl Fn(&Transition) -> f64) -> f64 {
        let each = self.transitions.iter().zip(self.weights());
        each.map(|(kind, weight)| weight * of(kind)).sum()
    }

    /// Mean time between two messages, µs; `None` when nothing is sent.
    pub fn mean_us(&self) -> Option<f64> {
        let sends = !self.transitions.is_empty();
        sends.then(|| self.mean(|kind| kind.inter_arrival_us))
    }
}

impl Pattern {
    /// Messages of 64 KiB without a pause.
    pub fn bulk() -> Pattern {
        Pattern {
            seed: 1,
            messages: vec![message("64KiB", 64 << 10)],
            windows: vec![always(vec![Transition {
                from: 0,
                to: 0,
                probability: 1.0,
                inter_arrival_us: 0.0,
                arrival: Arrival::Fixed,
            }])],
        }
    }

    /// On average 32 messages of mixed sizes back to back, then a pause; 500
    /// bursts a second, as of independent senders.
    pub fn burst() -> Pattern {
        const MESSAGES: f64 = 32.0;
        const SPACING_US: f64 = 2000.0;
        let messages = vec![
            message("small", 256),
            message("segment", 1400),
            message("large", 16 << 10),
        ];
        let shares = [0.5, 0.3, 0.2];
        let mut transitions = Vec::new();
        for from in 0..messages.len() {
            for (to, share) in shares.into_iter().enumerate() {
                let kind = |probability, inter_arrival_us, arrival| Transition {
                    from,
                    to,
                    probability,
                    inter_arrival_us,
                    arrival,
                };
                let first = share / MESSAGES;
                transitions.push(kind(share - first, 0.0, Arrival::Fixed));
                transitions.push(kind(first, SPACING_US, Arrival::Exponential));
            }
        }
        Pattern {
            seed: 1,
            messages,
            windows: vec![always(transitions)],
        }
    }

    /// Whether messages are due at times of their own; otherwise they follow
    /// each other without a pause.
    pub fn is_timed(&self) -> bool {
        let mut kinds = self.windows.iter().flat_map(|window| &window.transitions);
        kinds.any(|kind| kind.probability * kind.inter_arrival_us > 0.0)
    }

    /// Payload and messages per second at 100 %, in the long run, where messages
    /// shorter than `least` bytes are sent as that many. `None` for a pattern
    /// without times.
    pub fn per_second(&self, least: u32) -> Option<(f64, f64)> {
        let (mut bytes, mut messages, mut seconds) = (0.0, 0.0, 0.0);
        for window in &self.windows {
            seconds += window.seconds;
            let Some(mean_us) = window.mean_us() else {
                continue;
            };
            let count = window.seconds * 1e6 / mean_us;
            let size = |kind: &Transition| f64::from(self.messages[kind.to].bytes.max(least));
            messages += count;
            bytes += count * window.mean(size);
        }
        self.is_timed()
            .then(|| (bytes / seconds, messages / seconds))
    }
}

fn message(name: &str, bytes: u32) -> Message {
    Message {
        name: name.into(),
        bytes,
    }
}

/// The only window of a pattern.
pub fn always(transitions: Vec<Transition>) -> Window {
    Window {
        name: "always".into(),
        seconds: 1.0,
        transitions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_chain() {
        assert_eq!(Pattern::bulk().per_second(0), None);
        let (bytes, messages) = Pattern::burst().per_second(0).unwrap();
        assert!((messages / 16_000.0 - 1.0).abs() < 1e-9, "{messages}");
        let size = 0.5 * 256.0 + 0.3 * 1400.0 + 0.2 * 16384.0;
        assert!((bytes / (16_000.0 * size) - 1.0).abs() < 1e-9, "{bytes}");
        let mut quiet_half = Pattern::burst();
        quiet_half.windows.push(Window {
            transitions: Vec::new(),
            ..quiet_half.windows[0].clone()
        });
        let (half, _) = quiet_half.per_second(0).unwrap();
        assert!((half / bytes - 0.5).abs() < 1e-9, "{half}");
        let padded = Pattern::burst().per_second(1400).unwrap().0;
        assert!((padded / (bytes + 8000.0 * 1144.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_largest_pattern_fits_on_a_command_line() {
        let name = "m".repeat(64);
        let messages = vec![message(&name, LARGEST_MESSAGE); MOST_MESSAGES];
        let kind = Transition {
            from: 127,
            to: 127,
            probability: 0.012_345_678_9,
            inter_arrival_us: 123_456.789,
            arrival: Arrival::Gamma(12.345_678),
        };
        let mut windows = vec![always(vec![kind; MOST_TRANSITIONS / MOST_WINDOWS]); MOST_WINDOWS];
        for window in &mut windows {
            window.name = name.clone();
        }
        let pattern = Pattern {
            seed: u64::MAX,
            messages,
            windows,
        };
        let text = serde_json::to_string(&pattern).unwrap();
        // Linux takes 128 KiB per argument; the rest is for everything else.
        assert!(text.len() < 120 << 10, "{} bytes", text.len());
        let read: Pattern = serde_json::from_str(&text).unwrap();
        let [written, read] = [&pattern, &read].map(|pattern| pattern.windows[0].transitions[0]);
        assert!((read.probability / written.probability - 1.0).abs() < 1e-6);
        assert_eq!(read.arrival, written.arrival);
        assert_eq!((read.from, read.to), (127, 127));
    }
}
