//! Connections that are lost and made again, and requests that take too long.

use super::Engine;
use super::Mode;
use super::RETRY_NS;
use crate::clock::monotonic_ns;
use crate::connection::State;
use crate::failure::Failure;
use nix::sys::epoll::EpollEvent;
use nix::sys::epoll::EpollFlags;
use std::sync::atomic::Ordering::Relaxed;

/// Longest wait for a server that said that it closes the connection.
const ENDING_NS: u64 = 100_000_000;

impl Engine {
    /// The connection is gone, and with it what was in flight.
    pub(super) fn lose(&mut self, index: usize, failure: Failure, text: &str) {
        let connection = &mut self.connections[index];
        if matches!(connection.state, State::Up | State::Ending) {
            self.shared.connections_up.fetch_sub(1, Relaxed);
        }
        let state = connection.state;
        let making = matches!(state, State::Ready | State::Connecting | State::Shaking);
        let attempt = making || connection.greetings > 0;
        let in_flight = connection.close(self.spec.url.kind);
        let step = (connection.failed_attempts as usize).min(RETRY_NS.len() - 1);
        connection.failed_attempts += 1;
        connection.retry_ns = monotonic_ns() + RETRY_NS[step];
        for asked in in_flight.iter().filter(|asked| !asked.dead) {
            self.outstanding -= 1;
            self.windows.failed(asked.window, failure, text);
        }
        if attempt && matches!(self.mode, Mode::Closed) && !self.suspended {
            self.windows.trouble(failure, text);
        }
        self.last_failure = (failure, text.to_string());
        if let Ok(mut trouble) = self.shared.trouble.lock() {
            *trouble = format!("{}: {text}", failure.name());
        }
        // A server may close a connection that did its work; only attempts that
        // fail again and again are spaced out.
        if !attempt && step == 0 {
            self.make(index, monotonic_ns());
        }
    }

    /// Every few milliseconds: time-outs, lost connections, where we are.
    pub(super) fn check(&mut self, now: u64) {
        if let Ok(cpu) = nix::sched::sched_getcpu()
            && let Ok(mut cpus) = self.shared.cpus.lock()
        {
            cpus.insert(cpu);
        }
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let silent = now > connection.heard_ns + self.timeout_ns;
            match connection.state {
                State::Down if now >= connection.retry_ns => {
                    self.make(index, now);
                    self.refill(index);
                    self.offer(index);
                }
                State::Connecting | State::Shaking if silent => {
                    self.lose(index, Failure::Timeout, "the connection was not accepted");
                }
                State::Ending if now > connection.heard_ns + ENDING_NS => {
                    self.lose(index, Failure::Closed, "closed");
                    self.refill(index);
                    self.offer(index);
                }
                State::Up if !self.suspended => self.check_timeouts(index, now),
                _ => {}
            }
        }
        while let Some(waiting) = self.backlog.front()
            && waiting.intended_ns + self.timeout_ns < now
        {
            self.windows
                .failed(waiting.window, Failure::Timeout, "no connection was free");
            self.backlog.pop_front();
        }
        self.windows.deliver();
    }

    /// Connects, or makes ready for that.
    fn make(&mut self, index: usize, now: u64) {
        match self.spec.keep_alive {
            true => self.connect(index, now),
            false => self.connections[index].state = State::Ready,
        }
    }

    pub(super) fn connect(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        if let Err(error) = connection.connect(&self.address, self.tls.as_ref(), now) {
            return self.lose(index, Failure::of(&error), &error.to_string());
        }
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        let event = EpollEvent::new(flags, index as u64);
        if let Some(channel) = &connection.channel
            && let Err(errno) = self.epoll.add(channel, event)
        {
            self.lose(index, Failure::Other, errno.desc());
        }
    }

    /// Counts what waited too long. Its place stays taken until the answer comes;
    /// a connection that says nothing at all any more is replaced.
    fn check_timeouts(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        let limit = self.timeout_ns;
        let mut timed_out = false;
        for asked in &mut connection.in_flight {
            if asked.intended_ns + limit >= now {
                continue;
            }
            timed_out = true;
            if !asked.dead {
                asked.dead = true;
                self.outstanding -= 1;
                self.windows.failed(asked.window, Failure::Timeout, "");
            }
        }
        if timed_out && connection.heard_ns + limit < now {
            self.lose(index, Failure::Timeout, "the server fell silent");
        }
    }
}
