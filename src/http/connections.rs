//! The limit of open connections.
//!
//! At the limit a new connection replaces the one that has been idle longest, so that
//! clients which open connections and send nothing cannot keep others out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use tokio::sync::Notify;

/// All connections of a server.
pub struct Connections {
    /// Most of them at a time.
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    open: BTreeMap<u64, OpenConnection>,
    /// Closed to make room for others, since the start.
    displaced: u64,
}

struct OpenConnection {
    /// Requests that are being answered.
    busy: usize,
    /// Ascending: the number of the last thing that happened to any.
    touched: u64,
    close: Arc<Notify>,
}

/// A place among the connections; given back when dropped.
pub struct ConnectionSlot {
    all: Arc<Connections>,
    id: u64,
    close: Arc<Notify>,
}

/// While it lives its connection is not closed in favour of another.
pub struct Busy {
    all: Arc<Connections>,
    id: u64,
}

impl Connections {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Connections {
            most,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self) -> usize {
        self.lock().open.len()
    }

    pub fn displaced(&self) -> u64 {
        self.lock().displaced
    }

    /// A place for one more; `None` where every connection is busy.
    pub fn admit(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut inner = self.lock();
        if inner.open.len() >= self.most {
            let idle = inner.open.iter().filter(|(_, slot)| slot.busy == 0);
            let (&id, _) = idle.min_by_key(|(_, slot)| slot.touched)?;
            let slot = inner.open.remove(&id)?;
            slot.close.notify_one();
            inner.displaced += 1;
        }
        inner.last += 1;
        let (id, close) = (inner.last, Arc::new(Notify::new()));
        let slot = OpenConnection {
            busy: 0,
            touched: id,
            close: close.clone(),
        };
        inner.open.insert(id, slot);
        drop(inner);
        Some(ConnectionSlot {
            all: self.clone(),
            id,
            close,
        })
    }
}

impl ConnectionSlot {
    /// Returns when this connection has to make room for another.
    pub async fn displaced_by_another(&self) {
        self.close.notified().await;
    }

    pub fn busy(&self) -> Busy {
        if let Some(slot) = self.all.lock().open.get_mut(&self.id) {
            slot.busy += 1;
        }
        Busy {
            all: self.all.clone(),
            id: self.id,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.last += 1;
        let now = inner.last;
        if let Some(slot) = inner.open.get_mut(&self.id) {
            slot.busy -= 1;
            slot.touched = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_makes_room() {
        const MOST: usize = 256;
        let all = Arc::new(Connections::new(MOST));
        let mut slots: Vec<ConnectionSlot> = (0..MOST)
            .map(|_| all.admit().expect("there is a place"))
            .collect();
        let first_is_busy = slots[0].busy();
        drop(slots[1].busy());
        let newcomer = all.admit().expect("the third has been idle longest");
        assert_eq!(all.open(), MOST);
        assert_eq!(all.displaced(), 1);
        assert!(!all.lock().open.contains_key(&slots[2].id));
        // Its own end changes nothing any more.
        drop(slots.remove(2));
        assert_eq!(all.open(), MOST);
        let busy: Vec<Busy> = slots.iter().map(ConnectionSlot::busy).collect();
        let newcomer_is_busy = newcomer.busy();
        assert!(all.admit().is_none());
        drop((busy, newcomer_is_busy, first_is_busy));
        assert!(all.admit().is_some());
    }
}
