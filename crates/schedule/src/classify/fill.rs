//! Entries of a profile that were not measured, inferred.

use super::applications::Applications;
use super::applications::Column;
use super::applications::Kind;
use super::classifier::Classifier;
use super::error::ClassifyError;
use super::guess::Guess;
use super::model::Method;
use super::table::Cell;
use super::table::Known;
use super::trials::Shown;
use jostle_profile::CurvePoint;
use jostle_profile::InferredFrom;
use jostle_profile::Placement;
use jostle_profile::Profile;
use jostle_profile::ResourceEntry;
use jostle_profile::Score;
use jostle_profile::Status;
use jostle_profile::resource::Resource;
use serde::Serialize;
use std::collections::BTreeSet;

/// Fewer applications are not a training set.
pub const FEWEST_APPLICATIONS: usize = 8;
/// What fewer applications know of is not inferred.
pub const FEWEST_KNOWING: usize = 5;
/// Fewer measured numbers do not say what an application is like.
pub const FEWEST_MEASURED: usize = 2;

/// What was inferred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inferred {
    #[serde(flatten)]
    pub column: Column,
    pub value: f64,
    pub ci95: [f64; 2],
    /// Applications of the training set that know it.
    pub applications: usize,
}

/// What a profile gained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    pub method: Method,
    /// Applications in the training set.
    pub applications: usize,
    /// Measured numbers that the rest was inferred from.
    pub measured: usize,
    pub inferred: Vec<Inferred>,
    /// Columns that stay unknown, and why.
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    #[serde(flatten)]
    pub column: Column,
    pub why: String,
}

/// Learns from the profiles `training` and fills what `profile` does not know of
/// the resources in `wanted` (of all when empty).
///
/// What is known stays as it is. An entry that gains a number has the status
/// `inferred`, and says in its reason how and from how many applications.
///
/// # Errors
/// Too few applications, too little measured, profiles of several machines
/// unless `mix_machines`, an application unlike every other.
pub fn fill(
    profile: &mut Profile,
    training: &[&Profile],
    method: Method,
    wanted: &[Resource],
    mix_machines: bool,
    seed: u64,
) -> Result<Filled, ClassifyError> {
    let count = training.len();
    if count < FEWEST_APPLICATIONS {
        return Err(ClassifyError::TooFew {
            count,
            needed: FEWEST_APPLICATIONS,
        });
    }
    if !mix_machines {
        // The profile counts, too.
        let all: Vec<&Profile> = training.iter().copied().chain([&*profile]).collect();
        Applications::new(&all, false)?;
    }
    let applications = Applications::new(training, true)?;
    let known = applications.cells(profile);
    let values = |cell: &&Cell| matches!(cell.1, Known::Value { .. });
    let measured = known.iter().filter(values).count();
    if measured < FEWEST_MEASURED {
        return Err(ClassifyError::TooLittle {
            measured,
            needed: FEWEST_MEASURED,
        });
    }
    let columns: Vec<usize> = known.iter().map(|(column, _)| *column).collect();
    let table = applications.table();
    let classifier = Classifier::train(table, method, &Shown::Columns(columns), seed);
    if classifier.is_unlike_any(&known) {
        return Err(ClassifyError::UnlikeAny(count));
    }
    let guesses = classifier.complete(&known)?;
    let mut filled = Filled {
        method,
        applications: count,
        measured,
        inferred: Vec::new(),
        left_out: Vec::new(),
    };
    for (at, column) in applications.columns().iter().enumerate() {
        let resource = column.resource.parse::<Resource>();
        let asked = |resource: &Resource| wanted.is_empty() || wanted.contains(resource);
        if column.kind != Kind::Use && !resource.as_ref().is_ok_and(asked) {
            continue;
        }
        let known = known.iter().find(|(column, _)| *column == at);
        let within = match known {
            Some((_, Known::Value { .. })) => continue,
            Some((_, Known::Range { low, high })) => Some([*low, *high]),
            None => None,
        };
        let knowing = table.known_in(at);
        let refused = match (knowing, placed(profile, column)) {
            (..FEWEST_KNOWING, _) => Some(format!(
                "known of {knowing} applications; {FEWEST_KNOWING} are needed"
            )),
            (_, Err(why)) => Some(why),
            (_, Ok(())) => {
                let fixed = known.is_some() || has_placement(profile, column);
                let better = |other: usize| {
                    let here = &applications.columns()[other];
                    other != at
                        && (here.kind, &here.resource) == (column.kind, &column.resource)
                        && (table.known_in(other), at) > (knowing, other)
                };
                let elsewhere = !fixed && (0..table.columns()).any(better);
                elsewhere.then(|| "better known in another placement".into())
            }
        };
        if let Some(why) = refused {
            filled.left_out.push(LeftOut {
                column: column.clone(),
                why,
            });
            continue;
        }
        let Guess { value, ci95 } = guesses[at];
        // What was measured holds, as far as it goes.
        let hold = |value: f64| within.map_or(value, |[low, high]| value.clamp(low, high));
        filled.inferred.push(Inferred {
            column: column.clone(),
            value: hold(value),
            ci95: ci95.map(hold),
            applications: knowing,
        });
    }
    write(profile, &filled);
    Ok(filled)
}

