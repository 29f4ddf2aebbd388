//! `interconnect`: cache lines passed back and forth between CPUs.

use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::KernelSpec;
use jostle_profile::resource::Resource;
use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Rounds of one call: some 10 µs with two CPUs.
const ROUNDS: u64 = 32;
/// How long a thread with nothing to do sleeps between two looks.
const NAP: Duration = Duration::from_millis(5);

pub const SPEC: KernelSpec = KernelSpec {
    operation: "message: one cache line written on one CPU and read on another",
    operations_per_call: 2 * ROUNDS,
    spans_cpus: true,
    doc: "Passes messages between pairs of CPUs: one thread pinned to each writes a cache line, \
          the partner reads it and answers in another line. At x % it uses x % of all pairs, \
          neighbours first (a ring), then partners ever farther away, up to every CPU with \
          every other, and holds the rate at x % of the peak that all pairs reached at the \
          start. It takes two CPUs of its own; with the placebo the same threads spin without \
          writing. It loads the paths on which cores fetch modified lines from each other, \
          within an LLC group or between sockets, whichever its CPUs span; it does not load \
          the paths to memory or to devices.",
    ..KernelSpec::of(Resource::Interconnect, build)
};

/// A line of its own, and its neighbour, which some CPUs fetch along.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Two CPUs, by position among the threads, and a line in each direction. The
/// lines hold the number of the round that was sent last.
#[derive(Default)]
struct Pair {
    asks: usize,
    answers: usize,
    question: Line,
    answer: Line,
}

const ASLEEP: u8 = 0;
const AWAKE: u8 = 1;
const ENDED: u8 = 2;

#[derive(Default)]
struct Board {
    pairs: Vec<Pair>,
    state: AtomicU8,
    /// How many of `pairs`, from the first on, pass messages.
    active: AtomicUsize,
    /// All rounds below this may be played.
    until: Line,
    /// Per thread, rounds it has finished.
    finished: Vec<Line>,
}

impl Board {
    fn new(threads: usize) -> Self {
        Board {
            pairs: pairs(threads),
            finished: (0..threads).map(|_| Line::default()).collect(),
            ..Board::default()
        }
    }

    /// Plays round `round` (from 1 on) for thread `me`: ask, answer, and wait
    /// for the answers. Nobody waits before having asked, so nobody waits for
    /// ever.
    fn play(&self, me: usize, round: u64, active: &[Pair]) {
        let await_round = |line: &Line| {
            while line.0.load(Acquire) < round && self.state.load(Acquire) != ENDED {
                std::hint::spin_loop();
            }
        };
        for pair in active.iter().filter(|pair| pair.asks == me) {
            pair.question.0.store(round, Release);
        }
        for pair in active.iter().filter(|pair| pair.answers == me) {
            await_round(&pair.question);
            pair.answer.0.store(round, Release);
        }
        for pair in active.iter().filter(|pair| pair.asks == me) {
            await_round(&pair.answer);
        }
        self.finished[me].0.store(round, Release);
    }

    /// Plays every round that is due for thread `me`.
    fn catch_up(&self, me: usize) {
        let until = self.until.0.load(Acquire);
        let from = self.finished[me].0.load(Acquire);
        if from < until {
            // Read after `until`: its writer set the pairs before.
            let active = &self.pairs[..self.active.load(Acquire)];
            for round in from + 1..=until {
                self.play(me, round, active);
            }
        }
    }
}

/// All pairs of `count` threads: neighbours on a ring first, then ever farther
/// apart, so that a growing prefix grows the fan-out of every thread evenly.
fn pairs(count: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for distance in 1..=count / 2 {
        // Half-way round, each pair would come twice.
        let starts = match 2 * distance == count {
            true => distance,
            false => count,
        };
        pairs.extend((0..starts).map(|start| Pair {
            asks: start,
            answers: (start + distance) % count,
            ..Pair::default()
        }));
    }
    pairs
}

