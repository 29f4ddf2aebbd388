//! From messages to chains of messages.

use super::capture::Capture;
use super::capture::CaptureError;
use super::law::common_spread;
use super::law::law;
use super::law::two_kinds;
use jostle_kernels::network::pattern::Arrival;
use jostle_kernels::network::pattern::LARGEST_MESSAGE;
use jostle_kernels::network::pattern::MOST_TRANSITIONS;
use jostle_kernels::network::pattern::Message;
use jostle_kernels::network::pattern::Pattern;
use jostle_kernels::network::pattern::Transition;
use jostle_kernels::network::pattern::Window;
use std::collections::BTreeMap;

/// Fewer messages say nothing about shares.
const FEWEST: usize = 100;
/// Most sizes that are kept apart without counting which are frequent.
const FEW_SIZES: usize = 32;
/// A size of this share of all messages stays apart from its neighbours.
const FREQUENT: f64 = 0.02;

/// What a capture, or a walk through a pattern, looks like as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    pub mean_bytes: f64,
    pub mean_us: f64,
    /// Standard deviation of the times as a share of their mean.
    pub spread: f64,
}

impl Features {
    pub fn per_second(&self) -> f64 {
        1e6 / self.mean_us
    }
}

/// A pattern, and what it was fitted to.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub pattern: Pattern,
    /// Of the capture.
    pub features: Features,
    pub messages: usize,
    /// Whether sizes were put together.
    pub sizes_merged: bool,
}

/// How sizes are told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    Exact,
    /// Frequent ones as they are, others by powers of two.
    Frequent,
    Doubling,
    One,
}

/// Fits chains to `windows` equal parts of the time that the capture covers.
///
/// # Errors
/// Too few messages, or no time between them.
pub fn fit(capture: &Capture, windows: usize) -> Result<Fitted, CaptureError> {
    let messages: usize = capture.stretches.iter().map(Vec::len).sum();
    if messages < FEWEST {
        let needed = FEWEST;
        return Err(CaptureError::TooFew {
            found: messages,
            needed,
        });
    }
    let observed = observed(capture);
    let features = features(&observed);
    if features.mean_us <= 0.0 {
        return Err(CaptureError::NoTime);
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for message in &observed {
        *counts.entry(message.bytes).or_default() += 1;
    }
    let threshold_us = two_kinds(observed.iter().filter_map(|message| message.after_us));
    for sizes in [Sizes::Exact, Sizes::Frequent, Sizes::Doubling, Sizes::One] {
        if sizes == Sizes::Exact && counts.len() > FEW_SIZES {
            continue;
        }
        let class = |bytes: u32| match sizes {
            Sizes::Exact => (true, bytes),
            Sizes::Frequent if counts[&bytes] as f64 >= FREQUENT * messages as f64 => (true, bytes),
            Sizes::Frequent | Sizes::Doubling => (false, bytes.next_power_of_two()),
            Sizes::One => (false, 0),
        };
        let pattern = chains(&observed, windows, threshold_us, class);
        let kinds: usize = pattern.windows.iter().map(|it| it.transitions.len()).sum();
        if kinds <= MOST_TRANSITIONS || sizes == Sizes::One {
            return Ok(Fitted {
                pattern,
                features,
                messages,
                sizes_merged: sizes != Sizes::Exact,
            });
        }
    }
    unreachable!("the last way of telling sizes apart is always taken")
}

/// A message, the time since the one before where that is known, and the time
/// since the start without what lies between stretches.
#[derive(Clone, Copy, Debug)]
struct Observed {
    bytes: u32,
    after_us: Option<f64>,
    clock_us: f64,
}

fn observed(capture: &Capture) -> Vec<Observed> {
    let mut clock_us = 0.0;
    let mut all = Vec::new();
    for stretch in &capture.stretches {
        let mut before: Option<f64> = None;
        for sent in stretch {
            let after_us = before.map(|before| sent.at_us - before);
            before = Some(sent.at_us);
            clock_us += after_us.unwrap_or(0.0);
            all.push(Observed {
                bytes: sent.bytes.clamp(1, LARGEST_MESSAGE),
                after_us,
                clock_us,
            });
        }
    }
    all
}

fn features(observed: &[Observed]) -> Features {
    let times: Vec<f64> = observed.iter().filter_map(|it| it.after_us).collect();
    let count = times.len().max(1) as f64;
    let mean_us = times.iter().sum::<f64>() / count;
    let squares = times.iter().map(|time| (time - mean_us).powi(2));
    let bytes = observed.iter().map(|it| f64::from(it.bytes)).sum::<f64>();
    Features {
        mean_bytes: bytes / observed.len() as f64,
        mean_us,
        spread: (squares.sum::<f64>() / count).sqrt() / mean_us,
    }
}

/// What tells one transition from another: the classes of both messages, and
/// whether there was a pause.
type Kind = (usize, usize, bool);

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    times: Vec<f64>,
}

