//! How long each source needs: for a switch to take effect, for a window to
//! mean something, for its peak to show.

use std::time::Duration;

/// Times of one source, before what is known of slices is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a switch until caches, queues and memory have found their state.
    pub settle: Duration,
    /// Length of one window.
    pub window: Duration,
    /// How long full strength is watched to learn the peak.
    pub peak: Duration,
}

impl Timing {
    /// The times of `resource`.
    pub fn of(resource: &str) -> Timing {
        let (settle, window, peak) = match resource {
            "cpu-time" => (3, 30, 60),
            "llc-capacity" => (80, 50, 60),
            // What was pushed out of the page cache comes back only as it is read.
            "memory-capacity" => (1200, 250, 60),
            // Disks of virtual machines speed up and down by tenths within a second.
            "storage-bandwidth" | "storage-capacity" => (15, 60, 500),
            "network-bandwidth" => (15, 60, 500),
            _ => (3, 24, 60),
        };
        Timing {
            settle: Duration::from_millis(settle),
            window: Duration::from_millis(window),
            peak: Duration::from_millis(peak),
        }
    }
}
