//! Blocks on the real machine.

use super::measure::Bench;
use crate::pairs::Arm;
use crate::pairs::Bench as _;
use crate::pairs::BenchError;
use crate::pairs::Did;
use crate::pairs::LiveBench;
use jostle_host::sys::clock::monotonic_ns;

/// One target on more or fewer CPUs.
pub(super) struct Up<'a> {
    pub bench: LiveBench<'a>,
    /// CPUs of each size.
    pub cpus: Vec<Vec<usize>>,
}

/// More or fewer copies.
pub(super) struct Out<'a> {
    pub bench: LiveBench<'a>,
    pub sizes: Vec<usize>,
}

fn now() -> f64 {
    monotonic_ns() as f64 / 1e9
}

impl Bench for Up<'_> {
    fn now(&self) -> f64 {
        now()
    }

    fn play(&mut self, size: usize) -> Result<Did, BenchError> {
        self.bench.members()[0].confine(&self.cpus[size])?;
        let block = self.bench.play(Arm::Apart(0))?;
        block.did[0].ok_or_else(|| unread(0))
    }
}

impl Bench for Out<'_> {
    fn now(&self) -> f64 {
        now()
    }

    fn play(&mut self, size: usize) -> Result<Did, BenchError> {
        let block = self.bench.play(Arm::First(self.sizes[size]))?;
        let copies = &block.did[..self.sizes[size]];
        let all: Option<Vec<Did>> = copies.iter().copied().collect();
        let all = all.filter(|all| !all.is_empty()).ok_or_else(|| unread(0))?;
        Ok(sum(&all))
    }
}

fn unread(member: usize) -> BenchError {
    BenchError::Ended {
        member,
        reason: "its speed could not be read".into(),
    }
}

/// What several did at once: their rates add.
fn sum(all: &[Did]) -> Did {
    let seconds = all.iter().map(|did| did.seconds).sum::<f64>() / all.len() as f64;
    let rate: f64 = all.iter().map(|did| did.work / did.seconds.max(1e-9)).sum();
    Did {
        work: rate * seconds,
        seconds,
        // The course of a run tells of one copy only.
        place: match all {
            [one] => one.place,
            _ => None,
        },
        restarted: all.iter().any(|did| did.restarted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(work: f64, seconds: f64) -> Did {
        Did {
            work,
            seconds,
            place: Some((1, 2.0)),
            restarted: false,
        }
    }

    #[test]
    fn rates_of_copies_add() {
        let both = sum(&[did(10.0, 1.0), did(30.0, 2.0)]);
        assert!((both.work / both.seconds - 25.0).abs() < 1e-12);
        assert_eq!(both.place, None);
        assert_eq!(sum(&[did(10.0, 1.0)]), did(10.0, 1.0));
    }
}
