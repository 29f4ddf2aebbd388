//! A worker whose profiler is stopped (Ctrl-Z, a debugger) parks its sources:
//! nobody would end them otherwise, however long that lasts.

use crate::os::here;
use crate::os::proc;
use crate::sys::control_page::Command;
use crate::sys::control_page::ControlPage;
use crate::sys::control_page::Order;
use crate::sys::shared::SharedPage;
use std::time::Duration;

/// How often it looks. Each look is a few microseconds of a CPU that the target may
/// use.
const LOOK: Duration = Duration::from_secs(1);

/// What was in force on each page when its source was parked, and the order to park.
struct Parked(Vec<(Command, Command)>);

/// Watches over `pages` from a thread of its own until the process ends.
///
/// # Errors
/// When the pages cannot be mapped again or no thread can be started.
pub fn watch(pages: &[SharedPage<ControlPage>]) -> std::io::Result<()> {
    let pages: Vec<_> = pages
        .iter()
        .map(SharedPage::again)
        .collect::<std::io::Result<_>>()?;
    let parent = std::os::unix::process::parent_id() as i32;
    let thread = std::thread::Builder::new().name("jostle-parent".into());
    thread.spawn(move || {
        let mut parked: Option<Parked> = None;
        loop {
            std::thread::sleep(LOOK);
            let stopped = proc::stat(here(), parent).is_some_and(|stat| stat.stopped());
            match (&parked, stopped) {
                (None, true) => parked = Some(park(&pages)),
                (Some(before), false) => {
                    go_on(&pages, before);
                    parked = None;
                }
                _ => {}
            }
        }
    })?;
    Ok(())
}

fn park(pages: &[SharedPage<ControlPage>]) -> Parked {
    let park = |page: &SharedPage<ControlPage>| {
        let before = page.command.get();
        let parked = Command::new(Order::Park, before.sequence().wrapping_add(1));
        page.command.set(parked);
        (before, parked)
    };
    Parked(pages.iter().map(park).collect())
}

/// What the profiler ordered meanwhile stays in force.
fn go_on(pages: &[SharedPage<ControlPage>], parked: &Parked) {
    for (page, (before, parked)) in pages.iter().zip(&parked.0) {
        if page.command.get() == *parked {
            page.command.set(*before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_force_comes_back_unless_there_is_a_new_order() {
        let page = || SharedPage::<ControlPage>::create("test").unwrap();
        let pages = [page(), page()];
        let full = Command::new(Order::Treat(100.0), 7);
        pages.iter().for_each(|page| page.command.set(full));
        let parked = park(&pages);
        for page in &pages {
            assert_eq!(page.command.get().order(), Order::Park);
        }
        let new = Command::new(Order::Control, 8);
        pages[1].command.set(new);
        go_on(&pages, &parked);
        assert_eq!(pages[0].command.get(), full);
        assert_eq!(pages[1].command.get(), new);
    }
}
