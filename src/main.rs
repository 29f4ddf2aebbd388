//! Parse, dispatch, print the error, exit. Nothing else.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match jostle::cli::Cli::asked().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            jostle_measure::console::write(format_args!("jostle: {error}\n"));
            ExitCode::from(error.exit_code())
        }
    }
}
