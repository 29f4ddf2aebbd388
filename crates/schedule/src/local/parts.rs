//! How what is shared by several CPUs is best divided among groups: the ways of a
//! last-level cache, the bandwidth of memory.

use super::Member;
use jostle_profile::resource::Resource;

/// Sum of performances that a division must gain before anything is divided at all: less
/// is within what the predictions err by.
const LEAST_GAIN: f64 = 0.02;

/// A division.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// Per group, in the order given; they add up to all parts.
    pub parts: Vec<usize>,
    /// Sum over all members of the fractions of performance that the resource leaves
    /// them, with the division and without it.
    pub divided: f64,
    pub shared: f64,
}

/// Divides `parts` of `resource` among `groups` of `members`, at least `least` to each.
/// `None` where sharing all of them is as good, as far as is known, or where there are too
/// few.
///
/// A group with a share keeps what its members' curves say of a neighbour that holds the
/// rest; without a division the others hold what they press with.
pub fn divide(
    members: &[Member],
    groups: &[Vec<usize>],
    resource: Resource,
    (parts, least): (usize, usize),
) -> Option<Parts> {
    let lane = resource as usize;
    let least = least.max(1);
    if groups.len() < 2 || groups.len() * least > parts {
        return None;
    }
    let kept = |index: usize, held: f64| {
        let curves = &members[index].app.responses.curves;
        let curve = curves.iter().find(|curve| curve.lane() == lane);
        curve.map_or(1.0, |curve| f64::from(curve.at(held as f32).0).exp())
    };
    let presses = |group: &Vec<usize>| -> f64 {
        let each = group.iter();
        each.map(|index| f64::from(members[*index].app.responses.caused[lane]))
            .fold(0.0, f64::max)
    };
    let sum =
        |group: &[usize], held: f64| -> f64 { group.iter().map(|index| kept(*index, held)).sum() };
    let everybody: f64 = groups.iter().map(presses).sum();
    let shared: f64 = groups
        .iter()
        .map(|group| sum(group, (everybody - presses(group)).clamp(0.0, 100.0)))
        .sum();
    // Per number of parts spent on the groups so far: the best sum, and how many the
    // last of them got.
    let mut best = vec![Some(0.0)];
    best.resize(parts + 1, None);
    let mut chosen = Vec::new();
    for group in groups {
        let mut next: Vec<Option<f64>> = vec![None; parts + 1];
        let mut taken = vec![0; parts + 1];
        for (spent, known) in best.iter().enumerate() {
            let Some(known) = known else { continue };
            for own in least..=parts - spent {
                let held = 100.0 * (parts - own) as f64 / parts as f64;
                let total = known + sum(group, held);
                // More than it needs is of no use to a group: the fewest of equals.
                if next[spent + own].is_none_or(|known| total > known + 1e-9) {
                    (next[spent + own], taken[spent + own]) = (Some(total), own);
                }
            }
        }
        best = next;
        chosen.push(taken);
    }
    let divided = best[parts]?;
    let mut left = parts;
    let mut found: Vec<usize> = chosen
        .iter()
        .rev()
        .map(|taken| {
            let own = taken[left];
            left -= own;
            own
        })
        .collect();
    found.reverse();
    (divided > shared + LEAST_GAIN).then_some(Parts {
        parts: found,
        divided,
        shared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::App;
    use crate::predict::Curve;
    use crate::predict::GRID;
    use crate::predict::GRID_STEP;
    use crate::predict::LANES;
    use crate::predict::LaneSet;
    use crate::predict::Responses;

    const CACHE: usize = Resource::LlcCapacity as usize;

    /// It keeps all until others hold more than `needs` percent less than everything,
    /// then falls to a tenth, and presses with `presses` points.
    fn app(name: &str, needs: f32, presses: f32) -> App {
        let mut caused = [None; LANES];
        caused[CACHE] = Some((presses, 0.0));
        let ln = std::array::from_fn(|step| match step as f32 * GRID_STEP > 100.0 - needs {
            true => 0.1_f32.ln(),
            false => 0.0,
        });
        let curve = Curve::new(CACHE, ln, [0.0; GRID]);
        App::bare(name, Responses::new(vec![curve], LaneSet::EMPTY, &caused))
    }

    fn of(apps: &[App], groups: &[Vec<usize>], ways: usize) -> Option<Parts> {
        let members: Vec<Member> = apps.iter().map(|app| Member { app, cpus: 1 }).collect();
        divide(&members, groups, Resource::LlcCapacity, (ways, 1))
    }

    #[test]
    fn who_needs_the_cache_gets_what_it_needs() {
        // One needs half of it, and beside a stream has nothing.
        let apps = [app("needs", 50.0, 10.0), app("stream", 0.0, 100.0)];
        let found = of(&apps, &[vec![0], vec![1]], 16).unwrap();
        assert_eq!(found.parts.iter().sum::<usize>(), 16);
        assert!(found.parts[0] >= 8, "{found:?}");
        assert!((found.divided - 2.0).abs() < 1e-6, "{found:?}");
        assert!((found.shared - 1.1).abs() < 1e-6, "{found:?}");
        // Two that fit, one beside them that never does.
        let apps = [
            app("small", 20.0, 5.0),
            app("medium", 60.0, 5.0),
            app("stream", 0.0, 100.0),
        ];
        let found = of(&apps, &[vec![0], vec![1], vec![2]], 20).unwrap();
        assert!(found.parts[0] >= 4 && found.parts[1] >= 12, "{found:?}");
    }

    #[test]
    fn a_cache_is_left_whole_where_nobody_gains() {
        let quiet = [app("a", 50.0, 0.0), app("b", 50.0, 0.0)];
        assert_eq!(of(&quiet, &[vec![0], vec![1]], 16), None);
        let careless = [app("a", 0.0, 100.0), app("b", 0.0, 100.0)];
        assert_eq!(of(&careless, &[vec![0], vec![1]], 16), None);
        // Nobody can be told apart on one CPU, and each needs one way.
        let apps = [app("a", 50.0, 0.0), app("b", 0.0, 100.0)];
        assert_eq!(of(&apps, &[vec![0, 1]], 16), None);
        assert_eq!(of(&apps, &[vec![0], vec![1]], 1), None);
    }
}
