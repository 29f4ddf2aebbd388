//! What a target prints, kept out of what we print.

use jostle_host::sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::io::Read;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

/// Receives a target's standard output as it arrives, any bytes.
pub trait OutputSink: Send + Sync {
    /// `bytes` arrived at CLOCK_MONOTONIC `at_ns`. Must be quick: the target
    /// waits when its pipe is full.
    fn chunk(&self, bytes: &[u8], at_ns: u64);
}

/// The last few KiB of a stream.
#[derive(Clone, Default)]
pub(super) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl Tail {
    const CAPACITY: usize = 4096;

    /// What is kept, control characters escaped.
    pub(super) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = bytes.iter().copied().collect();
        printable(&bytes)
    }

    pub(super) fn clear(&self) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.clear();
    }
}

impl OutputSink for Tail {
    fn chunk(&self, chunk: &[u8], _at_ns: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(&chunk[chunk.len().saturating_sub(Self::CAPACITY)..]);
        let excess = bytes.len().saturating_sub(Self::CAPACITY);
        bytes.drain(..excess);
    }
}

/// Passes whole lines on, so that several streams can share a sink.
pub(super) struct WholeLines {
    sink: Arc<dyn OutputSink>,
    begun: Mutex<Vec<u8>>,
}

impl WholeLines {
    /// A line longer than this is passed on in parts.
    const LONGEST: usize = 64 * 1024;

    pub(super) fn new(sink: Arc<dyn OutputSink>) -> WholeLines {
        WholeLines {
            sink,
            begun: Mutex::default(),
        }
    }
}

impl OutputSink for WholeLines {
    fn chunk(&self, chunk: &[u8], at_ns: u64) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.extend(chunk);
        let ends = |&byte: &u8| byte == b'\n' || byte == b'\r';
        let whole = match begun.iter().rposition(ends) {
            Some(last) => last + 1,
            None if begun.len() > Self::LONGEST => begun.len(),
            None => return,
        };
        self.sink.chunk(&begun[..whole], at_ns);
        begun.drain(..whole);
    }
}

/// What was written to standard error last, behind an error; nothing when it
/// was blank.
pub(super) fn last_words(text: &str) -> String {
    match text.trim().is_empty() {
        true => String::new(),
        false => format!("; its last words on standard error:\n{}", text.trim_end()),
    }
}

/// Text fit for a terminal: everything but newlines, tabs and printable
/// characters is escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .flat_map(|character| {
            let keep = matches!(character, '\n' | '\t') || !character.is_control();
            let escaped = (!keep).then(|| character.escape_default());
            keep.then_some(character)
                .into_iter()
                .chain(escaped.into_iter().flatten())
        })
        .collect()
}

/// A target that prints more often is read so often: each read wakes this process up, on a
/// CPU that may be a neighbour's.
const PAUSE: Duration = Duration::from_millis(2);

/// Whoever prints more than this in a pause is read at once. A pipe takes 64 KiB before
/// its writer waits.
const MUCH: usize = 4096;

/// Feeds `stream` to `sink` from a thread of its own until the end of file;
/// `show` copies it to our standard error too.
///
/// Whoever joins the thread must know that nobody holds the stream any more: a
/// descendant may keep it open. The thread costs nothing while it waits.
pub(super) fn drain(
    mut stream: impl Read + Send + 'static,
    sink: Arc<dyn OutputSink>,
    show: bool,
) -> std::io::Result<JoinHandle<()>> {
    let reader = std::thread::Builder::new().name("target-output".into());
    reader.spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        let mut last = None;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    sink.chunk(&buffer[..length], monotonic_ns());
                    if show {
                        let _ = std::io::stderr().write_all(&buffer[..length]);
                    }
                    let now = Instant::now();
                    let soon = last.replace(now).is_some_and(|last| now - last < PAUSE);
                    if soon && length <= MUCH {
                        std::thread::sleep(PAUSE);
                        last = Some(Instant::now());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_streams_do_not_mix() {
        let tail = Tail::default();
        let streams = [(); 2].map(|()| WholeLines::new(Arc::new(tail.clone())));
        streams[0].chunk(b"n=1", 0);
        streams[1].chunk(b"m=2\nm=", 0);
        streams[0].chunk(b"0\n", 0);
        streams[1].chunk(b"3\n", 0);
        assert_eq!(tail.text(), "m=2\nn=10\nm=3\n");
        streams[0].chunk(&vec![b'x'; 100_000], 0);
        assert_eq!(tail.text().len(), Tail::CAPACITY);
    }

    /// What was read, and in how many reads.
    #[derive(Default)]
    struct Reads(Mutex<(usize, usize)>);

    impl OutputSink for Reads {
        fn chunk(&self, chunk: &[u8], _at_ns: u64) {
            let mut all = self.0.lock().unwrap();
            (all.0, all.1) = (all.0 + chunk.len(), all.1 + 1);
        }
    }

    #[test]
    fn who_prints_often_is_not_read_line_by_line_and_who_prints_much_never_waits() {
        let piped = |piece: usize, pieces: usize, rest: Duration| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let reads = Arc::new(Reads::default());
            let thread = drain(reader, reads.clone(), false).unwrap();
            let begin = Instant::now();
            for _ in 0..pieces {
                writer.write_all(&vec![b'x'; piece]).unwrap();
                std::thread::sleep(rest);
            }
            let took = begin.elapsed();
            drop(writer);
            thread.join().unwrap();
            let (bytes, reads) = *reads.0.lock().unwrap();
            assert_eq!(bytes, piece * pieces);
            (reads, took)
        };
        let (reads, _) = piped(10, 500, Duration::from_micros(200));
        assert!(reads <= 150, "{reads} reads of 500 lines");
        // 128 MiB; 4 s if the reader paused after each 64 KiB.
        let (_, took) = piped(64 << 10, 2 << 10, Duration::ZERO);
        assert!(took < Duration::from_secs(3), "{took:?}");
    }

    #[test]
    fn the_tail_is_bounded_and_printable() {
        let tail = Tail::default();
        for _ in 0..10_000 {
            tail.chunk(b"abc\x1b[31m\xff\n", 0);
        }
        tail.chunk(&vec![b'x'; 100_000], 0);
        assert_eq!(tail.text().len(), Tail::CAPACITY);
        tail.clear();
        tail.chunk(b"a\x1b\tb\n", 0);
        assert_eq!(tail.text(), "a\\u{1b}\tb\n");
    }
}
