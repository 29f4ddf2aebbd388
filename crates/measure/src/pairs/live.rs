//! Blocks on the real machine.

use super::bench::Arm;
use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Block;
use super::bench::Did;
use super::estimate;
use super::member::Member;
use super::warning::PairWarning;
use jostle_host::machine::transfer::APART_NS;
use jostle_host::machine::transfer::Transfer;
use jostle_host::sys::clock::monotonic_ns;
use jostle_profile::pairs::GroupPlacement;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Longest sleep between two looks at who has ended. Each look takes a few
/// microseconds of a CPU that may be a member's.
const NAP: Duration = Duration::from_millis(10);
/// Time at the begin of a block that does not count: caches of the last level are
/// filled again, which takes a walk from line to line so long, and devices work off
/// what was queued.
const SKIP: Duration = Duration::from_millis(40);
/// A block on CPUs of its own.
const READ: Duration = Duration::from_millis(40);
/// Turns of the scheduler that each member has in a block on a CPU that all share,
/// and before.
const TURNS: u32 = 10;
const TURNS_SKIPPED: u32 = 3;
/// From one look at whether the members share a cache to the next, while they do not.
const LOOKED_AT: Duration = Duration::from_millis(100);
/// Operations that are to be counted in a block at least.
const OPERATIONS: f64 = 12.0;
/// Longest block of a member that is counted.
const LONGEST: Duration = Duration::from_secs(1);
/// A reading longer than the budget over this many is coarse.
const FEW: u32 = 40;
/// Times that a block is begun because a command ended in it.
const ATTEMPTS: usize = 3;
/// Blocks apart that the rates are taken from at first.
const FIRST: usize = 2;
/// Share of its own work that a stopped member may seem to do.
const STILL: f64 = 0.02;

pub(crate) struct LiveBench<'a> {
    members: &'a mut Vec<Member>,
    interrupt: Arc<AtomicBool>,
    together: Lengths,
    apart: Vec<Lengths>,
    /// Longest time that one run may take.
    run_timeout: Duration,
    /// Times that a block is begun because a command ended in it.
    attempts: usize,
    transfer: Option<Transfer>,
}

#[derive(Clone, Copy, Debug)]
struct Lengths {
    skip: Duration,
    read: Duration,
}

/// Who is counted while it is stopped: its counter sees somebody else.
pub(crate) struct Foreign(pub(crate) Vec<usize>);

impl<'a> LiveBench<'a> {
    /// `turn` is how long the scheduler lets one of several run where they share a
    /// CPU.
    pub(crate) fn new(
        members: &'a mut Vec<Member>,
        placement: GroupPlacement,
        turn: Duration,
        run_timeout: Duration,
        interrupt: Arc<AtomicBool>,
    ) -> Self {
        let apart = Lengths {
            skip: SKIP,
            read: READ,
        };
        let count = members.len() as u32;
        let together = match placement {
            GroupPlacement::SameCpu => Lengths {
                skip: SKIP.max(turn * TURNS_SKIPPED * count),
                read: READ.max(turn * TURNS * count),
            },
            GroupPlacement::SameLlc | GroupPlacement::OwnCpus => apart,
        };
        LiveBench {
            apart: vec![apart; members.len()],
            members,
            interrupt,
            together,
            run_timeout,
            attempts: ATTEMPTS,
            transfer: None,
        }
    }

    /// Makes the blocks so long that each member can be read in them, by what each
    /// does apart; `shares` is how many of them share a CPU.
    pub(crate) fn fit(
        &mut self,
        names: &[String],
        budget: Duration,
        shares: usize,
    ) -> Result<(Foreign, Vec<PairWarning>), BenchError> {
        let mut foreign = Vec::new();
        let mut warnings = Vec::new();
        let mut longest = Duration::ZERO;
        for member in 0..self.members.len() {
            if self.members[member].metric().is_none() {
                continue;
            }
            let mut did: Vec<(f64, f64)> = Vec::new();
            let mut counted = vec![0.0; self.members.len()];
            for _ in 0..FIRST {
                let before = self.counts()?;
                let found = match self.play(Arm::Apart(member)) {
                    // The rounds will tell.
                    Err(BenchError::NotPaused { .. }) => break,
                    block => block?,
                };
                let after = self.counts()?;
                for (sum, (before, after)) in counted.iter_mut().zip(before.iter().zip(&after)) {
                    *sum += after.saturating_sub(*before) as f64;
                }
                did.extend(found.did[member].map(|did| (did.work, did.seconds)));
            }
            let own = counted[member];
            foreign.extend(counted.iter().enumerate().filter_map(|(other, count)| {
                (other != member && *count > STILL * own && *count > 1.0).then_some(other)
            }));
            let rate = estimate::first_rate(&did);
            let needs = self.members[member].shortest(rate, OPERATIONS);
            let capped = needs.min(LONGEST.max(match self.members[member].reads_runs() {
                true => self.run_timeout,
                false => Duration::ZERO,
            }));
            let usual = self.apart[member].read;
            self.apart[member].read = usual.max(capped);
            longest = longest.max(capped);
            if needs > budget / FEW {
                let facts = self.members[member].metric().map(|metric| metric.facts());
                warnings.push(PairWarning::MetricCoarse {
                    member: names[member].clone(),
                    metric: facts.map_or_else(String::new, |facts| facts.name),
                    seconds: needs.as_secs_f64(),
                });
            }
        }
        let longest = longest * shares.max(1) as u32;
        self.together.read = self.together.read.max(longest.min(LONGEST * 2));
        foreign.sort_unstable();
        foreign.dedup();
        Ok((Foreign(foreign), warnings))
    }

