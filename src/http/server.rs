//! Accepting and serving connections.

use super::connections::Connections;
use super::connections::Guest;
use super::patient::Patient;
use super::tls::Tls;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tower::ServiceExt;

/// Longest time to shake hands.
const SHAKE: Duration = Duration::from_secs(5);
/// Largest head of a request, bytes.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Pause after the kernel refused a connection, as it does without file descriptors.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    content-length: 45\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
    {\"error\":\"too many connections; close a few\"}";

/// What is served, and with what limits.
#[derive(Clone)]
pub struct Host {
    pub router: Router,
    pub connections: Arc<Connections>,
    /// Becomes true when the server ends.
    pub closing: watch::Receiver<bool>,
    /// Longest that a client may take to send the head of a request, from the end of
    /// the answer before.
    pub longest_head: Duration,
}

impl Host {
    pub async fn accept_unix(self, listener: UnixListener) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            let Some((stream, _)) = fit(accepted).await else {
                continue;
            };
            let Some(guest) = self.connections.admit() else {
                refuse_unix(&stream);
                continue;
            };
            tokio::spawn(self.clone().converse(stream, guest));
        }
    }

    pub async fn accept_tcp(self, listener: TcpListener, tls: Option<Tls>) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            let Some((stream, _)) = fit(accepted).await else {
                continue;
            };
            // Answers are written in one piece.
            let _ = stream.set_nodelay(true);
            let Some(guest) = self.connections.admit() else {
                refuse_tcp(&stream, tls.is_some());
                continue;
            };
            match tls.clone() {
                None => {
                    tokio::spawn(self.clone().converse(stream, guest));
                }
                Some(tls) => {
                    let host = self.clone();
                    tokio::spawn(async move {
                        let shake = tokio::time::timeout(SHAKE, tls.accept(stream));
                        let shaken = tokio::select! {
                            shaken = shake => shaken,
                            () = guest.told_to_leave() => return,
                        };
                        match shaken {
                            Ok(Ok(stream)) => host.converse(stream, guest).await,
                            Ok(Err(error)) => tracing::debug!("TLS: {error}"),
                            Err(_) => {}
                        }
                    });
                }
            }
        }
    }

    /// Serves one connection until it is closed, replaced, or the server ends.
    async fn converse<S>(self, stream: S, guest: Guest)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut closing = self.closing;
        let (guest, router) = (&guest, &self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = Arc::new(guest.busy());
            request.extensions_mut().insert(busy.clone());
            let answer = router.clone().oneshot(request);
            async move {
                let answer = answer.await;
                drop(busy);
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.longest_head)
            .max_buf_size(MOST_HEAD_BYTES)
            .serve_connection(TokioIo::new(Patient::new(stream)), service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = guest.told_to_leave() => return,
            _ = closing.wait_for(|closing| *closing) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// The connection; after a failure a pause, so that this thread does not spin.
async fn fit<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(connection) => Some(connection),
        Err(error) => {
            tracing::debug!("a connection was not accepted: {error}");
            tokio::time::sleep(AFTER_REFUSAL).await;
            None
        }
    }
}

// Best effort: a client that does not read it sees the connection end.
fn refuse_unix(stream: &UnixStream) {
    let _ = stream.try_write(FULL);
}

fn refuse_tcp(stream: &TcpStream, tls: bool) {
    if !tls {
        let _ = stream.try_write(FULL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{}",
            body.len()
        );
    }
}
