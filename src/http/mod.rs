//! What every server of jostle shares: listening, limits, TLS, tokens, answers; and a
//! client for those that jostle asks itself.
//!
//! | file | what it does |
//! |---|---|
//! | `naming` | how messages name a setting: a key of a file, or a flag |
//! | `tcp`, `tls` | where it listens, and what that asks for |
//! | `reloaded` | certificates that are renewed while it runs |
//! | `server` | accepts and serves connections |
//! | `connections`, `write_timeout` | limits: how many, how slow |
//! | `access` | access control: token, host name, time limit |
//! | `credentials` | tokens and host names |
//! | `answer` | answers and errors as JSON |
//! | `requests` | counts of requests for Prometheus |
//! | `client`, `trust` | requests to others, over TLS where the address says so |

pub mod access;
pub mod answer;
pub mod client;
pub mod connections;
pub mod credentials;
pub mod naming;
#[cfg(feature = "tls")]
mod reloaded;
pub mod requests;
pub mod server;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
pub mod tls;
#[cfg(feature = "tls")]
pub mod trust;
#[cfg(not(feature = "tls"))]
#[path = "without_trust.rs"]
pub mod trust;
mod write_timeout;
