//! The figures of a run, and of the same run under several seeds.

use crate::outcome::JobRecord;
use crate::outcome::Outcome;
use crate::outcome::Timing;
use crate::statistics::Mean;
use crate::statistics::quantile;
use crate::statistics::sorted;
use serde::Serialize;

/// [`Figures`] of the names listed, and as an array in their order.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The figures of one run, or their means or standard errors over
        /// several. Shares are 0–1.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        pub struct Figures {
            $($(#[$doc])* pub $name: f64,)*
        }

        /// How many figures there are.
        const FIGURES: usize = [$(stringify!($name)),*].len();

        impl Figures {
            fn values(self) -> [f64; FIGURES] {
                [$(self.$name),*]
            }

            fn from_values([$($name),*]: [f64; FIGURES]) -> Figures {
                Figures { $($name),* }
            }
        }
    };
}

figures! {
    /// Jobs that ran.
    jobs,
    /// Jobs that fit on no node.
    never,
    /// Of [`JobRecord::performance`].
    mean_performance,
    /// Of [`JobRecord::with_waiting`].
    mean_with_waiting,
    /// Jobs that kept their QoS while they ran.
    qos_share,
    /// Jobs that kept it counting from their arrival.
    qos_share_with_waiting,
    /// Jobs that lost more than 10 %, and 20 %, of their performance.
    lost_over_10,
    lost_over_20,
    utilization,
    makespan_seconds,
    /// Of [`JobRecord::queued_seconds`].
    queueing_mean_seconds,
    queueing_p95_seconds,
    /// Mean seconds queued per mean second of ideal run, in percent.
    queueing_percent_of_ideal,
    decisions,
    conflicts,
    migrations,
    restarts,
    events,
}

impl Figures {
    /// Of one run; `None` when no job ran.
    pub fn of(outcome: &Outcome) -> Option<Figures> {
        let jobs = &outcome.jobs;
        if jobs.is_empty() {
            return None;
        }
        let count = jobs.len() as f64;
        let mean = |of: fn(&JobRecord) -> f64| jobs.iter().map(of).sum::<f64>() / count;
        let share =
            |of: fn(&JobRecord) -> bool| jobs.iter().filter(|job| of(job)).count() as f64 / count;
        let queued = sorted(jobs.iter().map(|job| job.queued_seconds));
        let queueing_mean_seconds = mean(|job| job.queued_seconds);
        Some(Figures {
            jobs: count,
            never: outcome.never.len() as f64,
            mean_performance: mean(|job| job.performance),
            mean_with_waiting: mean(|job| job.with_waiting),
            qos_share: share(|job| kept(job.performance, job.qos)),
            qos_share_with_waiting: share(|job| kept(job.with_waiting, job.qos)),
            lost_over_10: share(|job| !kept(job.performance, 0.9)),
            lost_over_20: share(|job| !kept(job.performance, 0.8)),
            utilization: outcome.utilization,
            makespan_seconds: outcome.makespan_seconds,
            queueing_mean_seconds,
            queueing_p95_seconds: quantile(&queued, 0.95),
            queueing_percent_of_ideal: 100.0 * queueing_mean_seconds
                / mean(|job| job.ideal_seconds),
            decisions: outcome.decisions as f64,
            conflicts: outcome.conflicts as f64,
            migrations: outcome.migrations as f64,
            restarts: outcome.restarts as f64,
            events: outcome.events as f64,
        })
    }
}

/// Rounding while work is summed up does not count as a loss.
const ROUNDING: f64 = 1e-9;

fn kept(performance: f64, least: f64) -> bool {
    performance >= least - ROUNDING
}

/// Real seconds per decision: medians over runs. Never the same twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DecisionTimes {
    pub decision_p50_seconds: f64,
    pub decision_p99_seconds: f64,
}

/// One policy under several seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub policy: String,
    pub admission: String,
    /// Of the runs in which a job ran.
    pub seeds: Vec<u64>,
    pub mean: Figures,
    /// Standard error of the mean; absent for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<Figures>,
    /// Each run by itself, in the order of `seeds`: policies had the same jobs
    /// under the same seed, so that differences between them can be paired.
    pub per_seed: Vec<Figures>,
    /// Left out of the document, which is to be the same for the same seeds.
    #[serde(skip)]
    pub decision_times: DecisionTimes,
}

impl Summary {
    /// Of runs of one policy and admission; `None` when no job ran in any.
    pub fn of(runs: &[(Outcome, Timing)]) -> Option<Summary> {
        let first = &runs.first()?.0;
        let figures = |outcome: &Outcome| Some((outcome.seed, Figures::of(outcome)?));
        let each = runs.iter().filter_map(|(outcome, _)| figures(outcome));
        let (seeds, per_seed): (Vec<u64>, Vec<Figures>) = each.unzip();
        if per_seed.is_empty() {
            return None;
        }
        let over_seeds = |of: fn(Mean) -> f64| {
            Figures::from_values(std::array::from_fn(|at| {
                let values = per_seed.iter().map(|figures| figures.values()[at]);
                Mean::of(values).map_or(0.0, of)
            }))
        };
        let decision = |of: fn(&Timing) -> f64| {
            let times = runs.iter().map(|(_, timing)| of(timing));
            quantile(&sorted(times), 0.5)
        };
        Some(Summary {
            policy: first.policy.clone(),
            admission: first.admission.clone(),
            mean: over_seeds(|mean| mean.mean),
            standard_error: (seeds.len() > 1)
                .then(|| over_seeds(|mean| mean.standard_error.unwrap_or(0.0))),
            seeds,
            per_seed,
            decision_times: DecisionTimes {
                decision_p50_seconds: decision(|timing| timing.decision_p50_seconds),
                decision_p99_seconds: decision(|timing| timing.decision_p99_seconds),
            },
        })
    }
}

