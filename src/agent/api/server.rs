//! The thread that accepts connections and serves them.

use super::guard;
use super::routes;
use super::shared::Shared;
use super::socket::SocketFile;
use crate::agent::board::Board;
use crate::agent::config::ApiSection;
use crate::agent::store::Store;
use crate::http::access::AccessControl;
use crate::http::naming::Naming;
use crate::http::server::Host;
use crate::http::tcp::Options;
use crate::http::tcp::Tcp;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Longest that a client may take to send the head of a request, from the end of
/// the answer before, and to shake hands.
const LONGEST_HEAD: Duration = Duration::from_secs(5);
/// How long requests may go on when the server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
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
    let tcp = Tcp::listen(&tcp_options(config))?;
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
            let access = AccessControl {
                token: None,
                only_loopback_names: false,
                server: "agent",
            };
            let host = host(&shared, access);
            tokio::spawn(host.accept_unix(listener));
        }
        if let Some(tcp) = tcp {
            let listener = TcpListener::from_std(tcp.listener)?;
            let access = AccessControl {
                token: tcp.token,
                only_loopback_names: tcp.tls.is_none(),
                server: "agent",
            };
            let host = host(&shared, access);
            tokio::spawn(host.accept_tcp(listener, tcp.tls));
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

fn host(shared: &Arc<Shared>, access: AccessControl) -> Host {
    Host {
        router: guard::behind(shared.clone(), access, routes::router(shared)),
        connections: shared.connections.clone(),
        closing: shared.closing.clone(),
        longest_head: LONGEST_HEAD,
    }
}

fn tcp_options(config: &ApiSection) -> Options<'_> {
    Options {
        naming: Naming::Section("api"),
        setting: "tcp",
        address: config.tcp.as_deref(),
        certificate: config.certificate.as_deref(),
        key: config.key.as_deref(),
        client_ca: config.client_ca.as_deref(),
        token_file: config.token_file.as_deref(),
    }
}
