//! Why there is no load. All error texts of the crate are in this file.

use crate::endpoint::Endpoint;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Which kind of remedy an error needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong: the message names the flag and the fix.
    Request,
    /// The machine or the server cannot do it: the message names what is missing.
    Environment,
    /// Interrupted by the user.
    Interrupted,
}

/// Why there is no load. The flags in the messages are those of `jostle load`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    #[error("--load-cpus: CPU {cpu} is outside the allowed set {allowed}")]
    CpuOutside { cpu: usize, allowed: String },
    #[error("--load {url}: {problem}")]
    Server { url: String, problem: ServerError },
    #[error("--load {url}: {problem}; waited {waited:?} (--connect-timeout)")]
    NotReady {
        url: String,
        problem: ServerError,
        waited: Duration,
    },
    #[error(
        "--load {url}: the server did not take its {keys} keys of {value_bytes} bytes: {reason}; \
         ask for fewer with --keys, or leave them out with --prefill=no"
    )]
    Prefill {
        url: String,
        keys: u64,
        value_bytes: usize,
        reason: String,
    },
    #[error(
        "--load {url}: only {connected} of {wanted} connections could be made: {reason}; ask for \
         fewer with --connections, or raise the server's limit"
    )]
    Connections {
        url: String,
        connected: usize,
        wanted: usize,
        reason: String,
    },
    #[error("--find-capacity: no request succeeded in {time:?}: {failures}")]
    NoSuccess { time: Duration, failures: String },
    #[error(
        "--find-capacity: {target} is not met even at {rate_per_second:.0} requests/s: {seen}; \
         give a wider --slo"
    )]
    TargetMissed {
        target: String,
        rate_per_second: f64,
        seen: String,
    },
    #[error(
        "--find-capacity: no rate that meets {target} is known after {} s; it was missed even at \
         {rate_per_second:.0} requests/s: {seen}; try again while nothing else runs \
         on the machine, or give a wider --slo", limit.as_secs()
    )]
    SearchTooLong {
        target: String,
        limit: Duration,
        /// Lowest that missed it.
        rate_per_second: f64,
        seen: String,
    },
    #[error("--load {url}: {problem}")]
    Tls { url: String, problem: TlsError },
    #[error("--http2: {0}")]
    Http2(RequestError),
    #[error("no Zipf distribution over {keys} keys with exponent {exponent}: {reason}")]
    Zipf {
        keys: u64,
        exponent: f64,
        reason: rand_distr::ZipfError,
    },
    #[error("the load generator cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("the load generator cannot go on: {0}")]
    Stopped(String),
    #[error("the load generator did not deliver its result in time")]
    NoResult,
    /// What the callback `alive` reported.
    #[error("{0}")]
    NotAlive(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("interrupted {0}")]
    Interrupted(&'static str),
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::CpuOutside { .. } => ErrorKind::Request,
            Error::Server { problem, .. } if !problem.may_pass() => ErrorKind::Request,
            Error::Tls { .. } | Error::Http2(_) => ErrorKind::Request,
            Error::Interrupted(_) => ErrorKind::Interrupted,
            _ => ErrorKind::Environment,
        }
    }
}

/// Why a server cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error("nobody listens at {at} ({reason}); start the server, or correct host and port")]
    NobodyListens { at: Endpoint, reason: io::Error },
    #[error("no connection to {at}: {reason}")]
    NoConnection { at: Endpoint, reason: io::Error },
    #[error("{0} accepts connections but does not answer")]
    Silent(Endpoint),
    #[error("{0} closes the connection instead of answering")]
    Closes(Endpoint),
    #[error("{at} does not answer: {reason}")]
    NoAnswer { at: Endpoint, reason: io::Error },
    #[error("the server answers {0}")]
    Busy(String),
    #[error("the server is still loading its data")]
    Loading,
    #[error("the host has no address")]
    NoAddress,
    #[error("cannot find '{at}': {reason}; correct the host")]
    UnknownHost { at: Endpoint, reason: io::Error },
    #[error("the server answers {0}; name a path that it serves")]
    WrongPath(String),
    #[error("the server refuses: {0}; give the password, like redis://:PASSWORD@HOST:PORT")]
    Login(String),
    #[error("the server refuses: {0}")]
    Refuses(String),
    #[error("no TLS with {at}: {reason}; {fix}", fix = tls_fix(reason))]
    NoTls { at: Endpoint, reason: io::Error },
    #[error("this is no {kind} server: {reason}; correct the scheme or the port")]
    WrongProtocol { kind: &'static str, reason: String },
    #[error("the server does not speak HTTP/2 here: {0}; leave --http2 out, or correct the port")]
    NoHttp2(String),
}

