//! The daemon of a node: it watches workloads, keeps their profiles, measures where
//! it is allowed to, and says what the node bears.
//!
//! | file | what it does |
//! |---|---|
//! | `config`, `rules` | `agent.toml` |
//! | `store` | the profiles of this node, with their history |
//! | `board`, `trend` | the newest node state, what happened, the last refreshes; for the API |
//! | `api` | all of it over HTTP, and the dashboard |

pub mod api;
pub mod board;
pub mod config;
pub mod rules;
pub mod store;
pub mod trend;
