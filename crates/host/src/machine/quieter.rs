//! Which of several CPUs others use least, seen by how fast they are.
//!
//! On a virtual machine somebody whom nobody here sees runs on the hidden
//! sibling thread, and his caches are gone then. One thread moves from CPU to
//! CPU and looks at each for a fraction of a millisecond: the speed of integer
//! operations, and a dependent walk over part of the second-level cache. All
//! CPUs with a cache of one size share the reference, the best that any of them
//! showed; a CPU is held in a look that is slower than that by a quarter.

use super::Machine;
use crate::sys::cpus::affinity;
use crate::sys::cpus::set_affinity;
use jostle_kernels::Environment;
use jostle_kernels::Kernel;
use jostle_kernels::source;
use jostle_kernels::walk::Lines;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;

/// How long is looked. On a 2-vCPU virtual machine what 0.3 s showed went with
/// the next ten seconds (correlation 0.4), and longer looks did no better.
pub const LOOKED: Duration = Duration::from_millis(200);
/// CPUs that are looked at, at most.
const MOST_CPUS: usize = 8;
/// Part of the second-level cache that is walked over.
const PART: f64 = 0.6;
/// Accesses in a look: about 60 µs in a second-level cache.
const STEPS: u64 = 10_000;
/// Calls of the integer loop in a look.
const CALLS: u32 = 4;
/// A look is held beyond this many times the reference.
const HELD: f64 = 1.25;
/// The reference is what this share of all looks reached.
const BEST: f64 = 0.02;
/// What share of the looks two CPUs have to differ by to be told apart.
pub const MARGIN: f64 = 0.15;

/// Share of the interrupts of all devices.
const NEARLY_ALL: f64 = 0.8;

/// What was seen of one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub cpu: usize,
    /// Share of the looks in which somebody else had it or its cache, 0–1.
    pub share: f64,
}

/// One look: seconds for the integer operations, and for the walk.
type Look = (f64, f64);

/// The shares of time in which `candidates` (the first eight of them) are held
/// by others, in their order; empty when there is nothing to choose, or when
/// nothing could be looked at. Takes [`LOOKED`] and leaves the thread where it
/// may run as it was.
pub fn held(machine: &Machine, candidates: &[usize]) -> Vec<Held> {
    let candidates = &candidates[..candidates.len().min(MOST_CPUS)];
    let Ok(before) = affinity(0) else {
        return Vec::new();
    };
    let looks = match candidates.len() {
        0 | 1 => None,
        _ => look(machine, candidates),
    };
    // Refused only when the CPUs just went away; then nothing is lost.
    let _ = set_affinity(0, &before);
    let looks = looks.unwrap_or_default();
    let sizes: Vec<u64> = looks.iter().map(|(cpu, _)| l2(machine, *cpu)).collect();
    shares(&looks, &sizes)
}

/// Of `found`, the CPUs that are held clearly more than the freest one.
pub fn noisier(found: &[Held]) -> Vec<usize> {
    let least = found.iter().map(|held| held.share).fold(1.0, f64::min);
    let clearly = found.iter().filter(|held| held.share > least + MARGIN);
    clearly.map(|held| held.cpu).collect()
}

/// The CPU that took nearly all interrupts of devices, by the `counts` of each CPU. A target
/// there pays for the disk and the network of its neighbours: a loop lost 22 % beside random
/// reads, and nothing on the other CPU.
pub fn serves_devices(counts: &[(usize, u64)]) -> Option<usize> {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let most = counts.iter().max_by_key(|(_, count)| *count)?;
    (counts.len() > 1 && most.1 as f64 > NEARLY_ALL * all as f64).then_some(most.0)
}

fn look(machine: &Machine, candidates: &[usize]) -> Option<Vec<(usize, Vec<Look>)>> {
    let mut units = (source(Resource::Int).build)(&Environment::default()).ok()?;
    let most = candidates.iter().map(|&cpu| l2(machine, cpu)).max()?;
    let lines = Lines::new(part(most).max(4096)).ok()?;
    let mut looks: Vec<(usize, Vec<Look>)> =
        candidates.iter().map(|&cpu| (cpu, Vec::new())).collect();
    let began = Instant::now();
    while began.elapsed() < LOOKED {
        for (cpu, seen) in &mut looks {
            if set_affinity(0, &[*cpu]).is_ok() {
                seen.push(one(units.as_mut(), &lines, part(l2(machine, *cpu)))?);
            }
        }
    }
    Some(looks)
}

