//! The walk through a pattern's chains: which message comes next, and how long
//! after the one before.

use super::pattern::Pattern;
use super::pattern::Transition;
use super::pattern::Window;
use crate::chain::Leaving;
use crate::chain::Time;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// One message of the walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Indices of its window, and of its transition there.
    pub window: usize,
    pub transition: usize,
    pub bytes: u32,
    /// Time since the message before, µs.
    pub after_us: f64,
}

/// One window while it is played.
#[derive(Debug)]
struct Chain {
    /// What may follow each message.
    leaving: Vec<Leaving>,
    times: Vec<Time>,
    /// The message sent last.
    last: usize,
    /// Which transition's time is under way at a moment of its own.
    under_way: Leaving,
    length_us: f64,
}

impl Chain {
    fn new(window: &Window, messages: usize) -> Chain {
        let mut leaving = vec![Leaving::default(); messages];
        for (index, kind) in window.transitions.iter().enumerate() {
            leaving[kind.from].add(kind.probability, index);
        }
        let mut under_way = Leaving::default();
        let kinds = window.transitions.iter().zip(window.weights());
        for (index, (kind, weight)) in kinds.enumerate() {
            under_way.add(weight * kind.inter_arrival_us, index);
        }
        let time = |kind: &Transition| Time::of(kind.inter_arrival_us, kind.arrival);
        Chain {
            leaving,
            times: window.transitions.iter().map(time).collect(),
            last: window.transitions.first().map_or(0, |kind| kind.from),
            under_way,
            length_us: window.seconds * 1e6,
        }
    }
}

/// An endless sequence of messages.
///
/// Each transition is drawn with its probability, whatever came before, so that
/// bursts and pauses have the lengths that the chain gives them. Windows keep
/// their length at every intensity; only the times between messages stretch. Each
/// window begins as if its chain had been going on for long, so that it has the
/// rate that the chain says, however few messages fall into it. Everything is
/// drawn from the pattern's seed.
#[derive(Debug)]
pub struct Walk {
    pattern: Pattern,
    chains: Vec<Chain>,
    window: usize,
    /// Of the current window, µs.
    left_us: f64,
    random: ChaCha8Rng,
}

impl Walk {
    /// A walk through a pattern that was checked.
    pub fn new(pattern: &Pattern) -> Walk {
        let chain = |window: &Window| Chain::new(window, pattern.messages.len());
        let chains: Vec<Chain> = pattern.windows.iter().map(chain).collect();
        Walk {
            left_us: chains.first().map_or(0.0, |chain| chain.length_us),
            chains,
            window: 0,
            random: ChaCha8Rng::seed_from_u64(pattern.seed),
            pattern: pattern.clone(),
        }
    }

    /// The next message, when all times between messages are `stretch` times as
    /// long as the pattern says.
    pub fn next(&mut self, stretch: f64) -> Step {
        let mut after_us = 0.0;
        let mut drawn = self.draw();
        loop {
            match drawn {
                Some((transition, own_us)) if self.chains.len() == 1 => {
                    return self.step(transition, own_us * stretch);
                }
                Some((transition, own_us)) if own_us * stretch <= self.left_us => {
                    self.left_us -= own_us * stretch;
                    return self.step(transition, after_us + own_us * stretch);
                }
                _ => {
                    after_us += self.turn();
                    drawn = self.enter();
                }
            }
        }
    }

    fn step(&self, transition: usize, after_us: f64) -> Step {
        let kind = self.pattern.windows[self.window].transitions[transition];
        Step {
            window: self.window,
            transition,
            bytes: self.pattern.messages[kind.to].bytes,
            after_us,
        }
    }

    /// Goes on to the next window; what was left of this one, µs.
    fn turn(&mut self) -> f64 {
        self.window = (self.window + 1) % self.chains.len();
        std::mem::replace(&mut self.left_us, self.chains[self.window].length_us)
    }

    /// The next transition of the current window and the time before it.
    fn draw(&mut self) -> Option<(usize, f64)> {
        let chain = &self.chains[self.window];
        let chosen = chain.leaving.get(chain.last)?;
        let chosen = chosen.draw(self.random.random())?;
        let own_us = chain.times[chosen].draw(&mut self.random);
        Some((self.pass(chosen), own_us))
    }

    /// The first transition of the current window, and what is left of the time
    /// before it.
    fn enter(&mut self) -> Option<(usize, f64)> {
        let chain = &self.chains[self.window];
        let chosen = chain.under_way.draw(self.random.random())?;
        let own_us = chain.times[chosen].draw_rest(&mut self.random);
        Some((self.pass(chosen), own_us))
    }

