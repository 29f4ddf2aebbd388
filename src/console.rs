//! Standard error: progress, warnings and the error a command ends with. What
//! cannot be written is dropped: a closed or full standard error is no reason
//! for a measurement to end.

use std::fmt::Arguments;
use std::io::Write;

/// Writes `text` in one piece, as far as standard error takes it.
pub fn write(text: Arguments) {
    let _ = std::io::stderr()
        .lock()
        .write_all(text.to_string().as_bytes());
}

/// A line on standard error, formatted as by `format!`.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::console::write(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// A line on standard error that starts with `jostle: warning: `.
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::console::note!("jostle: warning: {}", format_args!($($text)*))
    };
}

pub(crate) use note;
pub(crate) use warning;
