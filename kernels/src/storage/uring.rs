//! Transfers by io_uring.

use super::request::Ended;
use super::request::Engine;
use super::request::Request;
use crate::Buffer;
use crate::Failure;
use io_uring::IoUring;
use io_uring::opcode;
use io_uring::types::Fixed;
use io_uring::types::SubmitArgs;
use io_uring::types::Timespec;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A ring, its file registered, and its buffers where that is allowed.
pub struct Uring {
    // Dropped before the memory that its requests point to.
    ring: IoUring,
    buffer: Buffer,
    stride: usize,
    registered_buffer: bool,
    _file: File,
}

impl Uring {
    /// A ring with `depth` slots of `stride` bytes, and one line on how it was
    /// set up.
    pub fn start(file: File, depth: usize, stride: usize) -> Result<(Uring, String), String> {
        let ring = ring(depth as u32).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS) => "this kernel has no io_uring".to_string(),
            Some(libc::EPERM | libc::EACCES) => format!(
                "io_uring is refused ({error}: by kernel.io_uring_disabled, or by a seccomp \
                 profile such as that of a container)"
            ),
            _ => format!("io_uring cannot be set up ({error})"),
        })?;
        if !ring.params().is_feature_ext_arg() {
            return Err(
                "this kernel's io_uring cannot wait with a time limit (before 5.11)".into(),
            );
        }
        let buffer = Buffer::resident(depth * stride).map_err(|Failure(reason)| reason)?;
        ring.submitter()
            .register_files(&[file.as_raw_fd()])
            .map_err(|error| format!("io_uring cannot register a file ({error})"))?;
        let memory = libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: depth * stride,
        };
        // SAFETY: the memory lives as long as the ring, which is dropped first.
        let registered = unsafe { ring.submitter().register_buffers(&[memory]) };
        let note = match &registered {
            Ok(()) => "io_uring, registered file and buffers".to_string(),
            // Counts against the limit of locked memory; plain requests work.
            Err(error) => format!("io_uring, registered file, buffers not registered ({error})"),
        };
        let engine = Uring {
            ring,
            buffer,
            stride,
            registered_buffer: registered.is_ok(),
            _file: file,
        };
        Ok((engine, note))
    }
}

/// With completions handled only when they are asked for, where the kernel can
/// (6.1); nothing then interrupts the worker in between.
fn ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries)
        .or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::new(entries),
            _ => Err(error),
        })
}

impl Engine for Uring {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        assert!(request.bytes as usize <= self.stride);
        assert!(slot < self.buffer.len() / self.stride);
        let address = self.buffer.as_ptr().cast_mut();
        // SAFETY: the slot lies inside the buffer, as checked above.
        let memory = unsafe { address.add(slot * self.stride) };
        let Request {
            offset,
            bytes,
            write,
        } = request;
        let (file, buffer) = (Fixed(0), 0);
        let entry = match (write, self.registered_buffer) {
            (false, true) => opcode::ReadFixed::new(file, memory, bytes, buffer)
                .offset(offset)
                .build(),
            (true, true) => opcode::WriteFixed::new(file, memory, bytes, buffer)
                .offset(offset)
                .build(),
            (false, false) => opcode::Read::new(file, memory, bytes)
                .offset(offset)
                .build(),
            (true, false) => opcode::Write::new(file, memory, bytes)
                .offset(offset)
                .build(),
        };
        // SAFETY: the slot's memory is used by no other request until this one
        // has ended, and is neither moved nor freed before the ring is.
        unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) }
            .map_err(|_| io::Error::other("the ring is full"))
    }

    fn wait(&mut self, least: usize, most: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        let most = Timespec::from(most);
        let limit = SubmitArgs::new().timespec(&most);
        // Time is up, or this is to be tried again.
        let harmless = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
        self.ring
            .submitter()
            .submit_with_args(least, &limit)
            .map(drop)
            .or_else(|error| match error.raw_os_error() {
                Some(code) if harmless.contains(&code) => Ok(()),
                _ => Err(error),
            })?;
        ended.extend(self.ring.completion().map(|entry| {
            let moved = match entry.result() {
                error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
                bytes => Ok(bytes as usize),
            };
            (entry.user_data() as usize, moved)
        }));
        Ok(())
    }
}