fn one(units: &mut dyn Kernel, lines: &Lines, bytes: u64) -> Option<Look> {
    lines.warm(bytes);
    let walk = lines.walk_ns(bytes, STEPS);
    let began = Instant::now();
    let mut operations = 0;
    for _ in 0..CALLS {
        operations += units.work().ok()?;
    }
    Some((
        began.elapsed().as_secs_f64() / operations.max(1) as f64,
        walk,
    ))
}

fn part(bytes: u64) -> u64 {
    (PART * bytes as f64) as u64
}

/// Bytes of the largest cache of data that only this core has; 0 for none.
fn l2(machine: &Machine, cpu: usize) -> u64 {
    machine.private_cache_bytes(cpu).unwrap_or(0)
}

/// The share of held looks per CPU; `sizes` are those of the caches walked over.
fn shares(looks: &[(usize, Vec<Look>)], sizes: &[u64]) -> Vec<Held> {
    let best = |size: u64, of: fn(&Look) -> f64| {
        let same = looks.iter().zip(sizes).filter(|(_, other)| **other == size);
        let mut all: Vec<f64> = same
            .flat_map(|((_, seen), _)| seen.iter().map(of))
            .collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get((BEST * all.len() as f64) as usize).copied()
    };
    let seen = looks
        .iter()
        .zip(sizes)
        .filter(|((_, seen), _)| !seen.is_empty());
    seen.filter_map(|((cpu, seen), size)| {
        let (units, walk) = (best(*size, |look| look.0)?, best(*size, |look| look.1)?);
        let held = seen
            .iter()
            .filter(|look| look.0 > HELD * units || look.1 > HELD * walk);
        Some(Held {
            cpu: *cpu,
            share: held.count() as f64 / seen.len() as f64,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cpus;

    #[test]
    fn a_cpu_is_held_by_what_the_best_of_its_kind_shows() {
        let free = vec![(1.0, 4.0); 20];
        let slow_cache = [vec![(1.0, 4.0); 10], vec![(1.0, 9.0); 10]].concat();
        let slow_units = vec![(1.6, 4.0); 20];
        // Another kind of core, slower and with a larger cache: free.
        let other = vec![(3.0, 12.0); 20];
        let looks = [
            (0, slow_cache),
            (1, free),
            (2, slow_units),
            (3, other),
            (4, vec![]),
        ];
        let found = shares(&looks, &[1, 1, 1, 2, 2]);
        let shares: Vec<(usize, f64)> = found.iter().map(|held| (held.cpu, held.share)).collect();
        assert_eq!(shares, [(0, 0.5), (1, 0.0), (2, 1.0), (3, 0.0)]);
        assert_eq!(noisier(&found), [0, 2]);
        assert!(noisier(&[]).is_empty());
    }

    #[test]
    fn one_cpu_serves_devices_or_several_do() {
        assert_eq!(serves_devices(&[(0, 13_000), (1, 24_900_000)]), Some(1));
        assert_eq!(serves_devices(&[(0, 900), (1, 400)]), None);
        assert_eq!(serves_devices(&[(0, 900)]), None, "there is no other");
        assert_eq!(serves_devices(&[(0, 0), (1, 0)]), None);
    }

    #[test]
    fn looking_leaves_the_thread_where_it_was() {
        let machine = Machine::detect();
        let before = cpus::affinity(0).unwrap();
        let found = held(&machine, &machine.allowed_cpus);
        assert_eq!(cpus::affinity(0).unwrap(), before);
        match machine.allowed_cpus.len() {
            1 => assert!(found.is_empty()),
            many => assert_eq!(found.len(), many.min(MOST_CPUS)),
        }
        assert!(found.iter().all(|held| (0.0..=1.0).contains(&held.share)));
        // One alone is no choice.
        assert!(held(&machine, &machine.allowed_cpus[..1]).is_empty());
    }
}
