//! Sources that press by a timetable: steps, ramps and bursts, from a TOML file.
//! `scripts/schedules/shop.toml` explains the format.

use super::pattern_file;
pub use super::pattern_file::PatternError as ScheduleError;
use super::pattern_file::PatternText;
use super::pattern_file::start;
use jostle_profile::resource::Resource;
use serde::Deserialize;
use std::ops::Deref;
use toml::Spanned;

/// Most steps, repetitions included.
const MOST_STEPS: usize = 10_000;
/// Longest schedule, seconds: a week.
const LONGEST: f64 = 7.0 * 86_400.0;
/// Shortest step, and shortest burst and pause, seconds.
const SHORTEST: f64 = 0.01;
/// A ramp moves this often, seconds.
pub const RAMP_STEP: f64 = 0.1;

/// What presses when.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub tracks: Vec<Track>,
    /// Until the last step ends.
    pub seconds: f64,
}

/// The steps of one source, in the order of time, none overlapping another.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    pub resource: Resource,
    /// As written in the file.
    pub cpus: Option<String>,
    pub steps: Vec<Step>,
}

/// A stretch of time in which a source presses in one way. Seconds from the start
/// of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub from: f64,
    pub to: f64,
    pub shape: Shape,
}

/// Intensities in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Hold(f64),
    /// Evenly from one to the other.
    Ramp(f64, f64),
    Bursts {
        /// Between bursts.
        base: f64,
        high: f64,
        /// From the start of one burst to that of the next; the first begins with
        /// the step.
        every: f64,
        seconds: f64,
    },
}

impl Step {
    /// What is asked for at a time within the step.
    pub fn intensity(&self, at: f64) -> f64 {
        let passed = at - self.from;
        match self.shape {
            Shape::Hold(percent) => percent,
            Shape::Ramp(first, last) => {
                // The middle of each piece, so that the mean is that of the ramp.
                let piece = ((passed / RAMP_STEP + 1e-9).floor() + 0.5) * RAMP_STEP;
                let length = self.to - self.from;
                first + (last - first) * (piece / length).clamp(0.0, 1.0)
            }
            Shape::Bursts {
                base,
                high,
                every,
                seconds,
            } => {
                // Rounding must not make a burst begin a moment late.
                let round = (passed + 1e-9) % every;
                if round < seconds { high } else { base }
            }
        }
    }

    /// When it next asks for something else, at most its end.
    pub fn next_change(&self, at: f64) -> f64 {
        let passed = at - self.from + 1e-9;
        let next = match self.shape {
            Shape::Hold(_) => self.to,
            Shape::Ramp(..) => self.from + (passed / RAMP_STEP).floor() * RAMP_STEP + RAMP_STEP,
            Shape::Bursts { every, seconds, .. } => {
                let begin = self.from + (passed / every).floor() * every;
                let in_burst = passed % every < seconds;
                begin + if in_burst { seconds } else { every }
            }
        };
        next.min(self.to)
    }
}

impl Track {
    /// The step under way, by its index.
    pub fn at(&self, at: f64) -> Option<(usize, Step)> {
        let after = self.steps.partition_point(|step| step.from <= at);
        let index = after.checked_sub(1)?;
        let step = self.steps[index];
        (at < step.to).then_some((index, step))
    }

