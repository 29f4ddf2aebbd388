//! What is rented.

use serde::Deserialize;
use serde::Serialize;

/// vCPUs of the instances on offer (HCloud, section 8.2.2).
pub const SIZES: [u32; 5] = [1, 2, 4, 8, 16];

/// vCPUs of the largest: a whole machine.
pub const LARGEST: u32 = 16;

/// A provisioning strategy (HCloud, sections 8.3 and 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// All reserved, for the peak and some more.
    #[serde(rename = "SR")]
    StaticReserved,
    /// All on demand, the largest instances only.
    #[serde(rename = "OdF")]
    OnDemandFull,
    /// All on demand, of any size.
    #[serde(rename = "OdM")]
    OnDemandMixed,
    /// Reserved for the least steady load, the largest on demand beyond.
    #[serde(rename = "HF")]
    HybridFull,
    /// Reserved for the least steady load, any size on demand beyond.
    #[serde(rename = "HM")]
    HybridMixed,
}

impl Strategy {
    pub const ALL: [Strategy; 5] = [
        Strategy::StaticReserved,
        Strategy::OnDemandFull,
        Strategy::OnDemandMixed,
        Strategy::HybridFull,
        Strategy::HybridMixed,
    ];

    /// As in the paper: SR, OdF, OdM, HF, HM.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::StaticReserved => "SR",
            Strategy::OnDemandFull => "OdF",
            Strategy::OnDemandMixed => "OdM",
            Strategy::HybridFull => "HF",
            Strategy::HybridMixed => "HM",
        }
    }

    /// Largest instances to reserve for a load between `least` and `peak`
    /// vCPUs; `spare` is reserved beyond the peak, as a fraction of it.
    pub fn reserved_instances(self, least: f64, peak: f64, spare: f64) -> u32 {
        let cpus = match self {
            Strategy::StaticReserved => peak * (1.0 + spare),
            Strategy::HybridFull | Strategy::HybridMixed => least,
            Strategy::OnDemandFull | Strategy::OnDemandMixed => 0.0,
        };
        (cpus / f64::from(LARGEST)).ceil() as u32
    }

    /// The on-demand instance for a job of `cpus`: the smallest that has them,
    /// or the largest where only that is rented. `None` when there is none.
    pub fn on_demand_size(self, cpus: u32) -> Option<u32> {
        match self {
            Strategy::StaticReserved => None,
            Strategy::OnDemandFull | Strategy::HybridFull => (cpus <= LARGEST).then_some(LARGEST),
            Strategy::OnDemandMixed | Strategy::HybridMixed => {
                SIZES.into_iter().find(|size| *size >= cpus)
            }
        }
    }

    /// Both sides are there, so that jobs have to be mapped.
    pub fn is_hybrid(self) -> bool {
        matches!(self, Strategy::HybridFull | Strategy::HybridMixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_reservations() {
        // 1,226 vCPUs and 12.5 % more: 1379.25, on 87 instances of 16.
        assert_eq!(
            Strategy::StaticReserved.reserved_instances(210.0, 1226.0, 0.125),
            87
        );
        assert_eq!(
            Strategy::HybridFull.reserved_instances(600.0, 900.0, 0.125),
            38
        );
        assert_eq!(Strategy::OnDemandMixed.reserved_instances(1.0, 9.0, 0.5), 0);
        assert_eq!(Strategy::OnDemandMixed.on_demand_size(3), Some(4));
        assert_eq!(Strategy::HybridFull.on_demand_size(3), Some(16));
        assert_eq!(Strategy::OnDemandMixed.on_demand_size(17), None);
        assert_eq!(Strategy::StaticReserved.on_demand_size(1), None);
    }
}
