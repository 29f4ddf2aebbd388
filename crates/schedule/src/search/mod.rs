//! Ways to look through the nodes that several policies share.

pub(crate) mod conditions;
pub(crate) mod draw;
pub(crate) mod greedy;
pub(crate) mod ranking;
