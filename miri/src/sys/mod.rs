//! The pages of Jostle, in memory that Miri knows.

#[path = "../../../src/sys/control_page.rs"]
pub mod control_page;
#[path = "../../../src/sys/guard_page.rs"]
pub mod guard_page;
pub mod shape;
pub mod shared;
#[path = "../../../src/sys/tape.rs"]
pub mod tape;
