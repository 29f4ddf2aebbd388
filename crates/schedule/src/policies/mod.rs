//! Every policy by name.

pub mod bazaar;
pub mod bloc;
pub(crate) mod by_load;
pub(crate) mod ibench_l1;
pub(crate) mod jostle;
pub(crate) mod paragon;
pub(crate) mod paragon_sampled;
pub(crate) mod platform_only;
pub mod quasar_sizing;
pub(crate) mod random;
pub(crate) mod round_robin;
pub(crate) mod sparrow;
pub mod tarcil;

use crate::policies::bazaar::Bazaar;
use crate::policies::bloc::Bloc;
use crate::policies::by_load::ByLoad;
use crate::policies::ibench_l1::IbenchL1;
use crate::policies::jostle::Jostle;
use crate::policies::paragon::Paragon;
use crate::policies::paragon_sampled::ParagonSampled;
use crate::policies::platform_only::PlatformOnly;
use crate::policies::quasar_sizing::QuasarSizing;
use crate::policies::random::Random;
use crate::policies::round_robin::RoundRobin;
use crate::policies::sparrow::Sparrow;
use crate::policies::tarcil::Tarcil;
use crate::policy::Policy;
use crate::search::greedy::Greedy;

/// What a policy may be told when it is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyOptions {
    /// For policies that draw at random.
    pub seed: u64,
    /// Place nothing that is expected to break a QoS.
    pub strict: bool,
}

/// One row of the table of policies.
pub struct PolicyKind {
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// Whether it looks for harm, so that [`PolicyOptions::strict`] tells it
    /// something.
    pub supports_strict: bool,
    pub make: fn(&PolicyOptions) -> Box<dyn Policy>,
}

/// Every policy there is.
pub const POLICIES: &[PolicyKind] = &[
    PolicyKind {
        name: "random",
        summary: "any node with room",
        supports_strict: false,
        make: |options| Box::new(Random::new(options.seed)),
    },
    PolicyKind {
        name: "round-robin",
        summary: "the next node with room, in the order of the file",
        supports_strict: false,
        make: |_| Box::new(RoundRobin::default()),
    },
    PolicyKind {
        name: "least-loaded",
        summary: "most free CPUs, then memory; does not look at interference",
        supports_strict: false,
        make: |_| Box::new(ByLoad::LEAST_LOADED),
    },
    PolicyKind {
        name: "bin-pack",
        summary: "fewest free CPUs, then memory; does not look at interference",
        supports_strict: false,
        make: |_| Box::new(ByLoad::BIN_PACK),
    },
    PolicyKind {
        name: "ibench-l1",
        summary: "closest fit of tolerated to caused, in both directions",
        supports_strict: false,
        make: |_| Box::new(IbenchL1),
    },
    PolicyKind {
        name: "paragon",
        summary: "violates no QoS target, then the best platform, then the tightest fit",
        supports_strict: true,
        make: |options| Box::new(Paragon::new(greedy(options))),
    },
    PolicyKind {
        name: "paragon-sampled",
        summary: "the best colocation quality of 66 nodes drawn at random",
        supports_strict: true,
        make: |options| Box::new(ParagonSampled::seeded(options.seed).strict(options.strict)),
    },
    PolicyKind {
        name: "interference-only",
        summary: "paragon without platforms: violates no QoS target, then the tightest fit",
        supports_strict: true,
        make: |options| Box::new(Paragon::without_platforms(greedy(options))),
    },
    PolicyKind {
        name: "platform-only",
        summary: "the best platform, then the least loaded; does not look at interference",
        supports_strict: false,
        make: |_| Box::new(PlatformOnly),
    },
    PolicyKind {
        name: "sparrow",
        summary: "two random nodes per CPU, the least loaded of them; waits there if both are busy",
        supports_strict: false,
        make: |options| Box::new(Sparrow::new(options.seed)),
    },
    PolicyKind {
        name: "tarcil",
        summary: "best match of a sample of free units, sized for a guarantee; waits for better",
        supports_strict: false,
        make: |options| Box::new(Tarcil::new(options.seed)),
    },
    PolicyKind {
        name: "quasar-sizing",
        summary: "CPUs, then nodes, from the best servers down, until the target is reached",
        supports_strict: false,
        make: |_| Box::new(QuasarSizing),
    },
    PolicyKind {
        name: "bazaar",
        summary: "of CPUs × nodes that reach the target, what leaves the least imbalance",
        supports_strict: false,
        make: |_| Box::new(Bazaar),
    },
    PolicyKind {
        name: "bloc",
        summary: "fewest nodes: packs below the least tolerance and 10 % of interference",
        supports_strict: false,
        make: |_| Box::new(Bloc::default()),
    },
    PolicyKind {
        name: "jostle",
        summary: "most predicted performance for all, by whole curves and their uncertainty",
        supports_strict: true,
        make: |options| Box::new(Jostle::new(options.seed, options.strict)),
    },
];

fn greedy(options: &PolicyOptions) -> Greedy {
    Greedy {
        strict: options.strict,
        ..Greedy::default()
    }
}

/// The policy called `name`.
pub fn policy_kind(name: &str) -> Option<&'static PolicyKind> {
    POLICIES.iter().find(|kind| kind.name == name)
}
