//! The rate of a target in a block, from its turns.

use super::robust::median;

/// Fewer operations than this in the usual turn and rounding to whole ones blurs its rate.
const COARSE: f64 = 50.0;

/// Log of the rate of a block whose turns of the target are (seconds,
/// operations done): the median over the turns. Stolen time, an interrupt or a
/// neighbour hits single turns (6 % of the turns recorded on a virtual machine
/// lost more than 15 %), and the sum of all turns would carry each of them into
/// the block. Where a turn holds few operations it is the rate over all turns.
/// `None` where nothing was done or no time passed.
pub fn block_rate(turns: &[(f64, f64)]) -> Option<f64> {
    let turns = turns.iter().filter(|(seconds, _)| *seconds > 0.0);
    let mut counts: Vec<f64> = turns.clone().map(|(_, count)| *count).collect();
    let rate = match median(&mut counts) >= COARSE {
        true => {
            let mut rates: Vec<f64> = turns.map(|(seconds, count)| count / seconds).collect();
            median(&mut rates)
        }
        false => {
            let seconds: f64 = turns.map(|(seconds, _)| seconds).sum();
            counts.iter().sum::<f64>() / seconds
        }
    };
    (rate.is_finite() && rate > 0.0).then(|| rate.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stolen_turn_does_not_count() {
        let turns = [
            (1.0, 100.0),
            (1.0, 102.0),
            (4.0, 20.0),
            (1.0, 101.0),
            (2.0, 202.0),
        ];
        assert_eq!(block_rate(&turns), Some(101f64.ln()));
    }

    #[test]
    fn few_operations_are_added_up() {
        let turns = [(1.0, 1.0), (1.0, 0.0), (1.0, 2.0)];
        assert_eq!(block_rate(&turns), Some(0.0));
    }

    #[test]
    fn nothing_done_has_no_rate() {
        assert_eq!(block_rate(&[]), None);
        assert_eq!(block_rate(&[(0.0, 5.0)]), None);
        assert_eq!(block_rate(&[(1.0, 0.0), (1.0, 0.0)]), None);
    }
}
