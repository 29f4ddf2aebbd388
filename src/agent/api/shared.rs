//! What the handlers share.

use super::apps::Apps;
use crate::agent::board::Board;
use crate::agent::board::Published;
use crate::agent::store::Store;
use crate::http::answer::Problem;
use crate::http::connections::Connections;
use crate::http::requests::Requests;
use axum::http::StatusCode;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::sync::watch;

/// Most connections at a time, over all sockets.
pub const MOST_CONNECTIONS: usize = 256;

/// Most event streams at a time.
pub const MOST_STREAMS: usize = 32;

pub struct Shared {
    pub board: Arc<Board>,
    pub store: Arc<Store>,
    pub connections: Arc<Connections>,
    /// Event streams that may still be opened.
    pub streams: Arc<Semaphore>,
    /// Changes whenever the board does.
    pub changes: watch::Receiver<u64>,
    /// Becomes true when the server ends.
    pub closing: watch::Receiver<bool>,
    pub apps: Apps,
    pub requests: Requests,
}

impl Shared {
    pub fn new(board: Arc<Board>, store: Arc<Store>, closing: watch::Receiver<bool>) -> Self {
        let (changed, changes) = watch::channel(0);
        board.subscribe(move || changed.send_modify(|count| *count += 1));
        Shared {
            board,
            store,
            connections: Arc::new(Connections::new(MOST_CONNECTIONS)),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            changes,
            closing,
            apps: Apps::default(),
            requests: Requests::default(),
        }
    }

    pub fn open_streams(&self) -> usize {
        MOST_STREAMS - self.streams.available_permits()
    }

    /// The newest node state.
    ///
    /// # Errors
    /// 503 before the first.
    pub fn node(&self) -> Result<Arc<Published>, Problem> {
        self.board.node().ok_or_else(|| {
            let problem = "the agent has not read the node yet; try again in a moment";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem)
        })
    }
}
