//! Before any load: the server is waited for, asked once, and filled with keys.

use super::LoadSpec;
use super::connection::open;
use super::failure::Failure;
use super::protocol::Answer;
use super::protocol::Ask;
use super::protocol::Parser;
use super::protocol::Writer;
use super::protocol::Wrong;
use super::protocol::greeting;
use super::url::Endpoint;
use super::url::Kind;
use crate::error::Error;
use crate::error::Result;
use socket2::SockAddr;
use socket2::Socket;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::ToSocketAddrs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

/// Pause between two attempts to reach a server that is starting.
const RETRY: Duration = Duration::from_millis(20);
/// Time that one attempt is given at least and at most.
const LEAST_ATTEMPT: Duration = Duration::from_millis(200);
const MOST_ATTEMPT: Duration = Duration::from_secs(2);
/// Keys set before their answers are read.
const FILL_BATCH: u64 = 500;
/// Longest wait for one answer while filling.
const FILL_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the server of `spec` answers a request of the right kind; its
/// address.
///
/// # Errors
/// A request error when the address is wrong or another protocol answers, an
/// environment error when nobody answers in time, an interrupted error when
/// `interrupt` was raised.
pub(super) fn wait_for(
    spec: &LoadSpec,
    interrupt: &AtomicBool,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<SockAddr> {
    let deadline = Instant::now() + spec.connect_timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let attempt = left.clamp(LEAST_ATTEMPT, MOST_ATTEMPT);
        let trouble = match try_once(spec, attempt) {
            Ok(address) => return Ok(address),
            Err(Trouble::Final(error)) => return Err(error),
            Err(Trouble::Passing(trouble)) => trouble,
        };
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted(" before the server answered".into()));
        }
        alive()?;
        if Instant::now() >= deadline {
            return Err(Error::environment(format!(
                "--load {}: {trouble}; waited {:?} (--connect-timeout)",
                spec.url, spec.connect_timeout
            )));
        }
        std::thread::sleep(RETRY);
    }
}

enum Trouble {
    /// May be over soon.
    Passing(String),
    Final(Error),
}

fn try_once(spec: &LoadSpec, limit: Duration) -> std::result::Result<SockAddr, Trouble> {
    let (address, socket) = connect(spec, limit)?;
    let mut line = Line::new(spec, &socket, limit).map_err(|error| unanswered(spec, &error))?;
    for request in greeting(&spec.url) {
        let answer = line.ask(Ask::Greet, &request);
        judge(spec, answer)?;
    }
    let ask = match spec.url.kind {
        Kind::Http => Ask::Fetch,
        _ => Ask::Get,
    };
    let mut request = Vec::new();
    Writer::new(&spec.url, 0).write(ask, 0, &mut request);
    let answer = line.ask(ask, &request);
    judge(spec, answer)?;
    Ok(address)
}

fn connect(spec: &LoadSpec, limit: Duration) -> std::result::Result<(SockAddr, Socket), Trouble> {
    let mut last = None;
    for address in addresses(spec)? {
        let attempt = open(&address).and_then(|socket| {
            match address.is_unix() {
                true => socket.connect(&address)?,
                false => socket.connect_timeout(&address, limit)?,
            }
            Ok(socket)
        });
        match attempt {
            Ok(socket) => return Ok((address, socket)),
            Err(error) => last = Some(error),
        }
    }
    let Some(error) = last else {
        let message = format!("--load {}: the host has no address", spec.url);
        return Err(Trouble::Final(Error::request(message)));
    };
    let at = &spec.url.endpoint;
    Err(Trouble::Passing(match Failure::of(&error) {
        Failure::Refused => {
            format!("nobody listens at {at} ({error}); start the server, or correct host and port")
        }
        _ => format!("no connection to {at}: {error}"),
    }))
}

fn addresses(spec: &LoadSpec) -> std::result::Result<Vec<SockAddr>, Trouble> {
    match &spec.url.endpoint {
        Endpoint::Unix(path) => SockAddr::unix(path).map(|address| vec![address]),
        Endpoint::Tcp { host, port } => (host.as_str(), *port)
            .to_socket_addrs()
            .map(|found| found.map(SockAddr::from).collect()),
    }
    .map_err(|error| {
        Trouble::Final(Error::request(format!(
            "--load {}: cannot find '{}': {error}; correct the host",
            spec.url, spec.url.endpoint
        )))
    })
}

fn unanswered(spec: &LoadSpec, error: &io::Error) -> Trouble {
    let at = &spec.url.endpoint;
    Trouble::Passing(match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{at} accepts connections but does not answer")
        }
        io::ErrorKind::UnexpectedEof => {
            format!("{at} closes the connection instead of answering")
        }
        _ => format!("{at} does not answer: {error}"),
    })
}

