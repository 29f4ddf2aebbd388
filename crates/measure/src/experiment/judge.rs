//! What was measured means: what every half may claim, and the reasons in words.

use super::design::Bench;
use super::design::Counted;
use super::design::expensive;
use super::levels::FEWEST_PAIRS;
use super::log::Log;
use super::log::Nearby;
use super::mechanism;
use super::outcome::HalfOutcome;
use super::outcome::Measured;
use super::outcome::SubjectOutcome;
use super::outcome::join;
use super::phases;
use super::queue::FAILURES;
use super::queue::FAMILY_ALPHA;
use super::queue::HalfRun;
use super::queue::Queue;
use super::queue::SUBJECT_SHARE;
use super::search::Finding;
use super::search::Verdict;
use super::settings::Half;
use super::settings::Halves;
use super::settings::Settings;
use crate::warning::Warning;
use jostle_host::machine::private::Look;
use jostle_profile::CacheSharing;
use jostle_profile::CounterPair;
use jostle_profile::CurvePoint;
use jostle_profile::Estimate;
use jostle_profile::Phase;
use jostle_profile::PhasePerformance;
use jostle_profile::PrivateCacheHeld;
use jostle_profile::ResourceEntry;
use jostle_profile::Status;
use jostle_profile::UnseenNeighbour;
use jostle_statistics as stats;
use jostle_statistics::Bootstrap;
use jostle_statistics::stream;
use rand::rngs::ChaCha8Rng;
use std::time::Duration;

/// Share of the time, percent, from which on an unseen neighbour is a doubt.
const SAID_FROM: f64 = 5.0;
/// Looks at whether CPUs share a cache from which on they say for how long.
const FEWEST_LOOKS: usize = 10;
/// Looks at the target's own cache that say for how much of the time others had it.
const FEWEST_OF_CACHE: usize = 5;
const MIXTURE_RESAMPLES: usize = 1000;
/// No pressure makes a program this much faster than the placebo does: where the
/// interval lies above, the metric follows something else.
const IMPLAUSIBLE_GAIN: f64 = 1.25;

/// A run that is over.
pub(super) struct Ended<'r, 'a> {
    pub(super) elapsed: Duration,
    pub(super) settings: &'a Settings,
    pub(super) bench: &'r Bench<'a>,
    pub(super) queue: &'r Queue<'a>,
    pub(super) log: &'r Log<'a>,
    /// Why it was cut short, if it was.
    pub(super) partial: Option<String>,
}

