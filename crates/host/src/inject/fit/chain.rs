//! From I/Os to a chain of states and transitions.

use super::law::common_spread;
use super::law::law;
use super::law::two_kinds;
use super::trace::Io;
use super::trace::Trace;
use super::trace::TraceError;
use jostle_kernels::storage::pattern::Access;
use jostle_kernels::storage::pattern::LARGEST_BLOCK;
use jostle_kernels::storage::pattern::MOST_TRANSITIONS;
use jostle_kernels::storage::pattern::Operation;
use jostle_kernels::storage::pattern::Pattern;
use jostle_kernels::storage::pattern::SECTOR;
use jostle_kernels::storage::pattern::State;
use jostle_kernels::storage::pattern::Transition;
use std::collections::BTreeMap;

/// Fewer I/Os say nothing about shares.
const FEWEST: usize = 100;

/// What a trace, or a walk through a pattern, looks like as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    pub read_share: f64,
    pub random_share: f64,
    pub mean_bytes: f64,
    pub mean_us: f64,
}

impl Features {
    pub fn per_second(&self) -> f64 {
        1e6 / self.mean_us
    }

    /// The largest difference to `other`: of shares in share, of sizes and times
    /// relative to one's own.
    pub fn farthest(&self, other: &Features) -> f64 {
        let share = |a: f64, b: f64| (a - b).abs();
        let relative = |a: f64, b: f64| (a / b - 1.0).abs();
        [
            share(self.read_share, other.read_share),
            share(self.random_share, other.random_share),
            relative(other.mean_bytes, self.mean_bytes),
            relative(other.mean_us, self.mean_us),
        ]
        .into_iter()
        .fold(0.0, f64::max)
    }

    /// Of a pattern, in the long run.
    pub fn of(pattern: &Pattern) -> Features {
        let share =
            |is: &dyn Fn(&Transition) -> bool| pattern.mean(|kind| f64::from(u8::from(is(kind))));
        Features {
            read_share: share(&|kind| kind.operation == Operation::Read),
            random_share: share(&|kind| kind.access == Access::Random),
            mean_bytes: pattern.mean(|kind| f64::from(kind.block_bytes)),
            mean_us: pattern.mean(|kind| kind.inter_arrival_us),
        }
    }
}

/// A pattern, and what it was fitted to.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub pattern: Pattern,
    /// Of the trace.
    pub features: Features,
    pub ios: usize,
    /// From the first to the last byte that the trace touches.
    pub covers_bytes: u64,
    /// Whether sizes were put together to keep to the most transitions.
    pub sizes_merged: bool,
}

/// How sizes are told apart: as they are, by powers of two, not at all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Exact,
    Doubling,
    One,
}

/// Fits a chain of up to `ranges` states, equal ranges of what the trace covers,
/// to `trace`.
///
/// # Errors
/// Too few I/Os, or no time between them.
pub fn fit(trace: &Trace, ranges: usize) -> Result<Fitted, TraceError> {
    let ios: usize = trace.stretches.iter().map(Vec::len).sum();
    if ios < FEWEST {
        let needed = FEWEST;
        return Err(TraceError::TooFew { found: ios, needed });
    }
    let all = || trace.stretches.iter().flatten();
    let first = all().map(|io| io.offset).min().unwrap_or(0);
    let end = all().map(|io| io.offset + u64::from(io.bytes)).max();
    let covers = end.unwrap_or(first) - first;
    let times = trace.stretches.iter().flat_map(|stretch| {
        let pairs = stretch.windows(2);
        pairs.map(|pair| pair[1].at_us - pair[0].at_us)
    });
    let threshold_us = two_kinds(times);
    for sizes in [Sizes::Exact, Sizes::Doubling, Sizes::One] {
        let mut counted = Counted {
            threshold_us,
            ..Counted::default()
        };
        for stretch in &trace.stretches {
            counted.count(stretch, (first, covers, ranges), sizes);
        }
        counted.close();
        if counted.kinds.len() > MOST_TRANSITIONS && sizes != Sizes::One {
            continue;
        }
        if counted.times.1 <= 0.0 {
            return Err(TraceError::NoTime);
        }
        return Ok(Fitted {
            features: counted.features(),
            pattern: counted.pattern(&trace.device, ranges),
            ios,
            covers_bytes: covers,
            sizes_merged: sizes != Sizes::Exact,
        });
    }
    unreachable!("the last way of telling sizes apart is always taken")
}

/// What tells one kind of I/O from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    from: usize,
    to: usize,
    write: bool,
    random: bool,
    size: u32,
    /// Whether it came after a pause between bursts.
    pause: bool,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    bytes: f64,
    times: Vec<f64>,
}

#[derive(Default)]
struct Counted {
    /// Times from this on are pauses.
    threshold_us: Option<f64>,
    kinds: BTreeMap<Kind, Tally>,
    /// Where the last I/O in each range ended.
    ends: BTreeMap<usize, u64>,
    /// The first I/O of all, and the range of the last one.
    first: Option<(usize, Kind, u32)>,
    last: usize,
    /// How many times there are between two I/Os, and their sum.
    times: (u64, f64),
}

