//! Commands that read and write files: no test here loads the machine to measure something,
//! and all may run at a time. In one program, since each takes seconds to link.

mod classify;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod console;
mod fleet;
mod golden;
mod loads;
mod machine;
mod packaging;
mod pairs_file;
mod peers;
mod place_for_real;
mod predict;
mod profile_file;
mod profiles;
mod provision;
mod report;
mod schedule;
mod show;
mod simulate;
mod soak;
