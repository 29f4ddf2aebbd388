//! Starts of both builds, and turns within each, until the time is over.

use super::bench::Bench;
use super::bench::BenchError;
use super::bench::Side;
use jostle_compare::builds::Round;
use jostle_statistics::stream;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// What a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A time in which both run on, and count.
    Count,
    /// A run of each, from its beginning to its end.
    Runs,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub method: Method,
    /// When it is to be over, on the bench's clock, and how long that is.
    pub deadline: f64,
    pub budget_seconds: f64,
    pub seed: u64,
}

/// What is known when the time is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Of each start.
    pub starts: Vec<Vec<Round>>,
    /// Starts in which a build ended before its first turn was over.
    pub ended_at_once: usize,
    pub interrupted: bool,
    pub failed: Option<BenchError>,
}

/// Turns of a start take so long, as a multiple of the time it takes to start; two
/// starts tell more than one that is twice as long as soon as starting is cheap.
const STARTING: f64 = 2.0;
/// Shortest time of turns in a start.
const SHORTEST: f64 = 0.15;
/// Starts that the time is to suffice for, as long as starting lets it.
const STARTS: f64 = 16.0;
/// Starts that end at once before one gives up.
const GIVE_UP: usize = 5;

/// Measures until the deadline, or until somebody interrupts or fails.
pub fn measure(bench: &mut dyn Bench, settings: &Settings) -> Measured {
    let mut rng = stream(settings.seed, 0);
    let mut measured = Measured::default();
    let mut longest = 0.0f64;
    loop {
        // One more that is cut off would only cost time.
        if bench.now() + 0.5 * longest >= settings.deadline {
            return measured;
        }
        let began = bench.now();
        match play(bench, settings, &mut rng) {
            Ok(Some(rounds)) => measured.starts.push(rounds),
            Ok(None) => measured.ended_at_once += 1,
            Err(BenchError::Interrupted) => {
                measured.interrupted = true;
                return measured;
            }
            Err(failed) => {
                measured.failed = Some(failed);
                return measured;
            }
        }
        if measured.starts.is_empty() && measured.ended_at_once >= GIVE_UP {
            return measured;
        }
        longest = longest.max(bench.now() - began);
    }
}

fn either(rng: &mut ChaCha8Rng) -> [Side; 2] {
    let first = match rng.random::<bool>() {
        true => Side::Old,
        false => Side::New,
    };
    [first, first.other()]
}

