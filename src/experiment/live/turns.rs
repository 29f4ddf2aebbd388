//! What the target did between two readings of a worker, or between two slices.

use crate::experiment::executor::Place;
use crate::experiment::executor::TargetTurn;
use crate::metric::Run;
use crate::sys::tape::Mark;
use crate::sys::tape::Turn;

/// How the target was followed while turns were taken.
pub(super) struct Follow<'a> {
    pub period_ns: u64,
    pub by_cpu_time: bool,
    /// Where there was no target.
    pub gaps: &'a [[u64; 2]],
    /// From when on which run was read.
    pub runs: &'a [(u64, Option<Run>)],
}

impl Follow<'_> {
    /// How far the run had come that was under way at `mark`.
    fn place(&self, mark: &Mark) -> Option<Place> {
        let last = self.runs.partition_point(|(from, _)| *from <= mark.at_ns);
        let (_, run) = self.runs[..last].last()?;
        Some(match run {
            Some(run) => Place {
                run: run.number,
                operations: mark.operations.checked_sub(run.base)? as f64,
                from_begin: true,
            },
            // No run that is counted from its begin has such a number.
            None => Place {
                run: u32::MAX - last as u32,
                operations: mark.operations as f64,
                from_begin: false,
            },
        })
    }
}

/// What the target did in the turns of one block. Where slices are taken, a
/// turn of the target lasts from the end of one to the begin of the next, which
/// may be the first one of the block that follows.
///
/// What overlaps one of the `gaps`, in which there was no target, is left out.
///
/// A source that `takes_time` is kept from its slices by nobody but the target,
/// so what the target does in the meantime counts; elsewhere a missed slice
/// makes a turn unlike the others.
pub(super) fn target_turns(
    own: &[Turn],
    next: Option<&Turn>,
    (slices, takes_time): (bool, bool),
    follow: &Follow,
) -> Vec<TargetTurn> {
    let Follow {
        period_ns,
        by_cpu_time,
        gaps,
        ..
    } = *follow;
    let since = |from: u64, to: u64| -> Option<f64> {
        let grown = to.wrapping_sub(from);
        // A count that went backwards is another target's.
        (grown <= u64::MAX / 2).then_some(grown as f64)
    };
    let turn = |turn: &Turn, end: &Mark| -> Option<TargetTurn> {
        let (from, all) = match slices {
            true => (&turn.end, &turn.begin),
            false => (&turn.begin, &turn.begin),
        };
        let begin = from.at_ns.min(all.at_ns);
        if gaps.iter().any(|gap| begin < gap[1] && gap[0] < end.at_ns) {
            return None;
        }
        let clock = |from: &Mark| match by_cpu_time {
            true => since(from.busy_ns, end.busy_ns),
            false => since(from.at_ns, end.at_ns),
        };
        Some(TargetTurn {
            position: turn.position,
            operations: since(from.operations, end.operations)?,
            seconds: clock(from)? / 1e9,
            all_operations: since(all.operations, end.operations)?,
            all_seconds: clock(all)? / 1e9,
            from: follow.place(from),
        })
    };
    if !slices {
        let turns = own.iter().filter_map(|own| turn(own, &own.end));
        return turns.collect();
    }
    let end_of = |index: usize| -> Option<Mark> {
        let (this, after) = (&own[index], own.get(index + 1));
        let follows = after.or(next).filter(|next| {
            // Else a missed slice, or a block of another worker, lies between.
            next.begin.at_ns.saturating_sub(this.begin.at_ns) < 2 * period_ns
        });
        // What takes CPU time is kept from whole slices by the target.
        // A last slice stands for its turn where it filled the period.
        let whole = this.end.at_ns.saturating_sub(this.begin.at_ns) >= period_ns;
        let late = || after.map(|after| after.begin).or(whole.then_some(this.end));
        let late = takes_time.then(late).flatten();
        follows.map(|next| next.begin).or(late)
    };
    let turns = (0..own.len()).filter_map(|index| turn(&own[index], &end_of(index)?));
    turns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One slice of block 0, in µs, and what the target had done at both ends.
    fn slice(position: u32, at: [u64; 2], done: [u64; 2]) -> Turn {
        let mark = |end: usize| Mark {
            at_ns: at[end] * 1000,
            operations: done[end],
            busy_ns: 0,
        };
        Turn {
            position,
            begin: mark(0),
            end: mark(1),
            ..Turn::default()
        }
    }

    #[test]
    fn what_the_target_does_in_missed_slices_counts_for_sources_of_cpu_time() {
        // It takes the CPU from 600 to 2100, and again in the last slice.
        let own = [
            slice(0, [0, 500], [0, 0]),
            slice(1, [500, 2500], [0, 150]),
            slice(5, [2500, 4500], [150, 300]),
        ];
        fn follow(gaps: &[[u64; 2]]) -> Follow<'_> {
            Follow {
                period_ns: 500_000,
                by_cpu_time: false,
                gaps,
                runs: &[],
            }
        }
        let turns = |takes_time| -> Vec<(u32, f64, f64)> {
            let turns = target_turns(&own, None, (true, takes_time), &follow(&[]));
            let of = |turn: &TargetTurn| {
                let microseconds = (turn.all_seconds * 1e6).round();
                (turn.position, turn.all_operations, microseconds)
            };
            turns.iter().map(of).collect()
        };
        assert_eq!(turns(false), [(0, 0.0, 500.0)]);
        // There was no target from 2 to 3 ms.
        let gaps = [[2_000_000, 3_000_000]];
        let alive = target_turns(&own, None, (true, true), &follow(&gaps));
        assert_eq!(alive.len(), 1);
        assert_eq!(
            turns(true),
            [(0, 0.0, 500.0), (1, 150.0, 2000.0), (5, 150.0, 2000.0)]
        );
    }

    #[test]
    fn a_turn_stands_where_its_run_has_come_to() {
        let run = |number, base| Some(Run { number, base });
        let follow = Follow {
            period_ns: 500_000,
            by_cpu_time: false,
            gaps: &[],
            runs: &[
                (0, run(3, 100)),
                (1_000_000, run(4, 250)),
                (2_000_000, None),
            ],
        };
        let place = |at_us: u64, operations| {
            let place = follow.place(&Mark {
                at_ns: at_us * 1000,
                operations,
                busy_ns: 0,
            });
            place.map(|place| (place.run, place.operations, place.from_begin))
        };
        assert_eq!(place(500, 130), Some((3, 30.0, true)));
        assert_eq!(place(1500, 251), Some((4, 1.0, true)));
        // What was counted before its begin is of the run before.
        assert_eq!(place(1500, 249), None);
        // Counted from somewhere in the third.
        assert_eq!(place(2500, 300), Some((u32::MAX - 3, 300.0, false)));
    }
}
