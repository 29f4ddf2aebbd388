//! What profiler, worker and guard tell each other through shared pages, as short programs
//! of two threads that panic where an answer is wrong. loom tries them in the orders that
//! the memory model allows, Miri in some of them and with an eye on the memory.

use crate::primitives::Arc;
use crate::primitives::AtomicBool;
use crate::primitives::SeqCst;
use crate::primitives::thread;
use crate::primitives::thread::yield_now;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::guard_page::GuardPage;
use crate::sys::tape::Mark;
use crate::sys::tape::PlannedBlock;
use crate::sys::tape::Tape;
use crate::sys::tape::Turn;

pub type Model = fn();

pub const MODELS: [(&str, Model); 7] = [
    ("a worker plays the blocks that were planned", blocks),
    ("turns are read as they were written, or counted", turns),
    ("what was cancelled is not begun afterwards", cancelled),
    ("what was handed over last is known to be read", handed),
    ("a source that says that it rests does nothing more", parked),
    ("a reason is read whole", failed),
    ("a release is counted before it can be missed", released),
];

/// Tells blocks and turns apart in every word.
fn block(number: u64) -> PlannedBlock {
    PlannedBlock {
        source: number as usize + 1,
        order: Order::Treat(number as f64 + 1.0),
        begin_ns: number + 10,
        periods: number as u32 + 20,
        period_ns: number + 30,
        busy: number % 2 == 1,
    }
}

fn turn(number: u64) -> Turn {
    let mark = |at_ns| Mark {
        at_ns,
        operations: number,
        busy_ns: number,
    };
    Turn {
        block: number,
        position: number as u32,
        begin: mark(number),
        end: mark(number),
        operations: number,
        active_ns: number,
        held: number,
    }
}

fn blocks() {
    const ALL: u64 = 3;
    let tape = Arc::new(Tape::default());
    let of_worker = tape.clone();
    let worker = thread::spawn(move || {
        let mut played = 0;
        while played < ALL {
            match of_worker.next() {
                Some((number, found)) => {
                    assert_eq!((number, found), (played, block(played)));
                    of_worker.done();
                    played += 1;
                }
                None => yield_now(),
            }
        }
    });
    for number in 0..ALL {
        while tape.plan(block(number)).is_none() {
            yield_now();
        }
    }
    worker.join().unwrap();
    assert!(tape.is_over());
}

fn turns() {
    const ALL: u64 = 3;
    let tape = Arc::new(Tape::default());
    let of_worker = tape.clone();
    let worker = thread::spawn(move || (1..=ALL).for_each(|number| of_worker.write(turn(number))));
    let mut last = 0;
    let mut see = |tape: &Tape| {
        let found = tape.take();
        for found in &found {
            assert!(found.block > last);
            last = found.block;
            assert_eq!(*found, turn(last));
        }
        found.len() as u64
    };
    let mut all = 0;
    while all + tape.lost() < ALL {
        match see(&tape) {
            0 => yield_now(),
            found => all += found,
        }
    }
    worker.join().unwrap();
    assert_eq!((see(&tape), all + tape.lost()), (0, ALL));
}

fn cancelled() {
    let tape = Arc::new(Tape::default());
    let stopped = Arc::new(AtomicBool::new(false));
    let (of_worker, seen) = (tape.clone(), stopped.clone());
    let worker = thread::spawn(move || {
        let stopped = seen.load(SeqCst);
        if let Some((number, _)) = of_worker.next() {
            // Whoever knows of the order to stop also knows what it is about.
            assert!(!stopped || of_worker.is_cancelled(number));
        }
    });
    tape.plan(block(0)).unwrap();
    tape.cancel();
    stopped.store(true, SeqCst);
    worker.join().unwrap();
}

fn handed() {
    let tape = Arc::new(Tape::default());
    let of_worker = tape.clone();
    let worker = thread::spawn(move || {
        let mut taken = 0;
        while taken < 2 {
            match of_worker.handed() {
                call if call > taken => {
                    // Of the first one not all can be read.
                    of_worker.taken(call, call == 2);
                    taken = call;
                }
                _ => yield_now(),
            }
        }
    });
    tape.hand(1);
    if let Some(all) = tape.sees() {
        assert!(!all);
    }
    tape.hand(2);
    loop {
        match tape.sees() {
            Some(all) => break assert!(all),
            None => yield_now(),
        }
    }
    worker.join().unwrap();
}

fn parked() {
    let page = Arc::new(ControlPage::default());
    let of_worker = page.clone();
    let park = Command::new(Order::Park, 2);
    let worker = thread::spawn(move || {
        loop {
            let command = of_worker.command.get();
            if command.order().intensity().is_some() {
                of_worker.operations.add(1);
            }
            of_worker.applied.set(command);
            if command == park {
                break;
            }
            yield_now();
        }
    });
    let treat = Command::new(Order::Treat(50.0), 1);
    page.command.set(treat);
    if page.applied.get() == treat {
        assert!(page.operations.get() > 0);
    }
    page.command.set(park);
    while page.applied.get() != park {
        yield_now();
    }
    let done = page.operations.get();
    worker.join().unwrap();
    assert_eq!(page.operations.get(), done);
}

fn failed() {
    let page = Arc::new(ControlPage::default());
    let of_worker = page.clone();
    let worker = thread::spawn(move || of_worker.fail("why"));
    if let Some(reason) = page.failure() {
        assert_eq!(reason, "why");
    }
    worker.join().unwrap();
    assert_eq!(page.failure().as_deref(), Some("why"));
}

fn released() {
    let page = Arc::new(GuardPage::default());
    let held = Arc::new(AtomicBool::new(false));
    let (of_guard, of_target) = (page.clone(), held.clone());
    let guard = thread::spawn(move || {
        let released = of_guard.release(|| {
            of_target.store(false, SeqCst);
            Ok(())
        });
        released.unwrap();
    });
    let releases = || loop {
        match page.releases() {
            Some(count) => break count,
            None => yield_now(),
        }
    };
    let before = releases();
    held.store(true, SeqCst);
    if !held.load(SeqCst) {
        assert_ne!(releases(), before, "the target runs, and nobody let it go");
    }
    guard.join().unwrap();
}
