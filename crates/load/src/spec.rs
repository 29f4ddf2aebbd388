//! What is sent, apart from how fast.

use crate::arrivals::Arrivals;
use crate::placement::LoadPlacement;
use crate::request::HttpRequest;
use crate::url::Kind;
use crate::url::Url;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Everything about the requests, but for their rate.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    pub url: Url,
    pub connections: usize,
    /// Requests in flight on one connection at most.
    pub pipeline: usize,
    /// HTTP: what is asked for; by default a GET of the URL's path.
    pub requests: Vec<HttpRequest>,
    /// HTTP: whether a connection carries more than one request. Without it each request
    /// makes its own when it is due, which is part of its latency.
    pub keep_alive: bool,
    /// HTTP: speaks HTTP/2; without TLS the server must expect it.
    pub http2: bool,
    pub tls: TlsTrust,
    pub arrivals: Arrivals,
    /// Time in which an open loop reaches its rate.
    pub ramp: Duration,
    /// Different keys asked for.
    pub keys: u64,
    /// 0: all keys alike.
    pub zipf_exponent: f64,
    pub value_bytes: usize,
    /// Share of the requests that read, 0–100.
    pub read_percent: f64,
    /// Sets every key once before anything is measured.
    pub prefill: bool,
    /// A request not answered within this time, from the intended time, counts
    /// as failed.
    pub timeout: Duration,
    /// Longest wait for a server that is starting.
    pub connect_timeout: Duration,
    pub seed: u64,
    pub placement: LoadPlacement,
    /// Asks the kernel for time slices of so many nanoseconds for the calling
    /// thread (`sched_setattr`, for which there is no safe wrapper), so that
    /// the generator wakes in time on a CPU that it shares. Without it the
    /// timing error is larger there.
    pub request_slice: Option<fn(u64) -> io::Result<()>>,
}

impl LoadSpec {
    /// Usual settings for `url`: 50 connections without pipelining, Poisson
    /// arrivals, 100,000 keys asked for alike, 64 bytes each, 90 % reads.
    pub fn new(url: Url) -> LoadSpec {
        LoadSpec {
            prefill: url.kind.has_keys(),
            requests: match url.kind {
                Kind::Http => vec![HttpRequest::get(&url.path)],
                _ => Vec::new(),
            },
            url,
            keep_alive: true,
            http2: false,
            tls: TlsTrust::default(),
            connections: 50,
            pipeline: 1,
            arrivals: Arrivals::Poisson,
            ramp: Duration::ZERO,
            keys: 100_000,
            zipf_exponent: 0.0,
            value_bytes: 64,
            read_percent: 90.0,
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(10),
            seed: 1,
            placement: LoadPlacement::default(),
            request_slice: None,
        }
    }

    /// Whether what is asked for depends on a key.
    pub fn uses_keys(&self) -> bool {
        self.url.kind.has_keys() || self.requests.iter().any(HttpRequest::uses_keys)
    }
}

/// Which servers are believed to be who they say, where TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTrust {
    /// PEM file of the authorities to believe; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Believes anybody.
    pub insecure: bool,
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At this rate per second, whatever the answers take.
    Open(f64),
    /// The next one as soon as an answer is there, on every connection.
    Closed,
}

/// Called now and then while the server is awaited: an error says why waiting
/// is of no use, for example that the server's process has ended.
pub type Alive<'a> = dyn FnMut() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;
