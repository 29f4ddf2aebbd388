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
    /// Whether it may spin while it waits for the next moment.
    pub spin: bool,
    /// CPUs that sources should leave to it.
    pub reserved: Vec<usize>,
    /// What a reader of the profile must know.
    pub doubt: Option<String>,
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
    let away: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|cpu| !target.contains(cpu))
        .collect();
    if let Some(given) = given {
        if let Some(outside) = given.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(Error::request(format!(
                "--load-cpus: CPU {outside} is outside the allowed set {}",
                format_list(allowed)
            )));
        }
        let beside = given.iter().any(|cpu| target.contains(cpu));
        let rest = away.iter().any(|cpu| !given.contains(cpu));
        return Ok(LoadPlacement {
            cpus: given.to_vec(),
            spin: !beside && rest,
            reserved: match rest {
                true => given.to_vec(),
                false => Vec::new(),
            },
            doubt: shared(given, beside, rest),
        });
    }
    let (cpu, alone) = match (away.last(), allowed.len() >= ENOUGH_CPUS && away.len() >= 2) {
        (Some(&cpu), alone) => (cpu, alone),
        (None, _) => {
            return Ok(LoadPlacement {
                cpus: allowed.to_vec(),
                doubt: shared(allowed, true, false),
                ..LoadPlacement::default()
            });
        }
    };
    Ok(LoadPlacement {
        cpus: vec![cpu],
        spin: alone,
        reserved: match alone {
            true => vec![cpu],
            false => Vec::new(),
        },
        doubt: shared(&[cpu], false, alone),
    })
}

fn shared(cpus: &[usize], beside_target: bool, alone: bool) -> Option<String> {
    let with = match (beside_target, alone) {
        (true, _) => "the target",
        (false, false) => "sources, which give way to it",
        (false, true) => return None,
    };
    Some(format!(
        "the load generator shares CPU {} with {with}: there was no CPU for it alone",
        format_list(cpus)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_keeps_away_where_there_is_room() {
        let many = place(&[0, 1, 2, 3], &[0], None).unwrap();
        assert_eq!((many.cpus, many.reserved), (vec![3], vec![3]));
        assert!(many.spin && many.doubt.is_none());
        let two = place(&[0, 1], &[0], None).unwrap();
        assert_eq!((two.cpus.as_slice(), two.reserved.len()), (&[1][..], 0));
        assert!(!two.spin && two.doubt.unwrap().contains("sources"));
        let one = place(&[0], &[0], None).unwrap();
        assert!(!one.spin && one.doubt.unwrap().contains("target"));
        let all = place(&[0, 1, 2, 3], &[0, 1, 2, 3], None).unwrap();
        assert!(!all.spin && all.doubt.unwrap().contains("target"));
    }

    #[test]
    fn a_place_that_was_asked_for_is_taken_and_judged() {
        let asked = place(&[0, 1, 2], &[0], Some(&[2])).unwrap();
        assert_eq!(asked.reserved, [2]);
        assert!(asked.spin && asked.doubt.is_none());
        let beside = place(&[0, 1], &[0], Some(&[0])).unwrap();
        assert!(!beside.spin && beside.doubt.unwrap().contains("target"));
        let last = place(&[0, 1], &[0], Some(&[1])).unwrap();
        assert!(!last.spin && last.reserved.is_empty());
        assert!(matches!(
            place(&[0], &[0], Some(&[7])),
            Err(Error::Request(_))
        ));
    }
}
