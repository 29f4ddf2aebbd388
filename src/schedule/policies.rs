//! Every policy by name.

use super::bazaar::Bazaar;
use super::bloc::Bloc;
use super::ibench_l1::IbenchL1;
use super::least_loaded::LeastLoaded;
use super::policy::Policy;
use super::quasar_sizing::QuasarSizing;
use super::sparrow::Sparrow;
use super::tarcil::Tarcil;

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
    pub make: fn(&PolicyOptions) -> Box<dyn Policy>,
}

/// Every policy there is.
pub const POLICIES: &[PolicyKind] = &[
    PolicyKind {
        name: "least-loaded",
        summary: "most free CPUs, then memory; does not look at interference",
        make: |_| Box::new(LeastLoaded),
    },
    PolicyKind {
        name: "ibench-l1",
        summary: "closest fit of tolerated to caused, in both directions",
        make: |_| Box::new(IbenchL1),
    },
    PolicyKind {
        name: "sparrow",
        summary: "two random nodes per CPU, the least loaded of them; waits there if both are busy",
        make: |options| Box::new(Sparrow::new(options.seed)),
    },
    PolicyKind {
        name: "tarcil",
        summary: "best match of a sample of free units, sized for a guarantee; waits for better",
        make: |options| Box::new(Tarcil::new(options.seed)),
    },
    PolicyKind {
        name: "quasar-sizing",
        summary: "CPUs, then nodes, from the best servers down, until the target is reached",
        make: |_| Box::new(QuasarSizing),
    },
    PolicyKind {
        name: "bazaar",
        summary: "of CPUs × nodes that reach the target, what leaves the least imbalance",
        make: |_| Box::new(Bazaar::default()),
    },
    PolicyKind {
        name: "bloc",
        summary: "fewest nodes: packs below the least tolerance and 10 % of interference",
        make: |_| Box::new(Bloc::default()),
    },
];

/// The policy called `name`.
pub fn policy_kind(name: &str) -> Option<&'static PolicyKind> {
    POLICIES.iter().find(|kind| kind.name == name)
}
