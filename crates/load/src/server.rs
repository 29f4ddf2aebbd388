//! Before any load: the server is waited for, asked once, and filled with keys.

use crate::channel::Channel;
use crate::connection::open;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::error::Result;
use crate::error::ServerError;
use crate::failure::Failure;
use crate::http2::Http2;
use crate::http2::Outcome;
use crate::http2::Session;
use crate::protocol::Operation;
use crate::protocol::Parser;
use crate::protocol::ProtocolError;
use crate::protocol::Reply;
use crate::protocol::Request;
use crate::protocol::Writer;
use crate::protocol::greeting;
use crate::request::HttpRequest;
use crate::spec::Alive;
use crate::spec::LoadSpec;
use crate::tls::Tls;
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

type Answered<T> = std::result::Result<T, LineError>;
type Usable<T> = std::result::Result<T, ServerError>;

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
/// address. A request error when the address is wrong or another protocol
/// answers, an environment error when nobody answers in time.
pub(super) fn wait_for(
    spec: &LoadSpec,
    tls: Option<&Tls>,
    interrupt: &AtomicBool,
    alive: &mut Alive<'_>,
) -> Result<SockAddr> {
    let deadline = Instant::now() + spec.connect_timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let problem = match try_once(spec, tls, left.clamp(LEAST_ATTEMPT, MOST_ATTEMPT)) {
            Ok(address) => return Ok(address),
            Err(problem) => problem,
        };
        let url = spec.url.to_string();
        if !problem.may_pass() {
            return Err(Error::Server { url, problem });
        }
        if interrupt.load(Relaxed) {
            return Err(Error::Interrupted("before the server answered"));
        }
        alive().map_err(Error::NotAlive)?;
        if Instant::now() >= deadline {
            let waited = spec.connect_timeout;
            return Err(Error::NotReady {
                url,
                problem,
                waited,
            });
        }
        std::thread::sleep(RETRY);
    }
}

#[cfg_attr(
    not(feature = "http2"),
    allow(unreachable_code, unused_variables, reason = "no session can be made")
)]
fn try_once(spec: &LoadSpec, tls: Option<&Tls>, limit: Duration) -> Usable<SockAddr> {
    let (address, socket) = connect(spec, limit)?;
    let broken = |error| unanswered(spec, error);
    let mut line = Line::new(spec, tls, socket, limit).map_err(|error| broken(error.into()))?;
    line.channel
        .shake()
        .map_err(|reason| handshake(spec, reason))?;
    if let Some(http2) = Http2::of(spec).ok().flatten() {
        if !line.channel.agreed_to_http2() {
            return Err(ServerError::NoHttp2("it refuses it over TLS".into()));
        }
        let session = http2.session();
        judge(line.ask(session).map_err(|error| match error {
            LineError::ProtocolError(ProtocolError(reason)) => ServerError::NoHttp2(reason),
            other => broken(other),
        })?)?;
        return Ok(address);
    }
    for request in greeting(&spec.url) {
        judge(line.request(Operation::Greet, &request).map_err(broken)?)?;
    }
    let operation = spec
        .requests
        .first()
        .map_or(Operation::Get, HttpRequest::operation);
    let mut request = Vec::new();
    Writer::new(spec, 0).write(Request::of(operation, 0), &mut request);
    judge(line.request(operation, &request).map_err(broken)?)?;
    Ok(address)
}

fn connect(spec: &LoadSpec, limit: Duration) -> Usable<(SockAddr, Socket)> {
    let at = || spec.url.endpoint.clone();
    let addresses: Vec<SockAddr> = match &spec.url.endpoint {
        Endpoint::Unix(path) => SockAddr::unix(path).map(|address| vec![address]),
        Endpoint::Tcp { host, port } => (host.as_str(), *port)
            .to_socket_addrs()
            .map(|found| found.map(SockAddr::from).collect()),
    }
    .map_err(|reason| ServerError::UnknownHost { at: at(), reason })?;
    let mut last = ServerError::NoAddress;
    for address in addresses {
        let attempt = open(&address).and_then(|socket| {
            match address.is_unix() {
                true => socket.connect(&address)?,
                false => socket.connect_timeout(&address, limit)?,
            }
            Ok(socket)
        });
        last = match attempt {
            Ok(socket) => return Ok((address, socket)),
            Err(reason) if Failure::of(&reason) == Failure::Refused => {
                ServerError::NobodyListens { at: at(), reason }
            }
            Err(reason) => ServerError::NoConnection { at: at(), reason },
        };
    }
    Err(last)
}

fn handshake(spec: &LoadSpec, reason: io::Error) -> ServerError {
    let at = spec.url.endpoint.clone();
    if spec.http2 && reason.to_string().contains("NoApplicationProtocol") {
        return ServerError::NoHttp2("it refuses it over TLS".into());
    }
    match reason.kind() {
        io::ErrorKind::InvalidData => ServerError::NoTls { at, reason },
        _ => unanswered(spec, reason.into()),
    }
}

