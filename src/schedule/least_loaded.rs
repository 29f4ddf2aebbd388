//! The baseline that does not look at interference.

use super::App;
use super::Cluster;
use super::Deciding;
use super::Decision;
use super::NoPlacement;
use super::NodeReason;
use super::Policy;
use super::compare::compare;
use super::decision::RUNNERS_UP;
use super::decision::platform_note;

/// Most free share of CPUs, then most free share of memory, then file order
/// (the baseline LL of Paragon's evaluation). D1 and D2 are told but not used.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded;

impl Policy for LeastLoaded {
    fn name(&self) -> &'static str {
        "least-loaded"
    }

    fn place(&self, app: &App, cluster: &Cluster) -> Result<Decision, NoPlacement> {
        let mut ranked = cluster.with_room(app)?;
        // The sort is stable: equals stay in file order.
        ranked.sort_by(|a, b| {
            b.free_cpu_fraction()
                .total_cmp(&a.free_cpu_fraction())
                .then(
                    b.free_memory_fraction()
                        .total_cmp(&a.free_memory_fraction()),
                )
        });
        let chosen = ranked[0];
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let deciding = match ranked.get(1) {
            None => super::headroom::only_room(chosen),
            Some(next) if chosen.free_cpu_fraction() > next.free_cpu_fraction() => Deciding {
                resource: Some("cpus".into()),
                why: format!(
                    "{} of its CPUs are free, {} on {}",
                    percent(chosen.free_cpu_fraction()),
                    percent(next.free_cpu_fraction()),
                    next.node().name
                ),
            },
            Some(next) if chosen.free_memory_fraction() > next.free_memory_fraction() => Deciding {
                resource: Some("memory".into()),
                why: format!(
                    "{} of its memory is free, {} on {}, with an equal share of CPUs",
                    percent(chosen.free_memory_fraction()),
                    percent(next.free_memory_fraction()),
                    next.node().name
                ),
            },
            Some(next) => Deciding {
                resource: None,
                why: format!(
                    "{} is as free; the first in the file is taken",
                    next.node().name
                ),
            },
        };
        Ok(Decision {
            app: app.name().into(),
            policy: self.name(),
            node: chosen.node().name.clone(),
            deciding,
            comparisons: compare(app, chosen),
            relaxed: Vec::new(),
            runners_up: ranked
                .iter()
                .skip(1)
                .take(RUNNERS_UP)
                .map(|state| NodeReason {
                    node: state.node().name.clone(),
                    why: format!(
                        "{} of its CPUs and {} of its memory free",
                        percent(state.free_cpu_fraction()),
                        percent(state.free_memory_fraction())
                    ),
                })
                .collect(),
            notes: platform_note(app, chosen).into_iter().collect(),
        })
    }
}
