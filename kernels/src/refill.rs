//! The most that a source which takes turns with somebody on a CPU can cost them:
//! what it leaves behind at the end of its turn.
//!
//! A cache of the first level is full again after one miss for each of its lines, and
//! an execution unit is free the moment nobody uses it; what a core needs to change its
//! clock or to wake a unit comes on top, and is timed. Sources that leave more behind,
//! as entries of a TLB or lines of an L2, have no such bound.

use crate::Buffer;
use crate::Environment;
use crate::Failure;
use crate::Kernel;
use crate::cycle::Cycle;
use crate::l1i;
use crate::scatter::LINE;
use crate::source;
use crate::spec::check_known;
use crate::spin::spin;
use jostle_profile::resource::Resource;
use std::time::Duration;
use std::time::Instant;

/// Walks of each kind.
const WALKS: usize = 31;
/// Passes over other code that push code out.
const PASSES: u64 = 4;
/// Turns of each kind that are timed in a round.
const TURNS: usize = 40;
/// Rounds in which a bound may become as narrow as [`NARROW`], and all that there are where it
/// says too little by then.
const ROUNDS: usize = 2;
const MOST_ROUNDS: usize = 15;
/// Share of a slice below which a bound is good enough.
const NARROW: f64 = 0.02;
/// Standard errors of a difference by which the bound lies above it.
const ERRORS: f64 = 3.0;

/// What a source leaves behind when its turn ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Time of others that it costs, once per turn of the source, at most.
    pub nanoseconds: f64,
    /// How it was found, in words with numbers.
    pub basis: String,
}

/// What the source of `resource` leaves behind on the CPU of the calling thread after
/// `slice`, for who runs there for `turn`; `None` for sources that have no such bound.
/// A bound above the share `enough` (0–1) of a slice is looked into longer. For units it takes
/// 0.1 to 0.2 s with a slice of 0.1 ms and turns of 0.4 ms; 0.8 s were seen where it was.
///
/// # Errors
/// When there is no memory, or the size of a cache is not known.
pub fn left_behind(
    resource: Resource,
    env: &Environment,
    slice: Duration,
    turn: Duration,
    enough: f64,
) -> Option<Result<Left, Failure>> {
    let look = Look {
        slice,
        turn,
        enough,
    };
    Some(match resource {
        Resource::L1d => lines(env),
        Resource::L1i => code(env),
        Resource::Int => units(&[Resource::Int], resource, env, &look),
        // The clock of the core shows in what needs nothing else.
        Resource::Fp | Resource::Vector => units(&[Resource::Int, resource], resource, env, &look),
        _ => return None,
    })
}

/// Lines of the L1 data cache.
fn lines(env: &Environment) -> Result<Left, Failure> {
    check_known(env.l1d_bytes, "L1 data cache")?;
    check_known(env.l2_bytes, "L2 cache")?;
    let lines = (env.l1d_bytes / LINE).max(2);
    let walk = Buffer::of_zeroed_lines(lines * LINE)?;
    let other = Buffer::resident((env.l2_bytes / 2).max(LINE) as usize)?;
    let words = (LINE / 8) as usize;
    let cycle = Cycle::over(lines);
    let longer = longer(
        || {
            for line in 0..other.len() / LINE as usize {
                other.read(line * words);
            }
        },
        || cycle.forward(|line| walk.read(line as usize * words)),
    );
    Ok(Left {
        nanoseconds: longer,
        basis: format!(
            "a dependent walk over {} KiB took {:.1} µs longer right after eviction",
            env.l1d_bytes >> 10,
            longer / 1e3
        ),
    })
}