/// One start; `None` where a build ended at once.
fn play(
    bench: &mut dyn Bench,
    settings: &Settings,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Vec<Round>>, BenchError> {
    let began = bench.now();
    bench.start(either(rng)[0])?;
    let started = bench.now();
    let starting = started - began;
    let fitting = settings.budget_seconds / STARTS - starting;
    let length = (STARTING * starting).min(fitting).max(SHORTEST);
    let mut rounds: Vec<Round> = Vec::new();
    let mut ended = [false; 2];
    loop {
        let mut round = [(0.0, 0.0); 2];
        for side in either(rng) {
            let at = usize::from(side == Side::New);
            if ended[at] {
                continue;
            }
            let turn = bench.turn(side)?;
            round[at] = (turn.work, turn.seconds);
            ended[at] = turn.ended;
        }
        let over = match settings.method {
            // What is counted to its end may be more work for one than the other.
            Method::Count if ended != [false; 2] => {
                return Ok((!rounds.is_empty()).then_some(rounds));
            }
            Method::Count => bench.now() - started >= length,
            Method::Runs => ended == [true; 2],
        };
        rounds.push(round);
        if over {
            return Ok(Some(rounds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Turn;
    use super::*;
    use jostle_compare::builds::Word;
    use jostle_compare::builds::change;
    use jostle_compare::builds::starts;
    use jostle_compare::builds::verdict;

    /// A machine without noise but drift and the luck of each start.
    struct Fake {
        now: f64,
        /// Operations per second of OLD and of NEW.
        speeds: [f64; 2],
        luck: [f64; 2],
        /// Seconds that a start and a run take.
        starting: f64,
        run: f64,
        left: [f64; 2],
        started: usize,
        /// The start in which NEW fails.
        fails: usize,
        rng: ChaCha8Rng,
        /// Who had each turn, by start.
        order: Vec<Vec<Side>>,
    }

    impl Fake {
        fn new(speeds: [f64; 2]) -> Fake {
            Fake {
                now: 100.0,
                speeds,
                luck: [1.0; 2],
                starting: 0.05,
                run: f64::INFINITY,
                left: [0.0; 2],
                started: 0,
                fails: usize::MAX,
                rng: stream(9, 9),
                order: Vec::new(),
            }
        }

        fn measure(&mut self, method: Method, seed: u64) -> Measured {
            let settings = Settings {
                method,
                deadline: self.now + 20.0,
                budget_seconds: 20.0,
                seed,
            };
            measure(self, &settings)
        }
    }

    impl Bench for Fake {
        fn now(&self) -> f64 {
            self.now
        }

        fn start(&mut self, _first: Side) -> Result<(), BenchError> {
            self.started += 1;
            if self.started == self.fails {
                return Err(BenchError::Failed {
                    side: Side::New,
                    reason: "it exited with status 3".into(),
                });
            }
            self.now += self.starting;
            self.luck = [0, 1].map(|_| 1.0 + 0.01 * self.rng.random::<f64>());
            self.left = [0, 1].map(|at| self.run / self.speeds[at] / self.luck[at]);
            self.order.push(Vec::new());
            Ok(())
        }

        fn turn(&mut self, side: Side) -> Result<Turn, BenchError> {
            self.order.last_mut().unwrap().push(side);
            let at = usize::from(side == Side::New);
            let seconds = 0.005f64.min(self.left[at]);
            self.now += seconds;
            self.left[at] -= seconds;
            let drift = 1.0 + 0.3 * (self.now * 2.0).sin();
            let ended = self.left[at] <= 0.0;
            let work = match self.run.is_finite() {
                true => f64::from(u8::from(ended)),
                false => seconds * drift * self.speeds[at] * self.luck[at],
            };
            Ok(Turn {
                work,
                seconds,
                ended,
            })
        }
    }

    fn word(measured: &Measured) -> Word {
        verdict(&change(&starts(&measured.starts)), 0.5, 20.0).word
    }

    #[test]
    fn drift_cancels_and_a_percent_is_found() {
        let equal = Fake::new([1e6, 1e6]).measure(Method::Count, 1);
        assert!(equal.starts.len() > 40, "{}", equal.starts.len());
        assert!(matches!(word(&equal), Word::Same | Word::CannotTell));
        let slower = Fake::new([1e6, 0.99e6]).measure(Method::Count, 1);
        assert_eq!(word(&slower), Word::Slower);
    }

    #[test]
    fn whole_runs_are_compared_by_their_own_time() {
        let mut fake = Fake {
            run: 0.05,
            starting: 0.0,
            ..Fake::new([1.0, 0.98])
        };
        let measured = fake.measure(Method::Runs, 2);
        assert_eq!(word(&measured), Word::Slower);
        // Each start holds one whole run of both.
        for rounds in &measured.starts {
            let runs = |at: usize| rounds.iter().map(|round| round[at].0).sum::<f64>();
            assert_eq!((runs(0), runs(1)), (1.0, 1.0));
        }
    }

    #[test]
    fn nobody_is_always_first() {
        let mut fake = Fake::new([1e6, 1e6]);
        fake.measure(Method::Count, 3);
        let rounds = fake.order.iter().flat_map(|turns| turns.chunks_exact(2));
        let firsts: Vec<bool> = rounds.map(|round| round[0] == Side::Old).collect();
        let share = firsts.iter().filter(|old| **old).count() as f64 / firsts.len() as f64;
        assert!((0.4..0.6).contains(&share), "{share}");
        // Within a round each has one turn.
        for turns in &fake.order {
            assert!(turns.chunks_exact(2).all(|round| round[0] != round[1]));
        }
    }

    #[test]
    fn slow_starts_leave_room_for_enough_of_them() {
        let mut fake = Fake {
            starting: 0.8,
            ..Fake::new([1e6, 1e6])
        };
        let measured = fake.measure(Method::Count, 4);
        assert!(measured.starts.len() >= 14, "{}", measured.starts.len());
    }

    #[test]
    fn what_fails_in_the_middle_leaves_what_is_known() {
        let mut fake = Fake {
            fails: 4,
            ..Fake::new([1e6, 1e6])
        };
        let measured = fake.measure(Method::Count, 5);
        assert_eq!(measured.starts.len(), 3);
        assert!(
            measured
                .failed
                .unwrap()
                .to_string()
                .starts_with("NEW: it exited")
        );
        // One that ends at once is not started for the whole time.
        let mut fake = Fake {
            run: 0.004,
            ..Fake::new([1.0, 1.0])
        };
        let measured = fake.measure(Method::Count, 5);
        assert_eq!(
            (measured.starts.len(), measured.ended_at_once),
            (0, GIVE_UP)
        );
    }
}
