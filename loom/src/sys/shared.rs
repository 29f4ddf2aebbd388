//! As `crates/host/src/sys/shared.rs`, for pages that are not shared with other processes.

/// # Safety
/// As in Jostle.
pub unsafe trait Shared: Sync {}