/// Whether the entry may hold what the column says.
fn placed(profile: &Profile, column: &Column) -> Result<(), String> {
    if column.kind == Kind::Use {
        return Ok(());
    }
    match profile.resources.get(&column.resource) {
        None => Ok(()),
        Some(entry) if entry.status == Status::NotShared => {
            Err("not shared where this application was measured".into())
        }
        Some(entry) => match &entry.placement {
            Some(placement) if Some(placement.mode) != column.placement => {
                Err("measured in another placement".into())
            }
            _ => Ok(()),
        },
    }
}

fn has_placement(profile: &Profile, column: &Column) -> bool {
    let entry = profile.resources.get(&column.resource);
    entry.is_some_and(|entry| entry.placement.is_some())
}

fn write(profile: &mut Profile, filled: &Filled) {
    let mut touched = BTreeSet::new();
    for one in &filled.inferred {
        let column = &one.column;
        if column.kind == Kind::Use {
            continue;
        }
        let entry = profile.resources.entry(column.resource.clone());
        let entry = entry.or_insert_with(|| ResourceEntry {
            status: Status::Inferred,
            ..ResourceEntry::default()
        });
        if entry.placement.is_none() {
            entry.placement = column.placement.map(|mode| Placement {
                mode,
                cpus: Vec::new(),
            });
        }
        let score = Score {
            score: one.value,
            ci95: one.ci95,
        };
        let what = match column.kind {
            Kind::Tolerated => {
                entry.tolerated = Some(score);
                "tolerated"
            }
            Kind::Caused => {
                entry.caused = Some(score);
                "caused"
            }
            Kind::Loss | Kind::Use => {
                let [low, high] = one.ci95.map(|loss| 1.0 - loss / 100.0);
                entry.curve.push(CurvePoint {
                    intensity: 100.0,
                    requested: None,
                    performance: 1.0 - one.value / 100.0,
                    ci95: [high, low],
                    pressure: None,
                    windows: 0,
                });
                "curve"
            }
        };
        let from = entry.inferred.get_or_insert_with(|| InferredFrom {
            what: Vec::new(),
            method: filled.method.id().into(),
            applications: filled.applications as u64,
            measured: filled.measured as u64,
        });
        from.what.push(what.into());
        touched.insert(column.resource.clone());
    }
    for id in touched {
        let Some(entry) = profile.resources.get_mut(&id) else {
            continue;
        };
        let Some(from) = &entry.inferred else {
            continue;
        };
        let before = entry.reason.take();
        let mut reason = format!(
            "{} inferred by {} from {} other applications and {} measured numbers of this one",
            from.what.join(", "),
            from.method,
            from.applications,
            from.measured
        );
        if let Some(before) = before {
            reason += &format!("; {before}");
        }
        entry.reason = Some(reason);
        entry.status = Status::Inferred;
    }
}