fn chains(
    observed: &[Observed],
    windows: usize,
    threshold_us: Option<f64>,
    class: impl Fn(u32) -> (bool, u32),
) -> Pattern {
    let mut sums: BTreeMap<(bool, u32), (f64, f64)> = BTreeMap::new();
    for message in observed {
        let sum = sums.entry(class(message.bytes)).or_default();
        *sum = (sum.0 + 1.0, sum.1 + f64::from(message.bytes));
    }
    let classes: Vec<(bool, u32)> = sums.keys().copied().collect();
    let index = |bytes: u32| classes.binary_search(&class(bytes)).unwrap_or(0);
    let messages = sums.iter().map(|((exact, limit), (count, bytes))| {
        let mean = (bytes / count).round() as u32;
        Message {
            name: match (exact, limit) {
                (true, _) => format!("{mean}-bytes"),
                (false, 0) => "any-size".into(),
                (false, limit) => format!("up-to-{limit}-bytes"),
            },
            bytes: mean.max(1),
        }
    });
    let all_us = observed.last().map_or(0.0, |last| last.clock_us);
    let length_us = all_us / windows as f64;
    let mut parts: Vec<Vec<Observed>> = vec![Vec::new(); windows];
    for message in observed {
        let part = (message.clock_us / length_us) as usize;
        parts[part.min(windows - 1)].push(*message);
    }
    let parts = parts.iter().enumerate().map(|(number, part)| {
        let mut tallies: BTreeMap<Kind, Tally> = BTreeMap::new();
        // The first follows the last, so that every message leads to every other.
        let mut last = part.last().map_or(0, |last| index(last.bytes));
        for message in part {
            let to = index(message.bytes);
            let pause = match (message.after_us, threshold_us) {
                (Some(time), Some(threshold)) => time >= threshold,
                _ => false,
            };
            let tally = tallies.entry((last, to, pause)).or_default();
            tally.count += 1;
            tally.times.extend(message.after_us);
            last = to;
        }
        let mean_us = length_us / part.len().max(1) as f64;
        let mut transitions = transitions(&tallies, mean_us);
        if windows > 1 {
            keep_rate(&mut transitions, &tallies, mean_us);
        }
        Window {
            name: format!("window-{}", number + 1),
            seconds: length_us * 1e-6,
            transitions,
        }
    });
    Pattern {
        seed: 1,
        windows: parts.collect(),
        messages: messages.collect(),
    }
}

fn transitions(tallies: &BTreeMap<Kind, Tally>, mean_us: f64) -> Vec<Transition> {
    let mut leaving: BTreeMap<usize, u64> = BTreeMap::new();
    for ((from, ..), tally) in tallies {
        *leaving.entry(*from).or_default() += tally.count;
    }
    let spreads = [false, true].map(|pause| {
        let kinds = tallies.iter().filter(|((.., kind), _)| *kind == pause);
        common_spread(kinds.map(|(_, tally)| &tally.times[..]))
    });
    let transition = |(&(from, to, pause), tally): (&Kind, &Tally)| {
        let spread = spreads[usize::from(pause)];
        let (inter_arrival_us, arrival) = law(&tally.times, mean_us, spread);
        Transition {
            from,
            to,
            probability: tally.count as f64 / leaving[&from] as f64,
            inter_arrival_us,
            arrival,
        }
    };
    tallies.iter().map(transition).collect()
}

