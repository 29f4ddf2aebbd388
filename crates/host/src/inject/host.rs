//! What runs inside a worker process: one or several sources of one CPU.
//!
//! Each source follows its own page. Beside that the process plays the blocks
//! of its tape, and reads the target's counts at both ends of each slice:
//! where it takes turns with the target, that is when the target is off the
//! CPU, so that a reading costs a load and wakes nobody.

use super::worker::Worker;
use super::worker::WorkerConfig;
use super::worker::start;
use crate::sys::clock::monotonic_ns;
use crate::sys::clock::sleep_until;
use crate::sys::clock::thread_cpu_ns;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::handover::Reader;
use crate::sys::handover::Taker;
use crate::sys::shared::SharedPage;
use crate::sys::tape::Mark;
use crate::sys::tape::PlannedBlock;
use crate::sys::tape::Tape;
use crate::sys::tape::Turn;
use jostle_kernels::Failure;
use std::cell::Cell;

/// How often a process whose sources are all parked looks at its pages: while
/// sequences are being played, and when nothing happened for long. A profile
/// has several of them.
const PARKED_NS: u64 = 3_000_000;
const LONG_PARKED_NS: u64 = 40_000_000;
/// Time without a block after which none is expected.
const PLAYING_NS: u64 = 2_000_000_000;
/// What is away from the CPU for less was interrupted, and nobody else's turn came.
const LEAST_TURN_NS: u64 = 200_000;
/// An idle block is read at its begin, after this part of its periods, and at
/// its end.
const IDLE_PARTS: u32 = 4;

/// Serves until the process is killed or the last source failed; then returns
/// why that one did, which also stands in its page.
pub fn serve(
    configs: &[WorkerConfig],
    pages: &[SharedPage<ControlPage>],
    tape: &Tape,
    taker: &Taker,
) -> Failure {
    let mut host = Host {
        sources: Vec::new(),
        tape,
        last: None,
        busy_ns: monotonic_ns(),
        played_ns: 0,
        taker,
        taken: 0,
        readers: Vec::new(),
        blind: Cell::new(false),
    };
    let mut failure = Failure::new("no source was named");
    for (config, page) in configs.iter().zip(pages) {
        let started = start(config, page);
        if let Err(reason) = &started {
            page.fail(&reason.0);
            failure = Failure::new(reason.0.clone());
        }
        host.sources.push(started.ok());
    }
    for worker in host.sources.iter().flatten() {
        worker.page.ready.set(true);
    }
    while host.sources.iter().any(Option::is_some) {
        if let Err((source, reason)) = host.step() {
            if let Some(worker) = host.sources[source].take() {
                worker.page.fail(&reason.0);
            }
            failure = reason;
        }
    }
    failure
}

/// Which source failed, and why.
type SourceFailure = (usize, Failure);

struct Host<'a> {
    /// `None` for those that failed.
    sources: Vec<Option<Worker<'a>>>,
    tape: &'a Tape,
    /// Which source the last block was of.
    last: Option<usize>,
    /// When something was to be done last.
    busy_ns: u64,
    /// When the last block ended.
    played_ns: u64,
    taker: &'a Taker,
    /// The last handover that was taken, and what it brought.
    taken: u64,
    readers: Vec<Reader>,
    /// Whether a reader failed since.
    blind: Cell<bool>,
}

