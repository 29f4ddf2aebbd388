//! Which of two builds is faster, from many starts of both.
//!
//! The start is the unit: two starts of one build differ by where their memory
//! happens to lie, however long each runs. Within a start the builds took turns, so
//! that what the machine did meanwhile happened to both, and each start is one ratio.
//! The interval is over these ratios and assumes nothing of them but that they are
//! even where the builds are.

use crate::gate::Judged;
use crate::gate::Judgement;
use jostle_profile::WarningFacts;
use jostle_profile::reading::Reading;
use jostle_statistics::fewest;
use jostle_statistics::location;
use jostle_statistics::paired;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The format of the document.
pub const FORMAT: &str = "jostle-builds/1";
/// What the interval holds the change with. A gate that fires on nothing once in
/// twenty builds is switched off soon, so this is more than the usual 95 %.
pub const LEVEL: f64 = 0.98;
/// Percent of speed that count as no change, unless told otherwise.
pub const MARGIN_PERCENT: f64 = 0.5;
/// Rounds of a start that a robust location can be taken of.
const ROBUST: usize = 8;
/// Seconds are rounded up to these.
const STEP_SECONDS: f64 = 5.0;

/// Work and seconds of OLD and of NEW, in turns next to each other.
pub type Round = [(f64, f64); 2];

/// The result: what ran, how much faster or slower NEW is, and what that means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Builds {
    pub format: String,
    pub tool_version: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub old: Vec<String>,
    pub new: Vec<String>,
    pub metric: Metric,
    pub cpus: Vec<usize>,
    pub seed: u64,
    /// All of the time, starts and all.
    pub seconds: f64,
    pub turn_seconds: f64,
    pub speed: Reading<Change>,
    pub verdict: Verdict,
    pub gate: Vec<Judged>,
    pub starts: Vec<Start>,
    pub warnings: Vec<WarningFacts>,
}

/// How speed was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    pub old: String,
    pub new: String,
    pub unit: String,
    /// In words, for people.
    pub about: String,
}

/// One start of each build.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Start {
    /// Speed, in the unit of the metric per second.
    pub old: f64,
    pub new: f64,
    /// Turns of each.
    pub turns: u64,
    pub change_percent: f64,
}

/// Speed of NEW against OLD.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Above 0 where NEW is faster.
    pub percent: f64,
    pub interval: [f64; 2],
    /// Probability that the interval holds the change.
    pub level: f64,
    /// Median speed over the starts.
    pub old: f64,
    pub new: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    Slower,
    Faster,
    /// More than the margin is ruled out.
    Same,
    CannotTell,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub word: Word,
    pub sentence: String,
    /// What it takes to tell a change as large as the margin.
    pub more_seconds: Option<f64>,
}

/// `speed < -1`: percent of change, below or above which a build fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedCondition {
    pub above: bool,
    pub limit_percent: f64,
}

/// One ratio from each start; those without any work say nothing.
pub fn starts(rounds: &[Vec<Round>]) -> Vec<Start> {
    let sums: Vec<Start> = rounds.iter().filter_map(|rounds| by_sums(rounds)).collect();
    let long = rounds.iter().filter(|rounds| rounds.len() >= ROBUST);
    if long.count() < rounds.len() || sums.len() < rounds.len() {
        return sums;
    }
    let robust: Vec<Start> = rounds
        .iter()
        .zip(&sums)
        .filter_map(|(rounds, sums)| by_location(rounds, sums))
        .collect();
    let logs = |starts: &[Start]| -> Vec<f64> {
        let change = |start: &Start| (0.01 * start.change_percent).ln_1p();
        starts.iter().map(change).collect()
    };
    let (sum_logs, robust_logs) = (logs(&sums), logs(&robust));
    if robust_logs.len() < sum_logs.len() {
        return sums;
    }
    // A few stalled turns are work that is missing where a build stalls, and noise
    // where the machine does.
    let apart: Vec<f64> = sum_logs
        .iter()
        .zip(&robust_logs)
        .map(|(a, b)| a - b)
        .collect();
    let width = |logs: &[f64]| paired(logs, LEVEL).map(|(_, [low, high])| high - low);
    let even = paired(&apart, LEVEL).is_some_and(|(_, [low, high])| low <= 0.0 && high >= 0.0);
    match (width(&sum_logs), width(&robust_logs)) {
        (Some(plain), Some(narrow)) if even && narrow < plain => robust,
        _ => sums,
    }
}

fn by_sums(rounds: &[Round]) -> Option<Start> {
    let sum = |side: usize| {
        let turns = rounds.iter().map(|round| round[side]);
        turns.fold((0.0, 0.0), |sum, turn| (sum.0 + turn.0, sum.1 + turn.1))
    };
    let [old, new] = [sum(0), sum(1)].map(|(work, seconds)| work / seconds);
    let fine = |rate: f64| rate.is_finite() && rate > 0.0;
    (fine(old) && fine(new)).then(|| Start {
        old,
        new,
        turns: rounds.len() as u64,
        change_percent: 100.0 * (new / old - 1.0),
    })
}

