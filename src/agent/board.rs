//! What the agent shows to others: the newest node state and what happened. Written
//! by the daemon, read by the API.

use super::trend::Trend;
use super::trend::Trends;
use jostle_profile::node::Event;
use jostle_profile::node::EventKind;
use jostle_profile::node::NodeState;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::time::Instant;
use std::time::SystemTime;

/// Most events that are kept.
pub const MOST_EVENTS: usize = 1000;

/// One node state.
#[derive(Debug)]
pub struct Published {
    pub state: NodeState,
    /// When it was published.
    pub at: Instant,
    json: OnceLock<Vec<u8>>,
}

impl Published {
    /// The state as JSON, made for the first reader and kept for the others.
    pub fn json(&self) -> &[u8] {
        let make = || serde_json::to_vec(&self.state).expect("plain data");
        self.json.get_or_init(make)
    }
}

type Listener = Box<dyn Fn() + Send + Sync>;

/// Shared between threads.
#[derive(Default)]
pub struct Board {
    inner: Mutex<Inner>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Inner {
    published: Option<Arc<Published>>,
    events: VecDeque<Event>,
    last_event: u64,
    /// Of all events since the start, kept or not.
    counts: BTreeMap<EventKind, u64>,
    trends: Trends,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `state` from now on.
    pub fn publish(&self, state: NodeState) {
        let mut inner = self.lock();
        inner.trends.add(&state, SystemTime::now());
        inner.published = Some(Arc::new(Published {
            state,
            at: Instant::now(),
            json: OnceLock::new(),
        }));
        drop(inner);
        self.changed();
    }

    /// How the workload called `name` did over the last refreshes; `None` where there
    /// is none now.
    pub fn trend(&self, name: &str) -> Option<Trend> {
        self.lock().trends.of(name)
    }

    /// The newest state; `None` before the first refresh.
    pub fn node(&self) -> Option<Arc<Published>> {
        self.lock().published.clone()
    }

    /// Adds something that happened.
    pub fn tell(&self, kind: EventKind, workload: Option<&str>, text: impl Into<String>) {
        let at = jostle_host::sys::clock::rfc3339(SystemTime::now());
        let mut inner = self.lock();
        inner.last_event += 1;
        *inner.counts.entry(kind).or_default() += 1;
        let event = Event {
            id: inner.last_event,
            at,
            kind,
            workload: workload.map(str::to_string),
            text: text.into(),
        };
        match kind {
            EventKind::Warning => tracing::warn!(workload, "{}", event.text),
            _ => tracing::info!(workload, "{}", event.text),
        }
        inner.events.push_back(event);
        if inner.events.len() > MOST_EVENTS {
            inner.events.pop_front();
        }
        drop(inner);
        self.changed();
    }

    /// Events after the one with number `after` (0: all that are kept), oldest first.
    /// A number that was not given yet is of an agent before this one: all are new.
    pub fn events(&self, after: u64) -> Vec<Event> {
        let inner = self.lock();
        let after = Some(after).filter(|it| *it <= inner.last_event);
        let after = after.unwrap_or(0);
        let newer = inner.events.iter().filter(|event| event.id > after);
        newer.cloned().collect()
    }

    /// How many events of each kind there were since the start.
    pub fn event_counts(&self) -> BTreeMap<EventKind, u64> {
        self.lock().counts.clone()
    }

    /// Calls `listener` after every change, from the thread that made it.
    pub fn subscribe(&self, listener: impl Fn() + Send + Sync + 'static) {
        let listeners = self.listeners.lock();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    fn changed(&self) {
        let listeners = self.listeners.lock();
        for listener in &*listeners.unwrap_or_else(PoisonError::into_inner) {
            listener();
        }
    }
}
