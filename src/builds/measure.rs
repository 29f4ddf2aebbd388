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
