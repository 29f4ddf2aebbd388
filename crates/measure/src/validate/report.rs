//! What a validation found, as data.

use jostle_profile::MachineFacts;
use jostle_profile::Placement;
use jostle_profile::reading::Reading;
use jostle_statistics::ByNumber;
use serde::Deserialize;
use serde::Serialize;

/// Name of the format.
pub const FORMAT: &str = "jostle-validation/1";

/// What all sources of one machine showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    pub format: String,
    pub tool_version: String,
    /// RFC 3339, UTC.
    pub recorded_at: String,
    pub duration_seconds: f64,
    pub seed: u64,
    pub quick: bool,
    pub machine: MachineFacts,
    /// Where a target would run, and so where the victims of the matrix ran that
    /// need one CPU.
    pub target_cpu: usize,
    pub slice_period_seconds: f64,
    pub slice_share_percent: f64,
    /// In the order of the resources.
    pub sources: Vec<Source>,
    /// Every source on every victim that could be measured, the diagonal
    /// included.
    pub effects: Vec<Effect>,
    /// Cells of the matrix without a number, and why.
    pub missing: Vec<Missing>,
    /// Whether each victim points at its own resource.
    pub victims: Vec<Victim>,
    pub bars: Bars,
}

/// What is asked of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    pub r_squared: f64,
    pub worst_deviation_points: f64,
    pub strength_percent: f64,
    pub cross_talk_percent: f64,
    /// Most cells of the matrix that may be undecided or missing.
    pub unresolved_percent: f64,
}

impl Default for Bars {
    /// The bars of the measurement method.
    fn default() -> Self {
        Bars {
            r_squared: 0.99,
            worst_deviation_points: 5.0,
            strength_percent: 95.0,
            cross_talk_percent: 5.0,
            unresolved_percent: 10.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Measured,
    NotShared,
    Unavailable,
}

/// One source by itself, and where it would run beside a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub resource: String,
    /// Whether a target here can share the resource with it.
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it runs beside a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    pub linearity: Reading<Linearity>,
    /// For sources that hold a cache, where `linearity` shows what they go
    /// through: what is seen to be missing from it afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<Reading<Linearity>>,
    pub strength: Reading<Strength>,
}

/// Achieved against requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linearity {
    /// How what was achieved was learned.
    pub measured_by: String,
    /// Ascending by intensity.
    pub levels: Vec<Level>,
    /// Of the least-squares line through the levels' medians.
    pub r_squared: f64,
    pub slope: f64,
    /// Largest distance of a level's median from the requested intensity,
    /// points, and where.
    pub worst_deviation_points: f64,
    pub worst_at_percent: f64,
    /// Median over the levels of the spread (largest − smallest) of the
    /// repetitions, points.
    pub repeat_spread_points: f64,
    /// What is known of a curve that misses the bar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Repetitions at one intensity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub intensity_percent: f64,
    /// Per repetition, percent of full scale.
    pub achieved_percent: Vec<f64>,
    pub median_percent: f64,
}

/// What 100 % is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strength {
    /// Achieved at 100 %, in `unit`.
    pub achieved: f64,
    /// What 100 % stands for, in `unit`.
    pub full_scale: f64,
    pub unit: String,
    pub percent: f64,
    /// Where the full scale comes from.
    pub basis: String,
}

/// How large an effect is, judged by its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// Surely less than the bar.
    Small,
    /// Surely the bar or more.
    Large,
    /// The interval holds the bar.
    Unresolved,
}

/// What one source costs another at full strength.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub source: String,
    pub victim: String,
    /// Treated blocks, or windows, behind it.
    pub blocks: usize,
    /// Intensity that the source reached meanwhile, percent of what 100 stands
    /// for. Below 90 nothing is called small, except for sources whose intensity
    /// is a rate, from 50 on, when the interval in proportion to the pressure is.
    pub reached_percent: f64,
    /// Victim's performance under treatment ÷ under placebo, as percent lost;
    /// negative when it gained.
    pub loss_percent: f64,
    pub ci95: [f64; 2],
    pub size: Size,
    /// Why an effect on another resource is there; none on the diagonal and
    /// where nothing is to be explained or nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A cell of the matrix that has no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    pub source: String,
    pub victim: String,
    pub reason: String,
}

