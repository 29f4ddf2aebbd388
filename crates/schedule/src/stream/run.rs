//! The stream over a reader and a writer.

use super::state::Stream;
use std::io;
use std::io::BufRead;
use std::io::Write;

/// Longer lines are refused unread: a profile takes about 60 KiB.
pub const LONGEST_LINE: usize = 4 << 20;

/// What stood on a line.
enum Line {
    Whole,
    TooLong,
}

impl Stream {
    /// Answers every line of `input` on `output` until `input` ends; each
    /// answer is flushed before the next line is read.
    ///
    /// # Errors
    ///
    /// What the reader or the writer answered.
    pub fn run(&mut self, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(line) = next_line(&mut input, &mut bytes)? {
            let answers = match (line, std::str::from_utf8(&bytes)) {
                (Line::TooLong, _) => {
                    self.refuse(&format!("longer than {LONGEST_LINE} bytes; not read"))
                }
                (Line::Whole, Ok(line)) => self.handle(line),
                (Line::Whole, Err(error)) => self.refuse(&format!(
                    "not UTF-8 text after {} bytes",
                    error.valid_up_to()
                )),
            };
            for answer in answers {
                output.write_all(answer.as_bytes())?;
                output.write_all(b"\n")?;
            }
            output.flush()?;
        }
        Ok(())
    }
}

/// The next line without its end into `bytes`, never more than
/// [`LONGEST_LINE`]; `None` at the end of `input`.
fn next_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<Option<Line>> {
    bytes.clear();
    let (mut any, mut too_long) = (false, false);
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        any |= !chunk.is_empty();
        too_long |= bytes.len() + part.len() > LONGEST_LINE;
        if !too_long {
            bytes.extend_from_slice(part);
        }
        let (last, used) = (chunk.is_empty(), end.map_or(chunk.len(), |end| end + 1));
        input.consume(used);
        if end.is_some() || last {
            return Ok(any.then_some(match too_long {
                true => Line::TooLong,
                false => Line::Whole,
            }));
        }
    }
}
