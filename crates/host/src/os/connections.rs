//! Who talks to whom on this machine: over TCP, Unix sockets and pipes.

use super::text;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// Both ends of a TCP connection: ours first.
type Ends = (SocketAddr, SocketAddr);
/// Network namespaces that are looked into.
const MOST_NAMESPACES: usize = 256;

/// What a process has open that somebody else may have the other end of: inodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Open {
    sockets: BTreeSet<u64>,
    reads: BTreeSet<u64>,
    writes: BTreeSet<u64>,
}

/// Descriptors of a process; none of one that may not be looked at.
fn open(root: &Path, pid: i32) -> Open {
    let mut open = Open::default();
    let directory = root.join(format!("proc/{pid}/fd"));
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    for entry in entries.flatten() {
        let Ok(link) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let link = link.to_string_lossy();
        if let Some(inode) = inode(&link, "socket:[") {
            open.sockets.insert(inode);
        } else if let Some(inode) = inode(&link, "pipe:[") {
            // The link's own permissions say how it was opened.
            let mode = entry.path().symlink_metadata();
            let mode = mode.map_or(0o600, |it| it.permissions().mode());
            if mode & 0o400 != 0 {
                open.reads.insert(inode);
            }
            if mode & 0o200 != 0 {
                open.writes.insert(inode);
            }
        }
    }
    open
}

fn inode(link: &str, kind: &str) -> Option<u64> {
    link.strip_prefix(kind)?.strip_suffix(']')?.parse().ok()
}

/// Processes among `others` that hold the other end of a connection of `own`, with
/// what connects them. `unix` tells the peer of each connected Unix socket.
pub fn peers(
    root: &Path,
    own: &[i32],
    others: &[i32],
    unix: &HashMap<u64, u64>,
) -> BTreeMap<i32, &'static str> {
    let mine: Vec<Open> = own.iter().map(|pid| open(root, *pid)).collect();
    let tcp = Tcp::of(root, others);
    let mut wanted: HashMap<u64, &'static str> = HashMap::new();
    let mut reads: BTreeSet<u64> = BTreeSet::new();
    let mut writes: BTreeSet<u64> = BTreeSet::new();
    for open in &mine {
        for socket in &open.sockets {
            if let Some(peer) = unix.get(socket) {
                wanted.insert(*peer, "a Unix socket");
            }
            for peer in tcp.peers(*socket) {
                wanted.insert(peer, "a TCP connection");
            }
        }
        reads.extend(&open.reads);
        writes.extend(&open.writes);
    }
    let mut found = BTreeMap::new();
    for pid in others.iter().filter(|pid| !own.contains(pid)) {
        let open = open(root, *pid);
        let socket = open.sockets.iter().find_map(|it| wanted.get(it));
        let pipe = || {
            let fed = open.writes.iter().any(|it| reads.contains(it));
            let feeds = open.reads.iter().any(|it| writes.contains(it));
            (fed || feeds).then_some(&"a pipe")
        };
        if let Some(how) = socket.or_else(pipe) {
            found.insert(*pid, *how);
        }
    }
    found
}

/// Whether a process has a TCP connection that leaves the machine.
pub fn talks_to_others(root: &Path, processes: &[i32]) -> bool {
    processes.iter().any(|pid| {
        let sockets = open(root, *pid).sockets;
        let tcp = Tcp::of(root, &[*pid]);
        let mut ends = sockets.iter().filter_map(|it| tcp.by_inode.get(it));
        ends.any(|(_, remote)| !remote.ip().is_loopback())
    })
}

/// Established TCP connections of all network namespaces that are seen.
#[derive(Default)]
struct Tcp {
    by_inode: HashMap<u64, Ends>,
    by_ends: HashMap<Ends, Vec<u64>>,
}

impl Tcp {
    fn of(root: &Path, processes: &[i32]) -> Tcp {
        let mut tcp = Tcp::default();
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        for pid in processes {
            let link = std::fs::read_link(root.join(format!("proc/{pid}/ns/net")));
            let namespace = link.unwrap_or_else(|_| PathBuf::from(pid.to_string()));
            if seen.len() >= MOST_NAMESPACES || !seen.insert(namespace) {
                continue;
            }
            for file in ["tcp", "tcp6"] {
                let path = format!("proc/{pid}/net/{file}");
                let Ok(text) = text::text(root, path) else {
                    continue;
                };
                for (ends, inode) in text.lines().filter_map(established) {
                    tcp.by_inode.insert(inode, ends);
                    tcp.by_ends.entry(ends).or_default().push(inode);
                }
            }
        }
        tcp
    }

    fn peers(&self, inode: u64) -> impl Iterator<Item = u64> {
        let ends = self.by_inode.get(&inode);
        let other = ends.and_then(|(local, remote)| self.by_ends.get(&(*remote, *local)));
        other.into_iter().flatten().copied()
    }
}

/// A line of `/proc/net/tcp` or `tcp6` of a connection that is established.
fn established(line: &str) -> Option<(Ends, u64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, ..] = words[..] else {
        return None;
    };
    let inode = words.get(9)?.parse().ok()?;
    (state == "01").then_some(((address(local)?, address(remote)?), inode))
}

/// `0100007F:1F90`: words of 32 bits in the machine's own byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = ip.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            // One end may write an IPv4 address as an IPv6 one.
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn addresses_of_both_families_meet() {
        let four = address("0100007F:1F90").unwrap();
        assert_eq!(four.to_string(), "127.0.0.1:8080");
        let mapped = address("0000000000000000FFFF00000100007F:1F90").unwrap();
        assert_eq!(mapped, four);
        let six = address("00000000000000000000000001000000:0050").unwrap();
        assert_eq!(six.to_string(), "[::1]:80");
        for wrong in ["", "x:1", "0100007F", "0100007:1", "0100007F:x"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_other_end_of_a_pipe_and_of_a_connection_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "cat >/dev/null"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let us = std::process::id() as i32;
        let pid = child.id() as i32;
        let found = || {
            let all = super::super::proc::processes(Path::new("/"));
            peers(Path::new("/"), &[us], &all, &HashMap::new())
        };
        assert_eq!(found().get(&pid), Some(&"a pipe"));
        drop(child.stdin.take());
        child.wait().unwrap();
        // Both ends are ours: nobody else's.
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let open = open(Path::new("/"), us);
        let link = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        let number = |fd: i32| inode(&link(fd).to_string_lossy(), "socket:[").unwrap();
        let (one, other) = (number(stream.as_raw_fd()), number(accepted.as_raw_fd()));
        assert!(open.sockets.contains(&one));
        let tcp = Tcp::of(Path::new("/"), &[us]);
        assert_eq!(tcp.peers(one).collect::<Vec<u64>>(), [other]);
        assert!(!talks_to_others(Path::new("/"), &[us]));
    }
}
