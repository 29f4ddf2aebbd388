//! Which applications of one machine should share a CPU, and which should not.

pub mod parts;

use crate::App;
use crate::predict::Company;
use crate::predict::Expected;
use crate::predict::performance;

/// An application on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub app: &'a App,
    /// CPUs that it keeps busy, at least 1.
    pub cpus: usize,
}

/// Applications by the CPUs that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Members that share the same CPUs, by index, ascending.
    pub groups: Vec<Vec<usize>>,
    /// By member.
    pub expected: Vec<Expected>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    pub best: Division,
    /// The worst of those that were compared.
    pub worst: Division,
    /// Divisions that were compared.
    pub compared: usize,
    /// Whether these were all.
    pub exhaustive: bool,
}

/// Largest number of members of which all divisions are compared: 21,147.
const ALL: usize = 9;
/// Rounds of moves and swaps at most.
const ROUNDS: usize = 100;

impl Division {
    /// The division of `members` into `groups`, with what is expected of each.
    ///
    /// Members of one group share their CPUs, so what they do to each other is what is
    /// counted on a node that shares CPUs; members of different groups meet in what lies
    /// beyond a core. Losses multiply.
    pub fn of(members: &[Member], groups: Vec<Vec<usize>>) -> Division {
        let mut expected = vec![Expected::default(); members.len()];
        for (at, group) in groups.iter().enumerate() {
            let elsewhere = groups.iter().enumerate();
            let elsewhere = elsewhere.filter(|(other, _)| *other != at);
            let elsewhere: Vec<usize> = elsewhere.flat_map(|(_, group)| group.clone()).collect();
            for &index in group {
                let mates = group.iter().copied().filter(|mate| *mate != index);
                let mates: Vec<usize> = mates.collect();
                for (others, shares) in [(&mates, true), (&elsewhere, false)] {
                    let beside = beside(members, index, others, shares);
                    expected[index].ln += beside.ln;
                    expected[index].variance += beside.variance;
                }
            }
        }
        Division { groups, expected }
    }

    /// Geometric mean of the expected performances, fractions of the baselines.
    pub fn geometric_mean(&self) -> f64 {
        let each = self.expected.iter().map(|expected| f64::from(expected.ln));
        (each.sum::<f64>() / self.expected.len().max(1) as f64).exp()
    }

    /// CPUs that it needs.
    pub fn cpus(&self, members: &[Member]) -> usize {
        sizes(members, &self.groups).iter().sum()
    }
}

/// CPUs of each group: as many as its largest member keeps busy.
pub fn sizes(members: &[Member], groups: &[Vec<usize>]) -> Vec<usize> {
    let of = |group: &Vec<usize>| {
        let each = group.iter().map(|index| members[*index].cpus);
        each.max().unwrap_or(0)
    };
    groups.iter().map(of).collect()
}

/// What is expected of `members[index]` beside `others`, which share its CPUs or do not.
fn beside(members: &[Member], index: usize, others: &[usize], shares: bool) -> Expected {
    if others.is_empty() {
        return Expected::default();
    }
    let of = |index: usize| {
        let app = members[index].app;
        (&*app.responses, app.counted(shares))
    };
    let all = others.iter().copied().chain([index]);
    let company = Company::of(all.map(of));
    let (responses, counted) = of(index);
    let expected = performance(responses, &company.around(responses, counted), counted);
    expected.widened(responses.unexplained[usize::from(shares)])
}

/// The division of `members` over `cpus` CPUs with the largest geometric mean of what is
/// expected of each: the proportionally fair one (Nash's bargaining solution; Kelly, 1997).
/// `None` where one member keeps more CPUs busy than there are, or there is none.
///
/// The sum of the performances would tell little. Programs that share CPUs and nothing else
/// have the same sum however they are divided, even one of them on one CPU and all others
/// on the other, as long as no CPU is left empty.
pub fn search(members: &[Member], cpus: usize) -> Option<Search> {
    if members.is_empty() || members.iter().any(|member| member.cpus > cpus) {
        return None;
    }
    let mut found = Found::default();
    let exhaustive = members.len() <= ALL;
    match exhaustive {
        true => all(members, cpus, &mut Vec::new(), 0, &mut found),
        false => climb(members, cpus, &mut found),
    }
    let (best, worst) = found.best.zip(found.worst)?;
    Some(Search {
        best,
        worst,
        compared: found.compared,
        exhaustive,
    })
}

#[derive(Default)]
struct Found {
    best: Option<Division>,
    worst: Option<Division>,
    compared: usize,
}

