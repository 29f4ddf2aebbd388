//! The guard process: what it does when the profiler is gone or silent.

use super::TEAR_DOWN;
use super::TEAR_DOWN_LIMIT;
use super::record;
use super::refuge::Refuge;
use super::undo;
use crate::error::Error;
use crate::error::Result;
use crate::workload::hooks;
use crate::workload::hooks::DEFAULT_LIMIT;
use jostle_host::sys::clock::monotonic_ns;
use jostle_host::sys::guard_page::GuardPage;
use jostle_host::sys::pidfd::PidFd;
use jostle_host::sys::process;
use jostle_host::sys::shared::SharedPage;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::poll;
use nix::sys::signal::Signal;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long a profiler may be silent while it holds a target.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How often the guard looks whether it is, milliseconds.
const LOOK_MS: u8 = 250;
/// How often, and for how long, a freezer that refuses is asked again.
const AGAIN: Duration = Duration::from_millis(100);
const ATTEMPTS: usize = 300;

/// Waits for the profiler's end, then does its duty.
/// `page` is the number of an inherited descriptor, standard input the pipe.
///
/// # Errors
/// A request error when it was not started by the profiler.
pub fn watch(page: i32) -> Result<()> {
    let foreign = || Error::request("guard: started by jostle itself, not by hand");
    if page < 3 {
        return Err(foreign());
    }
    let page = mapped(page).map_err(|_| foreign())?;
    if page.magic.load(SeqCst) != GuardPage::MAGIC {
        return Err(foreign());
    }
    let refuge = prepare(&page);
    page.ready.store(1, SeqCst);
    let mut undone = None;
    while !ended(&page, &mut undone) {}
    let done = undo(&page);
    if done {
        page.duty.store(GuardPage::NOTHING, SeqCst);
        remove_file_of(&page);
    }
    refuge.leave();
    Ok(())
}

/// Nothing but SIGKILL ends it, no shortage of memory, and nothing that is done to
/// the profiler's cgroup.
fn prepare(page: &GuardPage) -> Refuge {
    // Signals were blocked by whoever started it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let (pid, start) = record::identity(std::process::id() as i32);
    page.guard[1].store(start, SeqCst);
    page.guard[0].store(pid, SeqCst);
    Refuge::enter()
}

/// What the profiler held when the guard last released it, and the heartbeat at that
/// time: each hold is released once, because the user may stop the target later.
type Seen = (u64, u64, u64);

/// Waits for one interval; true when the profiler has exited. Releases the target when
/// the profiler asks for it or is silent.
fn ended(page: &GuardPage, undone: &mut Option<Seen>) -> bool {
    let input = std::io::stdin();
    let mut asked = false;
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, LOOK_MS) {
        Ok(0) | Err(Errno::EINTR) => {}
        Ok(_) => match nix::unistd::read(&input, &mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => asked = true,
            Err(Errno::EINTR) => {}
            Err(_) => return true,
        },
        // Out of memory: slow down, the answer is still to come.
        Err(_) => std::thread::sleep(Duration::from_millis(100)),
    }
    let read = |word: &AtomicU64| word.load(SeqCst);
    let now = (read(&page.renewed), read(&page.count), read(&page.freezer));
    let silent = monotonic_ns().saturating_sub(now.0) > SILENCE.as_nanos() as u64;
    let held = read(&page.duty) == GuardPage::CONTINUE;
    if held && (asked || silent && *undone != Some(now)) && undo::resume(page).is_ok() {
        *undone = Some(now);
    }
    false
}

/// Does what the page says; false when it could not.
fn undo(page: &GuardPage) -> bool {
    match page.duty.load(SeqCst) {
        GuardPage::END_GROUPS => {
            let marker = String::from_utf8_lossy(&page.marker.get()).into_owned();
            for (group, start) in undo::entries(page).filter(|(group, _)| *group > 1) {
                undo::end_group((group, start), &marker);
            }
            undo::end_marked(&marker);
        }
        GuardPage::CONTINUE => {
            for _ in 0..ATTEMPTS {
                if undo::resume(page).is_ok() {
                    return true;
                }
                std::thread::sleep(AGAIN);
            }
            return false;
        }
        GuardPage::TEAR_DOWN => tear_down(
            page.group.load(SeqCst) as i32,
            page.awaited.load(SeqCst) as i32,
        ),
        _ => {}
    }
    true
}

/// Longest wait for the target's own guard to end it before the tear-down.
const TARGET_ENDS: Duration = Duration::from_secs(10);

fn tear_down(group: i32, awaited: i32) {
    if group > 1 {
        let _ = process::signal_group(group, Signal::SIGKILL);
    }
    if awaited > 0
        && let Ok(target) = PidFd::open(awaited)
    {
        target.wait(TARGET_ENDS);
    }
    let Ok(script) = std::env::var(TEAR_DOWN) else {
        return;
    };
    let limit = std::env::var(TEAR_DOWN_LIMIT).ok();
    let limit = limit
        .and_then(|text| text.parse().ok())
        .map_or(DEFAULT_LIMIT, Duration::from_millis);
    // Nobody is left to be told how it went.
    let _ = hooks::run_alone(&script, (awaited > 0).then_some(awaited), limit);
}

/// The page behind a second, close-on-exec descriptor of inherited `fd`.
fn mapped(fd: i32) -> std::io::Result<SharedPage<GuardPage>> {
    let again = || -> std::io::Result<OwnedFd> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true);
        Ok(file.open(format!("/proc/self/fd/{fd}"))?.into())
    };
    SharedPage::from_fd(again()?).or_else(|_| SharedPage::of_file(again()?))
}

/// Removes the page's file, where it lies in one.
fn remove_file_of(page: &SharedPage<GuardPage>) {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", page.as_fd().as_raw_fd());
    let Ok(file) = std::fs::read_link(link) else {
        return;
    };
    // Of a memfd this is a name of nothing.
    if let Ok(record) = record::Record::read(&file)
        && record.page.guard[0].load(SeqCst) == page.guard[0].load(SeqCst)
    {
        record.remove();
    }
}
