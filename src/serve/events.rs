//! The events of `jostle schedule --stdin` for many clients: one cluster, and
//! each event answered on the connection that sent it.

use super::journal::Journal;
use super::line::Line;
use super::server::Client;
use super::server::Handler;
use super::server::refusal;
use jostle_measure::console::warning;
use jostle_schedule::Places;
use jostle_schedule::Recorded;
use jostle_schedule::Stream;
use serde_json::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;

/// Answers that concern the client that asked, and nobody else.
const PRIVATE: [&str; 3] = ["error", "state", "noted"];

/// Answers after which the state file is as good as before. A node's readings are
/// worth nothing after a minute, and come again.
const NO_CHANGE: [&str; 3] = ["error", "state", "node-reading"];

/// What all clients share.
pub struct Events {
    inner: Mutex<Inner>,
}

struct Inner {
    stream: Stream,
    journal: Option<Journal>,
    subscribers: BTreeMap<u64, Weak<Client>>,
    stopped: bool,
}

impl Events {
    pub fn new(stream: Stream, journal: Option<Journal>) -> Self {
        let inner = Inner {
            stream,
            journal,
            subscribers: BTreeMap::new(),
            stopped: false,
        };
        Events {
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the event in progress; those that come later are refused.
    pub fn stop(&self) {
        self.lock().stopped = true;
    }
}

impl Handler for Events {
    fn answer(&self, client: &Arc<Client>, number: u64, line: &Line) -> Vec<String> {
        let mut inner = self.lock();
        if inner.stopped {
            return vec![refusal(
                number,
                "the server is stopping; nothing was changed",
            )];
        }
        let text = match line {
            Line::Text(text) => text,
            Line::TooLong => {
                let most = jostle_schedule::LONGEST_LINE;
                return inner
                    .stream
                    .refuse_numbered(number, &format!("longer than {most} bytes; not read"));
            }
            Line::NotUtf8(valid) => {
                return inner
                    .stream
                    .refuse_numbered(number, &format!("not UTF-8 text after {valid} bytes"));
            }
        };
        match own_event(text) {
            Some(OwnEvent::Ping) => return vec![json!({"answer": "pong"}).to_string()],
            Some(OwnEvent::Subscribe) => {
                client.subscribe();
                inner.subscribers.insert(client.id, Arc::downgrade(client));
                return vec![json!({"answer": "subscribed"}).to_string()];
            }
            None => {}
        }
        let answers = inner.stream.handle_numbered(number, text);
        inner.remember(text, &answers);
        inner.tell_subscribers(client.id, &answers);
        answers
    }

    fn left(&self, id: u64) {
        self.lock().subscribers.remove(&id);
    }
}

/// What `schedule --stdin` does not have.
enum OwnEvent {
    /// Marks the end of the answers to what was sent before.
    Ping,
    /// Hear what the events of others change.
    Subscribe,
}

fn own_event(line: &str) -> Option<OwnEvent> {
    // Longer lines are other events, and need not be parsed for this.
    let event: Value = match line.len() < 64 {
        true => serde_json::from_str(line).ok()?,
        false => return None,
    };
    match event {
        event if event == json!({"event": "ping"}) => Some(OwnEvent::Ping),
        event if event == json!({"event": "subscribe"}) => Some(OwnEvent::Subscribe),
        _ => None,
    }
}

impl Inner {
    fn remember(&mut self, line: &str, answers: &[String]) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let parsed: Vec<Value> = answers
            .iter()
            .flat_map(|it| serde_json::from_str(it))
            .collect();
        let kind = |answer: &Value| answer["answer"].as_str().unwrap_or_default().to_string();
        let changed = parsed
            .iter()
            .any(|it| !NO_CHANGE.contains(&kind(it).as_str()));
        if !changed {
            return;
        }
        let Ok(event) = serde_json::from_str(line) else {
            return;
        };
        let placed = parsed
            .iter()
            .filter(|it| ["placed", "moved"].contains(&kind(it).as_str()));
        let ids = placed.filter_map(|it| it["id"].as_str());
        let places: Places = ids
            .map(|id| (id.to_string(), self.stream.places(id)))
            .collect();
        let recorded = Recorded { event, places };
        if let Err(error) = journal.add(&recorded, &self.stream) {
            warning!("the state file is not written any more: {error}");
            self.journal = None;
        }
    }

    fn tell_subscribers(&mut self, from: u64, answers: &[String]) {
        if self.subscribers.is_empty() {
            return;
        }
        let private = |line: &str| {
            PRIVATE
                .iter()
                .any(|kind| line.starts_with(&format!(r#"{{"answer":"{kind}""#)))
        };
        for answer in answers.iter().filter(|line| !private(line)) {
            let others = self.subscribers.iter().filter(|(id, _)| **id != from);
            for client in others.filter_map(|(_, client)| client.upgrade()) {
                client.tell(answer);
            }
        }
    }
}