impl Ended<'_, '_> {
    /// Closes `halves` and joins what was learned to the `warnings` there are.
    pub(super) fn judge(self, halves: Vec<HalfRun>, mut warnings: Vec<Warning>) -> Measured {
        let mut rng = stream(self.settings.seed, u64::MAX);
        let cut_short = self.partial.is_some();
        let readings = cut_short.then(|| self.log.readings(self.elapsed));
        let phases = self.phases();
        if !phases.is_empty() {
            warnings.push(Warning::TargetPhases {
                phases: phases.clone(),
            });
        }
        let unseen_neighbours = self.unseen_neighbours();
        let told_apart = |members: &Vec<usize>| {
            let mut members = members.iter();
            members.any(|member| self.log.mixtures.contains_key(member))
        };
        warnings.extend(
            unseen_neighbours
                .iter()
                .zip(self.log.held.values())
                .filter(|(one, _)| one.held_percent >= SAID_FROM && one.slowed_percent >= SAID_FROM)
                .map(|(one, (_, members))| Warning::UnseenNeighbour {
                    held_percent: one.held_percent,
                    slowed_percent: one.slowed_percent,
                    told_apart: told_apart(members),
                }),
        );
        let cache_sharing = self.cache_sharing();
        let private_cache = self.private_cache();
        warnings.extend(
            cache_sharing
                .iter()
                .filter(|one| one.shared_percent < 100.0 - SAID_FROM)
                .map(|one| Warning::CacheNotShared {
                    shared_percent: one.shared_percent,
                    of_shared_time: one.of_shared_time,
                }),
        );
        let mechanisms = self.mechanisms(&mut rng);
        let apart = self.apart(&phases, &mut rng);
        let mut parts: Vec<Vec<HalfOutcome>> = vec![Vec::new(); self.log.subjects.len()];
        let mut first_pairs = None;
        for run in halves {
            let subject = run.subject;
            let outcome = self.half_outcome(run).below(self.settings.max_intensity);
            if subject == 0 && first_pairs.is_none() {
                let finding = outcome.finding.as_ref();
                first_pairs = finding.and_then(|f| Some((f.pair_sd?, f.pairs_at_100)));
            }
            parts[subject].push(outcome);
        }
        let subjects: Vec<SubjectOutcome> = self
            .log
            .subjects
            .iter()
            .zip(parts)
            .zip(&self.log.sharing)
            .zip(mechanisms.into_iter().zip(apart))
            .enumerate()
            .map(
                |(index, (((subject, parts), sharing), (mechanism, apart)))| {
                    let mut outcome = join(subject, parts);
                    outcome.entry.mixture = self.mixture(index, &outcome.entry, &mut rng);
                    outcome.entry.switch = self.log.switches.get(&index).cloned();
                    outcome.entry.sharing_cost = estimate(sharing, &mut rng);
                    outcome.mechanism = mechanism;
                    if self.settings.halves != Halves::Tolerated && !subject.stoppable {
                        outcome.warnings.push(Warning::CausedNotMeasured);
                    }
                    if !apart.is_empty() {
                        outcome.entry.phases.clone_from(&apart);
                        outcome
                            .warnings
                            .push(Warning::PhasesDiffer { phases: apart });
                    }
                    outcome
                },
            )
            .collect();
        let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
        let idle: Vec<f64> = logs(&self.log.idle);
        let (first, later) = idle.split_at(self.log.first_idle);
        let before: Vec<f64> = logs(&self.log.past.undisturbed);
        let changed = change_percent(&before, first, &mut rng);
        warnings.extend(
            changed.map(|change_percent| Warning::ChangedSinceInterruption { change_percent }),
        );
        let baseline = estimate(&[&before, first].concat(), &mut rng);
        if baseline.is_none() {
            warnings.push(Warning::BaselineWithoutInterval);
        }
        let drift = change_percent(first, later, &mut rng);
        warnings.extend(drift.map(|change_percent| Warning::BaselineDrift { change_percent }));
        let noise_percent = stats::variation_percent(self.log.baseline());
        let smallest_detectable_percent = match (first_pairs, noise_percent) {
            (Some((sd, n)), _) => stats::smallest_detectable_percent(sd, n),
            // A pair's ratio has the noise of two windows.
            (None, Some(noise)) => {
                let sd = noise / 100.0 * std::f64::consts::SQRT_2;
                stats::smallest_detectable_percent(sd, self.settings.min_pairs())
            }
            (None, None) => None,
        };
        Measured {
            subjects,
            baseline,
            noise_percent,
            smallest_detectable_percent,
            windows_kept: self.bench.kept,
            windows_dropped: self.bench.dropped,
            steal_percent: self.bench.steal_percent(),
            partial: self.partial,
            duration: self.elapsed,
            phases,
            unseen_neighbours,
            cache_sharing,
            private_cache,
            plain_switch: self.log.plain_switch,
            together: self.log.together.clone(),
            readings,
            warnings,
        }
    }

    fn unseen_neighbours(&self) -> Vec<UnseenNeighbour> {
        let held = self.log.held.values();
        held.map(|(held, members)| {
            let names = members.iter();
            let names = names.map(|member| self.log.subjects[*member].resource.to_string());
            UnseenNeighbour {
                resources: names.collect(),
                held_percent: 100.0 * held.share,
                slowed_percent: 100.0 * (1.0 - held.slowed.exp()),
            }
        })
        .collect()
    }

    fn cache_sharing(&self) -> Vec<CacheSharing> {
        let names = |members: &[usize]| -> Vec<String> {
            let names = members
                .iter()
                .map(|member| self.log.subjects[*member].resource);
            names.map(str::to_string).collect()
        };
        let nearby = self.log.nearby.values();
        let mut all: Vec<CacheSharing> = nearby
            .map(|(nearby, members)| CacheSharing {
                resources: names(members),
                shared_percent: 100.0 * self.share_of_time(nearby),
                of_shared_time: nearby.of_shared_time,
                shared_ns: nearby.near_ns,
                apart_ns: nearby.apart_ns,
            })
            .collect();
        // Those that wait for a shared cache have no blocks where there was none.
        let [near, apart] = self.log.looks_at_sharing();
        if all.is_empty() && near == 0 && apart > 0 {
            all.push(CacheSharing {
                resources: names(&self.log.evicting),
                shared_percent: 0.0,
                of_shared_time: false,
                shared_ns: None,
                apart_ns: Some(stats::median(&mut self.log.lines_ns.clone())),
            });
        }
        all
    }

