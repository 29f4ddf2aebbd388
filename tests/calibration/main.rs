//! Calibration: what is measured on made-up sources and planted knees, what is
//! kept, and what happens to files that must not be used.

#[path = "../common/mod.rs"]
mod common;

mod command;
mod file;
mod measuring;

use std::fs;
use std::path::Path;

/// Stands in the fixture for the machine.
const FINGERPRINT: &str = "0123456789abcdef";

/// A machine file as this version writes it.
fn fixture() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("tests/fixtures/machine.json")).unwrap()
}
