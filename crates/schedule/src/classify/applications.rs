//! The table that profiles make: applications by what can be known of a
//! resource.

use super::error::ClassifyError;
use super::guess::Z95;
use super::table::Cell;
use super::table::Known;
use super::table::Table;
use jostle_profile::CurvePoint;
use jostle_profile::InferredFrom;
use jostle_profile::PlacementMode;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::UsedBy;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;

/// What a column says of a resource, 0–100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Highest intensity at which the application meets its QoS.
    Tolerated,
    /// Percent of performance lost at 100 % intensity.
    Loss,
    /// 100 − the intensity at which the source starts to suffer.
    Caused,
    /// Share of the peak that the application uses by itself; the resource is
    /// the name of the quantity.
    Use,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Tolerated, Kind::Loss, Kind::Caused, Kind::Use];
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Column {
    pub kind: Kind,
    pub resource: String,
    /// Scores of different placements are different columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementMode>,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Tolerated => "tolerated",
            Kind::Loss => "loss",
            Kind::Caused => "caused",
            Kind::Use => "use",
        };
        write!(f, "{kind} {}", self.resource)
    }
}

/// Scale of every column.
const LIMITS: [f64; 2] = [0.0, 100.0];
/// Least error of a score: that of 100 ± 0 says that no loss was seen, and not
/// that none is.
const LEAST_SD: f64 = 1.0;
/// A score at one end of an interval wider than this is known as a range only.
const RANGE_WIDER_THAN: f64 = 10.0;
/// An intensity that counts as 100.
const FULL: f64 = 99.0;
/// What a source must keep of its own for the pressure caused to count as 0.
const SOURCE_KEEPS: f64 = 0.95;

/// Profiles as rows of a table.
#[derive(Clone, Debug)]
pub struct Applications {
    names: Vec<String>,
    columns: Vec<Column>,
    table: Table,
}

impl Applications {
    /// One row per profile, a column for everything that any of them could have
    /// measured.
    ///
    /// # Errors
    /// Profiles of several machines unless `mix_machines`; no profile.
    pub fn new(profiles: &[&Profile], mix_machines: bool) -> Result<Self, ClassifyError> {
        if profiles.is_empty() {
            return Err(ClassifyError::NoProfile);
        }
        if !mix_machines {
            one_machine(profiles)?;
        }
        let columns: BTreeSet<Column> = profiles.iter().flat_map(|one| columns(one)).collect();
        let columns: Vec<Column> = columns.into_iter().collect();
        let mut table = Table::new(columns.len(), Some(LIMITS));
        for profile in profiles {
            table.push(cells(profile, &columns))?;
        }
        Ok(Applications {
            names: profiles
                .iter()
                .map(|profile| profile.workload.name.clone())
                .collect(),
            columns,
            table,
        })
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What a further profile knows of these columns.
    pub fn cells(&self, profile: &Profile) -> Vec<Cell> {
        cells(profile, &self.columns)
    }
}

fn one_machine(profiles: &[&Profile]) -> Result<(), ClassifyError> {
    let mut machines: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for profile in profiles {
        let machine = &profile.machine;
        let of = machines.entry(&machine.fingerprint);
        of.or_insert((&machine.model, 0)).1 += 1;
    }
    if machines.len() < 2 {
        return Ok(());
    }
    let list = machines
        .iter()
        .map(|(fingerprint, (model, count))| format!("{count} of {model} ({fingerprint})"));
    Err(ClassifyError::Machines(list.collect::<Vec<_>>().join(", ")))
}

/// Everything that `profile` has an entry for, whether known or not.
fn columns(profile: &Profile) -> Vec<Column> {
    let mut columns = Vec::new();
    for (id, entry) in &profile.resources {
        // What is nowhere shared has no placement, and nothing to infer.
        let Some(placement) = &entry.placement else {
            continue;
        };
        if id.parse::<Resource>().is_err() {
            continue;
        }
        columns.extend(
            [Kind::Tolerated, Kind::Loss, Kind::Caused].map(|kind| Column {
                kind,
                resource: id.clone(),
                placement: Some(placement.mode),
            }),
        );
    }
    columns.extend(used(profile).into_iter().map(|(column, _)| column));
    columns
}

fn cells(profile: &Profile, columns: &[Column]) -> Vec<Cell> {
    let used: BTreeMap<Column, Known> = used(profile).into_iter().collect();
    let mut cells = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let known = match column.kind {
            Kind::Use => used.get(column).copied(),
            kind => profile
                .resources
                .get(&column.resource)
                .filter(|entry| entry.placement.as_ref().map(|p| p.mode) == column.placement)
                .and_then(|entry| of_entry(kind, entry, profile.qos.threshold)),
        };
        cells.extend(known.map(|known| (at, known)));
    }
    cells
}