impl Counted {
    fn count(&mut self, stretch: &[Io], (first, covers, ranges): (u64, u64, usize), sizes: Sizes) {
        let mut before: Option<f64> = None;
        for io in stretch {
            let place = (io.offset - first) as f64 / covers.max(1) as f64;
            let to = ((place * ranges as f64) as usize).min(ranges - 1);
            let bytes = io.bytes.clamp(SECTOR, LARGEST_BLOCK);
            let end = self.ends.insert(to, io.offset + u64::from(io.bytes));
            let after = before.map(|before| io.at_us - before);
            before = Some(io.at_us);
            let kind = Kind {
                from: self.last,
                to,
                write: io.write,
                random: end != Some(io.offset),
                size: match sizes {
                    Sizes::Exact => bytes,
                    Sizes::Doubling => bytes.next_power_of_two(),
                    Sizes::One => 0,
                },
                pause: match (after, self.threshold_us) {
                    (Some(after), Some(threshold)) => after >= threshold,
                    _ => false,
                },
            };
            self.last = to;
            if self.first.is_none() {
                self.first = Some((to, kind, bytes));
                continue;
            }
            if let Some(after) = after {
                self.times = (self.times.0 + 1, self.times.1 + after);
            }
            self.add(kind, bytes, after);
        }
    }

    fn add(&mut self, kind: Kind, bytes: u32, after: Option<f64>) {
        let tally = self.kinds.entry(kind).or_default();
        tally.count += 1;
        tally.bytes += f64::from(bytes);
        tally.times.extend(after);
    }

    /// Lets the first I/O follow the last one, so that every state can be reached
    /// from every other.
    fn close(&mut self) {
        if let Some((_, kind, bytes)) = self.first.take() {
            let from = self.last;
            self.add(Kind { from, ..kind }, bytes, None);
        }
    }

    fn mean_us(&self) -> f64 {
        self.times.1 / self.times.0.max(1) as f64
    }

    fn features(&self) -> Features {
        let all: u64 = self.kinds.values().map(|tally| tally.count).sum();
        let share = |is: &dyn Fn(&Kind) -> bool| {
            let kinds = self.kinds.iter().filter(|(kind, _)| is(kind));
            kinds.map(|(_, tally)| tally.count as f64).sum::<f64>() / all as f64
        };
        let bytes: f64 = self.kinds.values().map(|tally| tally.bytes).sum();
        Features {
            read_share: share(&|kind| !kind.write),
            random_share: share(&|kind| kind.random),
            mean_bytes: bytes / all as f64,
            mean_us: self.mean_us(),
        }
    }

