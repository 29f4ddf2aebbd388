//! HTTP/2 (RFC 9113): many requests at once on one connection. A session is given the
//! bytes that came and gives those to be sent; it needs neither a socket nor a runtime.

use crate::error::RequestError;
use crate::failure::Failure;
use crate::operation::Request;
use crate::protocol::Reply;
use crate::request::Divided;
use crate::request::HttpRequest;
use crate::spec::LoadSpec;
use crate::url::Url;
use bytes::Bytes;
use h2::Reason;
use h2::RecvStream;
use h2::client::Builder;
use h2::client::Connection;
use h2::client::ResponseFuture;
use h2::client::SendRequest;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::Method;
use http::header::CONTENT_LENGTH;
use http::header::HOST;
use http::header::USER_AGENT;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

/// Bytes that a server may send before it hears that they were read: of one answer, and
/// of all on a connection.
const WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Answer(Reply),
    /// The server did not look at it, and closes the connection: to be asked again.
    Again,
}

/// What the session reads and writes in place of a socket.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Buffers>>);

#[derive(Default)]
struct Buffers {
    incoming: Vec<u8>,
    /// Of `incoming`.
    read: usize,
    /// Nothing more comes.
    ended: bool,
    outgoing: Vec<u8>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody is woken: the session asks again when bytes came.
impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffers = self.lock();
        let left = &buffers.incoming[buffers.read..];
        let count = left.len().min(into.remaining());
        into.put_slice(&left[..count]);
        buffers.read += count;
        if buffers.read == buffers.incoming.len() {
            buffers.incoming.clear();
            buffers.read = 0;
        }
        match count > 0 || buffers.ended {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Made = (SendRequest<Bytes>, Connection<Pipe, Bytes>);

enum Stage {
    Opening(Pin<Box<dyn Future<Output = Result<Made, h2::Error>> + Send>>),
    Open(Box<Made>),
    Over,
}

/// A request that was sent, by the number that it was given.
struct Exchange {
    token: u64,
    stage: ExchangeStage,
}

enum ExchangeStage {
    Head(ResponseFuture),
    Body(RecvStream, Reply),
}

/// A request, ready to be sent.
type Asked = (http::Request<()>, Bytes);

/// What is asked of a server with HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct Http2(Arc<[Template]>);

impl Http2 {
    /// As `spec` says; `None` where it is not asked so.
    ///
    /// # Errors
    /// What HTTP/2 cannot carry, in words.
    pub(super) fn of(spec: &LoadSpec) -> Result<Option<Http2>, RequestError> {
        if !spec.http2 {
            return Ok(None);
        }
        let template = |request| Template::new(request, &spec.url);
        let templates: Result<_, _> = spec.requests.iter().map(template).collect();
        Ok(Some(Http2(templates?)))
    }

    /// A connection that was just made.
    pub(super) fn session(&self) -> Session {
        Session::new(self.clone())
    }
}

/// One connection.
pub(super) struct Session {
    of: Http2,
    pipe: Pipe,
    stage: Stage,
    /// Not sent yet: the server allows so many at once.
    waiting: VecDeque<(u64, Asked)>,
    exchanges: Vec<Exchange>,
    outcomes: Vec<(u64, Outcome)>,
    /// The server takes no more requests.
    closing: bool,
    /// What ended it.
    fault: Option<String>,
    /// Counts whatever happened.
    steps: u64,
}

impl Session {
    fn new(of: Http2) -> Session {
        let pipe = Pipe::default();
        let handshake = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(pipe.clone());
        Session {
            of,
            pipe,
            stage: Stage::Opening(Box::pin(handshake)),
            waiting: VecDeque::new(),
            exchanges: Vec::new(),
            outcomes: Vec::new(),
            closing: false,
            fault: None,
            steps: 0,
        }
    }

    /// Whether the server takes no more requests on this connection.
    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Sends `request`; what becomes of it is told under `token`.
    pub(super) fn ask(&mut self, token: u64, request: Request) {
        match self.of.0[request.template].with(request.key) {
            Ok(asked) => self.waiting.push_back((token, asked)),
            Err(error) => {
                let reply = Reply::Failed(Failure::Other, error.to_string());
                self.outcomes.push((token, Outcome::Answer(reply)));
            }
        }
    }

    /// These bytes came.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.pipe.lock().incoming.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.pipe.lock().ended = true;
    }

    /// Works on what came and what is to be sent; appends to `out` what belongs on the
    /// wire, and returns what became of requests.
    ///
    /// # Errors
    /// In words, why the connection is of no more use; what became of requests before
    /// that is told by [`Self::outcomes`].
    pub(super) fn work(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let before = self.steps;
            self.drive(&mut context);
            self.send_waiting(&mut context);
            self.read_answers(&mut context);
            if self.steps == before {
                break;
            }
        }
        out.append(&mut self.pipe.lock().outgoing);
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// What became of which requests since the last call.
    pub(super) fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        let over = match &mut self.stage {
            Stage::Over => return,
            Stage::Opening(made) => match made.as_mut().poll(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(made)) => {
                    self.stage = Stage::Open(Box::new(made));
                    self.steps += 1;
                    return;
                }
                Poll::Ready(Err(error)) => Err(error),
            },
            Stage::Open(made) => {
                let (sender, connection) = &mut **made;
                let over = Pin::new(connection).poll(context);
                self.closing |= matches!(sender.poll_ready(context), Poll::Ready(Err(_)));
                match over {
                    Poll::Pending => return,
                    Poll::Ready(over) => over,
                }
            }
        };
        self.stage = Stage::Over;
        self.closing = true;
        self.steps += 1;
        self.fault = over.err().map(|error| told(&error));
    }

    fn send_waiting(&mut self, context: &mut Context<'_>) {
        while !self.waiting.is_empty() {
            let (sender, _) = match &mut self.stage {
                Stage::Opening(_) => return,
                Stage::Open(made) => &mut **made,
                Stage::Over => return self.give_back(),
            };
            match sender.poll_ready(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return self.give_back(),
            }
            let Some((token, (request, body))) = self.waiting.pop_front() else {
                return;
            };
            self.steps += 1;
            match sender.send_request(request, body.is_empty()) {
                Ok((answer, mut stream)) => {
                    // Held back by the session until the server has room.
                    let sent = match body.is_empty() {
                        true => Ok(()),
                        false => stream.send_data(body, true),
                    };
                    match sent {
                        Ok(()) => self.exchanges.push(Exchange {
                            token,
                            stage: ExchangeStage::Head(answer),
                        }),
                        Err(error) => self.outcomes.push((token, outcome_of(&error))),
                    }
                }
                Err(error) => self.outcomes.push((token, outcome_of(&error))),
            }
        }
    }

    /// Nothing that waits will be sent.
    fn give_back(&mut self) {
        self.closing = true;
        let waiting = self.waiting.drain(..);
        let again = waiting.map(|(token, _)| (token, Outcome::Again));
        self.outcomes.extend(again);
        self.steps += 1;
    }

    fn read_answers(&mut self, context: &mut Context<'_>) {
        let mut index = 0;
        while let Some(exchange) = self.exchanges.get_mut(index) {
            let outcome = match &mut exchange.stage {
                ExchangeStage::Head(answer) => match Pin::new(answer).poll(context) {
                    Poll::Pending => None,
                    Poll::Ready(Err(error)) => Some(outcome_of(&error)),
                    Poll::Ready(Ok(answer)) => {
                        let (head, body) = answer.into_parts();
                        let reply = reply(head.status, &head.headers);
                        exchange.stage = ExchangeStage::Body(body, reply);
                        continue;
                    }
                },
                ExchangeStage::Body(body, reply) => {
                    let (read, outcome) = read_body(body, reply, context);
                    self.steps += u64::from(read);
                    outcome
                }
            };
            match outcome {
                None => index += 1,
                Some(outcome) => {
                    let token = self.exchanges.swap_remove(index).token;
                    self.outcomes.push((token, outcome));
                    self.steps += 1;
                }
            }
        }
    }
}

