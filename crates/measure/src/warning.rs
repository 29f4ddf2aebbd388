//! What a reader should know before believing a profile: every warning of this
//! package and its text. Those of the load generator are in `jostle-load`.

use jostle_host::inject::peak::PeakChange;
use jostle_host::inject::peak::Stale;
use jostle_host::machine::calibration::StaleSource;
use jostle_profile::Phase;
use jostle_profile::PhasePerformance;
use jostle_profile::WarningFacts;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use thiserror::Error;

/// A caution, with the numbers needed to judge it. Its code is the variant's
/// name in kebab case and does not change between versions.
#[derive(Clone, Debug, Error, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Warning {
    /// No slice period kept the placebo within the tolerance.
    #[error(
        "no slice period kept the placebo within {tolerance_points:.0} points of its share: at \
         {:.1} ms a spinning thread kept {victim_percent:.0} % of the CPU instead of \
         {expected_percent:.0} %",
        .period_seconds * 1e3
    )]
    SliceTolerance {
        tolerance_points: f64,
        period_seconds: f64,
        victim_percent: f64,
        expected_percent: f64,
    },
    /// The source now reaches less, or more, than when it was calibrated.
    #[error("{}", peak_changed(*.change_percent, .recorded_at))]
    PeakChanged {
        /// Below 0: less.
        change_percent: f64,
        recorded_at: String,
    },
    /// There is a machine file, and nothing of it was used.
    #[error("the machine file is ignored: {reason}")]
    MachineFileIgnored { reason: String },
    /// The machine file holds some sources for other settings.
    #[error(
        "the machine file of {recorded_at} is not used for sources that were calibrated with \
         other settings: {}; their peaks are measured at the start; `jostle machine --calibrate` \
         renews the file (with the same --access, --scratch or pattern flags as here)",
        .sources.iter().map(StaleSource::to_string).collect::<Vec<_>>().join(", ")
    )]
    MachineFilePartIgnored {
        recorded_at: String,
        sources: Vec<StaleSource>,
    },
    #[error("the target cannot be stopped: {reason}")]
    TargetNotStoppable { reason: String },
    /// `caused` was asked for and needs a target that may be stopped.
    #[error("caused: not measured, because the target may not be stopped")]
    CausedNotMeasured,
    /// The target alternates between kinds of work within a few windows.
    #[error(
        "without interference the target alternates: adjacent windows {}",
        match .lengthened {
            true => format!(
                "differed by {:.0} %, so all windows were made {} times as long, where they \
                 differ by {:.0} %",
                .difference_percent, .factor, .lengthened_percent
            ),
            false => format!(
                "differ by {:.0} %, and by {:.0} % if {} times as long; that is too long for \
                 this budget",
                .difference_percent, .lengthened_percent, .factor
            ),
        }
    )]
    TargetAlternates {
        difference_percent: f64,
        factor: u32,
        lengthened_percent: f64,
        /// False when longer windows do not fit into the budget.
        lengthened: bool,
    },
    /// Not all directions can have their fewest pairs.
    #[error(
        "{turns} turns of the target were lost: this process did not get to read them in time; \
         their blocks count as dropped"
    )]
    TurnsLost { turns: u64 },
    #[error(
        "the metric is slow for this budget: a pair of windows takes {pair_seconds:.1} s, {} of \
         the {wanted:.0} directions can have the {fewest_pairs} pairs they need at least; \
         --budget {sufficient_budget_seconds:.0}s would do for all, or name fewer --resources",
        match *.affordable {
            pairs if pairs >= 1.0 => format!("at most {pairs:.0}"),
            _ => "none".to_string(),
        }
    )]
    SlowMetric {
        pair_seconds: f64,
        affordable: f64,
        wanted: f64,
        fewest_pairs: usize,
        sufficient_budget_seconds: f64,
    },
    #[error(
        "the metric is noisy for this budget: adjacent windows differ by \
         {deviation_percent:.1} %, so about {pairs:.0} pairs for each of {wanted:.0} directions \
         show losses from {smallest_percent:.1} % on, not the {loss_percent:.1} % asked for; {}",
        match .sufficient_budget_seconds {
            Some(seconds) => format!("--budget {seconds:.0}s would do"),
            None => "no sensible budget would do; a steadier metric may".to_string(),
        }
    )]
    NoisyMetric {
        deviation_percent: f64,
        pairs: f64,
        wanted: f64,
        smallest_percent: f64,
        loss_percent: f64,
        /// Absent when no sensible budget would do.
        sufficient_budget_seconds: Option<f64>,
    },
    #[error("{}", target_phases(.phases))]
    TargetPhases { phases: Vec<Phase> },
    #[error("{}", phases_differ(.phases))]
    PhasesDiffer { phases: Vec<PhasePerformance> },
    #[error(
        "{direction}: intensity {intensity:.0} costs more ({kept_percent:.1} % kept) than \
         intensity {higher_intensity:.0} ({higher_kept_percent:.1} % kept): the curve is not \
         monotone, and the score holds only as far as it is"
    )]
    NotMonotone {
        /// `tolerated` or `caused`.
        direction: &'static str,
        intensity: f64,
        kept_percent: f64,
        higher_intensity: f64,
        higher_kept_percent: f64,
    },
    /// The baseline is not what it was before the interruption.
    #[error(
        "performance without interference is {change_percent:+.1} % from what it was before the \
         interruption; {ADJACENT}"
    )]
    ChangedSinceInterruption { change_percent: f64 },
    #[error(
        "performance without interference changed by {change_percent:+.1} % while measuring; \
         {ADJACENT}"
    )]
    BaselineDrift { change_percent: f64 },
    #[error("too few windows without interference to give the baseline an interval")]
    BaselineWithoutInterval,
    /// The source did not reach what was asked for beside the target.
    #[error(
        "at {requested_percent:.0} % the source reached {reached_percent:.0} % beside the target, \
         {:.0} percentage points below the request: contention from the target or a co-located \
         process",
        .requested_percent - .reached_percent
    )]
    PressureMissed {
        requested_percent: f64,
        reached_percent: f64,
    },
    /// The CPU's clock is slower beside the target.
    #[error(
        "a source that needs only execution units was {slowed_percent:.0} % slower on the CPU that \
         it time-shares with the target than with the target stopped: the target probably lowers \
         the clock, as wide vector instructions do. What a source in the core achieved is \
         therefore counted per clock cycle"
    )]
    ClockSlowed { slowed_percent: f64 },
    /// A closed loop of requests stands still together with the target.
    #[error(
        "the load generator waits for answers while the target is stopped, so what it takes of \
         this resource counts as caused by the target; with a fixed rate it goes on sending"
    )]
    GeneratorWaits,
    /// Somebody else was on the core part of the time.
    #[error(
        "somebody that this machine does not show was on the target's core for {held_percent:.0} % of \
         the time and took {slowed_percent:.0} % of its speed then; {}",
        match .told_apart {
            true => "the scores are of the rest of the time, `mixture` is of all of it",
            false => "too little time is left without it to tell the two apart",
        }
    )]
    UnseenNeighbour {
        held_percent: f64,
        slowed_percent: f64,
        told_apart: bool,
    },
    /// CPUs that are said to share a last-level cache did not.
    #[error(
        "this virtual machine's CPUs shared a last-level cache for {shared_percent:.0} % of the \
         time{}",
        match of_shared_time {
            true => ": results of llc and memory sources are of that time",
            false => "",
        }
    )]
    CacheNotShared {
        shared_percent: f64,
        of_shared_time: bool,
    },
    /// Others had a part of the last-level cache.
    #[error(
        "others used the last-level cache: an access to three fifths of it took {access_ns:.0} ns \
         ({free_ns:.0} ns at the calibration); with all of it the target may lose more to llc and \
         memory sources"
    )]
    LastCacheHeld { access_ns: f64, free_ns: f64 },
    /// Others replace what is in the last-level cache.
    #[error(
        "others use the last-level cache so much that {kept_percent:.0} % of what was read was still \
         there 30 ms later: llc sources could only take what that leaves, and when those others are \
         gone the target may lose more to them"
    )]
    LastCacheReplaced { kept_percent: f64 },
    /// The placebo slowed a target on another CPU.
    #[error(
        "the placebo alone slowed the target to {kept_percent:.0} % although it ran on another \
         CPU: the CPUs share more than this resource"
    )]
    PlaceboSlowed { kept_percent: f64 },
    /// A loss that a program without any use of the resource would share.
    #[error(
        "a program that uses registers only loses {overhead_percent:.1} ± {reach_percent:.1} points \
         of the {lost_percent:.1} % lost at 100: the source also evicts data that the kernel needs \
         for a context switch"
    )]
    SwitchOverhead {
        lost_percent: f64,
        overhead_percent: f64,
        reach_percent: f64,
    },
    #[error("counters: {note}")]
    Counters { note: String },
    /// Threads of the target that were not counted from their beginning.
    #[error(
        "in {windows_with_new} of {windows} windows the target started threads whose {counted} \
         was not counted until the window's end"
    )]
    ThreadsNotCounted {
        windows: u64,
        windows_with_new: u64,
        counted: String,
    },
    /// Others did what is counted as the target's.
    #[error(
        "process {processes} ran on the target's CPU as well, and {counted} in it counted as the \
         target's: end it, or give another --metric"
    )]
    OthersCounted { processes: String, counted: String },
    /// What was read as a level is rather a running total.
    #[error(
        "the numbers only grew, from {from} to {to}: if they are a running total, nothing here \
         holds; measure again with --kind rate"
    )]
    ReadTotalAsValue { from: f64, to: f64 },
    /// Somebody, or the target itself, changed where it may run.
    #[error(
        "while measuring, the CPUs that the target may run on changed from {before} to {after}: \
         the sources stayed where they were planned for the first; measure again"
    )]
    TargetCpusChanged { before: String, after: String },
    /// The target ran elsewhere than was planned for.
    #[error(
        "the target spent {outside_percent:.0} % of its time away from the sources placed beside CPU \
         {cpus}: what they cost it is understated; {remedy}"
    )]
    TargetMoved {
        cpus: String,
        outside_percent: f64,
        /// How to make target and sources meet.
        remedy: String,
    },
    #[error(
        "while measuring, the target's threads went from {before} to {after}: the profile mixes \
         both states; --warmup lets it begin later"
    )]
    ThreadCountChanged { before: usize, after: usize },
    /// More threads wanted to run at once than a trial run showed.
    #[error(
        "{threads} threads of the target wanted to run at once and had {cpus} CPU{}: by itself it \
         runs faster; give more with --cpus",
        if *.cpus == 1 { "" } else { "s" }
    )]
    ThreadsShareCpus { threads: usize, cpus: usize },
    #[error("measured in parts: begun {begun}, {first_seconds:.0} s then, resumed {resumed}")]
    MeasuredInParts {
        begun: String,
        first_seconds: f64,
        resumed: String,
    },
    #[error("not resumed: {reason}")]
    NotResumed { reason: String },
    /// Every source was stopped because the target fell below its floor.
    #[error("{}", floor_reached(self))]
    FloorReached {
        metric: String,
        unit: String,
        value: f64,
        of_baseline_percent: f64,
        /// As given to `--floor`.
        floor: String,
        /// The same in `unit`.
        limit: f64,
        /// The source that ran, and its intensity; absent where none did.
        #[serde(skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        intensity_percent: Option<f64>,
    },
    #[error(
        "no source went above {max_percent} %: a score at that bound says that nothing is known          beyond it"
    )]
    IntensityLimited { max_percent: f64 },
    #[error("cut short: {reason}")]
    CutShort { reason: String },
    #[serde(skip)]
    #[error("{0}")]
    Load(jostle_load::Warning),
}

