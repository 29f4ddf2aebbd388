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

impl Engine {
    /// The connection is gone, and with it what was in flight.
    pub(super) fn lose(&mut self, index: usize, failure: Failure, text: &str) {
        let connection = &mut self.connections[index];
        if connection.state == State::Up {
            self.shared.connections_up.fetch_sub(1, Relaxed);
        }
        let attempt = connection.state == State::Connecting || connection.greetings > 0;
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
            self.connect(index, monotonic_ns());
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
            match connection.state {
                State::Down if now >= connection.retry_ns => self.connect(index, now),
                State::Connecting if now > connection.heard_ns + self.timeout_ns => {
                    self.lose(index, Failure::Timeout, "the connection was not accepted");
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

    fn connect(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        if let Err(error) = connection.connect(&self.address, now) {
            return self.lose(index, Failure::of(&error), &error.to_string());
        }
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        let event = EpollEvent::new(flags, index as u64);
        if let Some(socket) = &connection.socket
            && let Err(errno) = self.epoll.add(socket, event)
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