    fn pass(&mut self, transition: usize) -> usize {
        let kind = self.pattern.windows[self.window].transitions[transition];
        self.chains[self.window].last = kind.to;
        transition
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Arrival;
    use super::super::pattern::always;
    use super::*;

    fn steps(pattern: &Pattern, stretch: f64, count: usize) -> Vec<Step> {
        let mut walk = Walk::new(pattern);
        (0..count).map(|_| walk.next(stretch)).collect()
    }

    #[test]
    fn a_seed_repeats_the_walk_and_another_does_not() {
        let burst = Pattern::burst();
        let first = steps(&burst, 1.0, 1000);
        assert_eq!(first, steps(&burst, 1.0, 1000));
        let other = Pattern { seed: 2, ..burst };
        assert_ne!(first, steps(&other, 1.0, 1000));
    }

    #[test]
    fn shares_bursts_and_rates_are_those_of_the_pattern() {
        let burst = Pattern::burst();
        let all = 400_000;
        let found = steps(&burst, 1.0, all);
        for (kind, share) in [(256, 0.5), (1400, 0.3), (16384, 0.2)] {
            let count = found.iter().filter(|step| step.bytes == kind).count();
            let found = count as f64 / all as f64;
            assert!((found - share).abs() < 0.01, "{kind}: {found}");
        }
        let bursts = found.iter().filter(|step| step.after_us > 0.0).count();
        let length = all as f64 / bursts as f64;
        assert!((length - 32.0).abs() < 1.0, "{length} messages in a burst");
        let seconds: f64 = found.iter().map(|step| step.after_us * 1e-6).sum();
        let rate = all as f64 / seconds;
        assert!((rate / 16_000.0 - 1.0).abs() < 0.03, "{rate}");
    }

    #[test]
    fn intensity_stretches_the_times_and_nothing_else() {
        let burst = Pattern::burst();
        let (one, four) = (steps(&burst, 1.0, 5000), steps(&burst, 4.0, 5000));
        for (one, four) in one.iter().zip(&four) {
            assert_eq!(one.transition, four.transition);
            assert!((one.after_us * 4.0 - four.after_us).abs() < 1e-6);
        }
    }

    /// Half a second of 10,000 small messages a second, a pause, then 100 large
    /// ones a second for as long.
    fn day() -> Pattern {
        let mut pattern = Pattern::bulk();
        pattern.messages.push(pattern.messages[0].clone());
        pattern.messages[0].bytes = 100;
        let kind = |message, inter_arrival_us, arrival| Transition {
            from: message,
            to: message,
            probability: 1.0,
            inter_arrival_us,
            arrival,
        };
        let window = |transitions| Window {
            seconds: 0.5,
            ..always(transitions)
        };
        pattern.windows = vec![
            window(vec![kind(0, 100.0, Arrival::Exponential)]),
            window(Vec::new()),
            window(vec![kind(1, 10_000.0, Arrival::Fixed)]),
        ];
        pattern
    }

    #[test]
    fn windows_take_turns_and_each_has_its_rate_at_every_intensity() {
        let day = day();
        // At the last one a window holds half a message of the slow kind.
        for stretch in [1.0, 10.0, 100.0_f64] {
            let mut at_us = 0.0;
            let mut counts = [0.0; 3];
            let rounds = (300.0 * stretch) as usize;
            let mut walk = Walk::new(&day);
            while at_us < rounds as f64 * 1.5e6 {
                let step = walk.next(stretch);
                at_us += step.after_us;
                let place = at_us / 0.5e6 % 3.0;
                // Rounding may put it just outside.
                let off = (place - step.window as f64 + 1e-6).rem_euclid(3.0);
                assert!(off < 1.0 + 2e-6, "{step:?} at {place}, stretch {stretch}");
                counts[step.window] += 1.0;
            }
            for (window, expected) in [(0, 5000.0), (1, 0.0), (2, 50.0)] {
                let found: f64 = counts[window] / rounds as f64 * stretch;
                assert!(
                    (found - expected).abs() <= 0.03 * expected,
                    "window {window}, stretch {stretch}: {found} of {expected}"
                );
            }
        }
        let (bytes, _) = day.per_second(0).unwrap();
        let all: f64 = 5000.0 * 100.0 + 50.0 * 65_536.0;
        assert!((bytes / (all / 1.5) - 1.0).abs() < 1e-9, "{bytes}");
    }
}
