//! Counters that explain a change.

use crate::change::CounterChange;
use crate::change::LEVEL;
use jostle_profile::CounterPair;
use jostle_profile::ResourceEntry;
use jostle_statistics::ByNumber;
use jostle_statistics::Difference;
use jostle_statistics::Known;
use jostle_statistics::holm;

/// Told of one resource.
const MOST: usize = 3;
/// Standard deviation of the log of a reaction from one run to the next.
const SPREAD: f64 = 0.03;

/// The counters that react otherwise to the source than before, the largest
/// change first.
pub fn explaining(old: &ResourceEntry, new: &ResourceEntry) -> Vec<CounterChange> {
    let mut found = Vec::new();
    let mut p = Vec::new();
    for (name, before) in &old.counters {
        let pair = (
            before.value(),
            new.counters.get(name).and_then(|it| it.value()),
        );
        let (Some(before), Some(after)) = pair else {
            continue;
        };
        if let (Some(old), Some(new)) = (log_ratio(before), log_ratio(after)) {
            p.push(Difference::between(old, new).p());
            found.push((name, old.value.exp(), new.value.exp()));
        }
    }
    let mut found: Vec<CounterChange> = found
        .into_iter()
        .zip(holm(&p))
        .filter(|(_, p)| *p < LEVEL)
        .map(
            |((name, old_ratio, new_ratio), p_corrected)| CounterChange {
                name: name.clone(),
                old_ratio,
                new_ratio,
                p_corrected,
            },
        )
        .collect();
    let size = |it: &CounterChange| (it.new_ratio / it.old_ratio).ln().abs();
    found.sort_by_number(|it| -size(it));
    found.truncate(MOST);
    found
}

fn log_ratio(pair: &CounterPair) -> Option<Known> {
    let ratio = pair.ratio.filter(|it| it.value > 0.0 && it.ci95[0] > 0.0)?;
    Some(Known {
        value: ratio.value.ln(),
        ci95: ratio.ci95.map(f64::ln),
        freedom: (pair.pairs as f64 - 1.0).max(3.0),
        spread: SPREAD,
    })
}
