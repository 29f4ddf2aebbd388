//! Sequences of short blocks on the real machine: planned ahead on the workers'
//! tapes, read back turn by turn.

use super::LiveExecutor;
use super::StealReading;
use super::target_error;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::BlockReading;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::Executor;
use crate::experiment::executor::Place;
use crate::experiment::executor::Sequence;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::TargetTurn;
use crate::experiment::executor::WindowError;
use crate::experiment::executor::WindowRequest;
use crate::inject::Snapshot;
use crate::inject::group::spawn_together;
use crate::inject::process::Host;
use crate::metric::Run;
use crate::sys::clock::monotonic_ns;
use crate::sys::control_page::Order;
use crate::sys::tape::Mark;
use crate::sys::tape::PlannedBlock;
use crate::sys::tape::Turn;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

/// From planning the first block to its begin: workers look at their tapes every
/// few milliseconds while sequences go on, and less often before.
const LEAD: Duration = Duration::from_millis(5);
const FIRST_LEAD: Duration = Duration::from_millis(50);
/// After a pause of this length workers have gone to rest.
const REST: Duration = Duration::from_secs(1);
/// Longest time between two looks at the tapes.
const NAP: Duration = Duration::from_millis(100);
/// Longest time between two looks at a command that is started again when it
/// ends.
const RESTART_NAP: Duration = Duration::from_millis(20);
/// How often threads that such a command starts are looked for.
const FOLLOWED: Duration = Duration::from_millis(50);
/// What a command does in this time after its start is loading.
const LOADING: Duration = Duration::from_millis(5);
/// Longest wait for the last block to end, or for the pages to be opened.
const LATE: Duration = Duration::from_secs(2);
/// Blocks begin up to this part of a period later than the one before ends, so
/// that they do not lock in phase with the target or with the kernel's clock.
const DITHER: u64 = 4;

/// A target that makes no progress for so long is not measured further.
const STILL: Duration = Duration::from_secs(5);
/// Processes of workers that are started anew when one ends.
const MOST_REVIVED: u32 = 3;

/// What is remembered of the sequences so far.
#[derive(Default)]
pub(super) struct Playing {
    /// State of the dither.
    noise: u64,
    /// When the target was last seen to move, or was not looked at.
    moved_ns: u64,
    /// When that was looked at last.
    checked_ns: u64,
    /// How many processes were started anew.
    revived: u32,
    /// Turns that the workers could not keep because nobody read them in time.
    pub(super) lost: u64,
    /// When the metric was last told to follow the target.
    followed_ns: u64,
    /// From the end of a command to where its next run counts, since the last
    /// blocks were planned.
    gaps: Vec<[u64; 2]>,
    /// From when on which run was read.
    runs: Vec<(u64, Option<Run>)>,
}

/// Where one block was planned.
struct Planned {
    /// Per process of its source: which of the run's, and the block's number.
    on: Vec<(usize, u64)>,
    begin_ns: u64,
    end_ns: u64,
}