/// Passes over what came of a body; whether there was any, and the outcome once it is
/// complete.
fn read_body(
    body: &mut RecvStream,
    reply: &Reply,
    context: &mut Context<'_>,
) -> (bool, Option<Outcome>) {
    let mut read = false;
    loop {
        match body.poll_data(context) {
            Poll::Pending => return (read, None),
            Poll::Ready(Some(Ok(part))) => {
                read = true;
                let _ = body.flow_control().release_capacity(part.len());
            }
            Poll::Ready(Some(Err(error))) => return (read, Some(outcome_of(&error))),
            Poll::Ready(None) => break,
        }
    }
    let outcome = match body.poll_trailers(context) {
        Poll::Pending => return (read, None),
        Poll::Ready(Err(error)) => outcome_of(&error),
        Poll::Ready(Ok(trailers)) => {
            let failed = trailers.as_ref().and_then(failed_call);
            Outcome::Answer(failed.unwrap_or_else(|| reply.clone()))
        }
    };
    (read, Some(outcome))
}

/// What a head says. A gRPC call that fails at once says so in it.
fn reply(status: http::StatusCode, headers: &HeaderMap) -> Reply {
    let text = || status.to_string();
    match status.as_u16() {
        200..=399 => failed_call(headers).unwrap_or(Reply::Success),
        400..=499 => Reply::Failed(Failure::Http4xx, text()),
        _ => Reply::Failed(Failure::Http5xx, text()),
    }
}