impl From<PeakChange> for Warning {
    fn from(change: PeakChange) -> Warning {
        Warning::PeakChanged {
            change_percent: change.percent,
            recorded_at: change.recorded_at,
        }
    }
}

impl From<Stale> for Warning {
    fn from(stale: Stale) -> Warning {
        Warning::MachineFilePartIgnored {
            recorded_at: stale.recorded_at,
            sources: stale.sources,
        }
    }
}

/// Why an estimate that compares adjacent windows survives a change.
const ADJACENT: &str =
    "ratios compare adjacent windows and are unaffected; the baseline is affected";

/// A warning as it is kept in a file: the tag `code`, the message, and its numbers.
pub fn facts(warning: &(impl Serialize + fmt::Display)) -> WarningFacts {
    let mut fields = match serde_json::to_value(warning) {
        Ok(Value::Object(fields)) => fields,
        _ => Default::default(),
    };
    let code = fields.remove("code");
    let code = code.and_then(|code| code.as_str().map(String::from));
    WarningFacts {
        code: code.unwrap_or_default(),
        message: warning.to_string(),
        fields: fields.into_iter().collect(),
    }
}

impl Warning {
    /// As it is kept in a profile.
    pub fn facts(&self) -> WarningFacts {
        match self {
            Warning::Load(load) => WarningFacts {
                code: load.code().to_string(),
                message: self.to_string(),
                fields: Default::default(),
            },
            _ => facts(self),
        }
    }
}