impl LiveExecutor<'_> {
    pub(super) fn play_blocks(
        &mut self,
        blocks: &[BlockRequest],
    ) -> Result<Vec<Block>, WindowError> {
        self.put_down()?;
        let mut results = Vec::with_capacity(blocks.len());
        for run in blocks.chunk_by(|a, b| a.target == b.target) {
            if self.interrupted() {
                return Err(WindowError::Interrupted);
            }
            self.set_target(run[0].target)?;
            let read = self.play_run(run);
            // Whatever happened, the target goes on.
            self.set_target(TargetState::Running)?;
            results.extend(read?);
        }
        Ok(results)
    }

    /// Plays blocks as windows, for a metric that only the profiler can read.
    pub(super) fn play_windows(
        &mut self,
        blocks: &[BlockRequest],
    ) -> Result<Vec<Block>, WindowError> {
        let mut results = Vec::with_capacity(blocks.len());
        for request in blocks {
            let subject = &self.subjects[request.subject];
            let period = subject
                .sequence
                .map_or(Duration::ZERO, |sequence| sequence.period);
            let length = (period * request.periods).saturating_sub(subject.settle);
            let read_target = request.target == TargetState::Running;
            let window = WindowRequest {
                subject: request.subject,
                arm: request.arm,
                target: request.target,
                read_target,
                settle: subject.settle,
                length,
            };
            let began = self.now();
            results.push(match self.window(&window) {
                Err(WindowError::Subject(reason)) => Block::Failed(reason),
                Err(error) => return Err(error),
                Ok(reading) if read_target && reading.performance.is_none() => Block::Missed,
                Ok(reading) => Block::Read(BlockReading {
                    at: (began + self.now()) / 2,
                    turns: Vec::from_iter(reading.performance.map(|performance| TargetTurn {
                        position: 0,
                        operations: performance * length.as_secs_f64(),
                        seconds: length.as_secs_f64(),
                        all_operations: performance * length.as_secs_f64(),
                        all_seconds: length.as_secs_f64(),
                        from: None,
                    })),
                    probe: reading.probe,
                    pressure: reading.pressure,
                    steal: reading.steal,
                }),
            });
        }
        // Whatever was played last, the target goes on.
        self.set_target(TargetState::Running)?;
        Ok(results)
    }

    /// Plays blocks during which the target stays as it is.
    fn play_run(&mut self, blocks: &[BlockRequest]) -> Result<Vec<Block>, WindowError> {
        let before = self.hosts(blocks);
        let mut lost = self.revive(blocks, &[], &before);
        let hosts = self.hosts(blocks);
        self.metric.follow(self.target).map_err(target_error)?;
        self.watch(&hosts)?;
        let stolen = StealReading::now(&self.cpus);
        self.playing.gaps.clear();
        self.playing.runs = vec![(0, self.metric.run())];
        let planned = self.plan_blocks(blocks, &hosts);
        let end_ns = planned.last().map_or(0, |last| last.end_ns);
        let turns = self.await_turns(&hosts, end_ns);
        for host in &hosts {
            host.played_ns.set(monotonic_ns());
        }
        let turns = turns?;
        let steal = StealReading::now(&self.cpus).share_since(&stolen);
        let by_cpu_time = self.metric.turns().is_some_and(|source| source.by_cpu_time);
        lost.extend(self.revive(blocks, &planned, &hosts));
        let mut results = Vec::with_capacity(blocks.len());
        for (request, planned) in blocks.iter().zip(&planned) {
            let lost = lost.iter().find(|(subject, _)| *subject == request.subject);
            let group = &mut self.groups[request.subject];
            let failed = match lost {
                Some((_, reason)) => Err(reason.clone()),
                None => group.check_exits().map_err(|error| error.to_string()),
            };
            results.push(match failed {
                Err(reason) => Block::Failed(reason),
                Ok(()) => self.read_block(request, planned, &turns, by_cpu_time, steal),
            });
        }
        self.check_progress(&results)?;
        Ok(results)
    }

    /// # Errors
    /// When the target has been standing still for too long.
    fn check_progress(&mut self, results: &[Block]) -> Result<(), WindowError> {
        let now = monotonic_ns();
        let before = std::mem::replace(&mut self.playing.checked_ns, now);
        if now - before > REST.as_nanos() as u64 {
            self.playing.moved_ns = now;
        }
        let mut turns = results.iter().flat_map(|result| match result {
            Block::Read(reading) => &reading.turns[..],
            Block::Missed | Block::Failed(_) => &[],
        });
        let nothing_read = turns.clone().next().is_none();
        if nothing_read || turns.any(|turn| turn.operations > 0.0) {
            self.playing.moved_ns = now;
            return Ok(());
        }
        let still = Duration::from_nanos(now - self.playing.moved_ns);
        match still > STILL {
            true => Err(WindowError::Target(format!(
                "the target made no progress for {:.0} s: is it waiting, or stopped or frozen by \
                 somebody else?",
                still.as_secs_f64()
            ))),
            false => Ok(()),
        }
    }

    /// Starts anew what shared a process with a source whose end took it along.
    /// The subjects that are lost, and why.
    fn revive(
        &mut self,
        blocks: &[BlockRequest],
        planned: &[Planned],
        hosts: &[Rc<Host>],
    ) -> Vec<(usize, String)> {
        let mut lost: Vec<(usize, String)> = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let Err(gone) = host.check() else {
                continue;
            };
            // The one whose turn it was.
            let playing = host.tape.played();
            let on = |planned: &Planned| planned.on.contains(&(index, playing));
            let culprit = planned.iter().position(on).map(|at| blocks[at].subject);
            lost.extend(culprit.map(|subject| (subject, gone.to_string())));
            lost.extend(self.start_others(host, culprit, &gone.to_string()));
        }
        lost
    }

    /// After a window of `subject` that failed: where its worker has ended, what shared
    /// the process is started anew, itself included where it was not `pressing`. Whether
    /// it is. The others that are lost fail when it is their turn.
    pub(super) fn revive_after(&mut self, subject: usize, pressing: bool) -> bool {
        let hosts = self.groups[subject].hosts();
        let hosts: Vec<Rc<Host>> = hosts.map(|(host, _)| host.clone()).collect();
        let mut again = false;
        for host in hosts {
            if let Err(gone) = host.check() {
                let culprit = pressing.then_some(subject);
                let lost = self.start_others(&host, culprit, &gone.to_string());
                again |= !pressing && lost.iter().all(|(lost, _)| *lost != subject);
            }
        }
        again
    }

    /// Starts everything but `culprit` anew that shared the ended process `host`. The
    /// subjects that are lost, and why.
    fn start_others(
        &mut self,
        host: &Rc<Host>,
        culprit: Option<usize>,
        gone: &str,
    ) -> Vec<(usize, String)> {
        let mut lost = Vec::new();
        let others: Vec<usize> = (0..self.groups.len())
            .filter(|subject| Some(*subject) != culprit)
            .filter(|subject| {
                let mut hosts = self.groups[*subject].hosts();
                hosts.any(|(known, _)| Rc::ptr_eq(known, host))
            })
            .collect();
        self.playing.revived += 1;
        if self.playing.revived > MOST_REVIVED {
            lost.extend(others.iter().map(|subject| (*subject, gone.to_string())));
            return lost;
        }
        let plans = others.iter();
        let plans = plans.map(|subject| (0, self.groups[*subject].plan.clone()));
        let started = spawn_together(plans.collect());
        for (subject, started) in others.into_iter().zip(started) {
            let ready = started.and_then(|mut group| {
                group.wait_ready(LATE)?;
                Ok(group)
            });
            match ready {
                Ok(group) => {
                    group.take_peaks_of(&self.groups[subject]);
                    self.groups[subject] = group;
                }
                Err(error) => lost.push((subject, error.to_string())),
            }
        }
        lost
    }

    /// The processes that play `blocks`, each once.
    fn hosts(&self, blocks: &[BlockRequest]) -> Vec<Rc<Host>> {
        let mut hosts: Vec<Rc<Host>> = Vec::new();
        for block in blocks {
            for (host, _) in self.groups[block.subject].hosts() {
                if !hosts.iter().any(|known| Rc::ptr_eq(known, host)) {
                    hosts.push(host.clone());
                }
            }
        }
        hosts
    }

    /// Has all `hosts` read the target's counts.
    fn watch(&mut self, hosts: &[Rc<Host>]) -> Result<(), WindowError> {
        let Some(source) = self.metric.turns() else {
            let what = "the target's counts can no longer be read at any instant";
            return Err(WindowError::Subject(what.into()));
        };
        for host in hosts {
            // A dead worker shows in its blocks.
            if host.check().is_ok() {
                host.watch(source.version, &source.readable)?;
            }
        }
        let deadline = monotonic_ns() + LATE.as_nanos() as u64;
        for host in hosts {
            loop {
                match host.tape.sees() {
                    Some(true) => break,
                    Some(false) => {
                        let what = "a worker cannot read the target's counts";
                        return Err(WindowError::Subject(what.into()));
                    }
                    // A dead worker shows in its blocks.
                    None if host.check().is_err() || monotonic_ns() > deadline => break,
                    None => sleep(Duration::from_millis(1)),
                }
            }
        }
        Ok(())
    }

    fn plan_blocks(&mut self, blocks: &[BlockRequest], hosts: &[Rc<Host>]) -> Vec<Planned> {
        let now = monotonic_ns();
        let rest = REST.as_nanos() as u64;
        let awake = hosts.iter().all(|host| now - host.played_ns.get() < rest);
        let lead = if awake { LEAD } else { FIRST_LEAD };
        let mut begin_ns = now + lead.as_nanos() as u64;
        blocks
            .iter()
            .map(|request| {
                let period_ns = self
                    .sequence_of(request)
                    .map_or(0, |sequence| request.period(&sequence).as_nanos() as u64);
                let order = match request.arm {
                    Arm::Idle => Order::Idle,
                    Arm::Control => Order::Control,
                    Arm::Treat(percent) if request.target == TargetState::Stopped => {
                        Order::TreatAlone(percent)
                    }
                    Arm::Treat(percent) => Order::Treat(percent),
                };
                let on = self.groups[request.subject]
                    .hosts()
                    .filter_map(|(host, source)| {
                        let index = hosts.iter().position(|known| Rc::ptr_eq(known, host))?;
                        let number = host.tape.plan(PlannedBlock {
                            source,
                            order,
                            begin_ns,
                            periods: request.periods,
                            period_ns,
                            busy: request.turn.is_some(),
                        })?;
                        Some((index, number))
                    })
                    .collect();
                let end_ns = begin_ns + u64::from(request.periods) * period_ns;
                let planned = Planned {
                    on,
                    begin_ns,
                    end_ns,
                };
                begin_ns = end_ns + self.playing.dither(period_ns);
                planned
            })
            .collect()
    }

    fn sequence_of(&self, request: &BlockRequest) -> Option<Sequence> {
        self.subjects[request.subject].sequence
    }

    /// Waits until everything planned is over. Per host its turns.
    fn await_turns(
        &mut self,
        hosts: &[Rc<Host>],
        end_ns: u64,
    ) -> Result<Vec<Vec<Turn>>, WindowError> {
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); hosts.len()];
        let ended = self.await_end(hosts, end_ns, &mut turns);
        if ended.is_err() {
            for host in hosts {
                host.tape.cancel();
            }
        }
        // The pages are the profiler's again once the tapes are over.
        let deadline = end_ns.max(monotonic_ns()) + LATE.as_nanos() as u64;
        while !hosts.iter().all(|host| host.tape.is_over()) && monotonic_ns() < deadline {
            if hosts.iter().any(|host| host.check().is_err()) {
                break;
            }
            sleep(Duration::from_micros(200));
        }
        self.drain(hosts, &mut turns);
        ended.map(|()| turns)
    }

    fn await_end(
        &mut self,
        hosts: &[Rc<Host>],
        end_ns: u64,
        turns: &mut [Vec<Turn>],
    ) -> Result<(), WindowError> {
        loop {
            if self.interrupted() {
                return Err(WindowError::Interrupted);
            }
            if let Some(reason) = self.guard.get_mut().look() {
                return Err(WindowError::Subject(reason));
            }
            if !self.stopped {
                self.keep_followed(hosts)?;
            }
            let left = end_ns.saturating_sub(monotonic_ns());
            if left == 0 {
                return Ok(());
            }
            if hosts.iter().any(|host| host.check().is_err()) {
                for host in hosts {
                    host.tape.cancel();
                }
                return Ok(());
            }
            let left = Duration::from_nanos(left);
            match !self.stopped && self.metric.restarts() {
                // It comes back when the command ends.
                true => drop(self.target.wait(RESTART_NAP.min(left))),
                false => sleep(NAP.min(left)),
            }
            self.drain(hosts, turns);
        }
    }

    /// Starts a command that has ended again, and has its new run read.
    fn keep_followed(&mut self, hosts: &[Rc<Host>]) -> Result<(), WindowError> {
        let ended = match self.metric.restarts() {
            true => self.target.wait(Duration::ZERO),
            false => None,
        };
        let now = monotonic_ns();
        if ended.is_none() {
            self.keep_running()?;
            let due = now - self.playing.followed_ns > FOLLOWED.as_nanos() as u64;
            if !due || !self.metric.restarts() {
                return Ok(());
            }
            // It may have started threads.
            self.playing.followed_ns = now;
            self.metric.follow(self.target).map_err(target_error)?;
            return self.watch(hosts);
        }
        self.playing.followed_ns = now;
        let ago = self.target.ended_for().unwrap_or_default();
        let from = monotonic_ns() - ago.as_nanos() as u64;
        self.keep_running()?;
        self.metric.follow(self.target).map_err(target_error)?;
        self.watch(hosts)?;
        let to = monotonic_ns() + LOADING.as_nanos() as u64;
        self.playing.gaps.push([from, to]);
        self.playing.runs.push((to, self.metric.run()));
        Ok(())
    }

    fn drain(&mut self, hosts: &[Rc<Host>], turns: &mut [Vec<Turn>]) {
        for (host, turns) in hosts.iter().zip(turns) {
            turns.extend(host.tape.take());
        }
        for host in hosts {
            let lost = host.tape.lost();
            self.playing.lost += lost - host.lost.replace(lost);
        }
    }

    fn read_block(
        &self,
        request: &BlockRequest,
        planned: &Planned,
        turns: &[Vec<Turn>],
        by_cpu_time: bool,
        steal: f64,
    ) -> Block {
        let group = &self.groups[request.subject];
        let sliced = group.plan.config.slices.is_some() && request.turn.is_none();
        let slices = sliced && request.arm != Arm::Idle;
        let takes_time = self
            .sequence_of(request)
            .is_some_and(|sequence| sequence.takes_time);
        let period_ns = (planned.end_ns - planned.begin_ns) / u64::from(request.periods.max(1));
        let mut sum = Snapshot::default();
        let mut target = Vec::new();
        for (index, (host, number)) in planned.on.iter().enumerate() {
            let all = &turns[*host];
            let first = all.partition_point(|turn| turn.block < *number);
            let count = all[first..].partition_point(|turn| turn.block == *number);
            if count == 0 {
                return Block::Missed;
            }
            let own = &all[first..first + count];
            for turn in own.iter().filter(|turn| turn.position >= request.skip) {
                sum.operations += turn.operations;
                sum.active_ns += turn.active_ns;
                sum.held = turn.held;
            }
            if index == 0 && request.target == TargetState::Running {
                let next = all.get(first + count);
                let follow = Follow {
                    period_ns,
                    by_cpu_time,
                    gaps: &self.playing.gaps,
                    runs: &self.playing.runs,
                };
                target = target_turns(own, next, (slices, takes_time), &follow);
            }
        }
        if planned.on.is_empty() {
            return Block::Missed;
        }
        let counted = request.periods.saturating_sub(request.skip);
        sum.at_ns = u64::from(counted) * period_ns;
        let treated = matches!(request.arm, Arm::Treat(_));
        let zero = Snapshot::default();
        let middle = planned.begin_ns / 2 + planned.end_ns / 2;
        Block::Read(BlockReading {
            at: Duration::from_nanos(middle.saturating_sub(self.start_ns)),
            turns: target,
            probe: treated.then(|| group.probe(&zero, &sum)).flatten(),
            pressure: treated.then(|| group.pressure(&zero, &sum)),
            steal,
        })
    }
}

