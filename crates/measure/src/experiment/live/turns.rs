//! What the target did between two readings of a worker, or between two slices.

use crate::experiment::executor::Completion;
use crate::experiment::executor::Place;
use crate::experiment::executor::TargetTurn;
use crate::metric::Moments;
use crate::metric::Run;
use jostle_host::inject::Snapshot;
use jostle_host::sys::tape::Mark;
use jostle_host::sys::tape::Turn;

/// How the target was followed while turns were taken.
pub(super) struct Follow<'a> {
    pub period_ns: u64,
    pub by_cpu_time: bool,
    /// Where there was no target.
    pub gaps: &'a [[u64; 2]],
    /// From when on which run was read.
    pub runs: &'a [(u64, Option<Run>)],
    /// What was done at any moment, where that is known beside the marks.
    pub progress: Option<&'a Progress>,
}

impl Follow<'_> {
    /// Whether there was no target at some time in between.
    fn is_gone_in(&self, [begin, end]: [u64; 2]) -> bool {
        let mut gaps = self.gaps.iter();
        gaps.any(|gap| begin < gap[1] && gap[0] < end)
    }
}

/// Adds to `sum` what a worker did in `own`, its slices of a block that ends at `end_ns`,
/// from position `skip` on; the time, in nanoseconds, that does not count. Between two runs
/// of a command the source has the CPU to itself.
pub(super) fn beside_the_target(
    sum: &mut Snapshot,
    own: &[Turn],
    (skip, end_ns): (u32, u64),
    follow: &Follow,
) -> u64 {
    let begins = own.iter().skip(1).map(|turn| turn.begin.at_ns);
    let (mut alone_ns, mut held) = (0, 0);
    for (turn, end_ns) in own.iter().zip(begins.chain([end_ns])) {
        if turn.position < skip {
            continue;
        }
        if follow.is_gone_in([turn.begin.at_ns, end_ns]) {
            alone_ns += end_ns.saturating_sub(turn.begin.at_ns);
            continue;
        }
        sum.operations += turn.operations;
        sum.active_ns += turn.active_ns;
        held = turn.held;
    }
    sum.held += held;
    alone_ns
}

/// When the target was kept from its CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub from_ns: u64,
    pub to_ns: u64,
    /// For how much of the time between: in a slice that a source shares with the target,
    /// the rest was the target's, nobody knows when.
    pub held_ns: u64,
}

impl Held {
    /// All of the time from one moment to another.
    pub(super) fn all(from_ns: u64, to_ns: u64) -> Held {
        let held_ns = to_ns.saturating_sub(from_ns);
        Held {
            from_ns,
            to_ns,
            held_ns,
        }
    }

    fn until(&self, at_ns: u64) -> f64 {
        let length = self.to_ns.saturating_sub(self.from_ns).max(1) as f64;
        let passed = at_ns.min(self.to_ns).saturating_sub(self.from_ns) as f64;
        passed / length * self.held_ns as f64
    }
}

/// What the target had done at any moment, in operations and parts of them.
pub(super) struct Progress {
    moments: Moments,
    /// When it was kept from its CPU, and for how long before each time.
    held: Vec<(Held, u64)>,
    /// Where there was no target.
    gaps: Vec<[u64; 2]>,
}

impl Progress {
    /// `held`: when the target was kept from its CPU, in order.
    pub(super) fn new(moments: Moments, held: Vec<Held>, gaps: &[[u64; 2]]) -> Progress {
        let mut sum = 0;
        let held = held.into_iter().map(|held| {
            let before = sum;
            sum += held.held_ns;
            (held, before)
        });
        Progress {
            moments,
            held: held.collect(),
            gaps: gaps.to_vec(),
        }
    }

    /// Nanoseconds that the target had its CPU for until `at_ns`, from some moment on.
    fn clock(&self, at_ns: u64) -> f64 {
        let begun = self.held.partition_point(|(held, _)| held.from_ns <= at_ns);
        let held = self.held[..begun].last();
        let held = held.map_or(0.0, |(held, before)| *before as f64 + held.until(at_ns));
        at_ns as f64 - held
    }

