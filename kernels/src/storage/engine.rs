//! Requests in flight between memory and the scratch file.

use super::request::Ended;
use super::request::Engine;
use super::request::Request;
use super::scratch::Scratch;
use super::threads::Threads;
use super::uring::Uring;
use crate::Failure;
use std::fs::File;
use std::time::Duration;

/// A bounded number of requests in flight.
pub struct Queue {
    engine: Box<dyn Engine>,
    /// Which engine, and why not the better one. One line.
    pub note: String,
    slots: Vec<Request>,
    free: Vec<usize>,
    ended: Vec<Ended>,
}

/// Longest wait for a device before the caller is heard of again.
const PATIENCE: Duration = Duration::from_millis(100);

impl Queue {
    /// A queue for up to `depth` requests of up to `bytes` each: by io_uring,
    /// or by threads where that is refused.
    pub fn start(scratch: &Scratch, depth: usize, bytes: usize) -> Result<Queue, Failure> {
        let stride = bytes.next_multiple_of(scratch.alignment.memory as usize);
        let file = || own(&scratch.file);
        match Uring::start(file()?, depth, stride) {
            Ok((engine, note)) => Ok(Queue::new(Box::new(engine), depth, note)),
            Err(refused) => Queue::of_threads(file()?, depth, stride, &refused),
        }
    }

    /// The same by threads; `refused` is why io_uring is not used.
    fn of_threads(
        file: File,
        depth: usize,
        stride: usize,
        refused: &str,
    ) -> Result<Queue, Failure> {
        let depth = depth.min(Threads::MOST);
        let engine = Threads::start(file, depth, stride)?;
        let note = format!("pread and pwrite in {depth} threads, because {refused}");
        Ok(Queue::new(Box::new(engine), depth, note))
    }

    fn new(engine: Box<dyn Engine>, depth: usize, note: String) -> Queue {
        Queue {
            engine,
            note,
            slots: vec![Request::default(); depth],
            free: (0..depth).collect(),
            ended: Vec::with_capacity(depth),
        }
    }

    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes `request`; there must be room. It starts with the next wait.
    pub fn push(&mut self, request: Request) -> Result<(), Failure> {
        let slot = self.free.pop().expect("the caller looked for room");
        self.slots[slot] = request;
        self.engine
            .submit(slot, request)
            .map_err(|error| Failure::new(format!("handing over an I/O request: {error}")))
    }

    /// Waits for `least` requests (at most as many as are in flight), no longer
    /// than `most`, and hands each that has ended to `seen`.
    ///
    /// # Errors
    /// When a transfer failed or fell short.
    pub fn wait(
        &mut self,
        least: usize,
        most: Duration,
        mut seen: impl FnMut(Request),
    ) -> Result<(), Failure> {
        let least = least.min(self.in_flight());
        if least == 0 {
            return Ok(());
        }
        self.engine
            .wait(least, most, &mut self.ended)
            .map_err(|error| Failure::new(format!("waiting for the disk: {error}")))?;
        for (slot, moved) in self.ended.drain(..) {
            let request = self.slots[slot];
            self.free.push(slot);
            let what = if request.write { "writing" } else { "reading" };
            let problem = match moved {
                Ok(bytes) if bytes == request.bytes as usize => {
                    seen(request);
                    continue;
                }
                Ok(bytes) => format!(" moved {bytes} of {} bytes", request.bytes),
                Err(error) => format!(": {error}"),
            };
            return Err(Failure::new(format!("{what} the scratch file{problem}")));
        }
        Ok(())
    }

    /// Waits for an eighth of the requests in flight, at least one, so that a
    /// deep queue stays deep and costs few system calls; and only so long that
    /// the caller shows signs of life.
    pub fn wait_for_some(&mut self, seen: impl FnMut(Request)) -> Result<(), Failure> {
        self.wait((self.in_flight() / 8).max(1), PATIENCE, seen)
    }

