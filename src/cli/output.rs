//! Writing results to stdout without a panic when the reader has gone.

use crate::error::Error;
use crate::error::Result;
use serde::Serialize;
use std::io;
use std::io::Write;

/// Prints `text` as it is.
///
/// # Errors
///
/// When stdout cannot be written. A closed pipe (`jostle show … | head`) is not
/// an error: the reader had enough.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::environment(
            format!("cannot write to stdout: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints one pretty JSON document and a newline.
///
/// # Errors
///
/// As [`text`], and when `value` has no JSON form.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut document = serde_json::to_string_pretty(value)
        .map_err(|error| Error::environment(format!("cannot write the result as JSON: {error}")))?;
    document.push('\n');
    text(&document)
}
