//! Placing applications by their profiles. Knows nothing of measuring: it takes
//! [`Profile`](crate::profile::Profile)s and a [`Cluster`], and answers with a
//! [`Decision`] that says which resource decided and why.
//!
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
//! Schedulers in other languages drive it as a co-process: see [`Stream`].

pub mod admission;
mod app;
pub mod bazaar;
mod bin_pack;
pub mod bloc;
mod cluster;
mod compare;
mod conditions;
mod decision;
mod draw;
mod greedy;
mod ibench_l1;
mod interference_only;
mod jostle;
mod least_loaded;
mod node_set;
mod nodes_file;
mod paragon;
mod paragon_sampled;
mod places;
mod platform_only;
mod policies;
mod policy;
pub mod provision;
pub mod quasar_sizing;
mod random;
mod ranking;
mod round_robin;
mod row;
mod scaling;
mod sparrow;
mod stream;
pub mod tarcil;
mod units;

pub use app::App;
pub use app::Demand;
pub use app::FULL_SCALE;
pub use app::STEPS_PER_POINT;
pub use app::to_points;
pub use app::to_steps;
pub use bazaar::Bazaar;
pub use bin_pack::BinPack;
pub use bloc::Bloc;
pub use cluster::Cluster;
pub use cluster::ClusterError;
pub use cluster::Node;
pub use cluster::NodeId;
pub use cluster::PlatformId;
pub use cluster::Resident;
pub use cluster::ResidentId;
pub use compare::Comparison;
pub use compare::below_zero;
pub use compare::compare;
pub use compare::known_directions;
pub use decision::Deciding;
pub use decision::Decision;
pub use decision::ExpectedPerformance;
pub use decision::MostHurt;
pub use decision::NoPlacement;
pub use decision::NodeReason;
pub use decision::PartReason;
pub use decision::RUNNERS_UP;
pub use decision::Relaxed;
pub use decision::Side;
pub use greedy::Greedy;
pub use ibench_l1::IbenchL1;
pub use interference_only::InterferenceOnly;
pub use jostle::Jostle;
pub use least_loaded::LeastLoaded;
pub use node_set::NodeSet;
pub use nodes_file::AppDemand;
pub use nodes_file::MOST_CPUS;
pub use nodes_file::NodeEntry;
pub use nodes_file::NodesFile;
pub use nodes_file::NodesFileError;
pub use nodes_file::parse_memory;
pub use paragon::Paragon;
pub use paragon_sampled::ParagonSampled;
pub use paragon_sampled::SampleSizeError;
pub use paragon_sampled::colocation_quality;
pub use paragon_sampled::sample_size;
pub use platform_only::PlatformOnly;
pub use policies::POLICIES;
pub use policies::PolicyKind;
pub use policies::PolicyOptions;
pub use policies::policy_kind;
pub use policy::Answer;
pub use policy::Ask;
pub use policy::Choice;
pub use policy::MigrationCosts;
pub use policy::Part;
pub use policy::Policy;
pub use policy::Waiting;
pub use quasar_sizing::QuasarSizing;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use row::Row;
pub use scaling::Scaling;
pub use sparrow::Sparrow;
pub use stream::LONGEST_LINE;
pub use stream::Stream;
pub use tarcil::Tarcil;
pub use units::FreeUnits;