/// Lines of the L1 instruction cache. Code is fetched no slower than data that each
/// wait for the one before, and what predicts the way through it is displaced too.
fn code(env: &Environment) -> Result<Left, Failure> {
    check_known(env.l1i_bytes, "L1 instruction cache")?;
    let all = env.l1i_bytes / l1i::BLOCK;
    // The region has to hold as much again that pushes it out.
    let blocks = all.clamp(1, l1i::SLOTS / 3);
    let others = l1i::SLOTS - blocks;
    let cycle = Cycle::over(blocks);
    let longer = longer(
        || {
            l1i::run_chain(2 * blocks, PASSES);
        },
        || {
            cycle.forward(|block| {
                l1i::visit_middle(others + block);
                0
            })
        },
    );
    let whole = longer * all as f64 / blocks as f64;
    Ok(Left {
        nanoseconds: whole,
        basis: format!(
            "running {} KiB of code in random order took {:.1} µs longer right after other code \
             had run",
            env.l1i_bytes >> 10,
            whole / 1e3
        ),
    })
}

/// By how much longer `walk` takes after `evict`, in nanoseconds: the usual time
/// against the shortest, so that noise does not lower it.
fn longer(evict: impl Fn(), walk: impl Fn() -> f64) -> f64 {
    let (mut cold, mut warm) = (Vec::with_capacity(WALKS), f64::INFINITY);
    for _ in 0..WALKS {
        evict();
        cold.push(walk());
        walk();
        warm = warm.min(walk());
    }
    (middle(&mut cold) - warm).max(0.0)
}

/// Turns in which a bound is found, and when it says enough.
struct Look {
    slice: Duration,
    turn: Duration,
    /// Share of the slice (0–1).
    enough: f64,
}

impl Look {
    /// Whether the bound of `most` nanoseconds that so many rounds gave says enough.
    fn is_enough(&self, most: f64, rounds: usize) -> bool {
        let share = if rounds < ROUNDS {
            NARROW
        } else {
            NARROW.max(self.enough)
        };
        most <= share * self.slice.as_nanos() as f64
    }
}

/// What those who need `needed` units, one after the other, lose in a turn after a
/// slice of the source of `resource`, against one after a slice of the placebo.
fn units(
    needed: &[Resource],
    resource: Resource,
    env: &Environment,
    look: &Look,
) -> Result<Left, Failure> {
    let mut intruder = (source(resource).build)(env)?;
    intruder.set_intensity(100.0);
    let mut most = 0.0_f64;
    for &unit in needed {
        let mut victim = (source(unit).build)(env)?;
        victim.set_intensity(100.0);
        most = most.max(lost(&mut *victim, &mut *intruder, look)?);
    }
    let names: Vec<&str> = needed.iter().map(|unit| unit.id()).collect();
    Ok(Left {
        nanoseconds: most,
        basis: format!(
            "turns of work that needs {} alone took at most {:.1} µs longer after a \
             slice of the source than after one of the placebo",
            names.join(" or "),
            most / 1e3
        ),
    })
}

