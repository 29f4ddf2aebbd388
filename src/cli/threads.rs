//! Threads for what is computed in parallel.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::sync::OnceLock;

/// Starts them, once for all that follows: the first parallel loop would end the program
/// where there is no memory for them.
///
/// # Errors
/// An environment error that says why there are none.
pub fn ready() -> Result<()> {
    static FAILED: OnceLock<Option<String>> = OnceLock::new();
    let failed = FAILED.get_or_init(|| {
        let built = rayon::ThreadPoolBuilder::new().build_global();
        built.err().map(|error| error.to_string())
    });
    match failed {
        None => Ok(()),
        Some(problem) => Err(Error::environment(format!(
            "cannot start threads: {problem}"
        ))),
    }
}
