//! What `jostle machine --calibrate` learned about a machine: pure data, and
//! how a reader finds in it what fits its own case.
//!
//! Sizes and times have their unit in the key, pressure the unit of its
//! resource, percentages run 0–100. Everything is a value or the reason why
//! there is none.

use jostle_profile::Placement;
use jostle_profile::Unknown;
use jostle_profile::reading::Reading;
use jostle_profile::resource::Resource;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

/// The format this version writes.
pub const FORMAT: &str = "jostle-machine-file/1";

/// One machine, calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// `jostle-machine-file/1`.
    pub format: String,
    /// Of the machine this holds for; stands in the file's name too.
    pub fingerprint: String,
    pub model: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub tool_version: String,
    pub duration_seconds: f64,
    pub budget_seconds: f64,
    /// Caches from the first level on.
    pub sizes: Vec<Size>,
    pub slices: Reading<SlicePeriod>,
    /// One entry per resource id.
    pub resources: BTreeMap<String, Source>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Part of a cache that tells, by the time of a walk over it, whether others use it: what
/// a program of that size needs, with room for what else runs.
pub const WALK_SHARE: f64 = 0.6;

/// What the machine tells of the size of one structure, and what was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// `L1d`, `L2`, `L3`, `TLB`.
    pub name: String,
    /// `bytes` or `entries`.
    pub unit: String,
    #[serde(rename = "told")]
    pub reported: Reading<u64>,
    /// Where the access time rises.
    pub measured: Reading<Knee>,
    /// When that was measured (RFC 3339, UTC), if it is of an earlier calibration that
    /// found a larger size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
    /// Least nanoseconds per access of a walk over [`WALK_SHARE`] of the reported size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_ns: Option<f64>,
    /// In words, when the two are far apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl Size {
    pub fn new(name: &str, unit: &str, reported: Reading<u64>, measured: Reading<Knee>) -> Self {
        Size {
            name: name.to_string(),
            unit: unit.to_string(),
            reported,
            measured,
            measured_at: None,
            walk_ns: None,
            difference: None,
        }
    }
}

/// Puts what `earlier` measured in the place of what is in `sizes` where it is better: a
/// larger size of the last-level cache and shorter walks. Unseen neighbours can make a cache
/// only smaller and slower than it is.
pub fn keep_best(sizes: &mut [Size], earlier: &Calibration) {
    for size in sizes.iter_mut() {
        let same = |other: &&Size| other.name == size.name && other.reported == size.reported;
        let known = earlier.sizes.iter().find(same);
        if let Some(known) = known.and_then(|known| known.walk_ns) {
            size.walk_ns = size.walk_ns.map(|ns| ns.min(known));
        }
    }
    let last = |sizes: &[Size]| {
        let bytes = |size: &&Size| size.unit == "bytes";
        let caches = sizes.iter().filter(bytes);
        let largest = caches.max_by_key(|size| size.reported.value().copied());
        largest.map(|size| size.name.clone())
    };
    let Some(size) = last(sizes).and_then(|name| sizes.iter_mut().find(|size| size.name == name))
    else {
        return;
    };
    let same = |other: &&Size| other.name == size.name && other.reported == size.reported;
    let known = earlier.sizes.iter().find(same);
    let knee = |size: &Size| size.measured.value().map_or(0, |knee| knee.size);
    if let Some(known) = known.filter(|known| knee(known) > knee(size)) {
        size.measured = known.measured.clone();
        size.difference = known.difference.clone();
        let at = known.measured_at.as_ref().unwrap_or(&earlier.recorded_at);
        size.measured_at = Some(at.clone());
    }
}

/// A rise of the access time from one plateau to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Size at which the time has risen half way, on a logarithmic scale.
    pub size: u64,
    /// Nanoseconds per access on the plateau before and on the one after.
    pub before_ns: f64,
    pub after_ns: f64,
}

