//! Load for services: requests at a given rate, whatever the answers take.
//!
//! The load is *open loop*: every request has an intended moment, drawn before
//! anything is sent, and its latency counts from there. A server that stalls
//! for 300 ms is charged with every request that was due meanwhile, not only
//! with the one that happened to be under way (no coordinated omission). How
//! late the generator itself was is recorded beside every result.
//!
//! | file | what lives there |
//! |---|---|
//! | `url` | `redis://…`, `memcached://…`, `http://…` |
//! | `amount` | rates, percentiles, latency targets, from words |
//! | `traffic` | when requests are due and what each asks for, seeded |
//! | `protocol` | writing requests, reading answers from any cut of the bytes |
//! | `failure` | how a request can fail, counted by kind |
//! | `connection` | one socket and what is under way on it |
//! | `window` | what became of the requests due within a time |
//! | `engine` | the one thread that sends and receives |
//! | `generator` | the handle on that thread |
//! | `server` | waiting for the server, logging in, filling it with keys |
//! | `capacity` | the highest rate that meets a latency target |
//! | `placement` | where the generator runs |
//! | `facts` | what a profile keeps |
//! | `report` | what `jostle load` tells |

mod amount;
mod capacity;
mod clock;
mod connection;
mod engine;
mod error;
mod failure;
mod generator;
mod placement;
mod protocol;
pub mod report;
mod server;
mod traffic;
mod url;
mod window;

pub use amount::LatencyTarget;
pub use amount::Percentile;
pub use amount::parse_bound;
pub use amount::parse_rate;
pub use capacity::Capacity;
pub use capacity::Probe;
pub use capacity::StoppedBy;
pub use capacity::Trial;
pub use capacity::TrialWindow;
pub use capacity::find_capacity;
pub use capacity::search;
pub use error::Error;
pub use error::Result;
pub use failure::Failure;
pub use failure::Failures;
pub use generator::Generator;
pub use generator::TIMING_BOUND;
pub use jostle_profile::ArrivalsFact;
pub use jostle_profile::LoadFacts;
pub use placement::LoadPlacement;
pub use placement::place;
pub use protocol::Answer;
pub use protocol::Ask;
pub use protocol::Parsed;
pub use protocol::Parser;
pub use protocol::Wrong;
pub use traffic::Arrivals;
pub use traffic::Question;
pub use traffic::Schedule;
pub use traffic::Traffic;
pub use url::Endpoint;
pub use url::Kind;
pub use url::Url;
pub use window::Latency;
pub use window::Window;

use jostle_profile::cpulist::format_list;
use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Everything about the requests, but for their rate.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    pub url: Url,
    pub connections: usize,
    /// Requests under way on one connection at most.
    pub pipeline: usize,
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
    /// An answer that takes longer, from the intended moment, is none.
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
            url,
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
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At this rate per second, whatever the answers take.
    Open(f64),
    /// The next one as soon as an answer is there, on every connection.
    Closed,
}

/// How fast, if that is known before the server is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    Pace(Pace),
    /// At this share (0–1) of the highest rate that meets the target.
    ShareOfCapacity {
        target: LatencyTarget,
        share: f64,
    },
}

/// A load for a target that is yet to be started.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub spec: LoadSpec,
    pub drive: Drive,
}

impl LoadPlan {
    /// What would be sent where, on one line.
    pub fn describe(&self) -> String {
        let how = match self.drive {
            Drive::Pace(Pace::Closed) => "as fast as answers come".to_string(),
            Drive::Pace(Pace::Open(rate)) => format!("{rate:.0} requests/s"),
            Drive::ShareOfCapacity { target, share } => format!(
                "{:.0} % of the highest rate that meets {target}, searched first",
                share * 100.0
            ),
        };
        let cpus = match self.spec.placement.cpus.is_empty() {
            true => String::new(),
            false => format!(", from CPUs {}", format_list(&self.spec.placement.cpus)),
        };
        format!(
            "load: {how} to {} over {} connections{cpus}",
            self.spec.url, self.spec.connections
        )
    }

    /// Whether each request waits for the answer to the one before.
    pub fn is_closed(&self) -> bool {
        self.drive == Drive::Pace(Pace::Closed)
    }

    /// Waits for the server, searches its capacity if that is needed, and sends.
    ///
    /// # Errors
    /// Those of [`Generator::start`] and [`find_capacity`].
    pub fn start(
        &self,
        interrupt: &AtomicBool,
        alive: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Generator> {
        let mut generator = Generator::start(self.spec.clone(), interrupt, alive)?;
        match self.drive {
            Drive::Pace(pace) => generator.pace(pace),
            Drive::ShareOfCapacity { target, share } => {
                let found = find_capacity(&mut generator, target, None, interrupt, &mut |_, _| ())?;
                generator.pace(Pace::Open(found.rate_per_second * share));
                generator.share_percent = Some(share * 100.0);
                generator.capacity = Some(found);
            }
        }
        // The ramp is not part of what is measured.
        std::thread::sleep(self.spec.ramp);
        Ok(generator)
    }
}
