//! The one thread that sends and receives. It draws the send times, sends what is
//! due as soon as a connection is free, reads answers, and never waits for one.

mod receive;
mod upkeep;

use crate::clock::monotonic_ns;
use crate::connection::Connection;
use crate::connection::InFlight;
use crate::connection::State;
use crate::error::Error;
use crate::error::Result;
use crate::failure::Failure;
use crate::http2::Http2;
use crate::protocol::Writer;
use crate::protocol::greeting;
use crate::spec::LoadSpec;
use crate::spec::Pace;
use crate::tls::Tls;
use crate::traffic::Schedule;
use crate::traffic::Traffic;
use crate::window::Window;
use crate::window::WindowId;
use crate::window::Windows;
use nix::errno::Errno;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::ppoll;
use nix::sys::epoll::Epoll;
use nix::sys::epoll::EpollCreateFlags;
use nix::sys::epoll::EpollEvent;
use nix::sys::epoll::EpollFlags;
use nix::sys::epoll::EpollTimeout;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use socket2::SockAddr;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

/// What the owner of the thread may ask of it.
pub(super) enum Command {
    /// Sends so from now on; an open loop reaches its rate in this time.
    Pace(Pace, Duration),
    /// Stops sending; answered when nothing is in flight, or after this time.
    Suspend(Sender<()>, Duration),
    /// Goes on: the schedule starts again.
    Resume,
    /// Opens a window; requests due from now on belong to it.
    Open,
    /// Closes it, and at the same instant opens another if wanted.
    Close { reply: Sender<Window>, next: bool },
    /// Forgets what is due and was not sent; the schedule starts again.
    Restart,
}

/// What anybody may see.
#[derive(Default)]
pub(super) struct Shared {
    /// Thread id; 0 until it runs.
    pub tid: AtomicUsize,
    pub connections_up: AtomicUsize,
    /// CPUs it was seen on.
    pub cpus: Mutex<BTreeSet<usize>>,
    /// Why connections could not be made, last.
    pub trouble: Mutex<String>,
    /// Why it ended, if it did by itself.
    pub fatal: Mutex<Option<String>>,
}

/// Most bytes read at once.
const READ: usize = 256 << 10;
/// Looks at time-outs and lost connections this often.
const CHECK_NS: u64 = 5_000_000;
/// Before the next send time it spins this long, where it may.
const SPIN_NS: u64 = 200_000;
/// Pauses between attempts to connect again.
const RETRY_NS: [u64; 4] = [1_000_000, 10_000_000, 50_000_000, 200_000_000];
/// The wake-up among the events.
const WAKE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Waiting {
    intended_ns: u64,
    window: WindowId,
}

enum Mode {
    Quiet,
    Open(Box<Schedule>),
    Closed,
}

pub(super) struct Engine {
    spec: LoadSpec,
    address: SockAddr,
    tls: Option<Tls>,
    http2: Option<Http2>,
    timeout_ns: u64,
    greeting: Vec<Vec<u8>>,
    writer: Writer,
    traffic: Traffic,
    epoll: Epoll,
    /// Wakes the thread after a command was sent.
    pub(super) wake: Arc<EventFd>,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    connections: Vec<Connection>,
    /// Connections that may have room, first freed first.
    free: VecDeque<usize>,
    /// Due and not sent.
    backlog: VecDeque<Waiting>,
    mode: Mode,
    suspended: bool,
    quiet_reply: Option<(Sender<()>, u64)>,
    windows: Windows,
    scratch: Vec<u8>,
    /// Last reason why a connection could not be made.
    last_failure: (Failure, String),
    check_ns: u64,
    /// Requests in flight that count.
    outstanding: usize,
}

