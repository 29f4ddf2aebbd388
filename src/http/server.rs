//! Accepting and serving connections.

use super::connections::ConnectionSlot;
use super::connections::Connections;
use super::tls::Tls;
use super::write_timeout::WriteTimeout;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
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
        let next = |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|it| it.0);
        let serve = |host: Host, stream: UnixStream, slot| {
            tokio::spawn(host.serve_connection(stream, slot));
        };
        self.accept(next, refuse_unix, serve).await;
    }

    pub async fn accept_tcp(self, listener: TcpListener, tls: Option<Tls>) {
        let next = |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|it| it.0);
        let refuse = |stream: &TcpStream| refuse_tcp(stream, tls.is_some());
        let serve = |host: Host, stream: TcpStream, slot| {
            // Answers are written in one piece.
            let _ = stream.set_nodelay(true);
            match tls.clone() {
                None => drop(tokio::spawn(host.serve_connection(stream, slot))),
                Some(tls) => drop(tokio::spawn(host.serve_tls(tls, stream, slot))),
            }
        };
        self.accept(next, refuse, serve).await;
    }

    /// Serves what `next` gives until the server ends; refuses it at the limit.
    async fn accept<S>(
        self,
        next: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
        refuse: impl Fn(&S),
        serve: impl Fn(Host, S, ConnectionSlot),
    ) {
        let mut closing = self.closing.clone();
        loop {
            let accepted = tokio::select! {
                accepted = poll_fn(&next) => accepted,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            match accepted {
                Ok(stream) => match self.connections.admit() {
                    Some(slot) => serve(self.clone(), stream, slot),
                    None => refuse(&stream),
                },
                Err(error) => {
                    tracing::debug!("a connection was not accepted: {error}");
                    tokio::time::sleep(AFTER_REFUSAL).await;
                }
            }
        }
    }

    async fn serve_tls(self, tls: Tls, stream: TcpStream, slot: ConnectionSlot) {
        let handshake = tokio::time::timeout(SHAKE, tls.accept(stream));
        let done = tokio::select! {
            done = handshake => done,
            () = slot.displaced_by_another() => return,
        };
        match done {
            Ok(Ok(stream)) => self.serve_connection(stream, slot).await,
            Ok(Err(error)) => tracing::debug!("TLS: {error}"),
            Err(_) => {}
        }
    }

    /// Serves one connection until it is closed, replaced, or the server ends.
    async fn serve_connection<S>(self, stream: S, slot: ConnectionSlot)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut closing = self.closing;
        let (slot, router) = (&slot, &self.router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = Arc::new(slot.busy());
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
            .serve_connection(TokioIo::new(WriteTimeout::new(stream)), service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = slot.displaced_by_another() => return,
            _ = closing.wait_for(|closing| *closing) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
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