    /// When it next asks for something else; `None` when nothing is left.
    pub fn next_change(&self, at: f64) -> Option<f64> {
        match self.at(at) {
            Some((_, step)) => Some(step.next_change(at)),
            None => {
                let after = self.steps.partition_point(|step| step.from <= at);
                self.steps.get(after).map(|step| step.from)
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    repeat: Option<Spanned<i64>>,
    #[serde(default)]
    source: Vec<RawSource>,
    #[serde(default)]
    step: Vec<RawStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSource {
    name: Spanned<String>,
    cpus: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    source: Spanned<String>,
    #[serde(default)]
    at_seconds: Option<Spanned<f64>>,
    seconds: Spanned<f64>,
    intensity: Spanned<Intensity>,
    #[serde(default)]
    burst: Option<RawBurst>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Intensity {
    Hold(f64),
    Ramp([f64; 2]),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBurst {
    intensity: Spanned<f64>,
    every_seconds: Spanned<f64>,
    seconds: Spanned<f64>,
}

/// The schedule in the file called `name`.
///
/// # Errors
/// When there is no such file, or [`parse`] refuses it.
pub fn load(name: &str) -> Result<Schedule, ScheduleError> {
    parse(name, &pattern_file::read(name, "no such file")?)
}

/// Checks the schedule in `text`; `file` is for messages.
///
/// # Errors
/// TOML that is not well formed; a key that is unknown, missing or of the wrong
/// type; no step; unknown sources; intensities outside 0–100 %; times that are
/// out of bounds; steps of one source that overlap.
pub fn parse(file: &str, text: &str) -> Result<Schedule, ScheduleError> {
    Reader(PatternText { file, text }).read()
}

struct Reader<'a>(PatternText<'a>);

impl<'a> Deref for Reader<'a> {
    type Target = PatternText<'a>;

    fn deref(&self) -> &PatternText<'a> {
        &self.0
    }
}

/// The reader writes TOML, not Rust.
const WORDS: [(&str, &str); 3] = [
    (
        "expected a sequence",
        "expected a list; tables are [[source]] and [[step]]",
    ),
    (
        "data did not match any variant of untagged enum Intensity",
        "intensity: give percent, or for a ramp two of them like [10, 90]",
    ),
    ("expected struct RawStep", "expected [[step]] tables"),
];

impl Reader<'_> {
    fn read(&self) -> Result<Schedule, ScheduleError> {
        let raw: RawFile = self.parse(&WORDS)?;
        self.need(!raw.step.is_empty(), None, || {
            "holds no step; add at least one [[step]] with source, seconds and intensity".into()
        })?;
        let mut tracks: Vec<Track> = Vec::new();
        for step in &raw.step {
            let resource = self.resource(&step.source)?;
            if !tracks.iter().any(|track| track.resource == resource) {
                tracks.push(Track {
                    resource,
                    cpus: None,
                    steps: Vec::new(),
                });
            }
            for track in tracks.iter_mut().filter(|it| it.resource == resource) {
                let read = self.step(step, track)?;
                track.steps.push(read);
            }
        }
        for RawSource { name, cpus } in &raw.source {
            let resource = self.resource(name)?;
            let track = tracks.iter_mut().find(|track| track.resource == resource);
            let Some(track) = track else {
                let problem = format!("name = \"{resource}\": no [[step]] uses this source");
                return Err(self.error(start(name), problem));
            };
            self.need(track.cpus.is_none(), start(name), || {
                format!("there are two [[source]] tables for {resource}; remove one")
            })?;
            track.cpus = Some(cpus.clone());
        }
        let ends = tracks.iter().filter_map(|track| track.steps.last());
        let seconds = ends.map(|step| step.to).fold(0.0, f64::max);
        self.repeated(tracks, seconds, raw.repeat.as_ref())
    }

    fn repeated(
        &self,
        mut tracks: Vec<Track>,
        seconds: f64,
        repeat: Option<&Spanned<i64>>,
    ) -> Result<Schedule, ScheduleError> {
        let times = repeat.map_or(1, |repeat| *repeat.get_ref());
        let at = repeat.and_then(start);
        let steps: usize = tracks.iter().map(|track| track.steps.len()).sum();
        let most = (MOST_STEPS / steps.max(1))
            .min((LONGEST / seconds) as usize)
            .max(1);
        self.need((1..=most as i64).contains(&times), at, || {
            format!(
                "repeat = {times}: give 1 to {most}; a schedule has at most {MOST_STEPS} steps and \
                 takes at most a week"
            )
        })?;
        for track in &mut tracks {
            let once = track.steps.clone();
            for round in 1..times {
                let later = round as f64 * seconds;
                track.steps.extend(once.iter().map(|step| Step {
                    from: step.from + later,
                    to: step.to + later,
                    ..*step
                }));
            }
        }
        Ok(Schedule {
            tracks,
            seconds: seconds * times as f64,
        })
    }

    fn resource(&self, name: &Spanned<String>) -> Result<Resource, ScheduleError> {
        let parsed = name.get_ref().parse();
        parsed.map_err(|error| self.error(start(name), format!("{error}")))
    }

    fn percent(&self, value: f64, at: Option<usize>) -> Result<f64, ScheduleError> {
        self.need((0.0..=100.0).contains(&value), at, || {
            format!("intensity = {value}: give 0 to 100 %")
        })?;
        Ok(value)
    }

    fn seconds(&self, key: &str, value: &Spanned<f64>, least: f64) -> Result<f64, ScheduleError> {
        let length = *value.get_ref();
        self.need((least..=LONGEST).contains(&length), start(value), || {
            format!("{key} = {length}: give {least} to {LONGEST} (a week)")
        })?;
        Ok(length)
    }

    /// A step that follows those of `track`.
    fn step(&self, raw: &RawStep, track: &Track) -> Result<Step, ScheduleError> {
        let after = track.steps.last().map_or(0.0, |last| last.to);
        let from = match &raw.at_seconds {
            None => after,
            Some(at) => self.seconds("at_seconds", at, 0.0)?,
        };
        let (name, at) = (track.resource, raw.at_seconds.as_ref().and_then(start));
        self.need(from >= after - 1e-9, at, || {
            format!(
                "at_seconds = {from}: the step of {name} before this one ends at {after} s; steps of \
                 one source must not overlap and stand in the order of time"
            )
        })?;
        let to = from + self.seconds("seconds", &raw.seconds, SHORTEST)?;
        self.need(to <= LONGEST, start(&raw.seconds), || {
            "the schedule takes more than a week".into()
        })?;
        let at = start(&raw.intensity);
        let shape = match (*raw.intensity.get_ref(), &raw.burst) {
            (Intensity::Hold(percent), None) => Shape::Hold(self.percent(percent, at)?),
            (Intensity::Ramp([first, last]), None) => {
                Shape::Ramp(self.percent(first, at)?, self.percent(last, at)?)
            }
            (Intensity::Ramp(_), Some(_)) => {
                let problem = "intensity: a step with burst takes one number, for the time between \
                               bursts";
                return Err(self.error(at, problem.into()));
            }
            (Intensity::Hold(base), Some(burst)) => {
                let every = self.seconds("every_seconds", &burst.every_seconds, 2.0 * SHORTEST)?;
                let seconds = self.seconds("seconds", &burst.seconds, SHORTEST)?;
                self.need(seconds <= every - SHORTEST, start(&burst.seconds), || {
                    format!(
                        "seconds = {seconds}: a burst must end at least {SHORTEST} s before the next \
                         one, {every} s later"
                    )
                })?;
                Shape::Bursts {
                    base: self.percent(base, at)?,
                    high: self.percent(*burst.intensity.get_ref(), start(&burst.intensity))?,
                    every,
                    seconds,
                }
            }
        };
        Ok(Step { from, to, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "\
repeat = 2
[[source]]
name = \"l2-capacity\"
cpus = \"0\"
[[step]]
source = \"l2-capacity\"
seconds = 2
intensity = 50
[[step]]
source = \"l2-capacity\"
seconds = 4
intensity = [0, 100]
[[step]]
source = \"memory-bandwidth\"
at_seconds = 1
seconds = 3
intensity = 10
[step.burst]
intensity = 80
every_seconds = 1
seconds = 0.25
";

    #[test]
    fn steps_follow_each_other_and_repeat() {
        let schedule = parse("shop.toml", SHOP).unwrap();
        assert_eq!(schedule.seconds, 12.0);
        let [l2, memory] = &schedule.tracks[..] else {
            panic!("{schedule:?}");
        };
        assert_eq!(
            (l2.cpus.as_deref(), memory.cpus.as_deref()),
            (Some("0"), None)
        );
        let times = |track: &Track| -> Vec<(f64, f64)> {
            track
                .steps
                .iter()
                .map(|step| (step.from, step.to))
                .collect()
        };
        assert_eq!(times(l2), [(0.0, 2.0), (2.0, 6.0), (6.0, 8.0), (8.0, 12.0)]);
        assert_eq!(times(memory), [(1.0, 4.0), (7.0, 10.0)]);
        assert_eq!(memory.at(0.5), None);
        assert_eq!(memory.at(4.0), None);
        assert_eq!(memory.next_change(0.5), Some(1.0));
        assert_eq!(memory.next_change(4.0), Some(7.0));
        assert_eq!(memory.next_change(10.0), None);
        let intensity = |track: &Track, at| track.at(at).map(|(_, step)| step.intensity(at));
        assert_eq!(intensity(l2, 1.0), Some(50.0));
        for (at, percent) in [
            (1.0, 80.0),
            (1.3, 10.0),
            (2.1, 80.0),
            (3.9, 10.0),
            (7.0, 80.0),
        ] {
            assert_eq!(intensity(memory, at), Some(percent), "at {at}");
        }
    }

    /// Plays a track without hardware: what is asked for over time.
    fn mean(track: &Track, from: f64, to: f64) -> (f64, usize) {
        let (mut at, mut sum, mut switches) = (from, 0.0, 0);
        while at < to {
            let next = track.next_change(at).unwrap_or(to).min(to);
            assert!(next > at, "{at}: nothing changes");
            let asked = track.at(at).map_or(0.0, |(_, step)| step.intensity(at));
            sum += asked * (next - at);
            switches += 1;
            at = next;
        }
        (sum / (to - from), switches)
    }

    #[test]
    fn ramps_and_bursts_have_their_mean() {
        let schedule = parse("shop.toml", SHOP).unwrap();
        let [l2, memory] = &schedule.tracks[..] else {
            panic!("{schedule:?}");
        };
        let (ramp, pieces) = mean(l2, 2.0, 6.0);
        assert!((ramp - 50.0).abs() < 1e-6, "{ramp}");
        assert!((40..=41).contains(&pieces), "{pieces}");
        let (bursts, pieces) = mean(memory, 1.0, 4.0);
        assert!((bursts - 27.5).abs() < 1e-6, "{bursts}");
        assert_eq!(pieces, 6);
        let (all, _) = mean(memory, 0.0, 12.0);
        assert!((all - 27.5 / 2.0).abs() < 1e-6, "{all}");
        let down = Step {
            from: 0.0,
            to: 1.0,
            shape: Shape::Ramp(90.0, 10.0),
        };
        assert_eq!(down.intensity(0.0), 86.0);
        assert!((down.intensity(0.95) - 14.0).abs() < 1e-9);
    }

    #[test]
    fn a_bad_schedule_names_file_line_and_fix() {
        let cases: Vec<(String, Option<usize>, &[&str])> = vec![
            (String::new(), None, &["no step", "[[step]]"]),
            (
                SHOP.replace("= 50", "= 150"),
                Some(8),
                &["intensity = 150", "0 to 100"],
            ),
            (SHOP.replace("= 50", "= nan"), Some(8), &["intensity = NaN"]),
            (SHOP.replace("= 50", "= \"all\""), Some(8), &["[10, 90]"]),
            (SHOP.replace("= 50", "= [1, 2, 3]"), Some(8), &["[10, 90]"]),
            (
                SHOP.replace("[0, 100]", "[0, 101]"),
                Some(12),
                &["intensity = 101"],
            ),
            (
                SHOP.replace("seconds = 2\n", "seconds = 0\n"),
                Some(7),
                &["seconds = 0"],
            ),
            (
                SHOP.replace("= 0.25", "= 1"),
                Some(21),
                &["before the next"],
            ),
            (
                SHOP.replace("repeat = 2", "repeat = 0"),
                Some(1),
                &["repeat = 0"],
            ),
            (
                SHOP.replace("repeat = 2", "repeat = 99999"),
                Some(1),
                &["give 1 to"],
            ),
            (
                SHOP.replace("name = \"l2-capacity\"", "name = \"l1d\""),
                Some(3),
                &["no [[step]] uses"],
            ),
            (
                SHOP.replace("source = \"memory-bandwidth\"", "source = \"memory\""),
                Some(14),
                &["memory"],
            ),
            (
                SHOP.replace("source = \"memory-bandwidth\"", "source = \"l2-capacity\""),
                Some(15),
                &["at_seconds = 1", "ends at 6 s"],
            ),
            (SHOP.replace("at_seconds", "at"), None, &["at"]),
            (SHOP.replace("intensity = 50\n", ""), None, &["intensity"]),
        ];
        for (text, line, words) in cases {
            let error = parse("bad.toml", &text).expect_err(&text);
            let said = error.to_string();
            assert!(said.starts_with("bad.toml"), "{said}");
            if line.is_some() {
                assert_eq!(error.line, line, "{said}");
            }
            for word in words {
                assert!(said.contains(word), "'{word}' in: {said}");
            }
        }
    }
}