impl Found {
    /// Its mean.
    fn see(&mut self, members: &[Member], groups: &[Vec<usize>]) -> f64 {
        let division = Division::of(members, groups.to_vec());
        let mean = division.geometric_mean();
        self.compared += 1;
        // The first of equals stays.
        let better =
            |known: &Option<Division>| known.as_ref().is_none_or(|it| mean > it.geometric_mean());
        let worse =
            |known: &Option<Division>| known.as_ref().is_none_or(|it| mean < it.geometric_mean());
        if worse(&self.worst) {
            self.worst = Some(division.clone());
        }
        if better(&self.best) {
            self.best = Some(division);
        }
        mean
    }
}

fn fits(members: &[Member], groups: &[Vec<usize>], cpus: usize) -> bool {
    sizes(members, groups).iter().sum::<usize>() <= cpus
}

/// Every division of all members from `next` on, added to `groups`.
fn all(
    members: &[Member],
    cpus: usize,
    groups: &mut Vec<Vec<usize>>,
    next: usize,
    found: &mut Found,
) {
    // More members need no fewer CPUs.
    if !fits(members, groups, cpus) {
        return;
    }
    if next == members.len() {
        found.see(members, groups);
        return;
    }
    groups.push(vec![next]);
    all(members, cpus, groups, next + 1, found);
    groups.pop();
    for at in 0..groups.len() {
        groups[at].push(next);
        all(members, cpus, groups, next + 1, found);
        groups[at].pop();
    }
}

/// One member after another to where it leaves the most, then moves and swaps as long as
/// they gain something.
fn climb(members: &[Member], cpus: usize, found: &mut Found) {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(members[*index].cpus));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &index in &order {
        let mut best: Option<(f64, Vec<Vec<usize>>)> = None;
        for at in 0..=groups.len() {
            let mut tried = groups.clone();
            match tried.get_mut(at) {
                Some(group) => group.push(index),
                None => tried.push(vec![index]),
            }
            if !fits(members, &tried, cpus) {
                continue;
            }
            // Who has no place yet loses nothing.
            let mean = Division::of(members, tried.clone()).geometric_mean();
            if best.as_ref().is_none_or(|(known, _)| mean > *known) {
                best = Some((mean, tried));
            }
        }
        // The first group is the largest, so that everybody fits in there.
        let Some((_, tried)) = best else { return };
        groups = tried;
    }
    let sorted = |groups: &[Vec<usize>]| {
        let mut groups = groups.to_vec();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.retain(|group| !group.is_empty());
        groups
    };
    groups = sorted(&groups);
    let mut mean = found.see(members, &groups);
    for _ in 0..ROUNDS {
        let mut best: Option<(f64, Vec<Vec<usize>>)> = None;
        for tried in neighbours(&groups) {
            let tried = sorted(&tried);
            if fits(members, &tried, cpus) {
                let its = found.see(members, &tried);
                if its > best.as_ref().map_or(mean, |(known, _)| *known) {
                    best = Some((its, tried));
                }
            }
        }
        let Some((its, tried)) = best else { break };
        (mean, groups) = (its, tried);
    }
}

