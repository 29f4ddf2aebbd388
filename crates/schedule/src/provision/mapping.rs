//! Which jobs go to the reserved side.

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::Deserialize;
use serde::Serialize;

/// The limits of the dynamic policy. Those of utilization are fractions of the
/// reserved vCPUs. The paper gives the first soft limit and that the loop is
/// linear; all gains, the hard limit and the bounds are ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dynamic {
    /// Below this everybody goes to the reserved side (0.60–0.65 in the paper).
    pub first_soft_limit: f64,
    /// The soft limit stays within this and the hard limit.
    pub least_soft_limit: f64,
    /// From here on jobs queue (ours; reserved resources average 0.80 in the
    /// paper, so that it has to be above that).
    pub hard_limit: f64,
    /// The soft limit is looked at every so many seconds (ours).
    pub period_seconds: f64,
    /// It falls by this for each job by which the queue grew in a period (ours).
    pub fall_per_queued: f64,
    /// It rises by this in a period in which nobody queued (ours).
    pub rise_when_idle: f64,
    /// A job goes on demand when this share of instances of its size reach the
    /// quality that it needs.
    pub share_of_instances: f64,
}

impl Default for Dynamic {
    fn default() -> Self {
        Dynamic {
            first_soft_limit: 0.625,
            least_soft_limit: 0.4,
            hard_limit: 0.85,
            period_seconds: 30.0,
            fall_per_queued: 0.005,
            rise_when_idle: 0.01,
            share_of_instances: 0.9,
        }
    }
}

/// A way to divide jobs between reserved and on-demand instances (HCloud,
/// section 8.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Mapping {
    /// P1: a fair coin.
    Coin,
    /// P2–P4: who needs more quality than this goes to the reserved side.
    QualityAbove(f64),
    /// P5–P7: the reserved side up to this utilization.
    UtilizationBelow(f64),
    /// Soft and hard limit, with the quality needed between and above them.
    Dynamic(Dynamic),
}

/// The mapping of a name: `P1` … `P7` or `dynamic`. The cut-off of P2 (0.8) is
/// the paper's; those of P3 and P4, which reserve for progressively more jobs,
/// are ours (0.5, 0.2); P5–P7 span the paper's 50–90 %.
pub fn mapping(name: &str, dynamic: Dynamic) -> Option<Mapping> {
    Some(match name {
        "P1" => Mapping::Coin,
        "P2" => Mapping::QualityAbove(0.8),
        "P3" => Mapping::QualityAbove(0.5),
        "P4" => Mapping::QualityAbove(0.2),
        "P5" => Mapping::UtilizationBelow(0.5),
        "P6" => Mapping::UtilizationBelow(0.7),
        "P7" => Mapping::UtilizationBelow(0.9),
        "dynamic" => Mapping::Dynamic(dynamic),
        _ => return None,
    })
}

/// Where a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Reserved,
    /// The size that the strategy rents for it.
    OnDemand,
    /// A whole machine on demand: waiting for the reserved side would take
    /// longer than getting one.
    OnDemandLarge,
    /// It waits for the reserved side.
    Queue,
}

/// What is known when a job has to be mapped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// Quality that the job needs, 0–1; `None` without a profile.
    pub needs: Option<f64>,
    /// Quality that enough on-demand instances of its size reach
    /// ([`Dynamic::share_of_instances`]); `None` when none was seen.
    pub on_demand_reaches: Option<f64>,
    /// Share of the reserved vCPUs in use, 0–1.
    pub reserved_utilization: f64,
    /// Expected seconds in the queue; `None` when not enough was seen.
    pub expected_wait: Option<f64>,
    /// Seconds it takes to get the largest instance.
    pub large_spin_up: f64,
}

