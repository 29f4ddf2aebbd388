//! What a sink tells its user. A terminal or a pipe that takes nothing must not keep
//! sources waiting, so that a thread of its own does the telling.

use std::sync::mpsc::SyncSender;
use std::sync::mpsc::sync_channel;

/// Lines that may wait; more are dropped.
const WAITING: usize = 256;

pub(super) struct Notes(SyncSender<String>);

impl Notes {
    /// `tell` may take as long as it likes.
    pub(super) fn new(tell: fn(&str)) -> Notes {
        let (sender, receiver) = sync_channel::<String>(WAITING);
        // Without the thread there is nobody to tell.
        let _ = std::thread::Builder::new().spawn(move || {
            for text in receiver {
                tell(&text);
            }
        });
        Notes(sender)
    }

    pub(super) fn tell(&self, text: String) {
        let _ = self.0.try_send(text);
    }
}
