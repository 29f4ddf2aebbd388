//! What the applications of one place press with together, and what each of them
//! meets there.

use super::cpu::CpuNeed;
use super::cpu::SharedCpu;
use super::cpu::level;
use super::lanes::LANES;
use super::lanes::LaneSet;
use super::lanes::Lanes;
use super::responses::CACHE;
use super::responses::DiskUse;
use super::responses::Responses;
use jostle_profile::resource::Resource;

/// The lane of the CPU's time.
pub(super) const CPU: usize = Resource::CpuTime as usize;

/// What an application meets: everything that performance follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Pressure {
    /// Points, the sum of what everybody else presses with; may pass 100.
    pub points: Lanes<f32>,
    /// Variance of the same, squared points.
    pub variance: Lanes<f32>,
    /// ln that the interrupts of the others' disks leave of the CPU that serves
    /// them, and its variance.
    pub interrupts: (f32, f32),
    /// The chance that this is the CPU of who meets it.
    pub serving: f32,
    /// Seconds that each of its requests waits for longer ones of the others that
    /// the disk works for.
    pub disk_wait: f32,
    /// How much of the last-level cache the others hold, the sum of 0–1 each.
    pub cached: f32,
    /// CPUs that the others keep busy, where each has CPUs of its own.
    pub awake: f32,
    /// The shared CPU; `None` where CPUs are not shared, nobody else is there, or
    /// the needs are not known.
    pub cpu: Option<SharedCpu>,
}

impl Default for Pressure {
    fn default() -> Self {
        Pressure {
            points: [0.0; LANES],
            variance: [0.0; LANES],
            interrupts: (0.0, 0.0),
            serving: 0.0,
            disk_wait: 0.0,
            cached: 0.0,
            awake: 0.0,
            cpu: None,
        }
    }
}

/// The applications of one place, as a sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Company {
    all: Pressure,
    /// CPU needs of the applications that share a CPU.
    needs: Vec<CpuNeed>,
    disks: Vec<DiskUse>,
    level: f32,
    wanted: f32,
    wanted_variance: f32,
}

impl Company {
    /// Of `members`, each with the resources on which it meets the others.
    pub fn of<'a>(members: impl Iterator<Item = (&'a Responses, LaneSet)>) -> Self {
        let mut company = Company::default();
        for (responses, counted) in members {
            company.put(responses, counted);
        }
        company.settle();
        company
    }

    /// The same with one more.
    pub fn with(&self, responses: &Responses, counted: LaneSet) -> Self {
        let mut company = self.clone();
        company.put(responses, counted);
        company.settle();
        company
    }

    fn put(&mut self, responses: &Responses, counted: LaneSet) {
        for lane in responses.caused_known.and(counted).iter() {
            let sd = responses.caused_sd[lane];
            self.all.points[lane] += responses.caused[lane];
            self.all.variance[lane] += sd * sd;
        }
        self.disks.extend(responses.disk);
        if counted.contains(CACHE) {
            self.all.cached += responses.holds_cache();
        }
        if !counted.contains(CPU) {
            self.all.interrupts.0 += responses.interrupts.0;
            self.all.interrupts.1 += responses.interrupts.1;
            self.all.awake += responses.busy();
        } else if let Some(need) = responses.cpu {
            self.needs.push(need);
        }
    }

    fn settle(&mut self) {
        self.wanted = self.needs.iter().map(|need| need.demand).sum();
        self.wanted_variance = self.needs.iter().map(|need| need.demand_sd.powi(2)).sum();
        self.level = level(&self.needs);
    }

    /// What the member `responses` meets: all but itself.
    pub fn around(&self, responses: &Responses, counted: LaneSet) -> Pressure {
        let mut pressure = self.all.clone();
        pressure.disk_wait = self.disk_wait(responses);
        for lane in responses.caused_known.and(counted).iter() {
            let sd = responses.caused_sd[lane];
            let points = &mut pressure.points[lane];
            *points = (*points - responses.caused[lane]).max(0.0);
            let variance = &mut pressure.variance[lane];
            *variance = (*variance - sd * sd).max(0.0);
        }
        if counted.contains(CACHE) {
            pressure.cached = (pressure.cached - responses.holds_cache()).max(0.0);
        }
        if !counted.contains(CPU) {
            let (ln, variance) = pressure.interrupts;
            pressure.interrupts = (
                (ln - responses.interrupts.0).min(0.0),
                (variance - responses.interrupts.1).max(0.0),
            );
            pressure.serving = responses.serving_chance;
            pressure.awake = (pressure.awake - responses.busy()).max(0.0);
        }
        if let Some(need) = responses
            .cpu
            .filter(|_| counted.contains(CPU) && self.needs.len() > 1)
        {
            pressure.cpu = Some(SharedCpu {
                level: self.level,
                others: (self.wanted - need.demand).max(0.0),
                variance: (self.wanted_variance - need.demand_sd.powi(2)).max(0.0),
            });
        }
        pressure
    }

    /// Short requests pass each other in a disk's queues; behind a longer one that
    /// the disk works for they wait for what is left of it, and of a neighbour that
    /// asks again at once that is nearly all. One of the application's own takes as
    /// long as it takes and counts for nothing.
    fn disk_wait(&self, responses: &Responses) -> f32 {
        let Some(own) = responses.disk else {
            return 0.0;
        };
        let longer = |disk: &DiskUse| (disk.service() - own.service()).max(0.0);
        let waits = self.disks.iter().map(|disk| disk.busy * longer(disk));
        waits.sum()
    }

    /// What a newcomer would meet: everybody.
    pub fn before(&self, responses: &Responses, counted: LaneSet) -> Pressure {
        let mut pressure = self.all.clone();
        pressure.disk_wait = self.disk_wait(responses);
        if !counted.contains(CPU) {
            pressure.serving = responses.serving_chance;
        }
        if let Some(need) = responses.cpu.filter(|_| counted.contains(CPU))
            && !self.needs.is_empty()
        {
            let mut needs = self.needs.clone();
            needs.push(need);
            pressure.cpu = Some(SharedCpu {
                level: level(&needs),
                others: self.wanted,
                variance: self.wanted_variance,
            });
        }
        pressure
    }

    /// Points that everybody presses with together.
    pub fn points(&self) -> &Lanes<f32> {
        &self.all.points
    }
}
