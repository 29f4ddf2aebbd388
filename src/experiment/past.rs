//! What was read, kept so that an interrupted measurement can go on.

use super::executor::Subject;
use super::run::PairRecord;
use super::run::Run;
use jostle_profile::PairReading;
use jostle_profile::Readings;
use std::time::Duration;

impl Run<'_, '_> {
    /// Takes over the pairs of an earlier run.
    pub(super) fn recall(&mut self) {
        for pair in &self.past.pairs {
            let half = self.halves.iter_mut().find(|run| {
                self.subjects[run.subject].resource == pair.resource
                    && run.half.as_str() == pair.half
            });
            if let Some(run) = half
                && pair.log_ratio.is_finite()
            {
                run.search
                    .record(pair.intensity, pair.log_ratio, pair.pressure);
                run.tried += 1;
            }
        }
        for run in &mut self.halves {
            if run.tried > 0 {
                run.search.judge(false);
                run.ended = run.search.settled();
            }
        }
    }

    /// Everything read so far, earlier runs included.
    pub(super) fn readings(&self) -> Readings {
        let idle = &self.idle[..self.first_idle];
        readings(self.past, &self.log, idle, self.subjects, self.elapsed())
    }
}

/// What `past` held and what was read since.
pub(super) fn readings(
    past: &Readings,
    log: &[PairRecord],
    undisturbed: &[f64],
    subjects: &[Subject],
    elapsed: Duration,
) -> Readings {
    let mut all = past.clone();
    all.undisturbed.extend(undisturbed);
    all.pairs.extend(log.iter().map(|pair| PairReading {
        resource: subjects[pair.subject].resource.to_string(),
        half: pair.half.as_str().to_string(),
        intensity: pair.intensity,
        log_ratio: pair.log_ratio,
        pressure: pair.pressure.filter(|pressure| pressure.is_finite()),
        reference: pair.reference,
        at_seconds: past.elapsed_seconds + pair.at.as_secs_f64(),
    }));
    all.elapsed_seconds += elapsed.as_secs_f64();
    all
}
