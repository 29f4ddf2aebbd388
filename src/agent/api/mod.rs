//! What the agent knows, over HTTP: on a Unix socket, and on TCP where configured.
//!
//! No request runs a command or names a file: names are looked up among what the
//! agent already holds.
//!
//! | file | what it does |
//! |---|---|
//! | `socket` | where it listens, besides TCP |
//! | `server` | the thread that serves all of it |
//! | `guard` | checks of every request: token, host name, query, time limit |
//! | `routes`, `row` | all paths, their handlers and their descriptions |
//! | `query` | query strings |
//! | `node`, `profiles`, `events`, `health` | what each path answers |
//! | `place`, `expect`, `apps` | expected performance if a program joined |
//! | `shared` | what the handlers share |
//! | `metrics`, `series` | numbers for Prometheus |
//! | `page` | the dashboard |
//! | `openapi` | the description of all that |
//!
//! What other servers need too is in `http`.

#[cfg(feature = "server")]
mod apps;
#[cfg(feature = "server")]
mod events;
#[cfg(feature = "server")]
mod expect;
#[cfg(feature = "server")]
mod guard;
#[cfg(feature = "server")]
mod health;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "server")]
mod node;
#[cfg(feature = "server")]
mod openapi;
#[cfg(feature = "server")]
mod page;
#[cfg(feature = "server")]
mod place;
#[cfg(feature = "server")]
mod profiles;
#[cfg(feature = "server")]
mod query;
#[cfg(feature = "server")]
mod routes;
#[cfg(feature = "server")]
mod row;
#[cfg(feature = "server")]
mod series;
#[cfg(feature = "server")]
mod server;
#[cfg(not(feature = "server"))]
#[path = "without.rs"]
mod server;
#[cfg(feature = "server")]
mod shared;
#[cfg(feature = "server")]
mod socket;

pub use server::ApiHandle;
pub use server::serve;
#[cfg(feature = "server")]
pub use shared::MOST_CONNECTIONS;
#[cfg(feature = "server")]
pub use shared::MOST_STREAMS;