fn unanswered(spec: &LoadSpec, error: LineError) -> ServerError {
    let at = spec.url.endpoint.clone();
    match error {
        LineError::Io(reason) => match reason.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ServerError::Silent(at),
            io::ErrorKind::UnexpectedEof => ServerError::Closes(at),
            _ => ServerError::NoAnswer { at, reason },
        },
        LineError::ProtocolError(ProtocolError(reason)) => ServerError::WrongProtocol {
            kind: spec.url.kind.name(),
            reason,
        },
    }
}

/// What the first answers mean for the load to come.
fn judge(answer: Reply) -> Usable<()> {
    Err(match answer {
        Reply::Success | Reply::Missing => return Ok(()),
        Reply::Failed(Failure::Http5xx, text) => ServerError::Busy(text),
        Reply::Failed(_, text) if text.starts_with("LOADING") => ServerError::Loading,
        Reply::Failed(Failure::Http4xx, text) => ServerError::WrongPath(text),
        Reply::Failed(_, text) if text.contains("AUTH") || text.contains("WRONGPASS") => {
            ServerError::Login(text)
        }
        Reply::Failed(_, text) => ServerError::Refuses(text),
    })
}

/// Sets every key once.
pub(super) fn prefill(
    spec: &LoadSpec,
    (address, tls): (&SockAddr, Option<&Tls>),
    interrupt: &AtomicBool,
) -> Result<()> {
    // Few enough that both sides can hold them while nobody reads.
    let batch = ((128 << 10) / (spec.value_bytes as u64 + 64)).clamp(1, FILL_BATCH);
    let set = || -> Answered<bool> {
        let socket = open(address)?;
        socket.connect(address)?;
        let mut line = Line::new(spec, tls, socket, FILL_PATIENCE)?;
        line.channel.shake()?;
        for request in greeting(&spec.url) {
            line.request(Operation::Greet, &request)?;
        }
        let writer = Writer::new(spec, spec.value_bytes);
        let mut requests = Vec::new();
        for next in (0..spec.keys).step_by(batch as usize) {
            if interrupt.load(Relaxed) {
                return Ok(false);
            }
            let keys = next..spec.keys.min(next + batch);
            requests.clear();
            for key in keys.clone() {
                writer.write(Request::of(Operation::Set, key), &mut requests);
            }
            line.send(&requests)?;
            for _ in keys {
                if let Reply::Failed(_, text) = line.reply(Operation::Set)? {
                    return Err(ProtocolError(text).into());
                }
            }
        }
        Ok(true)
    };
    match set() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::Interrupted("while the keys were set")),
        Err(error) => Err(Error::Prefill {
            url: spec.url.to_string(),
            keys: spec.keys,
            value_bytes: spec.value_bytes,
            reason: error.to_string(),
        }),
    }
}

#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    ProtocolError(#[from] ProtocolError),
}

/// One connection that waits for its answers.
struct Line {
    channel: Channel,
    parser: Parser,
    held: Vec<u8>,
}

impl Line {
    fn new(
        spec: &LoadSpec,
        tls: Option<&Tls>,
        socket: Socket,
        limit: Duration,
    ) -> io::Result<Line> {
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        Ok(Line {
            channel: Channel::new(socket, tls)?,
            parser: Parser::new(spec.url.kind),
            held: Vec::new(),
        })
    }

    fn request(&mut self, operation: Operation, request: &[u8]) -> Answered<Reply> {
        self.send(request)?;
        self.reply(operation)
    }

    /// The answer to the first request of a session.
    fn ask(&mut self, mut session: Session) -> Answered<Reply> {
        session.ask(0, Request::of(Operation::Fetch, 0));
        let mut first = Vec::new();
        loop {
            let mut out = Vec::new();
            let worked = session.work(&mut out);
            let outcome = session.outcomes().pop().map(|(_, outcome)| outcome);
            match (outcome, worked) {
                (Some(Outcome::Answer(reply)), _) if !first.starts_with(b"HTTP/1") => {
                    return Ok(reply);
                }
                (None, Ok(())) => {}
                _ if first.starts_with(b"HTTP/1") => {
                    return Err(ProtocolError("it answers with HTTP/1.1".into()).into());
                }
                (_, Err(text)) => return Err(ProtocolError(text).into()),
                // It ends connections at once: it may be starting.
                (Some(_), _) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
            self.send(&out)?;
            let mut bytes = [0; 16 << 10];
            let count = self.channel.read(&mut bytes)?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let missing = 6usize.saturating_sub(first.len()).min(count);
            first.extend_from_slice(&bytes[..missing]);
            session.receive(&bytes[..count]);
        }
    }

    fn send(&mut self, request: &[u8]) -> Answered<()> {
        self.channel.write_all(request)?;
        Ok(self.channel.flush()?)
    }

    fn reply(&mut self, operation: Operation) -> Answered<Reply> {
        loop {
            while !self.held.is_empty() {
                let parsed = self.parser.advance(operation, &self.held)?;
                self.held.drain(..parsed.consumed);
                if let Some(answer) = parsed.answer {
                    return Ok(answer);
                }
                if parsed.consumed == 0 {
                    break;
                }
            }
            let mut bytes = [0; 16 << 10];
            let count = self.channel.read(&mut bytes)?;
            if count == 0 {
                let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
                return Ok(self.parser.end().ok_or_else(end)?);
            }
            self.held.extend_from_slice(&bytes[..count]);
        }
    }
}
