//! Pressure between co-located jobs, and the rates that result.

use super::Presence;
use super::World;
use crate::truth::Truth;

/// Pressure is summed in whole steps, so that a job which leaves takes away
/// exactly what it brought.
const STEPS: f64 = 1024.0;

/// More than this no application causes; a thousand such make a sum that fits.
const MOST_POINTS: f64 = 1000.0;

/// Likewise residuals (ln performance).
const RESIDUAL_STEPS: f32 = 16_777_216.0;

pub(super) fn to_steps(points: f64) -> i32 {
    (points.clamp(0.0, MOST_POINTS) * STEPS).round() as i32
}

pub(super) fn points(steps: i32) -> f32 {
    (f64::from(steps) / STEPS) as f32
}

fn residual_steps(truth: &Truth, app: u32, other: u32) -> i64 {
    (truth.residual(app, other) * RESIDUAL_STEPS) as i64
}

impl World<'_> {
    /// Adds a job's pressure to its nodes, and its residuals with its neighbours.
    pub(super) fn attach(&mut self, job: u32) {
        let Some(run) = &mut self.runs[job as usize] else {
            return;
        };
        let app = run.job.phases[run.phase].truth;
        let (real, facts) = (&self.truth.apps[app as usize], &self.facts[app as usize]);
        let cpus: u32 = run.parts.iter().map(|part| part.part.cpus).sum();
        let asked = f64::from(run.job.demand.cpus);
        let sped = match cpus == run.job.demand.cpus {
            true => 1.0,
            false => real.scaling.by_cpus(f64::from(cpus)) / real.scaling.by_cpus(asked),
        };
        for (index, part) in run.parts.iter_mut().enumerate() {
            self.cpus_asked += u64::from(part.part.cpus);
            let site = &mut self.sites[part.part.node.index()];
            let share = f64::from(part.part.cpus) / f64::from(cpus.max(1));
            let speed = f64::from(real.speed[site.platform as usize]) / facts.best_speed;
            part.weight = share * speed * sped;
            let caused = match share == 1.0 {
                true => facts.caused,
                false => real.caused.map(|c| to_steps(f64::from(c) * share)),
            };
            let mut residual = 0;
            if self.truth.residual_sd != 0.0 {
                for other in site.present.iter_mut().filter(|other| other.job != job) {
                    other.residual += residual_steps(self.truth, other.app, app);
                    residual += residual_steps(self.truth, app, other.app);
                }
            }
            for (sum, own) in site.caused.iter_mut().zip(&caused) {
                *sum += own;
            }
            site.present.push(Presence {
                job,
                part: index as u32,
                app,
                caused,
                residual,
            });
        }
    }

    /// Undoes [`Self::attach`].
    pub(super) fn detach(&mut self, job: u32) {
        let Some(run) = &self.runs[job as usize] else {
            return;
        };
        for part in &run.parts {
            self.cpus_asked -= u64::from(part.part.cpus);
            let site = &mut self.sites[part.part.node.index()];
            let mine = site.present.iter().position(|other| other.job == job);
            let Some(mine) = mine else { continue };
            let gone = site.present.swap_remove(mine);
            for (sum, own) in site.caused.iter_mut().zip(&gone.caused) {
                *sum -= own;
            }
            if self.truth.residual_sd != 0.0 {
                for other in site.present.iter_mut().filter(|other| other.job != job) {
                    other.residual -= residual_steps(self.truth, other.app, gone.app);
                }
            }
        }
    }

    /// [`Self::settle`] for every node of a running job.
    pub(super) fn settle_run(&mut self, job: u32, now: f64) {
        let parts = self.run(job).parts.len();
        for part in 0..parts {
            let node = self.run(job).parts[part].part.node;
            self.settle(node.index(), now);
        }
    }

    /// Brings everybody on `node` up to `now` and predicts anew.
    pub(super) fn settle(&mut self, node: usize, now: f64) {
        let site = &self.sites[node];
        let scale = &self.truth.platforms[site.platform as usize].pressure_scale;
        let (mut due, mut elsewhere) = (f64::INFINITY, false);
        for presence in &site.present {
            let Some(run) = &mut self.runs[presence.job as usize] else {
                continue;
            };
            let mut ln = presence.residual as f32 / RESIDUAL_STEPS;
            for curve in &self.truth.apps[presence.app as usize].curves {
                let lane = curve.lane();
                if lane != site.unshared_lane {
                    let others = points(site.caused[lane] - presence.caused[lane]);
                    ln += curve.at(others * scale[lane]);
                }
            }
            run.advance(now);
            run.parts[presence.part as usize].kept = f64::from(ln.min(0.0)).exp();
            run.predict();
            if run.home() == node {
                due = due.min(run.due);
            } else {
                elsewhere = true;
            }
        }
        self.agenda.set(node, due);
        if elsewhere {
            self.reschedule_homes(node);
        }
    }

    /// Jobs of `node` whose home is another one are due at another time now.
    fn reschedule_homes(&mut self, node: usize) {
        for at in 0..self.sites[node].present.len() {
            let home = self.run(self.sites[node].present[at].job).home();
            if home != node {
                let first = self.first_at(home).map(|job| self.run(job).due);
                self.agenda.set(home, first.unwrap_or(f64::INFINITY));
            }
        }
    }
}
