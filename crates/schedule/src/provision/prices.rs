//! What it costs.

use serde::Deserialize;
use serde::Serialize;

/// Weeks of the shortest reservation, a year; a reservation is paid for whole
/// years.
pub const WEEKS_COMMITTED: f64 = 52.0;

const MILLIS_PER_HOUR: f64 = 3_600_000.0;

/// Prices in units of one reserved vCPU for an hour: only ratios count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// On-demand over reserved, per vCPU and hour (2.74: HCloud, section 8.5.1).
    pub on_demand_ratio: f64,
    /// On-demand time is rounded up to whole multiples of this.
    pub billing_seconds: u32,
    /// And paid for at least this long.
    pub minimum_seconds: u32,
}

impl Default for Prices {
    fn default() -> Self {
        Prices {
            on_demand_ratio: 2.74,
            // As Compute Engine billed at the time: by the minute, ten at least.
            billing_seconds: 60,
            minimum_seconds: 600,
        }
    }
}

/// What was used. Sums of whole vCPU-milliseconds, so that they are exact and
/// do not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    reserved_cpus: u64,
    on_demand_cpu_millis: u128,
}

impl Bill {
    /// With so many vCPUs reserved, and nothing used on demand.
    pub fn reserved(cpus: u64) -> Self {
        Bill {
            reserved_cpus: cpus,
            on_demand_cpu_millis: 0,
        }
    }

    /// An on-demand instance of `cpus` was held for `seconds`.
    pub fn use_on_demand(&mut self, cpus: u32, seconds: f64, prices: &Prices) {
        let unit = u128::from(prices.billing_seconds.max(1)) * 1000;
        let least = u128::from(prices.minimum_seconds) * 1000;
        let held = ((seconds.max(0.0) * 1000.0).round() as u128).max(least);
        self.on_demand_cpu_millis += held.div_ceil(unit) * unit * u128::from(cpus);
    }

    pub fn reserved_cpus(&self) -> u64 {
        self.reserved_cpus
    }

    pub fn on_demand_cpu_hours(&self) -> f64 {
        self.on_demand_cpu_millis as f64 / MILLIS_PER_HOUR
    }

    /// Cost of a run of `seconds` when the reservation is shared out evenly
    /// over its time: reserved vCPU-hours + ratio × on-demand vCPU-hours.
    pub fn cost(&self, seconds: f64, prices: &Prices) -> f64 {
        let hours = seconds / 3600.0;
        self.reserved_cpus as f64 * hours + prices.on_demand_ratio * self.on_demand_cpu_hours()
    }

    /// Cost of repeating a run of `seconds` for `weeks`, the reservation paid
    /// in whole years from the first day.
    pub fn cost_over(&self, weeks: f64, seconds: f64, prices: &Prices) -> f64 {
        let years = (weeks / WEEKS_COMMITTED).ceil().max(1.0);
        self.commitment() * years + self.weekly(seconds, prices) * weeks
    }

    /// A year of the reservation.
    fn commitment(&self) -> f64 {
        self.reserved_cpus as f64 * WEEKS_COMMITTED * 7.0 * 24.0
    }

    /// A week on demand.
    fn weekly(&self, seconds: f64, prices: &Prices) -> f64 {
        let runs = 7.0 * 24.0 * 3600.0 / seconds;
        prices.on_demand_ratio * self.on_demand_cpu_hours() * runs
    }