struct Interconnect {
    board: Arc<Board>,
    partners: Vec<thread::Thread>,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    if env.cpus.len() < 2 {
        return Err(Failure::new(
            "needs two CPUs or more to pass messages between",
        ));
    }
    let board = Arc::new(Board::new(env.cpus.len()));
    let mut partners = Vec::new();
    for (me, &cpu) in env.cpus.iter().enumerate().skip(1) {
        let (told, pinned) = mpsc::channel();
        let shared = board.clone();
        let handle = thread::spawn(move || {
            let outcome = pin(cpu);
            let failed = outcome.is_err();
            // The other end waits for exactly this.
            let _ = told.send(outcome);
            if !failed {
                serve(&shared, me);
            }
        });
        partners.push(handle.thread().clone());
        pinned
            .recv()
            .map_err(|_| Failure::new("a thread ended before it began"))??;
    }
    Ok(Box::new(Interconnect { board, partners }))
}

fn pin(cpu: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|errno| {
            Failure::new(format!(
                "cannot run on CPU {cpu}: {}",
                io::Error::from(errno)
            ))
        })
}

fn serve(board: &Board, me: usize) {
    loop {
        match board.state.load(Acquire) {
            AWAKE => {
                board.catch_up(me);
                std::hint::spin_loop();
            }
            ENDED => return,
            _ => thread::park_timeout(NAP),
        }
    }
}

impl Interconnect {
    fn tell(&self, state: u8) {
        self.board.state.store(state, Release);
        for partner in &self.partners {
            partner.unpark();
        }
    }
}

impl Kernel for Interconnect {
    fn set_intensity(&mut self, percent: f64) {
        let pairs = self.board.pairs.len();
        let active = (pairs as f64 * percent / 100.0).ceil() as usize;
        // Every call waits for all threads, so no round is being played.
        self.board.active.store(active.min(pairs), Release);
        self.tell(AWAKE);
    }

    fn work(&mut self) -> Result<u64, Failure> {
        let board = &self.board;
        let until = board.until.0.load(Acquire) + ROUNDS;
        board.until.0.store(until, Release);
        board.catch_up(0);
        for thread in &board.finished {
            while thread.0.load(Acquire) < until {
                std::hint::spin_loop();
            }
        }
        Ok(2 * ROUNDS * board.active.load(Acquire) as u64)
    }

    fn placebo(&mut self) {
        self.tell(AWAKE);
    }

    fn release(&mut self) {
        self.board.state.store(ASLEEP, Release);
    }
}

impl Drop for Interconnect {
    fn drop(&mut self) {
        self.tell(ENDED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pairs_are_complete_and_neighbours_come_first() {
        for count in 2..=9 {
            let all: Vec<_> = pairs(count).iter().map(|p| (p.asks, p.answers)).collect();
            let distinct: BTreeSet<_> = all.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!(all.len(), count * (count - 1) / 2, "{count} threads");
            assert_eq!(distinct.len(), all.len(), "{count} threads");
            assert!(all.iter().all(|(a, b)| a != b));
        }
        let ring = &pairs(6)[..6];
        let ends: Vec<usize> = ring.iter().flat_map(|p| [p.asks, p.answers]).collect();
        for thread in 0..6 {
            let fan_out = ends.iter().filter(|end| **end == thread).count();
            assert_eq!(fan_out, 2, "thread {thread} of the ring");
        }
    }

    /// Threads on whatever CPUs there are: slow, but every round must end.
    #[test]
    fn every_thread_finishes_every_round_at_every_fan_out() {
        let board = Arc::new(Board::new(4));
        board.state.store(AWAKE, Release);
        let threads: Vec<_> = (1..4)
            .map(|me| {
                let board = board.clone();
                thread::spawn(move || {
                    while board.state.load(Acquire) != ENDED {
                        board.catch_up(me);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for active in [1, 4, 6, 0, 3] {
            board.active.store(active, Release);
            let until = board.until.0.load(Acquire) + 3;
            board.until.0.store(until, Release);
            board.catch_up(0);
            for thread in &board.finished {
                while thread.0.load(Acquire) < until {
                    thread::yield_now();
                }
            }
            for (index, pair) in board.pairs.iter().enumerate() {
                let reached = pair.answer.0.load(Acquire) == until;
                assert_eq!(reached, index < active, "pair {index}, {active} active");
            }
        }
        board.state.store(ENDED, Release);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn one_cpu_is_too_few() {
        let env = Environment {
            cpus: vec![0],
            ..Environment::default()
        };
        assert!(build(&env).err().unwrap().0.contains("two CPUs"));
    }
}
