//! `jostle extender`: filter and prioritize for kube-scheduler.
//!
//! Residents come from the API server, which is watched: so replicas agree, and a
//! restart forgets nothing. Agents add what only they see: who misses its QoS now, and
//! what runs outside of pods. The extender binds nothing itself, because a scheduler
//! whose extender binds cannot go on without it.
//!
//! | file | what it does |
//! |---|---|
//! | `protocol` | what the scheduler sends and expects |
//! | `decide` | filter and prioritize |
//! | `world` | nodes, what runs on them, what agents said |
//! | `live` | a node state, as far as decisions read it |
//! | `decisions` | what was decided, and why |
//! | `profiles`, `source` | the profiles, their version, and where they are |
//! | `api_server`, `watch` | lists and watches of nodes and pods |
//! | `routes`, `guard`, `shared`, `metrics` | HTTP |
//! | `server` | all of it, started |
//! | `fuzzing` | what a fuzzer calls |

mod api_server;
mod decide;
mod decisions;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod live;
mod metrics;
mod profiles;
mod protocol;
mod routes;
mod server;
mod shared;
mod source;
mod watch;
mod world;

pub use server::Extender;
pub use server::Options;