fn peak_changed(change_percent: f64, recorded_at: &str) -> String {
    let (more, why) = match change_percent < 0.0 {
        true => (
            "less",
            "a neighbour takes it, or the machine changed (then run `jostle machine --calibrate`)",
        ),
        false => (
            "more",
            "the calibration was disturbed, or the machine changed; run `jostle machine --calibrate`",
        ),
    };
    format!(
        "at the start the source reached {:.0} % {more} at full strength than when calibrated \
         ({recorded_at}), and intensity refers to that peak: {why}",
        change_percent.abs()
    )
}

fn floor_reached(warning: &Warning) -> String {
    let Warning::FloorReached {
        metric,
        unit,
        value,
        of_baseline_percent,
        floor,
        limit,
        resource,
        intensity_percent,
    } = warning
    else {
        return String::new();
    };
    let beside = match (resource, intensity_percent) {
        (Some(resource), Some(percent)) => format!("beside {resource} at {percent:.0} %"),
        (Some(resource), None) => format!("beside the placebo of {resource}"),
        (None, _) => "without any source".to_string(),
    };
    format!(
        "the floor was reached {beside}: {metric} was {} {unit}, {of_baseline_percent:.0} % of its \
         baseline; --floor {floor} is {}; every source was parked and the measurement ended",
        digits(*value),
        digits(*limit),
    )
}

