//! What the target does to the sources.

use super::Judgement;
use super::Kept;
use super::LevelPlayed;
use super::SequenceLog;
use crate::experiment::executor::TargetState;
use crate::experiment::log::PairRecord;
use crate::experiment::search::Played;
use crate::experiment::settings::Half;
use jostle_statistics::location;

impl SequenceLog {
    /// The sources beside the target against themselves alone, one part of a round after
    /// another; with `only_near` beside it while both shared a cache.
    pub(super) fn judge_probes(&self, judgement: &mut Judgement, only_near: bool) {
        for (arm, &(subject, of)) in self.arms.iter().enumerate() {
            let Some(intensity) = of.intensity() else {
                continue;
            };
            let mut played = Played::default();
            for round in self.by_part() {
                let counts = |block: &&Kept| {
                    let alone = block.target == TargetState::Stopped;
                    !only_near || alone || block.reading.shares_cache() == Some(true)
                };
                let own = || round.iter().filter(|block| block.arm == arm).filter(counts);
                let probes = |target| -> Vec<f64> {
                    let probes = own().filter(|block| block.target == target);
                    let probes = probes.filter_map(|block| block.reading.probe);
                    probes.filter(|probe| *probe > 0.0).map(f64::ln).collect()
                };
                let (alone, beside) = (probes(TargetState::Stopped), probes(TargetState::Running));
                let (Some(last), false) = (own().next_back(), alone.is_empty()) else {
                    continue;
                };
                if beside.is_empty() {
                    continue;
                }
                let reference = location(&alone);
                let log_ratio = location(&beside) - reference;
                let running = own().filter(|block| block.target == TargetState::Running);
                let pressure = running.filter_map(|block| block.reading.pressure).next();
                played.ratios.push(log_ratio);
                played.pressures.extend(pressure);
                judgement.pairs.push(PairRecord {
                    at: last.reading.at,
                    subject,
                    half: Half::Caused,
                    intensity,
                    log_ratio,
                    pressure,
                    reference: reference.exp(),
                    counted: Default::default(),
                });
            }
            if !played.ratios.is_empty() {
                judgement.levels.push(LevelPlayed {
                    half: Half::Caused,
                    subject,
                    intensity,
                    played,
                });
            }
        }
    }
}
