//! What a measurement found, and how it becomes a profile entry.

use super::executor::Subject;
use super::levels::Bracket;
use super::search::Finding;
use super::search::Verdict;
use super::settings::Half;
use crate::warning::Warning;
use jostle_profile::CacheSharing;
use jostle_profile::CounterPair;
use jostle_profile::Estimate;
use jostle_profile::Phase;
use jostle_profile::PrivateCacheHeld;
use jostle_profile::Readings;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::Together;
use jostle_profile::UnseenNeighbour;
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
    pub unseen_neighbours: Vec<UnseenNeighbour>,
    pub cache_sharing: Vec<CacheSharing>,
    pub private_cache: Option<PrivateCacheHeld>,
    /// Target time that a switch to the placebo and back costs in turns as the
    /// scheduler gives them, microseconds.
    pub plain_switch: Option<Estimate>,
    /// What pairs of sources cost at once.
    pub together: Vec<Together>,
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
            unseen_neighbours: Vec::new(),
            cache_sharing: Vec::new(),
            private_cache: None,
            plain_switch: None,
            together: Vec::new(),
            readings: Some(readings),
            warnings: Vec::new(),
        }
    }
}

/// Both halves for one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectOutcome {
    pub resource: &'static str,
    /// Of the tolerated half, of the caused half when only that was asked for;
    /// placement, bound, counters and warnings are the caller's to fill.
    pub entry: ResourceEntry,
    /// One per counter of the executor's list: how it changed at the highest
    /// intensity; `None` without enough readings.
    pub mechanism: Vec<Option<CounterPair>>,
    pub warnings: Vec<Warning>,
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
    /// The same on the full scale, where 100 stood for `ceiling`. Beyond that nothing
    /// is known.
    pub fn below(mut self, ceiling: f64) -> HalfOutcome {
        if ceiling >= 100.0 {
            return self;
        }
        let scaled = |intensity: f64| intensity * ceiling / 100.0;
        if let Some(finding) = &mut self.finding {
            for point in &mut finding.curve {
                point.intensity = scaled(point.intensity);
            }
            if let Some(bracket) = &mut finding.bracket {
                *bracket = Bracket {
                    at: scaled(bracket.at),
                    low: scaled(bracket.low),
                    high: match bracket.high >= 100.0 {
                        true => 100.0,
                        false => scaled(bracket.high),
                    },
                };
            }
            if finding.verdict == Verdict::Kept {
                finding.verdict = Verdict::Undecided;
            }
            if let Some(Warning::NotMonotone {
                intensity,
                higher_intensity,
                ..
            }) = &mut finding.warning
            {
                *intensity = scaled(*intensity);
                *higher_intensity = scaled(*higher_intensity);
            }
        }
        self
    }

    fn score(&self) -> Option<Score> {
        let finding = self.finding.as_ref()?;
        // When nothing is excluded a point says nothing either.
        let bracket = finding
            .bracket
            .filter(|bracket| bracket.low > 0.0 || bracket.high < 100.0)?;
        let at = bracket.at.max(bracket.low).min(bracket.high);
        Some(match self.half {
            Half::Tolerated => Score {
                score: at,
                ci95: [bracket.low, bracket.high],
            },
            // `c = 100 - onset`, the interval turned over with it.
            Half::Caused => Score {
                score: 100.0 - at,
                ci95: [100.0 - bracket.high, 100.0 - bracket.low],
            },
        })
    }
}

/// Joins the halves of one subject.
pub(super) fn join(subject: &Subject, halves: Vec<HalfOutcome>) -> SubjectOutcome {
    let mut entry = ResourceEntry::without_numbers(Status::Unavailable, "");
    let mut warnings = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    match halves.first() {
        Some(first) => entry.status = first.status,
        None => reasons.push(
            "what it causes needs a target that may be stopped, and nothing else was asked".into(),
        ),
    }
    for half in halves {
        if let Some(reason) = &half.reason {
            reasons.push(format!("{}: {reason}", half.half.as_str()));
        }
        let score = half.score();
        let Some(finding) = half.finding else {
            continue;
        };
        match half.half {
            Half::Tolerated => {
                entry.tolerated = score;
                entry.sensitive = match finding.verdict {
                    Verdict::Kept => Some(false),
                    Verdict::Lost => Some(true),
                    Verdict::Undecided => None,
                };
                entry.curve = finding.curve;
            }
            Half::Caused => {
                entry.caused = score;
                entry.probe_curve = finding.curve;
            }
        }
        warnings.extend(finding.warning);
    }
    entry.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
    if !entry.curve.is_empty() || !entry.probe_curve.is_empty() {
        let resource = subject.resource.parse::<Resource>().ok();
        entry.pressure_unit = resource.map(|known| known.row().pressure_unit.to_string());
    }
    SubjectOutcome {
        resource: subject.resource,
        entry,
        mechanism: Vec::new(),
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::CurvePoint;

    fn outcome(half: Half, verdict: Verdict, bracket: [f64; 3]) -> HalfOutcome {
        let [at, low, high] = bracket;
        let point = |intensity| CurvePoint {
            intensity,
            requested: None,
            performance: 0.99,
            ci95: [0.98, 1.0],
            pressure: None,
            windows: 9,
        };
        HalfOutcome {
            half,
            status: Status::Measured,
            reason: None,
            finding: Some(Finding {
                verdict,
                resolved: true,
                bracket: Some(Bracket { at, low, high }),
                curve: vec![point(20.0), point(100.0)],
                pair_sd: None,
                pairs_at_100: 9,
                missing_pairs: 0.0,
                warning: None,
            }),
        }
    }

    #[test]
    fn below_a_ceiling_scores_are_bounds() {
        let kept = |half| outcome(half, Verdict::Kept, [100.0; 3]).below(40.0);
        let tolerated = kept(Half::Tolerated);
        let score = tolerated.score().unwrap();
        assert_eq!((score.score, score.ci95), (40.0, [40.0, 100.0]));
        let finding = tolerated.finding.unwrap();
        let levels: Vec<f64> = finding.curve.iter().map(|point| point.intensity).collect();
        assert_eq!(levels, [8.0, 40.0]);
        assert_eq!(finding.verdict, Verdict::Undecided);
        let caused = kept(Half::Caused).score().unwrap();
        assert_eq!((caused.score, caused.ci95), (60.0, [0.0, 60.0]));
        let lost = outcome(Half::Tolerated, Verdict::Lost, [50.0, 45.0, 60.0]).below(40.0);
        let score = lost.score().unwrap();
        assert_eq!((score.score, score.ci95), (20.0, [18.0, 24.0]));
        assert_eq!(lost.finding.unwrap().verdict, Verdict::Lost);
        let whole = outcome(Half::Tolerated, Verdict::Kept, [100.0; 3]).below(100.0);
        assert_eq!(whole.finding.unwrap().verdict, Verdict::Kept);
    }
}