impl Engine {
    pub(super) fn new(
        spec: LoadSpec,
        (address, tls): (SockAddr, Option<Tls>),
        commands: Receiver<Command>,
        shared: Arc<Shared>,
    ) -> Result<Engine> {
        let start = |errno: Errno| Error::Start(errno.into());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(start)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let wake = Arc::new(wake.map_err(start)?);
        let woken = EpollEvent::new(EpollFlags::EPOLLIN, WAKE);
        epoll.add(wake.as_fd(), woken).map_err(start)?;
        let traffic = Traffic::new(&spec)?;
        let http2 = Http2::of(&spec).map_err(Error::Http2)?;
        Ok(Engine {
            http2,
            timeout_ns: spec.timeout.as_nanos() as u64,
            greeting: greeting(&spec.url),
            writer: Writer::new(&spec, spec.value_bytes),
            traffic,
            epoll,
            wake,
            commands,
            shared,
            connections: (0..spec.connections)
                .map(|_| Connection::new(spec.url.kind))
                .collect(),
            free: VecDeque::new(),
            backlog: VecDeque::new(),
            mode: Mode::Quiet,
            suspended: false,
            quiet_reply: None,
            windows: Windows::new(spec.timeout),
            scratch: vec![0; READ],
            last_failure: (Failure::Other, String::new()),
            check_ns: 0,
            outstanding: 0,
            address,
            tls,
            spec,
        })
    }

    /// Works until the owner is gone.
    pub(super) fn run(mut self) {
        if let Err(error) = self.work() {
            let fatal = self.shared.fatal.lock();
            *fatal.unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
        }
    }

    fn work(&mut self) -> io::Result<()> {
        let mut events = vec![EpollEvent::empty(); 256];
        loop {
            let mut now = monotonic_ns();
            self.enqueue_due(now);
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.command(command, now),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.send_due();
            if now >= self.check_ns {
                self.check(now);
                self.check_ns = now + CHECK_NS;
            }
            let ready = self.wait(&mut events)?;
            for event in &events[..ready] {
                self.handle(event.data(), event.events());
            }
            self.windows.deliver();
            now = monotonic_ns();
            if let Some((_, until)) = &self.quiet_reply
                && (self.outstanding == 0 || now >= *until)
            {
                self.drain();
            }
        }
    }

    fn command(&mut self, command: Command, now: u64) {
        match command {
            Command::Pace(pace, ramp) => {
                self.withdraw_backlog();
                self.mode = match pace {
                    Pace::Open(rate) => Mode::Open(Box::new(Schedule::new(
                        self.spec.arrivals,
                        rate,
                        ramp,
                        self.spec.seed,
                        now,
                    ))),
                    Pace::Closed => Mode::Closed,
                };
                self.refill_all();
            }
            Command::Suspend(reply, patience) => {
                self.suspended = true;
                self.withdraw_backlog();
                self.quiet_reply = Some((reply, now + patience.as_nanos() as u64));
            }
            Command::Resume => {
                self.suspended = false;
                for connection in &mut self.connections {
                    connection.heard_ns = connection.heard_ns.max(now);
                }
                self.restart(now);
            }
            Command::Open => self.windows.open(now),
            Command::Close { reply, next } => {
                self.windows.close(now, reply);
                if next {
                    self.windows.open(now);
                }
            }
            Command::Restart => self.restart(now),
        }
    }

    fn restart(&mut self, now: u64) {
        self.withdraw_backlog();
        if let Mode::Open(schedule) = &mut self.mode {
            schedule.restart(now);
        }
        self.refill_all();
    }

    fn withdraw_backlog(&mut self) {
        for waiting in self.backlog.drain(..) {
            self.windows.withdrawn(waiting.window);
        }
    }

    /// Nothing is awaited any more: what is still in flight counts nowhere.
    fn drain(&mut self) {
        for connection in &mut self.connections {
            for asked in connection.in_flight.iter_mut().filter(|asked| !asked.dead) {
                asked.dead = true;
                self.windows.withdrawn(asked.window);
            }
        }
        self.outstanding = 0;
        if let Some((reply, _)) = self.quiet_reply.take() {
            let _ = reply.send(());
        }
    }

    /// Moves what is due by now to the backlog.
    fn enqueue_due(&mut self, now: u64) {
        let Mode::Open(schedule) = &mut self.mode else {
            return;
        };
        if self.suspended {
            return;
        }
        let window = self.windows.current();
        while schedule.next_ns() <= now {
            self.windows.due(window);
            self.backlog.push_back(Waiting {
                intended_ns: schedule.next_ns(),
                window,
            });
            schedule.advance();
        }
    }