/// Every division that one move or one swap makes of `groups`.
fn neighbours(groups: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    let mut found = Vec::new();
    for (from, group) in groups.iter().enumerate() {
        for (place, &index) in group.iter().enumerate() {
            for to in (0..=groups.len()).filter(|to| *to != from) {
                let mut tried = groups.to_vec();
                tried[from].remove(place);
                match tried.get_mut(to) {
                    Some(group) => group.push(index),
                    None => tried.push(vec![index]),
                }
                found.push(tried);
            }
            for (to, other) in groups.iter().enumerate().skip(from + 1) {
                for at in 0..other.len() {
                    let mut tried = groups.to_vec();
                    tried[from][place] = other[at];
                    tried[to][at] = index;
                    found.push(tried);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::CpuNeed;
    use crate::predict::Curve;
    use crate::predict::GRID;
    use crate::predict::GRID_STEP;
    use crate::predict::LANES;
    use crate::predict::LaneSet;
    use crate::predict::Responses;
    use jostle_profile::resource::Resource;

    const MEMORY: usize = Resource::MemoryBandwidth as usize;

    /// It wants `demand` of a CPU, loses up to `loses` (0–1) to pressure on memory, and
    /// presses there with `presses` points.
    fn app(name: &str, demand: f32, loses: f32, presses: f32) -> App {
        let mut caused = [None; LANES];
        caused[MEMORY] = Some((presses, 0.0));
        let slope = (1.0 - loses).ln() / 100.0;
        let ln = std::array::from_fn(|step| slope * step as f32 * GRID_STEP);
        let curve = Curve::new(MEMORY, ln, [0.0; GRID]);
        let mut responses = Responses::new(vec![curve], LaneSet::EMPTY, &caused);
        responses.cpu = CpuNeed::of(Some((demand, 0.01)), None, None);
        App::bare(name, responses)
    }

    fn members(apps: &[App]) -> Vec<Member<'_>> {
        let of = |app| Member { app, cpus: 1 };
        apps.iter().map(of).collect()
    }

    #[test]
    fn who_seldom_runs_shares_with_who_always_does() {
        let apps = [
            app("a", 1.0, 0.0, 0.0),
            app("b", 1.0, 0.0, 0.0),
            app("c", 0.1, 0.0, 0.0),
        ];
        let found = search(&members(&apps), 2).unwrap();
        assert!(found.exhaustive);
        assert_eq!(found.best.groups.len(), 2);
        let together = |a: usize, b: usize| {
            let groups = &found.best.groups;
            groups
                .iter()
                .any(|group| group.contains(&a) && group.contains(&b))
        };
        assert!(!together(0, 1), "{found:?}");
        // All three of them on one CPU is worst.
        assert_eq!(found.worst.groups, [[0, 1, 2]]);
        assert_eq!(found.compared, 4, "three apart do not fit");
        assert!(found.best.geometric_mean() > found.worst.geometric_mean() + 0.1);
    }

    #[test]
    fn programs_that_share_only_time_are_divided_evenly() {
        let apps = [0, 1, 2, 3, 4].map(|n| app(&n.to_string(), 1.0, 0.0, 0.0));
        let found = search(&members(&apps), 2).unwrap();
        let mut sizes: Vec<usize> = found.best.groups.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [2, 3], "{found:?}");
        let each = [0.5, 0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0];
        let mean = each.iter().product::<f64>().powf(0.2);
        assert!(
            (found.best.geometric_mean() - mean).abs() < 0.03,
            "{found:?}"
        );
    }

    #[test]
    fn what_lies_beyond_a_core_counts_between_groups() {
        let apps = [
            app("stream", 1.0, 0.0, 100.0),
            app("needs", 1.0, 0.9, 0.0),
            app("idle", 0.05, 0.0, 0.0),
        ];
        let found = search(&members(&apps), 3).unwrap();
        assert_eq!(found.compared, 5);
        let alone = Division::of(&members(&apps), vec![vec![0], vec![1], vec![2]]);
        assert!((alone.expected[1].performance() - 0.1).abs() < 0.01);
        assert!((alone.expected[2].performance() - 1.0).abs() < 1e-6);
        assert!(found.best.geometric_mean() >= alone.geometric_mean());
    }

    #[test]
    fn large_members_keep_their_cpus() {
        let apps = [app("wide", 1.0, 0.0, 0.0), app("b", 1.0, 0.0, 0.0)];
        let wide = |cpus| {
            let mut members = members(&apps);
            members[0].cpus = cpus;
            search(&members, 3).map(|found| (found.best.cpus(&members), found.best.groups.len()))
        };
        assert_eq!(wide(2), Some((3, 2)));
        assert_eq!(wide(3), Some((3, 1)));
        assert_eq!(wide(4), None);
        assert_eq!(search(&[], 3), None);
    }

    #[test]
    fn climbing_finds_what_comparing_all_finds() {
        let mut random = 7_u64;
        let mut next = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut short = 0.0_f64;
        for _ in 0..20 {
            let apps: Vec<App> = (0..7)
                .map(|n| app(&n.to_string(), 0.1 + 0.9 * next(), next(), 60.0 * next()))
                .collect();
            let members = members(&apps);
            let best = search(&members, 3).unwrap();
            assert!(best.exhaustive);
            let mut found = Found::default();
            climb(&members, 3, &mut found);
            let climbed = found.best.unwrap();
            assert!(climbed.cpus(&members) <= 3);
            short = short.max(best.best.geometric_mean() - climbed.geometric_mean());
        }
        assert!(short < 0.1, "{short}");
    }

    #[test]
    fn many_members_are_divided_in_short_time() {
        let apps: Vec<App> = (0..24)
            .map(|n| app(&n.to_string(), 0.3, 0.02 * n as f32, 10.0))
            .collect();
        let members = members(&apps);
        let found = search(&members, 4).unwrap();
        assert!(!found.exhaustive && found.compared > 100);
        let mut all: Vec<usize> = found.best.groups.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..24));
        assert!(found.best.cpus(&members) <= 4);
    }
}
