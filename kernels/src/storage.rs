//! `storage-bandwidth`: sequential reads that bypass the page cache.

use crate::Environment;
use crate::Failure;
use crate::Intensity;
use crate::Kernel;
use crate::KernelSpec;
use crate::Waiting;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;

/// One request.
pub const REQUEST: usize = 256 << 10;
/// Requests kept in flight.
const DEPTH: usize = 4;
/// Largest alignment any device here is known to ask for.
const ALIGNMENT: usize = 4096;

pub const SPEC: KernelSpec = KernelSpec {
    resource: "storage-bandwidth",
    intensity: Intensity::Rate,
    waiting: Waiting::Sleep,
    operation: "direct read of 256 KiB",
    units_per_operation: REQUEST as u64,
    operations_per_call: 1,
    pause_ns: 0,
    spans_cpus: false,
    doc: "Reads an unlinked scratch file in order, 256 KiB at a time, four requests in flight, \
          with O_DIRECT so that the page cache neither helps nor suffers. The rate is held at \
          x % of the peak measured at the start. Between requests the worker sleeps. It presses \
          on the device that holds the scratch directory and on no other; it does not show what \
          writes or random access would cost.",
    build,
};

/// Memory aligned for direct I/O.
struct Block {
    base: *mut u8,
}

// SAFETY: the block owns its memory and is used by one thread at a time.
unsafe impl Send for Block {}

impl Block {
    fn layout() -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(REQUEST, ALIGNMENT).expect("a valid constant layout")
    }

    fn new() -> Self {
        // SAFETY: the layout has a size above zero.
        let base = unsafe { std::alloc::alloc_zeroed(Self::layout()) };
        if base.is_null() {
            std::alloc::handle_alloc_error(Self::layout());
        }
        Block { base }
    }

    /// One transfer of [`REQUEST`] bytes at `offset`; the bytes moved.
    fn transfer(&mut self, file: &File, offset: u64, write: bool) -> io::Result<usize> {
        // SAFETY: `base` holds REQUEST bytes that nobody else uses while
        // `&mut self` is held; the descriptor is open as long as `file`.
        let moved = unsafe {
            if write {
                libc::pwrite(file.as_raw_fd(), self.base.cast(), REQUEST, offset as i64)
            } else {
                libc::pread(file.as_raw_fd(), self.base.cast(), REQUEST, offset as i64)
            }
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { std::alloc::dealloc(self.base, Self::layout()) }
    }
}

/// An unlinked file of `bytes` (a multiple of [`REQUEST`]) in `directory`, open
/// for direct I/O and filled with data that does not compress to nothing.
///
/// # Errors
/// In words, naming the directory: it is not writable, is full, or its file
/// system has no O_DIRECT (as tmpfs in older kernels).
fn scratch_file(directory: &Path, bytes: u64) -> Result<File, Failure> {
    let refuse = |what: &str, error: io::Error| {
        Failure::new(format!(
            "scratch directory {}: {what}: {error}",
            directory.display()
        ))
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE | libc::O_DIRECT)
        .mode(0o600)
        .open(directory)
        .or_else(|_| create_and_unlink(directory))
        .map_err(|error| refuse("cannot create a file for direct I/O", error))?;
    let mut block = Block::new();
    let mut state = crate::weyl::GOLDEN;
    for offset in (0..bytes).step_by(REQUEST) {
        for word in 0..REQUEST / 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // SAFETY: in range of the block, aligned to 8.
            unsafe { block.base.cast::<u64>().add(word).write(state) };
        }
        match block.transfer(&file, offset, true) {
            Ok(REQUEST) => {}
            Ok(short) => {
                return Err(refuse(
                    "no space for the scratch file",
                    io::Error::other(format!("only {} bytes fit", offset + short as u64)),
                ));
            }
            Err(error) => return Err(refuse("cannot write the scratch file", error)),
        }
    }
    Ok(file)
}

