//! A process that holds sources, as the profiler sees it.

use crate::inject::error::WorkerError;
use crate::inject::worker::WorkerConfig;
use crate::sys::control_page::ControlPage;
use crate::sys::handover;
use crate::sys::handover::Giver;
use crate::sys::handover::Readable;
use crate::sys::own::OwnChild;
use crate::sys::process::ChildSetup;
use crate::sys::process::executable;
use crate::sys::process::prepare;
use crate::sys::shared::SharedPage;
use crate::sys::tape::Tape;
use nix::fcntl::FcntlArg;
use nix::fcntl::FdFlag;
use nix::fcntl::fcntl;
use std::cell::Cell;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::process::Command as Process;
use std::process::ExitStatus;
use std::process::Stdio;
use std::rc::Rc;

/// A process that holds one or several sources of one CPU.
pub struct Host {
    pub(super) child: RefCell<Child>,
    /// Until it is seen to have ended.
    own: RefCell<Option<OwnChild>>,
    pub cpu: usize,
    pub tape: SharedPage<Tape>,
    giver: Giver,
    /// Version of what was handed over last.
    watched: Cell<Option<u64>>,
    /// When the last block on its tape ended, CLOCK_MONOTONIC.
    pub played_ns: Cell<u64>,
    /// How many turns its tape had lost when they were counted last.
    pub lost: Cell<u64>,
}

impl Host {
    pub(super) fn end(&self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        // Before its pid can be somebody else's.
        self.own.take();
        let _ = child.wait();
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    /// Has the process read `readable` at both ends of each slice from now on,
    /// instead of what it read before. Nothing to do where it reads this
    /// `version` already without trouble.
    ///
    /// # Errors
    /// In words, when that cannot be handed over.
    pub fn watch(&self, version: u64, readable: &Readable<'_>) -> Result<(), WorkerError> {
        if self.watched.get() == Some(version) && self.tape.sees() != Some(false) {
            return Ok(());
        }
        let call = self.tape.handed() + 1;
        self.giver.give(call, readable).map_err(|error| {
            format!(
                "its worker on CPU {} cannot be given the target's counts: {error}",
                self.cpu
            )
        })?;
        self.tape.hand(call);
        self.watched.set(Some(version));
        Ok(())
    }

    /// How the process ended, if it did. One system call, for it is asked several
    /// times in every round.
    pub(super) fn ended(&self) -> io::Result<Option<ExitStatus>> {
        let ended = self.child.borrow_mut().try_wait();
        if !matches!(ended, Ok(None)) {
            self.own.take();
        }
        ended
    }

    /// # Errors
    /// In words, when the process was killed.
    pub fn check(&self) -> Result<(), WorkerError> {
        match self.ended() {
            Ok(None) => Ok(()),
            _ => Err(format!("its worker on CPU {} was killed", self.cpu).into()),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts one process on `cpu` that holds a source for each of `configs`; their
/// pages, in the same order.
pub(super) fn spawn(
    configs: &[WorkerConfig],
    cpu: usize,
) -> io::Result<(Rc<Host>, Vec<SharedPage<ControlPage>>)> {
    let tape: SharedPage<Tape> = SharedPage::create("jostle-tape")?;
    let pages = configs
        .iter()
        .map(|_| SharedPage::create("jostle-control"))
        .collect::<io::Result<Vec<SharedPage<ControlPage>>>>()?;
    let (giver, taker) = handover::pair()?;
    let mut keep: Vec<BorrowedFd> = vec![tape.as_fd(), taker.as_fd()];
    keep.extend(pages.iter().map(|page| page.as_fd()));
    let mut process = Process::new(executable()?);
    process.args(["worker", "--tape", &tape.as_fd().as_raw_fd().to_string()]);
    process.args(["--handover", &taker.as_raw_fd().to_string()]);
    for page in &pages {
        process.args(["--fd", &page.as_fd().as_raw_fd().to_string()]);
    }
    for fd in &keep {
        // Only this worker inherits it: `prepare` clears the flag in the child.
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    process
        .arg("--config")
        .arg(serde_json::to_string(configs).expect("plain data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    prepare(
        &mut process,
        ChildSetup {
            adopts: false,
            cpus: Some(vec![cpu]),
            oom_score_adj: Some(1000),
            keep,
            gate: None,
        },
    );
    let child = process.spawn()?;
    let host = Rc::new(Host {
        own: RefCell::new(Some(OwnChild::new(child.id() as i32))),
        child: RefCell::new(child),
        cpu,
        tape,
        giver,
        watched: Cell::new(None),
        played_ns: Cell::new(0),
        lost: Cell::new(0),
    });
    Ok((host, pages))
}
