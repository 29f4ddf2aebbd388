//! Reading the kernel's small text files below a root, so that tests can put a
//! made-up tree in its place. Errors name the path as the kernel knows it.

use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The trimmed text of `<root>/<path>`.
///
/// # Errors
/// A message naming the path and what the kernel said.
pub(super) fn text(root: &Path, path: &str) -> Result<String, String> {
    fs::read_to_string(root.join(path))
        .map(|text| text.trim().to_string())
        .map_err(|error| format!("/{path}: {error}"))
}

/// The number that is all of `<root>/<path>`.
///
/// # Errors
/// A message naming the path, and the text that is not a number.
pub(super) fn number<T: FromStr>(root: &Path, path: &str) -> Result<T, String> {
    let text = text(root, path)?;
    text.parse()
        .map_err(|_| format!("/{path}: '{text}' is not a number"))
}

/// Whether `<root>/<path>` exists.
pub(super) fn exists(root: &Path, path: &str) -> bool {
    root.join(path).exists()
}

/// Names in the directory `<root>/<path>`, sorted.
///
/// # Errors
/// A message naming the directory and what the kernel said.
pub(super) fn names(root: &Path, path: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(root.join(path)).map_err(|error| format!("/{path}: {error}"))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// Numbers N for which the directory holds a `<prefix>N`, ascending; empty
/// when the directory cannot be read.
pub(super) fn numbered(root: &Path, path: &str, prefix: &str) -> Vec<usize> {
    let mut numbers: Vec<usize> = names(root, path)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The value of `key: value kB` in a meminfo file's text, in bytes.
///
/// # Errors
/// A message naming the key.
pub(super) fn meminfo_bytes(text: &str, key: &str) -> Result<u64, String> {
    let problem = || format!("no readable {key}");
    let line = text
        .lines()
        .find_map(|line| line.split_once(key)?.1.strip_prefix(':'))
        .ok_or_else(problem)?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|kib| kib.checked_mul(1024))
        .ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_of_machine_and_node() {
        let machine = "MemTotal:       24684096 kB\nMemFree: 1 kB\n";
        assert_eq!(
            meminfo_bytes(machine, "MemTotal").unwrap(),
            24_684_096 * 1024
        );
        let node = "Node 0 MemTotal:       15952088 kB";
        assert_eq!(meminfo_bytes(node, "MemTotal").unwrap(), 15_952_088 * 1024);
        assert!(meminfo_bytes(machine, "MemAvailable").is_err());
        assert!(meminfo_bytes("MemTotal: lots kB", "MemTotal").is_err());
        assert!(meminfo_bytes("MemTotal: 18446744073709551615 kB", "MemTotal").is_err());
    }
}