    /// Waits for all that is in flight, unless the disk fails or hangs.
    pub fn drain(&mut self) {
        while let before @ 1.. = self.in_flight() {
            let waited = self.wait(before, PATIENCE, |_| ());
            if waited.is_err() || self.in_flight() == before {
                return;
            }
        }
    }
}

impl Drop for Queue {
    /// No transfer may still be under way into memory that is given back.
    fn drop(&mut self) {
        self.drain();
    }
}

/// A second descriptor of the same open file.
fn own(file: &File) -> Result<File, Failure> {
    file.try_clone()
        .map_err(|error| Failure::new(format!("a descriptor for the scratch file: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::place;
    use super::*;
    use std::os::unix::fs::FileExt;

    fn both(scratch: &Scratch) -> Vec<Queue> {
        let threads = Queue::of_threads(own(&scratch.file).unwrap(), 4, 8192, "a test says so");
        let best = Queue::start(scratch, 4, 8192).unwrap();
        let fallen_back = best.note.contains("threads").then_some(&best.note);
        crate::skip::lacks("io-uring", fallen_back);
        vec![best, threads.expect("four threads can be had")]
    }

    #[test]
    fn every_request_ends_once_and_carries_its_bytes() {
        let Some(here) = place() else {
            return;
        };
        let scratch = Scratch::create(here.path(), 1 << 20).unwrap();
        for mut queue in both(&scratch) {
            println!("{}", queue.note);
            let mut ended = Vec::new();
            for number in 0..100u64 {
                while !queue.has_room() {
                    queue.wait_for_some(|request| ended.push(request)).unwrap();
                }
                queue
                    .push(Request {
                        offset: number * 8192 % scratch.bytes,
                        bytes: 8192,
                        write: number % 4 == 3,
                    })
                    .unwrap();
            }
            while queue.in_flight() > 0 {
                queue.wait_for_some(|request| ended.push(request)).unwrap();
            }
            assert_eq!(ended.len(), 100);
            assert_eq!(ended.iter().filter(|request| request.write).count(), 25);
        }
    }

    #[test]
    fn bytes_arrive_where_the_request_says() {
        let Some(here) = place() else {
            return;
        };
        let scratch = Scratch::create(here.path(), 1 << 20).unwrap();
        let mut buffer = crate::Buffer::resident(16384).unwrap();
        let threads = Queue::of_threads(own(&scratch.file).unwrap(), 1, 8192, "a test says so");
        // With one slot, what is written is what was read before.
        for mut queue in [Queue::start(&scratch, 1, 8192).unwrap(), threads.unwrap()] {
            scratch
                .file
                .write_all_at(&buffer.bytes_mut()[..8192], 8192)
                .unwrap();
            for (offset, write) in [(0, false), (8192, true)] {
                queue
                    .push(Request {
                        offset,
                        bytes: 8192,
                        write,
                    })
                    .unwrap();
                while queue.in_flight() > 0 {
                    queue.wait_for_some(|_| ()).unwrap();
                }
            }
            let bytes = &mut buffer.bytes_mut()[..16384];
            scratch.file.read_exact_at(bytes, 0).unwrap();
            assert_eq!(bytes[..8192], bytes[8192..]);
            assert!(bytes.iter().any(|byte| *byte != 0));
            bytes.fill(0);
        }
    }

    #[test]
    fn a_short_or_failed_transfer_is_a_reason() {
        let Some(here) = place() else {
            return;
        };
        let scratch = Scratch::create(here.path(), 1 << 20).unwrap();
        for mut queue in both(&scratch) {
            let beyond = Request {
                offset: 1 << 20,
                bytes: 8192,
                write: false,
            };
            queue.push(beyond).unwrap();
            let Failure(reason) = queue.wait_for_some(|_| ()).unwrap_err();
            assert!(reason.contains("0 of 8192"), "{reason}");
            let odd = Request {
                offset: 1,
                ..beyond
            };
            queue.push(odd).unwrap();
            let Failure(reason) = queue.wait_for_some(|_| ()).unwrap_err();
            assert!(reason.contains("Invalid argument"), "{reason}");
        }
    }
}