/// The same with the robust location of the ratios of neighbouring turns.
fn by_location(rounds: &[Round], sums: &Start) -> Option<Start> {
    let ratios = rounds.iter().filter_map(|[old, new]| {
        let ratio = (new.0 / new.1) / (old.0 / old.1);
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
    });
    let ratios: Vec<f64> = ratios.collect();
    (ratios.len() >= ROBUST).then(|| Start {
        change_percent: 100.0 * location(&ratios).exp_m1(),
        ..*sums
    })
}

/// What the starts say together.
pub fn change(starts: &[Start]) -> Reading<Change> {
    let logs: Vec<f64> = starts
        .iter()
        .map(|start| (0.01 * start.change_percent).ln_1p())
        .collect();
    let Some((middle, ends)) = paired(&logs, LEVEL) else {
        let least = fewest(LEVEL);
        return Reading::unavailable(format!(
            "each build was started {} times, and {least} are needed; give a longer --budget, or \
             commands that start faster",
            starts.len()
        ));
    };
    let percent = |log: f64| 100.0 * log.exp_m1();
    let median = |of: fn(&Start) -> f64| {
        let mut rates: Vec<f64> = starts.iter().map(of).collect();
        jostle_statistics::median(&mut rates)
    };
    Reading::Value(Change {
        percent: percent(middle),
        interval: ends.map(percent),
        level: LEVEL,
        old: median(|start| start.old),
        new: median(|start| start.new),
    })
}

/// What `change` means where up to `margin` percent count as none; `seconds` is what
/// it took to find out.
pub fn verdict(change: &Reading<Change>, margin: f64, seconds: f64) -> Verdict {
    let Some(found) = change.value() else {
        let reason = change.reason().unwrap_or("nothing was measured");
        return Verdict {
            word: Word::CannotTell,
            sentence: format!("Cannot tell: {reason}."),
            more_seconds: None,
        };
    };
    let [low, high] = found.interval;
    let within = low >= -margin && high <= margin;
    let size = found.percent.abs();
    let by = |word: &str, near: f64, far: f64| {
        format!(
            "NEW is {} % {word} than OLD ({} to {} %).",
            digits(size),
            digits(near),
            digits(far)
        )
    };
    let (word, sentence) = match () {
        () if within => (
            Word::Same,
            format!(
                "NEW is as fast as OLD: a change of more than {margin} % is ruled out ({} to {} %).",
                signed(low),
                signed(high)
            ),
        ),
        () if high < 0.0 => (Word::Slower, by("slower", -high, -low)),
        () if low > 0.0 => (Word::Faster, by("faster", low, high)),
        () => (
            Word::CannotTell,
            format!(
                "Cannot tell: NEW is between {} % slower and {} % faster than OLD.",
                digits(-low),
                digits(high)
            ),
        ),
    };
    let more = (word == Word::CannotTell).then(|| {
        let reach = 0.5 * (high - low);
        let more = seconds * ((reach / margin).powi(2) - 1.0);
        ((more / STEP_SECONDS).ceil() * STEP_SECONDS).max(STEP_SECONDS)
    });
    Verdict {
        word,
        sentence,
        more_seconds: more,
    }
}

/// Two digits that count, and one after the point at least.
pub fn digits(percent: f64) -> String {
    match percent.abs() {
        size if size < 0.095 => format!("{percent:.2}"),
        size if size < 9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

fn signed(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{}", digits(percent.abs()))
}

impl SpeedCondition {
    pub fn falls_below(percent: f64) -> SpeedCondition {
        SpeedCondition {
            above: false,
            limit_percent: -percent,
        }
    }

    pub fn judge(&self, change: &Reading<Change>) -> Judged {
        let limit = self.limit_percent;
        let found = change.value();
        let outcome = match found.map(|found| found.interval) {
            None => Judgement::CannotTell,
            Some([low, high]) => match (self.above, low > limit, high < limit) {
                (true, true, _) | (false, _, true) => Judgement::Failed,
                (true, _, true) | (false, true, _) => Judgement::Passed,
                _ => Judgement::CannotTell,
            },
        };
        Judged {
            condition: self.to_string(),
            resource: "speed".into(),
            outcome,
            value: found.map(|found| found.percent),
            ci95: None,
            reason: change.reason().map(String::from),
        }
    }
}

impl fmt::Display for SpeedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        write!(f, "speed {sign} {:+}", self.limit_percent)
    }
}

