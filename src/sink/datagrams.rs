//! Counting datagrams of all sessions on one address.

use crate::sink::session::Session;
use crate::sink::session::Sessions;
use jostle_kernels::network::protocol::Header;
use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::recv;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Counts until the process ends. What belongs to no session is thrown away
/// without an answer.
pub fn count(socket: &UdpSocket, sessions: &Sessions) {
    let mut header = [0; Header::BYTES];
    // The session of the last one: most come in rows from one source. Looked up
    // again now and then, so that an ended session is not held for ever.
    let mut last: Option<Arc<Session>> = None;
    let mut hits = 0u32;
    loop {
        // With MSG_TRUNC the length is the whole datagram's; only its header is
        // copied.
        let bytes = match recv(socket.as_raw_fd(), &mut header, MsgFlags::MSG_TRUNC) {
            Ok(bytes) => bytes,
            Err(Errno::EINTR) => continue,
            Err(_) => {
                sleep(Duration::from_millis(1));
                continue;
            }
        };
        let Some(read) = Header::read(&header[..bytes.min(Header::BYTES)]) else {
            continue;
        };
        hits = hits.wrapping_add(1);
        let known = last
            .as_ref()
            .is_some_and(|session| session.token == read.token && !hits.is_multiple_of(1024));
        if !known {
            last = sessions.find(read.token);
        }
        if let Some(session) = &last {
            session.count_datagram(read, bytes as u64);
        }
    }
}
