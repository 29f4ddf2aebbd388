//! Which Unix sockets are connected with which: only netlink tells
//! (`man 7 sock_diag`).

use nix::sys::socket::AddressFamily;
use nix::sys::socket::MsgFlags;
use nix::sys::socket::SockFlag;
use nix::sys::socket::SockProtocol;
use nix::sys::socket::SockType;
use nix::sys::socket::recv;
use nix::sys::socket::send;
use nix::sys::socket::setsockopt;
use nix::sys::socket::socket;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::time::TimeVal;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
/// Of `nlmsghdr` and `unix_diag_msg`.
const HEAD: usize = 16;
const MESSAGE: usize = 16;

/// The inode of the other end by the inode of each connected Unix socket of our
/// network namespace.
///
/// # Errors
/// When the kernel has no such interface (`CONFIG_UNIX_DIAG`).
pub fn unix_peers() -> io::Result<HashMap<u64, u64>> {
    let fd = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    setsockopt(&fd, ReceiveTimeout, &TimeVal::new(1, 0))?;
    send(fd.as_raw_fd(), &request(), MsgFlags::empty())?;
    let mut peers = HashMap::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        if length == 0 || take(&buffer[..length], &mut peers)? {
            return Ok(peers);
        }
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40u32.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // AF_UNIX, any protocol, all states, all inodes.
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(SHOW_PEER.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Adds what the messages in `bytes` say; whether it was the last of them.
fn take(bytes: &[u8], peers: &mut HashMap<u64, u64>) -> io::Result<bool> {
    let mut rest = bytes;
    while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
        let length = length as usize;
        if length < HEAD || length > rest.len() {
            break;
        }
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let code = u32_at(rest, HEAD).map_or(0, |code| code as i32);
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => {
                let inode = u32_at(&rest[..length], HEAD + 4);
                let peer = attribute(&rest[..length], PEER);
                if let (Some(inode), Some(peer)) = (inode, peer) {
                    peers.insert(u64::from(inode), u64::from(peer));
                }
            }
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Ok(false)
}

/// The number in an attribute of one message.
fn attribute(message: &[u8], wanted: u16) -> Option<u32> {
    let mut at = HEAD + MESSAGE;
    while let (Some(length), Some(kind)) = (u16_at(message, at), u16_at(message, at + 2)) {
        if kind == wanted {
            return u32_at(message, at + 4);
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn inode(stream: &UnixStream) -> u64 {
        let link = format!("/proc/self/fd/{}", stream.as_raw_fd());
        let text = std::fs::read_link(link).unwrap();
        let text = text.to_string_lossy().into_owned();
        let number = text.trim_start_matches("socket:[").trim_end_matches(']');
        number.parse().unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_name_each_other() {
        let (one, other) = UnixStream::pair().unwrap();
        let Ok(peers) = unix_peers() else {
            // Without the interface there is an error and no answer.
            return;
        };
        assert_eq!(peers.get(&inode(&one)), Some(&inode(&other)));
        assert_eq!(peers.get(&inode(&other)), Some(&inode(&one)));
    }

    #[test]
    fn broken_messages_are_no_answer() {
        let mut peers = HashMap::new();
        assert!(!take(&[1, 2, 3], &mut peers).unwrap());
        let mut long = request();
        long[0] = 200;
        assert!(!take(&long, &mut peers).unwrap());
        let mut error = request();
        error[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        error[16..20].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        let error = take(&error, &mut peers).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(peers.is_empty());
    }
}
