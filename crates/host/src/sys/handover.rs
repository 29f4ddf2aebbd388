//! Descriptors that the profiler opened and a worker reads: the counts of a
//! target, handed over while the worker runs.

use super::pages::ProgressPage;
use super::process::inherited;
use super::published;
use super::shared::SharedPage;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::AddressFamily;
use nix::sys::socket::ControlMessage;
use nix::sys::socket::ControlMessageOwned;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockType;
use nix::sys::socket::recvmsg;
use nix::sys::socket::sendmsg;
use nix::sys::socket::socketpair;
use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Most descriptors that are read together: a counter takes the worker 0.6 to
/// 0.8 µs (EPYC, 2-vCPU VM) at both ends of a slice, and slices may be as short
/// as 0.1 ms.
pub const MOST: usize = 16;
/// Most words that one read of a counter returns.
const MOST_WORDS: usize = 19;

/// What lies behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A [`ProgressPage`] in shared memory.
    Page,
    /// A file that a program publishes its progress in.
    File,
    /// A perf counter or group.
    Counter {
        /// In one read.
        words: usize,
        /// Which word is the count.
        count: usize,
        /// Which word is the CPU time that performance is counted by, unless
        /// that is wall time.
        time: Option<usize>,
    },
}

/// A number that no other call returns: for what was opened anew and so has to
/// be handed over again.
pub fn version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed)
}

/// Descriptors of one layout, at most [`MOST`], whose counts add up.
#[derive(Clone, Debug)]
pub struct Readable<'a> {
    pub layout: Layout,
    pub descriptors: Vec<BorrowedFd<'a>>,
}

/// One descriptor, ready to be read at any instant.
pub enum Reader {
    Page(SharedPage<ProgressPage>),
    File(File),
    Counter {
        counter: OwnedFd,
        words: usize,
        count: usize,
        time: Option<usize>,
    },
}

impl Readable<'_> {
    /// Readers of this process itself.
    ///
    /// # Errors
    /// When there are too many descriptors, or not all of them can be read.
    pub fn readers(&self) -> io::Result<Vec<Reader>> {
        let copies = self.descriptors.iter();
        let copies = copies.map(|descriptor| descriptor.try_clone_to_owned());
        copies.map(|copy| Reader::of(copy?, self.layout)).collect()
    }
}

impl Reader {
    fn of(descriptor: OwnedFd, layout: Layout) -> io::Result<Reader> {
        let reader = match layout {
            Layout::Page => Reader::Page(SharedPage::from_fd(descriptor)?),
            Layout::File => Reader::File(descriptor.into()),
            Layout::Counter { words, count, time } => Reader::Counter {
                counter: descriptor,
                words: words.min(MOST_WORDS),
                count,
                time,
            },
        };
        reader.read()?;
        Ok(reader)
    }

    /// The count, and CPU time in nanoseconds where performance is counted by
    /// it (else 0).
    ///
    /// # Errors
    /// What the kernel says, or that a counter answers with another length.
    pub fn read(&self) -> io::Result<(u64, u64)> {
        let (counter, words, count, time) = match self {
            Reader::Page(page) => return Ok(page.read()),
            Reader::File(file) => {
                let page = published::read(file).map_err(io::Error::other)?;
                let page = page.ok_or_else(|| io::Error::other("nothing is published"))?;
                return Ok((page.operations, page.busy_ns));
            }
            Reader::Counter {
                counter,
                words,
                count,
                time,
            } => (counter, *words, *count, *time),
        };
        let mut buffer = [0; MOST_WORDS * 8];
        let length = nix::unistd::read(counter, &mut buffer[..words * 8])?;
        let word = |index: usize| -> Option<u64> {
            let bytes = buffer[..length].get(index * 8..index * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let value = word(count).zip(time.map_or(Some(0), word));
        value.ok_or_else(|| io::Error::other(format!("a counter answered with {length} bytes")))
    }
}

/// The profiler's end.
pub struct Giver {
    socket: OwnedFd,
}

/// The worker's end.
pub struct Taker {
    socket: OwnedFd,
}

/// The number of the handover, and the layout in words.
const HEAD: usize = 5;

/// A [`Giver`], and the descriptor that a worker makes a [`Taker`] of. Neither
/// is inherited by children unless they are told to keep it.
pub fn pair() -> io::Result<(Giver, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
    )?;
    Ok((Giver { socket: ours }, theirs))
}

impl Giver {
    /// Hands over `readable` as number `call`, in place of what was handed over
    /// before.
    ///
    /// # Errors
    /// When the worker is gone or takes nothing, or there are too many.
    pub fn give(&self, call: u64, readable: &Readable<'_>) -> io::Result<()> {
        if readable.descriptors.len() > MOST {
            return Err(Errno::E2BIG.into());
        }
        let head: [u64; HEAD] = match readable.layout {
            Layout::Page => [call, 0, 0, 0, 0],
            Layout::File => [call, 2, 0, 0, 0],
            Layout::Counter { words, count, time } => [
                call,
                1,
                words as u64,
                count as u64,
                time.map_or(0, |word| word as u64 + 1),
            ],
        };
        let bytes = head.map(u64::to_ne_bytes).concat();
        let fds: Vec<RawFd> = readable
            .descriptors
            .iter()
            .map(AsRawFd::as_raw_fd)
            .collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &[][..] } else { &rights };
        sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }
}

