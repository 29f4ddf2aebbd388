//! The rate of a target in a block, from its turns.

use super::robust::median;

/// Fewer operations than this in the usual turn and rounding to whole ones blurs its rate.
const COARSE: f64 = 50.0;

/// Operations of a turn from which on it makes no difference whether a block is read from
/// its begin or from its first operation.
const FEW: f64 = 8.0;

/// How coarsely a block is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grain {
    /// Operations that are seen at once: 1, or as many as come in a burst.
    pub operations: f64,
    /// Uniform on -0.5 to 0.5, drawn anew for each block: by which part of them more
    /// or less was done than was seen.
    pub rest: f64,
}

/// Log of the rate of a block whose turns of the target are (seconds,
/// operations done): the median over the turns. Stolen time, an interrupt or a
/// neighbour hits single turns (6 % of the turns recorded on a virtual machine
/// lost more than 15 %), and the sum of all turns would carry each of them into
/// the block. Where a turn holds few operations it is the rate over all turns, with
/// a part of an operation more or less: of whole ones most blocks would hold the same
/// number, and a robust mean of them would not see that some hold one less. `None`
/// where nothing was done or no time passed.
pub fn block_rate(turns: &[(f64, f64)], grain: Grain) -> Option<f64> {
    let turns = turns.iter().filter(|(seconds, _)| *seconds > 0.0);
    let mut counts: Vec<f64> = turns.clone().map(|(_, count)| *count).collect();
    let rate = match median(&mut counts) >= COARSE * grain.operations {
        true => {
            let mut rates: Vec<f64> = turns.map(|(seconds, count)| count / seconds).collect();
            median(&mut rates)
        }
        false => {
            let seconds: f64 = turns.map(|(seconds, _)| seconds).sum();
            within(counts.iter().sum(), grain) / seconds
        }
    };
    (rate.is_finite() && rate > 0.0).then(|| rate.ln())
}

/// `operations`, a whole number of grains, with a part of one more or less; nothing
/// stays nothing.
pub fn within(operations: f64, grain: Grain) -> f64 {
    match operations > 0.0 {
        true => operations + grain.operations * grain.rest,
        false => operations,
    }
}

/// What was done from one operation of a block to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// Operations of the block up to the first of them, itself included.
    pub before: f64,
    /// Operations after it, up to the last.
    pub operations: f64,
    pub seconds: f64,
}

/// From the first operation of a block to its last, where its turns of the target are
/// (seconds, operations done); `None` where they are the same, or turns hold so many that
/// it makes no difference. Turns that are shorter
/// than an operation tell when it was done, which is finer than how many there were.
/// `when`, uniform on 0 to 1, says where in its part of the turn the first and the last
/// one is taken to be: always in the middle, most blocks would last the same number of
/// turns.
pub fn between(turns: &[(f64, f64)], when: [f64; 2]) -> Option<Between> {
    let mut until = 0.0;
    let mut ends: Option<(f64, f64, f64)> = None;
    let mut done = 0.0;
    for &(seconds, operations) in turns.iter().filter(|(seconds, _)| *seconds > 0.0) {
        if operations > 0.0 {
            let at = |when: f64| until + seconds * (1.0 - when / operations);
            done += operations;
            ends = Some(match ends {
                None => (done, at(when[0]), f64::NEG_INFINITY),
                Some((before, first, _)) => (before, first, at(when[1])),
            });
        }
        until += seconds;
    }
    let (before, first, last) = ends?;
    let few = done < FEW * turns.len() as f64;
    (few && last > first).then_some(Between {
        before,
        operations: done - before,
        seconds: last - first,
    })
}

