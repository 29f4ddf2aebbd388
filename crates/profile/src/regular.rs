//! Reading files that a person named: never longer than a file can reasonably be, and
//! never what has no end.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

/// Longest document that is read: a profile, nodes, a scenario ... Bytes.
pub const LONGEST_DOCUMENT: u64 = 64 << 20;
/// Longest recording that is read: a trace, windows of an agent. Bytes.
pub const LONGEST_RECORDING: u64 = 1 << 30;

/// The regular file at `path`, to be read.
///
/// # Errors
/// What the system answers, and [`io::ErrorKind::InvalidInput`] for a directory, a
/// pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Before opening, which would wait for the other end of a pipe.
    let before = fs::metadata(path)?;
    if before.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let file = match before.is_file() {
        true => File::open(path)?,
        false => return Err(not_regular()),
    };
    // Somebody may have put another there meanwhile.
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

/// The bytes of the regular file at `path`.
///
/// # Errors
/// Those of [`open`], and [`io::ErrorKind::InvalidInput`] for more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Beyond its length too: files of the kernel say that they have none.
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        false => Ok(bytes),
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("longer than {} MiB, far more than it takes", most >> 20),
        )),
    }
}

/// The same of a text.
///
/// # Errors
/// Those of [`read`], and [`io::ErrorKind::InvalidData`] where it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path, most)?).map_err(invalid)
}

fn not_regular() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "not a regular file but a pipe, a socket or a device; write it to a file first",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "12345678").unwrap();
        assert_eq!(read_text(&path, 8).unwrap(), "12345678");
        let long = read(&path, 7).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
        fs::write(&path, [0xff, 0xfe]).unwrap();
        let binary = read_text(&path, 8).unwrap_err();
        assert_eq!(binary.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_has_no_end_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let error = read(path, 8).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let error = read(directory.path(), 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
