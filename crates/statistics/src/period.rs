//! The period of a program that does the same again and again without ending.

use super::course::Step;

/// Steps are put together until they last so long, in seconds: single ones hold too
/// few operations to tell fast from slow.
const STRETCH: f64 = 0.003;
/// What is left of a block counts from this length on, in seconds.
const SHORTEST_STRETCH: f64 = 0.001;
/// Shortest period that is looked for, in seconds, and in operations.
const SHORTEST: f64 = 0.004;
const FEWEST: f64 = 2.5;
/// Times that a period has to have been seen.
const SEEN: f64 = 4.0;
/// Places of a period that are told apart when it is looked for, and when it is known
/// roughly.
const BINS: usize = 16;
const FINE_BINS: usize = 64;
const MOST_BINS: usize = 256;
/// Most times that a period may hold one that was found roughly.
const MOST_PARTS: u32 = 16;
/// Periods tried for one that the length of the record can tell apart.
const TRIES: f64 = 4.0;
const FINE_TRIES: f64 = 32.0;
/// Most stretches that are looked at.
const MOST: usize = 2000;
/// Most periods that are tried.
const MOST_TRIES: f64 = 60_000.0;
/// Share of the variance between stretches that the place in the period has to explain.
const EXPLAINED: f64 = 0.06;
/// A shorter period is taken that explains this share of what the best one does.
const NEARLY: f64 = 0.97;

/// What was done in one stretch of time.
struct Stretch {
    /// Operations before its middle.
    middle: f64,
    /// How much faster than usual, relative.
    faster: f64,
}

/// Operations from one place of the program to where it comes there again, found by
/// phase dispersion (Stellingwerf 1978) over `steps` of one run in order of time; `None`
/// where no period makes the rates of like places alike.
pub fn period(steps: &[Step]) -> Option<f64> {
    let operations = steps.last()?.to - steps.first()?.from;
    let (seconds, done) = steps.iter().fold((0.0, 0.0), |sum, step| {
        (sum.0 + step.seconds, sum.1 + step.to - step.from)
    });
    let rate = done / seconds;
    if !(rate > 0.0 && rate.is_finite() && operations.is_finite()) {
        return None;
    }
    let mut stretches = stretches(steps, rate);
    if stretches.len() < 8 * BINS {
        return None;
    }
    let every = stretches.len().div_ceil(MOST);
    if every > 1 {
        let mut index = 0;
        stretches.retain(|_| {
            index += 1;
            usize::is_multiple_of(index, every)
        });
    }
    let shortest = (SHORTEST * rate).max(FEWEST);
    let step = 1.0 / (TRIES * operations);
    let (lowest, highest) = (SEEN / operations, 1.0 / shortest);
    let tries = ((highest - lowest) / step).min(MOST_TRIES);
    if tries < 1.0 {
        return None;
    }
    let found: Vec<(f64, f64)> = (0..=tries as usize)
        .map(|index| {
            let frequency = lowest + index as f64 * step;
            (frequency, explained(&stretches, frequency, BINS))
        })
        .collect();
    let best = found.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    if best < EXPLAINED {
        return None;
    }
    // Of a period and its multiples, which explain as much, the shortest.
    let (rough, _) = *found
        .iter()
        .rev()
        .find(|(_, share)| *share >= NEARLY * best)?;
    // What differs in details within the whole may repeat itself roughly in a part of
    // it, and is told apart by finer bins alone.
    let (mut period, mut most) = (0.0, 0.0);
    for parts in 1..=MOST_PARTS {
        let near = rough / f64::from(parts);
        if near * operations < SEEN {
            break;
        }
        let bins = (BINS * parts as usize).min(MOST_BINS);
        let finest = bins.max(FINE_BINS);
        let fine = 1.0 / (FINE_TRIES * operations);
        let reach = (2.0 * FINE_TRIES / TRIES) as i32;
        let around = (-reach..=reach).map(|index| near + f64::from(index) * fine);
        let tried = around.map(|frequency| (frequency, explained(&stretches, frequency, finest)));
        let (frequency, share) = tried.max_by(|a, b| a.1.total_cmp(&b.1))?;
        if share * NEARLY > most {
            (period, most) = (1.0 / frequency, share);
        }
    }
    (period > 0.0).then_some(period)
}

