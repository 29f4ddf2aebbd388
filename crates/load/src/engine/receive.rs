//! What comes in: connections that are made, answers, ends.

use super::Engine;
use super::Mode;
use super::READ;
use super::WAKE;
use super::Waiting;
use crate::clock::monotonic_ns;
use crate::connection::InFlight;
use crate::connection::State;
use crate::failure::Failure;
use crate::http2::Http2;
use crate::http2::Outcome;
use crate::protocol::Operation;
use crate::protocol::Reply;
use nix::sys::epoll::EpollFlags;
use std::io;
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    pub(super) fn handle(&mut self, data: u64, flags: EpollFlags) {
        if data == WAKE {
            let _ = self.wake.read();
            return;
        }
        let index = data as usize;
        let state = self.connections[index].state;
        if matches!(state, State::Connecting | State::Shaking) {
            self.connected(index);
            if self.connections[index].state != State::Up {
                return;
            }
        } else if flags.contains(EpollFlags::EPOLLOUT) {
            self.flush(index);
        }
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            self.read(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(channel) = &mut connection.channel else {
            return;
        };
        if connection.state == State::Connecting {
            match channel.socket().take_error() {
                Ok(None) => connection.state = State::Shaking,
                Ok(Some(error)) | Err(error) => {
                    return self.lose(index, Failure::of(&error), &error.to_string());
                }
            }
        }
        match channel.shake() {
            Ok(true) if self.http2.is_some() && !channel.agreed_to_http2() => {
                self.lose(index, Failure::Protocol, "the server does not speak HTTP/2");
            }
            Ok(true) => self.up(index),
            Ok(false) => {
                connection.wants_room = channel.wants_room();
                self.watch(index);
            }
            Err(error) => self.lose(index, Failure::of(&error), &format!("no TLS: {error}")),
        }
    }

    /// The connection can be used.
    fn up(&mut self, index: usize) {
        let now = monotonic_ns();
        let connection = &mut self.connections[index];
        connection.state = State::Up;
        connection.heard_ns = now;
        connection.freed_ns = now;
        connection.session = self.http2.as_ref().map(Http2::session);
        connection.greetings = self.greeting.len();
        for request in &self.greeting {
            connection.out.extend_from_slice(request);
            connection.in_flight.push_back(InFlight {
                intended_ns: now,
                window: 0,
                operation: Operation::Greet,
                dead: true,
                token: 0,
            });
        }
        self.shared.connections_up.fetch_add(1, Relaxed);
        self.flush(index);
        self.refill(index);
        self.offer(index);
    }

    fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(channel) = &mut connection.channel else {
            return;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let held = connection.partial.len();
        if scratch.len() < held + READ / 2 {
            scratch.resize(held + READ, 0);
        }
        scratch[..held].copy_from_slice(&connection.partial);
        let got = channel.read(&mut scratch[held..]);
        let now = monotonic_ns();
        let lost = match &got {
            Ok(0) => Some(self.ended(index, now)),
            Ok(count) => {
                connection.heard_ns = now;
                connection.partial.clear();
                let bytes = &scratch[..held + *count];
                match connection.session.is_some() {
                    true => self.told(index, bytes, now),
                    false => self.parse(index, bytes, now),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some((Failure::of(error), error.to_string())),
        };
        let full = held + got.unwrap_or(0) == scratch.len();
        self.scratch = scratch;
        match lost {
            Some((failure, text)) => self.lose(index, failure, &text),
            // What is decrypted already no event tells of.
            None if full && self.tls.is_some() => return self.read(index),
            None => {}
        }
        self.refill(index);
        self.offer(index);
    }

    /// The server closed the connection; what that means for those in flight.
    fn ended(&mut self, index: usize, now: u64) -> (Failure, String) {
        let connection = &mut self.connections[index];
        if let Some(session) = &mut connection.session {
            session.end();
            let lost = self.told(index, &[], now);
            return lost.unwrap_or_else(|| (Failure::Closed, "closed by the server".into()));
        }
        if let Some(answer) = connection.parser.end()
            && let Some(request) = connection.in_flight.pop_front()
        {
            self.settle(index, request, &answer, now);
        }
        (Failure::Closed, "closed by the server".into())
    }

    /// The same of a session, which answers in any order.
    fn told(&mut self, index: usize, bytes: &[u8], now: u64) -> Option<(Failure, String)> {
        let connection = &mut self.connections[index];
        let session = connection.session.as_mut()?;
        session.receive(bytes);
        let worked = session.work(&mut connection.out);
        let closing = session.is_closing();
        for (token, outcome) in session.outcomes() {
            let in_flight = &mut self.connections[index].in_flight;
            let place = in_flight.iter().position(|asked| asked.token == token);
            let Some(request) = place.and_then(|place| in_flight.remove(place)) else {
                continue;
            };
            match outcome {
                Outcome::Answer(answer) => self.settle(index, request, &answer, now),
                Outcome::Again => self.again(request),
            }
        }
        match worked {
            Err(text) => return Some((Failure::Protocol, text)),
            Ok(()) => self.flush(index),
        }
        let done = closing && self.connections[index].in_flight.is_empty();
        done.then(|| (Failure::Closed, "closed by the server".into()))
    }

    /// The server did not look at a request: another connection asks it.
    fn again(&mut self, request: InFlight) {
        if request.dead {
            return;
        }
        self.outstanding -= 1;
        match self.mode {
            Mode::Open(_) if !self.suspended => self.backlog.push_front(Waiting {
                intended_ns: request.intended_ns,
                window: request.window,
            }),
            _ => self.windows.withdrawn(request.window),
        }
    }

    /// Reads the answers in `bytes`; why the connection is of no more use, if so.
    fn parse(&mut self, index: usize, bytes: &[u8], now: u64) -> Option<(Failure, String)> {
        let mut at = 0;
        while at < bytes.len() {
            let connection = &mut self.connections[index];
            let Some(&request) = connection.in_flight.front() else {
                let text = format!(
                    "bytes that answer nothing: '{}'",
                    bytes[at..bytes.len().min(at + 60)].escape_ascii()
                );
                return Some((Failure::Protocol, text));
            };
            let parsed = match connection.parser.advance(request.operation, &bytes[at..]) {
                Ok(parsed) => parsed,
                Err(wrong) => return Some((Failure::Protocol, wrong.0)),
            };
            at += parsed.consumed;
            match parsed.answer {
                Some(answer) => {
                    connection.in_flight.pop_front();
                    self.settle(index, request, &answer, now);
                    if let (Operation::Greet, Reply::Failed(failure, text)) =
                        (request.operation, answer)
                    {
                        return Some((failure, text));
                    }
                    if parsed.closes && !self.spec.keep_alive {
                        // Whose end comes first keeps the address busy: the server's.
                        self.connections[index].state = State::Ending;
                    } else if parsed.closes {
                        return Some((Failure::Closed, "closed by the server".into()));
                    }
                }
                None if parsed.consumed == 0 => break,
                None => {}
            }
        }
        self.connections[index]
            .partial
            .extend_from_slice(&bytes[at..]);
        None
    }

    fn settle(&mut self, index: usize, request: InFlight, answer: &Reply, now: u64) {
        let connection = &mut self.connections[index];
        connection.freed_ns = now;
        connection.failed_attempts = 0;
        if request.operation == Operation::Greet {
            connection.greetings = connection.greetings.saturating_sub(1);
        }
        if !request.dead {
            self.outstanding -= 1;
            let latency = now.saturating_sub(request.intended_ns);
            match latency > self.timeout_ns {
                true => self.windows.failed(request.window, Failure::Timeout, ""),
                false => self.windows.answered(request.window, latency, answer),
            }
        }
    }
}