impl ServerError {
    /// Whether waiting may help: the server may be starting.
    pub fn may_pass(&self) -> bool {
        !matches!(
            self,
            ServerError::NoAddress
                | ServerError::UnknownHost { .. }
                | ServerError::WrongPath(_)
                | ServerError::Login(_)
                | ServerError::Refuses(_)
                | ServerError::NoTls { .. }
                | ServerError::WrongProtocol { .. }
                | ServerError::NoHttp2(_)
        )
    }
}

/// What helps against a handshake that failed so.
fn tls_fix(reason: &io::Error) -> &'static str {
    match reason.to_string().contains("certificate") {
        true => {
            "name the authority that signed its certificate with --tls-ca, or believe anybody with \
             --tls-insecure"
        }
        false => "correct the scheme or the port",
    }
}

const URLS: &str = "give redis://HOST:PORT[/DB], redis+unix:///PATH, memcached://HOST:PORT or http://HOST:PORT/PATH, \
     with TLS rediss:// or https://";

/// Why a text is not a URL, a rate, a percentile or a latency target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    #[error("'{0}' is not an address; {URLS}")]
    NoUrl(String),
    #[error("an address holds no spaces or control characters")]
    Spaces,
    #[error("'{0}' is not supported; {URLS}")]
    Scheme(String),
    #[error("{kind} has no '{path}'; {URLS}")]
    NoPaths { kind: &'static str, path: String },
    #[error(
        "redis+unix needs an absolute path, like redis+unix:///run/redis.sock; '{0}' is not one"
    )]
    RelativeSocket(String),
    #[error("the path of a socket has at most 107 bytes; this one has {0}")]
    LongSocket(usize),
    #[error("{0} takes no user and password here; leave them out")]
    NoLogin(&'static str),
    #[error("user and password: '%' must be followed by two hexadecimal digits")]
    Percent,
    #[error("user and password must be UTF-8")]
    Utf8,
    #[error("'{0}': the bracket of the host is never closed")]
    Bracket(String),
    #[error("the host is missing; {URLS}")]
    NoHost,
    #[error("'{0}': write an IPv6 host in brackets, like [::1]:6379")]
    BareIpv6(String),
    #[error("'{0}' is not a port; give 1 to 65535")]
    Port(String),
    #[error("'{0}' is not a redis database; give its number, like /1")]
    Database(String),
    #[error("'{0}' is not a rate; write for example 50000/s or 50k/s")]
    Rate(String),
    #[error("'{0}': a rate lies above 0 and at most 100000000 per second")]
    RateRange(String),
    #[error("'{0}' is not a bound; write for example 200us or 1ms")]
    Bound(String),
    #[error("'{0}': a bound lies between 1us and 100s")]
    BoundRange(String),
    #[error("'{0}' is not a percentile; write for example p99 or p99.9")]
    Percentile(String),
}

/// Why something cannot be sent as an HTTP request, or is no mix of requests.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("request {0}: {1}")]
    Of(usize, #[source] Box<RequestError>),
    #[error("{0}")]
    Toml(String),
    #[error("a mix has 1 to 1000 requests, each under [[request]]; this one has {0}")]
    Count(usize),
    #[error("'{0}' is not a method that can be sent; give one like GET or POST")]
    Method(String),
    #[error("'{0}' is not a path; begin it with a slash, without spaces and control characters")]
    Path(String),
    #[error("the header '{0}' has a name or a value that HTTP does not allow")]
    Header(String),
    #[error("jostle writes the header '{0}' by itself; leave it out")]
    Ours(String),
    #[error("'{0}' is not a header: the colon is missing; write it like 'Accept: text/html'")]
    NoColon(String),
    #[error("the body has {0} bytes; it may have 16 MiB")]
    Body(usize),
    #[error("the weight {0} is no positive number")]
    Weight(f64),
    #[error("HTTP/2 cannot carry the request: {0}; change it, or leave --http2 out")]
    Http2(String),
    #[error("this jostle was built without HTTP/2 (feature `http2`)")]
    NoHttp2,
}

/// Why no TLS can be spoken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("this jostle was built without TLS (feature `tls`)")]
    NotBuilt,
    #[error("--tls-ca {path}: {problem}")]
    Ca { path: PathBuf, problem: String },
    #[error("no certificate authority of this system can be read: {0}; name one with --tls-ca")]
    NoRoots(String),
    #[error("'{0}' is not a name that a certificate can be for")]
    Name(String),
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
}

pub type Result<T> = std::result::Result<T, Error>;
