//! The thread that accepts connections and serves them.

use super::connections::Guest;
use super::door;
use super::door::Door;
use super::patient::Patient;
use super::routes;
use super::shared::Shared;
use super::socket::SocketFile;
use super::tcp::Tcp;
use super::tls::Tls;
use crate::agent::board::Board;
use crate::agent::config::ApiSection;
use crate::agent::store::Store;
use crate::error::Error;
use crate::error::Result;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tower::ServiceExt;

/// Longest that a client may take to send the head of a request, from the end of
/// the answer before, and to shake hands.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// Largest head of a request, bytes.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// How long requests may go on when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Pause after the kernel refused a connection, as it does without file descriptors.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    content-length: 45\r\nretry-after: 1\r\nconnection: close\r\n\r\n\
    {\"error\":\"too many connections; close a few\"}";

/// The API while it is served; dropping it ends it too.
pub struct ApiHandle {
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    tcp: Option<SocketAddr>,
}

impl ApiHandle {
    /// Where TCP is listened on: with the port that was chosen where 0 was
    /// configured.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Ends within a second; requests that are being answered are answered.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for ApiHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves what `board` and `store` hold, on the sockets of `config`, from a thread of
/// its own.
///
/// # Errors
/// A request error that names the key: a socket on which another agent listens, an
/// address that is taken, TCP without the protection that it needs, a file that
/// cannot be used.
pub fn serve(config: &ApiSection, board: Arc<Board>, store: Arc<Store>) -> Result<ApiHandle> {
    let tcp = Tcp::listen(config)?;
    let socket = match config.socket.as_os_str().is_empty() {
        true => None,
        false => Some(SocketFile::listen(config)?),
    };
    let (closing, closed) = watch::channel(false);
    let shared = Arc::new(Shared::new(board, store, closed));
    let address = tcp.as_ref().map(|tcp| tcp.address);
    let thread = match (&socket, &tcp) {
        (None, None) => None,
        _ => {
            let runtime = runtime().map_err(Error::environment)?;
            let builder = std::thread::Builder::new().name("jostle-api".into());
            let started = builder.spawn(move || run(runtime, socket, tcp, shared));
            Some(started.map_err(Error::environment)?)
        }
    };
    Ok(ApiHandle {
        closing,
        thread,
        tcp: address,
    })
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // For predictions, which take milliseconds.
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::from_secs(1))
        .thread_name("jostle-api-work")
        .build()
}

fn run(runtime: Runtime, socket: Option<SocketFile>, tcp: Option<Tcp>, shared: Arc<Shared>) {
    let served: io::Result<()> = runtime.block_on(async {
        let mut closing = shared.closing.clone();
        if let Some(socket) = &socket {
            let listener = UnixListener::from_std(socket.listener.try_clone()?)?;
            let door = Door {
                shared: shared.clone(),
                token: None,
                only_loopback_names: false,
            };
            let router = door::behind(door, routes::router(&shared));
            tokio::spawn(accept_unix(listener, router, shared.clone()));
        }
        if let Some(tcp) = tcp {
            let listener = TcpListener::from_std(tcp.listener)?;
            let door = Door {
                shared: shared.clone(),
                token: tcp.token,
                only_loopback_names: tcp.tls.is_none(),
            };
            let router = door::behind(door, routes::router(&shared));
            tokio::spawn(accept_tcp(listener, tcp.tls, router, shared.clone()));
        }
        let _ = closing.wait_for(|closing| *closing).await;
        // Nothing is accepted any more.
        drop(socket);
        let all_gone = async {
            while shared.connections.open() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, all_gone).await;
        Ok(())
    });
    if let Err(error) = served {
        tracing::error!("the API is not served: {error}");
    }
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn accept_unix(listener: UnixListener, router: Router, shared: Arc<Shared>) {
    let mut closing = shared.closing.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let Some((stream, _)) = fit(accepted).await else {
            continue;
        };
        let Some(guest) = shared.connections.admit() else {
            refuse_unix(&stream);
            continue;
        };
        tokio::spawn(converse(stream, guest, router.clone(), closing.clone()));
    }
}

async fn accept_tcp(listener: TcpListener, tls: Option<Tls>, router: Router, shared: Arc<Shared>) {
    let mut closing = shared.closing.clone();
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
        let Some(guest) = shared.connections.admit() else {
            refuse_tcp(&stream, tls.is_some());
            continue;
        };
        match tls.clone() {
            None => {
                tokio::spawn(converse(stream, guest, router.clone(), closing.clone()));
            }
            Some(tls) => {
                let (router, closing) = (router.clone(), closing.clone());
                tokio::spawn(async move {
                    let shake = tokio::time::timeout(LONGEST_HEAD, tls.accept(stream));
                    let shaken = tokio::select! {
                        shaken = shake => shaken,
                        () = guest.told_to_leave() => return,
                    };
                    match shaken {
                        Ok(Ok(stream)) => converse(stream, guest, router, closing).await,
                        Ok(Err(error)) => tracing::debug!("TLS: {error}"),
                        Err(_) => {}
                    }
                });
            }
        }
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

/// Serves one connection until it is closed, replaced, or the server ends.
async fn converse<S>(stream: S, guest: Guest, router: Router, mut closing: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let guest = &guest;
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
        .header_read_timeout(LONGEST_HEAD)
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
