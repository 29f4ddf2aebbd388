//! Publishes a program's progress in the file of 64 bytes that `JOSTLE_PROGRESS`
//! names, for `jostle profile`. The format is described in `docs/progress.md`.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

/// In the environment: the file.
pub const VARIABLE: &str = "JOSTLE_PROGRESS";
/// Bytes of the page.
const BYTES: u64 = 64;
/// `JOSTLEPG` read as a big-endian number, and the version of the format.
const MAGIC: u64 = 0x4a4f_5354_4c45_5047;
const VERSION: u64 = 1;
/// Where the version and the count stand.
const VERSION_AT: u64 = 8;
const OPERATIONS_AT: u64 = 16;

/// Counts operations. One per process: several processes that use the same file
/// would overwrite each other's counts.
#[derive(Debug, Default)]
pub struct Progress {
    /// The file and what was published last.
    page: Option<Mutex<(File, u64)>>,
}

impl Progress {
    /// Opens the file that `JOSTLE_PROGRESS` names. Without the variable, or when
    /// the file cannot be used, [`Progress::add`] does nothing.
    pub fn open() -> Progress {
        let name = std::env::var_os(VARIABLE);
        let opened = name.and_then(|name| Progress::in_file(name).ok());
        opened.unwrap_or_default()
    }

    /// Publishes in `file`, which is created where it does not exist. Counting
    /// goes on from what stands there.
    ///
    /// # Errors
    /// When the file cannot be opened, made 64 bytes long, or written.
    pub fn in_file(file: impl AsRef<Path>) -> io::Result<Progress> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(file)?;
        if file.metadata()?.len() < BYTES {
            file.set_len(BYTES)?;
        }
        let mut count = [0; 8];
        file.read_exact_at(&mut count, OPERATIONS_AT)?;
        file.write_all_at(&VERSION.to_ne_bytes(), VERSION_AT)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)?;
        let page = Mutex::new((file, u64::from_ne_bytes(count)));
        Ok(Progress { page: Some(page) })
    }

    /// Adds `operations` to the count. This is a system call: call it once per
    /// batch where operations are short.
    pub fn add(&self, operations: u64) {
        if let Some(page) = &self.page {
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            page.1 = page.1.wrapping_add(operations);
            let (file, count) = &*page;
            // A page that can no longer be written is the reader's to notice.
            let _ = file.write_all_at(&count.to_ne_bytes(), OPERATIONS_AT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_published_and_go_on() {
        let name = format!("jostle-progress-test-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let word = |index: usize| {
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes.len(), 64);
            u64::from_ne_bytes(bytes[index * 8..][..8].try_into().unwrap())
        };
        let progress = Progress::in_file(&path).unwrap();
        progress.add(5);
        progress.add(2);
        assert_eq!([word(0), word(1), word(2), word(4)], [MAGIC, 1, 7, 0]);
        Progress::in_file(&path).unwrap().add(3);
        assert_eq!(word(2), 10);
        std::fs::remove_file(&path).unwrap();
        assert!(Progress::in_file("/nonexistent/page").is_err());
        // Without a file nothing happens.
        Progress::default().add(1);
    }
}