impl Host<'_> {
    fn step(&mut self) -> Result<(), SourceFailure> {
        self.look();
        if let Some((number, block)) = self.tape.next() {
            let played = self.play(number, block);
            if self.tape.is_last(number) {
                self.put_down();
            }
            self.tape.done();
            self.busy_ns = monotonic_ns();
            self.played_ns = self.busy_ns;
            return played;
        }
        let mut parked = true;
        for (index, slot) in self.sources.iter_mut().enumerate() {
            if let Some(worker) = slot {
                parked &= worker.step().map_err(|failure| (index, failure))?;
            }
        }
        let now = monotonic_ns();
        match parked {
            true => {
                let idle = now - self.busy_ns;
                let playing = now - self.played_ns < PLAYING_NS;
                let longest = if playing { PARKED_NS } else { LONG_PARKED_NS };
                sleep_until(now + (idle / 8).clamp(PARKED_NS, longest));
            }
            false => self.busy_ns = now,
        }
        Ok(())
    }

    /// Takes what was handed over to be read.
    fn look(&mut self) {
        let call = self.tape.handed();
        if call != self.taken {
            self.taken = call;
            let readers = self.taker.take(call);
            self.blind.set(readers.is_err());
            self.readers = readers.unwrap_or_default();
            self.tape.taken(call, !self.blind.get());
        }
    }

    fn mark(&self) -> Mark {
        let mut mark = Mark {
            at_ns: monotonic_ns(),
            ..Mark::default()
        };
        for reader in &self.readers {
            match reader.read() {
                Ok((operations, busy_ns)) => {
                    mark.operations = mark.operations.wrapping_add(operations);
                    mark.busy_ns = mark.busy_ns.wrapping_add(busy_ns);
                }
                Err(_) if !self.blind.replace(true) => self.tape.taken(self.taken, false),
                Err(_) => {}
            }
        }
        mark
    }

    /// Parks the source of the last block; before the tape is said to be over,
    /// so that the page is the profiler's again from then on.
    fn put_down(&mut self) {
        let last = self.last.take();
        if let Some(worker) = last.and_then(|last| self.sources[last].as_mut()) {
            let command = Command::new(Order::Park, 0);
            worker.page.command.set(command);
            worker.switch(command);
            worker.page.applied.set(command);
        }
    }

    fn play(&mut self, number: u64, block: PlannedBlock) -> Result<(), SourceFailure> {
        if self.last != Some(block.source) {
            self.put_down();
        }
        let command = Command::new(block.order, number as u32);
        let source = self.sources.get_mut(block.source);
        let Some(worker) = source.and_then(Option::as_mut) else {
            return Ok(());
        };
        if self.tape.is_cancelled(number) {
            return Ok(());
        }
        self.last = Some(block.source);
        worker.page.command.set(command);
        if block.order == Order::Idle {
            sleep_until(block.begin_ns);
            worker.switch(command);
            worker.page.applied.set(command);
            return self.idle(number, block);
        }
        worker.switch(command);
        for worker in self.sources.iter().flatten() {
            worker.page.heartbeat.add(1);
        }
        if block.busy {
            let played = self.busy(number, block);
            return played.map_err(|failure| (block.source, failure));
        }
        for position in 0..block.periods {
            let begin = block.begin_ns + u64::from(position) * block.period_ns;
            let end = begin + block.period_ns;
            // What was missed is not made up for: the blocks of several CPUs
            // stay together.
            if self.tape.is_cancelled(number) || monotonic_ns() >= end {
                continue;
            }
            self.period(number, position, block, [begin, end])
                .map_err(|failure| (block.source, failure))?;
        }
        Ok(())
    }

    /// One slice, or as much time without turns.
    fn period(
        &mut self,
        number: u64,
        position: u32,
        block: PlannedBlock,
        [begin_ns, end_ns]: [u64; 2],
    ) -> Result<(), Failure> {
        let command = Command::new(block.order, number as u32);
        let Some(worker) = &self.sources[block.source] else {
            return Ok(());
        };
        worker.wait_for_slice(command, begin_ns);
        let operations = worker.page.operations.get();
        let active_ns = worker.page.active_ns.get();
        let begin = self.mark();
        if let Some(worker) = &mut self.sources[block.source] {
            match worker.slices {
                Some(slices) => worker.take(command, slices, end_ns)?,
                None => worker.work_until(command, end_ns)?,
            }
        }
        let end = self.mark();
        if let Some(worker) = &self.sources[block.source] {
            self.tape.write(Turn {
                block: number,
                position,
                begin,
                end,
                operations: worker.page.operations.get() - operations,
                active_ns: worker.page.active_ns.get() - active_ns,
                held: worker.page.held.get(),
            });
        }
        Ok(())
    }

    /// Works for a whole block without rests, and writes down the turns that the
    /// scheduler gives to the target meanwhile.
    fn busy(&mut self, number: u64, block: PlannedBlock) -> Result<(), Failure> {
        sleep_until(block.begin_ns);
        let ask = |host: &Host, usual| {
            if let Some(worker) = &host.sources[block.source] {
                worker.ask(usual);
            }
        };
        ask(self, true);
        let worked = self.work_without_rests(number, block);
        ask(self, false);
        worked
    }

    fn work_without_rests(&mut self, number: u64, block: PlannedBlock) -> Result<(), Failure> {
        let command = Command::new(block.order, number as u32);
        let end_ns = block.begin_ns + u64::from(block.periods) * block.period_ns;
        let Some(worker) = &mut self.sources[block.source] else {
            return Ok(());
        };
        worker.begin(command);
        let done = |worker: &Worker| (worker.page.operations.get(), worker.page.active_ns.get());
        let mut told = done(worker);
        let (mut position, mut before, mut used_ns) = (0, self.mark(), thread_cpu_ns());
        while before.at_ns < end_ns && !self.tape.is_cancelled(number) {
            let Some(worker) = &mut self.sources[block.source] else {
                break;
            };
            worker.turn(command, block.order)?;
            let (operations, active_ns) = done(worker);
            let held = worker.page.held.get();
            let (after, now_ns) = (self.mark(), thread_cpu_ns());
            let off_ns = (after.at_ns - before.at_ns).saturating_sub(now_ns - used_ns);
            if off_ns >= LEAST_TURN_NS {
                self.tape.write(Turn {
                    block: number,
                    position,
                    begin: Mark {
                        at_ns: after.at_ns - off_ns,
                        ..before
                    },
                    end: after,
                    operations: operations - told.0,
                    active_ns: active_ns - told.1,
                    held,
                });
                told = (operations, active_ns);
                position += 1;
            }
            (before, used_ns) = (after, now_ns);
        }
        Ok(())
    }

    /// Leaves the CPU alone for a whole block.
    fn idle(&mut self, number: u64, block: PlannedBlock) -> Result<(), SourceFailure> {
        let mut begin = self.mark();
        let first = (block.periods / IDLE_PARTS).max(1);
        for (position, periods) in [(0, first), (first, block.periods)] {
            sleep_until(block.begin_ns + u64::from(periods) * block.period_ns);
            let end = self.mark();
            self.tape.write(Turn {
                block: number,
                position,
                begin,
                end,
                operations: 0,
                active_ns: 0,
                held: 0,
            });
            begin = end;
        }
        Ok(())
    }
}
