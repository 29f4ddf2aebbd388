//! The walk through a pattern's chain: which I/O comes next, and how long
//! after the one before.

use super::pattern::Access;
use super::pattern::Arrival;
use super::pattern::Operation;
use super::pattern::Pattern;
use super::request::Request;
use crate::Failure;
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
/// Transitions are not drawn by lot: of those that leave the present state, the
/// one that lags most behind its share of all I/Os so far comes next. So every
/// share stays within a few I/Os of what the chain prescribes at any time,
/// where independent draws would stray by the square root of their number.
/// Positions and times are random, from the pattern's seed.
#[derive(Debug)]
pub struct Walk {
    pattern: Pattern,
    /// Share of each transition.
    weights: Vec<f64>,
    /// I/Os of each transition so far, and of all.
    counts: Vec<u64>,
    count: u64,
    /// Transitions that leave each state.
    leaving: Vec<Vec<usize>>,
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
        let leaving = (0..pattern.states.len())
            .map(|state| {
                (0..pattern.transitions.len())
                    .filter(|&kind| pattern.transitions[kind].from == state)
                    .collect()
            })
            .collect();
        Ok(Walk {
            weights: pattern.weights(),
            counts: vec![0; pattern.transitions.len()],
            count: 0,
            leaving,
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
        self.count += 1;
        let all = self.count as f64;
        let lag = |kind: usize| self.weights[kind] * all - self.counts[kind] as f64;
        let choices = self.leaving[self.state].iter().copied();
        let chosen = choices.max_by(|&a, &b| lag(a).total_cmp(&lag(b)))?;
        self.counts[chosen] += 1;
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
        let spread = match kind.arrival {
            Arrival::Fixed => 1.0,
            Arrival::Exponential => -(1.0 - self.random.random::<f64>()).ln(),
        };
        Some(Step {
            transition: chosen,
            request: Request {
                offset: area.start + within,
                bytes: kind.block_bytes,
                write: kind.operation == Operation::Write,
            },
            after_us: kind.inter_arrival_us * spread,
        })
    }
}

#[cfg(test)]
mod tests {
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
        /// The shares of a long walk by lot are the oracle of the algebra, and
        /// the algebra that of the walk.
        #[test]
        fn shares_stay_within_a_twentieth_of_a_percent(pattern in chains()) {
            let weights = pattern.weights();
            prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for state in 0..pattern.states.len() {
                let flow = |end: fn(&Transition) -> usize| -> f64 {
                    let kinds = pattern.transitions.iter().zip(&weights);
                    kinds.filter(|(kind, _)| end(kind) == state).map(|(_, weight)| weight).sum()
                };
                prop_assert!((flow(|kind| kind.from) - flow(|kind| kind.to)).abs() < 1e-9);
            }
            let mut walk = Walk::new(&pattern, AREA, 4096).unwrap();
            let mut before = 0;
            for length in [20_000usize, 60_000] {
                walk.by_ref().take(length - before).for_each(drop);
                before = length;
                for (count, weight) in walk.counts.iter().zip(&weights) {
                    let share = *count as f64 / length as f64;
                    prop_assert!((share - weight).abs() <= 0.0005, "{share} for {weight}");
                }
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
        /// the mean over many I/Os is the rate that was asked for.
        #[test]
        fn times_scale_and_keep_the_rate(pattern in chains(), rate in 1e3f64..1e7) {
            prop_assert_eq!(pattern.stretch(rate / 2.0), 2.0 * pattern.stretch(rate));
            let (mut sectors, mut nanoseconds) = (0.0, 0.0);
            for step in Walk::new(&pattern, AREA, 4096).unwrap().take(50_000) {
                sectors += f64::from(step.request.bytes) / 512.0;
                nanoseconds += step.after_us * pattern.stretch(rate);
            }
            let reached = sectors / nanoseconds * 1e9 / rate;
            prop_assert!((reached - 1.0).abs() < 0.05, "{reached} of the rate");
        }

        #[test]
        fn a_seed_repeats_the_walk(pattern in chains()) {
            let steps = |pattern: &Pattern| -> Vec<Step> {
                Walk::new(pattern, AREA, 4096).unwrap().take(500).collect()
            };
            prop_assert_eq!(steps(&pattern), steps(&pattern));
        }
    }

    #[test]
    fn exponential_times_have_their_mean_and_spread() {
        let mut pattern = Pattern::random();
        pattern.transitions[0].arrival = Arrival::Exponential;
        let times: Vec<f64> = Walk::new(&pattern, AREA, 512)
            .unwrap()
            .take(100_000)
            .map(|step| step.after_us)
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
        let above = times.iter().filter(|time| **time > 100.0).count() as f64;
        let share = above / times.len() as f64;
        assert!(
            (share - 0.3679).abs() < 0.01,
            "{share} above the mean, not 1/e"
        );
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
