//! `progress:auto`: finds a function whose calls tell how fast an unmodified
//! program gets on.
//!
//! Samples by the software clock say where the program is and what called it;
//! breakpoints of the CPU count each candidate for some milliseconds; the best
//! ones are looked at for longer. Needs neither symbols nor a PMU.

mod call;
mod candidates;
mod clock;
mod costs;
mod found;
mod image;
mod proof;
mod search;
mod steady;
mod trial;

pub(super) use call::Call;
pub(super) use found::Found;
pub(super) use search::SHORTEST_RUN;
pub(super) use search::search;

use super::Context;
use super::error::Reason;
use crate::error::Result;
use crate::workload::Target;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;
use trial::Field;

/// How long is looked for an instruction before threads are listed again.
const LOOKED: Duration = Duration::from_millis(50);

/// Whether the target executes an instruction that begins at `offset` of `file`,
/// as far as it is seen within the trial. A probe anywhere else would break it.
///
/// # Errors
/// Those of the target; an interruption. The inner one says why it cannot be
/// known.
pub(super) fn executes(
    (file, offset): (&Path, u64),
    target: &mut Target,
    context: &Context,
) -> Result<Result<bool, Reason>> {
    let mut field = Field::default();
    let deadline = Instant::now() + context.options.trial;
    while Instant::now() < deadline {
        context.check_interrupt()?;
        // A command may end at any moment.
        target.keep_running()?;
        // Its libraries may be yet to be loaded.
        field.forget();
        field.look(&target.scope());
        match field.is_executed(file, offset, LOOKED) {
            Ok(true) => return Ok(Ok(true)),
            Ok(false) => {}
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(false))
}