/// What a victim points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selectivity {
    /// Its own source surely costs it the bar or more, and no other surely costs
    /// it more.
    OwnFirst,
    /// Another source surely costs it more than its own.
    OtherFirst,
    /// Its own source surely costs it less than the bar: this machine, or the
    /// placement, does not show the resource.
    NotShownHere,
    /// What its own source costs it holds the bar.
    Unresolved,
    NotMeasured,
}

/// The demo that is made for one resource, under all sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    pub resource: String,
    pub selectivity: Selectivity,
    /// Sources that surely cost it the bar or more, the most expensive first.
    pub flagged: Vec<String>,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Effect {
    /// Whether source and victim press on different resources.
    pub fn is_cross_talk(&self) -> bool {
        self.source != self.victim
    }
}

impl Validation {
    /// Cross-talk at or above the bar with certainty, strongest first.
    pub fn large_effects(&self) -> Vec<&Effect> {
        let mut large: Vec<&Effect> = self
            .effects
            .iter()
            .filter(|effect| effect.is_cross_talk() && effect.size == Size::Large)
            .collect();
        large.sort_by_number(|it| -it.loss_percent.abs());
        large
    }

    /// The same, by source and known mechanism, strongest first; the victims of
    /// a group share the mechanism.
    pub fn large_groups(&self) -> Vec<Vec<&Effect>> {
        let mut groups: Vec<Vec<&Effect>> = Vec::new();
        for effect in self.large_effects() {
            let alike = |group: &&mut Vec<&Effect>| {
                group[0].source == effect.source && group[0].explanation == effect.explanation
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(effect),
                None => groups.push(vec![effect]),
            }
        }
        groups
    }

    /// Cells on other resources: all, and those undecided or missing.
    pub fn cells(&self) -> (usize, usize) {
        let cross = self.effects.iter().filter(|effect| effect.is_cross_talk());
        let missing = self.missing.iter();
        let missing = missing.filter(|cell| cell.source != cell.victim).count();
        let open = cross
            .clone()
            .filter(|effect| effect.size == Size::Unresolved);
        (cross.count() + missing, open.count() + missing)
    }

    /// What misses a bar or was not shown to hold it, in words; empty when all
    /// hold.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for source in &self.sources {
            let displaced = source.displaced.as_ref().and_then(Reading::reason);
            let unknown = [("", source.linearity.reason()), (" (displaced)", displaced)];
            for (which, reason) in unknown {
                failures.extend(
                    reason.map(|reason| {
                        format!("{}{which}: not measured: {reason}", source.resource)
                    }),
                );
            }
            let displaced = source.displaced.as_ref().and_then(Reading::value);
            let curves = [("", source.linearity.value()), (" (displaced)", displaced)];
            for (which, linearity) in curves {
                let Some(linearity) = linearity else { continue };
                if linearity.r_squared < self.bars.r_squared {
                    failures.push(format!(
                        "{}{which}: R² {:.4}, below {}",
                        source.resource, linearity.r_squared, self.bars.r_squared
                    ));
                }
                if linearity.worst_deviation_points > self.bars.worst_deviation_points {
                    failures.push(format!(
                        "{}{which}: {:.1} points off at {} %, more than {}",
                        source.resource,
                        linearity.worst_deviation_points,
                        linearity.worst_at_percent,
                        self.bars.worst_deviation_points
                    ));
                }
            }
            if let Reading::Value(strength) = &source.strength
                && strength.percent < self.bars.strength_percent
            {
                failures.push(format!(
                    "{}: reaches {:.1} % of its full scale, less than {} %",
                    source.resource, strength.percent, self.bars.strength_percent
                ));
            }
        }
        let (cells, open) = self.cells();
        let most = self.bars.unresolved_percent;
        if cells == 0 && self.sources.len() > 1 {
            failures.push("no effect of one source on another's victim was measured".into());
        } else if open as f64 > cells as f64 * most / 100.0 {
            failures.push(format!(
                "{open} of {cells} effects on other resources are unresolved, more than {most} %; \
                 --budget gives them more time"
            ));
        }
        for victim in &self.victims {
            if victim.selectivity == Selectivity::OtherFirst {
                failures.push(format!(
                    "the {} demo points at {} before its own resource",
                    victim.resource,
                    victim.flagged.join(", ")
                ));
            }
        }
        for effect in self.large_effects() {
            if effect.explanation.is_none() {
                failures.push(format!(
                    "{} on {}: {:.1} % lost, unexplained",
                    effect.source, effect.victim, effect.loss_percent
                ));
            }
        }
        failures
    }
}
