//! Whom to send to, and how.

use super::pattern::Message;
use super::pattern::Pattern;
use super::protocol::Transport;
use serde::Deserialize;
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Messages of at least this many bytes fill the segments of a stream.
const STREAM_BYTES: u32 = 64 << 10;

/// Whom to send to, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The resolved address: nothing goes anywhere else.
    pub peer: SocketAddr,
    /// The peer as the user wrote it.
    pub peer_name: String,
    pub transport: Transport,
    /// File with the secret that the sink asks for, if it does: the secret itself must
    /// not stand in a command line.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    pub pattern: Pattern,
    /// The pattern as the user named it.
    pub pattern_name: String,
    /// Most payload handed over, bytes per second.
    pub cap_bytes_per_second: Option<u64>,
}

impl Traffic {
    /// Whether where a message ends makes no difference on the wire.
    pub(super) fn is_stream(&self) -> bool {
        let large = |kind: &Message| kind.bytes >= STREAM_BYTES;
        self.transport == Transport::Tcp
            && !self.pattern.is_timed()
            && self.pattern.messages.iter().all(large)
    }
}

/// The peer as errors call it.
impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.peer.to_string();
        match self.peer_name == address {
            true => write!(f, "peer {address}"),
            false => write!(f, "peer {} ({address})", self.peer_name),
        }
    }
}
