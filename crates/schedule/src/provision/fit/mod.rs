//! How many copies of a mix fit on a machine, and what one copy more would violate.
//!
//! A profile of another machine is scaled: what an application takes of a resource is
//! the same amount, and so another share of another peak. How its own performance
//! falls with that share is taken over from where it was recorded. Intervals then
//! reach over both, the scaled and the unscaled pressure, as nobody measured which
//! of them holds.

mod crowd;
mod mix;
mod supply;

pub use mix::MixEntry;
pub use mix::parse as parse_mix;
pub use supply::Candidate;
pub use supply::Supply;

use crate::predict::LANES;
use crate::predict::Lanes;
use crate::predict::Responses;
use crate::predict::core_private;
use crate::predict::resource_id;
use crowd::Crowd;
use crowd::Kept;
use jostle_profile::provision::Basis;
use jostle_profile::provision::Copies;
use jostle_profile::provision::Limit;
use jostle_profile::provision::MachineFit;
use jostle_profile::provision::MemberPerformance;
use jostle_profile::provision::Saturation;
use jostle_profile::provision::Step;
use jostle_profile::resource::Resource;
use jostle_statistics::ByNumber;

/// Instances beyond which nothing is searched: more than any machine is given.
const MOST_INSTANCES: u32 = 4096;
/// The same for each CPU where CPUs are shared.
const MOST_PER_CPU: u32 = 64;
/// Percent of a resource that a mix must take for it to be named.
const LEAST_NAMED: f64 = 0.5;

const CPU: usize = Resource::CpuTime as usize;
const MEMORY: usize = Resource::MemoryCapacity as usize;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub shares_cpus: bool,
    /// How much more of a resource one step is; `None` leaves steps out.
    pub step_percent: Option<f64>,
}

/// One mix on one machine, its rank left open.
pub fn fit(candidates: &[Candidate], supply: &Supply, question: Question) -> MachineFit {
    let place = Place::new(candidates, supply, question.shares_cpus);
    let copies = place.copies(&NO_EASE, supply.cpus, supply.memory_bytes);
    let shown = copies.estimate.max(1);
    let kept = place.kept(shown, &NO_EASE, supply.cpus);
    let steps = question
        .step_percent
        .map(|step| place.steps(step, copies.estimate));
    MachineFit {
        machine: supply.name.clone(),
        model: supply.model.clone(),
        cpus: supply.cpus,
        memory_bytes: supply.memory_bytes,
        rank: 1,
        basis: match place.scaled {
            true => Basis::Scaled,
            false => Basis::Recorded,
        },
        copies,
        limit: place.limit(copies.estimate + 1),
        performance: place.performance(&kept),
        saturation: place.saturation(shown),
        steps: steps.unwrap_or_default(),
        notes: place.notes(),
    }
}

/// Best first; those whose intervals reach the estimate of the best share its rank.
pub fn rank(fits: &mut [MachineFit]) {
    fits.sort_by(|a, b| {
        let key = |fit: &MachineFit| (fit.copies.estimate, fit.copies.low, fit.copies.high);
        key(b).cmp(&key(a)).then_with(|| a.machine.cmp(&b.machine))
    });
    let (mut rank, mut first) = (0, 0);
    for at in 0..fits.len() {
        // What is uncertain of one machine is so of the others: their losses have the
        // same profiles.
        let apart = fits[at].copies.high < fits[first].copies.estimate;
        if at == 0 || apart {
            (rank, first) = (at as u32 + 1, at);
        }
        fits[at].rank = rank;
    }
}

const NO_EASE: Lanes<f32> = [1.0; LANES];

/// A mix on a machine.
struct Place<'a> {
    candidates: &'a [Candidate],
    supply: &'a Supply,
    shares_cpus: bool,
    /// With pressures as shares of this machine's peaks, and as recorded.
    here: Vec<Responses>,
    recorded: Vec<Responses>,
    factors: Vec<Lanes<Option<f32>>>,
    scaled: bool,
}

impl<'a> Place<'a> {
    fn new(candidates: &'a [Candidate], supply: &'a Supply, shares_cpus: bool) -> Self {
        let factors: Vec<_> = candidates.iter().map(|it| it.factors(supply)).collect();
        let recorded: Vec<Responses> = candidates
            .iter()
            .map(|it| Responses::clone(&it.app.responses))
            .collect();
        let here = recorded.iter().zip(&factors);
        Place {
            here: here
                .map(|(it, factors)| supply::scaled(it, factors))
                .collect(),
            scaled: candidates
                .iter()
                .any(|it| it.fingerprint != supply.fingerprint),
            candidates,
            supply,
            shares_cpus,
            recorded,
            factors,
        }
    }