    /// What the looks at the target's own cache saw; `None` for fewer than five.
    fn private_cache(&self) -> Option<PrivateCacheHeld> {
        let looks = &self.log.private_cache;
        let held = looks.iter().filter(|look| look.held()).count();
        let median =
            |of: fn(&Look) -> f64| stats::median(&mut Vec::from_iter(looks.iter().map(of)));
        (looks.len() >= FEWEST_OF_CACHE).then(|| PrivateCacheHeld {
            held_percent: 100.0 * held as f64 / looks.len() as f64,
            looks: looks.len() as u64,
            near_ns: median(|look| look.near_ns),
            access_ns: median(|look| look.ns),
        })
    }

    /// What the target keeps at 100 over all the time, where the levels, those of
    /// `entry`, are of a part of it.
    fn mixture(
        &self,
        subject: usize,
        entry: &ResourceEntry,
        rng: &mut ChaCha8Rng,
    ) -> Option<Estimate> {
        let (contrasts, arm) = self.log.mixtures.get(&subject)?;
        let bootstrap = contrasts.bootstrap(*arm, MIXTURE_RESAMPLES, rng)?;
        let found = Estimate {
            value: bootstrap.location.exp(),
            ci95: bootstrap.interval95().map(f64::exp),
        };
        let mut nearby = self.log.nearby.values();
        let told_apart = nearby.find(|(one, members)| one.told_apart && members.contains(&subject));
        let Some((nearby, _)) = told_apart else {
            return Some(found);
        };
        let shared = self.share_of_time(nearby);
        let near = entry
            .curve
            .last()
            .filter(|point| point.intensity == 100.0)?;
        let part = |near: f64, apart: f64| shared * near + (1.0 - shared) * apart;
        let value = part(near.performance, found.value);
        let end = |at: usize| {
            let off = |value: f64, ci95: [f64; 2]| ci95[at] - value;
            let near = shared * off(near.performance, near.ci95);
            let apart = (1.0 - shared) * off(found.value, found.ci95);
            near.hypot(apart)
        };
        Some(Estimate {
            value,
            ci95: [(value - end(0)).max(0.0), value + end(1)],
        })
    }

    /// Of the time, 0–1, in which sources and target shared a cache.
    fn share_of_time(&self, nearby: &Nearby) -> f64 {
        let [near, apart] = self.log.looks_at_sharing();
        match near + apart < FEWEST_LOOKS {
            true => nearby.share,
            false => near as f64 / (near + apart) as f64,
        }
    }

    /// Per subject the counters' changes at its highest intensity.
    fn mechanisms(&self, rng: &mut ChaCha8Rng) -> Vec<Vec<Option<CounterPair>>> {
        let pairs = self.log.pairs.iter();
        let counters = pairs.map(|pair| pair.counted.treated.len()).max();
        let verdicts = counters.unwrap_or(0).max(1) * self.log.subjects.len().max(1);
        let alpha = FAMILY_ALPHA / 2.0 / verdicts as f64;
        (0..self.log.subjects.len())
            .map(|subject| {
                let strongest = self.log.strongest(subject);
                let counted: Vec<&Counted> = strongest.map(|pair| &pair.counted).collect();
                mechanism::changes(&counted, alpha, rng)
            })
            .collect()
    }

