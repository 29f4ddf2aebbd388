//! Sequences of short blocks on the real machine: planned ahead on the workers'
//! tapes, read back turn by turn.

use super::LiveExecutor;
use super::StealReading;
use super::target_error;
use super::turns::Follow;
use super::turns::Held;
use super::turns::Progress;
use super::turns::beside_the_target;
use super::turns::target_turns;
use crate::experiment::executor::Arm;
use crate::experiment::executor::Block;
use crate::experiment::executor::BlockReading;
use crate::experiment::executor::BlockRequest;
use crate::experiment::executor::Executor;
use crate::experiment::executor::Sequence;
use crate::experiment::executor::TargetState;
use crate::experiment::executor::TargetTurn;
use crate::experiment::executor::WindowError;
use crate::experiment::executor::WindowRequest;
use crate::metric::Moments;
use crate::metric::Run;
use jostle_host::inject::Snapshot;
use jostle_host::inject::process::Host;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::control_page::Order;
use jostle_host::sys::handover::Layout;
use jostle_host::sys::handover::Readable;
use jostle_host::sys::tape::PlannedBlock;
use jostle_host::sys::tape::Turn;
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
pub(super) const LATE: Duration = Duration::from_secs(2);
/// Blocks begin up to this part of a period later than the one before ends, so
/// that they do not lock in phase with the target or with the kernel's clock.
const DITHER: u64 = 4;

/// Longest time between two looks at whether source and target share a cache.
const LONGEST_UNSEEN: Duration = Duration::from_millis(200);

/// How long a source is watched without the target where blocks are runs of that.
const ALONE: Duration = Duration::from_millis(40);

/// Longest wait for the operation that is under way when the last block ends.
const NEXT_OPERATION: Duration = Duration::from_millis(5);

/// A target that makes no progress for so long is not measured further.
const STILL: Duration = Duration::from_secs(5);

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
    pub(super) revived: u32,
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
pub(super) struct Planned {
    /// Per process of its source: which of the run's, and the block's number.
    pub(super) on: Vec<(usize, u64)>,
    /// The same of the source that presses at the same time.
    pub(super) beside: Vec<(usize, u64)>,
    begin_ns: u64,
    end_ns: u64,
    /// Whether its source takes turns with the target.
    slices: bool,
}