/// The failure of a gRPC call: its status is not 0.
fn failed_call(fields: &HeaderMap) -> Option<Reply> {
    let field = |name| {
        let value = fields.get(name).map(HeaderValue::as_bytes);
        value.map(|value| value.escape_ascii().to_string())
    };
    let status = field("grpc-status").filter(|status| status != "0")?;
    let message = field("grpc-message").unwrap_or_default();
    let text = format!("grpc-status {status} {message}");
    Some(Reply::Failed(Failure::ErrorReply, text.trim_end().into()))
}

fn outcome_of(error: &h2::Error) -> Outcome {
    let reason = error.reason();
    let unseen = reason == Some(Reason::REFUSED_STREAM)
        || error.is_go_away() && reason == Some(Reason::NO_ERROR);
    if unseen && error.is_remote() {
        return Outcome::Again;
    }
    let failure = match (error.is_reset(), error.get_io()) {
        (true, _) => Failure::Reset,
        (_, Some(error)) => Failure::of(error),
        _ => Failure::Protocol,
    };
    Outcome::Answer(Reply::Failed(failure, told(error)))
}

fn told(error: &h2::Error) -> String {
    match error.get_io() {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "closed by the server".into()
        }
        _ => error.to_string(),
    }
}

/// A request that only lacks its key.
#[derive(Clone, Debug)]
struct Template {
    method: Method,
    url: Divided,
    headers: Vec<(HeaderName, Divided)>,
    body: Divided,
    has_length: bool,
}

impl Template {
    /// What `request` is to the server of `url`.
    fn new(request: &HttpRequest, url: &Url) -> Result<Template, RequestError> {
        let method = Method::from_bytes(request.method.as_bytes());
        let method = method.map_err(|_| RequestError::Method(request.method.clone()))?;
        let mut authority = url.endpoint.to_string();
        let mut headers = vec![(USER_AGENT, Divided::of(b"jostle"))];
        for (name, value) in &request.headers {
            let known = HeaderName::from_bytes(name.as_bytes());
            let known = known.map_err(|_| RequestError::Header(name.clone()))?;
            match known {
                // RFC 9113, section 8.3.1: the name of the server is no header.
                HOST => authority.clone_from(value),
                _ => {
                    headers.retain(|(other, _)| *other != USER_AGENT || known != USER_AGENT);
                    headers.push((known, Divided::of(value.as_bytes())));
                }
            }
        }
        let scheme = if url.tls { "https" } else { "http" };
        let url = format!("{scheme}://{authority}{}", request.path);
        let expected = ["POST", "PUT", "PATCH"].contains(&request.method.as_str());
        let template = Template {
            method,
            url: Divided::of(url.as_bytes()),
            headers,
            body: Divided::of(&request.body),
            has_length: expected || !request.body.is_empty(),
        };
        let (made, _) = template
            .with(0)
            .map_err(|error| RequestError::Http2(error.to_string()))?;
        // RFC 9113, section 8.2.2.
        for name in ["keep-alive", "proxy-connection", "upgrade"] {
            if made.headers().contains_key(name) {
                return Err(RequestError::Http2(format!("it has no header '{name}'")));
            }
        }
        Ok(template)
    }

    fn with(&self, key: u64) -> Result<Asked, http::Error> {
        let digits = key.to_string();
        let filled = |text: &Divided| {
            let mut out = Vec::new();
            text.write(digits.as_bytes(), &mut out);
            out
        };
        let body = filled(&self.body);
        let mut request = http::Request::builder()
            .method(self.method.clone())
            .uri(filled(&self.url));
        for (name, value) in &self.headers {
            request = request.header(name.clone(), filled(value));
        }
        if self.has_length {
            request = request.header(CONTENT_LENGTH, body.len());
        }
        Ok((request.body(())?, body.into()))
    }
}
