//! Tries by loom what profiler, worker and guard tell each other through shared pages, in the
//! orders that the memory model allows. It does not try to read before what comes before in
//! the program, nor every order of accesses to one atomic. Started by `scripts/loom`; a model
//! that fails panics.

mod models;
#[allow(dead_code, reason = "no model needs all of it")]
mod sys;

mod primitives {
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::AtomicBool;
    pub use loom::sync::atomic::Ordering::SeqCst;
    pub use loom::thread;
}

use std::io::Write;

fn main() {
    for (what, model) in models::MODELS {
        let mut builder = loom::model::Builder::new();
        // More than three switches between threads against their will show nothing new.
        builder.preemption_bound = Some(3);
        builder.check(model);
        writeln!(std::io::stdout(), "holds: {what}").expect("standard output is there");
    }
}
