//! Phase changes: detection and migration.

use super::Engine;
use super::Event;
use super::State;
use super::nodes_of;
use crate::error::BadPlacement;
use crate::error::SimulationError;
use crate::random::standard_normal;
use jostle_schedule::Part;
use rand::RngExt;

impl Engine<'_> {
    pub(super) fn phase_began(&mut self, job: u32) {
        self.without_progress = 0;
        let detection = &self.settings.phases;
        let noticed = self.phase_draws.random::<f64>() < detection.chance;
        if let (true, Some(phase)) = (noticed, self.world.phase(job)) {
            let detected = Event::Detected(job, self.jobs[job as usize].starts, phase);
            let at = self.now + detection.delay_seconds;
            self.events.note(at, detected);
        }
    }

    /// The new profile of `job` is there, unless it has ended, begun anew, or
    /// is known to have changed again.
    pub(super) fn detected(
        &mut self,
        job: u32,
        start: u32,
        phase: usize,
    ) -> Result<(), SimulationError> {
        let progress = &mut self.jobs[job as usize];
        let same = progress.state == State::Running && progress.starts == start;
        if !same || progress.known_phase >= phase {
            return Ok(());
        }
        progress.known_phase = phase;
        let owner = progress.agent as usize;
        let estimate = &self.workload.jobs[job as usize].phases[phase].estimate;
        self.world.set_estimate(job, estimate);
        let parts: Vec<Part> = self.world.parts(job).collect();
        let agent = &mut self.agents[owner];
        agent.update_view(&nodes_of(&parts), self.world.cluster(), self.now);
        agent.cluster_changed(self.now);
        if self.settings.phases.migrate {
            self.reconsider(owner, job, &parts)?;
        }
        Ok(())
    }

    /// Asks the policy whether `job` is to move, and moves it.
    fn reconsider(
        &mut self,
        owner: usize,
        job: u32,
        before: &[Part],
    ) -> Result<(), SimulationError> {
        let residents: Vec<_> = self.world.residents(job).collect();
        let [resident] = residents[..] else {
            return Ok(());
        };
        let work = self.workload.jobs[job as usize].work_seconds;
        let left = work - self.world.work_done(job, self.now).unwrap_or(work);
        let agent = &mut self.agents[owner];
        let seen = agent.copy.as_ref().unwrap_or(self.world.cluster());
        let policy = &mut agent.policy;
        let choice = policy.reconsider(resident, seen, left.max(0.0), &self.costs);
        let Some(choice) = choice.filter(|choice| choice.parts != before) else {
            return Ok(());
        };
        let policy = policy.name();
        let bad = |why: BadPlacement| SimulationError::BadChoice { policy, job, why };
        if choice.parts.is_empty() {
            return Err(bad(BadPlacement::NoPart));
        }
        let detection = &self.settings.phases;
        let spread = detection.migration_sigma * standard_normal(&mut self.phase_draws);
        let stop = detection.migration_median_seconds * spread.exp();
        let moved = self.world.migrate(job, &choice.parts, stop, self.now);
        if let Err(why) = moved {
            if self.agents.len() == 1 {
                return Err(bad(why.into()));
            }
            self.outcome.conflicts += 1;
            return Ok(());
        }
        self.costs.seconds.push(stop);
        self.outcome.migrations += 1;
        self.jobs[job as usize].migrations += 1;
        self.has_moved(owner, job, before, &choice.parts);
        Ok(())
    }

    fn has_moved(&mut self, owner: usize, job: u32, before: &[Part], after: &[Part]) {
        let (before, after) = (nodes_of(before), nodes_of(after));
        let agent = &mut self.agents[owner];
        for nodes in [&before, &after] {
            agent.update_view(nodes, self.world.cluster(), self.now);
        }
        agent.ended(job, &before, self.now, self.world.cluster());
        agent.started(job, &after, self.now, self.world.cluster());
        for node in before {
            self.start_queued(node);
        }
    }
}