    fn crowd(&self, responses: &[Responses], ease: &Lanes<f32>, cpus: u32) -> Crowd<'a> {
        Crowd {
            candidates: self.candidates,
            responses: responses.to_vec(),
            cpus,
            shares_cpus: self.shares_cpus,
            ease: *ease,
        }
    }

    /// What each application keeps, with an interval over both ways to scale.
    fn kept(&self, copies: u32, ease: &Lanes<f32>, cpus: u32) -> Vec<(Kept, [f64; 2])> {
        let here = self.crowd(&self.here, ease, cpus).kept(copies);
        let ends = |kept: &Kept| kept.expected.ci95();
        if !self.scaled {
            return here
                .into_iter()
                .map(|kept| (kept.clone(), ends(&kept)))
                .collect();
        }
        let other = self.crowd(&self.recorded, ease, cpus).kept(copies);
        here.into_iter()
            .zip(other)
            .map(|(kept, other)| {
                let ([low, high], [less, more]) = (ends(&kept), ends(&other));
                (kept, [low.min(less), high.max(more)])
            })
            .collect()
    }

    /// Copies for which there are CPUs and memory.
    fn most(&self, cpus: u32, memory_bytes: Option<u64>) -> u32 {
        self.by_cpus(cpus).min(self.by_memory(memory_bytes))
    }

    fn by_cpus(&self, cpus: u32) -> u32 {
        let instances: u32 = self.candidates.iter().map(|it| it.count).sum();
        match self.shares_cpus {
            true => (cpus.saturating_mul(MOST_PER_CPU)).min(MOST_INSTANCES) / instances.max(1),
            false => cpus / self.cpus_wanted().max(1),
        }
    }

    fn cpus_wanted(&self) -> u32 {
        let each = self.candidates.iter();
        each.map(|it| it.count.saturating_mul(it.cpus))
            .fold(0, u32::saturating_add)
    }

    fn memory_wanted(&self) -> u64 {
        let known = self.candidates.iter().filter_map(|it| {
            let each = it.memory_bytes?;
            Some(each.saturating_mul(u64::from(it.count)))
        });
        known.fold(0, u64::saturating_add)
    }

    fn by_memory(&self, memory_bytes: Option<u64>) -> u32 {
        match (memory_bytes, self.memory_wanted()) {
            (Some(has), wanted @ 1..) => u32::try_from(has / wanted).unwrap_or(u32::MAX),
            _ => MOST_INSTANCES,
        }
    }

    fn copies(&self, ease: &Lanes<f32>, cpus: u32, memory_bytes: Option<u64>) -> Copies {
        let most = self.most(cpus, memory_bytes);
        // One question after the other: each answer bounds the next.
        let estimate = self.largest(most, ease, cpus, |kept, _| kept.expected.performance());
        let low = self.largest(estimate, ease, cpus, |_, ends| ends[0]);
        let high = self.largest(most, ease, cpus, |_, ends| ends[1]);
        Copies {
            estimate,
            low,
            high: high.max(estimate),
        }
    }

    /// Largest number up to `most` at which `of` everybody is at least its QoS: what
    /// everybody keeps falls with every copy.
    fn largest(
        &self,
        most: u32,
        ease: &Lanes<f32>,
        cpus: u32,
        of: impl Fn(&Kept, [f64; 2]) -> f64,
    ) -> u32 {
        let holds = |copies: u32| {
            let kept = self.kept(copies, ease, cpus);
            let mut each = kept.iter().zip(self.candidates);
            each.all(|((kept, ends), one)| of(kept, *ends) >= one.qos - ROUNDING)
        };
        let (mut good, mut step) = (0, 1);
        // Doubling, then halving: few machines hold hundreds.
        while good < most && holds((good + step).min(most)) {
            good = (good + step).min(most);
            step *= 2;
        }
        let mut bad = (good + step).min(most.saturating_add(1));
        while good + 1 < bad {
            let middle = good + (bad - good) / 2;
            match holds(middle) {
                true => good = middle,
                false => bad = middle,
            }
        }
        good
    }

    fn limit(&self, copies: u32) -> Limit {
        if copies > self.by_memory(self.supply.memory_bytes) && self.memory_wanted() > 0 {
            return Limit::Memory;
        }
        if copies > self.by_cpus(self.supply.cpus) {
            return match self.shares_cpus {
                true => Limit::Search,
                false => Limit::Cpus,
            };
        }
        let kept = self.kept(copies, &NO_EASE, self.supply.cpus);
        let lacking = kept.iter().zip(self.candidates);
        let worst = lacking.min_by(|a, b| {
            let margin = |((kept, _), one): &(&(Kept, [f64; 2]), &Candidate)| {
                kept.expected.performance() - one.qos
            };
            margin(a).total_cmp(&margin(b))
        });
        worst.map_or(Limit::Search, |((kept, _), one)| Limit::Qos {
            application: one.app.name().to_string(),
            resource: kept.most_costly.map(str::to_string),
        })
    }

    fn performance(&self, kept: &[(Kept, [f64; 2])]) -> Vec<MemberPerformance> {
        let each = kept.iter().zip(self.candidates);
        each.map(|((kept, ci95), one)| MemberPerformance {
            application: one.app.name().to_string(),
            performance: kept.expected.performance(),
            ci95: *ci95,
            chance_of_qos: f64::from(kept.expected.chance_of(one.qos.ln() as f32)),
            most_costly: kept.most_costly.map(str::to_string),
        })
        .collect()
    }

    /// Percent of each resource that one copy takes.
    fn taken(&self) -> Lanes<f64> {
        let mut taken = [0.0; LANES];
        for (responses, one) in self.here.iter().zip(self.candidates) {
            let counted = one.app.counted(self.shares_cpus);
            for lane in responses.caused_known.and(counted).iter() {
                taken[lane] += f64::from(responses.caused[lane]) * f64::from(one.count);
            }
        }
        let cpus = f64::from(self.supply.cpus.max(1));
        // Every CPU has its own.
        for lane in (0..LANES).filter(|lane| core_private(*lane)) {
            taken[lane] /= cpus;
        }
        taken[CPU] = match self.shares_cpus {
            false => f64::from(self.cpus_wanted()) / cpus * 100.0,
            true => {
                let wants = self.here.iter().zip(self.candidates).map(|(it, one)| {
                    f64::from(it.cpu.map_or(1.0, |need| need.demand)) * f64::from(one.count)
                });
                wants.sum::<f64>() / cpus * 100.0
            }
        };
        if let Some(has) = self.supply.memory_bytes.filter(|has| *has > 0) {
            taken[MEMORY] = self.memory_wanted() as f64 / has as f64 * 100.0;
        }
        taken
    }

    fn saturation(&self, copies: u32) -> Vec<Saturation> {
        let taken = self.taken();
        let mut all: Vec<Saturation> = (0..LANES)
            .filter(|lane| taken[*lane] * f64::from(copies) >= LEAST_NAMED)
            .map(|lane| Saturation {
                resource: resource_id(lane).to_string(),
                percent: taken[lane] * f64::from(copies),
                saturates_at_copies: 100.0 / taken[lane],
                assumed: lane != CPU
                    && lane != MEMORY
                    && self.here.iter().any(|it| it.caused_assumed.contains(lane)),
            })
            .collect();
        all.sort_by_number(|it| it.saturates_at_copies);
        all
    }

    /// What `percent` more of each resource buys, where it buys anything.
    fn steps(&self, percent: f64, now: u32) -> Vec<Step> {
        let shown = now.max(1);
        let more = 1.0 + percent / 100.0;
        let least = |kept: &[(Kept, [f64; 2])]| {
            let all = kept.iter().map(|(kept, _)| kept.expected.performance());
            all.fold(f64::INFINITY, f64::min)
        };
        let before = least(&self.kept(shown, &NO_EASE, self.supply.cpus));
        let taken = self.taken();
        let mut steps: Vec<Step> = Vec::new();
        for lane in (0..LANES).filter(|lane| taken[*lane] > 0.0) {
            let mut ease = NO_EASE;
            let (mut cpus, mut memory) = (self.supply.cpus, self.supply.memory_bytes);
            match lane {
                CPU => cpus = (f64::from(cpus) * more).ceil() as u32,
                MEMORY => memory = memory.map(|bytes| (bytes as f64 * more) as u64),
                lane => ease[lane] = more as f32,
            }
            let most = self.most(cpus, memory);
            let copies = self.largest(most, &ease, cpus, |kept, _| kept.expected.performance());
            let kept = self.kept(shown, &ease, cpus);
            let gain = least(&kept) - before;
            let then = match copies > now {
                true => self.kept(copies, &ease, cpus),
                false => kept,
            };
            if copies > now || gain > LEAST_GAIN {
                steps.push(Step {
                    resource: resource_id(lane).to_string(),
                    copies,
                    worst_performance: before,
                    gain,
                    extrapolated: then.iter().any(|(kept, _)| kept.beyond),
                });
            }
        }
        steps.sort_by(|a, b| b.copies.cmp(&a.copies).then(b.gain.total_cmp(&a.gain)));
        steps
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.scaled {
            let unscaled: Vec<&str> = (0..LANES)
                .filter(|lane| {
                    let each = self.factors.iter().zip(&self.recorded).zip(self.candidates);
                    let mut each = each.map(|((factors, it), one)| {
                        let counted = one.app.counted(self.shares_cpus);
                        let felt = it.caused_known.and(counted).contains(*lane);
                        felt && it.caused[*lane] > 0.0 && factors[*lane].is_none()
                    });
                    *lane != CPU && *lane != MEMORY && each.any(|it| it)
                })
                .map(resource_id)
                .collect();
            if !unscaled.is_empty() {
                notes.push(format!(
                    "not scaled, as a peak is not known: {}",
                    unscaled.join(", ")
                ));
            }
        }
        let unknown: Vec<&str> = self
            .candidates
            .iter()
            .filter(|it| it.memory_bytes.is_none())
            .map(|it| it.app.name())
            .collect();
        if !unknown.is_empty() {
            notes.push(format!(
                "memory not known, and not counted: {}",
                unknown.join(", ")
            ));
        }
        notes
    }
}

/// Rounding does not violate a QoS.
const ROUNDING: f64 = 1e-6;
/// A gain of less is none.
const LEAST_GAIN: f64 = 0.001;

#[cfg(test)]
mod tests;