    fn pattern(&self, device: &str, ranges: usize) -> Pattern {
        // Ranges that were never touched are no states.
        let mut visited: Vec<usize> = self.kinds.keys().map(|kind| kind.to).collect();
        visited.sort_unstable();
        visited.dedup();
        let index = |range: usize| visited.binary_search(&range).unwrap_or(0);
        let at = |range: usize| 100.0 * range as f64 / ranges as f64;
        let mut leaving: BTreeMap<usize, u64> = BTreeMap::new();
        for (kind, tally) in &self.kinds {
            *leaving.entry(kind.from).or_default() += tally.count;
        }
        let mean_us = self.mean_us();
        let spreads = [false, true].map(|pause| {
            let kinds = self.kinds.iter().filter(|(kind, _)| kind.pause == pause);
            common_spread(kinds.map(|(_, tally)| &tally.times[..]))
        });
        let transition = |(kind, tally): (&Kind, &Tally)| {
            let spread = spreads[usize::from(kind.pause)];
            let (inter_arrival_us, arrival) = law(&tally.times, mean_us, spread);
            let bytes = tally.bytes / tally.count as f64;
            let sectors = (bytes / f64::from(SECTOR)).round().max(1.0);
            Transition {
                from: index(kind.from),
                to: index(kind.to),
                probability: tally.count as f64 / leaving[&kind.from] as f64,
                block_bytes: sectors as u32 * SECTOR,
                operation: if kind.write {
                    Operation::Write
                } else {
                    Operation::Read
                },
                access: if kind.random {
                    Access::Random
                } else {
                    Access::Sequential
                },
                inter_arrival_us,
                arrival,
            }
        };
        let states = visited.iter().map(|&range| State {
            name: format!("range-{range}"),
            range_percent: [at(range), at(range + 1)],
        });
        Pattern {
            name: device.to_string(),
            seed: 1,
            states: states.collect(),
            transitions: self.kinds.iter().map(transition).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::fit::toml;
    use crate::inject::pattern;
    use jostle_kernels::storage::walk::Walk;

    /// What a disk with `bytes` would see of a walk through `pattern`.
    fn replay(pattern: &Pattern, bytes: u64, length: usize) -> Trace {
        let mut at_us = 0.0;
        let ios = Walk::new(pattern, bytes, 512).unwrap().take(length);
        let ios = ios.map(|step| {
            at_us += step.after_us;
            Io {
                at_us,
                write: step.request.write,
                offset: step.request.offset,
                bytes: step.request.bytes,
            }
        });
        Trace {
            device: "8,0".into(),
            stretches: vec![ios.collect()],
            ..Trace::default()
        }
    }

    /// The test of the paper: a pattern is fitted to a trace, replayed, and
    /// fitted again.
    #[test]
    fn a_replayed_pattern_fits_as_the_trace_did() {
        const AREA: u64 = 1 << 30;
        let mail = pattern::load("mail").unwrap();
        let trace = replay(&mail, AREA, 100_000);
        let fitted = fit(&trace, 16).unwrap();
        assert!(fitted.features.farthest(&Features::of(&mail)) < 0.05);
        let again = fit(&replay(&fitted.pattern, AREA, 400_000), 16).unwrap();
        let apart = fitted.features.farthest(&again.features);
        assert!(
            apart < 0.05,
            "{apart}: {:?} {:?}",
            fitted.features,
            again.features
        );
        // The share of every pair of ranges.
        let shares = |pattern: &Pattern| {
            let mut shares: BTreeMap<(String, String), f64> = BTreeMap::new();
            for (kind, weight) in pattern.transitions.iter().zip(pattern.weights()) {
                let name = |state: usize| pattern.states[state].name.clone();
                *shares.entry((name(kind.from), name(kind.to))).or_default() += weight;
            }
            shares
        };
        let (one, other) = (shares(&fitted.pattern), shares(&again.pattern));
        for (pair, share) in &one {
            let found = other.get(pair).copied().unwrap_or(0.0);
            assert!((share - found).abs() < 0.005, "{pair:?}: {share} {found}");
        }
    }

    #[test]
    fn a_fitted_pattern_is_read_back_as_it_was() {
        let mail = pattern::load("mail").unwrap();
        let fitted = fit(&replay(&mail, 1 << 28, 20_000), 16).unwrap();
        let read = pattern::parse("8,0", &toml(&fitted, "made up")).unwrap();
        assert_eq!(read.states, fitted.pattern.states);
        assert_eq!(read.transitions.len(), fitted.pattern.transitions.len());
        for (read, written) in read.transitions.iter().zip(&fitted.pattern.transitions) {
            assert!((read.probability - written.probability).abs() < 1e-9);
            assert_eq!(read.block_bytes, written.block_bytes);
            assert_eq!(read.arrival, written.arrival);
        }
    }

    /// Standard deviation of the times between I/Os as a share of their mean.
    fn spread(trace: &Trace) -> f64 {
        let pairs = trace.stretches[0].windows(2);
        let times: Vec<f64> = pairs.map(|pair| pair[1].at_us - pair[0].at_us).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (squares / count).sqrt() / mean
    }

    /// Reads at many places 100 µs apart, with a pause of 50 ms after every 20 on
    /// average: hundreds of kinds of I/O with a few times each.
    #[test]
    fn rare_pauses_stay_as_long_and_as_regular() {
        let mut state = 7u64;
        let mut below = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut at_us = 0.0;
        let ios = (0..6000).map(|_| {
            at_us += if below(20) == 0 { 50_000.0 } else { 100.0 };
            Io {
                at_us,
                write: false,
                offset: below(1 << 18) * 4096,
                bytes: 4096,
            }
        });
        let trace = Trace {
            stretches: vec![ios.collect()],
            ..Trace::default()
        };
        let fitted = fit(&trace, 16).unwrap();
        assert!(fitted.pattern.transitions.len() > 200);
        let again = replay(&fitted.pattern, 1 << 30, 400_000);
        let (before, after) = (spread(&trace), spread(&again));
        assert!((after / before - 1.0).abs() < 0.05, "{before} {after}");
        let features = fit(&again, 16).unwrap().features;
        let apart = fitted.features.farthest(&features);
        assert!(apart < 0.05, "{apart}: {:?} {features:?}", fitted.features);
    }

    #[test]
    fn many_sizes_are_put_together() {
        let mut state = 1u64;
        let ios = (0..20_000u64).map(|index| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            Io {
                at_us: index as f64,
                write: state >> 63 == 1,
                offset: (state >> 33) << 9,
                bytes: (1 + (state >> 20 & 2047) as u32) * 512,
            }
        });
        let trace = Trace {
            stretches: vec![ios.collect()],
            ..Trace::default()
        };
        let fitted = fit(&trace, 16).unwrap();
        assert!(fitted.sizes_merged);
        assert!(fitted.pattern.transitions.len() <= MOST_TRANSITIONS);
        let of_pattern = Features::of(&fitted.pattern);
        assert!(
            fitted.features.farthest(&of_pattern) < 0.01,
            "{of_pattern:?}"
        );
    }

    #[test]
    fn what_cannot_be_fitted_says_why() {
        let io = Io {
            at_us: 1.0,
            write: false,
            offset: 0,
            bytes: 4096,
        };
        let trace = |count| Trace {
            stretches: vec![vec![io; count]],
            ..Trace::default()
        };
        let needed = FEWEST;
        let few = fit(&trace(5), 16).unwrap_err();
        assert_eq!(few, TraceError::TooFew { found: 5, needed });
        assert_eq!(fit(&trace(500), 16).unwrap_err(), TraceError::NoTime);
    }
}
