//! Message sizes and bursts: what traffic looks like at 100 %.

use crate::network::protocol::Header;
use crate::weyl::GOLDEN;
use serde::Deserialize;
use serde::Serialize;

/// Most kinds of messages.
const MOST_KINDS: usize = 256;
/// Longest message, bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Most messages in a burst.
const MOST_MESSAGES: u64 = 1_000_000;
/// Longest spacing, seconds.
const MOST_SPACING: f64 = 60.0;

/// Traffic as independent bursts of messages (the message sizes, inter-arrival
/// times and bursts of ECHO, without its racks: there is one peer).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Seed of everything drawn.
    #[serde(default)]
    pub seed: u64,
    /// Kinds of messages; their probabilities sum to 1.
    pub message: Vec<Message>,
    #[serde(default)]
    pub burst: Burst,
}

/// One kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub bytes: u64,
    pub probability: f64,
}

/// How messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Burst {
    /// Messages sent back to back.
    pub messages: u64,
    /// Mean time from the start of one burst to that of the next at 100 %,
    /// seconds; 0 for no break at all.
    pub spacing_seconds: f64,
    pub spacing: Spacing,
}

impl Default for Burst {
    fn default() -> Self {
        Burst {
            messages: 1,
            spacing_seconds: 0.0,
            spacing: Spacing::Fixed,
        }
    }
}

/// How the times between bursts are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    #[default]
    Fixed,
    /// As of independent senders.
    Exponential,
}

impl Pattern {
    /// Names of the built-in patterns.
    pub const NAMES: [&'static str; 2] = ["bulk", "burst"];

    /// The built-in pattern called `name`.
    pub fn named(name: &str) -> Option<Self> {
        let kind = |bytes, probability| Message { bytes, probability };
        match name {
            "bulk" => Some(Pattern {
                seed: 0,
                message: vec![kind(64 << 10, 1.0)],
                burst: Burst::default(),
            }),
            "burst" => Some(Pattern {
                seed: 0,
                message: vec![kind(256, 0.5), kind(1400, 0.3), kind(16 << 10, 0.2)],
                burst: Burst {
                    messages: 32,
                    spacing_seconds: 0.002,
                    spacing: Spacing::Exponential,
                },
            }),
            _ => None,
        }
    }

    /// # Errors
    /// In words: the key that cannot be, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let (kinds, least) = (self.message.len(), Header::BYTES as u64);
        need(kinds > 0, || {
            "message: the list is empty; give at least one [[message]]".into()
        })?;
        need(kinds <= MOST_KINDS, || {
            format!("message: {kinds} kinds; give at most {MOST_KINDS}")
        })?;
        for (index, Message { bytes, probability }) in self.message.iter().enumerate() {
            need((least..=MOST_BYTES).contains(bytes), || {
                format!("message[{index}].bytes: {bytes}; give {least} to {MOST_BYTES}")
            })?;
            need((0.0..=1.0).contains(probability), || {
                format!("message[{index}].probability: {probability}; give 0 to 1")
            })?;
        }
        let sum: f64 = self.message.iter().map(|kind| kind.probability).sum();
        need((sum - 1.0).abs() <= 1e-6, || {
            format!("message: the probabilities sum to {sum:.6}; make them sum to 1")
        })?;
        let (messages, spacing) = (self.burst.messages, self.burst.spacing_seconds);
        need((1..=MOST_MESSAGES).contains(&messages), || {
            format!("burst.messages: {messages}; give 1 to {MOST_MESSAGES}")
        })?;
        need((0.0..=MOST_SPACING).contains(&spacing), || {
            format!("burst.spacing_seconds: {spacing}; give 0 to {MOST_SPACING}")
        })
    }
}

fn need(met: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if met { Ok(()) } else { Err(problem()) }
}

/// One burst to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Bytes of each message.
    pub messages: Vec<usize>,
    /// The time until the next burst, as a multiple of its mean.
    pub spacing: f64,
}

/// Draws one burst after the other, the same ones for the same seed.
///
/// What is drawn comes from shuffled decks: in every round of [`ROUND`] draws
/// each sixteenth of the distribution comes up once. Single draws are random,
/// but a quarter of a second is enough to see the mean.
pub struct Draw {
    pattern: Pattern,
    random: SplitMix,
    kinds: Deck,
    spacings: Deck,
}

/// Draws in a round.
const ROUND: usize = 16;

impl Draw {
    pub fn new(pattern: Pattern) -> Self {
        Draw {
            random: SplitMix(pattern.seed),
            pattern,
            kinds: Deck::default(),
            spacings: Deck::default(),
        }
    }

