//! When requests are due, and what each asks for. Both come from the seed
//! alone, so that the same load can be sent again.

use crate::arrivals::Arrivals;
use crate::error::Error;
use crate::error::Result;
use crate::operation::Operation;
use crate::operation::Request;
use crate::spec::LoadSpec;
use rand::Rng;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::Distribution;
use rand_distr::Exp1;
use rand_distr::Zipf;
use std::time::Duration;

/// A ramp begins at this share of the rate: a gap must end.
const RAMP_FROM: f64 = 0.02;

/// The times at which requests are due.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    random: ChaCha8Rng,
    per_ns: f64,
    ramp_ns: f64,
    start_ns: u64,
    next_ns: u64,
    /// What is left of the last gap below a nanosecond.
    rest_ns: f64,
}

impl Schedule {
    /// Times from `now_ns` on at `rate` per second, which a `ramp` reaches.
    pub fn new(arrivals: Arrivals, rate: f64, ramp: Duration, seed: u64, now_ns: u64) -> Self {
        let mut schedule = Schedule {
            arrivals,
            random: ChaCha8Rng::seed_from_u64(seed),
            per_ns: rate / 1e9,
            ramp_ns: ramp.as_nanos() as f64,
            start_ns: now_ns,
            next_ns: now_ns,
            rest_ns: 0.0,
        };
        schedule.advance();
        schedule
    }

    /// The next time, in nanoseconds of the clock given to `new`.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Draws the time after that.
    pub fn advance(&mut self) {
        let mut per_ns = self.per_ns;
        let elapsed = (self.next_ns - self.start_ns) as f64;
        if elapsed < self.ramp_ns {
            per_ns *= (elapsed / self.ramp_ns).max(RAMP_FROM);
        }
        let gaps: f64 = match self.arrivals {
            Arrivals::Poisson => Exp1.sample(&mut self.random),
            Arrivals::Uniform => 1.0,
        };
        let gap = gaps / per_ns + self.rest_ns;
        self.rest_ns = gap.fract();
        self.next_ns += gap as u64;
    }

    /// Starts again: the next request is due one gap after `now_ns`.
    pub fn restart(&mut self, now_ns: u64) {
        // The ramp, if any, is not climbed again.
        (self.ramp_ns, self.rest_ns) = (0.0, 0.0);
        (self.start_ns, self.next_ns) = (now_ns, now_ns);
        self.advance();
    }
}

/// The sequence of requests.
#[derive(Debug)]
pub struct Traffic {
    random: ChaCha8Rng,
    keys: u64,
    /// `None`: all alike.
    zipf: Option<Zipf<f64>>,
    /// Reads are the draws below this.
    reads_below: u64,
    reads_only: bool,
    /// HTTP: per request of the mix the draws below which it is taken, and how its
    /// answer is read.
    mix: Vec<(u64, Operation)>,
}

impl Traffic {
    /// What `spec` asks for.
    ///
    /// # Errors
    /// When the distribution of its keys does not exist.
    pub fn new(spec: &LoadSpec) -> Result<Traffic> {
        let (keys, exponent) = (spec.keys, spec.zipf_exponent);
        let zipf = match exponent == 0.0 {
            true => None,
            false => Some(Zipf::new(keys as f64, exponent)),
        };
        let zipf = zipf.transpose().map_err(|reason| Error::Zipf {
            keys,
            exponent,
            reason,
        })?;
        let weights: f64 = spec.requests.iter().map(|request| request.weight).sum();
        let mut below = 0.0;
        let mix = spec.requests.iter().map(|request| {
            below += request.weight / weights;
            ((below * u64::MAX as f64) as u64, request.operation())
        });
        Ok(Traffic {
            mix: mix.collect(),
            // Not the sequence of the send times.
            random: ChaCha8Rng::seed_from_u64(spec.seed ^ 0x6b65_7973),
            keys: keys.max(1),
            zipf,
            reads_below: (spec.read_percent / 100.0 * u64::MAX as f64) as u64,
            reads_only: spec.read_percent >= 100.0,
        })
    }