    /// Operations until `at_ns`. One that is under way has come as far as the part of its
    /// time that has passed; the last of a run ends with it.
    fn done(&self, at_ns: u64) -> f64 {
        let times = &self.moments.times;
        let whole = times.partition_point(|time| *time <= at_ns);
        let (mut from, mut to) = (times[..whole].last().copied(), times.get(whole).copied());
        for [end, begin] in &self.gaps {
            if *end >= at_ns {
                to = Some(to.map_or(*end, |to| to.min(*end)));
                break;
            }
            if *begin <= at_ns {
                from = Some(from.map_or(*begin, |from| from.max(*begin)));
            }
        }
        let part = from.zip(to).map(|(from, to)| {
            let [from, at, to] = [from, at_ns, to].map(|at| self.clock(at));
            ((at - from) / (to - from)).clamp(0.0, 1.0)
        });
        let part = part.filter(|part| part.is_finite());
        (self.moments.before + whole as u64) as f64 + part.unwrap_or(0.5)
    }
}

impl Progress {
    /// The first and the last operation that was done between two moments.
    fn completed(&self, [from, to]: [u64; 2]) -> Option<[Completion; 2]> {
        let times = &self.moments.times;
        let [first, end] = [from, to].map(|at| times.partition_point(|time| *time <= at));
        let of = |index: usize| Completion {
            seconds: (self.clock(times[index]) - self.clock(from)) / 1e9,
            operations: (self.moments.before + index as u64 + 1) as f64 - self.done(from),
        };
        (first < end).then(|| [of(first), of(end - 1)])
    }
}