/// Performance against the share of all jobs (0–1) that do not pass it, at
/// `steps` + 1 shares equally far apart; empty when no job ran.
pub fn performance_cdf<'a>(
    outcomes: impl IntoIterator<Item = &'a Outcome>,
    steps: usize,
) -> Vec<[f64; 2]> {
    let jobs = outcomes.into_iter().flat_map(|outcome| &outcome.jobs);
    let all = sorted(jobs.map(|job| job.performance));
    if all.is_empty() {
        return Vec::new();
    }
    let steps = steps.max(1);
    (0..=steps)
        .map(|step| {
            let share = step as f64 / steps as f64;
            [quantile(&all, share), share]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(performance: f64, queued_seconds: f64) -> JobRecord {
        let seconds = 10.0 / performance;
        JobRecord {
            job: 0,
            class: 0,
            arrival: 0.0,
            started: queued_seconds,
            finished: queued_seconds + seconds,
            queued_seconds,
            ideal_seconds: 10.0,
            performance,
            with_waiting: 10.0 / (queued_seconds + seconds),
            qos: 0.95,
            restarts: 0,
            migrations: 0,
        }
    }

    fn outcome(seed: u64, jobs: Vec<JobRecord>) -> (Outcome, Timing) {
        let outcome = Outcome {
            seed,
            jobs,
            ..Outcome::default()
        };
        (outcome, Timing::default())
    }

    /// Four jobs: one kept its QoS but not with its waiting, one at 0.9, one
    /// below, one below 0.8.
    #[test]
    fn figures_by_hand() {
        let jobs = vec![
            record(1.0, 10.0),
            record(0.9, 0.0),
            record(0.85, 0.0),
            record(0.5, 2.0),
        ];
        let figures = Figures::of(&outcome(1, jobs).0).unwrap();
        assert!((figures.mean_performance - 3.25 / 4.0).abs() < 1e-12);
        assert_eq!(figures.qos_share, 0.25);
        assert_eq!(figures.qos_share_with_waiting, 0.0);
        assert_eq!((figures.lost_over_10, figures.lost_over_20), (0.5, 0.25));
        assert_eq!(figures.queueing_mean_seconds, 3.0);
        assert_eq!(figures.queueing_p95_seconds, 10.0);
        assert!((figures.queueing_percent_of_ideal - 30.0).abs() < 1e-12);
        assert_eq!(Figures::of(&Outcome::default()), None);
    }

    #[test]
    fn seeds_have_a_mean_and_its_error() {
        let one = outcome(1, vec![record(0.8, 0.0)]);
        let two = outcome(2, vec![record(1.0, 4.0)]);
        let none = outcome(3, vec![]);
        let summary = Summary::of(&[one.clone(), two, none]).unwrap();
        assert_eq!(summary.seeds, [1, 2]);
        let each: Vec<f64> = (summary.per_seed.iter().map(|run| run.mean_performance)).collect();
        assert_eq!(each.len(), 2);
        assert!((each[0] - 0.8).abs() < 1e-12 && (each[1] - 1.0).abs() < 1e-12);
        assert!((summary.mean.mean_performance - 0.9).abs() < 1e-12);
        assert_eq!(summary.mean.queueing_mean_seconds, 2.0);
        // Standard deviation 0.1 √2 over √2.
        let error = summary.standard_error.unwrap();
        assert!((error.mean_performance - 0.1).abs() < 1e-12);
        assert_eq!(error.jobs, 0.0);
        assert_eq!(Summary::of(&[one]).unwrap().standard_error, None);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn figures_keep_their_places() {
        let values = std::array::from_fn(|at| at as f64);
        assert_eq!(Figures::from_values(values).values(), values);
        let document = serde_json::to_value(Figures::from_values(values)).unwrap();
        assert_eq!(document.as_object().unwrap().len(), FIGURES);
        assert_eq!(document["mean_performance"], 2.0);
        assert_eq!(document["events"], 17.0);
    }

    #[test]
    fn the_cdf_rises_to_one() {
        let (outcome, _) = outcome(1, vec![record(0.5, 0.0), record(1.0, 0.0)]);
        let cdf = performance_cdf([&outcome], 4);
        assert_eq!(cdf.len(), 5);
        assert_eq!(
            (cdf[0], cdf[2], cdf[4]),
            ([0.5, 0.0], [0.5, 0.5], [1.0, 1.0])
        );
        assert_eq!(performance_cdf([], 4), Vec::<[f64; 2]>::new());
    }
}
