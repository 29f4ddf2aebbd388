//! Handing payload to the network: one TCP connection or one UDP socket.

use crate::Failure;
use crate::network::Traffic;
use crate::network::protocol::Header;
use crate::network::protocol::Opening;
use crate::network::protocol::Transport;
use crate::network::session::Session;
use crate::network::session::connect;
use crate::weyl::GOLDEN;
use crate::weyl::xorshift;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use socket2::SockRef;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;

/// Most that one call hands over: fewer calls where the CPU is the limit.
pub const PIECE: usize = 256 << 10;
/// Longest datagram, with all headers.
const LONGEST_DATAGRAM: usize = 65_535;
/// Bytes that may wait unsent in the socket. Enough to keep the device busy
/// until the worker is back; more would still be sent long after treatment
/// ended.
const UNSENT: u32 = 512 << 10;
/// What every IPv4 (IPv6) path must carry, less the headers of IP and UDP; for
/// a path of unknown MTU that of Ethernet.
const ETHERNET: usize = 1500;

/// Where payload goes.
pub enum Wire {
    Tcp {
        stream: TcpStream,
        payload: Vec<u8>,
    },
    Udp {
        socket: UdpSocket,
        datagram: Vec<u8>,
        next: Header,
    },
}

impl Wire {
    /// Opens the way for payload of `session` to the same peer.
    pub fn open(traffic: &Traffic, session: &Session) -> Result<Self, Failure> {
        let failure = |error: io::Error| Failure::new(format!("{traffic}: {error}"));
        match traffic.transport {
            Transport::Tcp => {
                let mut stream = connect(traffic)?;
                stream
                    .write_all(Opening::Data(session.token).line().as_bytes())
                    .and_then(|()| SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT))
                    .and_then(|()| stream.set_nonblocking(true))
                    .map_err(failure)?;
                Ok(Wire::Tcp {
                    stream,
                    payload: noise(PIECE),
                })
            }
            Transport::Udp => {
                let any: SocketAddr = match traffic.peer {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any).map_err(failure)?;
                socket
                    .connect(traffic.peer)
                    .and_then(|()| socket.set_nonblocking(true))
                    .map_err(failure)?;
                Ok(Wire::Udp {
                    datagram: noise(datagram_bytes(&socket, traffic.peer)),
                    socket,
                    next: Header {
                        token: session.token,
                        sequence: 0,
                    },
                })
            }
        }
    }

    /// Hands over the beginning of a message of which `left` bytes are left,
    /// without waiting; the bytes taken. A datagram is never shorter than its
    /// header.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room at the moment; anything else when the
    /// way is gone.
    pub fn send(&mut self, left: usize) -> io::Result<usize> {
        let sent = match self {
            Wire::Tcp { stream, payload } => stream.write(&payload[..left.min(PIECE)]),
            Wire::Udp {
                socket,
                datagram,
                next,
            } => {
                let bytes = left.clamp(Header::BYTES, datagram.len());
                next.write(datagram);
                let sent = socket.send(&datagram[..bytes]);
                match &sent {
                    Ok(_) => next.sequence += 1,
                    Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                        // The path became narrower.
                        let narrower = datagram_bytes(socket, socket.peer_addr()?);
                        if narrower < datagram.len() {
                            datagram.truncate(narrower);
                            return Err(io::ErrorKind::WouldBlock.into());
                        }
                    }
                    Err(_) => {}
                }
                sent
            }
        };
        match sent {
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted
                    || error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                Err(io::ErrorKind::WouldBlock.into())
            }
            sent => sent,
        }
    }

    /// Waits until there may be room again, at most a millisecond.
    pub fn wait(&self) {
        let fd = match self {
            Wire::Tcp { stream, .. } => stream.as_fd(),
            Wire::Udp { socket, .. } => socket.as_fd(),
        };
        // Whatever it says, the next attempt to send will know better.
        let _ = poll(
            &mut [PollFd::new(fd, PollFlags::POLLOUT)],
            PollTimeout::from(1u8),
        );
    }
}

/// Bytes that do not compress, from a fixed seed.
fn noise(bytes: usize) -> Vec<u8> {
    std::iter::successors(Some(xorshift(GOLDEN)), |&state| Some(xorshift(state)))
        .map(|state| state as u8)
        .take(bytes)
        .collect()
}

/// Payload of the largest datagram that reaches `peer` in one piece, as far as
/// is known now.
fn datagram_bytes(socket: &UdpSocket, peer: SocketAddr) -> usize {
    let (level, option, headers) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 28),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the socket is open, and `mtu` and `length` are as large as said
    // and outlive the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut mtu).cast(),
            &mut length,
        )
    };
    let mtu = match usize::try_from(mtu) {
        Ok(mtu) if answer == 0 && mtu > headers + Header::BYTES => mtu,
        _ => ETHERNET,
    };
    mtu.min(LONGEST_DATAGRAM) - headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_fit_the_path() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some(socket) = crate::skip::have("ipv6", UdpSocket::bind(address)) else {
                continue;
            };
            let peer = socket.local_addr().unwrap();
            socket.connect(peer).unwrap();
            let bytes = datagram_bytes(&socket, peer);
            assert!((512..=PIECE).contains(&bytes), "{address}: {bytes}");
            socket.send(&noise(bytes)).unwrap();
        }
    }
}