impl Follow<'_> {
    /// Operations until `mark`, as they are counted in all marks.
    fn operations(&self, mark: &Mark) -> f64 {
        match self.progress {
            Some(progress) => progress.done(mark.at_ns),
            None => mark.operations as f64,
        }
    }

    /// How far the run had come that was under way at `mark`.
    fn place(&self, mark: &Mark) -> Option<Place> {
        let last = self.runs.partition_point(|(from, _)| *from <= mark.at_ns);
        let (_, run) = self.runs[..last].last()?;
        let operations = self.operations(mark);
        Some(match run {
            Some(run) => Place {
                run: run.number,
                operations: Some(operations - run.base as f64).filter(|since| *since >= 0.0)?,
                from_begin: true,
            },
            // No run that is counted from its begin has such a number.
            None => Place {
                run: u32::MAX - last as u32,
                operations,
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
        ..
    } = *follow;
    let since = |from: u64, to: u64| -> Option<f64> {
        let grown = to.wrapping_sub(from);
        // A count that went backwards is another target's.
        (grown <= u64::MAX / 2).then_some(grown as f64)
    };
    // The same of what is counted in parts.
    let more = |from: &Mark, to: &Mark| match follow.progress {
        None => since(from.operations, to.operations),
        Some(_) => Some(follow.operations(to) - follow.operations(from)),
    };
    let turn = |turn: &Turn, end: &Mark| -> Option<TargetTurn> {
        let (from, all) = match slices {
            true => (&turn.end, &turn.begin),
            false => (&turn.begin, &turn.begin),
        };
        let begin = from.at_ns.min(all.at_ns);
        if follow.is_gone_in([begin, end.at_ns]) {
            return None;
        }
        let clock = |from: &Mark| match by_cpu_time {
            true => since(from.busy_ns, end.busy_ns),
            false => since(from.at_ns, end.at_ns),
        };
        Some(TargetTurn {
            position: turn.position,
            operations: more(from, end)?,
            seconds: clock(from)? / 1e9,
            all_operations: more(all, end)?,
            all_seconds: clock(all)? / 1e9,
            from: follow.place(from),
            in_parts: follow.progress.is_some(),
            done: follow
                .progress
                .and_then(|progress| progress.completed([from.at_ns, end.at_ns])),
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
                progress: None,
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
        let did = |gaps| {
            let mut sum = Snapshot::default();
            let worked = own.map(|turn| Turn {
                operations: 10,
                active_ns: turn.end.at_ns - turn.begin.at_ns,
                ..turn
            });
            let alone = beside_the_target(&mut sum, &worked, (1, 5_000_000), &follow(gaps));
            (sum.operations, sum.active_ns, alone)
        };
        assert_eq!(did(&[]), (20, 4_000_000, 0));
        assert_eq!(did(&[[4_600_000, 4_700_000]]), (10, 2_000_000, 2_500_000));
        assert_eq!(did(&gaps), (0, 0, 4_500_000));
        assert_eq!(alive.len(), 1);
        assert_eq!(
            turns(true),
            [(0, 0.0, 500.0), (1, 150.0, 2000.0), (5, 150.0, 2000.0)]
        );
    }

    #[test]
    fn what_all_workers_hold_is_added_up() {
        let follow = Follow {
            period_ns: 500_000,
            by_cpu_time: false,
            gaps: &[],
            runs: &[],
            progress: None,
        };
        let mut sum = Snapshot::default();
        for held in [300, 500] {
            let own = [0, 1].map(|position| Turn {
                held,
                ..slice(position, [500, 600], [0, 0])
            });
            beside_the_target(&mut sum, &own, (0, 1_000_000), &follow);
        }
        assert_eq!(sum.held, 800);
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
            progress: None,
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

    /// Times in µs.
    fn progress(times: &[u64], held: &[[u64; 2]], gaps: &[[u64; 2]]) -> Progress {
        let held = held
            .iter()
            .map(|[from, to]| Held::all(from * 1000, to * 1000));
        let gaps: Vec<[u64; 2]> = gaps
            .iter()
            .map(|[from, to]| [from * 1000, to * 1000])
            .collect();
        let moments = Moments {
            before: 100,
            times: times.iter().map(|time| time * 1000).collect(),
        };
        Progress::new(moments, held.collect(), &gaps)
    }

    #[test]
    fn a_slice_shared_with_the_target_holds_it_for_its_own_part() {
        // Operations of 4 ms. From 2 ms on a source has half of the CPU time, so that they
        // last 8 ms.
        let ms = 1_000_000;
        let moments = Moments {
            before: 0,
            times: (0..8)
                .map(|n| if n == 0 { 0 } else { (8 * n - 2) * ms })
                .collect(),
        };
        let shared = (0..12).map(|n| Held {
            from_ns: (2 + 4 * n) * ms,
            to_ns: (6 + 4 * n) * ms,
            held_ns: 2 * ms,
        });
        let known = Progress::new(moments, shared.collect(), &[]);
        // 2 of 4 ms of the second one lie before; of all that follows half.
        for (at, expected) in [(1, 1.25), (2, 1.5), (6, 2.0), (10, 2.5), (34, 5.5)] {
            let done = known.done(at * ms);
            assert!((done - expected).abs() < 1e-9, "{at}: {done}");
        }
    }

    #[test]
    fn what_is_under_way_is_counted_by_the_targets_own_time() {
        // The second operation takes 1 ms, in the middle of which a slice of 1 ms lies.
        let known = progress(&[1000, 3000, 4000], &[[1500, 2500]], &[]);
        let done = |at_us: u64| known.done(at_us * 1000);
        for (at, expected) in [
            (1000, 101.0),
            (1250, 101.25),
            (1500, 101.5),
            (2000, 101.5),
            (2500, 101.5),
            (2750, 101.75),
            (3000, 102.0),
            (3100, 102.1),
        ] {
            assert!((done(at) - expected).abs() < 1e-9, "{at}: {}", done(at));
        }
        // When the first began, and when the one after the last ends, nobody knows.
        assert_eq!((done(500), done(5000)), (100.5, 103.5));
    }

    #[test]
    fn an_operation_does_not_last_from_run_to_run() {
        // A run ends at 2 ms, and the next begins at 6.
        let known = progress(&[1000, 7000], &[], &[[2000, 6000]]);
        let done = |at_us: u64| known.done(at_us * 1000);
        assert!((done(1500) - 101.5).abs() < 1e-9);
        assert!((done(6500) - 101.5).abs() < 1e-9);
        assert!((done(6900) - 101.9).abs() < 1e-9);
    }

    #[test]
    fn turns_hold_parts_of_operations() {
        // Slices of 100 µs every 500; an operation each 600 µs of the target.
        let own: Vec<Turn> = (0..4)
            .map(|position| {
                let at = 500 * u64::from(position);
                slice(position, [at, at + 100], [0, 0])
            })
            .collect();
        let held: Vec<[u64; 2]> = (0..5).map(|n| [500 * n, 500 * n + 100]).collect();
        let known = progress(&[100, 800, 1500], &held, &[]);
        let runs = [(
            0,
            Some(Run {
                number: 2,
                base: 90,
            }),
        )];
        let follow = Follow {
            period_ns: 500_000,
            by_cpu_time: false,
            gaps: &[],
            runs: &runs,
            progress: Some(&known),
        };
        let turns = target_turns(&own, None, (true, false), &follow);
        assert_eq!(turns.len(), 3);
        assert!(turns.iter().all(|turn| turn.in_parts));
        for turn in &turns[..2] {
            assert!((turn.seconds - 0.0004).abs() < 1e-12);
            assert!((turn.operations - 2.0 / 3.0).abs() < 0.02, "{turn:?}");
        }
        let from = turns[0].from.unwrap();
        assert_eq!((from.run, from.from_begin), (2, true));
        assert!((from.operations - 11.0).abs() < 0.01, "{from:?}");
    }
}
