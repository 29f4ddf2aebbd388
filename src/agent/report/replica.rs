//! One replica of the extender: what it was sent last, and when it is tried again.

use super::Target;
use super::document;
use crate::agent::board::Board;
use crate::agent::board::Published;
use crate::http::client;
use crate::http::client::Client;
use bytes::Bytes;
use hyper::Method;
use hyper::StatusCode;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pauses after a failure, from the first to the longest; each up to a quarter longer
/// or shorter, so that the agents of a cluster do not come all at once.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Refreshes are never exactly one interval apart.
const EARLY: f64 = 0.9;
/// Largest answer that is read.
const MOST_ANSWER: usize = 64 << 10;
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

pub struct Replica {
    target: Target,
    at: SocketAddr,
    board: Arc<Board>,
    client: Option<Client>,
    sent: Option<Sent>,
    /// One after another.
    failures: u32,
}

struct Sent {
    at: Instant,
    refresh: u64,
    gist: Vec<String>,
}

impl Replica {
    pub fn new(target: Target, at: SocketAddr, board: Arc<Board>) -> Replica {
        Replica {
            target,
            at,
            board,
            client: None,
            sent: None,
            failures: 0,
        }
    }

    /// Sends whatever is due after every change of the board.
    pub async fn run(mut self, mut changed: watch::Receiver<()>) {
        loop {
            if let Some(published) = self.board.node()
                && self.is_due(&published)
            {
                match self.send(&published).await {
                    Ok(()) => self.succeeded(&published),
                    Err(problem) => {
                        self.failed(&problem);
                        sleep(self.pause()).await;
                        // With the newest state.
                        continue;
                    }
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_due(&self, published: &Published) -> bool {
        let Some(sent) = &self.sent else {
            return true;
        };
        let late = sent.at.elapsed() >= self.target.interval.mul_f64(EARLY);
        // A replica that was restarted knows nothing of this node.
        let lost = !self.client.as_ref().is_some_and(Client::is_open);
        let is_new = published.state.refresh != sent.refresh;
        is_new && (late || lost || sent.gist != document::gist(&published.state))
    }

    async fn send(&mut self, published: &Published) -> Result<(), String> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                let trust = self.target.trust().map_err(|error| error.to_string())?;
                Client::at(self.at, self.target.address.clone(), trust)
            }
        };
        let token = self.target.token_file.as_ref().map(std::fs::read_to_string);
        let token = token.transpose();
        let token = token.map_err(|error| format!("report.token_file: {error}"))?;
        let token = token.as_deref().map(str::trim);
        let state = &published.state;
        let path = format!("/v1/nodes/{}", state.name);
        let refreshes = Duration::try_from_secs_f64(state.interval_seconds).unwrap_or_default();
        let interval = self.target.interval.max(refreshes);
        let body = Bytes::from(document::json(state, published.at.elapsed(), interval));
        let answer = client.send(Method::PUT, &path, token, body).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        // Read to its end, so that the connection can be used again.
        let text = client::body(answer, MOST_ANSWER, LONGEST_ANSWER).await;
        let text = text.map_err(|error| error.to_string())?;
        match status {
            StatusCode::OK => {
                self.client = Some(client);
                Ok(())
            }
            _ => {
                let text: String = String::from_utf8_lossy(&text).chars().take(300).collect();
                Err(format!("{status}: {text}"))
            }
        }
    }

    fn succeeded(&mut self, published: &Published) {
        if self.failures > 0 {
            tracing::info!("states are sent to {} again", self.at);
        }
        self.failures = 0;
        self.sent = Some(Sent {
            at: Instant::now(),
            refresh: published.state.refresh,
            gist: document::gist(&published.state),
        });
    }

    fn failed(&mut self, problem: &str) {
        if self.failures == 0 {
            tracing::warn!(
                "states cannot be sent to {}: {problem}; trying again",
                self.at
            );
        }
        self.failures = self.failures.saturating_add(1);
        self.sent = None;
    }

    fn pause(&self) -> Duration {
        let doubled = PAUSE.0 * 2u32.pow(self.failures.clamp(1, 10) - 1);
        // Other numbers in every process and for every failure.
        let random = RandomState::new().hash_one(self.failures) >> 32;
        let shift = random as f64 / f64::from(u32::MAX) - 0.5;
        doubled.min(PAUSE.1).mul_f64(1.0 + 0.5 * shift)
    }
}
