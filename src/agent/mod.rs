//! The daemon of a node: it watches workloads, keeps their profiles, measures where
//! it is allowed to, and tells how much more pressure the node tolerates.
//!
//! | file | what it does |
//! |---|---|
//! | `config`, `rules` | `agent.toml` |
//! | `daemon` | the loop: look, read, judge, show |
//! | `tree`, `discover` | which cgroups and processes match a rule |
//! | `meter`, `cycles`, `load` | what a workload uses, what the whole machine does |
//! | `drift` | whether a workload still does what its profile says |
//! | `experiments` | who is profiled again, who is paused, and what becomes of it |
//! | `performance` | how fast a workload runs by its own metric |
//! | `node` | from readings and profiles to pressure and headroom |
//! | `store` | the profiles of this node, with their history |
//! | `board`, `trend` | the newest node state, what happened, the last refreshes; for the API |
//! | `windows` | labelled windows as CSV, to learn from |
//! | `api` | all of it over HTTP, and the dashboard |
//! | `report` | states sent to `jostle extender` |
//! | `own`, `log` | that the agent is alone, what it costs, what it logs |

pub mod api;
pub mod board;
pub mod config;
mod cycles;
mod daemon;
mod discover;
mod drift;
pub mod experiments;
mod load;
pub mod log;
mod meter;
mod node;
mod own;
mod performance;
#[cfg(feature = "server")]
pub mod report;
#[cfg(not(feature = "server"))]
#[path = "report/without.rs"]
pub mod report;
pub mod rules;
pub mod store;
mod tree;
pub mod trend;
mod windows;

pub use config::Config;
pub use daemon::Daemon;
pub use daemon::Order;
pub use daemon::Supervisor;
