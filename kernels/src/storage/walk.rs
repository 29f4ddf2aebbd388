//! The walk through a pattern's chain: which I/O comes next, and how long
//! after the one before.

use super::pattern::Access;
use super::pattern::Operation;
use super::pattern::Pattern;
use super::request::Request;
use crate::Failure;
use crate::chain::Leaving;
use crate::chain::Time;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// One I/O of the walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Index of its transition.
    pub transition: usize,
    pub request: Request,
    /// Time since the step before, in the pattern's own µs.
    pub after_us: f64,
}

/// A range of the scratch file in bytes, and where the last I/O in it ended.
#[derive(Clone, Debug)]
struct Area {
    start: u64,
    bytes: u64,
    cursor: u64,
}

/// An endless sequence of I/Os.
///
/// Each transition is drawn with its probability, whatever came before, so that
/// the walk stays in a range for as long, and leaves it for as long, as the chain
/// says: runs are what a cache or a disk's arm answers to. Shares stray from those
/// of the chain by the square root of the number of I/Os. Everything is drawn
/// from the pattern's seed.
#[derive(Debug)]
pub struct Walk {
    pattern: Pattern,
    /// Transitions that leave each state.
    leaving: Vec<Leaving>,
    times: Vec<Time>,
    areas: Vec<Area>,
    state: usize,
    random: ChaCha8Rng,
}

impl Walk {
    /// A walk over `bytes` of scratch area, where requests must be multiples
    /// of `alignment` bytes.
    ///
    /// # Errors
    /// In words, when a range is too small for its requests or a request does
    /// not fit the alignment.
    pub fn new(pattern: &Pattern, bytes: u64, alignment: u32) -> Result<Walk, Failure> {
        let refuse = |what: String| Err(Failure::new(format!("pattern {}: {what}", pattern.name)));
        for transition in &pattern.transitions {
            if transition.block_bytes % alignment != 0 {
                return refuse(format!(
                    "block_bytes = {} from '{}' to '{}' is not a multiple of the {alignment} bytes \
                     that direct I/O here must be aligned to; give a multiple",
                    transition.block_bytes,
                    pattern.states[transition.from].name,
                    pattern.states[transition.to].name,
                ));
            }
        }
        let mut areas = Vec::new();
        for (index, state) in pattern.states.iter().enumerate() {
            let at = |percent: f64| (bytes as f64 * percent / 100.0) as u64;
            let step = u64::from(alignment);
            let start = at(state.range_percent[0]).next_multiple_of(step);
            let length = at(state.range_percent[1]).saturating_sub(start) / step * step;
            let into = pattern.transitions.iter().filter(|kind| kind.to == index);
            let largest = into.map(|kind| kind.block_bytes).max().unwrap_or(0);
            if length < u64::from(largest) {
                return refuse(format!(
                    "state '{}' covers {length} of {bytes} bytes, too little for a request of \
                     {largest}; give it a larger range_percent, or more with --scratch-size",
                    state.name
                ));
            }
            areas.push(Area {
                start,
                bytes: length,
                cursor: 0,
            });
        }
        let mut leaving = vec![Leaving::default(); pattern.states.len()];
        for (index, kind) in pattern.transitions.iter().enumerate() {
            leaving[kind.from].add(kind.probability, index);
        }
        Ok(Walk {
            leaving,
            times: pattern
                .transitions
                .iter()
                .map(|kind| Time::of(kind.inter_arrival_us, kind.arrival))
                .collect(),
            areas,
            state: 0,
            random: ChaCha8Rng::seed_from_u64(pattern.seed),
            pattern: pattern.clone(),
        })
    }
}

impl Iterator for Walk {
    type Item = Step;

