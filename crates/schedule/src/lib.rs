#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
//!
//! # Design
//!
//! Placing applications by their profiles. Knows nothing of measuring: it takes
//! [`Profile`](jostle_profile::Profile)s and a [`Cluster`], and answers with a
//! node, and on demand with an [`Explanation`] that says which resource decided and
//! why. It keeps no clock, reads no file but those it is handed, and draws at
//! random only from a seed.
//!
//! # How the pieces fit
//!
//! - An [`App`] is a profile in the form that decisions read: scores, curves
//!   and speeds in arrays over resources and platforms. It is shared ([`Arc`]),
//!   never copied.
//! - A [`Cluster`] holds [`Node`]s and their residents, and keeps the sums that
//!   policies need ([`NodeSummary`]) up to date: every change costs O(resources), not
//!   O(residents).
//! - A [`PlacementRequest`] is an application that wants a place, with what it asks for,
//!   where it may go, and since when it waits.
//! - A [`Policy`] looks at both and gives a [`Decision`]: a place (a [`Choice`]
//!   of one node, or parts on several), nodes to queue at, or to wait.
//!   [`Policy::choose`] changes nothing; the caller starts the choice
//!   ([`Choice::start`]) and tells the policy of every change
//!   ([`Policy::changed`]). Words are made only when asked for
//!   ([`Policy::explain`]). [`POLICIES`] lists all of them by name.
//! - An [`Admission`](admission::Admission) stands before the policy: who is
//!   next, and on which nodes.
//! - [`provision`] decides what to rent at all.
//! - A [`Stream`] is all of this as a co-process for schedulers in other
//!   languages: events in, answers out, a line each.
//!
//! `examples/place.rs` is the shortest program that uses it;
//! `jostle-simulate` is the longest.
//!
//! # D1 and D2
//!
//! The policies that compare scores, Paragon's and those derived from it, see
//! each node as two distances per resource. (`jostle` reads whole curves
//! instead, see [`predict`](crate::predict), and the baselines neither.)
//! Scores are on one 0–100 scale, so that per resource (Paragon, section 3.3.2)
//!
//! - `D1 = t_node − c_app`: what is left of the residents' tolerance once the
//!   newcomer is there; negative = a resident is expected to break its QoS;
//! - `D2 = t_app − c_node`: what is left of the newcomer's tolerance beside the
//!   residents; negative = the newcomer is expected to break its QoS.
//!
//! A node's `c` is the sum of its residents' `c`, its `t` the least of its
//! residents' `t` (Paragon, section 3.3.2); an empty node has t = 100, c = 0.
//!
//! # Which resources count
//!
//! A node gives each application CPUs of its own, unless it says
//! [`shares_cpus`](Node::shares_cpus). Then `cpu-time` is guarded by the
//! capacity in CPUs already and is not compared; neither is a score of a
//! core-private resource (domain logical CPU, core or L2 group) that was
//! measured in `same-cpu` mode: it says what happens between processes that
//! take turns on one CPU, and these do not. On a node that shares CPUs both
//! count. Every decision says what was not counted.
//!
//! A score that a profile does not have is never taken for 0 or 100: that side
//! of that resource is left out of the comparison, with a note.
//!
//! [`Arc`]: std::sync::Arc

pub mod admission;
mod app;
mod batch;
pub mod classify;
mod cluster;
mod compare;
pub mod drift;
mod error;
pub mod evaluate;
mod explanation;
pub mod local;
mod nodes_file;
pub mod policies;
mod policy;
pub mod predict;
pub mod provision;
mod scaling;
mod search;
mod sizing;
mod stream;

pub use app::App;
pub use app::Demand;
pub use app::FULL_SCALE;
pub use app::STEPS_PER_POINT;
pub use app::to_points;
pub use app::to_steps;
pub use batch::Placed;
pub use batch::Wanted;
pub use batch::place_all;
pub use cluster::Cluster;
pub use cluster::Node;
pub use cluster::NodeId;
pub use cluster::PlatformId;
pub use cluster::Resident;
pub use cluster::ResidentId;
pub use cluster::free_units::FreeUnits;
pub use cluster::node_set::NodeSet;
pub use cluster::summary::NodeSummary;
pub use compare::Comparison;
pub use compare::below_zero;
pub use compare::compare;
pub use compare::known_directions;
pub use error::ClusterError;
pub use error::MOST_CPUS;
pub use error::MemoryError;
pub use error::NodesFileError;
pub use error::SampleSizeError;
pub use error::StreamError;
pub use explanation::Deciding;
pub use explanation::Direction;
pub use explanation::ExpectedPerformance;
pub use explanation::Explanation;
pub use explanation::MostAffected;
pub use explanation::NoPlacement;
pub use explanation::NodeReason;
pub use explanation::PartReason;
pub use explanation::RUNNERS_UP;
pub use explanation::Relaxed;
pub use explanation::SizeReason;
pub use nodes_file::AppDemand;
pub use nodes_file::NodeEntry;
pub use nodes_file::NodesFile;
pub use nodes_file::parse_memory;
pub use policies::POLICIES;
pub use policies::PolicyKind;
pub use policies::PolicyOptions;
pub use policies::bazaar::Bazaar;
pub use policies::bloc::Bloc;
pub use policies::by_load::ByLoad;
pub use policies::ibench_l1::IbenchL1;
pub use policies::jostle::Jostle;
pub use policies::jostle::Ranking;
pub use policies::jostle::Worth;
pub use policies::paragon::Paragon;
pub use policies::paragon_sampled::ParagonSampled;
pub use policies::paragon_sampled::colocation_quality;
pub use policies::paragon_sampled::sample_size;
pub use policies::platform_only::PlatformOnly;
pub use policies::policy_kind;
pub use policies::quasar_sizing::QuasarSizing;
pub use policies::random::Random;
pub use policies::round_robin::RoundRobin;
pub use policies::sparrow::Sparrow;
pub use policies::tarcil::Tarcil;
pub use policy::Choice;
pub use policy::Decision;
pub use policy::MigrationCosts;
pub use policy::Part;
pub use policy::PlacementRequest;
pub use policy::Policy;
pub use policy::Waiting;
pub use scaling::Scaling;
pub use search::greedy::Greedy;
pub use stream::LONGEST_LINE;
pub use stream::Places;
pub use stream::Recorded;
pub use stream::Stream;