impl Planned {
    fn period_ns(&self, request: &BlockRequest) -> u64 {
        (self.end_ns - self.begin_ns) / u64::from(request.periods.max(1))
    }
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
            let at_once = self.blocks_at_once(&run[0]);
            for part in run.chunks(at_once) {
                let read = self.play_run(part);
                if read.is_err() {
                    // Whatever happened, the target goes on.
                    self.set_target(TargetState::Running)?;
                }
                results.extend(read?);
            }
            self.set_target(TargetState::Running)?;
        }
        Ok(results)
    }

    /// Blocks like `request` that are played without a look at whether source and target
    /// still share a cache.
    fn blocks_at_once(&mut self, request: &BlockRequest) -> usize {
        let block = self
            .sequence_of(request)
            .map_or(Duration::ZERO, |sequence| {
                request.period(&sequence) * request.periods
            });
        let looked_at = self.line_ns(request.subject).is_some() && !block.is_zero();
        let most = LONGEST_UNSEEN.div_duration_f64(block) as usize;
        if looked_at { most.max(1) } else { usize::MAX }
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
            let mut length = (period * request.periods).saturating_sub(subject.settle);
            if self.metric.one_run_per_window() && request.target == TargetState::Stopped {
                length = length.min(ALONE);
            }
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
            let before = self.line_ns(request.subject);
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
                        in_parts: false,
                        done: None,
                    })),
                    probe: reading.probe,
                    pressure: reading.pressure,
                    beside: None,
                    steal: reading.steal,
                    line_ns: before.zip(self.line_ns(request.subject)).map(Into::into),
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
        self.follow_floor()?;
        self.watch(&hosts)?;
        let logged = self.metric.turns().is_some_and(|source| source.logged);
        self.metric.forget_moments();
        let line_before = self.line_ns(blocks[0].subject);
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
        let mut progress = None;
        if logged {
            let Some(moments) = self.moments_after(end_ns) else {
                // Part of it was lost; from now on the workers read.
                return Ok(vec![Block::Missed; blocks.len()]);
            };
            let takes_time = |request: &BlockRequest| {
                self.sequence_of(request)
                    .is_some_and(|sequence| sequence.takes_time)
            };
            let held = held(blocks, &planned, &turns, takes_time);
            progress = Some(Progress::new(moments, held, &self.playing.gaps));
        }
        let steal = StealReading::now(&self.cpus).share_since(&stolen);
        let line_after = self.line_ns(blocks[0].subject);
        let line_ns = line_before.zip(line_after).map(Into::into);
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
                Ok(()) => {
                    let follow = Follow {
                        period_ns: planned.period_ns(request),
                        by_cpu_time,
                        gaps: &self.playing.gaps,
                        runs: &self.playing.runs,
                        progress: progress.as_ref(),
                    };
                    let mut block = self.read_block(request, planned, &turns, &follow, steal);
                    if let Block::Read(reading) = &mut block {
                        reading.line_ns = line_ns;
                    }
                    block
                }
            });
        }
        self.check_progress(&results)?;
        Ok(results)
    }

    /// When operations were done since the last call, among them one after `end_ns` if
    /// it does not take long; `None` where some was lost.
    fn moments_after(&mut self, end_ns: u64) -> Option<Moments> {
        let mut all = self.metric.moments()?;
        let deadline = end_ns + NEXT_OPERATION.as_nanos() as u64;
        while all.times.last().is_none_or(|last| *last <= end_ns) && monotonic_ns() < deadline {
            sleep(NEXT_OPERATION / 10);
            all.times.extend(self.metric.moments()?.times);
        }
        Some(all)
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

    /// The processes that play `blocks`, each once.
    fn hosts(&self, blocks: &[BlockRequest]) -> Vec<Rc<Host>> {
        let mut hosts: Vec<Rc<Host>> = Vec::new();
        let subjects = blocks
            .iter()
            .flat_map(|block| [Some(block.subject), block.beside]);
        for subject in subjects.flatten() {
            for (host, _) in self.groups[subject].hosts() {
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
        // What is written down nobody needs to read.
        let readable = match source.logged {
            true => Readable {
                layout: Layout::Page,
                descriptors: Vec::new(),
            },
            false => source.readable,
        };
        for host in hosts {
            // A dead worker shows in its blocks.
            if host.check().is_ok() {
                host.watch(source.version, &readable)?;
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
                        Order::TreatAlone(self.allowed(percent))
                    }
                    Arm::Treat(percent) => Order::Treat(self.allowed(percent)),
                    Arm::Probe(percent) => Order::Probe(self.allowed(percent)),
                };
                let end_ns = begin_ns + u64::from(request.periods) * period_ns;
                let plan = |subject: usize, order: Order, period_ns: u64, periods: u32| {
                    let on = self.groups[subject].hosts();
                    let on = on.filter_map(|(host, source)| {
                        let index = hosts.iter().position(|known| Rc::ptr_eq(known, host))?;
                        let number = host.tape.plan(PlannedBlock {
                            source,
                            order,
                            begin_ns,
                            periods,
                            period_ns,
                            busy: request.turn.is_some(),
                        })?;
                        Some((index, number))
                    });
                    on.collect::<Vec<(usize, u64)>>()
                };
                let on = plan(request.subject, order, period_ns, request.periods);
                let beside = request.beside.map_or(Vec::new(), |subject| {
                    let own = self.subjects[subject].sequence;
                    let own = own.map_or(period_ns, |own| own.period.as_nanos() as u64);
                    let periods = (end_ns - begin_ns) / own.max(1);
                    plan(subject, Order::Treat(self.ceiling), own, periods as u32)
                });
                let planned = Planned {
                    on,
                    beside,
                    begin_ns,
                    end_ns,
                    slices: self.groups[request.subject].plan.config.slices.is_some(),
                };
                self.press(request.subject, request.arm, begin_ns, end_ns);
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
            self.check_floor()?;
            if let Some(reason) = self.guard.get_mut().look() {
                return Err(WindowError::Subject(reason));
            }
            if !self.stopped {
                self.keep_followed(hosts)?;
            }
            self.metric.keep_moments();
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
            self.follow_floor()?;
            return self.watch(hosts);
        }
        self.playing.followed_ns = now;
        let ago = self.target.ended_for().unwrap_or_default();
        let from = monotonic_ns() - ago.as_nanos() as u64;
        self.keep_running()?;
        self.metric.follow(self.target).map_err(target_error)?;
        self.follow_floor()?;
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
        follow: &Follow,
        steal: f64,
    ) -> Block {
        let group = &self.groups[request.subject];
        let sliced = group.plan.config.slices.is_some() && request.turn.is_none();
        let slices = sliced && request.arm != Arm::Idle;
        let takes_time = self
            .sequence_of(request)
            .is_some_and(|sequence| sequence.takes_time);
        let period_ns = follow.period_ns;
        let mut sum = Snapshot::default();
        let mut target = Vec::new();
        let running = request.target == TargetState::Running;
        let counted = request.periods.saturating_sub(request.skip);
        let mut counted_ns = u64::from(counted) * period_ns;
        let always = Follow {
            gaps: &[],
            ..*follow
        };
        for (index, (host, number)) in planned.on.iter().enumerate() {
            let all = &turns[*host];
            let Some((first, own)) = of_block(all, *number) else {
                return Block::Missed;
            };
            let alone_ns = beside_the_target(
                &mut sum,
                own,
                (request.skip, planned.end_ns),
                match running {
                    true => follow,
                    false => &always,
                },
            );
            if index == 0 {
                counted_ns = counted_ns.saturating_sub(alone_ns);
            }
            if index == 0 && running {
                let next = all.get(first + own.len());
                target = target_turns(own, next, (slices, takes_time), follow);
            }
        }
        if planned.on.is_empty() {
            return Block::Missed;
        }
        let beside = match request.beside {
            None => None,
            Some(_) if planned.beside.is_empty() => return Block::Missed,
            Some(subject) => match self.pressed(subject, planned, turns) {
                None => return Block::Missed,
                pressure => pressure,
            },
        };
        sum.at_ns = counted_ns;
        // Of less than a period nothing is known.
        let treated = request.arm.intensity().is_some() && counted_ns >= period_ns;
        let zero = Snapshot::default();
        let middle = planned.begin_ns / 2 + planned.end_ns / 2;
        Block::Read(BlockReading {
            at: Duration::from_nanos(middle.saturating_sub(self.start_ns)),
            turns: target,
            probe: treated.then(|| group.probe(&zero, &sum)).flatten(),
            pressure: treated.then(|| group.pressure(&zero, &sum)),
            beside,
            steal,
            line_ns: None,
        })
    }

    /// Pressure of the source of `subject` that was planned beside another one;
    /// `None` where a worker of it did not play.
    fn pressed(&self, subject: usize, planned: &Planned, turns: &[Vec<Turn>]) -> Option<f64> {
        let mut sum = Snapshot {
            at_ns: planned.end_ns - planned.begin_ns,
            ..Snapshot::default()
        };
        for (host, number) in &planned.beside {
            let (_, own) = of_block(&turns[*host], *number)?;
            for turn in own {
                sum.operations += turn.operations;
                sum.active_ns += turn.active_ns;
            }
            sum.held += own.last().map_or(0, |turn| turn.held);
        }
        let group = &self.groups[subject];
        Some(group.pressure(&Snapshot::default(), &sum))
    }
}

/// When the sources of `blocks` kept the target from its CPU, in order.
fn held(
    blocks: &[BlockRequest],
    planned: &[Planned],
    turns: &[Vec<Turn>],
    takes_time: impl Fn(&BlockRequest) -> bool,
) -> Vec<Held> {
    let mut held = Vec::new();
    for (request, planned) in blocks.iter().zip(planned) {
        let Some((host, number)) = planned.on.first() else {
            continue;
        };
        let Some((_, own)) = of_block(&turns[*host], *number) else {
            continue;
        };
        if request.turn.is_some() {
            // What is written down are turns of the target.
            let between = own.windows(2);
            held.extend(between.map(|pair| Held::all(pair[0].end.at_ns, pair[1].begin.at_ns)));
        } else if planned.slices && request.arm != Arm::Idle {
            // Elsewhere treatment and placebo are to be read alike, and how long a placebo
            // worked is not counted.
            let shared = takes_time(request) && matches!(request.arm, Arm::Treat(_));
            held.extend(own.iter().map(|slice| {
                let all = Held::all(slice.begin.at_ns, slice.end.at_ns);
                let held_ns = match shared {
                    true => slice.active_ns.min(all.held_ns),
                    false => all.held_ns,
                };
                Held { held_ns, ..all }
            }));
        }
    }
    held
}

/// The turns of block `number`, and where among `all` they begin; `None` where it
/// has none.
fn of_block(all: &[Turn], number: u64) -> Option<(usize, &[Turn])> {
    let first = all.partition_point(|turn| turn.block < number);
    let count = all[first..].partition_point(|turn| turn.block == number);
    (count > 0).then(|| (first, &all[first..first + count]))
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
