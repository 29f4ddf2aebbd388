#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
//!
//! | module | contents |
//! |---|---|
//! | `url`, `endpoint` | `redis://…`, `memcached://…`, `http://…`, and where that is |
//! | `amount` | rates, percentiles, latencies and their targets |
//! | `arrivals`, `operation` | how moments lie; what is asked |
//! | `spec` | everything about the requests apart from their rate |
//! | `request` | what HTTP requests ask for, and files that mix several |
//! | `traffic` | when requests are due and what each asks for, seeded |
//! | `protocol` | writing requests, reading answers from any cut of the bytes |
//! | `failure` | how a request can fail, counted by kind |
//! | `http2`, `no_http2` | many requests at once on one connection |
//! | `tls`, `no_tls` | whose certificates are believed |
//! | `channel` | a socket, with or without TLS on it |
//! | `connection` | one socket and what is in flight on it |
//! | `window` | what became of the requests due within a time |
//! | `engine` | the one thread that sends and receives |
//! | `generator` | the handle on that thread |
//! | `server` | waiting for the server, logging in, filling it with keys |
//! | `capacity` | the search for the highest rate that meets a target |
//! | `find_capacity` | that search with real requests |
//! | `plan` | a load that is known before its server is there |
//! | `placement` | where the generator runs |
//! | `report` | what `jostle load` prints |
//! | `fuzzing` | what a fuzzer calls |
//! | `error`, `warning` | all texts about what went wrong |

mod amount;
mod arrivals;
mod capacity;
mod channel;
mod clock;
mod connection;
mod endpoint;
mod engine;
mod error;
mod failure;
mod find_capacity;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod generator;
#[cfg_attr(not(feature = "http2"), path = "no_http2.rs")]
mod http2;
mod operation;
mod placement;
mod plan;
mod protocol;
pub mod report;
mod request;
mod server;
mod spec;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod traffic;
mod url;
mod warning;
mod window;

pub use amount::*;
pub use arrivals::Arrivals;
pub use capacity::Capacity;
pub use capacity::StoppedBy;
pub use capacity::Trial;
pub use endpoint::Endpoint;
pub use error::*;
pub use failure::*;
pub use find_capacity::find_capacity;
pub use find_capacity::nap;
pub use generator::Generator;
pub use jostle_profile::ArrivalsFact;
pub use jostle_profile::LoadFacts;
pub use placement::*;
pub use plan::*;
pub use request::HttpRequest;
pub use request::parse_header;
pub use request::parse_mix;
pub use spec::*;
pub use url::*;
pub use warning::*;
pub use window::Window;