/// When the operations of a block were done, where its turns of the target are (seconds,
/// operations done): operations since its begin and seconds since its begin, one for each
/// operation, in the middle of its part of the turn. Empty where turns hold so many
/// operations that their ends tell as much.
pub fn marks(turns: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let all: f64 = turns.iter().map(|(_, operations)| operations).sum();
    let countable = turns
        .iter()
        .all(|(seconds, operations)| *seconds >= 0.0 && *operations >= 0.0);
    if !countable || all >= FEW * turns.len() as f64 {
        return Vec::new();
    }
    let mut marks = Vec::with_capacity(all as usize);
    let (mut done, mut until) = (0.0, 0.0);
    for &(seconds, operations) in turns {
        for index in 0..operations as usize {
            let part = (index as f64 + 0.5) / operations;
            marks.push((done + index as f64 + 1.0, until + seconds * part));
        }
        done += operations;
        until += seconds;
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;
    use crate::location;

    const WHOLE: Grain = Grain {
        operations: 1.0,
        rest: 0.0,
    };

    /// Typical log rate of blocks in which a target of `rate` operations per second
    /// is counted for a second each, `grain` operations at a time.
    fn typical(rate: f64, grain: f64, dithered: bool) -> f64 {
        let mut noise = Noise::seeded(7);
        let rates: Vec<f64> = (0..4000)
            .filter_map(|block| {
                // Blocks differ by 3 % besides.
                let rate = rate * (0.03 * noise.normal()).exp();
                let begin = (1.37 * f64::from(block)).fract();
                let counted = (rate / grain + begin).floor() * grain;
                let grain = Grain {
                    operations: grain,
                    rest: if dithered { noise.uniform() - 0.5 } else { 0.0 },
                };
                block_rate(&[(1.0, counted)], grain)
            })
            .collect();
        location(&rates)
    }

    #[test]
    fn a_small_loss_shows_in_few_whole_operations() {
        for grain in [1.0, 40.0] {
            let loss = |dithered| {
                let of = |rate: f64| typical(rate * grain, grain, dithered);
                of(12.1 * 0.97) - of(12.1)
            };
            let [seen, snapped] = [loss(true), loss(false)];
            assert!((seen - 0.97f64.ln()).abs() < 0.006, "{seen}");
            assert!((snapped - 0.97f64.ln()).abs() > 0.01, "{snapped}");
        }
    }

    #[test]
    fn turns_shorter_than_an_operation_tell_when_it_was_done() {
        let turns = [(1.0, 0.0), (1.0, 1.0), (1.0, 0.0), (1.0, 2.0), (1.0, 0.0)];
        let found = between(&turns, [0.5, 0.5]).unwrap();
        // From the middle of the second to three quarters of the fourth.
        assert_eq!((found.before, found.operations), (1.0, 2.0));
        assert!((found.seconds - 2.25).abs() < 1e-9);
        assert_eq!(between(&turns[..3], [0.5, 0.5]), None);
        // One operation each 2.7 turns, counted for 27 turns: none of them is lost.
        let mut noise = Noise::seeded(2);
        let rates: Vec<f64> = (0..100)
            .filter_map(|block| {
                let begin = f64::from(block) * 0.37;
                let done = |turn: u32| ((begin + f64::from(turn)) / 2.7).floor();
                let turns: Vec<(f64, f64)> = (0..27)
                    .map(|turn| (1.0, done(turn + 1) - done(turn)))
                    .collect();
                let found = between(&turns, [noise.uniform(), noise.uniform()])?;
                Some((found.operations / found.seconds * 2.7).ln())
            })
            .collect();
        assert_eq!(rates.len(), 100);
        assert!(location(&rates).abs() < 0.01);
        let most = rates
            .iter()
            .fold(0.0, |most: f64, rate| most.max(rate.abs()));
        assert!(most < 0.09, "{most}");
    }

    #[test]
    fn a_stolen_turn_does_not_count() {
        let turns = [
            (1.0, 100.0),
            (1.0, 102.0),
            (4.0, 20.0),
            (1.0, 101.0),
            (2.0, 202.0),
        ];
        assert_eq!(block_rate(&turns, WHOLE), Some(101f64.ln()));
    }

    #[test]
    fn few_operations_are_added_up() {
        let turns = [(1.0, 1.0), (1.0, 0.0), (1.0, 2.0)];
        assert_eq!(block_rate(&turns, WHOLE), Some(0.0));
    }

    #[test]
    fn nothing_done_has_no_rate() {
        assert_eq!(block_rate(&[], WHOLE), None);
        assert_eq!(block_rate(&[(0.0, 5.0)], WHOLE), None);
        assert_eq!(block_rate(&[(1.0, 0.0), (1.0, 0.0)], WHOLE), None);
    }

    #[test]
    fn operations_are_in_the_middle_of_their_parts_of_a_turn() {
        let found = marks(&[(0.4, 0.0), (0.4, 1.0), (0.4, 2.0)]);
        let expected = [(1.0, 0.6), (2.0, 0.9), (3.0, 1.1)];
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-12);
        }
        // Ends of turns tell as much; and what goes backwards tells nothing.
        assert!(marks(&[(0.4, 9.0), (0.4, 9.0)]).is_empty());
        assert!(marks(&[(0.4, -1.0), (0.4, 1.0)]).is_empty());
        assert!(marks(&[]).is_empty());
    }
}
