//! The pages that Jostle's processes share, for Miri: the tests that stand beside them, and
//! the models of `loom/` with threads of the standard library. Started by `scripts/miri`.

#[allow(dead_code, reason = "no test needs all of it")]
pub mod sys;

#[cfg(test)]
#[path = "../../loom/src/models.rs"]
mod models;

#[cfg(test)]
mod primitives {
    pub use std::sync::Arc;
    pub use std::sync::atomic::AtomicBool;
    pub use std::sync::atomic::Ordering::SeqCst;
    pub use std::thread;
}

#[cfg(test)]
mod tests {
    use super::models::MODELS;

    #[test]
    fn the_models_hold() {
        for (_, model) in MODELS {
            model();
        }
    }
}
