//! Rounds in two parts, so that what the target does to a source has two pairs in each.

use crate::experiment::executor::Arm;
use jostle_statistics::below;
use rand::rngs::ChaCha8Rng;

/// What a block is of: subject and arm.
pub(super) type ArmOf = (usize, Arm);

/// Blocks beside the target, then those without it.
pub(super) type Part = [Vec<ArmOf>; 2];

/// The blocks `beside` the target and those `alone` in one part, or in two, each of which
/// has a pair of every arm in `twice`: four pairs say little, however many blocks they
/// have. The blocks of an arm are spread over both parts then, but for those of lower
/// levels that are compared with blocks without the target in one part only.
pub(super) fn in_parts(
    mut beside: Vec<ArmOf>,
    alone: Vec<ArmOf>,
    twice: &[ArmOf],
    rng: &mut ChaCha8Rng,
) -> Vec<Part> {
    if twice.is_empty() {
        return vec![[beside, alone]];
    }
    let full = |arm: &ArmOf| arm.1.intensity() == Some(100.0);
    let mut parts = vec![Part::default(), Part::default()];
    // Arms of which all blocks are in one part, and which.
    let mut whole: Vec<(ArmOf, usize)> = Vec::new();
    for arm in alone {
        if twice.contains(&arm) {
            if parts[0][1].contains(&arm) {
                continue;
            }
            parts.iter_mut().for_each(|[_, alone]| alone.push(arm));
            if beside.iter().filter(|it| **it == arm).count() < 2 {
                beside.push(arm);
            }
            continue;
        }
        let known = whole.iter().find(|(known, _)| *known == arm);
        let part = known.map_or_else(|| below(rng, 2), |(_, part)| *part);
        whole.push((arm, part));
        parts[part][1].push(arm);
    }
    // Where the next block of an arm goes.
    let mut next: Vec<(ArmOf, usize)> = Vec::new();
    for arm in beside {
        let whole = whole.iter().find(|(known, _)| *known == arm);
        let begun = next.iter_mut().find(|(known, _)| *known == arm);
        let part = match (whole.filter(|_| !full(&arm)), begun) {
            (Some((_, part)), _) => *part,
            (None, Some((_, next))) => std::mem::replace(next, 1 - *next),
            (None, None) => {
                let part = below(rng, 2);
                next.push((arm, 1 - part));
                part
            }
        };
        parts[part][0].push(arm);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_statistics::stream;

    const FULL: Arm = Arm::Treat(100.0);
    const HALF: Arm = Arm::Treat(50.0);

    #[test]
    fn each_part_has_a_pair_and_nothing_is_lost() {
        for seed in 0..20 {
            let mut rng = stream(seed, 0);
            let control = (0, Arm::Control);
            let mut beside = vec![control; 4];
            beside.extend([
                (0, FULL),
                (0, FULL),
                (0, FULL),
                (0, HALF),
                (0, HALF),
                (1, FULL),
            ]);
            let alone = vec![(0, FULL), (0, HALF), (1, FULL), (2, HALF), (2, HALF)];
            let parts = in_parts(beside, alone, &[(0, FULL), (1, FULL)], &mut rng);
            let count = |part: usize, which: usize, arm| {
                let blocks: &Vec<ArmOf> = &parts[part][which];
                blocks.iter().filter(|it| **it == arm).count()
            };
            for part in 0..2 {
                assert_eq!(count(part, 0, control), 2);
                for source in [(0, FULL), (1, FULL)] {
                    assert_eq!(count(part, 1, source), 1);
                    assert!(count(part, 0, source) >= 1, "{source:?}");
                }
                // All of it where its block without the target is.
                assert_eq!(count(part, 0, (0, HALF)), 2 * count(part, 1, (0, HALF)));
            }
            let all = |which: usize| parts[0][which].len() + parts[1][which].len();
            assert_eq!((all(0), all(1)), (11, 7));
        }
    }

    #[test]
    fn what_is_known_well_stays_in_one_part() {
        let mut rng = stream(1, 0);
        let parts = in_parts(vec![(0, FULL); 3], vec![(0, FULL)], &[], &mut rng);
        assert_eq!(parts, [[vec![(0, FULL); 3], vec![(0, FULL)]]]);
    }
}
