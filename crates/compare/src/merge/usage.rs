//! What a program used, over several runs.

use super::curve::estimate;
use jostle_profile::Estimate;
use jostle_profile::Profile;
use jostle_profile::Usage;
use jostle_profile::UsedQuantity;
use jostle_profile::UsedShare;
use jostle_profile::reading::Reading;

/// Quantities that every run read, pooled; the others as the first run says.
pub fn merge(runs: &[&Profile]) -> Option<Usage> {
    let usages: Vec<&Usage> = runs.iter().filter_map(|run| run.usage.as_ref()).collect();
    let mut merged = (*usages.first()?).clone();
    merged.seconds = usages.iter().map(|it| it.seconds).sum();
    merged.parts = usages.iter().map(|it| it.parts).sum();
    for (name, reading) in &mut merged.quantities {
        let all = usages
            .iter()
            .filter_map(|it| it.quantities.get(name)?.value());
        let all: Vec<&UsedQuantity> = all.collect();
        if all.len() < usages.len() {
            continue;
        }
        if let Reading::Value(quantity) = reading {
            pool(quantity, &all);
        }
    }
    Some(merged)
}

fn pool(quantity: &mut UsedQuantity, all: &[&UsedQuantity]) {
    let of = |value: f64, ci95: [f64; 2]| Estimate { value, ci95 };
    let values: Vec<Estimate> = all.iter().map(|it| of(it.value, it.ci95)).collect();
    if let Some(pooled) = estimate(&values, 0.0) {
        quantity.value = pooled.value.max(0.0);
        quantity.ci95 = pooled.ci95.map(|end| end.max(0.0));
    }
    let shares: Vec<&UsedShare> = all.iter().filter_map(|it| it.share.value()).collect();
    let values: Vec<Estimate> = shares.iter().map(|it| of(it.percent, it.ci95)).collect();
    if let (Reading::Value(share), Some(pooled)) = (&mut quantity.share, estimate(&values, 0.0))
        && shares.len() == all.len()
    {
        share.percent = pooled.value.max(0.0);
        share.ci95 = pooled.ci95.map(|end| end.max(0.0));
        share.against_probe = None;
    }
}
