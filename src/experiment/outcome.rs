//! What a measurement found, and how it becomes a profile entry.

use super::design::Half;
use super::executor::Subject;
use super::levels::Bracket;
use super::search::Finding;
use super::search::Verdict;
use crate::warning::Warning;
use jostle_profile::CounterPair;
use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::Phase;
use jostle_profile::PhasePerformance;
use jostle_profile::Readings;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::resource::Resource;
use std::time::Duration;

/// Everything one measurement found.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// In the order of the subjects given.
    pub subjects: Vec<SubjectOutcome>,
    /// Undisturbed performance, metric units; `None` with too few windows.
    pub baseline: Option<Estimate>,
    /// Coefficient of variation of undisturbed windows, percent.
    pub noise_percent: Option<f64>,
    /// Smallest loss the first subject's pairs could have told from noise
    /// (5 % two-sided, 80 % power), percent.
    pub smallest_detectable_percent: Option<f64>,
    pub windows_kept: u64,
    /// Dropped for steal or failed readings; a pair is dropped whole.
    pub windows_dropped: u64,
    /// Time-weighted share of CPU time stolen in all windows, percent.
    pub steal_percent: Option<f64>,
    /// Why the measurement was cut short, if it was.
    pub partial: Option<String>,
    pub duration: Duration,
    /// Empty when undisturbed performance held its level.
    pub phases: Vec<Phase>,
    /// Everything that was read, when the measurement was cut short.
    pub readings: Option<Readings>,
    pub warnings: Vec<Warning>,
}

impl Measured {
    /// What is known of a measurement that is still going on.
    pub(super) fn unfinished(readings: Readings) -> Measured {
        Measured {
            subjects: Vec::new(),
            baseline: None,
            noise_percent: None,
            smallest_detectable_percent: None,
            windows_kept: 2 * readings.pairs.len() as u64,
            windows_dropped: 0,
            steal_percent: None,
            partial: Some(
                "it ended by force; --resume goes on from the readings in this file".into(),
            ),
            duration: Duration::from_secs_f64(readings.elapsed_seconds.max(0.0)),
            phases: Vec::new(),
            readings: Some(readings),
            warnings: Vec::new(),
        }
    }
}

/// Both halves for one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectOutcome {
    pub resource: &'static str,
    /// Of the tolerated half; of the caused half when only that was asked for.
    pub status: Status,
    /// Why the status is not `Measured`, or what limits it.
    pub reason: Option<String>,
    pub tolerated: Option<Score>,
    pub caused: Option<Score>,
    /// A loss beyond the QoS line was shown (family-wise error 5 %) or ruled
    /// out; `None` when neither.
    pub sensitive: Option<bool>,
    pub curve: Vec<CurvePoint>,
    pub probe_curve: Vec<CurvePoint>,
    /// Target performance under control as a fraction of idle: what sharing
    /// the CPU costs, whatever the worker does.
    pub sharing_cost: Option<Estimate>,
    /// One per counter of the executor's list: how it changed at the highest
    /// intensity; `None` without enough readings.
    pub mechanism: Vec<Option<CounterPair>>,
    /// Where the target's phases differ in what they bear.
    pub phases: Vec<PhasePerformance>,
    pub warnings: Vec<Warning>,
}

impl SubjectOutcome {
    /// The profile entry; placement, bound and counters are the caller's to
    /// fill.
    pub fn entry(&self) -> ResourceEntry {
        let mut entry = ResourceEntry::without_numbers(self.status, "");
        entry.reason = self.reason.clone();
        entry.tolerated = self.tolerated;
        entry.caused = self.caused;
        entry.sensitive = self.sensitive;
        entry.curve = self.curve.clone();
        entry.probe_curve = self.probe_curve.clone();
        entry.sharing_cost = self.sharing_cost;
        entry.phases = self.phases.clone();
        entry.pressure_unit = self
            .resource
            .parse::<Resource>()
            .ok()
            .filter(|_| !self.curve.is_empty() || !self.probe_curve.is_empty())
            .map(|resource| resource.row().pressure_unit.to_string());
        for warning in &self.warnings {
            entry.warn(warning.facts());
        }
        entry
    }
}

/// How one half ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HalfOutcome {
    pub half: Half,
    pub status: Status,
    pub reason: Option<String>,
    pub finding: Option<Finding>,
}

impl HalfOutcome {
    fn score(&self) -> Option<Score> {
        let finding = self.finding.as_ref()?;
        // When nothing is excluded a point says nothing either.
        let bracket = finding
            .bracket
            .filter(|bracket| bracket.low > 0.0 || bracket.high < 100.0)?;
        Some(match self.half {
            Half::Tolerated => score(bracket),
            Half::Caused => mirrored(bracket),
        })
    }
}

fn score(bracket: Bracket) -> Score {
    Score {
        score: bracket.at,
        ci95: [bracket.low, bracket.high],
    }
}

/// `c = 100 - onset`, the interval turned over with it.
fn mirrored(bracket: Bracket) -> Score {
    Score {
        score: 100.0 - bracket.at,
        ci95: [100.0 - bracket.high, 100.0 - bracket.low],
    }
}

/// Joins the halves of one subject.
pub(super) fn join(
    subject: &Subject,
    halves: Vec<HalfOutcome>,
    sharing_cost: Option<Estimate>,
    mut warnings: Vec<Warning>,
) -> SubjectOutcome {
    let mut outcome = SubjectOutcome {
        resource: subject.resource,
        status: Status::Unavailable,
        reason: None,
        tolerated: None,
        caused: None,
        sensitive: None,
        curve: Vec::new(),
        probe_curve: Vec::new(),
        sharing_cost,
        mechanism: Vec::new(),
        phases: Vec::new(),
        warnings: Vec::new(),
    };
    let mut reasons: Vec<String> = Vec::new();
    if halves.is_empty() {
        reasons.push(
            "what it causes needs a target that may be stopped, and nothing else was asked".into(),
        );
    }
    for (index, half) in halves.into_iter().enumerate() {
        if index == 0 {
            outcome.status = half.status;
        }
        if let Some(reason) = &half.reason {
            reasons.push(format!("{}: {reason}", half.half.as_str()));
        }
        let score = half.score();
        let Some(finding) = half.finding else {
            continue;
        };
        match half.half {
            Half::Tolerated => {
                outcome.tolerated = score;
                outcome.sensitive = match finding.verdict {
                    Verdict::Kept => Some(false),
                    Verdict::Lost => Some(true),
                    Verdict::Undecided => None,
                };
                outcome.curve = finding.curve;
            }
            Half::Caused => {
                outcome.caused = score;
                outcome.probe_curve = finding.curve;
            }
        }
        outcome.warnings.extend(finding.warning);
    }
    outcome.warnings.append(&mut warnings);
    outcome.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    outcome
}
