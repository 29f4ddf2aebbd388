//! Transfers by threads that block in pread and pwrite.

use super::request::Ended;
use super::request::Engine;
use super::request::Request;
use crate::Buffer;
use crate::Failure;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// As many threads as slots. They end with this value.
pub struct Threads {
    requests: mpsc::Sender<(usize, Request)>,
    ended: mpsc::Receiver<Ended>,
}

impl Threads {
    /// More threads than this cost more in switches than they add in requests.
    pub const MOST: usize = 32;

    /// `count` threads, each with `stride` bytes of memory.
    pub fn start(file: File, count: usize, stride: usize) -> Result<Threads, Failure> {
        let file = Arc::new(file);
        let (requests, queue) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..count {
            let mut buffer = Buffer::resident(stride)?;
            let (file, queue, done) = (file.clone(), queue.clone(), done.clone());
            thread::Builder::new()
                .name("jostle-disk".into())
                .spawn(move || serve(&file, &queue, &done, buffer.bytes_mut()))
                .map_err(|error| Failure::new(format!("cannot start an I/O thread: {error}")))?;
        }
        Ok(Threads { requests, ended })
    }
}

fn serve(
    file: &File,
    queue: &Mutex<mpsc::Receiver<(usize, Request)>>,
    done: &mpsc::Sender<Ended>,
    memory: &mut [u8],
) {
    loop {
        let next = queue.lock().expect("no holder panics").recv();
        let Ok((slot, request)) = next else { return };
        let memory = &mut memory[..request.bytes as usize];
        let moved = match request.write {
            true => file.write_at(memory, request.offset),
            false => file.read_at(memory, request.offset),
        };
        if done.send((slot, moved)).is_err() {
            return;
        }
    }
}

impl Engine for Threads {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        self.requests
            .send((slot, request))
            .map_err(|_| io::Error::other("the I/O threads ended"))
    }

    fn wait(&mut self, least: usize, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        let deadline = Instant::now() + most;
        while ended.len() < least {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.ended.recv_timeout(left) {
                Ok(one) => ended.push(one),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the I/O threads ended"));
                }
            }
        }
        ended.extend(self.ended.try_iter());
        Ok(())
    }
}
