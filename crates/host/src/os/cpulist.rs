//! Files that hold a CPU list: `0-2,5`.

use super::Error;
use super::ParseError;
use super::text;
use std::path::Path;

/// The CPUs that `path` below `root` lists, ascending.
pub fn read(root: &Path, path: impl AsRef<Path>) -> Result<Vec<usize>, Error> {
    text::parse(root, path, parse)
}

/// The CPUs of a list.
pub fn parse(list: &str) -> Result<Vec<usize>, ParseError> {
    jostle_profile::cpulist::parse_list(list)
        .map_err(|problem| ParseError::Other(problem.to_string()))
}

/// CPUs that are online.
pub fn online(root: &Path) -> Result<Vec<usize>, Error> {
    read(root, "sys/devices/system/cpu/online")
}