/// What the first answers mean for the load to come.
fn judge(
    spec: &LoadSpec,
    answer: std::result::Result<Answer, LineError>,
) -> std::result::Result<(), Trouble> {
    let (url, kind) = (&spec.url, spec.url.kind.name());
    match answer {
        Ok(Answer::Success | Answer::Missing) => Ok(()),
        Ok(Answer::Failed(Failure::Http5xx, text)) => {
            Err(Trouble::Passing(format!("the server answers {text}")))
        }
        Ok(Answer::Failed(_, text)) if text.starts_with("LOADING") => Err(Trouble::Passing(
            "the server is still loading its data".into(),
        )),
        Ok(Answer::Failed(Failure::Http4xx, text)) => Err(Trouble::Final(Error::request(format!(
            "--load {url}: the server answers {text}; name a path that it serves"
        )))),
        Ok(Answer::Failed(_, text)) => {
            let fix = match text.contains("AUTH") || text.contains("WRONGPASS") {
                true => "; give the password, like redis://:PASSWORD@HOST:PORT",
                false => "",
            };
            Err(Trouble::Final(Error::request(format!(
                "--load {url}: the server refuses: {text}{fix}"
            ))))
        }
        Err(LineError::Wrong(Wrong(text))) => Err(Trouble::Final(Error::request(format!(
            "--load {url}: this is no {kind} server: {text}; correct the scheme or the port"
        )))),
        Err(LineError::Io(error)) => Err(unanswered(spec, &error)),
    }
}

/// Sets every key once.
///
/// # Errors
/// An environment error when the server does not take them, an interrupted
/// error when `interrupt` was raised.
pub(super) fn prefill(spec: &LoadSpec, address: &SockAddr, interrupt: &AtomicBool) -> Result<()> {
    let failed = |what: String| {
        Error::environment(format!(
            "--load {}: the server did not take its {} keys of {} bytes: {what}; ask for fewer \
             with --keys, or leave them out with --prefill=no",
            spec.url, spec.keys, spec.value_bytes
        ))
    };
    let broken = |error: LineError| failed(error.to_string());
    let socket = open(address).map_err(|error| failed(error.to_string()))?;
    socket
        .connect(address)
        .map_err(|error| failed(error.to_string()))?;
    let mut line =
        Line::new(spec, &socket, FILL_PATIENCE).map_err(|error| failed(error.to_string()))?;
    for request in greeting(&spec.url) {
        line.ask(Ask::Greet, &request).map_err(broken)?;
    }
    let writer = Writer::new(&spec.url, spec.value_bytes);
    let mut next = 0;
    let mut requests = Vec::new();
    while next < spec.keys {
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted(" while the keys were set".into()));
        }
        let end = spec.keys.min(next + batch(spec.value_bytes));
        requests.clear();
        for key in next..end {
            writer.write(Ask::Set, key, &mut requests);
        }
        line.send(&requests).map_err(broken)?;
        for _ in next..end {
            if let Answer::Failed(_, text) = line.answer(Ask::Set).map_err(broken)? {
                return Err(failed(text));
            }
        }
        next = end;
    }
    Ok(())
}

/// Few enough that both sides can hold them while nobody reads.
fn batch(value_bytes: usize) -> u64 {
    ((128 << 10) / (value_bytes as u64 + 64)).clamp(1, FILL_BATCH)
}

enum LineError {
    Io(io::Error),
    Wrong(Wrong),
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LineError::Io(error) => error.fmt(f),
            LineError::Wrong(Wrong(text)) => f.write_str(text),
        }
    }
}

/// One connection that waits for its answers.
struct Line<'a> {
    socket: &'a Socket,
    parser: Parser,
    held: Vec<u8>,
}

impl<'a> Line<'a> {
    fn new(spec: &LoadSpec, socket: &'a Socket, limit: Duration) -> io::Result<Line<'a>> {
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        Ok(Line {
            socket,
            parser: Parser::new(spec.url.kind),
            held: Vec::new(),
        })
    }

    fn ask(&mut self, ask: Ask, request: &[u8]) -> std::result::Result<Answer, LineError> {
        self.send(request)?;
        self.answer(ask)
    }

    fn send(&mut self, request: &[u8]) -> std::result::Result<(), LineError> {
        self.socket.write_all(request).map_err(LineError::Io)
    }

    fn answer(&mut self, ask: Ask) -> std::result::Result<Answer, LineError> {
        loop {
            while !self.held.is_empty() {
                let parsed = self
                    .parser
                    .advance(ask, &self.held)
                    .map_err(LineError::Wrong)?;
                self.held.drain(..parsed.consumed);
                if let Some(answer) = parsed.answer {
                    return Ok(answer);
                }
                if parsed.consumed == 0 {
                    break;
                }
            }
            let mut bytes = [0; 16 << 10];
            let count = self.socket.read(&mut bytes).map_err(LineError::Io)?;
            if count == 0 {
                return self
                    .parser
                    .end()
                    .ok_or_else(|| LineError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            self.held.extend_from_slice(&bytes[..count]);
        }
    }
}