    /// The phases of undisturbed performance, as idle windows and control
    /// windows show it; what sharing a CPU costs the latter is taken out.
    fn phases(&self) -> Vec<Phase> {
        let log = self.log;
        let mut series: Vec<(f64, f64)> = log
            .idle_at
            .iter()
            .zip(&log.idle)
            .map(|(at, value)| (at.as_secs_f64(), value.ln()))
            .collect();
        for (subject, sharing) in log.sharing.iter().enumerate() {
            // What is taken out must be known better than what is looked for.
            let error = stats::standard_deviation(sharing) / (sharing.len() as f64).sqrt();
            if sharing.len() < 3 || error > phases::LEAST_STEP / 4.0 {
                continue;
            }
            let cost = stats::median(&mut sharing.clone());
            let control = log
                .pairs
                .iter()
                .filter(|pair| pair.half == Half::Tolerated && pair.subject == subject);
            series.extend(control.map(|pair| (pair.at.as_secs_f64(), pair.reference.ln() - cost)));
        }
        let mut undisturbed: Vec<f64> = log.idle.iter().map(|value| value.ln()).collect();
        for level in log.levels.values() {
            // What the placebo costs is the same throughout.
            let mut logs: Vec<f64> = level.iter().map(|(_, log)| *log).collect();
            let cost = stats::median(&mut logs) - stats::median(&mut undisturbed);
            series.extend(level.iter().map(|(at, log)| (*at, log - cost)));
        }
        series.retain(|(_, log)| log.is_finite());
        series.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        phases::phases(&series)
    }

    fn apart(&self, phases: &[Phase], rng: &mut ChaCha8Rng) -> Vec<Vec<PhasePerformance>> {
        (0..self.log.subjects.len())
            .map(|subject| {
                let pairs: Vec<(f64, f64)> = self
                    .log
                    .strongest(subject)
                    .map(|pair| (pair.at.as_secs_f64(), pair.log_ratio))
                    .collect();
                phases::apart(&pairs, phases, rng)
            })
            .collect()
    }

    fn half_outcome(&self, run: HalfRun) -> HalfOutcome {
        let half = run.half;
        let (pairs, at_100) = (run.search.pairs(), run.search.pairs_at(100.0));
        let rules = run.search.rules;
        let mut finding = run.search.finish(half.as_str());
        let implausible = match half {
            Half::Tolerated => implausible(&finding.curve),
            Half::Caused => None,
        };
        if implausible.is_some() {
            finding.resolved = false;
            finding.bracket = None;
        }
        let learned = finding.bracket.is_some();
        let failed = run.error.or_else(|| {
            let reason = run.last_failure?;
            (run.failures >= FAILURES).then(|| format!("{reason}, {FAILURES} pairs in a row"))
        });
        let status = if finding.resolved {
            Status::Measured
        } else if failed.is_some() && !learned {
            Status::Unavailable
        } else {
            Status::Unresolved
        };
        let reason = if finding.resolved || failed.is_some() {
            failed
        } else if implausible.is_some() {
            implausible
        } else if let Some(partial) = &self.partial {
            Some(format!("stopped after {pairs} pairs: {partial}"))
        } else if run.skipped.is_some() {
            run.skipped
        } else if run.tried == 0 {
            Some(self.too_expensive(run.subject, half, rules.min_pairs))
        } else if !learned && run.stolen > 0 {
            Some(format!(
                "{} pairs were lost to stolen CPU time and {pairs} are left, {FEWEST_PAIRS} are \
                 needed",
                run.stolen
            ))
        } else if !learned {
            Some(format!(
                "the budget ended after {at_100} pairs at 100, {FEWEST_PAIRS} are needed there and of \
                 the control"
            ))
        } else {
            Some(self.too_noisy(&finding, rules.line, run.spent.as_secs_f64(), pairs))
        };
        HalfOutcome {
            half,
            status,
            reason,
            finding: learned.then_some(finding),
        }
    }

    fn too_expensive(&self, subject: usize, half: Half, pairs: usize) -> String {
        let price = self.queue.price(subject, half, 100.0, pairs);
        let subject = &self.log.subjects[subject];
        let left = self.settings.budget.saturating_sub(self.elapsed);
        let left = left.as_secs_f64();
        let (what, takes) = match expensive(subject) {
            true => ("switch there and back", 2 * subject.switch_cost),
            false => {
                let window = subject.settle + self.queue.window(subject);
                ("window", window.max(self.queue.natural))
            }
        };
        let why = format!(" (a {what} takes {:.1} s)", takes.as_secs_f64());
        let budget = self.settings.budget.as_secs_f64();
        // The share rule must let it in, and the others take what they took.
        let enough = (budget - left + price).max(price / SUBJECT_SHARE);
        let halves = match half {
            Half::Tolerated => "the target's",
            Half::Caused => "the source's",
        };
        format!(
            "{pairs} pairs of {halves} windows need about {price:.1} s{why}, {left:.1} s of {budget:.0} s \
             were left; --budget {:.0}s would do",
            (1.1 * enough + self.settings.preparation.as_secs_f64()).ceil()
        )
    }

