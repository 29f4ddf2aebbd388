//! The remote end of `network-bandwidth`: counts what arrives and reports it.
//!
//! It stores nothing, connects nowhere, and answers only on connections that
//! were opened to it, so it cannot be made to send to anybody else. Every
//! connection and every listening address has a thread; how many there can be
//! is bounded. The protocol is `jostle_kernels::network::protocol`.

mod connection;
mod datagrams;
mod notes;
mod session;
mod waiting;

use crate::sink::session::Sessions;
use crate::sink::waiting::Waiting;
use jostle_kernels::network::secret::Secret;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt;
use socket2::Domain;
use socket2::Protocol;
use socket2::Socket;
use socket2::Type;
use std::io;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// What a sink allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions at a time of one host.
    pub of_one_host: usize,
    /// A session to which nothing was sent for this long is ended.
    pub idle: Duration,
}

/// Connections of one session: the control connection, and room for those that
/// carry payload.
const CONNECTIONS_OF_SESSION: usize = 9;
/// Room for connections that have not said yet what they are, or are just ending.
const OTHERS: usize = 64;
/// Asked for the queue of arriving datagrams, bytes; the system may give less.
const DATAGRAM_QUEUE: usize = 4 << 20;
/// Between two attempts when the system refuses connections for the moment.
const RETRY: Duration = Duration::from_millis(100);

/// A sink that listens, until the process ends.
pub struct Sink {
    /// Where it listens, TCP and UDP.
    pub addresses: Vec<SocketAddr>,
}

impl Sink {
    /// Listens on each of `addresses` (port 0: a free one) and serves whoever
    /// comes and knows `secret`, where there is one. `note` is called with every session
    /// that begins or ends.
    ///
    /// # Errors
    /// The address that cannot be listened on, and why.
    pub fn start(
        addresses: &[SocketAddr],
        limits: Limits,
        secret: Option<&Secret>,
        note: fn(&str),
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let sessions = Arc::new(Sessions::new(limits, secret.cloned(), note));
        let bound: Vec<(TcpListener, UdpSocket)> = addresses
            .iter()
            .map(|&address| bind(address).map_err(|error| (address, error)))
            .collect::<Result<_, _>>()?;
        let mut listening = Vec::new();
        let most = limits.sessions * CONNECTIONS_OF_SESSION + OTHERS;
        let open = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::new(Waiting::default());
        for ((listener, socket), &asked) in bound.into_iter().zip(addresses) {
            listening.push(listener.local_addr().map_err(|error| (asked, error))?);
            let here = sessions.clone();
            thread::spawn(move || datagrams::count(&socket, &here));
            let door = Accepted {
                sessions: sessions.clone(),
                waiting: waiting.clone(),
                open: open.clone(),
                most,
            };
            thread::spawn(move || door.accept(&listener));
        }
        Ok(Sink {
            addresses: listening,
        })
    }
}

/// What the threads of all listening addresses share.
struct Accepted {
    sessions: Arc<Sessions>,
    waiting: Arc<Waiting>,
    /// Connections now, and at most.
    open: Arc<AtomicUsize>,
    most: usize,
}

impl Accepted {
    fn accept(&self, listener: &TcpListener) {
        loop {
            let Ok((stream, from)) = listener.accept() else {
                // Out of descriptors, or the connection is gone already.
                thread::sleep(RETRY);
                continue;
            };
            if self.open.fetch_add(1, Relaxed) >= self.most {
                self.open.fetch_sub(1, Relaxed);
                continue;
            }
            if !self.serve(stream, from) {
                self.open.fetch_sub(1, Relaxed);
                thread::sleep(RETRY);
            }
        }
    }

    /// False when the system has no room for another connection.
    fn serve(&self, stream: TcpStream, from: SocketAddr) -> bool {
        let Ok(number) = self.waiting.enter(&stream, from.ip()) else {
            return false;
        };
        let (sessions, waiting) = (self.sessions.clone(), self.waiting.clone());
        let open = self.open.clone();
        let serve = move || {
            connection::serve(stream, from, &sessions, || waiting.spoke(number));
            open.fetch_sub(1, Relaxed);
        };
        let started = thread::Builder::new().spawn(serve).is_ok();
        if !started {
            self.waiting.spoke(number);
        }
        started
    }
}

/// TCP and UDP on the same address; of IPv6 the address means IPv6 alone.
fn bind(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let socket = |kind, protocol, address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        io::Result::Ok(socket)
    };
    let tcp = socket(Type::STREAM, Protocol::TCP, address)?;
    tcp.set_reuse_address(true)?;
    tcp.bind(&address.into())?;
    tcp.listen(64)?;
    let tcp = TcpListener::from(tcp);
    let address = tcp.local_addr()?;
    let udp = socket(Type::DGRAM, Protocol::UDP, address)?;
    // Root may go above the system's limit; others get what it allows.
    if setsockopt(&udp, sockopt::RcvBufForce, &DATAGRAM_QUEUE).is_err() {
        udp.set_recv_buffer_size(DATAGRAM_QUEUE)?;
    }
    udp.bind(&address.into())?;
    Ok((tcp, UdpSocket::from(udp)))
}