/// Nanoseconds that `victim` takes longer for about a turn of work after a slice of
/// `intruder`: the upper end of an interval.
fn lost(victim: &mut dyn Kernel, intruder: &mut dyn Kernel, look: &Look) -> Result<f64, Failure> {
    let mut timed = |calls: u32| -> Result<f64, Failure> {
        let begin = Instant::now();
        for _ in 0..calls {
            victim.work()?;
        }
        Ok(begin.elapsed().as_nanos() as f64)
    };
    let mut each = f64::INFINITY;
    for _ in 0..5 {
        each = each.min(timed(1)?);
    }
    let calls = (look.turn.as_nanos() as f64 / each).ceil().clamp(1.0, 1e6) as u32;
    let mut after = |slice_of: &mut dyn FnMut() -> Result<(), Failure>| {
        let begin = Instant::now();
        while begin.elapsed() < look.slice {
            slice_of()?;
        }
        timed(calls)
    };
    let mut differences = Vec::with_capacity(MOST_ROUNDS * TURNS);
    let mut most = f64::INFINITY;
    for round in 1..=MOST_ROUNDS {
        for turn in 0..TURNS {
            let mut placebo = || {
                spin(20);
                Ok(())
            };
            let mut source = || intruder.work().map(|_| ());
            // What drifts cancels within a pair, and what comes first in the next.
            let [alone, beside] = match turn % 2 {
                0 => [after(&mut placebo)?, after(&mut source)?],
                _ => {
                    let beside = after(&mut source)?;
                    [after(&mut placebo)?, beside]
                }
            };
            differences.push(beside - alone);
        }
        most = (middle(&mut differences) + ERRORS * error(&differences)).max(0.0);
        if look.is_enough(most, round) {
            break;
        }
    }
    Ok(most)
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Standard error of the median of sorted `values`, from their quartiles: under the
/// normal law 1.25 standard deviations over the root of their number, of which the
/// quartiles lie 1.35 apart.
fn error(values: &[f64]) -> f64 {
    let quarter = values.len() / 4;
    let range = values[values.len() - 1 - quarter] - values[quarter];
    1.25 * range / 1.35 / (values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            l1d_bytes: 32 << 10,
            l1i_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            memory_headroom_bytes: 1 << 30,
            ..Environment::default()
        }
    }

    const SLICE: Duration = Duration::from_micros(80);
    const TURN: Duration = Duration::from_micros(320);

    #[test]
    fn what_has_a_bound_says_how_it_was_found() {
        let bounded = [
            Resource::L1d,
            Resource::L1i,
            Resource::Int,
            Resource::Fp,
            Resource::Vector,
        ];
        for &resource in Resource::ALL {
            let left = left_behind(resource, &environment(), SLICE, TURN, 0.05);
            assert_eq!(left.is_some(), bounded.contains(&resource), "{resource}");
            let Some(left) = left else { continue };
            let left = match left {
                Ok(left) => left,
                // There is no such code elsewhere.
                Err(_) if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) => {
                    continue;
                }
                Err(failure) => panic!("{resource}: {failure:?}"),
            };
            println!("{resource}: {left:?}");
            assert!(left.nanoseconds.is_finite() && left.nanoseconds >= 0.0);
            assert!(left.basis.contains("µs longer"), "{}", left.basis);
        }
        let unknown = left_behind(Resource::L1d, &Environment::default(), SLICE, TURN, 0.05);
        assert!(unknown.unwrap().unwrap_err().0.contains("not known"));
    }

    #[test]
    fn a_bound_is_looked_into_until_it_says_enough() {
        let look = |enough| Look {
            slice: SLICE,
            turn: TURN,
            enough,
        };
        // 2 % of the slice are 1.6 µs, 5 % are 4 µs.
        assert!(look(0.05).is_enough(1500.0, 1));
        assert!(!look(0.05).is_enough(3000.0, ROUNDS - 1));
        assert!(look(0.05).is_enough(3000.0, ROUNDS));
        assert!(!look(0.05).is_enough(5000.0, ROUNDS));
        assert!(look(0.0).is_enough(1500.0, ROUNDS));
    }

    /// Its work takes longer for a while after the intruder ran.
    struct Slowed<'a> {
        calls: &'a std::cell::Cell<u32>,
        by: Duration,
    }

    impl Kernel for Slowed<'_> {
        fn work(&mut self) -> Result<u64, Failure> {
            let length = match self.calls.replace(0) {
                0 => Duration::from_micros(20),
                _ => Duration::from_micros(20) + self.by,
            };
            let begin = Instant::now();
            while begin.elapsed() < length {}
            Ok(1)
        }
    }

    struct Marks<'a>(&'a std::cell::Cell<u32>);

    impl Kernel for Marks<'_> {
        fn work(&mut self) -> Result<u64, Failure> {
            self.0.set(1);
            spin(100);
            Ok(1)
        }
    }

    #[test]
    fn what_is_left_behind_is_within_the_bound() {
        let calls = std::cell::Cell::new(0);
        let look = Look {
            slice: SLICE,
            turn: TURN,
            enough: 0.05,
        };
        for microseconds in [0, 40] {
            let by = Duration::from_micros(microseconds);
            let mut victim = Slowed { calls: &calls, by };
            let most = lost(&mut victim, &mut Marks(&calls), &look).unwrap() / 1e3;
            let planted = microseconds as f64;
            assert!(most >= 0.9 * planted, "{most} of {planted}");
            assert!(most < planted + 40.0, "{most} of {planted}");
        }
    }
}
