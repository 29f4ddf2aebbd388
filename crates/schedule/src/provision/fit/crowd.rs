//! Copies of a mix on one machine: who shares a CPU with whom, and what each keeps.

use super::supply::Candidate;
use crate::predict::Company;
use crate::predict::Expected;
use crate::predict::LaneSet;
use crate::predict::Lanes;
use crate::predict::Responses;
use crate::predict::performance;
use crate::predict::resource_id;
use std::collections::BTreeMap;

/// The pressure that a mix causes on one machine.
pub struct Crowd<'a> {
    pub candidates: &'a [Candidate],
    /// Of each, on this machine.
    pub responses: Vec<Responses>,
    pub cpus: u32,
    pub shares_cpus: bool,
    /// Pressures on each resource are divided by this: 1, or more for a machine that
    /// has more of it.
    pub ease: Lanes<f32>,
}

/// What one application keeps where it is worst off.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub expected: Expected,
    pub most_costly: Option<&'static str>,
    /// Some pressure lies beyond what its curve was measured at.
    pub beyond: bool,
}

impl Crowd<'_> {
    /// The worst instance of each application with so many copies.
    pub fn kept(&self, copies: u32) -> Vec<Kept> {
        let eased: Vec<Responses> = self.responses.iter().map(|it| self.eased(it)).collect();
        match self.shares_cpus {
            false => self.on_own_cpus(&eased, copies),
            true => self.on_shared_cpus(&eased, copies),
        }
    }

    fn eased(&self, responses: &Responses) -> Responses {
        let mut eased = responses.clone();
        for (lane, ease) in self.ease.iter().enumerate() {
            eased.caused[lane] /= ease;
            eased.caused_sd[lane] /= ease;
        }
        eased
    }

    fn on_own_cpus(&self, responses: &[Responses], copies: u32) -> Vec<Kept> {
        let counted = |at: usize| self.candidates[at].app.counted(false);
        let members = self.members(copies);
        let company = Company::of(members.iter().map(|at| (&responses[*at], counted(*at))));
        let each = 0..self.candidates.len();
        each.map(|at| self.one(&company, &responses[at], at, counted(at), members.len()))
            .collect()
    }

    fn on_shared_cpus(&self, responses: &[Responses], copies: u32) -> Vec<Kept> {
        let members = self.members(copies);
        let cpus = self.dealt(responses, &members);
        let mut worst: Vec<Option<Kept>> = self.candidates.iter().map(|_| None).collect();
        // CPUs with the same applications are one.
        let mut seen: BTreeMap<Vec<usize>, ()> = BTreeMap::new();
        for (cpu, here) in cpus.iter().enumerate() {
            let mut sorted = here.clone();
            sorted.sort_unstable();
            if here.is_empty() || seen.insert(sorted, ()).is_some() {
                continue;
            }
            let all = cpus.iter().enumerate().flat_map(|(other, those)| {
                those.iter().map(move |at| {
                    let counted = self.candidates[*at].app.counted(other == cpu);
                    (&responses[*at], counted)
                })
            });
            let company = Company::of(all);
            let mut distinct = here.clone();
            distinct.sort_unstable();
            distinct.dedup();
            for at in distinct {
                let counted = self.candidates[at].app.counted(true);
                let kept = self.one(&company, &responses[at], at, counted, members.len());
                let least = worst[at]
                    .as_ref()
                    .map_or(f32::INFINITY, |it| it.expected.ln);
                if kept.expected.ln < least {
                    worst[at] = Some(kept);
                }
            }
        }
        let nothing = || Kept {
            expected: Expected::default(),
            most_costly: None,
            beyond: false,
        };
        worst
            .into_iter()
            .map(|it| it.unwrap_or_else(nothing))
            .collect()
    }

    /// Applications of so many copies, by place, those that want most CPU first.
    fn members(&self, copies: u32) -> Vec<usize> {
        let places = self.candidates.iter().enumerate();
        places
            .flat_map(|(at, one)| std::iter::repeat_n(at, (one.count * copies) as usize))
            .collect()
    }

    /// Who runs on which CPU: everybody where least is wanted so far.
    fn dealt(&self, responses: &[Responses], members: &[usize]) -> Vec<Vec<usize>> {
        let wants = |at: usize| responses[at].cpu.map_or(1.0, |need| need.demand);
        let mut sorted = members.to_vec();
        sorted.sort_by(|a, b| wants(*b).total_cmp(&wants(*a)).then(a.cmp(b)));
        let mut cpus: Vec<(f32, Vec<usize>)> = vec![(0.0, Vec::new()); self.cpus.max(1) as usize];
        for at in sorted {
            // The first of those with the least.
            let least = cpus
                .iter_mut()
                .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.len().cmp(&b.1.len())))
                .expect("there is a CPU");
            least.0 += wants(at);
            least.1.push(at);
        }
        cpus.into_iter().map(|(_, here)| here).collect()
    }

    fn one(
        &self,
        company: &Company,
        responses: &Responses,
        at: usize,
        counted: LaneSet,
        members: usize,
    ) -> Kept {
        let pressure = company.around(responses, counted);
        let mut expected = performance(responses, &pressure, counted);
        if members > 1 {
            let unexplained = responses.unexplained[usize::from(self.shares_cpus)];
            expected = expected.widened(unexplained);
        }
        let measured = &self.candidates[at].measured_to;
        let (mut costly, mut beyond) = ((0.0f32, None), false);
        for lane in counted.iter() {
            let points = pressure.points[lane];
            let cpu = pressure.cpu.is_some() && lane == CPU;
            if points <= 0.0 && !cpu {
                continue;
            }
            let only: LaneSet = [lane].into_iter().collect();
            let ln = performance(responses, &pressure, only).ln;
            if ln < costly.0 {
                costly = (ln, Some(resource_id(lane)));
            }
            // A loss that counts, at a pressure that was not measured.
            beyond |= ln < -0.005 && !cpu && (points > 100.0 || points > measured[lane] + 0.5);
        }
        Kept {
            expected,
            most_costly: costly.1,
            beyond,
        }
    }
}

const CPU: usize = jostle_profile::resource::Resource::CpuTime as usize;
