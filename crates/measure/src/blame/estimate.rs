//! What the victim gains while one candidate stands still, from its pauses.
//!
//! Speed in the pause is compared with speed before it, by the estimate of
//! measured pairs ([`crate::pairs::estimate`]): *apart* is the time in which the
//! candidate stood still, *together* the time before. How much of the time before
//! serves best depends on what makes the noise: near windows where it is drift,
//! all the time between pauses where the victim time-shares a CPU and a window of
//! 5 ms holds one of its turns or none. All candidates together decide, so that
//! none is judged by the comparison that makes it look worst.

use super::bench::Arm;
use super::bench::Pause;
use super::bench::REACHES;
use super::bench::Window;
use crate::pairs::Estimated;
use crate::pairs::Sample;
use crate::pairs::estimate;
use jostle_profile::blame::PausedAndNot;
use jostle_profile::blame::TimeSplit;

/// One pause in its round.
#[derive(Clone, Debug)]
pub struct Record {
    pub round: usize,
    pub arm: Arm,
    pub pause: Pause,
}

/// Which windows the pauses are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The window of this reach before the same pause.
    Own(usize),
    /// All the time between the pauses of the same round.
    Round,
}

impl Beside {
    const ALL: [Beside; REACHES.len() + 1] = [
        Beside::Own(0),
        Beside::Own(1),
        Beside::Own(2),
        Beside::Round,
    ];
}

/// Which part of the pauses counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// The second half.
    Late,
}

/// The comparison that is most certain for all of `arms` together.
pub fn best(records: &[Record], arms: &[Arm], seed: u64) -> Beside {
    let doubt = |beside: Beside| -> f64 {
        let errors = arms.iter().filter_map(|arm| {
            let found = of(records, *arm, beside, Part::Whole, seed)?;
            // Capped: one candidate that is not known at all decides nothing.
            Some(found.log_error().min(10.0).powi(2))
        });
        errors.sum()
    };
    let mut best = (f64::INFINITY, Beside::Round);
    for beside in Beside::ALL {
        let doubt = doubt(beside);
        if doubt > 0.0 && doubt < best.0 {
            best = (doubt, beside);
        }
    }
    best.1
}

/// Speed beside `arm` as a fraction of the speed while it is paused.
pub fn of(
    records: &[Record],
    arm: Arm,
    beside: Beside,
    part: Part,
    seed: u64,
) -> Option<Estimated> {
    let mut samples = Vec::new();
    for record in records.iter().filter(|record| !record.pause.spoiled) {
        let own = record.arm == arm;
        let mut add = |together: bool, window: Window| {
            samples.push(Sample {
                round: record.round,
                together,
                work: window.work,
                seconds: window.seconds,
                place: None,
            });
        };
        match beside {
            Beside::Own(reach) if own => add(true, record.pause.before[reach]),
            Beside::Own(_) => {}
            Beside::Round => add(true, record.pause.before[REACHES.len() - 1]),
        }
        if own {
            let [early, late] = record.pause.paused;
            add(
                false,
                match part {
                    Part::Whole => early.and(late),
                    Part::Late => late,
                },
            );
        }
    }
    estimate(&samples, seed)
}

/// Where the victim's time went; `None` where it is not known.
pub fn split(records: &[Record], arm: Arm) -> Option<TimeSplit> {
    let own = records
        .iter()
        .filter(|record| record.arm == arm && !record.pause.spoiled);
    let (mut running, mut paused) = (None::<Window>, None::<Window>);
    for record in own {
        let before = record.pause.before[REACHES.len() - 1];
        let [early, late] = record.pause.paused;
        running = Some(running.map_or(before, |sum| sum.and(before)));
        let both = early.and(late);
        paused = Some(paused.map_or(both, |sum| sum.and(both)));
    }
    let (running, paused) = (running?, paused?);
    let percent = |part: fn(&Window) -> Option<f64>| {
        Some(PausedAndNot {
            running: 100.0 * part(&running)? / running.seconds,
            paused: 100.0 * part(&paused)? / paused.seconds,
        })
    };
    let per_cpu = |window: &Window| {
        let cpu = window.cpu_seconds.filter(|seconds| *seconds > 0.0)?;
        (window.work > 0.0).then_some(window.work / cpu)
    };
    Some(TimeSplit {
        cpu_percent: percent(|window| window.cpu_seconds)?,
        waiting_percent: percent(|window| window.waited_seconds)?,
        slowed_per_cpu_second_percent: 100.0 * (1.0 - per_cpu(&running)? / per_cpu(&paused)?),
    })
}
