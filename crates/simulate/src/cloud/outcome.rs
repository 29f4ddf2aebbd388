//! What the strategies came to, side by side and over several seeds.

use super::run::Done;
use super::run::Record;
use super::scenario::CloudScenario;
use crate::statistics::Figure;
use crate::statistics::Mean;
use crate::statistics::mean;
use crate::statistics::sorted;
use crate::statistics::summary;
use jostle_schedule::provision::LARGEST;
use jostle_schedule::provision::Prices;
use jostle_schedule::provision::Strategy;
use serde::Serialize;

/// What one strategy came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyOutcome {
    pub strategy: Strategy,
    pub with_profiles: bool,
    pub jobs: usize,
    /// Mean of work / (end − arrival), the work being the seconds it takes
    /// undisturbed: what owners see, waiting and spin-up included.
    pub performance: f64,
    pub batch_performance: Option<f64>,
    pub service_performance: Option<f64>,
    /// What all but 5 % of jobs reach or pass.
    pub performance_p5: f64,
    /// Mean of work / (end − start).
    pub performance_running: f64,
    /// Share of jobs that keep their QoS while they run.
    pub qos_share: f64,
    /// [`Self::performance`] over that of SR, likewise with or without
    /// profiles; absent when SR was not run.
    pub performance_vs_sr: Option<f64>,
    /// In reserved vCPU-hours, for this run.
    pub cost: f64,
    pub cost_vs_sr: Option<f64>,
    pub makespan_minutes: f64,
    pub reserved_instances: u32,
    /// Share of reserved vCPUs in use; absent when none are reserved.
    pub reserved_utilization: Option<f64>,
    /// Instances on demand: rented in all, on average at a time, most at once.
    pub on_demand_instances: usize,
    pub on_demand_mean: f64,
    pub on_demand_peak: usize,
    /// Released at once because their last job missed its QoS.
    pub poor_instances: usize,
    /// Of those rented; absent when none was.
    pub poor_share: Option<f64>,
    /// Jobs that waited for reserved instances.
    pub queued: usize,
    /// Mean seconds from arrival to start.
    pub wait_seconds: f64,
    /// Weeks of repeating this scenario after which it has cost as much as SR;
    /// absent where that never happens within five years, or SR was not run.
    pub break_even_weeks: Option<f64>,
}

/// Weeks during which a strategy is the cheapest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cheapest {
    pub with_profiles: bool,
    pub from_week: u32,
    pub strategy: Strategy,
}

/// What all strategies came to on one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CloudOutcome {
    pub name: String,
    pub seed: u64,
    /// vCPUs that the load asks for, least and most.
    pub load_cpus: [f64; 2],
    pub strategies: Vec<StrategyOutcome>,
    /// Which is the cheapest when the scenario is repeated for so many weeks,
    /// up to two years; reservations are paid by the year.
    pub cheapest: Vec<Cheapest>,
}

/// Weeks looked at for [`CloudOutcome::cheapest`].
const WEEKS: u32 = 104;

impl Done {
    fn performance(&self) -> f64 {
        self.work / (self.finished - self.arrived)
    }

    fn running(&self) -> f64 {
        self.work / (self.finished - self.started)
    }
}

impl StrategyOutcome {
    fn of(record: &Record, sr: Option<&Record>, prices: &Prices) -> Self {
        let jobs = &record.jobs;
        let of_class = |class: u16| {
            let those = jobs.iter().filter(move |done| done.class == class);
            mean(those.map(Done::performance))
        };
        let performance = |record: &Record| mean(record.jobs.iter().map(Done::performance));
        let ascending = sorted(jobs.iter().map(Done::performance));
        let own = performance(record).unwrap_or(0.0);
        let seconds = record.makespan;
        let cost = record.bill.cost(seconds, prices);
        // A run that goes on undisturbed is not slower for rounding.
        let kept = |done: &Done| f64::from(u8::from(done.running() >= done.qos));
        let over_jobs = |of: fn(&Done) -> f64| mean(jobs.iter().map(of)).unwrap_or(0.0);
        StrategyOutcome {
            strategy: record.strategy,
            with_profiles: record.with_profiles,
            jobs: jobs.len(),
            performance: own,
            batch_performance: of_class(0),
            service_performance: of_class(1),
            performance_p5: ascending.get(ascending.len() / 20).copied().unwrap_or(0.0),
            performance_running: over_jobs(Done::running),
            qos_share: over_jobs(kept),
            performance_vs_sr: sr.and_then(performance).map(|theirs| own / theirs),
            cost,
            cost_vs_sr: sr.map(|sr| cost / sr.bill.cost(sr.makespan, prices)),
            makespan_minutes: seconds / 60.0,
            reserved_instances: record.reserved_instances,
            reserved_utilization: (record.reserved_instances > 0).then(|| {
                let cpus = f64::from(record.reserved_instances * LARGEST);
                record.reserved_busy / (cpus * seconds)
            }),
            on_demand_instances: record.rented,
            on_demand_mean: record.on_demand_seconds / seconds,
            on_demand_peak: record.most_at_once,
            poor_instances: record.poor,
            poor_share: (record.rented > 0).then(|| record.poor as f64 / record.rented as f64),
            queued: record.queued,
            wait_seconds: over_jobs(|done| done.started - done.arrived),
            break_even_weeks: sr.and_then(|sr| {
                let bill = &record.bill;
                bill.breaks_even_with(seconds, &sr.bill, sr.makespan, prices)
            }),
        }
    }
}

impl CloudOutcome {
    pub(super) fn of(scenario: &CloudScenario, seed: u64, records: Vec<Record>) -> Self {
        let (least, most) = scenario.span();
        let prices = &scenario.prices;
        let sr = |known: bool| {
            records.iter().find(|record| {
                record.with_profiles == known && record.strategy == Strategy::StaticReserved
            })
        };
        let strategies = records
            .iter()
            .map(|record| StrategyOutcome::of(record, sr(record.with_profiles), prices))
            .collect();
        let mut cheapest: Vec<Cheapest> = Vec::new();
        for with_profiles in scenario.with_profiles.iter().copied() {
            let mut before = None;
            for from_week in 1..=WEEKS {
                let cost = |record: &&Record| {
                    let weeks = f64::from(from_week);
                    record.bill.cost_over(weeks, record.makespan, prices)
                };
                let those = records
                    .iter()
                    .filter(|it| it.with_profiles == with_profiles);
                let best = those.min_by(|a, b| cost(a).total_cmp(&cost(b)));
                let Some(strategy) = best.map(|record| record.strategy) else {
                    continue;
                };
                if before.replace(strategy) != Some(strategy) {
                    cheapest.push(Cheapest {
                        with_profiles,
                        from_week,
                        strategy,
                    });
                }
            }
        }
        CloudOutcome {
            name: scenario.name.clone(),
            seed,
            load_cpus: [least, most],
            strategies,
            cheapest,
        }
    }
}

summary! {
    /// One strategy over several seeds; each field as in
    /// [`StrategyOutcome`], absent when no run has it.
    StrategySummary of CloudOutcome.strategies by strategy: Strategy, with_profiles: bool;
    performance,
    batch_performance,
    service_performance,
    performance_p5,
    performance_running,
    qos_share,
    performance_vs_sr,
    cost,
    cost_vs_sr,
    makespan_minutes,
    reserved_instances,
    reserved_utilization,
    on_demand_instances,
    on_demand_mean,
    poor_share,
    queued,
    wait_seconds,
    break_even_weeks,
}
