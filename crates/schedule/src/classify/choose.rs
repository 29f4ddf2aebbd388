//! Which resources to measure of an application that nothing is known of.

use super::applications::Applications;
use super::applications::Kind;
use super::classifier::Classifier;
use super::error::ClassifyError;
use super::fill::FEWEST_APPLICATIONS;
use super::fill::FEWEST_KNOWING;
use super::model::Method;
use super::trials::Shown;
use jostle_profile::Profile;
use jostle_profile::resource::Resource;
use std::collections::BTreeMap;

/// The `count` resources that together leave least unknown of all others, most
/// telling first; fewer where the profiles know fewer. What an application uses
/// is read anyway and not counted.
///
/// # Errors
/// Too few profiles, or of several machines.
pub fn most_telling(
    training: &[&Profile],
    count: usize,
    seed: u64,
) -> Result<Vec<Resource>, ClassifyError> {
    if training.len() < FEWEST_APPLICATIONS {
        return Err(ClassifyError::TooFew {
            count: training.len(),
            needed: FEWEST_APPLICATIONS,
        });
    }
    let applications = Applications::new(training, false)?;
    let table = applications.table();
    let mut columns: BTreeMap<Resource, Vec<usize>> = BTreeMap::new();
    for (at, column) in applications.columns().iter().enumerate() {
        let known = column.kind != Kind::Use && table.known_in(at) >= FEWEST_KNOWING;
        if let (true, Ok(resource)) = (known, column.resource.parse()) {
            columns.entry(resource).or_default().push(at);
        }
    }
    let wanted: Vec<usize> = columns.values().flatten().copied().collect();
    let classifier = Classifier::train(table, Method::Mixture, &Shown::Count(3 * count), seed);
    let mut chosen: Vec<Resource> = Vec::new();
    let mut measured: Vec<usize> = Vec::new();
    while chosen.len() < count {
        let left: Vec<Resource> = columns
            .keys()
            .filter(|resource| !chosen.contains(resource))
            .copied()
            .collect();
        // Together with what is chosen already: values are not known yet.
        let candidates: Vec<_> = left
            .iter()
            .map(|resource| classifier.candidate(&[&measured[..], &columns[resource]].concat()))
            .collect();
        let Some(best) = classifier.next(&[], &candidates, &wanted) else {
            break;
        };
        measured.extend(&columns[&left[best]]);
        chosen.push(left[best]);
    }
    Ok(chosen)
}