impl Situation {
    /// On-demand instances do; for a job without a profile nobody knows, and
    /// it is taken to be as tolerant as any.
    fn on_demand_does(&self) -> bool {
        match (self.needs, self.on_demand_reaches) {
            (Some(needs), Some(reaches)) => reaches > needs,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }
}

/// Maps jobs, and follows the queue where the mapping asks for it.
#[derive(Debug)]
pub struct Mapper {
    mapping: Mapping,
    soft_limit: f64,
    /// Seconds and length of the queue when the limit was last looked at.
    looked: Option<(f64, usize)>,
    rng: ChaCha8Rng,
}

impl Mapper {
    /// `seed` is for the coin.
    pub fn new(mapping: Mapping, seed: u64) -> Self {
        Mapper {
            mapping,
            soft_limit: match mapping {
                Mapping::Dynamic(dynamic) => dynamic.first_soft_limit,
                _ => 1.0,
            },
            looked: None,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Utilization up to which everybody goes to the reserved side.
    pub fn soft_limit(&self) -> f64 {
        self.soft_limit
    }

    /// Where a job goes. [`Target::Reserved`] may still find no room there.
    pub fn target(&mut self, situation: &Situation) -> Target {
        let reserved = match self.mapping {
            Mapping::Coin => self.rng.random::<bool>(),
            // One of whom nothing is known may need the best.
            Mapping::QualityAbove(limit) => situation.needs.is_none_or(|needs| needs > limit),
            Mapping::UtilizationBelow(limit) => situation.reserved_utilization < limit,
            Mapping::Dynamic(dynamic) => return self.dynamic(&dynamic, situation),
        };
        match reserved {
            true => Target::Reserved,
            false => Target::OnDemand,
        }
    }

    fn dynamic(&self, dynamic: &Dynamic, situation: &Situation) -> Target {
        let utilization = situation.reserved_utilization;
        if utilization < self.soft_limit {
            return Target::Reserved;
        }
        if situation.on_demand_does() {
            return Target::OnDemand;
        }
        if utilization < dynamic.hard_limit {
            return Target::Reserved;
        }
        match situation.expected_wait {
            Some(wait) if wait > situation.large_spin_up => Target::OnDemandLarge,
            _ => Target::Queue,
        }
    }

    /// Tells the length of the queue; moves the soft limit once a period has
    /// passed: down in proportion to the growth of the queue, up when nobody
    /// waited at either end of the period.
    pub fn follow(&mut self, now: f64, queued: usize) {
        let Mapping::Dynamic(dynamic) = self.mapping else {
            return;
        };
        let Some((then, before)) = self.looked else {
            self.looked = Some((now, queued));
            return;
        };
        if now - then < dynamic.period_seconds {
            return;
        }
        let change = match queued > before {
            true => -dynamic.fall_per_queued * (queued - before) as f64,
            false if queued == 0 && before == 0 => dynamic.rise_when_idle,
            false => 0.0,
        };
        let least = dynamic.least_soft_limit.min(dynamic.hard_limit);
        self.soft_limit = (self.soft_limit + change).clamp(least, dynamic.hard_limit);
        self.looked = Some((now, queued));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(utilization: f64, needs: f64) -> Situation {
        Situation {
            needs: Some(needs),
            on_demand_reaches: Some(0.5),
            reserved_utilization: utilization,
            expected_wait: Some(5.0),
            large_spin_up: 16.0,
        }
    }

    fn dynamic() -> Mapper {
        Mapper::new(Mapping::Dynamic(Dynamic::default()), 0)
    }

    #[test]
    fn soft_and_hard_limits() {
        let mut mapper = dynamic();
        assert_eq!(mapper.target(&situation(0.60, 0.9)), Target::Reserved);
        assert_eq!(mapper.target(&situation(0.60, 0.1)), Target::Reserved);
        assert_eq!(mapper.target(&situation(0.70, 0.1)), Target::OnDemand);
        assert_eq!(mapper.target(&situation(0.70, 0.9)), Target::Reserved);
        assert_eq!(mapper.target(&situation(0.90, 0.1)), Target::OnDemand);
        assert_eq!(mapper.target(&situation(0.90, 0.9)), Target::Queue);
        let long = Situation {
            expected_wait: Some(60.0),
            ..situation(0.90, 0.9)
        };
        assert_eq!(mapper.target(&long), Target::OnDemandLarge);
        let unknown = Situation {
            expected_wait: None,
            ..long
        };
        assert_eq!(mapper.target(&unknown), Target::Queue);
        let unseen = Situation {
            on_demand_reaches: None,
            ..situation(0.70, 0.1)
        };
        assert_eq!(mapper.target(&unseen), Target::Reserved);
        let no_profile = Situation {
            needs: None,
            ..situation(0.70, 0.0)
        };
        assert_eq!(mapper.target(&no_profile), Target::OnDemand);
    }

    #[test]
    fn the_soft_limit_follows_the_queue() {
        let mut mapper = dynamic();
        mapper.follow(0.0, 0);
        mapper.follow(29.0, 50);
        assert_eq!(mapper.soft_limit(), 0.625, "not before a period is over");
        mapper.follow(30.0, 10);
        assert!((mapper.soft_limit() - 0.575).abs() < 1e-12, "10 × 0.005");
        mapper.follow(60.0, 5);
        assert!((mapper.soft_limit() - 0.575).abs() < 1e-12, "it shrinks");
        mapper.follow(90.0, 0);
        mapper.follow(120.0, 0);
        assert!((mapper.soft_limit() - 0.585).abs() < 1e-12, "nobody queued");
        for period in 0..200 {
            mapper.follow(150.0 + 30.0 * f64::from(period), 0);
        }
        assert_eq!(mapper.soft_limit(), 0.85, "never above the hard limit");
        mapper.follow(1e6, 10_000);
        assert_eq!(mapper.soft_limit(), 0.4);
    }

    #[test]
    fn static_policies() {
        let map = |name: &str, utilization: f64, needs: f64| {
            let mapping = mapping(name, Dynamic::default()).unwrap();
            Mapper::new(mapping, 0).target(&situation(utilization, needs))
        };
        for (name, needs) in [("P2", 0.81), ("P3", 0.51), ("P4", 0.21)] {
            assert_eq!(map(name, 0.99, needs), Target::Reserved);
            assert_eq!(map(name, 0.0, needs - 0.02), Target::OnDemand);
        }
        for (name, limit) in [("P5", 0.5), ("P6", 0.7), ("P7", 0.9)] {
            assert_eq!(map(name, limit - 0.01, 0.0), Target::Reserved);
            assert_eq!(map(name, limit, 1.0), Target::OnDemand);
        }
        assert!(mapping("P8", Dynamic::default()).is_none());
    }

    #[test]
    fn the_coin_is_fair_and_seeded() {
        let heads = |seed: u64| {
            let mut mapper = Mapper::new(Mapping::Coin, seed);
            let flips = (0..1000).map(|_| mapper.target(&situation(0.5, 0.5)));
            flips.filter(|target| *target == Target::Reserved).count()
        };
        assert_eq!(heads(7), heads(7));
        assert!((450..550).contains(&heads(7)), "{}", heads(7));
    }
}