/// The turns that same-CPU workers take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlicePeriod {
    pub period_seconds: f64,
    /// Share of the CPU a worker took.
    pub share_percent: f64,
    /// What a spinning thread kept beside the placebo, of its speed alone.
    pub victim_percent: f64,
    /// False when no period kept within the tolerance and the best was taken.
    pub within_tolerance: bool,
}

/// One source of interference on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Unit of every pressure in this entry.
    pub pressure_unit: String,
    /// What the source was told beside the machine's state of that moment:
    /// sizes, kind of access, device. Peaks hold for the same settings only.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub settings: Value,
    /// Alone, where it would run beside a target.
    pub alone: Reading<Alone>,
    /// All CPUs that share the resource pressing at once.
    pub together: Reading<Peak>,
    /// From a switch until source and neighbour have found their new state; where the neighbour
    /// is a victim, from a switch on.
    pub settle_seconds: Reading<f64>,
    /// Beside a second copy of itself.
    pub reporter: Reading<Reporter>,
    /// What a reader should know before believing this entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The source with nobody beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    pub peak: Peak,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Pressure at 100 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    pub placement: Placement,
    pub workers: usize,
    /// Of all workers.
    pub pressure: f64,
    /// Of all workers, where intensity is a rate of operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
}

/// How much the source loses beside a second copy of itself that runs where a
/// target would: what a target costs it can be read as an intensity of that
/// copy (the reporter of Bubble-Up, Mars et al. 2011).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reporter {
    pub placement: Placement,
    /// CPUs of the second copy.
    pub second_cpus: Vec<usize>,
    /// By intensity of the second copy, ascending.
    pub curve: Vec<ReporterPoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReporterPoint {
    /// Of the second copy, percent.
    pub intensity: f64,
    /// Of the source at 100 %, as a fraction of the same without the copy; the
    /// median of `windows`.
    pub performance: f64,
    pub windows: u64,
}

/// Size of the last-level cache as it was measured, bytes: what 100 % of a source
/// of that cache covers. `None` when its access time showed no knee.
///
/// The other caches have the size that the machine tells: a guest has them whole,
/// and their knee also falls with pages that do not fit together (see
/// `kernels/src/fit.rs`).
pub fn llc_bytes(sizes: &[Size]) -> Option<u64> {
    let caches = || sizes.iter().filter(|size| size.unit == "bytes");
    let last = caches().rfind(|size| size.measured.value().is_some())?;
    let told = caches().filter_map(|size| size.reported.value()).max()?;
    let measured = last.measured.value()?.size;
    (last.reported.value() == Some(told)).then_some(measured.min(*told))
}

/// Keys that `one` and `other` do not have alike.
fn differing(one: &Value, other: &Value) -> Vec<String> {
    let keys = [one, other].into_iter().filter_map(Value::as_object);
    let keys: BTreeSet<&String> = keys.flat_map(|map| map.keys()).collect();
    let keys = keys
        .into_iter()
        .filter(|key| one.get(key) != other.get(key));
    keys.cloned().collect()
}

impl Calibration {
    /// See [`llc_bytes`].
    pub fn llc_bytes(&self) -> Option<u64> {
        llc_bytes(&self.sizes)
    }

    /// Operations per second that `workers` workers of `resource` reached at
    /// 100 % under the same settings; `None` when that was not measured.
    pub fn peak(&self, resource: &str, workers: usize, settings: &Value) -> Option<f64> {
        let source = self.resources.get(resource)?;
        if source.settings != *settings {
            return None;
        }
        let alone = source.alone.value().map(|alone| &alone.peak);
        [alone, source.together.value()]
            .into_iter()
            .flatten()
            .find(|peak| peak.workers == workers)
            .and_then(|peak| peak.operations_per_second)
    }

    /// Removes the sources that were measured under other settings than `wanted`
    /// has for them, by resource id, and tells which settings differ. A source
    /// without numbers, or one that is not wanted, stays.
    pub fn remove_stale<'a>(
        &mut self,
        wanted: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Vec<StaleSource> {
        let mut stale = Vec::new();
        for (resource, settings) in wanted {
            let Some(source) = self.resources.get(resource) else {
                continue;
            };
            let measured = source.alone.value().is_some() || source.together.value().is_some();
            if measured && source.settings != settings {
                stale.push(StaleSource {
                    resource: resource.to_string(),
                    settings: differing(&source.settings, &settings),
                });
                self.resources.remove(resource);
            }
        }
        stale
    }