fn stretches(steps: &[Step], rate: f64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut last = f64::NEG_INFINITY;
    // Begin and end in operations, and seconds.
    let mut open: Option<(f64, f64, f64)> = None;
    let mut close = |open: Option<(f64, f64, f64)>| {
        let Some((from, to, seconds)) = open else {
            return;
        };
        if seconds >= SHORTEST_STRETCH {
            stretches.push(Stretch {
                middle: 0.5 * (from + to),
                faster: (to - from) / seconds / rate - 1.0,
            });
        }
    };
    for step in steps {
        // Something was missed: what comes is a stretch of its own.
        if step.from > last + 1.0 {
            close(open.take());
        }
        last = step.to;
        let (from, _, seconds) = open.unwrap_or((step.from, step.from, 0.0));
        let seconds = seconds + step.seconds;
        open = Some((from, step.to, seconds));
        if seconds >= STRETCH {
            close(open.take());
        }
    }
    close(open);
    stretches
}

/// Share of the variance that lies between `bins` places of a period.
fn explained(stretches: &[Stretch], frequency: f64, bins: usize) -> f64 {
    let mut sums = [(0.0, 0.0); MOST_BINS];
    let (mut sum, mut squares) = (0.0, 0.0);
    for stretch in stretches {
        let bin = (stretch.middle * frequency).fract() * bins as f64;
        let of = &mut sums[(bin as usize).min(bins - 1)];
        of.0 += stretch.faster;
        of.1 += 1.0;
        sum += stretch.faster;
        squares += stretch.faster * stretch.faster;
    }
    let count = stretches.len() as f64;
    let common = sum * sum / count;
    let used = sums[..bins].iter().filter(|(_, count)| *count > 0.0);
    let used = used.map(|(sum, count)| sum * sum / count);
    let (between, groups) = used.fold((0.0, 0.0), |all, one| (all.0 + one, all.1 + 1.0));
    let within = squares - between;
    // Each group takes a part of the noise with it.
    let unexplained = within / (count - groups).max(1.0);
    let all = (squares - common) / (count - 1.0).max(1.0);
    match all > 0.0 {
        true => 1.0 - unexplained / all,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Noise;

    /// Steps of 0.5 ms of a program whose loop of 100 operations is slow for 60 of
    /// them; three of four are read.
    fn steps(seconds: f64, contrast: f64, noise: f64) -> Vec<Step> {
        let mut random = Noise::seeded(11);
        let (mut steps, mut place, mut at) = (Vec::new(), 0.0f64, 0.0);
        while at < seconds {
            let slow = place % 100.0 < 60.0;
            let usual = if slow { 3000.0 } else { 3000.0 * contrast };
            let to = place + usual * 0.0005 * (noise * random.normal()).exp();
            if !((at / 0.005) as u64).is_multiple_of(4) {
                steps.push(Step {
                    run: 0,
                    from: place.floor(),
                    to: to.floor(),
                    seconds: 0.0005,
                });
            }
            place = to;
            at += 0.0005;
        }
        steps
    }

    #[test]
    fn a_loop_is_found() {
        for seconds in [3.0, 20.0] {
            let found = period(&steps(seconds, 3.0, 0.2)).unwrap();
            assert!((found - 100.0).abs() < 0.2 / seconds * 3.0, "{found}");
        }
    }

    #[test]
    fn details_tell_a_part_from_the_whole() {
        // Four loops alike but for a slow end of the last.
        let mut random = Noise::seeded(5);
        let (mut steps, mut place) = (Vec::new(), 0.0f64);
        for _ in 0..40_000 {
            let slow = place % 100.0 < 60.0 || place % 400.0 > 360.0;
            let usual = if slow { 3000.0 } else { 9000.0 };
            let to = place + usual * 0.0005 * (0.1 * random.normal()).exp();
            steps.push(Step {
                run: 0,
                from: place.floor(),
                to: to.floor(),
                seconds: 0.0005,
            });
            place = to;
        }
        let found = period(&steps).unwrap();
        assert!((found - 400.0).abs() < 0.1, "{found}");
    }

    #[test]
    fn what_has_no_period_shows_none() {
        assert_eq!(period(&steps(20.0, 1.0, 0.3)), None);
        assert_eq!(period(&steps(0.05, 3.0, 0.2)), None);
        assert_eq!(period(&[]), None);
    }
}
