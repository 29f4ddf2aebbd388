//! What each group of programs gets of the caches and the memory that it shares with
//! others on other CPUs.

use jostle_host::machine::allocation::Allocation;
use jostle_host::machine::allocation::Share;
use jostle_profile::resource::Resource;
use jostle_schedule::local::Member;
use jostle_schedule::local::parts;

/// Shares per group of `members`, which are on the CPUs `dealt`; empty for a group whose
/// share is not limited.
///
/// # Errors
/// Why nothing is divided.
pub fn allot(
    allocation: &Allocation,
    members: &[Member],
    groups: &[Vec<usize>],
    dealt: &[Vec<usize>],
) -> Result<Vec<Vec<Share>>, String> {
    let mut shares: Vec<Vec<Share>> = vec![Vec::new(); groups.len()];
    for (&cache, cpus) in &allocation.caches {
        let within = |at: &usize| dealt[*at].iter().all(|cpu| cpus.contains(cpu));
        let here: Vec<usize> = (0..groups.len()).filter(within).collect();
        let of: Vec<Vec<usize>> = here.iter().map(|at| groups[*at].clone()).collect();
        let divide = |resource, bounds| parts::divide(members, &of, resource, bounds);
        let ways = divide(
            Resource::LlcCapacity,
            (allocation.ways, allocation.least_ways),
        );
        let masks = ways.map(|found| allocation.masks(&found.parts));
        let limits = allocation.bandwidth.as_ref().ok().and_then(|limits| {
            let step = limits.step.clamp(1, 100) as usize;
            let least = (limits.least as usize).div_ceil(step);
            let found = divide(Resource::MemoryBandwidth, (100 / step, least))?;
            let percent = |part: &usize| limits.at_least((part * step) as f64);
            Some(found.parts.iter().map(percent).collect::<Vec<u32>>())
        });
        if masks.is_none() && limits.is_none() {
            continue;
        }
        for (place, at) in here.iter().enumerate() {
            shares[*at].push(Share {
                cache,
                ways: masks.as_ref().map(|masks| masks[place]),
                bandwidth: limits.as_ref().map(|limits| limits[place]),
            });
        }
    }
    let made = shares.iter().filter(|shares| !shares.is_empty()).count();
    match made {
        0 => Err("by their profiles no program gains from a share of its own".into()),
        _ if made > allocation.groups => Err(format!(
            "{made} groups of processes would be needed, and the kernel offers {}",
            allocation.groups
        )),
        _ => Ok(shares),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_host::machine::allocation::Bandwidth;
    use jostle_schedule::App;
    use jostle_schedule::predict::Curve;
    use jostle_schedule::predict::GRID;
    use jostle_schedule::predict::LANES;
    use jostle_schedule::predict::LaneSet;
    use jostle_schedule::predict::Responses;
    use std::collections::BTreeMap;

    /// It loses up to `loses` (0–1) to others on `resource`, and presses there with
    /// `presses` points.
    fn app(name: &str, resource: Resource, loses: f32, presses: f32) -> App {
        let lane = resource as usize;
        let mut caused = [None; LANES];
        caused[lane] = Some((presses, 0.0));
        let slope = (1.0 - loses).ln() / (GRID - 1) as f32;
        let curve = Curve::new(
            lane,
            std::array::from_fn(|step| slope * step as f32),
            [0.0; GRID],
        );
        App::bare(name, Responses::new(vec![curve], LaneSet::EMPTY, &caused))
    }

    fn allocation(groups: usize) -> Allocation {
        Allocation {
            ways: 16,
            least_ways: 1,
            shareable: 0,
            groups,
            bandwidth: Ok(Bandwidth {
                least: 10,
                step: 10,
            }),
            caches: BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]),
        }
    }

    fn plan(
        apps: &[App],
        groups: &[Vec<usize>],
        dealt: &[Vec<usize>],
        most: usize,
    ) -> Result<Vec<Vec<Share>>, String> {
        let members: Vec<Member> = apps.iter().map(|app| Member { app, cpus: 1 }).collect();
        allot(&allocation(most), &members, groups, dealt)
    }

    #[test]
    fn who_suffers_gets_most_of_the_cache_that_it_shares() {
        let cache = Resource::LlcCapacity;
        let apps = [
            app("needs", cache, 0.9, 0.0),
            app("stream", cache, 0.0, 100.0),
            app("elsewhere", cache, 0.9, 0.0),
        ];
        let groups = [vec![0], vec![1], vec![2]];
        let shares = plan(&apps, &groups, &[vec![0], vec![1], vec![2]], 4).unwrap();
        let ways = |at: usize| shares[at][0].ways.unwrap().count_ones();
        assert_eq!(ways(0) + ways(1), 16);
        assert_eq!(ways(1), 1, "it has no use for more");
        assert_eq!(shares[0][0].bandwidth, None);
        assert!(shares[2].is_empty(), "alone in its cache");
        // CPUs of two caches belong to none.
        let both = plan(&apps, &groups[..2], &[vec![0, 2], vec![1]], 4);
        assert!(both.unwrap_err().contains("no program gains"));
        let few = plan(&apps, &groups, &[vec![0], vec![1], vec![2]], 1);
        assert!(few.unwrap_err().contains("the kernel offers 1"));
    }

    #[test]
    fn bandwidth_is_divided_in_the_kernels_steps() {
        let memory = Resource::MemoryBandwidth;
        let apps = [
            app("needs", memory, 0.8, 0.0),
            app("stream", memory, 0.1, 100.0),
        ];
        let shares = plan(&apps, &[vec![0], vec![1]], &[vec![0], vec![1]], 4).unwrap();
        let limits = [0, 1].map(|at: usize| shares[at][0].bandwidth.unwrap());
        assert!(limits[0] > limits[1], "{limits:?}");
        assert!(limits.iter().all(|limit| limit % 10 == 0 && *limit >= 10));
        assert_eq!(shares[0][0].ways, None);
    }
}