/// Four significant digits, or all before the point.
fn digits(value: f64) -> String {
    let before = value.abs().max(1e-12).log10().floor() as i32;
    format!("{value:.*}", (3 - before).clamp(0, 12) as usize)
}

fn target_phases(phases: &[Phase]) -> String {
    let lowest = phases.iter().map(|phase| phase.level);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    let parts = phases.iter().take(6).map(|phase| {
        format!(
            "{:.0}–{:.0} s at {:.0} %",
            phase.from_seconds,
            phase.to_seconds,
            100.0 * phase.level
        )
    });
    format!(
        "the target, or the machine below it, had {} phases: performance without interference \
         fell to {:.0} % of its best ({}{}); sensitivity was estimated per phase; resources whose \
         phases differ are marked",
        phases.len(),
        100.0 * lowest,
        parts.collect::<Vec<_>>().join(", "),
        if phases.len() > 6 { ", …" } else { "" }
    )
}

fn phases_differ(phases: &[PhasePerformance]) -> String {
    let parts = phases.iter().map(|phase| {
        format!(
            "{:.0} % kept while it ran at {:.0} % ({} pairs)",
            100.0 * phase.performance,
            100.0 * phase.level,
            phase.windows
        )
    });
    format!(
        "tolerated: sensitivity differs between phases of the target: {}; the score mixes them",
        parts.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn one_of_each() -> Vec<Warning> {
        let text = || "x".to_string();
        vec![
            Warning::SliceTolerance {
                tolerance_points: 5.0,
                period_seconds: 0.002,
                victim_percent: 70.0,
                expected_percent: 80.0,
            },
            Warning::PeakChanged {
                change_percent: -20.0,
                recorded_at: text(),
            },
            Warning::MachineFileIgnored { reason: text() },
            Warning::MachineFilePartIgnored {
                recorded_at: text(),
                sources: Vec::new(),
            },
            Warning::TargetNotStoppable { reason: text() },
            Warning::CausedNotMeasured,
            Warning::TargetAlternates {
                difference_percent: 9.0,
                factor: 4,
                lengthened_percent: 2.0,
                lengthened: true,
            },
            Warning::TurnsLost { turns: 3 },
            Warning::SlowMetric {
                pair_seconds: 3.0,
                affordable: 2.0,
                wanted: 8.0,
                fewest_pairs: 4,
                sufficient_budget_seconds: 120.0,
            },
            Warning::NoisyMetric {
                deviation_percent: 10.0,
                pairs: 8.0,
                wanted: 4.0,
                smallest_percent: 9.0,
                loss_percent: 5.0,
                sufficient_budget_seconds: None,
            },
            Warning::TargetPhases { phases: Vec::new() },
            Warning::PhasesDiffer { phases: Vec::new() },
            Warning::NotMonotone {
                direction: "tolerated",
                intensity: 50.0,
                kept_percent: 70.0,
                higher_intensity: 100.0,
                higher_kept_percent: 90.0,
            },
            Warning::ChangedSinceInterruption {
                change_percent: 4.0,
            },
            Warning::BaselineDrift {
                change_percent: -4.0,
            },
            Warning::BaselineWithoutInterval,
            Warning::PressureMissed {
                requested_percent: 100.0,
                reached_percent: 75.0,
            },
            Warning::ClockSlowed {
                slowed_percent: 9.0,
            },
            Warning::GeneratorWaits,
            Warning::PlaceboSlowed { kept_percent: 90.0 },
            Warning::SwitchOverhead {
                lost_percent: 7.0,
                overhead_percent: 6.0,
                reach_percent: 1.0,
            },
            Warning::UnseenNeighbour {
                held_percent: 31.0,
                slowed_percent: 24.0,
                told_apart: true,
            },
            Warning::LastCacheHeld {
                access_ns: 50.0,
                free_ns: 12.0,
            },
            Warning::LastCacheReplaced { kept_percent: 20.0 },
            Warning::CacheNotShared {
                shared_percent: 31.0,
                of_shared_time: true,
            },
            Warning::Counters { note: text() },
            Warning::ThreadsNotCounted {
                windows: 9,
                windows_with_new: 2,
                counted: text(),
            },
            Warning::OthersCounted {
                processes: text(),
                counted: text(),
            },
            Warning::ReadTotalAsValue {
                from: 1.0,
                to: 90.0,
            },
            Warning::TargetCpusChanged {
                before: text(),
                after: text(),
            },
            Warning::TargetMoved {
                cpus: text(),
                outside_percent: 30.0,
                remedy: text(),
            },
            Warning::ThreadCountChanged {
                before: 1,
                after: 4,
            },
            Warning::ThreadsShareCpus {
                threads: 4,
                cpus: 1,
            },
            Warning::MeasuredInParts {
                begun: text(),
                first_seconds: 20.0,
                resumed: text(),
            },
            Warning::NotResumed { reason: text() },
            Warning::FloorReached {
                metric: text(),
                unit: text(),
                value: 700.0,
                of_baseline_percent: 70.0,
                floor: text(),
                limit: 900.0,
                resource: Some(text()),
                intensity_percent: None,
            },
            Warning::IntensityLimited { max_percent: 50.0 },
            Warning::CutShort { reason: text() },
            Warning::Load(jostle_load::Warning::CapacityAtLeast { per_second: 9.0 }),
        ]
    }

    #[test]
    fn every_warning_has_a_code_of_its_own_and_survives_a_profile() {
        let all = one_of_each();
        let codes: BTreeSet<String> = all.iter().map(|one| one.facts().code).collect();
        assert_eq!(codes.len(), all.len(), "{codes:?}");
        for warning in all {
            let facts = warning.facts();
            let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(facts.code.chars().all(kebab) && !facts.code.is_empty());
            assert!(facts.message.len() > 1);
            let text = serde_json::to_string(&facts).unwrap();
            assert_eq!(serde_json::from_str::<WarningFacts>(&text).unwrap(), facts);
        }
        let missed = Warning::PressureMissed {
            requested_percent: 100.0,
            reached_percent: 75.0,
        };
        assert_eq!(missed.facts().code, "pressure-missed");
        assert_eq!(missed.facts().fields["reached_percent"], 75.0);
    }
}