    /// Settle time of `resource`, seconds, where it was measured.
    pub fn settle_seconds(&self, resource: &str) -> Option<f64> {
        let source = self.resources.get(resource)?;
        source.settle_seconds.value().copied()
    }

    /// Reporter curves by resource id, where they were measured.
    pub fn reporters(&self) -> BTreeMap<String, Reporter> {
        let curves = self.resources.iter().filter_map(|(id, source)| {
            let reporter = source.reporter.value()?;
            Some((id.clone(), reporter.clone()))
        });
        curves.collect()
    }

    /// The period for workers that take `share` (0–1) of a CPU, where it was
    /// measured for that share.
    pub fn slices(&self, share: f64) -> Option<&SlicePeriod> {
        let slices = self.slices.value()?;
        ((slices.share_percent / 100.0 - share).abs() < 1e-6).then_some(slices)
    }

    /// Numbers must be finite and possible: nothing else may ever steer a worker.
    ///
    /// # Errors
    /// The first key that is not, and what it holds.
    pub fn check(&self) -> Result<(), String> {
        positive("key `duration_seconds", self.duration_seconds)?;
        positive("key `budget_seconds", self.budget_seconds)?;
        if let Reading::Value(slices) = &self.slices {
            let (period, share) = (slices.period_seconds, slices.share_percent);
            between("key `slices.period_seconds", period, 50e-6, 1.0)?;
            between("key `slices.share_percent", share, 0.1, 100.0)?;
            positive("key `slices.victim_percent", slices.victim_percent)?;
        }
        for (id, source) in &self.resources {
            source
                .check()
                .map_err(|problem| format!("key `resources.{id}.{problem}"))?;
        }
        Ok(())
    }
}

impl Source {
    /// An entry that says only why there is nothing.
    pub fn without_numbers(resource: Resource, reason: &str) -> Self {
        Source {
            pressure_unit: resource.row().pressure_unit.to_string(),
            settings: Value::Null,
            alone: Reading::unavailable(reason),
            together: Reading::unavailable(reason),
            settle_seconds: Reading::unavailable(reason),
            reporter: Reading::unavailable(reason),
            notes: Vec::new(),
            unknown: Unknown::new(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let peaks = [
            ("alone.peak", self.alone.value().map(|alone| &alone.peak)),
            ("together", self.together.value()),
        ];
        for (key, peak) in peaks {
            if let Some(peak) = peak {
                positive(&format!("{key}.pressure"), peak.pressure)?;
                if let Some(rate) = peak.operations_per_second {
                    positive(&format!("{key}.operations_per_second"), rate)?;
                }
            }
        }
        if let Reading::Value(seconds) = self.settle_seconds {
            between("settle_seconds", seconds, 0.0, 60.0)?;
        }
        if let Reading::Value(reporter) = &self.reporter {
            for point in &reporter.curve {
                between("reporter.curve.intensity", point.intensity, 0.0, 100.0)?;
                between("reporter.curve.performance", point.performance, 0.0, 1e6)?;
            }
        }
        Ok(())
    }
}

fn positive(key: &str, value: f64) -> Result<(), String> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(format!("{key}`: is {value}; it must be above 0")),
    }
}

fn between(key: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!("{key}`: is {value}; it lies from {low} to {high}")),
    }
}
/// A source whose numbers hold for other settings than those wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StaleSource {
    pub resource: String,
    /// Keys of the settings that differ.
    pub settings: Vec<String>,
}

impl fmt::Display for StaleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.settings.is_empty() {
            true => f.write_str(&self.resource),
            false => write!(f, "{} ({})", self.resource, self.settings.join(", ")),
        }
    }
}
