//! One socket, and what is in flight on it.

use crate::channel::Channel;
use crate::http2::Session;
use crate::protocol::Operation;
use crate::protocol::Parser;
use crate::tls::Tls;
use crate::url::Kind;
use crate::window::WindowId;
use socket2::Domain;
use socket2::SockAddr;
use socket2::Socket;
use socket2::Type;
use std::collections::VecDeque;
use std::io;
use std::io::Write;

/// A request that was written and is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub intended_ns: u64,
    pub window: WindowId,
    pub operation: Operation,
    /// Counted already (as timed out or withdrawn); its answer is passed over.
    pub dead: bool,
    /// Tells it from the others on its connection, where answers come in any order.
    pub token: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Until `retry_ns`.
    Down,
    /// Down, and made when a request is due.
    Ready,
    Connecting,
    /// Connected, and the TLS handshake is under way.
    Shaking,
    /// Connected; the greeting may still be unanswered.
    Up,
    /// Answered for the last time; the server closes it.
    Ending,
}

pub(super) struct Connection {
    pub state: State,
    pub channel: Option<Channel>,
    pub parser: Parser,
    /// Speaks in place of the parser where answers come in any order.
    pub session: Option<Session>,
    /// Requests so far.
    pub tokens: u64,
    /// The start of an answer whose rest has not come.
    pub partial: Vec<u8>,
    /// To be written from `written` on.
    pub out: Vec<u8>,
    written: usize,
    /// Whether epoll tells when there is room to write.
    pub wants_room: bool,
    pub in_flight: VecDeque<InFlight>,
    /// Greetings that are not answered.
    pub greetings: usize,
    /// When a place for a request became free last.
    pub freed_ns: u64,
    /// Whether the engine's queue of free connections holds it.
    pub queued: bool,
    /// When bytes came last, or the connection was made.
    pub heard_ns: u64,
    pub retry_ns: u64,
    /// Attempts in a row that failed.
    pub failed_attempts: u32,
}

impl Connection {
    pub(super) fn new(kind: Kind) -> Connection {
        Connection {
            state: State::Down,
            channel: None,
            parser: Parser::new(kind),
            session: None,
            tokens: 0,
            partial: Vec::new(),
            out: Vec::new(),
            written: 0,
            wants_room: false,
            in_flight: VecDeque::new(),
            greetings: 0,
            freed_ns: 0,
            queued: false,
            heard_ns: 0,
            retry_ns: 0,
            failed_attempts: 0,
        }
    }

    /// Begins to connect.
    pub(super) fn connect(
        &mut self,
        address: &SockAddr,
        tls: Option<&Tls>,
        now_ns: u64,
    ) -> io::Result<()> {
        let socket = open(address)?;
        socket.set_nonblocking(true)?;
        if let Err(error) = socket.connect(address)
            && error.raw_os_error() != Some(libc::EINPROGRESS)
        {
            return Err(error);
        }
        self.channel = Some(Channel::new(socket, tls)?);
        self.state = State::Connecting;
        self.heard_ns = now_ns;
        self.wants_room = true;
        Ok(())
    }

    /// Forgets the socket and everything on it; what was in flight is returned.
    pub(super) fn close(&mut self, kind: Kind) -> VecDeque<InFlight> {
        let closed = Connection {
            freed_ns: self.freed_ns,
            queued: self.queued,
            heard_ns: self.heard_ns,
            retry_ns: self.retry_ns,
            failed_attempts: self.failed_attempts,
            ..Connection::new(kind)
        };
        std::mem::replace(self, closed).in_flight
    }

    /// Places for further requests.
    pub(super) fn room(&self, pipeline: usize) -> usize {
        match self.state {
            State::Up if self.session.as_ref().is_some_and(Session::is_closing) => 0,
            State::Up if self.greetings == 0 => pipeline.saturating_sub(self.in_flight.len()),
            State::Ready => 1,
            _ => 0,
        }
    }

    /// Writes what there is; whether all of it fitted.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        // What went wrong in a session is told with what became of its requests.
        if let Some(session) = self.session.as_mut() {
            let _ = session.work(&mut self.out);
        }
        // What is due before the connection is there waits for it.
        let Some(channel) = self.channel.as_mut().filter(|_| self.state == State::Up) else {
            return Ok(self.out.is_empty());
        };
        while self.written < self.out.len() {
            match channel.write(&self.out[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        channel.send()
    }
}

/// A socket for `address` that does not hold small requests back.
pub(super) fn open(address: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM.cloexec(), None)?;
    if address.domain() != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}
