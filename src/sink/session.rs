//! What the sink knows of its sessions.

use crate::sink::Limits;
use crate::sink::notes::Notes;
use jostle_host::machine::format_bytes;
use jostle_kernels::network::protocol::Header;
use jostle_kernels::network::protocol::Report;
use jostle_kernels::network::protocol::Token;
use jostle_kernels::network::protocol::Transport;
use jostle_kernels::network::secret::Secret;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hash::RandomState;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Connections with payload that one session may have.
const STREAMS: usize = 8;

/// All open sessions.
pub struct Sessions {
    pub limits: Limits,
    secret: Option<Secret>,
    /// Told of every session that begins or ends.
    notes: Notes,
    open: Mutex<HashMap<Token, Arc<Session>>>,
}

/// One source, and what arrived of what it sent.
pub struct Session {
    pub token: Token,
    pub transport: Transport,
    from: SocketAddr,
    began: Instant,
    bytes: AtomicU64,
    datagrams: AtomicU64,
    reordered: AtomicU64,
    /// One more than the highest sequence number seen.
    expected: AtomicU64,
    /// Connections with payload, which end with the session; `None` once it has.
    streams: Mutex<Option<Vec<TcpStream>>>,
}

/// What a thread that panicked left behind is still plain data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// `secret` is what a source has to know, if anything.
    pub fn new(limits: Limits, secret: Option<Secret>, note: fn(&str)) -> Self {
        Sessions {
            limits,
            secret,
            notes: Notes::new(note),
            open: Mutex::default(),
        }
    }

    /// Whether a source that gave `secret`, or none, is served.
    ///
    /// # Errors
    /// Why not, for the source's user.
    pub fn admits(&self, secret: Option<&Secret>) -> Result<(), String> {
        match &self.secret {
            Some(asked) if !asked.admits(secret) => Err(match secret {
                None => "it asks for a secret; give the file with --peer-secret-file".to_string(),
                Some(_) => "the secret is another one".to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Opens a session for the source at `from`.
    ///
    /// # Errors
    /// In words, when there are as many as may be.
    pub fn begin(&self, from: SocketAddr, transport: Transport) -> Result<Arc<Session>, String> {
        let mut open = lock(&self.open);
        if open.len() >= self.limits.sessions {
            return Err(format!(
                "it serves {} sessions already, as many as it may; end one or start it with a \
                 larger --sessions",
                open.len()
            ));
        }
        let of_one = open.values().filter(|one| one.from.ip() == from.ip());
        if of_one.count() >= self.limits.of_one_host {
            return Err(format!(
                "it serves {} sessions of {} already, as many as it may of one host; end one or \
                 start it with a larger --sessions-per-host",
                self.limits.of_one_host,
                from.ip()
            ));
        }
        // Each RandomState is keyed by the system's randomness.
        let token = Token(RandomState::new().hash_one(Instant::now()));
        let session = Arc::new(Session {
            token,
            transport,
            from,
            began: Instant::now(),
            bytes: AtomicU64::new(0),
            datagrams: AtomicU64::new(0),
            reordered: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            streams: Mutex::new(Some(Vec::new())),
        });
        open.insert(token, session.clone());
        self.notes
            .tell(format!("{from} sends over {}", transport.as_str()));
        Ok(session)
    }

    /// The open session with this token.
    pub fn find(&self, token: Token) -> Option<Arc<Session>> {
        lock(&self.open).get(&token).cloned()
    }

    /// Ends a session and what belongs to it.
    pub fn end(&self, session: &Session, why: &str) {
        lock(&self.open).remove(&session.token);
        for stream in lock(&session.streams).take().into_iter().flatten() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.notes.tell(session.summary(why));
    }
}

impl Session {
    /// Takes a connection with payload in. False when the session has ended or
    /// has enough of them.
    pub fn join(&self, stream: &TcpStream) -> bool {
        match (lock(&self.streams).as_mut(), stream.try_clone()) {
            (Some(open), Ok(stream)) if open.len() < STREAMS => {
                open.push(stream);
                true
            }
            _ => false,
        }
    }

    /// A connection that joined is over.
    pub fn leave(&self, stream: &TcpStream) {
        // Unknown after a reset: those that were reset go, whosever they are.
        let from = stream.peer_addr().ok();
        if let Some(open) = lock(&self.streams).as_mut() {
            open.retain(|one| one.peer_addr().is_ok_and(|other| Some(other) != from));
        }
    }

    /// Counts payload of a stream.
    pub fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts one datagram of `bytes`.
    pub fn count_datagram(&self, header: Header, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.datagrams.fetch_add(1, Relaxed);
        let next = header.sequence.saturating_add(1);
        if self.expected.fetch_max(next, Relaxed) > header.sequence {
            self.reordered.fetch_add(1, Relaxed);
        }
    }

    pub fn report(&self) -> Report {
        let datagrams = self.datagrams.load(Relaxed);
        Report {
            bytes: self.bytes.load(Relaxed),
            datagrams,
            lost: self.expected.load(Relaxed).saturating_sub(datagrams),
            reordered: self.reordered.load(Relaxed),
        }
    }

    fn summary(&self, why: &str) -> String {
        let report = self.report();
        let datagrams = match self.transport {
            Transport::Tcp => String::new(),
            Transport::Udp => format!(
                " in {} datagrams ({} lost, {} out of order)",
                report.datagrams, report.lost, report.reordered
            ),
        };
        format!(
            "{} {why}: {} arrived over {}{datagrams} in {:.1} s",
            self.from,
            format_bytes(report.bytes),
            self.transport.as_str(),
            self.began.elapsed().as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sessions(most: usize) -> Sessions {
        let limits = Limits {
            sessions: most,
            of_one_host: most,
            idle: Duration::from_secs(60),
        };
        Sessions::new(limits, None, |_| {})
    }

    fn anybody() -> SocketAddr {
        ([127, 0, 0, 1], 9).into()
    }

    #[test]
    fn no_more_sessions_than_allowed() {
        let sessions = sessions(2);
        let first = sessions.begin(anybody(), Transport::Tcp).unwrap();
        let second = sessions.begin(anybody(), Transport::Udp).unwrap();
        assert_ne!(first.token, second.token);
        let reason = sessions.begin(anybody(), Transport::Tcp).err().unwrap();
        assert!(reason.contains("--sessions"), "{reason}");
        sessions.end(&first, "left");
        assert!(sessions.find(first.token).is_none());
        sessions.begin(anybody(), Transport::Tcp).unwrap();
    }

    #[test]
    fn datagrams_are_counted_as_lost_and_out_of_order() {
        let session = sessions(1).begin(anybody(), Transport::Udp).unwrap();
        for sequence in [0, 1, 4, 3, 6] {
            let header = Header {
                token: session.token,
                sequence,
            };
            session.count_datagram(header, 100);
        }
        let report = session.report();
        assert_eq!((report.bytes, report.datagrams), (500, 5));
        assert_eq!((report.lost, report.reordered), (2, 1));
    }
}