    /// Replaces `burst` by the next one.
    pub fn next(&mut self, burst: &mut Drawn) {
        burst.messages.clear();
        let messages = 0..self.pattern.burst.messages;
        burst
            .messages
            .extend(messages.map(|_| self.message_bytes()));
        burst.spacing = match self.pattern.burst.spacing {
            Spacing::Fixed => 1.0,
            Spacing::Exponential => exponential(self.spacings.next(&mut self.random)),
        };
    }

    fn message_bytes(&mut self) -> usize {
        if let [only] = self.pattern.message[..] {
            return only.bytes as usize;
        }
        let stratum = self.kinds.next(&mut self.random) as f64;
        let mut left = (stratum + self.random.uniform()) / ROUND as f64;
        let kind = self.pattern.message.iter().find(|kind| {
            left -= kind.probability;
            left < 0.0
        });
        // Rounding may leave a trace above the last one.
        let kind = kind.or(self.pattern.message.last());
        kind.map_or(Header::BYTES, |kind| kind.bytes as usize)
    }
}

/// Mean of the exponential distribution of mean 1 within one of [`ROUND`]
/// equally likely ranges: the integral of `-ln v` over its probabilities.
fn exponential(stratum: usize) -> f64 {
    let below = |v: f64| match v > 0.0 {
        true => v - v * v.ln(),
        false => 0.0,
    };
    let rounds = ROUND as f64;
    let high = 1.0 - stratum as f64 / rounds;
    let low = 1.0 - (stratum + 1) as f64 / rounds;
    (below(high) - below(low)) * rounds
}

/// The numbers below [`ROUND`], shuffled anew for each round.
#[derive(Default)]
struct Deck {
    cards: Vec<usize>,
}

impl Deck {
    fn next(&mut self, random: &mut SplitMix) -> usize {
        if self.cards.is_empty() {
            self.cards.extend(0..ROUND);
        }
        let card = (random.uniform() * self.cards.len() as f64) as usize;
        self.cards.swap_remove(card)
    }
}

/// Steele, Lea and Flood's generator: one word of state.
struct SplitMix(u64);

impl SplitMix {
    /// From 0 to below 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        (word >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_ones_hold_their_own_rules() {
        for name in Pattern::NAMES {
            Pattern::named(name).unwrap().check().unwrap();
        }
        assert_eq!(Pattern::named("nope"), None);
    }

    #[test]
    fn draws_repeat_and_have_the_shares_asked_for() {
        let pattern = Pattern::named("burst").unwrap();
        let bursts = |seed: u64| {
            let mut draw = Draw::new(Pattern {
                seed,
                ..pattern.clone()
            });
            let mut all = Vec::new();
            let mut burst = Drawn::default();
            for _ in 0..2000 {
                draw.next(&mut burst);
                all.push(burst.clone());
            }
            all
        };
        let first = bursts(1);
        assert_eq!(first, bursts(1));
        assert_ne!(first, bursts(2));
        let sizes: Vec<usize> = first.iter().flat_map(|b| b.messages.clone()).collect();
        assert_eq!(sizes.len(), 2000 * 32);
        for kind in &pattern.message {
            let found = sizes.iter().filter(|&&size| size as u64 == kind.bytes);
            let share = found.count() as f64 / sizes.len() as f64;
            assert!((share - kind.probability).abs() < 0.01, "{kind:?}: {share}");
        }
        for round in first.chunks(ROUND) {
            let mean = round.iter().map(|b| b.spacing).sum::<f64>() / ROUND as f64;
            assert!((mean - 1.0).abs() < 1e-9, "{mean}");
        }
        let square: f64 = first.iter().map(|b| b.spacing * b.spacing).sum();
        let square = square / 2000.0;
        assert!((1.7..2.0).contains(&square), "2 is exponential: {square}");
    }

    #[test]
    fn what_cannot_be_names_its_key() {
        let good = Pattern::named("burst").unwrap();
        let broken = |change: fn(&mut Pattern)| {
            let mut pattern = good.clone();
            change(&mut pattern);
            pattern.check().unwrap_err()
        };
        for (reason, word) in [
            (broken(|p| p.message.clear()), "empty"),
            (broken(|p| p.message[1].bytes = 15), "message[1].bytes"),
            (
                broken(|p| p.message[0].probability = -0.1),
                "message[0].probability",
            ),
            (
                broken(|p| p.message[0].probability = f64::NAN),
                "message[0].probability",
            ),
            (broken(|p| p.message[0].probability = 0.4), "sum to 0.9"),
            (broken(|p| p.burst.messages = 0), "burst.messages"),
            (
                broken(|p| p.burst.spacing_seconds = -1.0),
                "burst.spacing_seconds",
            ),
        ] {
            assert!(reason.contains(word), "{reason}");
        }
    }
}