    /// The same, with blocks apart that begin to count after `skip` and last for
    /// `read` at least.
    pub(crate) fn with_blocks(mut self, skip: Duration, read: Duration) -> Self {
        for lengths in &mut self.apart {
            lengths.skip = lengths.skip.max(skip);
            lengths.read = lengths.read.max(read);
        }
        self
    }

    /// The same, with the ends and begins of runs as a part of the blocks that they
    /// fall into.
    pub(crate) fn with_whole_runs(mut self) -> Self {
        self.attempts = 1;
        self
    }

    /// Looks, where all run, whether the members on CPUs `cpus` share a last-level cache.
    pub(crate) fn watch_nearness(&mut self, cpus: [usize; 2]) {
        self.transfer = Transfer::between(cpus[0], cpus[1]).ok();
    }

    fn is_near(&self, arm: Arm) -> Option<bool> {
        let looked = self.transfer.as_ref().filter(|_| arm == Arm::Together)?;
        looked.look().map(|ns| ns <= APART_NS)
    }

    /// Lengths that are enough for each of the first `count` members.
    fn longest_of(&self, count: usize) -> Lengths {
        let first = self.apart.iter().take(count);
        first.fold(self.apart[0], |longest, lengths| Lengths {
            skip: longest.skip.max(lengths.skip),
            read: longest.read.max(lengths.read),
        })
    }

    pub(crate) fn members(&mut self) -> &mut [Member] {
        self.members
    }

    fn counts(&mut self) -> Result<Vec<u64>, BenchError> {
        let members = self.members.iter_mut();
        members
            .map(|member| Ok(member.count()?.unwrap_or(0)))
            .collect()
    }

    /// Waits, and starts again what has ended; stops waiting when that cuts what is
    /// being read, where `cut` says so. Whether it was.
    fn pass(&mut self, arm: Arm, length: Duration, cut: bool) -> Result<bool, BenchError> {
        let deadline = monotonic_ns() + length.as_nanos() as u64;
        loop {
            if self.interrupt.load(Relaxed) {
                return Err(BenchError::Interrupted);
            }
            if self.keep_running(arm)? && cut {
                return Ok(true);
            }
            let left = deadline.saturating_sub(monotonic_ns());
            if left == 0 {
                return Ok(false);
            }
            std::thread::sleep(NAP.min(Duration::from_nanos(left)));
        }
    }

    /// Whether somebody had ended whose end cuts a reading.
    fn keep_running(&mut self, arm: Arm) -> Result<bool, BenchError> {
        let mut cut = false;
        for (index, member) in self.members.iter_mut().enumerate() {
            if arm.runs(index) {
                cut |= member.keep_running()? && member.is_cut_by_restarts();
            }
        }
        Ok(cut)
    }

    fn running(&mut self, arm: Arm) -> impl Iterator<Item = &mut Member> {
        let members = self.members.iter_mut().enumerate();
        members.filter_map(move |(index, member)| arm.runs(index).then_some(member))
    }

    fn read(
        &mut self,
        arm: Arm,
        length: Duration,
        last: bool,
    ) -> Result<Option<Block>, BenchError> {
        for member in self.running(arm) {
            member.begin()?;
        }
        let from = monotonic_ns();
        if self.pass(arm, length, !last)? {
            return Ok(None);
        }
        let runs_on = |bench: &Self| bench.members.iter().any(Member::is_running_on);
        while runs_on(self) && monotonic_ns() - from < self.run_timeout.as_nanos() as u64 {
            self.pass(arm, NAP, false)?;
        }
        let at = (from + monotonic_ns()) as f64 / 2e9;
        let mut did: Vec<Option<Did>> = vec![None; self.members.len()];
        for (index, member) in self.members.iter_mut().enumerate() {
            if arm.runs(index) {
                did[index] = member.end()?;
            }
        }
        Ok(Some(Block {
            at,
            did,
            shares_cache: None,
        }))
    }
}

impl Bench for LiveBench<'_> {
    fn now(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }

    fn wait_for_cache(&mut self, longest: f64) -> f64 {
        let began = self.now();
        let mut still = false;
        while self.is_near(Arm::Together) == Some(false)
            && self.now() - began < longest
            && !self.interrupt.load(Relaxed)
        {
            if !still {
                // What cannot be stopped is told by the rounds.
                for member in self.members.iter_mut() {
                    let _ = member.set(false);
                }
                still = true;
            }
            std::thread::sleep(LOOKED_AT);
        }
        if still { self.now() - began } else { 0.0 }
    }

    fn play(&mut self, arm: Arm) -> Result<Block, BenchError> {
        for going in [false, true] {
            for (index, member) in self.members.iter_mut().enumerate() {
                if arm.runs(index) == going {
                    member.set(going)?;
                }
            }
        }
        let lengths = match arm {
            Arm::Together => self.together,
            Arm::Apart(member) => self.apart[member],
            Arm::First(count) => self.longest_of(count),
        };
        let mut attempt = 1;
        let near = self.is_near(arm);
        loop {
            self.pass(arm, lengths.skip, false)?;
            // Runs are waited for, however long they take.
            let counted = self.running(arm).any(|member| member.is_cut_by_restarts());
            let only_runs = self.running(arm).any(|member| member.reads_runs()) && !counted;
            let read = if only_runs {
                Duration::ZERO
            } else {
                lengths.read
            };
            if let Some(mut block) = self.read(arm, read, attempt >= self.attempts)? {
                block.shares_cache = near.filter(|near| self.is_near(arm) == Some(*near));
                return Ok(block);
            }
            attempt += 1;
        }
    }
}
