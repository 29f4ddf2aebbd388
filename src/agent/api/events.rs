//! `/v1/events`: as a list, or as a stream of server-sent events.

use super::query;
use super::shared::MOST_STREAMS;
use super::shared::Shared;
use crate::agent::board::Board;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use crate::http::connections::Busy;
use axum::Extension;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use jostle_profile::node::Event;
use serde::Serialize;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::watch;

/// Silence after which a comment is sent, so that both sides notice a dead connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
pub const STREAM: &str = "text/event-stream";

/// What happened.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventList {
    /// Oldest first; the last 1,000 are kept.
    events: Vec<Event>,
}

pub async fn events(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    Extension(busy): Extension<Arc<Busy>>,
    headers: HeaderMap,
) -> Answer {
    let after = after(query.as_deref(), &headers)?;
    let accept = headers.get_all(header::ACCEPT).iter();
    let mut accept = accept.filter_map(|value| value.to_str().ok());
    if !accept.any(|value| value.contains(STREAM)) {
        let events = shared.board.events(after);
        return Ok(json(&EventList { events }));
    }
    let permit = shared.streams.clone().try_acquire_owned().map_err(|_| {
        let problem = format!("{MOST_STREAMS} event streams are open; close one");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem)
    })?;
    let changes = shared.changes.clone();
    let telling = Telling {
        board: shared.board.clone(),
        changes,
        closing: shared.closing.clone(),
        after,
        refresh: None,
        begun: false,
        _busy: busy,
        _permit: permit,
    };
    let frames = stream::unfold(telling, |mut telling| async move {
        let text = telling.next().await?;
        Some((Ok::<Bytes, Infallible>(text.into()), telling))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let value = HeaderValue::from_static(STREAM);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    Ok(response)
}

/// The number of the event that the client has last seen.
fn after(query: Option<&str>, headers: &HeaderMap) -> Result<u64, Problem> {
    let number = |what: &str, text: &str| {
        let wrong = || Problem::bad_request(format!("{what}: write the number of an event"));
        text.parse().map_err(|_| wrong())
    };
    // An empty one is what a browser sends that has not seen any.
    let last = headers.get("last-event-id").filter(|it| !it.is_empty());
    match (last, query::value(query, "after")) {
        (Some(value), _) => number("Last-Event-ID", value.to_str().unwrap_or_default()),
        (None, Some(text)) => number("after", &text),
        (None, None) => Ok(0),
    }
}

/// One stream.
struct Telling {
    board: Arc<Board>,
    changes: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    after: u64,
    /// The last one that was announced.
    refresh: Option<u64>,
    begun: bool,
    _busy: Arc<Busy>,
    _permit: OwnedSemaphorePermit,
}

impl Telling {
    /// What to send next; `None` when the server ends.
    async fn next(&mut self) -> Option<String> {
        loop {
            if *self.closing.borrow() {
                return None;
            }
            let news = self.news();
            if !news.is_empty() {
                return Some(news);
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                _ = self.closing.changed() => return None,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(": nothing new\n\n".into()),
            }
        }
    }

    fn news(&mut self) -> String {
        let mut text = String::new();
        if !self.begun {
            self.begun = true;
            text.push_str("retry: 2000\n\n");
        }
        for event in self.board.events(self.after) {
            let data = serde_json::to_string(&event).expect("plain data");
            let id = event.id;
            let _ = write!(text, "id: {id}\nevent: event\ndata: {data}\n\n");
            self.after = id;
        }
        let refresh = self.board.node().map(|it| it.state.refresh);
        if let Some(number) = refresh.filter(|_| refresh != self.refresh) {
            self.refresh = refresh;
            let _ = write!(text, "event: refresh\ndata: {{\"refresh\":{number}}}\n\n");
        }
        text
    }
}
