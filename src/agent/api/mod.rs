//! What the agent knows, over HTTP: on a Unix socket, and on TCP where configured.
//!
//! No request runs a command or names a file: names are looked up among what the
//! agent already holds.
//!
//! | file | what it does |
//! |---|---|
//! | `socket`, `tcp`, `tls` | where it listens, and what that asks for |
//! | `server` | the thread that accepts and serves connections |
//! | `connections`, `patient` | limits: how many, how slow |
//! | `door` | checks of every request: token, host name, query, time limit |
//! | `routes`, `row` | all paths, their handlers and their descriptions |
//! | `answer`, `query` | answers and errors as JSON; query strings |
//! | `node`, `profiles`, `events`, `health` | what each path answers |
//! | `place`, `expect`, `apps` | expected performance if a program joined |
//! | `shared` | what the handlers share |
//! | `metrics`, `series`, `requests` | numbers for Prometheus |
//! | `page` | the dashboard |
//! | `openapi` | the description of all that |

#[cfg(feature = "server")]
mod answer;
#[cfg(feature = "server")]
mod apps;
#[cfg(feature = "server")]
mod connections;
#[cfg(feature = "server")]
mod door;
#[cfg(feature = "server")]
mod events;
#[cfg(feature = "server")]
mod expect;
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
mod patient;
#[cfg(feature = "server")]
mod place;
#[cfg(feature = "server")]
mod profiles;
#[cfg(feature = "server")]
mod query;
#[cfg(feature = "server")]
mod requests;
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
#[cfg(feature = "server")]
mod tcp;
#[cfg(feature = "tls")]
mod tls;
#[cfg(all(feature = "server", not(feature = "tls")))]
#[path = "without_tls.rs"]
mod tls;

#[cfg(feature = "server")]
pub use connections::MOST_CONNECTIONS;
pub use server::ApiHandle;
pub use server::serve;
#[cfg(feature = "server")]
pub use shared::MOST_STREAMS;
