//! Playing a schedule.

use super::outcome;
use super::outcome::Device;
use super::sources::Source;
use super::sources::Sources;
use crate::report::pressure;
use jostle_host::inject::Snapshot;
use jostle_host::inject::schedule::Schedule;
use jostle_host::inject::schedule::Shape;
use jostle_host::inject::schedule::Step;
use jostle_host::sys::control_page::Order;
use jostle_measure::console::note;
use jostle_measure::error::Result;
use jostle_profile::resource::Intensity;
use jostle_statistics::ByNumber;
use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

/// Longest time without a look at workers and at what is held, seconds.
const LOOK: f64 = 0.05;

/// What arrived of a schedule.
#[derive(Serialize)]
pub struct Played {
    /// In the order of time; those that were begun.
    pub steps: Vec<PlayedStep>,
    pub duration_seconds: f64,
}

/// What arrived in one step.
#[derive(Serialize)]
pub struct PlayedStep {
    pub resource: &'static str,
    pub from_seconds: f64,
    pub to_seconds: f64,
    /// How it was asked for, in words.
    pub asked: String,
    /// Mean over the time of the step.
    pub requested_percent: f64,
    pub achieved_pressure: f64,
    pub pressure_unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<String>,
    #[serde(flatten)]
    pub device: Option<Device>,
    #[serde(skip)]
    text: String,
}

/// The step that a source is in.
struct UnderWay {
    index: usize,
    step: Step,
    began: f64,
    first: Snapshot,
    /// Until when it is summed up, and what has been asked for since.
    seen: f64,
    intensity: f64,
    /// Intensity and what was held, each times seconds.
    asked: f64,
    held: f64,
}

impl UnderWay {
    fn new(index: usize, step: Step, at: f64, first: Snapshot) -> UnderWay {
        UnderWay {
            index,
            step,
            began: at,
            first,
            seen: at,
            intensity: 0.0,
            asked: 0.0,
            held: 0.0,
        }
    }

    /// Sums up until `at`.
    fn look(&mut self, at: f64, held: u64) {
        let passed = at - self.seen;
        self.asked += passed * self.intensity;
        self.held += passed * held as f64;
        self.seen = at;
    }

    fn end(mut self, at: f64, source: &Source) -> PlayedStep {
        let end = source.group.snapshot();
        self.look(at, end.held);
        let seconds = (at - self.began).max(1e-9);
        let requested = self.asked / seconds;
        let achieved = match source.group.plan.spec.intensity() {
            Intensity::Footprint => self.held / seconds,
            Intensity::Rate | Intensity::Share => source.group.pressure(&self.first, &end),
        };
        let achieved_percent = source.full.map(|full| achieved / full * 100.0);
        let device = Device::between(&source.group, &self.first, &end);
        let unit = source.resource.row().pressure_unit;
        let behind = outcome::behind(source.resource, device);
        let text = format!(
            "{:>9.2}-{:<9.2} {:<18} {:<26} {:>7.1} %  {:>9}  {}{}\n",
            self.began,
            at,
            source.resource.id(),
            words(&self.step),
            requested,
            achieved_percent.map_or("-".to_string(), |percent| format!("{percent:.1} %")),
            pressure(unit, achieved),
            behind.map_or(String::new(), |behind| format!("; {behind}")),
        );
        PlayedStep {
            resource: source.resource.id(),
            from_seconds: self.began,
            to_seconds: at,
            asked: words(&self.step),
            requested_percent: requested,
            achieved_pressure: achieved,
            pressure_unit: unit,
            achieved_percent,
            shortfall: achieved_percent
                .and_then(|it| outcome::shortfall(&source.group, requested, it, device)),
            device,
            text,
        }
    }
}

/// How a step presses.
fn words(step: &Step) -> String {
    match step.shape {
        Shape::Hold(percent) => format!("{percent} %"),
        Shape::Ramp(first, last) => format!("{first} to {last} %"),
        Shape::Bursts {
            base,
            high,
            every,
            seconds,
        } => format!("{base} %, {high} % for {seconds} of {every} s"),
    }
}

/// What would press where and when; `cpus` of each track.
pub fn describe(schedule: &Schedule, cpus: &[String]) -> String {
    let mut rows: Vec<(&Step, String)> = Vec::new();
    for (track, cpus) in schedule.tracks.iter().zip(cpus) {
        let row = |step| {
            let who = format!("{:<18} on CPUs {cpus}", track.resource.id());
            (step, who)
        };
        rows.extend(track.steps.iter().map(row));
    }
    rows.sort_by_number(|(it, _)| it.from);
    let mut text = format!("{:.2} s in {} steps\n", schedule.seconds, rows.len());
    for (step, who) in rows {
        text += &format!(
            "{:>9.2}-{:<9.2} {who}: {}\n",
            step.from,
            step.to,
            words(step)
        );
    }
    text
}

/// Presses as `schedule` says, one source for each of its tracks, until its end
/// or until interrupted.
///
/// # Errors
/// When a worker ends, or the machine waits for memory too much.
pub fn play(sources: &mut Sources<'_>, schedule: &Schedule) -> Result<Played> {
    note!(
        "{} sources are ready; the schedule takes {:.2} s",
        sources.all.len(),
        schedule.seconds
    );
    let began = Instant::now();
    let mut under_way: Vec<Option<UnderWay>> = schedule.tracks.iter().map(|_| None).collect();
    let mut steps = Vec::new();
    loop {
        let at = began.elapsed().as_secs_f64();
        let stop = sources.interrupted();
        let mut next = at + LOOK;
        let mut left = false;
        for (index, track) in schedule.tracks.iter().enumerate() {
            let source = &mut sources.all[index];
            let place = &mut under_way[index];
            let now = track.at(at).filter(|_| !stop);
            let ended = |under: &UnderWay| now.is_none_or(|(index, _)| index != under.index);
            if let Some(over) = place.take_if(|under| ended(under)) {
                if now.is_none() {
                    source.group.set(Order::Park);
                }
                steps.push(over.end(at, source));
            }
            if let Some((index, step)) = now {
                let begin = || UnderWay::new(index, step, at, source.group.snapshot());
                let under = place.get_or_insert_with(begin);
                under.look(at, source.group.snapshot().held);
                let wanted = step.intensity(at);
                if wanted != under.intensity || under.began == at {
                    source.group.set(match wanted > 0.0 {
                        true => Order::Treat(wanted),
                        false => Order::Idle,
                    });
                    under.intensity = wanted;
                }
            }
            if let Some(change) = track.next_change(at) {
                left = true;
                next = next.min(change);
            }
        }
        if stop || !left {
            break;
        }
        sources.check()?;
        let nap = next - began.elapsed().as_secs_f64();
        sleep(Duration::from_secs_f64(nap.max(0.0)));
    }
    steps.sort_by_number(|it| it.from_seconds);
    Ok(Played {
        steps,
        duration_seconds: began.elapsed().as_secs_f64(),
    })
}

impl Played {
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:>9} {:<9} {:<18} {:<26} {:>9}  {:>9}  {}\n",
            "seconds", "", "source", "asked", "mean", "achieved", "pressure"
        );
        for step in &self.steps {
            text += &step.text;
        }
        text
    }
}