impl Playing {
    /// Xorshift (Marsaglia 2003): any number that does not repeat with the
    /// blocks will do.
    fn dither(&mut self, period_ns: u64) -> u64 {
        let mut x = self.noise.max(0x9e37_79b9);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.noise = x;
        x % (period_ns / DITHER).max(1)
    }
}

/// How the target was followed while turns were taken.
struct Follow<'a> {
    period_ns: u64,
    by_cpu_time: bool,
    /// Where there was no target.
    gaps: &'a [[u64; 2]],
    /// From when on which run was read.
    runs: &'a [(u64, Option<Run>)],
}

impl Follow<'_> {
    /// How far the run had come that was under way at `mark`.
    fn place(&self, mark: &Mark) -> Option<Place> {
        let last = self.runs.partition_point(|(from, _)| *from <= mark.at_ns);
        let (_, run) = self.runs[..last].last()?;
        let run = (*run)?;
        Some(Place {
            run: run.number,
            operations: mark.operations.checked_sub(run.base)? as f64,
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
fn target_turns(
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
            place.map(|place| (place.run, place.operations))
        };
        assert_eq!(place(500, 130), Some((3, 30.0)));
        assert_eq!(place(1500, 251), Some((4, 1.0)));
        // What was counted before its begin is of the run before.
        assert_eq!(place(1500, 249), None);
        assert_eq!(place(2500, 300), None);
    }
}