/// Scales the times of a window so that messages are `mean_us` apart on average:
/// what reaches beyond the ends of the window belongs to its neighbours.
fn keep_rate(transitions: &mut [Transition], tallies: &BTreeMap<Kind, Tally>, mean_us: f64) {
    let each = transitions.iter().zip(tallies.values());
    let (count, sum) = each.fold((0.0, 0.0), |(count, sum), (kind, tally)| {
        let own = tally.count as f64;
        (count + own, sum + own * kind.inter_arrival_us)
    });
    for kind in transitions {
        match sum > 0.0 {
            true => kind.inter_arrival_us *= mean_us * count / sum,
            false => {
                kind.inter_arrival_us = mean_us;
                kind.arrival = Arrival::Exponential;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::capture::Sent;
    use super::*;
    use crate::inject::fit::traffic_toml;
    use crate::inject::traffic;
    use jostle_kernels::network::walk::Walk;

    /// What a capture would hold of a walk through `pattern`.
    fn replay(pattern: &Pattern, length: usize) -> Capture {
        let mut at_us = 0.0;
        let mut walk = Walk::new(pattern);
        let sent = (0..length).map(|_| {
            let step = walk.next(1.0);
            at_us += step.after_us;
            Sent {
                at_us,
                bytes: step.bytes,
            }
        });
        Capture {
            sender: "10.0.0.1".into(),
            stretches: vec![sent.collect()],
            ..Capture::default()
        }
    }

    fn shares(capture: &Capture) -> BTreeMap<u32, f64> {
        let all = capture.stretches.iter().flatten();
        let one = 1.0 / all.clone().count() as f64;
        let mut shares = BTreeMap::new();
        for sent in all {
            *shares.entry(sent.bytes).or_default() += one;
        }
        shares
    }

    /// A pattern is fitted to a capture, replayed, and fitted again: shares of
    /// sizes, mean size, mean time and its spread stay within 5 %.
    #[test]
    fn a_replayed_pattern_fits_as_the_capture_did() {
        for name in ["burst", "web"] {
            let original = traffic::load(name).unwrap();
            let one = Pattern {
                windows: original.windows[..1].to_vec(),
                ..original
            };
            let capture = replay(&one, 200_000);
            let fitted = fit(&capture, 1).unwrap();
            let again = replay(&fitted.pattern, 400_000);
            let (before, after) = (shares(&capture), shares(&again));
            for (bytes, share) in &before {
                let found = after.get(bytes).copied().unwrap_or(0.0);
                assert!(
                    (found - share).abs() < 0.05 * share + 0.001,
                    "{name}, {bytes} bytes: {share} {found}"
                );
            }
            let (a, b) = (fitted.features, fit(&again, 1).unwrap().features);
            for (what, a, b) in [
                ("size", a.mean_bytes, b.mean_bytes),
                ("time", a.mean_us, b.mean_us),
                ("spread", a.spread, b.spread),
            ] {
                assert!((b / a - 1.0).abs() < 0.05, "{name}, {what}: {a} {b}");
            }
        }
    }

    #[test]
    fn bursts_stay_bursts() {
        let length = |capture: &Capture| {
            let pairs = capture.stretches[0].windows(2);
            let pauses = pairs.filter(|pair| pair[1].at_us - pair[0].at_us > 10.0);
            capture.stretches[0].len() as f64 / pauses.count() as f64
        };
        let capture = replay(&Pattern::burst(), 100_000);
        let fitted = fit(&capture, 1).unwrap();
        let (before, after) = (length(&capture), length(&replay(&fitted.pattern, 400_000)));
        assert!((after / before - 1.0).abs() < 0.05, "{before} {after}");
        assert!((30.0..35.0).contains(&before), "{before}");
    }

    #[test]
    fn windows_keep_their_rates() {
        let web = traffic::load("web").unwrap();
        // Ten rounds of a second.
        let mut capture = replay(&web, 200_000);
        capture.stretches[0].retain(|sent| sent.at_us < 10e6);
        let fitted = fit(&capture, 20).unwrap();
        let rate = |pattern: &Pattern| pattern.per_second(1).unwrap();
        let [(bytes, count), (fit_bytes, fit_count)] = [rate(&web), rate(&fitted.pattern)];
        assert!((fit_count / count - 1.0).abs() < 0.1, "{count} {fit_count}");
        assert!((fit_bytes / bytes - 1.0).abs() < 0.1, "{bytes} {fit_bytes}");
        let means = fitted
            .pattern
            .windows
            .iter()
            .map(|it| it.mean_us().unwrap());
        let most = means.clone().fold(0.0, f64::max);
        assert!(most > 5.0 * means.fold(f64::MAX, f64::min));
    }

    #[test]
    fn a_fitted_pattern_is_read_back_as_it_was() {
        let web = traffic::load("web").unwrap();
        for windows in [1, 5] {
            let fitted = fit(&replay(&web, 50_000), windows).unwrap();
            let read = traffic::parse("web", &traffic_toml(&fitted, "made up")).unwrap();
            assert_eq!(read.messages, fitted.pattern.messages);
            assert_eq!(read.windows.len(), windows);
            for (read, written) in read.windows.iter().zip(&fitted.pattern.windows) {
                assert_eq!(read.transitions.len(), written.transitions.len());
                for (read, written) in read.transitions.iter().zip(&written.transitions) {
                    assert!((read.probability - written.probability).abs() < 1e-9);
                    assert_eq!(read.arrival, written.arrival);
                }
            }
        }
    }

    /// Thirty sizes by turns, each after the same time: few times of each pair, and
    /// none of them by chance.
    #[test]
    fn few_times_take_the_spread_of_all() {
        let mut at_us = 0.0;
        let sent = (0..600u32).map(|index| {
            at_us += 1000.0;
            Sent {
                at_us,
                bytes: 100 + index * 7 % 30,
            }
        });
        let capture = Capture {
            stretches: vec![sent.collect()],
            ..Capture::default()
        };
        let fitted = fit(&capture, 1).unwrap();
        let kinds = &fitted.pattern.windows[0].transitions;
        assert!(kinds.len() >= 30);
        let fixed = kinds.iter().filter(|kind| kind.arrival == Arrival::Fixed);
        assert!(fixed.count() >= kinds.len() - 1, "{kinds:?}");
    }

    #[test]
    fn many_sizes_are_put_together() {
        let sent = |index: u32| Sent {
            at_us: f64::from(index) * 100.0,
            bytes: match index % 2 {
                0 => 1448,
                _ => 1 + index.wrapping_mul(2_654_435_761) % 60_000,
            },
        };
        let capture = Capture {
            stretches: vec![(0..20_000).map(sent).collect()],
            ..Capture::default()
        };
        let fitted = fit(&capture, 1).unwrap();
        assert!(fitted.sizes_merged);
        assert!(fitted.pattern.messages.iter().any(|it| it.bytes == 1448));
        let window = &fitted.pattern.windows[0];
        let size = window.mean(|kind| f64::from(fitted.pattern.messages[kind.to].bytes));
        assert!((size / fitted.features.mean_bytes - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_cannot_be_fitted_says_why() {
        let capture = |count| Capture {
            stretches: vec![vec![
                Sent {
                    at_us: 1.0,
                    bytes: 9,
                };
                count
            ]],
            ..Capture::default()
        };
        let needed = FEWEST;
        let few = fit(&capture(5), 1).unwrap_err();
        assert_eq!(few, CaptureError::TooFew { found: 5, needed });
        assert_eq!(fit(&capture(500), 1).unwrap_err(), CaptureError::NoTime);
    }
}