    pub fn next_request(&mut self) -> Request {
        let key = match &self.zipf {
            // Fair to within keys / 2^64.
            None => ((u128::from(self.random.next_u64()) * u128::from(self.keys)) >> 64) as u64,
            Some(zipf) => (zipf.sample(&mut self.random) as u64).clamp(1, self.keys) - 1,
        };
        let (template, operation) = match self.mix.as_slice() {
            [] if self.reads_only || self.random.next_u64() < self.reads_below => {
                (0, Operation::Get)
            }
            [] => (0, Operation::Set),
            [(_, only)] => (0, *only),
            several => {
                let draw = self.random.next_u64();
                let index = several.partition_point(|(below, _)| *below <= draw);
                let index = index.min(several.len() - 1);
                (index, several[index].1)
            }
        };
        Request {
            operation,
            key,
            template,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::HttpRequest;

    fn traffic(url: &str, keys: u64, zipf_exponent: f64, read_percent: f64, seed: u64) -> Traffic {
        let spec = LoadSpec {
            keys,
            zipf_exponent,
            read_percent,
            seed,
            ..LoadSpec::new(url.parse().unwrap())
        };
        Traffic::new(&spec).unwrap()
    }

    #[test]
    fn requests_of_a_mix_come_as_often_as_their_weights_say() {
        let of = |weight, method: &str| HttpRequest {
            weight,
            method: method.into(),
            ..HttpRequest::get("/")
        };
        let spec = LoadSpec {
            requests: vec![of(6.0, "GET"), of(3.0, "POST"), of(1.0, "HEAD")],
            ..LoadSpec::new("http://h".parse().unwrap())
        };
        let mut traffic = Traffic::new(&spec).unwrap();
        let mut seen = [0.0_f64; 3];
        for _ in 0..100_000 {
            let request = traffic.next_request();
            let heads = request.operation == Operation::Head;
            assert_eq!(heads, request.template == 2);
            seen[request.template] += 1.0;
        }
        for (seen, share) in seen.iter().zip([0.6, 0.3, 0.1]) {
            assert!((seen / 100_000.0 - share).abs() < 0.006, "{seen}");
        }
    }

    fn times(arrivals: Arrivals, seed: u64, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, 10_000.0, Duration::ZERO, seed, 5);
        (0..count)
            .map(|_| {
                let at = schedule.next_ns();
                schedule.advance();
                at
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_load() {
        assert_eq!(
            times(Arrivals::Poisson, 7, 1000),
            times(Arrivals::Poisson, 7, 1000)
        );
        assert_ne!(
            times(Arrivals::Poisson, 7, 1000),
            times(Arrivals::Poisson, 8, 1000)
        );
        let requests = |seed| {
            let mut traffic = traffic("redis://h", 1000, 0.9, 70.0, seed);
            (0..1000)
                .map(|_| traffic.next_request())
                .collect::<Vec<_>>()
        };
        assert_eq!(requests(7), requests(7));
        assert_ne!(requests(7), requests(8));
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_asked_for() {
        for (arrivals, spread) in [(Arrivals::Poisson, 1.0), (Arrivals::Uniform, 0.0)] {
            let at = times(arrivals, 3, 100_000);
            let gaps: Vec<f64> = at.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let deviation = (variance / gaps.len() as f64).sqrt() / mean;
            assert!((deviation - spread).abs() < 0.02, "{deviation}");
        }
        // Fractions of a nanosecond are not lost.
        let mut schedule = Schedule::new(Arrivals::Uniform, 3e8, Duration::ZERO, 1, 0);
        for _ in 0..2999 {
            schedule.advance();
        }
        assert!(schedule.next_ns().abs_diff(10_000) <= 1);
    }

    #[test]
    fn a_ramp_climbs_once() {
        let ramp = Duration::from_secs(1);
        let mut schedule = Schedule::new(Arrivals::Uniform, 1000.0, ramp, 1, 0);
        let mut count = 0;
        while schedule.next_ns() < 1_000_000_000 {
            count += 1;
            schedule.advance();
        }
        assert!((400..600).contains(&count), "{count}");
        schedule.restart(2_000_000_000);
        assert_eq!(schedule.next_ns(), 2_001_000_000);
    }

    #[test]
    fn frequencies_follow_zipf() {
        let draws = 200_000;
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let keys = 100;
            let mut traffic = traffic("redis://h", keys, exponent, 90.0, 11);
            let mut seen = vec![0u64; keys as usize];
            let mut reads = 0;
            for _ in 0..draws {
                let request = traffic.next_request();
                seen[request.key as usize] += 1;
                reads += u64::from(request.operation == Operation::Get);
            }
            let norm: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
            for rank in [1u64, 2, 10, 100] {
                let expected = draws as f64 * (rank as f64).powf(-exponent) / norm;
                let got = seen[rank as usize - 1] as f64;
                let bound = 5.0 * expected.sqrt() + 1.0;
                assert!(
                    (got - expected).abs() < bound,
                    "exponent {exponent}, rank {rank}: {got} instead of {expected}"
                );
            }
            let share = reads as f64 / draws as f64;
            assert!((share - 0.9).abs() < 0.005, "{share}");
        }
    }

    #[test]
    fn shares_of_nothing_and_everything_are_exact() {
        let count = |percent| {
            let mut traffic = traffic("memcached://h", 1, 0.0, percent, 1);
            (0..10_000)
                .filter(|_| traffic.next_request().operation == Operation::Get)
                .count()
        };
        assert_eq!((count(0.0), count(100.0)), (0, 10_000));
    }
}
