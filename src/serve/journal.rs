//! The state of `jostle serve` in a file: every event that was accepted, with the
//! places it gave. Written before the answer is sent, so that what a scheduler
//! was told is remembered when the server is killed.

use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::regular;
use jostle_profile::regular::LONGEST_RECORDING;
use jostle_schedule::Recorded;
use jostle_schedule::Stream;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

/// The first line of the file.
const FORMAT: &str = r#"{"format":"jostle-serve/1"}"#;

/// It is rewritten when it holds so many times the events that are needed, and
/// not before it holds so many.
const GROWTH: usize = 4;
const LEAST: usize = 1024;

/// An open state file.
pub struct Journal {
    path: PathBuf,
    file: File,
    events: usize,
}

impl Journal {
    /// Brings `stream` to the state in the file at `path`, and opens it for more.
    /// Also returns what of it no longer applies.
    ///
    /// # Errors
    /// A request error that names `--state` where the file cannot be read or
    /// written, or is of another kind.
    pub fn open(path: &Path, stream: &mut Stream) -> Result<(Journal, Vec<String>)> {
        let refuse = |problem: String| {
            let shown = path.display();
            Error::request(format!("--state {shown}: {problem}"))
        };
        let dropped = match regular::read(path, LONGEST_RECORDING) {
            Ok(bytes) => replay(&bytes, stream).map_err(refuse)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(refuse(error.to_string())),
        };
        let (file, events) = rewrite(path, stream).map_err(|error| refuse(error.to_string()))?;
        let path = path.into();
        Ok((Journal { path, file, events }, dropped))
    }

    /// Adds what `stream` has just done.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn add(&mut self, recorded: &Recorded, stream: &Stream) -> io::Result<()> {
        if self.events >= LEAST && self.events >= GROWTH * (stream.jobs() + 1) {
            // Includes what is to be added.
            (self.file, self.events) = rewrite(&self.path, stream)?;
            return Ok(());
        }
        let mut line = serde_json::to_vec(recorded)?;
        line.push(b'\n');
        self.events += 1;
        self.file.write_all(&line)
    }
}

/// Replaces the file at `path` by the shortest that leads to the same state.
fn rewrite(path: &Path, stream: &Stream) -> io::Result<(File, usize)> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut text = format!("{FORMAT}\n").into_bytes();
    let told = stream.retell();
    for recorded in &told {
        serde_json::to_writer(&mut text, recorded)?;
        text.push(b'\n');
    }
    let mut file = File::create(&new)?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        // Nothing better can be done: the first error is what is reported.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok((file, told.len()))
}

fn replay(bytes: &[u8], stream: &mut Stream) -> Result<Vec<String>, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_inclusive('\n');
    match lines.next() {
        None => return Ok(Vec::new()),
        Some(line) if line.trim_end() == FORMAT => {}
        Some(_) => {
            return Err(format!(
                "is not a state file of this version (its first line is not {FORMAT})"
            ));
        }
    }
    let mut dropped = Vec::new();
    for (index, line) in lines.enumerate() {
        let number = index + 2;
        if !line.ends_with('\n') {
            dropped.push(format!("line {number} is incomplete"));
            continue;
        }
        match serde_json::from_str::<Recorded>(line) {
            Ok(recorded) => {
                let answers = stream.replay(&recorded);
                let refused = answers
                    .iter()
                    .filter(|answer| answer.contains(r#""answer":"error""#));
                dropped.extend(refused.map(|answer| format!("line {number}: {answer}")));
            }
            Err(error) => dropped.push(format!("line {number}: {error}")),
        }
    }
    Ok(dropped)
}
