//! What changing places with a neighbour on the same CPU costs. Pure data, and
//! what follows from it for other lengths of turns.

use crate::Estimate;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

/// How the scheduler of the machine shares a CPU between busy processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SchedulerFacts {
    /// How long each of two busy threads ran on one CPU until it was the
    /// other's turn, mean.
    pub turn_seconds: Reading<Sourced>,
    /// Shortest time that the scheduler means to give a process.
    pub base_slice_seconds: Reading<Sourced>,
    /// Time from one tick of the kernel to the next: turns end at ticks, unless
    /// somebody wakes up.
    pub tick_seconds: Reading<Sourced>,
    /// Target time that a switch to the placebo and back costs, microseconds:
    /// what any neighbour costs, whatever it does.
    pub plain_switch_microseconds: Reading<Estimate>,
}

/// A number and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Sourced {
    pub value: f64,
    pub source: String,
}

/// What the source of a resource costs at 100 % on a CPU that it shares with the
/// target, against the placebo in the same turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Switch {
    /// Target time lost per switch to the source and back, in turns of the
    /// length that the scheduler of this machine gives.
    pub cost_microseconds: Estimate,
    /// The same as a share of the target's own time on the CPU.
    pub expected_loss_percent: Estimate,
    /// What was measured, by the length of the turns, shortest first; at least
    /// one.
    pub turns: Vec<SwitchAt>,
}

/// The cost of a switch in turns of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SwitchAt {
    /// How long the target was on the CPU each time. The source was for as long in
    /// the scheduler's own turns, and for its share of the slice period in slices.
    pub turn_seconds: f64,
    pub cost_microseconds: Estimate,
    /// Blocks of several turns beside the source.
    pub windows: u64,
}

impl Switch {
    /// From what was measured, in any order, for turns of `turn_seconds`; `None`
    /// where nothing was.
    pub fn of(mut turns: Vec<SwitchAt>, turn_seconds: f64) -> Option<Switch> {
        turns.sort_by(|a, b| a.turn_seconds.total_cmp(&b.turn_seconds));
        let cost = cost_at(&turns, turn_seconds)?;
        Some(Switch {
            cost_microseconds: cost,
            expected_loss_percent: loss(cost, turn_seconds),
            turns,
        })
    }

    /// Microseconds that a switch costs in turns of `turn_seconds`; `None` where
    /// the file holds no turn.
    ///
    /// Between two measured lengths it is interpolated over the logarithm of the
    /// length. Beyond the longest and below the shortest it stays what it was,
    /// and the interval reaches as far as it may have changed: a longer turn does
    /// not make a switch cheaper, and does not make the lost share larger.
    pub fn cost_at(&self, turn_seconds: f64) -> Option<Estimate> {
        cost_at(&self.turns, turn_seconds)
    }

    /// Share of the target's time on the CPU, percent, that is lost in turns of
    /// `turn_seconds`.
    pub fn loss_percent_at(&self, turn_seconds: f64) -> Option<Estimate> {
        Some(loss(self.cost_at(turn_seconds)?, turn_seconds))
    }
}

fn loss(cost: Estimate, turn_seconds: f64) -> Estimate {
    let share = |microseconds: f64| (microseconds / turn_seconds / 1e4).min(100.0);
    Estimate {
        value: share(cost.value),
        ci95: cost.ci95.map(share),
    }
}

fn cost_at(turns: &[SwitchAt], turn_seconds: f64) -> Option<Estimate> {
    let (first, last) = (turns.first()?, turns.last()?);
    if turn_seconds <= first.turn_seconds {
        return Some(stretched(first, turn_seconds));
    }
    if turn_seconds >= last.turn_seconds {
        return Some(stretched(last, turn_seconds));
    }
    let above = turns.partition_point(|at| at.turn_seconds < turn_seconds);
    let [below, above] = [&turns[above - 1], &turns[above]];
    let width = (above.turn_seconds / below.turn_seconds).ln();
    let part = (turn_seconds / below.turn_seconds).ln() / width;
    let (from, to) = (below.cost_microseconds, above.cost_microseconds);
    let between = |from: f64, to: f64| from + part * (to - from);
    Some(Estimate {
        value: between(from.value, to.value),
        ci95: [0, 1].map(|end| between(from.ci95[end], to.ci95[end])),
    })
}

/// The cost at another length than the one that was measured.
fn stretched(at: &SwitchAt, turn_seconds: f64) -> Estimate {
    let Estimate { value, ci95 } = at.cost_microseconds;
    let factor = turn_seconds / at.turn_seconds;
    let [low, high] = ci95;
    Estimate {
        value,
        ci95: [low.min(low * factor), high.max(high * factor)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(turn_seconds: f64, value: f64) -> SwitchAt {
        SwitchAt {
            turn_seconds,
            cost_microseconds: Estimate {
                value,
                ci95: [value - 10.0, value + 10.0],
            },
            windows: 20,
        }
    }

    fn close(estimate: Estimate, value: f64, ci95: [f64; 2]) {
        let all = [estimate.value, estimate.ci95[0], estimate.ci95[1]];
        for (found, wanted) in all.iter().zip([value, ci95[0], ci95[1]]) {
            assert!((found - wanted).abs() < 1e-9, "{estimate:?}");
        }
    }

    #[test]
    fn a_cost_is_read_between_what_was_measured() {
        let switch = Switch::of(vec![at(0.004, 160.0), at(0.001, 60.0)], 0.004).unwrap();
        close(switch.cost_microseconds, 160.0, [150.0, 170.0]);
        close(switch.expected_loss_percent, 4.0, [3.75, 4.25]);
        close(switch.cost_at(0.002).unwrap(), 110.0, [100.0, 120.0]);
        close(switch.loss_percent_at(0.001).unwrap(), 6.0, [5.0, 7.0]);
        assert_eq!(Switch::of(Vec::new(), 0.004), None);
    }

    #[test]
    fn beyond_what_was_measured_the_interval_says_what_may_be() {
        let switch = Switch::of(vec![at(0.001, 60.0), at(0.004, 160.0)], 0.004).unwrap();
        // The loss at twice the turn is between half of it and the same.
        close(switch.cost_at(0.008).unwrap(), 160.0, [150.0, 340.0]);
        close(switch.loss_percent_at(0.008).unwrap(), 2.0, [1.875, 4.25]);
        close(switch.cost_at(0.0005).unwrap(), 60.0, [25.0, 70.0]);
        let none = SwitchAt {
            cost_microseconds: Estimate {
                value: 0.0,
                ci95: [-10.0, 10.0],
            },
            ..at(0.004, 0.0)
        };
        let none = Switch::of(vec![none], 0.004).unwrap();
        close(none.cost_at(0.008).unwrap(), 0.0, [-20.0, 20.0]);
        close(none.cost_at(1e-9).unwrap(), 0.0, [-10.0, 10.0]);
    }
}