/// For file systems without O_TMPFILE: the name exists only for an instant.
fn create_and_unlink(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".jostle-scratch-{}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

struct Storage {
    requests: mpsc::Sender<u64>,
    answers: mpsc::Receiver<io::Result<usize>>,
    in_flight: usize,
    bytes: u64,
    at: u64,
}

fn build(env: &Environment) -> Result<Box<dyn Kernel>, Failure> {
    let Some(directory) = &env.scratch_directory else {
        return Err(Failure::new(
            "no scratch directory on a block device was found",
        ));
    };
    let bytes = env.scratch_bytes / REQUEST as u64 * REQUEST as u64;
    if bytes < (DEPTH * REQUEST) as u64 {
        return Err(Failure::new(format!(
            "a scratch file of {} bytes is too small; 1 MiB is the least",
            env.scratch_bytes
        )));
    }
    let file = Arc::new(scratch_file(directory, bytes)?);
    let (requests, queue) = mpsc::channel::<u64>();
    let (done, answers) = mpsc::channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..DEPTH {
        let (file, queue, done) = (file.clone(), queue.clone(), done.clone());
        thread::spawn(move || {
            let mut block = Block::new();
            loop {
                let request = queue.lock().expect("no holder panics").recv();
                let Ok(offset) = request else { return };
                if done.send(block.transfer(&file, offset, false)).is_err() {
                    return;
                }
            }
        });
    }
    Ok(Box::new(Storage {
        requests,
        answers,
        in_flight: 0,
        bytes,
        at: 0,
    }))
}

impl Kernel for Storage {
    fn work(&mut self) -> Result<u64, Failure> {
        while self.in_flight < DEPTH {
            self.requests
                .send(self.at)
                .map_err(|_| Failure::new("the I/O threads ended"))?;
            self.at = (self.at + REQUEST as u64) % self.bytes;
            self.in_flight += 1;
        }
        match self.answers.recv() {
            Ok(Ok(REQUEST)) => {
                self.in_flight -= 1;
                Ok(1)
            }
            Ok(Ok(short)) => Err(Failure::new(format!(
                "a read of the scratch file returned {short} of {REQUEST} bytes"
            ))),
            Ok(Err(error)) => Err(Failure::new(format!("reading the scratch file: {error}"))),
            Err(_) => Err(Failure::new("the I/O threads ended")),
        }
    }

    fn release(&mut self) {
        while self.in_flight > 0 && self.answers.recv().is_ok() {
            self.in_flight -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(directory: &Path) -> Environment {
        Environment {
            scratch_directory: Some(directory.to_path_buf()),
            scratch_bytes: 2 << 20,
            ..Environment::default()
        }
    }

    #[test]
    fn reads_and_leaves_no_file() {
        let directory = std::env::current_dir().unwrap();
        let before = std::fs::read_dir(&directory).unwrap().count();
        match build(&environment(&directory)) {
            Ok(mut kernel) => {
                for _ in 0..20 {
                    assert_eq!(kernel.work().unwrap(), 1);
                }
                kernel.release();
                let after = std::fs::read_dir(&directory).unwrap().count();
                assert_eq!(after, before, "the scratch file has no name");
            }
            Err(Failure(reason)) => {
                assert!(reason.contains("direct I/O"), "{reason}");
                eprintln!("skipped: {reason}");
            }
        }
    }

    #[test]
    fn what_cannot_work_is_a_reason() {
        let reason = build(&environment(Path::new("/no/such/place")))
            .err()
            .unwrap()
            .0;
        assert!(reason.contains("/no/such/place"), "{reason}");
        let mut env = environment(Path::new("/tmp"));
        env.scratch_bytes = 4096;
        assert!(build(&env).err().unwrap().0.contains("too small"));
        env.scratch_directory = None;
        assert!(
            build(&env)
                .err()
                .unwrap()
                .0
                .contains("no scratch directory")
        );
    }
}