    /// Never ends.
    fn next(&mut self) -> Option<Step> {
        let chosen = self.leaving[self.state].draw(self.random.random())?;
        let kind = &self.pattern.transitions[chosen];
        self.state = kind.to;
        let area = &mut self.areas[kind.to];
        let block = u64::from(kind.block_bytes);
        let within = match kind.access {
            Access::Random => self.random.random_range(0..area.bytes / block) * block,
            Access::Sequential if area.cursor + block <= area.bytes => area.cursor,
            Access::Sequential => 0,
        };
        area.cursor = within + block;
        let after_us = self.times[chosen].draw(&mut self.random);
        Some(Step {
            transition: chosen,
            request: Request {
                offset: area.start + within,
                bytes: kind.block_bytes,
                write: kind.operation == Operation::Write,
            },
            after_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Arrival;
    use super::super::pattern::State;
    use super::super::pattern::Transition;
    use super::*;
    use proptest::prelude::*;

    const AREA: u64 = 64 << 20;

    /// Chains of 1 to 6 states in which every state leads to the next one, and
    /// so to all, and to others by chance.
    fn chains() -> impl Strategy<Value = Pattern> {
        let kind = (
            any::<prop::sample::Index>(),
            0.01f64..1.0,
            1u32..64,
            any::<[bool; 3]>(),
            0.0f64..1000.0,
        );
        let leaving = prop::collection::vec(kind, 1..5);
        (prop::collection::vec(leaving, 1..7), any::<u64>()).prop_map(|(states, seed)| {
            let count = states.len();
            let mut transitions = Vec::new();
            for (from, kinds) in states.iter().enumerate() {
                let all: f64 = kinds.iter().map(|kind| kind.1).sum();
                for (number, (to, weight, sectors, [write, random, fixed], us)) in
                    kinds.iter().enumerate()
                {
                    transitions.push(Transition {
                        from,
                        to: match number {
                            0 => (from + 1) % count,
                            _ => to.index(count),
                        },
                        probability: weight / all,
                        block_bytes: sectors * 4096,
                        operation: match write {
                            true => Operation::Write,
                            false => Operation::Read,
                        },
                        access: match random {
                            true => Access::Random,
                            false => Access::Sequential,
                        },
                        inter_arrival_us: *us + 1.0,
                        arrival: match fixed {
                            true => Arrival::Fixed,
                            false => Arrival::Exponential,
                        },
                    });
                }
            }
            let share = 100.0 / count as f64;
            Pattern {
                name: "made up".into(),
                seed,
                states: (0..count)
                    .map(|state| State {
                        name: format!("s{state}"),
                        range_percent: [share * state as f64, share * (state + 1) as f64],
                    })
                    .collect(),
                transitions,
            }
        })
    }

    proptest! {
        /// What flows into a state flows out of it, and of the I/Os that follow one
        /// in a state every kind has its probability.
        #[test]
        fn kinds_are_drawn_as_the_chain_says(pattern in chains()) {
            const LENGTH: usize = 20_000;
            let weights = pattern.weights();
            prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for state in 0..pattern.states.len() {
                let flow = |end: fn(&Transition) -> usize| -> f64 {
                    let kinds = pattern.transitions.iter().zip(&weights);
                    kinds.filter(|(kind, _)| end(kind) == state).map(|(_, weight)| weight).sum()
                };
                prop_assert!((flow(|kind| kind.from) - flow(|kind| kind.to)).abs() < 1e-9);
            }
            let counts = counts(&pattern, LENGTH);
            for (kind, count) in pattern.transitions.iter().zip(&counts) {
                let alike = pattern.transitions.iter().zip(&counts);
                let left = alike.filter(|(other, _)| other.from == kind.from);
                let visits: f64 = left.map(|(_, count)| count).sum();
                let p = kind.probability;
                // Seven standard deviations of a binomial law, and its lumps.
                let most = 7.0 * (visits * p * (1.0 - p)).sqrt() + 7.0;
                prop_assert!((count - visits * p).abs() <= most, "{count} of {visits} at {p}");
            }
        }

        #[test]
        fn requests_follow_their_transition(pattern in chains()) {
            let mut walk = Walk::new(&pattern, AREA, 4096).unwrap();
            let areas = walk.areas.clone();
            let mut ends: Vec<u64> = vec![0; areas.len()];
            let mut state = 0;
            for step in walk.by_ref().take(2000) {
                let kind = &pattern.transitions[step.transition];
                prop_assert_eq!(kind.from, state);
                state = kind.to;
                let area = &areas[state];
                let Request { offset, bytes, write } = step.request;
                prop_assert_eq!(bytes, kind.block_bytes);
                prop_assert_eq!(write, kind.operation == Operation::Write);
                prop_assert_eq!(offset % 4096, 0);
                prop_assert!(offset >= area.start);
                let end = offset - area.start + u64::from(bytes);
                prop_assert!(end <= area.bytes);
                if kind.access == Access::Sequential {
                    let begin = offset - area.start;
                    prop_assert!(begin == ends[state] || begin == 0);
                }
                ends[state] = end;
            }
        }

        /// At half the rate every time is twice as long, to the last bit, and
        /// the times of a long walk have the means of its transitions.
        #[test]
        fn times_scale_and_keep_their_mean(pattern in chains(), rate in 1e3f64..1e7) {
            prop_assert_eq!(pattern.stretch(rate / 2.0), 2.0 * pattern.stretch(rate));
            let sectors = pattern.mean(|kind| f64::from(kind.block_bytes)) / 512.0;
            let nanoseconds = pattern.mean(|kind| kind.inter_arrival_us) * pattern.stretch(rate);
            prop_assert!((sectors / nanoseconds * 1e9 / rate - 1.0).abs() < 1e-9);
            let (mut taken, mut meant) = (0.0, 0.0);
            for step in Walk::new(&pattern, AREA, 4096).unwrap().take(50_000) {
                taken += step.after_us;
                meant += pattern.transitions[step.transition].inter_arrival_us;
            }
            prop_assert!((taken / meant - 1.0).abs() < 0.05, "{taken} for {meant}");
        }

        #[test]
        fn a_seed_repeats_the_walk(pattern in chains()) {
            let steps = |pattern: &Pattern| -> Vec<Step> {
                Walk::new(pattern, AREA, 4096).unwrap().take(500).collect()
            };
            prop_assert_eq!(steps(&pattern), steps(&pattern));
        }
    }

    fn counts(pattern: &Pattern, length: usize) -> Vec<f64> {
        let mut counts = vec![0.0; pattern.transitions.len()];
        for step in Walk::new(pattern, AREA, 4096).unwrap().take(length) {
            counts[step.transition] += 1.0;
        }
        counts
    }

    /// Stays where it is with probability 0.9.
    fn two_ranges() -> Pattern {
        let mut pattern = Pattern::random();
        let state = |name: &str, range_percent| State {
            name: name.into(),
            range_percent,
        };
        pattern.states = vec![state("a", [0.0, 50.0]), state("b", [50.0, 100.0])];
        let kind = pattern.transitions[0].clone();
        pattern.transitions = [(0, 0, 0.9), (0, 1, 0.1), (1, 1, 0.9), (1, 0, 0.1)]
            .map(|(from, to, probability)| Transition {
                from,
                to,
                probability,
                ..kind.clone()
            })
            .to_vec();
        pattern
    }

    #[test]
    fn runs_are_as_long_as_chance_makes_them() {
        let pattern = two_ranges();
        let walk = Walk::new(&pattern, AREA, 4096).unwrap();
        let states: Vec<usize> = walk
            .take(200_000)
            .map(|step| pattern.transitions[step.transition].to)
            .collect();
        let runs: Vec<f64> = states
            .chunk_by(|a, b| a == b)
            .map(|run| run.len() as f64)
            .collect();
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        assert!((mean - 10.0).abs() < 0.5, "{mean}");
        // A geometric law: 0.9 to the power of 29 are of 30 or more.
        let long = runs.iter().filter(|run| **run >= 30.0).count() as f64 / count;
        assert!((long - 0.9f64.powi(29)).abs() < 0.01, "{long}");
    }

    #[test]
    fn shares_of_a_long_walk_are_those_of_the_chain() {
        let pattern = two_ranges();
        let all = 500_000;
        for (count, weight) in counts(&pattern, all).iter().zip(pattern.weights()) {
            let share = count / all as f64;
            assert!((share - weight).abs() < 0.01, "{share} for {weight}");
        }
    }

    #[test]
    fn times_have_the_mean_and_the_spread_of_their_law() {
        let laws = [
            (Arrival::Fixed, 0.0),
            (Arrival::Exponential, 1.0),
            (Arrival::Poisson, 0.1),
            (Arrival::Normal(0.25), 0.25),
            (Arrival::Gamma(0.5), 0.5),
            (Arrival::Gamma(2.0), 2.0),
        ];
        for (law, spread) in laws {
            let mut pattern = Pattern::random();
            pattern.transitions[0].arrival = law;
            let walk = Walk::new(&pattern, AREA, 512).unwrap();
            let times: Vec<f64> = walk.take(200_000).map(|step| step.after_us).collect();
            assert!(times.iter().all(|time| *time >= 0.0), "{law:?}");
            let count = times.len() as f64;
            let mean = times.iter().sum::<f64>() / count;
            assert!((mean - 100.0).abs() < 2.0, "{law:?}: {mean}");
            let squares = times.iter().map(|time| (time - mean).powi(2));
            let found = (squares.sum::<f64>() / count).sqrt() / mean;
            assert!((found - spread).abs() < 0.05, "{law:?}: {found}");
        }
    }

    #[test]
    fn the_largest_pattern_fits_on_a_command_line() {
        let mut pattern = Pattern::random();
        let mut kind = pattern.transitions[0].clone();
        kind.from = 127;
        kind.to = 127;
        kind.probability = 0.012_345_678_9;
        kind.block_bytes = super::super::pattern::LARGEST_BLOCK;
        kind.inter_arrival_us = 123_456.789;
        kind.arrival = Arrival::Gamma(12.345_678);
        kind.access = Access::Sequential;
        kind.operation = Operation::Write;
        pattern.transitions = vec![kind; super::super::pattern::MOST_TRANSITIONS];
        let text = serde_json::to_string(&pattern.transitions).unwrap();
        // Linux takes 128 KiB per argument; the rest is for everything else.
        assert!(text.len() < 120 << 10, "{} bytes", text.len());
        let read: Vec<Transition> = serde_json::from_str(&text).unwrap();
        let [written, read] = [&pattern.transitions[0], &read[0]];
        assert!((read.probability / written.probability - 1.0).abs() < 1e-6);
        assert!((read.inter_arrival_us / written.inter_arrival_us - 1.0).abs() < 1e-6);
        let exact = Transition {
            probability: written.probability,
            inter_arrival_us: written.inter_arrival_us,
            ..read.clone()
        };
        assert_eq!(exact, *written);
    }

    #[test]
    fn what_does_not_fit_is_a_reason() {
        let mut pattern = Pattern::random();
        let Failure(reason) = Walk::new(&pattern, AREA, 8192).unwrap_err();
        assert!(reason.contains("multiple of the 8192 bytes"), "{reason}");
        pattern.states[0].range_percent = [50.0, 50.001];
        let Failure(reason) = Walk::new(&pattern, 1 << 20, 512).unwrap_err();
        assert!(
            reason.contains("state 'all'") && reason.contains("--scratch-size"),
            "{reason}"
        );
    }
}