    /// Weeks of repetition after which this has cost as much as `other`, both
    /// with runs of their own length; this one commits to less and pays more by
    /// the week. `None` when that does not happen within five years.
    pub fn breaks_even_with(
        &self,
        seconds: f64,
        other: &Bill,
        other_seconds: f64,
        prices: &Prices,
    ) -> Option<f64> {
        let (commitment, weekly) = (
            other.commitment() - self.commitment(),
            self.weekly(seconds, prices) - other.weekly(other_seconds, prices),
        );
        if commitment <= 0.0 || weekly <= 0.0 {
            return None;
        }
        // In the nth year n commitments have been paid.
        (1..=5).find_map(|year| {
            let year = f64::from(year);
            let weeks = commitment * year / weekly;
            let within = (year - 1.0) * WEEKS_COMMITTED..=year * WEEKS_COMMITTED;
            within.contains(&weeks).then_some(weeks)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Prices = Prices {
        on_demand_ratio: 2.74,
        billing_seconds: 1,
        minimum_seconds: 0,
    };

    #[test]
    fn cost_is_exact() {
        let mut bill = Bill::reserved(600);
        // 16 vCPUs for 1.5 h and 4 for 30 min: 26 vCPU-hours.
        bill.use_on_demand(16, 5400.0, &EXACT);
        bill.use_on_demand(4, 1800.0, &EXACT);
        assert_eq!(bill.on_demand_cpu_hours(), 26.0);
        assert_eq!(bill.cost(7200.0, &EXACT), 1200.0 + 2.74 * 26.0);
    }

    #[test]
    fn a_thousand_small_uses_are_one_large_one() {
        let (mut many, mut one) = (Bill::default(), Bill::default());
        for _ in 0..1000 {
            many.use_on_demand(
                1,
                0.1,
                &Prices {
                    billing_seconds: 1,
                    ..EXACT
                },
            );
        }
        // A tenth of a second is billed as a second.
        one.use_on_demand(1, 1000.0, &EXACT);
        assert_eq!(many, one);
    }

    #[test]
    fn time_is_billed_in_whole_units_and_at_least_the_minimum() {
        let held = |seconds: f64| {
            let mut bill = Bill::default();
            bill.use_on_demand(1, seconds, &Prices::default());
            bill.on_demand_cpu_hours() * 3600.0
        };
        assert_eq!(held(1.0), 600.0);
        assert_eq!(held(600.0), 600.0);
        assert_eq!(held(600.001), 660.0);
        assert_eq!(held(661.0), 720.0);
    }

    #[test]
    fn breaks_even_where_both_have_cost_the_same() {
        // 100 vCPUs all the time: reserved for a year or 2.74 times by the hour.
        let reserved = Bill::reserved(100);
        let mut on_demand = Bill::default();
        on_demand.use_on_demand(100, 7200.0, &EXACT);
        let weeks = on_demand
            .breaks_even_with(7200.0, &reserved, 7200.0, &EXACT)
            .unwrap();
        assert!((weeks - 52.0 / 2.74).abs() < 1e-9, "{weeks}");
        let (a, b) = (
            on_demand.cost_over(weeks, 7200.0, &EXACT),
            reserved.cost_over(weeks, 7200.0, &EXACT),
        );
        assert!((a - b).abs() < 1e-6 * a);
        // Used a fifth of the time, renting by the hour stays cheaper for good.
        let mut rarely = Bill::default();
        rarely.use_on_demand(100, 1440.0, &EXACT);
        assert_eq!(
            rarely.breaks_even_with(7200.0, &reserved, 7200.0, &EXACT),
            None
        );
        assert!(
            rarely.cost_over(520.0, 7200.0, &EXACT) < reserved.cost_over(520.0, 7200.0, &EXACT)
        );
        assert_eq!(
            reserved.breaks_even_with(7200.0, &on_demand, 7200.0, &EXACT),
            None,
            "it commits to more"
        );
    }

    #[test]
    fn the_reservation_is_due_again_after_a_year() {
        let bill = Bill::reserved(1);
        let year = 52.0 * 7.0 * 24.0;
        assert_eq!(bill.cost_over(1.0, 7200.0, &EXACT), year);
        assert_eq!(bill.cost_over(52.0, 7200.0, &EXACT), year);
        assert_eq!(bill.cost_over(53.0, 7200.0, &EXACT), 2.0 * year);
    }
}