    fn too_noisy(&self, finding: &Finding, line: f64, spent: f64, pairs: usize) -> String {
        let below = finding.curve.iter().find(|point| point.ci95[1] < line);
        let known = match (finding.verdict, finding.curve.last()) {
            (Verdict::Lost, _) => {
                let scale = self.settings.max_intensity / 100.0;
                let [low, high] = finding.bracket.map_or([0.0, 100.0], |b| [b.low, b.high]);
                let [low, high] = [low * scale, high * scale];
                format!(
                    "a loss is certain but where it begins is not: between {low:.0} and {high:.0}"
                )
            }
            (_, Some(point)) if point.ci95[0] > line && below.is_some() => {
                let lower = below.map_or(0.0, |below| below.intensity);
                let kept = below.map_or(0.0, |below| below.performance);
                format!(
                    "{:.1} % kept at {:.0} but {:.1} % at {lower:.0}",
                    100.0 * point.performance,
                    self.settings.max_intensity,
                    100.0 * kept,
                )
            }
            (_, Some(point)) => {
                let [low, high] = point.ci95;
                let why = match (low..=high).contains(&line) {
                    true => format!("too close to {:.1} %", 100.0 * line),
                    false => format!("{} pairs are too few", point.windows),
                };
                // A loss has to be certain of all resources at once.
                let of_all = match point.performance < line {
                    true => " on all resources at once",
                    false => "",
                };
                format!(
                    "{:.1} % kept at {:.0} ({:.1} to {:.1}), {why} for a verdict{of_all}",
                    100.0 * point.performance,
                    self.settings.max_intensity,
                    100.0 * low,
                    100.0 * high,
                )
            }
            (_, None) => String::new(),
        };
        let seconds = finding.missing_pairs * spent / pairs.max(1) as f64;
        let budget = self.settings.budget.as_secs_f64();
        // Half as much again: the other halves share what is added.
        let enough = budget + 1.5 * seconds + self.settings.preparation.as_secs_f64();
        if enough > 100.0 * budget || !enough.is_finite() {
            format!("{known}; no sensible budget would settle it here")
        } else {
            format!(
                "{known}; about {:.0} more pairs (--budget {enough:.0}s) may settle it",
                finding.missing_pairs.ceil()
            )
        }
    }
}

/// Why a curve says nothing about the target, if it does not: a loss and a gain by
/// chance are alike, and a verdict that rests on such a gain would be as false.
fn implausible(curve: &[CurvePoint]) -> Option<String> {
    let point = curve
        .iter()
        .filter(|point| point.ci95[0] > IMPLAUSIBLE_GAIN)
        .max_by(|a, b| a.ci95[0].total_cmp(&b.ci95[0]))?;
    Some(format!(
        "at {:.0} it seemed {:.1} times as fast as beside the placebo ({:.1} to {:.1}), which no \
         pressure does: the metric does not follow the program's speed; name another with --metric",
        point.intensity, point.performance, point.ci95[0], point.ci95[1]
    ))
}

/// `exp` of the location of logs with its 95 % interval; `None` below 3 values.
fn estimate(logs: &[f64], rng: &mut ChaCha8Rng) -> Option<Estimate> {
    if logs.len() < 3 {
        return None;
    }
    let bootstrap = Bootstrap::of(logs, 2000, rng);
    let estimate = Estimate {
        value: bootstrap.location.exp(),
        ci95: bootstrap.interval95().map(f64::exp),
    };
    let finite = estimate.value.is_finite() && estimate.ci95.iter().all(|end| end.is_finite());
    finite.then_some(estimate)
}

/// Change of the location of logs that noise does not explain, percent.
fn change_percent(before: &[f64], after: &[f64], rng: &mut ChaCha8Rng) -> Option<f64> {
    if before.len() < 5 || after.len() < 5 {
        return None;
    }
    let before = Bootstrap::of(before, 400, rng);
    let after = Bootstrap::of(after, 400, rng);
    let change: f64 = after.location - before.location;
    let error = before.error.hypot(after.error);
    let certain = change.abs() > 3.0 * error && change.abs() > 0.02;
    certain.then(|| 100.0 * (change.exp() - 1.0))
}
