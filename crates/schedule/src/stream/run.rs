//! The stream over a reader and a writer.

use super::state::Stream;
use std::io;
use std::io::BufRead;
use std::io::Read;
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
    let with_end = LONGEST_LINE as u64 + 1;
    Read::take(&mut *input, with_end).read_until(b'\n', bytes)?;
    Ok(match bytes.last() {
        None => None,
        Some(b'\n') => {
            bytes.pop();
            Some(Line::Whole)
        }
        Some(_) if bytes.len() > LONGEST_LINE => {
            input.skip_until(b'\n')?;
            Some(Line::TooLong)
        }
        Some(_) => Some(Line::Whole),
    })
}