impl FromStr for SpeedCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || {
            format!(
                "'{text}' is not a condition on two builds; write for example 'speed < -1', which \
                 fails when NEW is shown to be more than 1 % slower"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(usage)?;
        let (left, right) = (text[..at].trim(), text[at + 1..].trim());
        let right = right.trim_end_matches('%').trim_end();
        let limit_percent: f64 = right.parse().map_err(|_| usage())?;
        match left == "speed" && limit_percent.is_finite() {
            true => Ok(SpeedCondition {
                above: text[at..].starts_with('>'),
                limit_percent,
            }),
            false => Err(usage()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_statistics::stream;
    use rand::RngExt;

    fn even(percent: &[f64]) -> Vec<Start> {
        let start = |change: &f64| Start {
            old: 100.0,
            new: 100.0 + change,
            turns: 10,
            change_percent: *change,
        };
        percent.iter().map(start).collect()
    }

    #[test]
    fn verdicts_say_what_the_interval_says() {
        let around = |middle: f64, reach: f64| -> Vec<Start> {
            let steps: Vec<f64> = (-10..=10)
                .map(|step| middle + reach * f64::from(step) / 10.0)
                .collect();
            even(&steps)
        };
        let of = |starts: &[Start]| verdict(&change(starts), 0.5, 20.0);
        let slower = of(&around(-1.3, 1.0));
        assert_eq!(slower.word, Word::Slower);
        assert!(
            slower
                .sentence
                .starts_with("NEW is 1.3 % slower than OLD (1.0 to 1.7 %)"),
            "{slower:?}"
        );
        assert_eq!(of(&around(2.0, 1.0)).word, Word::Faster);
        assert_eq!(of(&around(0.02, 0.5)).word, Word::Same);
        let open = of(&around(0.2, 4.0));
        assert_eq!(open.word, Word::CannotTell);
        // Three times the margin takes about nine times as long.
        assert!(
            open.more_seconds
                .is_some_and(|more| (100.0..300.0).contains(&more)),
            "{open:?}"
        );
        let few = of(&even(&[1.0, 2.0]));
        assert_eq!((few.word, few.more_seconds), (Word::CannotTell, None));
        assert!(few.sentence.contains("--budget"));
    }

    #[test]
    fn conditions_are_judged_by_the_whole_interval() {
        let steps: Vec<f64> = (-10..=10)
            .map(|step| -3.0 + 0.1 * f64::from(step))
            .collect();
        let change = change(&even(&steps));
        let judge = |text: &str| {
            text.parse::<SpeedCondition>()
                .unwrap()
                .judge(&change)
                .outcome
        };
        assert_eq!(judge("speed < -1"), Judgement::Failed);
        assert_eq!(judge("speed<-5 %"), Judgement::Passed);
        assert_eq!(judge("speed < -3"), Judgement::CannotTell);
        assert_eq!(judge("speed > +1"), Judgement::Passed);
        assert_eq!(SpeedCondition::falls_below(1.0).to_string(), "speed < -1");
        for wrong in ["l1d.loss > +5", "speed", "speed < x", "speed < nan"] {
            assert!(
                wrong
                    .parse::<SpeedCondition>()
                    .unwrap_err()
                    .contains("speed < -1")
            );
        }
    }

    /// Starts that differ by their luck, turns that the machine steals, drift that
    /// both see, and rare long stalls: what equal builds look like.
    fn recorded(new_percent: f64, seed: u64) -> Vec<Vec<Round>> {
        let mut rng = stream(seed, 1);
        let mut noise = |size: f64| {
            let sum: f64 = (0..6).map(|_| rng.random::<f64>() - 0.5).sum();
            size * sum * 2f64.sqrt()
        };
        let mut starts = Vec::new();
        for _ in 0..36 {
            let luck = [noise(0.01), noise(0.01)];
            let mut rounds = Vec::new();
            for _ in 0..24 {
                let drift = noise(0.1);
                let mut round = [(0.0, 0.0); 2];
                for (side, turn) in round.iter_mut().enumerate() {
                    let stolen = if noise(1.0) > 1.9 { 0.5 } else { 1.0 };
                    let faster = if side == 1 {
                        1.0 + 0.01 * new_percent
                    } else {
                        1.0
                    };
                    let rate = 1e6 * faster * stolen * (1.0 + drift + luck[side] + noise(0.03));
                    *turn = (rate * 0.004, 0.004);
                }
                rounds.push(round);
            }
            starts.push(rounds);
        }
        starts
    }

    fn word(new_percent: f64, seed: u64) -> Word {
        let found = change(&starts(&recorded(new_percent, seed)));
        verdict(&found, MARGIN_PERCENT, 20.0).word
    }

    #[test]
    fn equal_builds_are_rarely_told_apart() {
        let told = |seed: &u64| matches!(word(0.0, *seed), Word::Slower | Word::Faster);
        let claims = (0..400).filter(told).count();
        // One in fifty is promised.
        assert!(claims <= 16, "{claims} of 400");
    }

    #[test]
    fn a_planted_change_is_found() {
        let found = (0..60)
            .filter(|seed| word(-1.5, *seed) == Word::Slower)
            .count();
        assert!(found >= 57, "{found} of 60");
    }

    /// A build that waits now and then does less, however fast its other turns are.
    #[test]
    fn rare_stalls_count() {
        let mut rounds = recorded(0.0, 7);
        for (at, start) in rounds.iter_mut().enumerate() {
            start[at % 24][1].0 = 0.0;
            start[(at + 11) % 24][1].0 = 0.0;
        }
        let found = change(&starts(&rounds));
        let found = found.value().unwrap();
        assert!(found.interval[1] < -5.0, "{found:?}");
    }
}
