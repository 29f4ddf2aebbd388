//! Where the generator runs: away from target and sources, if there is room.

use crate::error::Error;
use crate::error::Result;
use jostle_profile::cpulist::format_list;

/// With fewer CPUs than this none is taken away from the sources.
const ENOUGH_CPUS: usize = 4;

/// Where the generator runs and how it waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadPlacement {
    /// CPUs of its thread; empty leaves that to the kernel.
    pub cpus: Vec<usize>,
    /// Whether it may spin while it waits for the next send time.
    pub spin: bool,
    /// CPUs that sources should leave to it.
    pub reserved: Vec<usize>,
    /// Set when it is not alone there.
    pub warning: Option<SharedCpus>,
}

/// The generator shares its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCpus {
    /// As a list, like `0-2,5`.
    pub cpus: String,
    /// With the target; else only with sources.
    pub with_target: bool,
}

/// A place for the generator among the `allowed` CPUs: as `given`; else, with at
/// least four CPUs, the last one that the target leaves, which the sources then
/// do not get; else one that it shares with sources, or even with the target.
/// It spins only where it is alone.
///
/// # Errors
/// A request error when `given` is outside of `allowed`.
pub fn place(
    allowed: &[usize],
    target: &[usize],
    given: Option<&[usize]>,
) -> Result<LoadPlacement> {
    let outside = |cpu: &&usize| !allowed.contains(cpu);
    if let Some(&cpu) = given.and_then(|given| given.iter().find(outside)) {
        let allowed = format_list(allowed);
        return Err(Error::CpuOutside { cpu, allowed });
    }
    let mut away = allowed.to_vec();
    away.retain(|cpu| !target.contains(cpu));
    // Alone, at least among the sources.
    let (cpus, alone) = match (given, away.last()) {
        (Some(given), _) => (given.to_vec(), away.iter().any(|cpu| !given.contains(cpu))),
        (None, Some(&cpu)) => (vec![cpu], allowed.len() >= ENOUGH_CPUS && away.len() >= 2),
        (None, None) => (allowed.to_vec(), false),
    };
    let with_target = cpus.iter().any(|cpu| target.contains(cpu));
    Ok(LoadPlacement {
        spin: alone && !with_target,
        reserved: if alone { cpus.clone() } else { Vec::new() },
        warning: (with_target || !alone).then(|| SharedCpus {
            cpus: format_list(&cpus),
            with_target,
        }),
        cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_keeps_away_where_there_is_room() {
        let many = place(&[0, 1, 2, 3], &[0], None).unwrap();
        assert_eq!((many.cpus, many.reserved), (vec![3], vec![3]));
        assert!(many.spin && many.warning.is_none());
        let two = place(&[0, 1], &[0], None).unwrap();
        assert_eq!((two.cpus.as_slice(), two.reserved.len()), (&[1][..], 0));
        assert!(!two.spin && !two.warning.unwrap().with_target);
        let one = place(&[0], &[0], None).unwrap();
        assert!(!one.spin && one.warning.unwrap().with_target);
        let all = place(&[0, 1, 2, 3], &[0, 1, 2, 3], None).unwrap();
        assert!(!all.spin && all.warning.unwrap().with_target);
    }

    #[test]
    fn a_place_that_was_asked_for_is_taken_and_judged() {
        let asked = place(&[0, 1, 2], &[0], Some(&[2])).unwrap();
        assert_eq!(asked.reserved, [2]);
        assert!(asked.spin && asked.warning.is_none());
        let beside = place(&[0, 1], &[0], Some(&[0])).unwrap();
        assert!(!beside.spin && beside.warning.unwrap().with_target);
        let last = place(&[0, 1], &[0], Some(&[1])).unwrap();
        assert!(!last.spin && last.reserved.is_empty());
        assert!(matches!(
            place(&[0], &[0], Some(&[7])),
            Err(Error::CpuOutside { cpu: 7, .. })
        ));
    }
}
