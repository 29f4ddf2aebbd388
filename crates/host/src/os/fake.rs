//! Made-up trees of files, for tests.

use std::fs;

/// Writes `files`, path and text, below a temporary root.
///
/// # Panics
/// Where that cannot be done.
pub fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}
