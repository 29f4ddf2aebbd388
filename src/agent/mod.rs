//! The daemon of a node: it watches workloads, keeps their profiles, measures where
//! it is allowed to, and says what the node bears.
//!
//! | file | what it does |
//! |---|---|
//! | `config`, `rules` | `agent.toml` |
//! | `store` | the profiles of this node, with their history |
//! | `board` | the newest node state and what happened, for the API |

pub mod board;
pub mod config;
pub mod rules;
pub mod store;