/// What the target was seen to use, as shares of the peaks.
fn used(profile: &Profile) -> Vec<(Column, Known)> {
    let quantities = profile.usage.iter().flat_map(|usage| &usage.quantities);
    quantities
        .filter_map(|(name, quantity)| {
            let quantity = quantity.value()?;
            let share = quantity.share.value()?;
            let column = Column {
                kind: Kind::Use,
                resource: name.clone(),
                placement: None,
            };
            let [low, high] = share.ci95;
            let known = Known::Value {
                value: share.percent.clamp(0.0, 100.0),
                sd: ((high - low) / (2.0 * Z95)).max(LEAST_SD),
            };
            (quantity.of == UsedBy::Target).then_some((column, known))
        })
        .collect()
}

/// What an entry says; a range where it has no number but shows limits.
fn of_entry(kind: Kind, entry: &ResourceEntry, qos: f64) -> Option<Known> {
    let key = match kind {
        Kind::Tolerated => "tolerated",
        Kind::Loss => "curve",
        Kind::Caused => "caused",
        Kind::Use => return None,
    };
    // What was inferred once is no evidence for what is inferred next.
    let inferred = |from: &InferredFrom| from.what.iter().any(|what| what == key);
    if entry.inferred.as_ref().is_some_and(inferred) {
        return None;
    }
    match kind {
        Kind::Tolerated => match (&entry.tolerated, entry.sensitive) {
            (Some(score), _) => of_score(score),
            (None, Some(false)) => Some(Known::Value {
                value: 100.0,
                sd: LEAST_SD,
            }),
            (None, _) => endured(&entry.curve, qos).and_then(|[low, high]| range(low, high)),
        },
        Kind::Caused => match &entry.caused {
            Some(score) => of_score(score),
            None => endured(&entry.probe_curve, SOURCE_KEEPS)
                .and_then(|[low, high]| range(100.0 - high, 100.0 - low)),
        },
        Kind::Loss => of_loss(&entry.curve),
        Kind::Use => None,
    }
}

fn of_score(score: &Score) -> Option<Known> {
    let [low, high] = score.ci95;
    let at_an_end = score.score <= low || score.score >= high;
    if high - low > RANGE_WIDER_THAN && at_an_end {
        return range(low, high);
    }
    Some(Known::Value {
        value: score.score,
        sd: ((high - low) / (2.0 * Z95)).max(LEAST_SD),
    })
}

/// `None` where it says nothing.
fn range(low: f64, high: f64) -> Option<Known> {
    let [least, most] = LIMITS;
    let (low, high) = (low.max(least), high.min(most));
    (low < high && (low > least || high < most)).then_some(Known::Range { low, high })
}

/// Where performance falls to `kept`: at least where it is certainly above, at
/// most where it is certainly below.
fn endured(curve: &[CurvePoint], kept: f64) -> Option<[f64; 2]> {
    let at = |point: &&CurvePoint| point.intensity;
    let below = curve.iter().filter(|point| point.ci95[1] < kept);
    let high = below.min_by(|a, b| at(a).total_cmp(&at(b)));
    let high = high.map_or(100.0, |point| point.intensity);
    let above = curve
        .iter()
        .filter(|point| point.ci95[0] >= kept && point.intensity < high);
    let low = above.max_by(|a, b| at(a).total_cmp(&at(b)));
    let low = low.map_or(0.0, |point| point.intensity);
    (low < high).then_some([low, high])
}

/// The loss at 100; at least that at the highest intensity where this is less.
fn of_loss(curve: &[CurvePoint]) -> Option<Known> {
    let last = curve
        .iter()
        .max_by(|a, b| a.intensity.total_cmp(&b.intensity))?;
    let [low, high] = last.ci95.map(|performance| 100.0 * (1.0 - performance));
    let (low, high) = (high, low);
    if last.intensity < FULL {
        return range(low, 100.0);
    }
    Some(Known::Value {
        // What is faster beside a source loses nothing.
        value: (100.0 * (1.0 - last.performance)).clamp(0.0, 100.0),
        sd: ((high - low) / (2.0 * Z95)).max(LEAST_SD),
    })
}
