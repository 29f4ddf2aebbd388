//! A scheduler as a co-process: events in, answers out, one JSON object a line.
//!
//! ```json
//! {"event":"arrive","id":"job-1","app":"redis","cpus":4,"memory":"8GiB"}
//! {"answer":"placed","decision":{…},"id":"job-1","node":"n3"}
//! ```
//!
//! | event | keys (optional in brackets) | answer |
//! |---|---|---|
//! | `arrive` | `id`, `app` or `profile`, \[`cpus`, `memory`, `spread`, `target`, `seconds`\] | `placed` or `waiting` |
//! | `depart` | `id` | `departed` |
//! | `node-up` | `name`, and of a new node `cpus`, `memory`, \[`platform`, `shares_cpus`\] | `node-up` |
//! | `node-down` | `name` | `node-down`, then `placed` or `waiting` for each application that ran there |
//! | `profile-changed` | `id`, `app` or `profile`, \[`seconds_left`\] | `profile-changed`, then `moved` if the policy moves it |
//! | `move-cost` | `seconds` | `noted`; what a move has cost, for policies that weigh it |
//! | `node-reading` | `name` and `readings`, or `state` of an agent | `node-reading`; for admissions that look at nodes |
//! | `state` | | `state`: nodes, what runs there, who waits |
//!
//! `seconds` of an arrival is how long it would take alone on its best platform;
//! a policy that knows it may let the job wait for a better place, if the events
//! that follow say the time. Every event may say the time, `at`, in seconds that never fall. An event
//! that makes room is followed by a `placed` line for each job that waited and
//! now has a place, in the order of arrival. What cannot be understood or done
//! is answered with one `error` line, changes nothing, and the stream goes on.

mod answers;
mod attempt;
mod event;
mod explain;
mod queue;
mod reading;
mod retell;
mod run;
mod state;

pub use retell::Recorded;
pub use run::LONGEST_LINE;
pub use state::Places;
pub use state::Stream;