impl Taker {
    /// The end that was inherited as descriptor `fd`.
    ///
    /// # Errors
    /// When no such descriptor is open.
    pub fn inherited(fd: RawFd) -> io::Result<Taker> {
        Ok(Taker {
            socket: inherited(fd)?,
        })
    }

    /// What was handed over as number `call`, ready to be read; earlier ones
    /// are dropped. Never waits.
    ///
    /// # Errors
    /// When nothing of that number is there, or not all of it can be read.
    pub fn take(&self, call: u64) -> io::Result<Vec<Reader>> {
        loop {
            let (head, descriptors) = self.receive()?;
            if head[0] != call {
                continue;
            }
            let word = |index: usize| head[index] as usize;
            let layout = match head[1] {
                0 => Layout::Page,
                2 => Layout::File,
                _ => Layout::Counter {
                    words: word(2),
                    count: word(3),
                    time: word(4).checked_sub(1),
                },
            };
            let readers = descriptors.into_iter();
            return readers.map(|fd| Reader::of(fd, layout)).collect();
        }
    }

    fn receive(&self) -> io::Result<([u64; HEAD], Vec<OwnedFd>)> {
        let mut bytes = [0; HEAD * 8];
        let mut space = cmsg_space!([RawFd; MOST]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(fds) = control {
                // SAFETY: the kernel has just made these descriptors for this
                // process, and nobody else knows of them.
                descriptors.extend(fds.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }));
            }
        }
        let (length, flags) = (message.bytes, message.flags);
        if flags.contains(MsgFlags::MSG_CTRUNC) {
            return Err(io::Error::other(
                "not all descriptors could be taken: raise `ulimit -n`",
            ));
        }
        if length != HEAD * 8 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut head = [0; HEAD];
        for (word, bytes) in head.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        }
        Ok((head, descriptors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_group;
    use crate::sys::perf_group::EventConfig;
    use crate::sys::perf_group::Group;
    use crate::sys::perf_group::PerfTarget;
    use std::os::fd::AsFd;

    fn both() -> (Giver, Taker) {
        let (giver, socket) = pair().unwrap();
        (giver, Taker { socket })
    }

    fn page(operations: u64, busy_ns: u64) -> SharedPage<ProgressPage> {
        let page: SharedPage<ProgressPage> = SharedPage::create("test").unwrap();
        page.operations.store(operations, Relaxed);
        page.busy_ns.store(busy_ns, Relaxed);
        page
    }

    fn pages<'a>(pages: &'a [&'a SharedPage<ProgressPage>]) -> Readable<'a> {
        Readable {
            layout: Layout::Page,
            descriptors: pages.iter().map(|page| page.as_fd()).collect(),
        }
    }

    #[test]
    fn pages_are_read_through_what_was_handed_over_last() {
        let (giver, taker) = both();
        assert!(taker.take(1).is_err(), "nothing is there");
        let [one, two] = [page(1, 10), page(2, 20)];
        giver.give(1, &pages(&[&one])).unwrap();
        giver.give(2, &pages(&[&one, &two])).unwrap();
        let readers = taker.take(2).unwrap();
        one.operations.store(5, Relaxed);
        let read: Vec<(u64, u64)> = readers.iter().map(|it| it.read().unwrap()).collect();
        assert_eq!(read, [(5, 10), (2, 20)]);
        giver.give(3, &pages(&[])).unwrap();
        assert_eq!(taker.take(3).unwrap().len(), 0);
        assert!(taker.take(4).is_err(), "nothing more is there");
        // The worker's mapping outlives the profiler's descriptor.
        drop(one);
        assert_eq!(readers[0].read().unwrap(), (5, 10));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let (giver, taker) = both();
        let one = page(0, 0);
        let many = vec![&one; MOST + 1];
        assert!(giver.give(1, &pages(&many)).is_err());
        giver.give(1, &pages(&many[..MOST])).unwrap();
        assert_eq!(taker.take(1).unwrap().len(), MOST);
        let null = std::fs::File::open("/dev/null").unwrap();
        for layout in [Layout::Page, perf_group::layout(1, 0, None)] {
            let descriptors = vec![null.as_fd()];
            let readable = Readable {
                layout,
                descriptors,
            };
            giver.give(2, &readable).unwrap();
            assert!(taker.take(2).is_err(), "{layout:?}");
        }
        drop(taker);
        assert!(giver.give(3, &pages(&[&one])).is_err(), "nobody takes it");
    }

    #[test]
    fn counters_of_another_opener_are_read() {
        // task-clock and page faults need no PMU.
        let events = [EventConfig::software(1), EventConfig::software(2)];
        let group = Group::open(&events, PerfTarget::CallingThread, true);
        let group = crate::skip::have("perf", group.map_err(|failed| failed.error));
        let Some(group) = group else {
            return;
        };
        let (giver, taker) = both();
        let readable = Readable {
            layout: perf_group::layout(2, 1, Some(0)),
            descriptors: vec![group.as_fd()],
        };
        giver.give(1, &readable).unwrap();
        let readers = taker.take(1).unwrap();
        let (faults, clock_ns) = readers[0].read().unwrap();
        let pages = vec![1u8; 32 << 20];
        std::hint::black_box(&pages);
        let (more, later_ns) = readers[0].read().unwrap();
        let mut values = [0; perf_group::MAX_EVENTS];
        group.read(&mut values).unwrap();
        assert!(more - faults >= 16, "{more} {faults}");
        assert!(more <= values[1] && clock_ns < later_ns && later_ns <= values[0]);
    }
}