    fn send_due(&mut self) {
        while !self.backlog.is_empty() {
            let Some(index) = self.next_free() else {
                self.give_up_without_connections();
                return;
            };
            // When several are due, each connection takes its part in one write.
            let room = self.connections[index].room(self.spec.pipeline);
            let part = self.backlog.len().div_ceil(self.free.len() + 1);
            for _ in 0..part.min(room) {
                let now = monotonic_ns();
                let Some(waiting) = self.backlog.pop_front() else {
                    break;
                };
                let could = waiting.intended_ns.max(self.connections[index].freed_ns);
                self.windows.sent(waiting.window, now.saturating_sub(could));
                self.send(index, waiting.intended_ns, waiting.window);
            }
            self.flush(index);
            self.offer(index);
        }
    }

    /// With every connection refused, waiting for one would only hide it.
    fn give_up_without_connections(&mut self) {
        if self.connections.iter().any(|one| one.state != State::Down) {
            return;
        }
        let (failure, text) = self.last_failure.clone();
        for waiting in self.backlog.drain(..) {
            self.windows.failed(waiting.window, failure, &text);
        }
    }

    fn next_free(&mut self) -> Option<usize> {
        while let Some(index) = self.free.pop_front() {
            let connection = &mut self.connections[index];
            connection.queued = false;
            if connection.room(self.spec.pipeline) > 0 {
                return Some(index);
            }
        }
        None
    }

    /// Puts a connection with room last in the queue of the free ones.
    fn offer(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.queued && connection.room(self.spec.pipeline) > 0 {
            connection.queued = true;
            self.free.push_back(index);
        }
    }

    fn send(&mut self, index: usize, intended_ns: u64, window: WindowId) {
        let request = self.traffic.next_request();
        let connection = &mut self.connections[index];
        connection.tokens += 1;
        match &mut connection.session {
            Some(session) => session.ask(connection.tokens, request),
            None => self.writer.write(request, &mut connection.out),
        }
        connection.in_flight.push_back(InFlight {
            intended_ns,
            window,
            operation: request.operation,
            dead: false,
            token: connection.tokens,
        });
        self.outstanding += 1;
        if connection.state == State::Ready {
            self.connect(index, monotonic_ns());
        }
    }

    /// Closed loop: every place of the connection asks again.
    fn refill(&mut self, index: usize) {
        if !matches!(self.mode, Mode::Closed) || self.suspended {
            return;
        }
        let room = self.connections[index].room(self.spec.pipeline);
        if room == 0 {
            return;
        }
        let (now, window) = (monotonic_ns(), self.windows.current());
        for _ in 0..room {
            self.windows.due(window);
            self.send(index, now, window);
        }
        self.flush(index);
    }

    fn refill_all(&mut self) {
        for index in 0..self.connections.len() {
            self.refill(index);
            self.offer(index);
        }
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.flush() {
            Err(error) => self.lose(index, Failure::of(&error), &error.to_string()),
            Ok(written) if written == connection.wants_room => {
                connection.wants_room = !written;
                self.watch(index);
            }
            Ok(_) => {}
        }
    }

    fn watch(&mut self, index: usize) {
        let connection = &self.connections[index];
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, connection.wants_room);
        let mut event = EpollEvent::new(flags, index as u64);
        if let Some(channel) = &connection.channel
            && let Err(errno) = self.epoll.modify(channel, &mut event)
        {
            self.lose(index, Failure::Other, errno.desc());
        }
    }

    /// Sleeps until something comes or is due; the number of events.
    fn wait(&mut self, events: &mut [EpollEvent]) -> io::Result<usize> {
        let now = monotonic_ns();
        let mut until = self.check_ns;
        let mut precise = false;
        if let Mode::Open(schedule) = &self.mode
            && !self.suspended
        {
            // Also where a check comes first: a sleep that ends a millisecond
            // after it would end that late for the moment behind it.
            until = until.min(schedule.next_ns());
            precise = true;
        }
        let lead = match precise && self.spec.placement.spin {
            true => SPIN_NS,
            false => 0,
        };
        let left = until.saturating_sub(now);
        // Only a moment needs better than milliseconds.
        let mut timeout = EpollTimeout::ZERO;
        if !precise {
            timeout = EpollTimeout::from(left.div_ceil(1_000_000).min(1_000) as u16);
        } else if left > lead {
            let length = TimeSpec::from_duration(Duration::from_nanos(left - lead));
            let mut ready = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut ready, Some(length), None) {
                Ok(0) => return Ok(0),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        match self.epoll.wait(events, timeout) {
            Ok(count) => Ok(count),
            Err(Errno::EINTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }
}
