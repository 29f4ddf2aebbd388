//! The guard process: what it does when the profiler is gone. The profiler's
//! side is [`super::guard`].

use super::cgroup::Freezer;
use super::cgroup::FreezerKind;
use super::guard::TEAR_DOWN;
use super::guard::TEAR_DOWN_LIMIT;
use super::hooks;
use super::hooks::DEFAULT_LIMIT;
use super::tree;
use crate::error::Error;
use crate::error::Result;
use crate::sys::pages::GuardPage;
use crate::sys::pidfd::PidFd;
use crate::sys::process;
use crate::sys::shared::SharedPage;
use nix::sys::signal::Signal;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Waits for the profiler's end, then does its duty.
/// `page` is the number of an inherited descriptor, standard input the pipe.
///
/// # Errors
/// A request error when it was not started by the profiler.
pub fn watch(page: i32, marker: &str) -> Result<()> {
    let foreign = || Error::request("guard: started by jostle itself, not by hand");
    if page < 3 || fd_name(page).is_none_or(|name| !name.starts_with("/memfd:jostle-guard")) {
        return Err(foreign());
    }
    let page: SharedPage<GuardPage> =
        SharedPage::from_fd(inherited(page)?).map_err(|_| foreign())?;
    // Until the end of the pipe, or until it cannot be read.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    let count = page.count.load(SeqCst) as usize;
    let entries = || {
        let used = page.processes.iter().take(count);
        used.map(|[first, second]| (first.load(SeqCst) as i32, second.load(SeqCst)))
    };
    match page.duty.load(SeqCst) {
        GuardPage::END_GROUPS => end(entries().map(|(group, _)| group), marker),
        GuardPage::CONTINUE => {
            if let Some(freezer) = frozen(&page) {
                let _ = freezer.thaw();
            }
            for (pid, start) in entries() {
                tree::resume(pid, start);
            }
        }
        GuardPage::TEAR_DOWN => tear_down(
            page.group.load(SeqCst) as i32,
            page.awaited.load(SeqCst) as i32,
        ),
        _ => {}
    }
    Ok(())
}

/// The freezer that holds the target.
fn frozen(page: &GuardPage) -> Option<Freezer> {
    let kind = match page.freezer.load(SeqCst) {
        1 => FreezerKind::V1,
        2 => FreezerKind::V2,
        _ => return None,
    };
    let used = page
        .directory
        .iter()
        .take(page.length.load(SeqCst) as usize);
    let path: Vec<u8> = used.map(|byte| byte.load(SeqCst)).collect();
    Some(Freezer {
        directory: PathBuf::from(std::ffi::OsString::from_vec(path)),
        kind,
    })
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

fn fd_name(fd: i32) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// A second, close-on-exec descriptor of inherited `fd`.
fn inherited(fd: i32) -> Result<OwnedFd> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{fd}"))
        .map(OwnedFd::from)
        .map_err(|error| Error::environment(format!("guard: {error}")))
}

fn end(groups: impl Iterator<Item = i32>, marker: &str) {
    for group in groups.filter(|&group| group > 1) {
        let _ = process::signal_group(group, Signal::SIGKILL);
    }
    // Again and again: one may fork while we look.
    for _ in 0..100 {
        let left: Vec<i32> = tree::processes()
            .into_iter()
            .filter(|&pid| tree::marker_of(pid).is_some_and(|found| found == marker))
            .collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = process::signal_process(pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
